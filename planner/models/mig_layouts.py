"""The model of which GPUs are cut into what: variables, rules, objectives.

Every rule is a function whose docstring is its inequality; none needs another to have run. `RULES` is the list of them.

Indexes: c node class, p pattern of a class, v site (what may run on a node), k product, l layout, g group of GPUs that
are cut already or run a pod that may leave, d demand for instances, i need of whole GPUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from planner.mig.problem import Problem
from planner.models.light_ortools import cp_model
from planner.models.phases import Expression


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


def variables_of(case: Case, model: cp_model.CpModel) -> LayoutVars:
    """Make the variables, each with the least domain that is known at once."""
    problem, v = case.problem, LayoutVars()
    for c, node_class in enumerate(problem.classes):
        for p in range(len(node_class.patterns)):
            v.nodes[c, p] = model.new_int_var(0, len(node_class.nodes), f"nodes[{c},{p}]")
        v.touched[c] = model.new_int_var(0, len(node_class.nodes), f"touched[{c}]")
    useful = _useful_profiles(problem)
    for (site, product), most in sorted(_takeable(problem).items()):
        for n, counts in enumerate(problem.layouts[product]):
            if useful[site, product] >= dict(counts).keys():
                v.cut[site, product, n] = model.new_int_var(0, most, f"cut[{site},{product},{n}]")
    for g, group in enumerate(problem.sliced):
        own = useful[problem.classes[group.node_class].site, group.product]
        for n, counts in enumerate(problem.layouts[group.product]):
            if counts != group.counts and own >= dict(counts).keys():
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


def _useful_profiles(problem: Problem) -> defaultdict[tuple[int, str], set[str]]:
    """Return the profiles that serve some demand at a site, by (site, product): no GPU there is cut into others."""
    found: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
    for site, runs in enumerate(problem.sites):
        for demand, may in zip(problem.demands, runs, strict=True):
            for product, profile in demand.accepts if may else ():
                found[site, product].add(profile)
    return found


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
        model.add(_weighted(staying_gpus(case.problem, v, priority)) >= gpus)


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


def staying_gpus(problem: Problem, v: LayoutVars, priority: int) -> list[tuple[cp_model.IntVar, int]]:
    """Return the GPUs of waiting pods of a priority for which there is room."""
    return [
        (variable, problem.wholes[i].gpus)
        for (i, _), variable in v.stay.items()
        if problem.wholes[i].priority == priority and not problem.wholes[i].running
    ]


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
