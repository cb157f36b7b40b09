"""Solve the model phase by phase: each objective is fixed before the next one is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from islander.policy.settings import DemandMix
from planner.interruption import SearchInterrupted
from planner.models.assignment import RULES
from planner.models.classes import Classes, pairs_of, thinned
from planner.models.light_ortools import cp_model
from planner.models.naming import Named, named
from planner.models.objectives import Term, terms_of
from planner.models.outcome import OnProgress, Progress, SolveStatus
from planner.models.phases import LEAST_SECONDS, SHARE_OF_PHASE, Objective, optimise
from planner.models.sites import classes_of
from planner.models.variables import Case, MoveVars, total, variables_of
from planner.options import PlanOptions, SolveLimits
from planner.plan import Phase
from planner.problem import Problem
from planner.world import World

__all__ = [
    "LEAST_SECONDS",
    "SHARE_OF_PHASE",
    "OnProgress",
    "Progress",
    "Proposal",
    "SolveStatus",
    "build",
    "classes_for",
    "is_large",
    "propose",
    "propose_roughly",
    "propose_thinly",
    "stay",
]

# So many (pod type, site) pairs make a model that is still solved in seconds.
MAX_PAIRS = 20_000
TOLERANCE = 1e-6


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
    model, variables = build(case)
    terms, values = terms_of(case, variables), stay(case, variables)
    objectives = [_objective(case, term, model, values) for term in terms]
    chosen = [*variables.all(), *(x for o in objectives for x, _ in o.parts if x.index not in values)]
    values |= {variable.index: 0 for variable in chosen if variable.index not in values}
    reached = optimise(model, chosen, objectives, values, limits, on_progress)
    interrupted = reached.interrupted
    try:
        places: Named = named(case, variables, reached.values)
    except SearchInterrupted:
        # Without names there is nothing to show for the search; only the first request to stop comes this way.
        interrupted = True
        places = named(case, variables, reached.values)
    phases = reached.phases
    if not case.exact:
        phases = tuple(_loosened(case, term, phase) for term, phase in zip(terms, phases, strict=False))
    proved = all(phase.status == SolveStatus.OPTIMAL for phase in phases) and not interrupted
    status = SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE
    return Proposal(places.moves, places.admits, places.turns, phases, status, case.exact, interrupted)


def _objective(case: Case, term: Term, model: cp_model.CpModel, values: Mapping[int, int]) -> Objective:
    """Return a term as an objective; what is worth something only up to a number is counted by a variable."""
    parts = term.parts
    if term.at_most is not None:
        reached = model.new_int_var(0, term.at_most, f"reached[{term.name}]")
        model.add(reached <= total(parts))
        parts = ((reached, 1),)
    known = None if term.tier is None else _most_admitted(case, term.tier)
    return Objective(term.name, parts, term.maximise, joint=term.first, known=known, guide=term.guide)


def _most_admitted(case: Case, tier: int) -> int:
    """Return GPUs that no plan exceeds: more than waits, or than is free; moves free as much as they take."""
    waiting = [kind for kind in case.classes.demands if kind.rank == tier]
    free = sum(
        case.world.state(node, resource).free
        for resource in sorted({kind.footprint.need.resource for kind in waiting})
        for site in case.classes.sites
        for node in site.nodes
    )
    return min(free, sum(len(kind.pods) * kind.gpus for kind in waiting))


def _loosened(case: Case, term: Term, phase: Phase) -> Phase:
    """Return the phase with a bound that holds whatever the model leaves out: nothing is below zero."""
    bound = 0.0
    if term.maximise:
        bound = phase.bound if term.tier is None else float(_most_admitted(case, term.tier))
    proved = abs(bound - phase.value) < TOLERANCE and (not term.maximise or term.tier is not None)
    status = SolveStatus.OPTIMAL.value if proved else SolveStatus.FEASIBLE.value
    return structs.replace(phase, bound=bound, status=status)
