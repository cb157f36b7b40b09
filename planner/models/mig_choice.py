"""Choose MIG layouts: the model solved by its objectives, and what came of it in the terms of the problem."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from planner.interruption import Interruption, SearchInterrupted
from planner.mig.layouts import Counts
from planner.mig.problem import Problem
from planner.models.light_ortools import cp_model
from planner.models.mig_layouts import Case, LayoutVars, build, staying_gpus
from planner.models.mig_objectives import MET, objectives_of
from planner.models.phases import Objective, Reached, optimise
from planner.models.solve import OnProgress
from planner.options import SolveLimits

Key = TypeVar("Key", bound=Hashable)

# Of the whole time, what may be spent to find out which pending pods fit today.
SHARE_OF_NEEDED = 0.2


@dataclass(frozen=True, slots=True)
class Chosen:
    """A solution in the terms of the problem.

    Attributes
    ----------
    patterns
        (class, pattern, nodes).
    cut
        (site, product, layout, GPUs).
    recut
        (group, layout, GPUs).
    serve
        (demand, site, product, instances).
    stay
        (whole need, class, pods).
    """

    patterns: tuple[tuple[int, int, int], ...]
    cut: tuple[tuple[int, str, Counts, int], ...]
    recut: tuple[tuple[int, Counts, int], ...]
    serve: tuple[tuple[int, int, str, int], ...]
    stay: tuple[tuple[int, int, int], ...]
    needed: Mapping[int, int]
    reached: Reached

    def met(self, demand: int) -> int:
        """Return how many instances of a demand there are."""
        return sum(count for d, _, _, count in self.serve if d == demand)


def propose(problem: Problem, limits: SolveLimits, stop: Interruption, on_progress: OnProgress | None = None) -> Chosen:
    """Return the best choice that the time allows; at worst nothing changes.

    Once `stop` is asked it is what was found by then.
    """
    as_is = _as_is(problem, limits, stop)
    case = Case(problem, as_is.needed)
    model, v = build(case)
    start = _unchanged(problem, v, as_is)
    if as_is.interrupted:
        # Which GPUs pods wait for is not certain, so none is cut.
        return _chosen(problem, v, as_is.needed, Reached(start, (), interrupted=True))
    reached = _searched(model, v, objectives_of(case, v), start, limits, stop, on_progress)
    return _chosen(problem, v, as_is.needed, reached)


def nothing_cut(problem: Problem) -> Chosen:
    """Return the choice in which every GPU stays as it is; nothing is proved of it."""
    _, v = build(Case(problem))
    return _chosen(problem, v, {}, Reached(_unchanged(problem, v, _AsIs()), (), interrupted=True))


def most_met(problem: Problem, limits: SolveLimits, stop: Interruption) -> Chosen:
    """Return how much of each demand could be met, by priority, if pods that wait for whole GPUs did not count."""
    case = Case(problem)
    model, v = build(case)
    wanted = [o for o in objectives_of(case, v) if o.maximise and o.name.startswith(MET)]
    reached = _searched(model, v, wanted, _unchanged(problem, v, _AsIs()), limits, stop, None)
    return _chosen(problem, v, {}, reached)


def _searched(
    model: cp_model.CpModel,
    v: LayoutVars,
    objectives: Sequence[Objective],
    start: Mapping[int, int],
    limits: SolveLimits,
    stop: Interruption,
    on_progress: OnProgress | None,
) -> Reached:
    try:
        with stop.searching():
            return optimise(model, list(v.all()), objectives, start, limits, on_progress)
    except SearchInterrupted:
        return Reached(start, (), interrupted=True)


@dataclass(frozen=True, slots=True)
class _AsIs:
    """Which waiting pods fit while nothing is cut: their GPUs by priority, and the values of `nodes` and `stay`."""

    needed: Mapping[int, int] = field(default_factory=dict)
    nodes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    stay: Mapping[tuple[int, int], int] = field(default_factory=dict)
    interrupted: bool = False


def _as_is(problem: Problem, limits: SolveLimits, stop: Interruption) -> _AsIs:
    """Find the waiting pods that fit as things are; the higher priority takes its room first."""
    priorities = sorted({need.priority for need in problem.wholes if not need.running}, reverse=True)
    if not priorities:
        return _AsIs()
    unchanged = replace(
        problem,
        # What changes nothing comes first in each class, so the numbers of the patterns stay.
        classes=tuple(replace(c, patterns=tuple(p for p in c.patterns if not p.given)) for c in problem.classes),
        sliced=(),
        demands=(),
        sites=tuple(() for _ in problem.sites),
        layouts=dict.fromkeys(problem.layouts, ()),
    )
    case = Case(unchanged)
    model, v = build(case)
    objectives = [
        Objective(f"GPUs that fit at priority {t}", tuple(staying_gpus(unchanged, v, t)), maximise=True)
        for t in priorities
    ]
    short = replace(limits, time_limit_seconds=limits.time_limit_seconds * SHARE_OF_NEEDED)
    start = _unchanged(unchanged, v, _AsIs())
    reached = _searched(model, v, objectives, start, short, stop, None)
    return _AsIs(
        needed={t: round(phase.value) for t, phase in zip(priorities, reached.phases, strict=False)},
        nodes={key: reached.values[variable.index] for key, variable in v.nodes.items()},
        stay={key: reached.values[variable.index] for key, variable in v.stay.items()},
        interrupted=reached.interrupted,
    )


def _unchanged(problem: Problem, v: LayoutVars, as_is: _AsIs) -> dict[int, int]:
    """Return the solution in which nothing is cut, by index of the variable: free instances serve who comes first."""
    values = dict.fromkeys((variable.index for variable in v.all()), 0)
    for c, node_class in enumerate(problem.classes):
        if (c, 0) not in as_is.nodes:
            values[v.nodes[c, 0].index] = len(node_class.nodes)
    for key, count in as_is.nodes.items():
        values[v.nodes[key].index] = count
    for key, count in as_is.stay.items():
        values[v.stay[key].index] = count
    spare = dict(problem.spare)
    wanted = {d: 0 if demand.running else demand.count for d, demand in enumerate(problem.demands)}
    for (d, site, product), variable in v.serve.items():
        instances = site, product, problem.demands[d].profile_on(product) or ""
        values[variable.index] = served = min(wanted[d], spare.get(instances, 0))
        wanted[d] -= served
        spare[instances] = spare.get(instances, 0) - served
    return values


def _chosen(problem: Problem, v: LayoutVars, needed: Mapping[int, int], reached: Reached) -> Chosen:
    values = reached.values

    def some(family: Mapping[Key, cp_model.IntVar]) -> Iterator[tuple[Key, int]]:
        return ((key, values[x.index]) for key, x in family.items() if values[x.index])

    return Chosen(
        patterns=tuple((c, p, n) for (c, p), n in some(v.nodes)),
        cut=tuple((site, product, problem.layouts[product][at], n) for (site, product, at), n in some(v.cut)),
        recut=tuple((g, problem.layouts[problem.sliced[g].product][at], n) for (g, at), n in some(v.recut)),
        serve=tuple((d, site, product, n) for (d, site, product), n in some(v.serve)),
        stay=tuple((i, c, n) for (i, c), n in some(v.stay)),
        needed=needed,
        reached=reached,
    )
