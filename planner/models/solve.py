"""Solve the model phase by phase: each objective is fixed before the next one is looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.metadata import version
from typing import cast

from msgspec import structs

from islander.policy.settings import DemandMix
from planner.interruption import SearchInterrupted
from planner.models.assignment import RULES
from planner.models.classes import Classes, classes_of, pairs_of, thinned
from planner.models.light_ortools import cp_model
from planner.models.naming import Named, named
from planner.models.objectives import Term, terms_of
from planner.models.stoppable import until_stopped
from planner.models.variables import Case, MoveVars, total, variables_of
from planner.options import PlanOptions, SolveLimits
from planner.plan import Phase
from planner.problem import Problem
from planner.world import World

SOLVER_NAME = "OR-Tools CP-SAT"
SOLVER_VERSION = version("ortools")
# Later phases get at least this long each, so that a phase without proof does not starve those after it.
LEAST_SECONDS = 0.2
# No phase but the last takes more than this share of what is left.
SHARE_OF_PHASE = 0.6
# So many (pod type, site) pairs make a model that is still solved in seconds.
MAX_PAIRS = 20_000
TOLERANCE = 1e-6
# An answer without proof before this share of its time is one that was asked to stop.
EARLY = 0.8


class SolveStatus(StrEnum):
    """What came of a solve."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


