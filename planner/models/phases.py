"""Objectives one after the other: what was reached of one is fixed before the next one is looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from planner.interruption import SearchInterrupted
from planner.models.light_ortools import cp_model
from planner.models.outcome import STATUS, OnProgress, Progress, SolveStatus
from planner.models.stoppable import until_stopped
from planner.options import SolveLimits
from planner.plan import Phase

Expression = cp_model.LinearExprT

# Later phases get at least this long each, so that a phase without proof does not starve those after it.
LEAST_SECONDS = 0.2
# No phase but the last takes more than this share of what is left.
SHARE_OF_PHASE = 0.6
# The start that is to be good for all of them takes no more than this share of all time.
SHARE_OF_BEGIN = 0.4
START = "a good start"
# It need not be the best one.
GAP_OF_BEGIN = 0.003
TIE_SECONDS = 3.0
# Of several workers one begins alone, for this share of the time.
SHARE_OF_ONE = 0.4
# Objectives are weighted into one only while the sum stays far from where floating point numbers lose whole ones.
MOST_JOINT = 10**10


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective: constant + sum of weight x variable, to be made as small or as large as can be.

    Attributes
    ----------
    tie
        True when it only chooses between plans that are equally good to a person; it gets `TIE_SECONDS` at most.
    joint
        True when it is tried together with those before it first: the first objectives are then often proved at once.
    known
        A bound that holds for reasons that the model does not know.
    guide
        What one more is about worth beside the other objectives: a solution that is good by that sum is found sooner
        than one that is good by the first objective alone, and is a good start for all.
    """

    name: str
    parts: tuple[tuple[cp_model.IntVar, int], ...]
    maximise: bool = False
    constant: int = 0
    tie: bool = False
    joint: bool = False
    known: int | None = None
    guide: int = 0

    def of(self, values: Mapping[int, int]) -> int:
        """Return the value of a solution, given by index of the variables."""
        return self.constant + sum(weight * values[variable.index] for variable, weight in self.parts)

    def limit(self) -> int:
        """Return a bound that holds whatever the rules are: every variable at the end of its range that is better."""
        end = self._end(better=True)
        if self.known is None:
            return end
        return min(end, self.known) if self.maximise else max(end, self.known)

    def span(self) -> int:
        """Return how far values can be from the limit."""
        return abs(self.limit() - self._end(better=False))

    def expression(self) -> Expression:
        """Return the objective as the solver takes it."""
        variables = [variable for variable, _ in self.parts]
        weighted = cp_model.LinearExpr.weighted_sum(variables, [weight for _, weight in self.parts])
        return weighted + self.constant

    def _end(self, *, better: bool) -> int:
        # The solver's list of ends takes no negative index.
        ends = [([int(end) * weight for end in list(x.proto.domain)]) for x, weight in self.parts]
        return self.constant + sum(max(each) if self.maximise is better else min(each) for each in ends)


@dataclass(frozen=True, slots=True)
class Reached:
    """What came of all phases: the best solution by index of the variables, and each objective's value and bound."""

    values: Mapping[int, int]
    phases: tuple[Phase, ...]
    interrupted: bool = False

    @property
    def status(self) -> SolveStatus:
        """Optimal when every phase is proved."""
        proved = all(phase.status == SolveStatus.OPTIMAL for phase in self.phases) and not self.interrupted
        return SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE


def optimise(
    model: cp_model.CpModel,
    variables: Sequence[cp_model.IntVar],
    objectives: Sequence[Objective],
    start: Mapping[int, int],
    limits: SolveLimits,
    on_progress: OnProgress | None = None,
) -> Reached:
    """Return the best solution by all objectives in their order that the time allows; at worst it is `start`.

    Parameters
    ----------
    start
        A solution, by index of the variables.
    """
    phases: list[Phase] = []
    search = _Search(model, variables, dict(start), limits, on_progress)
    try:
        search.begin([objective for objective in objectives if objective.guide])
        for objective in objectives:
            if not search.is_at_limit(objective) or len(phases) + 1 == len(objectives):
                break
            phases.append(search.phase(objective, last=False))
        together = _together(objectives[len(phases) :])
        if len(together) > 1 and not search.interrupted:
            phases += search.joint(together)
        for number in range(len(phases), len(objectives)):
            if search.interrupted:
                break
            phases.append(search.phase(objectives[number], last=number + 1 == len(objectives)))
    except SearchInterrupted:
        search.interrupted = True
    return Reached(search.best, tuple(phases), search.interrupted)


