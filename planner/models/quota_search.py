"""Search for the best quotas: one objective after the other, each fixed before the next one is looked at."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from planner.models.light_ortools import cp_model
from planner.models.outcome import STATUS, OnProgress, Progress, SolveStatus
from planner.models.phases import LEAST_SECONDS, SHARE_OF_PHASE
from planner.models.quota_case import QuotaCase, steps_of
from planner.models.quota_naming import named
from planner.models.quotas import SHARES, QuotaVars, Term, build, terms_of
from planner.models.stoppable import until_stopped
from planner.options import SolveLimits
from planner.plan import Phase


@dataclass(frozen=True, slots=True)
class QuotaSolution:
    """What was found.

    Attributes
    ----------
    nominal
        GPUs by (holder, flavor).
    replicas
        Guaranteed replicas by (claim, flavor).
    missing, short
        Replicas that baselines lack by claim; pods that the reserve lacks by kind.
    places
        (claim, flavor, node) -> pods: all guaranteed replicas at the same time.
    reserved
        (kind, flavor, node) -> pods that stay in reserve.
    """

    nominal: Mapping[tuple[int, int], int]
    replicas: Mapping[tuple[int, int], int]
    missing: Mapping[int, int]
    short: Mapping[int, int]
    places: Mapping[tuple[int, int, str], int]
    reserved: Mapping[tuple[int, int, str], int]
    phases: tuple[Phase, ...]
    status: SolveStatus
    interrupted: bool = False


def nothing(case: QuotaCase, v: QuotaVars) -> dict[int, int]:
    """Return the solution in which nobody gets any quota, by index of the variable; it is always allowed."""
    values = {variable.index: 0 for variable in v.all()}
    values |= {v.missing[c].index: claim.baseline for c, claim in enumerate(case.claims)}
    values |= {v.short[s].index: pods for s, pods in case.reserve.items()}
    for (h, f), lost in v.lost.items():
        today = case.holders[h].today.get(f, 0)
        values[lost.index] = min(today, case.holders[h].in_use.get(f, 0))
        values[v.changed[h, f].index] = today
    return values


def tight(case: QuotaCase, v: QuotaVars, values: Mapping[int, int]) -> dict[int, int]:
    """Return a solution with what follows from its quotas (missing, lost, changed, ...) as small as it can be."""
    exact = dict(values)
    for c, claim in enumerate(case.claims):
        exact[v.missing[c].index] = max(0, claim.baseline - sum(values[v.replicas[c, f].index] for f in claim.flavors))
    for s, pods in case.reserve.items():
        exact[v.short[s].index] = max(0, pods - sum(values[v.kept[s, f].index] for f in range(case.flavors)))
    left = {h: sum(values[v.islands[h, f].index] for f in case.holders[h].flavors) for h in range(len(case.holders))}
    for (h, f), islands in v.islands.items():
        holder = case.holders[h]
        new, today = holder.island * values[islands.index], holder.today.get(f, 0)
        exact[v.lost[h, f].index] = max(0, min(today, holder.in_use.get(f, 0)) - new)
        exact[v.changed[h, f].index] = abs(new - today)
    # Steps are worth less and less, so the first ones are taken first.
    for h, islands_left in left.items():
        for i, step in enumerate(steps_of(case, h)):
            exact[v.steps[h, i].index] = min(step.length, islands_left)
            islands_left -= exact[v.steps[h, i].index]
    return exact


def solve(case: QuotaCase, limits: SolveLimits, on_progress: OnProgress | None = None) -> QuotaSolution:
    """Return the best quotas that the time allows; there always are some, at worst none for anybody."""
    started = time.monotonic()
    model, v = build(case)
    best, phases, interrupted = nothing(case, v), [], False
    terms = terms_of(case, v)
    for number, term in enumerate(terms):
        left = max(LEAST_SECONDS, limits.time_limit_seconds - (time.monotonic() - started))
        seconds = left if number + 1 == len(terms) else max(LEAST_SECONDS, left * SHARE_OF_PHASE)
        phase, best, interrupted = _phase(model, v, term, tight(case, v, best), limits, seconds, on_progress)
        phases.append(phase)
        if interrupted:
            break
    proved = not interrupted and all(phase.status == SolveStatus.OPTIMAL for phase in phases)
    status = SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE
    places, reserved = named(case, v, best)
    return QuotaSolution(
        nominal={(h, f): case.holders[h].island * best[i.index] for (h, f), i in v.islands.items()},
        replicas={key: best[count.index] for key, count in v.replicas.items()},
        missing={c: best[v.missing[c].index] for c in range(len(case.claims))},
        short={s: best[v.short[s].index] for s in case.reserve},
        places=places,
        reserved=reserved,
        phases=tuple(phases),
        status=status,
        interrupted=interrupted,
    )


def _phase(
    model: cp_model.CpModel,
    v: QuotaVars,
    term: Term,
    best: Mapping[int, int],
    limits: SolveLimits,
    seconds: float,
    on_progress: OnProgress | None,
) -> tuple[Phase, dict[int, int], bool]:
    """Optimise one term, fix what was reached, and return the phase, the solution, and whether the user broke in."""
    started = time.monotonic()
    objective = sum(variable * weight for variable, weight in term.parts)
    # The method has no types of its own.
    cast("Callable[[], None]", model.clear_hints)()
    for variable in v.all():
        model.add_hint(variable, best[variable.index])
    (model.maximize if term.maximise else model.minimize)(objective)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    report = _Reporter(term, started, on_progress) if on_progress is not None else None
    code, interrupted = until_stopped(solver, model, report)
    status = STATUS.get(code)
    if status is None or status is SolveStatus.INFEASIBLE:
        # There always is a solution: the one that is hinted.
        raise RuntimeError(f"the model of phase {term.name!r} is not valid: {model.validate() or 'infeasible'}")
    spent = time.monotonic() - started
    found = dict(best)
    value = bound = float(sum(best[variable.index] * weight for variable, weight in term.parts))
    if status is not SolveStatus.UNKNOWN:
        found = {variable.index: solver.value(variable) for variable in v.all()}
        value = float(solver.objective_value)
    if not interrupted:
        bound = float(solver.best_objective_bound)
    status = SolveStatus.OPTIMAL if status is SolveStatus.OPTIMAL else SolveStatus.FEASIBLE
    if term.name == SHARES:
        # The worth of a share has more digits than the search copes with as a rule; that nobody loses any is as good.
        _hold_shares(v, found, model)
    elif term.maximise:
        model.add(objective >= round(value))
    else:
        model.add(objective <= round(value))
    shown = [round(number / term.scale, 3) + 0.0 for number in (value, bound)]
    return Phase(term.name, shown[0], shown[1], status.value, round(spent, 3)), found, interrupted


def _hold_shares(v: QuotaVars, found: Mapping[int, int], model: cp_model.CpModel) -> None:
    """For every holder h: sum over f of islands[h, f] >= what was found."""
    by_holder: defaultdict[int, list[cp_model.IntVar]] = defaultdict(list)
    for (h, _), islands in v.islands.items():
        by_holder[h].append(islands)
    for islands_of in by_holder.values():
        model.add(sum(islands_of) >= sum(found[islands.index] for islands in islands_of))


class _Reporter(cp_model.CpSolverSolutionCallback):
    """Hands every better solution on."""

    def __init__(self, term: Term, started: float, on_progress: OnProgress) -> None:
        super().__init__()
        self._term, self._started, self._on_progress = term, started, on_progress

    def on_solution_callback(self) -> None:
        """Report the solution that was just found."""
        best, bound = (number / self._term.scale for number in (self.objective_value, self.best_objective_bound))
        seconds = time.monotonic() - self._started
        self._on_progress(Progress(self._term.name, best + 0.0, bound + 0.0, seconds))