_STATUS: Mapping[object, SolveStatus] = {
    cp_model.OPTIMAL: SolveStatus.OPTIMAL,
    cp_model.FEASIBLE: SolveStatus.FEASIBLE,
    cp_model.INFEASIBLE: SolveStatus.INFEASIBLE,
    cp_model.UNKNOWN: SolveStatus.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a solve is: the objective that is worked on, its best value and proved bound, and the time spent."""

    phase: str
    best: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """Distance from the best value to the bound, as a share of the larger one; 0 when proved."""
        largest = max(abs(self.best), abs(self.bound))
        return abs(self.best - self.bound) / largest if largest else 0.0


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Who goes where, in no order yet.

    Attributes
    ----------
    moves, admits
        Target node by pod key and by demand key.
    turns
        Of pods that come to nodes on which links count: who comes first to the same node has the lowest number.
    phases
        The objectives in their order.
    status
        Optimal when every phase is proved.
    exact
        True when no legal plan is outside the model: then the bounds hold for plans, not only for proposals.
    interrupted
        True when the user stopped the search.
    """

    moves: Mapping[str, str]
    admits: Mapping[str, str]
    turns: Mapping[str, int]
    phases: tuple[Phase, ...]
    status: SolveStatus
    exact: bool
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class _Built:
    case: Case
    model: cp_model.CpModel
    variables: MoveVars


def build(case: Case) -> tuple[cp_model.CpModel, MoveVars]:
    """Return the model with all its rules, and its variables; it has no objective yet."""
    model = cp_model.CpModel()
    variables = variables_of(case, model)
    for rule in RULES:
        rule(case, variables, model)
    return model, variables


def stay(case: Case, v: MoveVars) -> dict[int, int]:
    """Return the solution in which nothing moves and nothing is admitted, by index of the variable."""
    values = {variable.index: 0 for variable in v.all()}
    for c, node_class in enumerate(case.classes.classes):
        if case.leavings[c] is None:
            values[v.room[c, node_class.spare].index] = 1
        else:
            values[v.leave[c, 0].index] = len(node_class.nodes)
    return values


def classes_for(problem: Problem, world: World, options: PlanOptions) -> Classes:
    """Return a problem in counts, as fine as the options need it."""
    return classes_of(problem, world, per_workload=options.max_moves_per_workload is not None)


def propose(
    problem: Problem,
    world: World,
    options: PlanOptions,
    mix: DemandMix,
    classes: Classes,
    on_progress: OnProgress | None = None,
) -> Proposal:
    """Return the best proposal that the time allows; there always is one, at worst to move nothing."""
    return _solve(Case.of(problem, world, options, classes, mix), options.limits, on_progress)


def is_large(classes: Classes) -> bool:
    """Return whether the model would have too many variables because CPU or memory are scarce."""
    scarce = any(site.left_over is not None for site in classes.sites)
    return scarce and pairs_of(classes) > MAX_PAIRS


def propose_roughly(
    problem: Problem,
    world: World,
    options: PlanOptions,
    mix: DemandMix,
    limits: SolveLimits,
    on_progress: OnProgress | None = None,
) -> Proposal:
    """Return a proposal that takes CPU, memory and pod slots for sufficient: its bounds hold, it may not fit."""
    per_workload = options.max_moves_per_workload is not None
    classes = classes_of(problem, world, per_workload=per_workload, ignore_scarcity=True)
    return _solve(Case.of(problem, world, options, classes, mix), limits, on_progress)


def propose_thinly(
    problem: Problem,
    world: World,
    options: PlanOptions,
    mix: DemandMix,
    classes: Classes,
    limits: SolveLimits,
    rough: Proposal,
    on_progress: OnProgress | None = None,
) -> Proposal:
    """Return a proposal that fits, with few targets per pod; its bounds are those of the rough one where they hold."""
    found = _solve(Case.of(problem, world, options, thinned(classes, MAX_PAIRS), mix), limits, on_progress)
    bounds = {phase.name: phase for phase in rough.phases}
    phases: list[Phase] = []
    holds = True
    for phase in found.phases:
        # A bound is one for those who reached the same in all phases before.
        known = bounds.get(phase.name)
        bound = known.bound if holds and known is not None else phase.bound
        met = holds and known is not None and abs(bound - phase.value) < TOLERANCE
        status = SolveStatus.OPTIMAL if met else SolveStatus.FEASIBLE
        phases.append(structs.replace(phase, bound=bound, status=status.value))
        holds = met
    status = SolveStatus.OPTIMAL if holds else SolveStatus.FEASIBLE
    return replace(found, phases=tuple(phases), status=status, exact=holds)


def _solve(case: Case, limits: SolveLimits, on_progress: OnProgress | None) -> Proposal:
    started = time.monotonic()
    model, variables = build(case)
    best, phases = stay(case, variables), []
    interrupted = False
    terms = terms_of(case, variables)
    for number, term in enumerate(terms):
        left = max(LEAST_SECONDS, limits.time_limit_seconds - (time.monotonic() - started))
        share = left if number + 1 == len(terms) else max(LEAST_SECONDS, left * SHARE_OF_PHASE)
        try:
            phase, found, interrupted = _phase(model, variables, term, best, limits, share, on_progress)
        except SearchInterrupted:
            interrupted = True
            break
        phases.append(phase if case.exact else _loosened(case, term, phase))
        if found is not None:
            best = found
        if interrupted:
            break
    try:
        places: Named = named(case, variables, best)
    except SearchInterrupted:
        # Without names there is nothing to show for the search; only the first request to stop comes this way.
        interrupted = True
        places = named(case, variables, best)
    proved = all(phase.status == SolveStatus.OPTIMAL for phase in phases) and not interrupted
    status = SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE
    return Proposal(places.moves, places.admits, places.turns, tuple(phases), status, case.exact, interrupted)


def _loosened(case: Case, term: Term, phase: Phase) -> Phase:
    """Return the phase with a bound that holds whatever the model leaves out.

    Nothing is below zero, and no plan admits more than waits, nor more than is free: moves free as much as they take.
    """
    bound = 0.0
    if term.maximise:
        bound = phase.bound
        if term.tier is not None:
            waiting = [kind for kind in case.classes.demands if kind.rank == term.tier]
            free = sum(
                case.world.state(node, resource).free
                for resource in sorted({kind.footprint.need.resource for kind in waiting})
                for site in case.classes.sites
                for node in site.nodes
            )
            bound = float(min(free, sum(len(kind.pods) * kind.gpus for kind in waiting)))
    proved = abs(bound - phase.value) < TOLERANCE and (not term.maximise or term.tier is not None)
    status = SolveStatus.OPTIMAL.value if proved else SolveStatus.FEASIBLE.value
    return structs.replace(phase, bound=bound, status=status)


def _phase(
    model: cp_model.CpModel,
    v: MoveVars,
    term: Term,
    best: Mapping[int, int],
    limits: SolveLimits,
    seconds: float,
    on_progress: OnProgress | None,
) -> tuple[Phase, dict[int, int] | None, bool]:
    """Optimise one term, fix what was reached, and return the phase, the solution, and whether the user broke in."""
    started = time.monotonic()
    objective = total(term.parts)
    if term.at_most is not None:
        reached = model.new_int_var(0, term.at_most, f"reached[{term.name}]")
        model.add(reached <= objective)
        objective = reached
    # The method has no types of its own.
    cast("Callable[[], None]", model.clear_hints)()
    for variable in v.all():
        model.add_hint(variable, best[variable.index])
    if term.maximise:
        model.maximize(objective)
    else:
        model.minimize(objective)
    solver = _solver(limits, seconds)
    report = _Reporter(term.name, started, on_progress) if on_progress is not None else None
    code, interrupted = until_stopped(solver, model, report)
    status = _STATUS.get(code)
    if status is None:
        raise RuntimeError(f"the model of phase {term.name!r} is not valid: {model.validate()}")
    spent = time.monotonic() - started
    if status in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE):
        found = {variable.index: solver.value(variable) for variable in v.all()}
        value, bound = float(solver.objective_value), float(solver.best_objective_bound)
    else:
        found = None
        value = float(sum(best[variable.index] * weight for variable, weight in term.parts))
        bound = float(solver.best_objective_bound) if not interrupted else value
    if term.maximise:
        model.add(objective >= round(value))
    else:
        model.add(objective <= round(value))
    # Adding zero turns -0.0 into 0.0.
    return Phase(term.name, value + 0.0, bound + 0.0, status.value, round(spent, 3)), found, interrupted


def _solver(limits: SolveLimits, seconds: float) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    return solver


class _Reporter(cp_model.CpSolverSolutionCallback):
    """Hands every better solution on."""

    def __init__(self, phase: str, started: float, on_progress: OnProgress) -> None:
        super().__init__()
        self._phase, self._started, self._on_progress = phase, started, on_progress

    def on_solution_callback(self) -> None:
        """Report the solution that was just found."""
        seconds = time.monotonic() - self._started
        best, bound = self.objective_value + 0.0, self.best_objective_bound + 0.0
        self._on_progress(Progress(self._phase, best, bound, seconds))