def _together(objectives: Sequence[Objective]) -> list[Objective]:
    """Return the first objectives, as many as are to be tried, and can be weighted, together."""
    chosen: list[Objective] = []
    largest = 1
    for objective in objectives:
        largest *= objective.span() + 1
        if not objective.joint or largest > MOST_JOINT:
            break
        chosen.append(objective)
    return chosen


@dataclass(slots=True)
class _Search:
    """The search so far: its best solution, and what is known of the first objective."""

    model: cp_model.CpModel
    variables: Sequence[cp_model.IntVar]
    best: dict[int, int]
    limits: SolveLimits
    on_progress: OnProgress | None
    interrupted: bool = False
    bound_of_first: float | None = None
    began: float = 0.0

    def __post_init__(self) -> None:
        self.began = time.monotonic()

    def begin(self, objectives: Sequence[Objective]) -> None:
        """Look for a good start for all phases."""
        if len(objectives) > 1:
            whole = sum((o.guide if o.maximise else -o.guide) * o.expression() for o in objectives)
            seconds = max(LEAST_SECONDS, self.limits.time_limit_seconds * SHARE_OF_BEGIN)
            self.model.maximize(whole)
            self._solve_with(1, seconds, START, None, gap=GAP_OF_BEGIN)

    def joint(self, objectives: Sequence[Objective]) -> list[Phase]:
        """Look for what is best by all objectives in their order at once; no phases where that is not proved."""
        began = time.monotonic()
        weights = [1]
        for objective in reversed(objectives[1:]):
            weights.append(weights[-1] * (objective.span() + 1))
        weights.reverse()
        signs = [1 if objective.maximise else -1 for objective in objectives]
        whole = sum(s * w * o.expression() for s, w, o in zip(signs, weights, objectives, strict=True))
        # The limits of all but the first are the least that is taken off, so that the rest of the sum bounds the first.
        others = sum(s * w * o.limit() for s, w, o in zip(signs[1:], weights[1:], objectives[1:], strict=True))
        spread = sum(w * o.span() for w, o in zip(weights[1:], objectives[1:], strict=True))
        first = objectives[0]

        def of_first(of_all: float) -> float:
            """Return the value of the first objective in a value of all; the others together never make up one step."""
            return signs[0] * ((of_all - others + spread) // weights[0])

        status, bound = self._solve(whole, True, self._share(last=False), first.name, of_first)
        if status is not SolveStatus.OPTIMAL:
            self.bound_of_first = None if bound is None else of_first(bound)
            return []
        spent = time.monotonic() - began
        phases = []
        for objective in objectives:
            value = self._fix(objective)
            phases.append(Phase(objective.name, value, value, status.value, round(spent, 3)))
            spent = 0.0
        return phases

    def phase(self, objective: Objective, *, last: bool) -> Phase:
        """Look for the best by one objective, and fix what was reached."""
        began = time.monotonic()
        limit, bound_of_first, self.bound_of_first = objective.limit(), self.bound_of_first, None
        if self.is_at_limit(objective):
            value = self._fix(objective)
            return Phase(objective.name, value, value, SolveStatus.OPTIMAL.value, 0.0)
        seconds = self._share(last=last)
        seconds = min(seconds, TIE_SECONDS) if objective.tie else seconds
        status, bound = self._solve(objective.expression(), objective.maximise, seconds, objective.name, float)
        value = self._fix(objective)
        known = [float(limit), *(known for known in (bound, bound_of_first) if known is not None)]
        best_known = min(known) if objective.maximise else max(known)
        if best_known == value:
            status = SolveStatus.OPTIMAL
        # Adding zero turns -0.0 into 0.0.
        spent = round(time.monotonic() - began, 3)
        return Phase(objective.name, value, best_known + 0.0, status.value, spent)

    def is_at_limit(self, objective: Objective) -> bool:
        """Return whether the best solution so far cannot be bettered by an objective."""
        return not objective.parts or objective.of(self.best) == objective.limit()

    def _share(self, *, last: bool) -> float:
        left = max(LEAST_SECONDS, self.limits.time_limit_seconds - (time.monotonic() - self.began))
        return left if last else max(LEAST_SECONDS, left * SHARE_OF_PHASE)

    def _fix(self, objective: Objective) -> float:
        value = objective.of(self.best)
        if objective.parts:
            expression = objective.expression()
            self.model.add(expression >= value if objective.maximise else expression <= value)
        return float(value)

    def _solve(
        self, expression: Expression, maximise: bool, seconds: float, name: str, told: Callable[[float], float] | None
    ) -> tuple[SolveStatus, float | None]:
        """Keep the best solution by an expression, and return the status and the bound, None when there is none.

        One worker begins alone: it needs half the processor time of several, which share what the machine has left.
        """
        if maximise:
            self.model.maximize(expression)
        else:
            self.model.minimize(expression)
        began = time.monotonic()
        status, bound = SolveStatus.UNKNOWN, None
        if self.limits.workers > 1:
            status, bound = self._solve_with(1, seconds * SHARE_OF_ONE, name, told)
        if status is not SolveStatus.OPTIMAL and not self.interrupted:
            left = max(LEAST_SECONDS, seconds - (time.monotonic() - began))
            again, bound_again = self._solve_with(self.limits.workers, left, name, told)
            bounds = [known for known in (bound, bound_again) if known is not None]
            bound = (min if maximise else max)(bounds, default=None)
            status = again if again is not SolveStatus.UNKNOWN else status
        return status, bound

    def _solve_with(
        self, workers: int, seconds: float, name: str, told: Callable[[float], float] | None, *, gap: float = 0.0
    ) -> tuple[SolveStatus, float | None]:
        # The method has no types of its own.
        cast("Callable[[], None]", self.model.clear_hints)()
        for variable in self.variables:
            self.model.add_hint(variable, self.best[variable.index])
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = workers
        solver.parameters.random_seed = self.limits.seed
        solver.parameters.relative_gap_limit = gap
        # Trying out what follows from single variables costs these models more than it saves.
        solver.parameters.cp_model_probing_level = 0
        report = None if self.on_progress is None or told is None else _Reporter(name, told, self.on_progress)
        code, self.interrupted = until_stopped(solver, self.model, report)
        status = STATUS.get(code)
        if status is None or status is SolveStatus.INFEASIBLE:
            # There always is a solution: the one that is hinted.
            raise RuntimeError(f"the model of phase {name!r} is not valid: {self.model.validate() or 'infeasible'}")
        if status is SolveStatus.UNKNOWN:
            return status, None
        self.best = {variable.index: solver.value(variable) for variable in self.variables}
        return status, float(solver.best_objective_bound)


class _Reporter(cp_model.CpSolverSolutionCallback):
    """Hands every better solution on."""

    def __init__(self, phase: str, told: Callable[[float], float], on_progress: OnProgress) -> None:
        super().__init__()
        self._phase, self._told, self._on_progress = phase, told, on_progress
        self._began = time.monotonic()

    def on_solution_callback(self) -> None:
        """Report the solution that was just found."""
        seconds = time.monotonic() - self._began
        best, bound = self._told(self.objective_value) + 0.0, self._told(self.best_objective_bound) + 0.0
        self._on_progress(Progress(self._phase, best, bound, seconds))
