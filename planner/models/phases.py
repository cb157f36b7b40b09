"""Objectives one after the other: what was reached of one is fixed before the next one is looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from planner.models.light_ortools import cp_model
from planner.models.solve import EARLY, LEAST_SECONDS, SHARE_OF_PHASE, OnProgress, Progress, SolveStatus
from planner.options import SolveLimits
from planner.plan import Phase

Expression = cp_model.LinearExprT

TIE_SECONDS = 3.0

_STATUS: Mapping[object, SolveStatus] = {
    cp_model.OPTIMAL: SolveStatus.OPTIMAL,
    cp_model.FEASIBLE: SolveStatus.FEASIBLE,
    cp_model.INFEASIBLE: SolveStatus.INFEASIBLE,
    cp_model.UNKNOWN: SolveStatus.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective: constant + sum of weight x variable, to be made as small or as large as can be.

    Attributes
    ----------
    tie
        True when it only chooses between plans that are equally good to a person; it gets `TIE_SECONDS` at most.
    """

    name: str
    parts: tuple[tuple[cp_model.IntVar, int], ...]
    maximise: bool = False
    constant: int = 0
    tie: bool = False

    def of(self, values: Mapping[int, int]) -> int:
        """Return the value of a solution, given by index of the variables."""
        return self.constant + sum(weight * values[variable.index] for variable, weight in self.parts)

    def limit(self) -> int:
        """Return a bound that holds whatever the rules are: every variable at the end of its range that is better."""
        # The solver's list of ends takes no negative index.
        ends = [([int(end) * weight for end in list(x.proto.domain)]) for x, weight in self.parts]
        return self.constant + sum(max(each) if self.maximise else min(each) for each in ends)

    def expression(self) -> Expression:
        """Return the objective as the solver takes it."""
        variables = [variable for variable, _ in self.parts]
        weighted = cp_model.LinearExpr.weighted_sum(variables, [weight for _, weight in self.parts])
        return weighted + self.constant


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
    began = time.monotonic()
    best, phases = dict(start), []
    for number, objective in enumerate(objectives):
        left = max(LEAST_SECONDS, limits.time_limit_seconds - (time.monotonic() - began))
        last = number + 1 == len(objectives)
        seconds = left if last else max(LEAST_SECONDS, left * SHARE_OF_PHASE)
        seconds = min(seconds, TIE_SECONDS) if objective.tie else seconds
        phase, found, interrupted = _phase(model, variables, objective, best, limits, seconds, on_progress)
        phases.append(phase)
        best = found
        if interrupted:
            return Reached(best, tuple(phases), interrupted=True)
    return Reached(best, tuple(phases))


def _phase(
    model: cp_model.CpModel,
    variables: Sequence[cp_model.IntVar],
    objective: Objective,
    best: dict[int, int],
    limits: SolveLimits,
    seconds: float,
    on_progress: OnProgress | None,
) -> tuple[Phase, dict[int, int], bool]:
    began = time.monotonic()
    if not objective.parts:
        value = float(objective.constant)
        return Phase(objective.name, value, value, SolveStatus.OPTIMAL.value, 0.0), best, False
    # The method has no types of its own.
    cast("Callable[[], None]", model.clear_hints)()
    for variable in variables:
        model.add_hint(variable, best[variable.index])
    expression = objective.expression()
    if objective.maximise:
        model.maximize(expression)
    else:
        model.minimize(expression)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    report = _Reporter(objective.name, began, on_progress) if on_progress is not None else None
    interrupted = False
    try:
        code = solver.solve(model, report)
    except KeyboardInterrupt:
        code, interrupted = cp_model.UNKNOWN, True
    status = _STATUS.get(code)
    if status is None or status is SolveStatus.INFEASIBLE:
        # There always is a solution: the one that is hinted.
        raise RuntimeError(f"the model of phase {objective.name!r} is not valid: {model.validate() or 'infeasible'}")
    spent = time.monotonic() - began
    if status in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE):
        best = {variable.index: solver.value(variable) for variable in variables}
    value = objective.of(best)
    # A search that found nothing has no bound of its own.
    bound = float(objective.limit() if status is SolveStatus.UNKNOWN else solver.best_objective_bound)
    # The solver takes an interrupt for the end of its time.
    unfinished = status in (SolveStatus.FEASIBLE, SolveStatus.UNKNOWN)
    interrupted = interrupted or (unfinished and seconds > LEAST_SECONDS and spent < EARLY * seconds)
    model.add(expression >= value if objective.maximise else expression <= value)
    # Adding zero turns -0.0 into 0.0.
    return Phase(objective.name, value + 0.0, bound + 0.0, status.value, round(spent, 3)), best, interrupted


class _Reporter(cp_model.CpSolverSolutionCallback):
    """Hands every better solution on."""

    def __init__(self, phase: str, began: float, on_progress: OnProgress) -> None:
        super().__init__()
        self._phase, self._began, self._on_progress = phase, began, on_progress

    def on_solution_callback(self) -> None:
        """Report the solution that was just found."""
        seconds = time.monotonic() - self._began
        best, bound = self.objective_value + 0.0, self.best_objective_bound + 0.0
        self._on_progress(Progress(self._phase, best, bound, seconds))
