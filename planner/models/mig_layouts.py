"""The model of which GPUs are cut into what: variables, rules, objectives.

Every rule is a function whose docstring is its inequality; none needs another to have run. `RULES` is the list of them.

Indexes: c node class, p pattern of a class, v site (what may run on a node), k product, l layout, g group of GPUs that
are cut already or run a pod that may leave, d demand for instances, i need of whole GPUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TypeVar

from planner.mig.layouts import Counts, placed, room_mib
from planner.mig.problem import Problem
from planner.models.light_ortools import cp_model
from planner.models.phases import Expression, Objective, Reached, optimise
from planner.models.solve import OnProgress
from planner.options import SolveLimits

Key = TypeVar("Key", bound=Hashable)

MET = "instances at priority"
# Of the whole time, what may be spent to find out which pending pods fit today.
SHARE_OF_NEEDED = 0.2


@dataclass(frozen=True, slots=True)
class LayoutVars:
    """The variables.

    Attributes
    ----------
    nodes
        nodes[c, p]: nodes of class c to whose idle whole GPUs pattern p happens.
    cut
        cut[v, k, l]: idle whole GPUs of product k on nodes of site v that get layout l.
    recut
        recut[g, l]: GPUs of group g that get layout l instead of the one they have.
    serve
        serve[d, v, k]: instances for demand d on GPUs of product k, on nodes of site v.
    stay
        stay[i, c]: pods of need i for whose whole GPUs there is room on nodes of class c, all at the same time.
    touched
        touched[c]: nodes of class c that are changed in any way.
    """

    nodes: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    cut: dict[tuple[int, str, int], cp_model.IntVar] = field(default_factory=dict)
    recut: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    serve: dict[tuple[int, int, str], cp_model.IntVar] = field(default_factory=dict)
    stay: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    touched: dict[int, cp_model.IntVar] = field(default_factory=dict)

    def all(self) -> Iterator[cp_model.IntVar]:
        """Yield every variable, in the order in which they were made."""
        for family in (self.nodes, self.cut, self.recut, self.serve, self.stay, self.touched):
            yield from family.values()


@dataclass(frozen=True, slots=True)
class Case:
    """A problem, and what it must respect beside.

    Attributes
    ----------
    needed
        For each priority of pods that wait for whole GPUs: GPUs of those that fit today and must go on to fit.
    """

    problem: Problem
    needed: Mapping[int, int] = field(default_factory=dict)


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


def variables_of(case: Case, model: cp_model.CpModel) -> LayoutVars:
    """Make the variables, each with the least domain that is known at once."""
    problem, v = case.problem, LayoutVars()
    for c, node_class in enumerate(problem.classes):
        for p in range(len(node_class.patterns)):
            v.nodes[c, p] = model.new_int_var(0, len(node_class.nodes), f"nodes[{c},{p}]")
        v.touched[c] = model.new_int_var(0, len(node_class.nodes), f"touched[{c}]")
    for (site, product), most in sorted(_takeable(problem).items()):
        for n in range(len(problem.layouts[product])):
            v.cut[site, product, n] = model.new_int_var(0, most, f"cut[{site},{product},{n}]")
    for g, group in enumerate(problem.sliced):
        for n, counts in enumerate(problem.layouts[group.product]):
            if counts != group.counts:
                v.recut[g, n] = model.new_int_var(0, group.size, f"recut[{g},{n}]")
    for d, demand in enumerate(problem.demands):
        for site, runs in enumerate(problem.sites):
            for product, _ in demand.accepts if runs[d] else ():
                v.serve[d, site, product] = model.new_int_var(0, demand.count, f"serve[{d},{site},{product}]")
    for c, stays in enumerate(problem.may_stay):
        for i, need in enumerate(problem.wholes):
            most = max(pattern.fits[i] for pattern in problem.classes[c].patterns)
            if stays[i] and most:
                most = min(len(need.pods), most * len(problem.classes[c].nodes))
                v.stay[i, c] = model.new_int_var(0, most, f"stay[{i},{c}]")
    return v


def _takeable(problem: Problem) -> dict[tuple[int, str], int]:
    """Return how many idle whole GPUs of each product could be cut at a site."""
    found: defaultdict[tuple[int, str], int] = defaultdict(int)
    for node_class in problem.classes:
        most: defaultdict[str, int] = defaultdict(int)
        for pattern in node_class.patterns:
            for product, number in pattern.taken:
                most[product] = max(most[product], number)
        for product, number in most.items():
            found[node_class.site, product] += number * len(node_class.nodes)
    return dict(found)


def add_one_pattern(case: Case, v: LayoutVars, model: cp_model.CpModel) -> None:
    """For every class c: sum over p of nodes[c, p] = nodes of the class."""
    for c, node_class in enumerate(case.problem.classes):
        model.add(_sum([v.nodes[c, p] for p in range(len(node_class.patterns))]) == len(node_class.nodes))


def add_cut_what_is_given(case: Case, v: LayoutVars, model: cp_model.CpModel) -> None:
    """For every site v, product k: sum over l of cut[v, k, l] = sum over c of v, p of taken(p, k) x nodes[c, p]."""
    given: defaultdict[tuple[int, str], list[tuple[cp_model.IntVar, int]]] = defaultdict(list)
    for c, node_class in enumerate(case.problem.classes):
        for p, pattern in enumerate(node_class.patterns):
            for product, number in pattern.taken:
                given[node_class.site, product].append((v.nodes[c, p], number))
    for (site, product), parts in sorted(given.items()):
        layouts = [variable for (s, k, _), variable in v.cut.items() if (s, k) == (site, product)]
        model.add(_sum(layouts) == _weighted(parts))


def add_recut_what_is_there(case: Case, v: LayoutVars, model: cp_model.CpModel) -> None:
    """For every group g: sum over l of recut[g, l] <= GPUs of the group."""
    for g, parts in _recut_by_group(v).items():
        model.add(_sum(parts) <= case.problem.sliced[g].size)


def add_serve_what_is_free(case: Case, v: LayoutVars, model: cp_model.CpModel) -> None:
    """For every site v, product k, profile m: sum over d that take m there of serve[d, v, k] <= free instances of m.

    Free are those of today, less those of GPUs that are cut anew, plus those of the layouts that GPUs get.
    """
    free = _free_instances(case.problem, v)
    wanting: defaultdict[tuple[int, str, str], list[cp_model.IntVar]] = defaultdict(list)
    for (d, site, product), variable in v.serve.items():
        profile = case.problem.demands[d].profile_on(product)
        if profile is not None:
            wanting[site, product, profile].append(variable)
    for key, serving in wanting.items():
        model.add(_sum(serving) <= _weighted(free[key]) + case.problem.spare.get(key, 0))


def add_serve_what_is_asked(case: Case, v: LayoutVars, model: cp_model.CpModel) -> None:
    """For every demand d: sum over v, k of serve[d, v, k] <= instances asked for.

    Of a demand whose pods run: = instances that they lose, so that none is left without one.
    """
    released: defaultdict[int, list[tuple[cp_model.IntVar, int]]] = defaultdict(list)
    for (g, _), variable in v.recut.items():
        for d, number in case.problem.sliced[g].released:
            released[d].append((variable, number))
    for d, demand in enumerate(case.problem.demands):
        served = _sum([variable for (other, _, _), variable in v.serve.items() if other == d])
        if demand.running:
            model.add(served == _weighted(released[d]))
        else:
            model.add(served <= demand.count)


def add_stay_where_room_is(case: Case, v: LayoutVars, model: cp_model.CpModel) -> None:
    """For every need i, class c: stay[i, c] <= sum over p of fits(p, i) x nodes[c, p]."""
    for (i, c), variable in v.stay.items():
        patterns = case.problem.classes[c].patterns
        model.add(variable <= _weighted([(v.nodes[c, p], pattern.fits[i]) for p, pattern in enumerate(patterns)]))


def add_stay_whole(case: Case, v: LayoutVars, model: cp_model.CpModel) -> None:
    """For every need i: sum over c of stay[i, c] <= pods that wait; of pods that run: = those that lose their GPU."""
    evicted: defaultdict[int, list[tuple[cp_model.IntVar, int]]] = defaultdict(list)
    for (g, _), variable in v.recut.items():
        for i, number in case.problem.sliced[g].evicted:
            evicted[i].append((variable, number))
    for i, need in enumerate(case.problem.wholes):
        staying = _sum([variable for (other, _), variable in v.stay.items() if other == i])
        if need.running:
            model.add(staying == _weighted(evicted[i]))
        else:
            model.add(staying <= len(need.pods))


def add_break_no_needed_island(case: Case, v: LayoutVars, model: cp_model.CpModel) -> None:
    """For every priority t of waiting pods: sum over i of t, c of GPUs(i) x stay[i, c] >= GPUs that fit today."""
    for priority, gpus in case.needed.items():
        model.add(_weighted(_staying(case.problem, v, priority)) >= gpus)


def add_touched(case: Case, v: LayoutVars, model: cp_model.CpModel) -> None:
    """For every class c: touched[c] >= nodes with a pattern that changes something; x GPUs per node >= GPUs recut."""
    for c, node_class in enumerate(case.problem.classes):
        changing = [v.nodes[c, p] for p, pattern in enumerate(node_class.patterns) if pattern.given]
        model.add(v.touched[c] >= _sum(changing))
    for g, parts in _recut_by_group(v).items():
        group = case.problem.sliced[g]
        per_node = max(len(indexes) for indexes in group.positions)
        model.add(per_node * v.touched[group.node_class] >= _sum(parts))


RULES: tuple[Callable[[Case, LayoutVars, cp_model.CpModel], None], ...] = (
    add_one_pattern,
    add_cut_what_is_given,
    add_recut_what_is_there,
    add_serve_what_is_free,
    add_serve_what_is_asked,
    add_stay_where_room_is,
    add_stay_whole,
    add_break_no_needed_island,
    add_touched,
)


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


def _staying(problem: Problem, v: LayoutVars, priority: int) -> list[tuple[cp_model.IntVar, int]]:
    """Return the GPUs of waiting pods of a priority for which there is room."""
    return [
        (variable, problem.wholes[i].gpus)
        for (i, _), variable in v.stay.items()
        if problem.wholes[i].priority == priority and not problem.wholes[i].running
    ]


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


def _free_instances(
    problem: Problem, v: LayoutVars
) -> defaultdict[tuple[int, str, str], list[tuple[cp_model.IntVar, int]]]:
    """Return how free instances change, by (site, product, profile)."""
    free: defaultdict[tuple[int, str, str], list[tuple[cp_model.IntVar, int]]] = defaultdict(list)
    for (site, product, n), variable in v.cut.items():
        for profile, number in problem.layouts[product][n]:
            free[site, product, profile].append((variable, number))
    for (g, n), variable in v.recut.items():
        group = problem.sliced[g]
        site = problem.classes[group.node_class].site
        for profile, number in problem.layouts[group.product][n]:
            free[site, group.product, profile].append((variable, number))
        for profile, number in group.free:
            free[site, group.product, profile].append((variable, -number))
    for c, node_class in enumerate(problem.classes):
        for p, pattern in enumerate(node_class.patterns):
            for product, profile, number in pattern.supply:
                free[node_class.site, product, profile].append((v.nodes[c, p], number))
    return free


def _recut_by_group(v: LayoutVars) -> dict[int, list[cp_model.IntVar]]:
    found: defaultdict[int, list[cp_model.IntVar]] = defaultdict(list)
    for (g, _), variable in v.recut.items():
        found[g].append(variable)
    return dict(found)


def _nonzero(parts: Iterable[tuple[cp_model.IntVar, int]]) -> tuple[tuple[cp_model.IntVar, int], ...]:
    return tuple((variable, weight) for variable, weight in parts if weight)


def _sum(variables: Sequence[cp_model.IntVar]) -> Expression:
    return cp_model.LinearExpr.sum(variables)


def _weighted(parts: Sequence[tuple[cp_model.IntVar, int]]) -> Expression:
    return cp_model.LinearExpr.weighted_sum([x for x, _ in parts], [weight for _, weight in parts])


def build(case: Case) -> tuple[cp_model.CpModel, LayoutVars]:
    """Return the model with all its rules, and its variables; it has no objective yet."""
    model = cp_model.CpModel()
    variables = variables_of(case, model)
    for rule in RULES:
        rule(case, variables, model)
    return model, variables


def propose(problem: Problem, limits: SolveLimits, on_progress: OnProgress | None = None) -> Chosen:
    """Return the best choice that the time allows; at worst nothing changes."""
    as_is = _as_is(problem, limits)
    case = Case(problem, as_is.needed)
    model, v = build(case)
    start = _unchanged(problem, v, as_is)
    reached = optimise(model, list(v.all()), objectives_of(case, v), start, limits, on_progress)
    if as_is.interrupted:
        reached = replace(reached, interrupted=True)
    return _chosen(problem, v, as_is.needed, reached)


def most_met(problem: Problem, limits: SolveLimits) -> Chosen:
    """Return how much of each demand could be met, by priority, if pods that wait for whole GPUs did not count."""
    case = Case(problem)
    model, v = build(case)
    wanted = [o for o in objectives_of(case, v) if o.maximise and o.name.startswith(MET)]
    reached = optimise(model, list(v.all()), wanted, _unchanged(problem, v, _AsIs()), limits)
    return _chosen(problem, v, {}, reached)


@dataclass(frozen=True, slots=True)
class _AsIs:
    """Which waiting pods fit while nothing is cut: their GPUs by priority, and the values of `nodes` and `stay`."""

    needed: Mapping[int, int] = field(default_factory=dict)
    nodes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    stay: Mapping[tuple[int, int], int] = field(default_factory=dict)
    interrupted: bool = False


def _as_is(problem: Problem, limits: SolveLimits) -> _AsIs:
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
        Objective(f"GPUs that fit at priority {t}", tuple(_staying(unchanged, v, t)), maximise=True) for t in priorities
    ]
    short = replace(limits, time_limit_seconds=limits.time_limit_seconds * SHARE_OF_NEEDED)
    start = _unchanged(unchanged, v, _AsIs())
    reached = optimise(model, list(v.all()), objectives, start, short)
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
