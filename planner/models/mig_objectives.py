"""The objectives of MIG layouts in their order; indexes are those of `planner.models.mig_layouts`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from planner.mig.layouts import placed, room_mib
from planner.mig.problem import Problem
from planner.models.light_ortools import cp_model
from planner.models.mig_layouts import Case, LayoutVars
from planner.models.phases import Objective

# Begins the name of the objective of each priority.
MET = "instances at priority"


def objectives_of(case: Case, v: LayoutVars) -> list[Objective]:
    """Return the objectives in their order; each is fixed before the next one is looked at."""
    problem = case.problem
    patterns = [(v.nodes[c, p], x) for c, node in enumerate(problem.classes) for p, x in enumerate(node.patterns)]
    recut = [(variable, problem.sliced[g]) for (g, _), variable in v.recut.items()]
    tiers = sorted({d.priority for d in problem.demands if not d.running}, reverse=True)
    found = []
    for priority, below in zip_longest(tiers, tiers[1:]):
        met = tuple(_serving(problem, v, priority))
        found.append(Objective(f"{MET} {priority}", met, maximise=True))
        # Nobody is disturbed for a lower priority: what these tiers did not need stays.
        if below is not None and (disturbed := _destroyed_above(problem, v, below)):
            found.append(Objective(f"running instances above priority {below} destroyed", disturbed))
    found.append(Objective("GPUs in islands broken", _nonzero((x, p.broken) for x, p in patterns)))
    if any(group.destroyed for group in problem.sliced):
        found.append(Objective("running instances destroyed", _nonzero((x, g.destroyed) for x, g in recut)))
    changed = [(x, 1) for x in (*v.cut.values(), *v.recut.values())] + [(x, p.changed) for x, p in patterns]
    found.append(Objective("GPUs changed", _nonzero(changed)))
    lost = _nonzero((x, -p.whole_lost) for x, p in patterns)
    found.append(Objective("whole GPUs left", lost, maximise=True, constant=problem.whole_gpus))
    found.append(_room(problem, v))
    found.append(Objective("nodes changed", _nonzero((x, 1) for x in v.touched.values()), tie=True))
    found.append(Objective("instances created", _created(problem, v), tie=True))
    return found


def _destroyed_above(problem: Problem, v: LayoutVars, priority: int) -> tuple[tuple[cp_model.IntVar, int], ...]:
    """Return the running instances and whole GPUs that end though their pods are above a priority."""
    parts = []
    for (g, _), variable in v.recut.items():
        group = problem.sliced[g]
        number = sum(n for d, n in group.released if problem.demands[d].priority > priority)
        number += sum(n for i, n in group.evicted if problem.wholes[i].priority > priority)
        parts.append((variable, number))
    return _nonzero(parts)


def _serving(problem: Problem, v: LayoutVars, priority: int) -> Iterator[tuple[cp_model.IntVar, int]]:
    for (d, _, _), variable in v.serve.items():
        if problem.demands[d].priority == priority and not problem.demands[d].running:
            yield variable, 1


def _created(problem: Problem, v: LayoutVars) -> tuple[tuple[cp_model.IntVar, int], ...]:
    """Return the new instances of GPUs that are cut one by one: none that nobody asked for."""
    parts = [(x, sum(n for _, n in problem.layouts[product][at])) for (_, product, at), x in v.cut.items()]
    for (g, at), x in v.recut.items():
        parts.append((x, sum(n for _, n in problem.layouts[problem.sliced[g].product][at])))
    return _nonzero(parts)


def _room(problem: Problem, v: LayoutVars) -> Objective:
    """Return the memory (MiB) of the largest instance that each GPU can still give, summed over GPUs that are cut."""
    constant = sum(group.size * group.room_mib for group in problem.sliced)
    parts = [
        (v.nodes[c, p], pattern.room_mib)
        for c, node_class in enumerate(problem.classes)
        for p, pattern in enumerate(node_class.patterns)
    ]
    parts += [(variable, _room_of(problem, product, n)) for (_, product, n), variable in v.cut.items()]
    for (g, n), variable in v.recut.items():
        group = problem.sliced[g]
        parts.append((variable, _room_of(problem, group.product, n) - group.room_mib))
    return Objective("MiB of the largest profiles left", _nonzero(parts), maximise=True, constant=constant)


def _room_of(problem: Problem, product: str, layout: int) -> int:
    geometry = problem.geometries[product]
    return room_mib(geometry, placed(geometry, problem.layouts[product][layout]) or ())


def _nonzero(parts: Iterable[tuple[cp_model.IntVar, int]]) -> tuple[tuple[cp_model.IntVar, int], ...]:
    return tuple((variable, weight) for variable, weight in parts if weight)
