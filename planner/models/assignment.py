"""The rules of the model. Each is a function whose docstring is its inequality; none needs another to have run.

`RULES` is the list of them; indexes are those of `planner.models.variables`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from planner.models.classes import PodType
from planner.models.light_ortools import cp_model
from planner.models.variables import (
    Case,
    MoveVars,
    Parts,
    coming,
    leaving_of_class,
    leaving_pods,
    nodes_before_demand,
    restarting_pods,
    total,
)


def one_leaving_per_node(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every class c with listed leavings: sum over l of leave[c, l] = nodes of c."""
    for c, node_class in enumerate(case.classes.classes):
        listed = case.leavings[c]
        if listed is not None:
            chosen = [v.leave[c, number] for number in range(len(listed))]
            model.add(cp_model.LinearExpr.sum(chosen) == len(node_class.nodes))


def room_is_what_leaves(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every other class c: one room[c, r] is 1, and sum of r * room[c, r] = spare(c) + sum of g(t) * out[c, t].

    Of a class whose node is the only one of site s, GPUs of what comes to s are taken off the right side.
    """
    arrivals = coming(case, v)
    for c, node_class in enumerate(case.classes.classes):
        if case.leavings[c] is None:
            levels = [(v.room[key], key[1]) for key in v.room if key[0] == c]
            freed = [(v.out[c, t], case.classes.types[t].gpus) for t, _ in node_class.holds]
            model.add_exactly_one(variable for variable, _ in levels)
            taken: Parts = []
            if case.classes.sites[node_class.site].single:
                taken = [(variable, -kind.gpus) for variable, kind in arrivals[node_class.site]]
                for variable, r in levels:
                    if r < 0:
                        nobody = cp_model.LinearExpr.sum([arrival for arrival, _ in arrivals[node_class.site]])
                        model.add(nobody == 0).only_enforce_if(variable)
            model.add(total(levels) == node_class.spare + total([*freed, *taken]))


def scarce_resources_suffice(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every s with scarce CPU, memory or pods: sum of what comes - sum of what leaves <= left over, in each."""
    arrivals = coming(case, v)
    for c, node_class in enumerate(case.classes.classes):
        left_over = case.classes.sites[node_class.site].left_over
        if left_over is None:
            continue
        leaving = leaving_of_class(case, v, c)
        amounts: tuple[Callable[[PodType], int], ...] = (
            lambda kind: kind.footprint.cpu_milli,
            lambda kind: kind.footprint.memory_bytes,
            lambda _: 1,
        )
        for amount, left in zip(amounts, left_over, strict=True):
            come = [(variable, amount(kind)) for variable, kind in arrivals[node_class.site]]
            gone = [(variable, -count * amount(kind)) for variable, count, kind in leaving]
            # Where pods ask for more than there is already, nothing has to leave; nothing may come either.
            model.add(total([*come, *gone]) <= max(0, left))


def cuts_find_room(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every s, r: nodes at r + sum over g of cut[s, r + g, g] >= sum of cut[s, r, g] over g, fill[s, r, f] over f.

    Where links count, r + g stands for every state in which g may come, and which that turns into r.
    """
    for terms in nodes_before_demand(case, v).values():
        if any(weight < 0 for _, weight in terms):
            model.add(total(terms) >= 0)


def every_cut_is_filled(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every s of several nodes, g: sum over r of cut[s, r, g] = sum of go[t, s], admit[d, s] of size g.

    Where links count, moving pods alone: sum over r of cut[s, r, g] = sum of go[t, s] of kind g.
    """
    sums: defaultdict[tuple[int, int], Parts] = defaultdict(list)
    for (s, _, g), variable in v.cut.items():
        sums[s, g].append((variable, 1))
    for kinds, family in ((case.classes.types, v.go), (case.classes.demands, v.admit)):
        for (index, s), variable in family.items():
            waits = kinds is case.classes.demands
            if not case.classes.sites[s].single and not (waits and s in case.islands):
                sums[s, case.size(s, kinds[index])].append((variable, -1))
    for terms in sums.values():
        model.add(total(terms) == 0)


def every_fill_is_admitted(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every s where links count, g: sum over r, f of (g in f) * fill[s, r, f] = sum of admit[d, s] of kind g."""
    sums: defaultdict[tuple[int, int], Parts] = defaultdict(list)
    for (s, r, f), variable in v.fill.items():
        for g, count in case.islands[s].fills[r][f].comes:
            sums[s, g].append((variable, count))
    for (d, s), variable in v.admit.items():
        if s in case.islands:
            sums[s, case.size(s, case.classes.demands[d])].append((variable, -1))
    for terms in sums.values():
        model.add(total(terms) == 0)


def who_comes_back_is_another(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every s, g: if g comes where one of g has left, then at least two of g leave that may come to s."""
    terms = leaving_pods(case, v)
    for s, islands in case.islands.items():
        cuts: defaultdict[int, list[cp_model.IntVar]] = defaultdict(list)
        for r, g in sorted(islands.comes_back):
            cuts[g].append(v.cut[s, r, g])
        for g, chosen in cuts.items():
            kinds = (t for t, kind in enumerate(case.classes.types) if s in kind.sites and case.size(s, kind) == g)
            leaving = total(part for t in kinds for part in terms[t])
            back = model.new_bool_var(f"back[{s},{g}]")
            model.add(leaving >= 2).only_enforce_if(back)
            for cut in chosen:
                model.add(cut == 0).only_enforce_if(~back)


def who_leaves_comes(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every t: sum over s of go[t, s] = pods of t that leave."""
    terms = leaving_pods(case, v)
    for t in range(len(case.classes.types)):
        terms[t] += [(variable, -1) for (index, _), variable in v.go.items() if index == t]
    for balance in terms:
        if balance:
            model.add(total(balance) == 0)


def demand_is_admitted_once(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every d: sum over s of admit[d, s] <= demands of d."""
    for d, kind in enumerate(case.classes.demands):
        places = [v.admit[d, s] for s in sorted(kind.sites)]
        model.add(cp_model.LinearExpr.sum(places) <= len(kind.pods))


def nobody_stays_by_moving(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every t whose pods are all on the only node of site s: go[t, s] = 0."""
    where: defaultdict[int, set[str]] = defaultdict(set)
    for key, t in case.classes.type_of.items():
        where[t].add(case.problem.movable[key].pod.node)
    for (t, s), variable in v.go.items():
        nodes = case.classes.sites[s].nodes
        if len(nodes) == 1 and where[t] == set(nodes):
            model.add(variable == 0)


def groups_restart_whole(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every group k, with types t of its pods: leaving pods of t <= whole[k] <= leaving pods of all t of k."""
    terms = leaving_pods(case, v)
    for group, keys in case.problem.groups.items():
        types = [case.classes.type_of[key] for key in keys]
        for t in types:
            model.add(total(terms[t]) <= v.whole[group])
        model.add(total([term for t in types for term in terms[t]]) >= v.whole[group])


def demand_groups_are_admitted_whole(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every group of demands G with types d in G: sum over s of admit[d, s] = demands of d * whole[G]."""
    group_of = {demand.key: demand.group for demand in case.problem.demands}
    types: defaultdict[str, list[int]] = defaultdict(list)
    for d, kind in enumerate(case.classes.demands):
        group = group_of[kind.pods[0]]
        if group is not None:
            types[group].append(d)
    for number, group in enumerate(sorted(types)):
        whole = model.new_bool_var(f"admitted[{number}]")
        for d in types[group]:
            places = [v.admit[d, s] for s in sorted(case.classes.demands[d].sites)]
            model.add(cp_model.LinearExpr.sum(places) == len(case.classes.demands[d].pods) * whole)


def moves_are_limited(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """Pods that restart, of all types <= max_moves, and of the types of each workload <= max_moves_per_workload."""
    terms, options = restarting_pods(case, v), case.options
    if options.max_moves is not None:
        model.add(total([term for of_type in terms for term in of_type]) <= options.max_moves)
    if options.max_moves_per_workload is not None:
        of_workload: defaultdict[str, Parts] = defaultdict(list)
        for t, kind in enumerate(case.classes.types):
            of_workload[case.problem.movable[kind.pods[0]].workload] += terms[t]
        for workload in sorted(of_workload):
            model.add(total(of_workload[workload]) <= options.max_moves_per_workload)


Rule = Callable[[Case, MoveVars, cp_model.CpModel], None]

RULES: tuple[Rule, ...] = (
    one_leaving_per_node,
    room_is_what_leaves,
    scarce_resources_suffice,
    cuts_find_room,
    every_cut_is_filled,
    every_fill_is_admitted,
    who_comes_back_is_another,
    who_leaves_comes,
    demand_is_admitted_once,
    nobody_stays_by_moving,
    groups_restart_whole,
    demand_groups_are_admitted_whole,
    moves_are_limited,
)
