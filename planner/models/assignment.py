"""The model of who leaves, what is cut from the free GPUs, and who comes: variables, rules, terms.

Every rule is a function whose docstring is its inequality; none needs another to have run. `RULES` is the list of them.

Indexes: c node class, l leaving of a class, t type of running pods, d type of demands, s site, r free GPUs of a node,
g GPUs of a pod, n node that is a site of its own, p pattern of such a node, f footprint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from islander.policy.settings import DemandMix
from planner.models.classes import Classes, PodType
from planner.models.light_ortools import cp_model
from planner.models.patterns import Leaving, OwnPatterns, capacity_of_count, footprints_of, leavings, own_patterns
from planner.options import PlanOptions
from planner.problem import Problem
from planner.world import World

Expression = cp_model.LinearExprT


@dataclass(frozen=True, slots=True)
class Case:
    """All that the model is made from."""

    problem: Problem
    world: World
    options: PlanOptions
    classes: Classes
    mix: DemandMix
    leavings: tuple[tuple[Leaving, ...] | None, ...]
    own: tuple[OwnPatterns, ...]

    @classmethod
    def of(cls, problem: Problem, world: World, options: PlanOptions, classes: Classes, mix: DemandMix) -> Case:
        """Return the case of a problem."""
        return cls(
            problem,
            world,
            options,
            classes,
            mix,
            tuple(
                leavings(node_class, classes.types, single=classes.sites[node_class.site].single)
                for node_class in classes.classes
            ),
            tuple(own_patterns(problem, world, classes, mix)),
        )

    @property
    def exact(self) -> bool:
        """True when no legal plan is outside the model, so that its bounds are bounds of the plans."""
        return self.classes.exact and all(patterns.complete for patterns in self.own)


@dataclass(frozen=True, slots=True)
class MoveVars:
    """The variables.

    Attributes
    ----------
    leave
        leave[c, l]: nodes of class c that the pods of leaving l leave.
    out
        out[c, t]: pods of type t that leave the one node of class c, where its leavings are not listed.
    room
        room[c, r]: 1 when that node has r free GPUs once all that leave have left; on the only node of a site, once
        all that come have come, too (r is below 0 while pods hold more GPUs than the node offers).
    cut
        cut[s, r, g]: nodes of site s that have r free GPUs when one more pod of g GPUs comes.
    go
        go[t, s]: pods of type t that come to site s.
    admit
        admit[d, s]: demands of type d admitted on site s.
    own
        own[n, p]: 1 when pattern p happens to node n.
    whole
        whole[k]: 1 when group k of running pods restarts, wherever its pods then run.
    """

    leave: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    out: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    room: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    cut: dict[tuple[int, int, int], cp_model.IntVar] = field(default_factory=dict)
    go: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    admit: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    own: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    whole: dict[str, cp_model.IntVar] = field(default_factory=dict)

    def all(self) -> list[cp_model.IntVar]:
        """Return every variable, in the order in which they were made."""
        families = (self.leave, self.out, self.room, self.cut, self.go, self.admit, self.own, self.whole)
        return list(chain.from_iterable(family.values() for family in families))


def variables_of(case: Case, model: cp_model.CpModel) -> MoveVars:
    """Make the variables, each with the tightest domain, and none where the policy says no."""
    v, classes = MoveVars(), case.classes
    for c, node_class in enumerate(classes.classes):
        listed = case.leavings[c]
        if listed is not None:
            for number in range(len(listed)):
                v.leave[c, number] = model.new_int_var(0, len(node_class.nodes), f"leave[{c},{number}]")
            continue
        for t, count in node_class.holds:
            v.out[c, t] = model.new_int_var(0, count, f"out[{c},{t}]")
        site = classes.sites[node_class.site]
        for r in range(min(0, node_class.spare) if site.single else node_class.spare, site.gpus + 1):
            v.room[c, r] = model.new_bool_var(f"room[{c},{r}]")
    sizes = sizes_of(classes)
    for site in classes.sites:
        if site.counted and not site.single:
            for r in range(1, site.gpus + 1):
                for g in sizes[site.index]:
                    if g <= r:
                        v.cut[site.index, r, g] = model.new_int_var(0, len(site.nodes), f"cut[{site.index},{r},{g}]")
    for t, kind in enumerate(classes.types):
        for s in sorted(kind.sites):
            v.go[t, s] = model.new_int_var(0, len(kind.pods), f"go[{t},{s}]")
    for d, kind in enumerate(classes.demands):
        for s in sorted(kind.sites):
            v.admit[d, s] = model.new_int_var(0, len(kind.pods), f"admit[{d},{s}]")
    for n, patterns in enumerate(case.own):
        for p in range(len(patterns.patterns)):
            v.own[n, p] = model.new_bool_var(f"own[{n},{p}]")
    for group in case.problem.groups:
        v.whole[group] = model.new_bool_var(f"whole[{group}]")
    return v


def sizes_of(classes: Classes) -> list[list[int]]:
    """Return the GPUs of the pods that each site may take, by site."""
    sizes: list[set[int]] = [set() for _ in classes.sites]
    for kind in (*classes.types, *classes.demands):
        for s in kind.sites:
            sizes[s].add(kind.gpus)
    return [sorted(found) for found in sizes]


def leaving_pods(case: Case, v: MoveVars) -> list[list[tuple[cp_model.IntVar, int]]]:
    """Return, by type t, (variable, pods) whose sum is the number of pods of t that leave their node."""
    terms: list[list[tuple[cp_model.IntVar, int]]] = [[] for _ in case.classes.types]
    for c in range(len(case.classes.classes)):
        for number, leaving in enumerate(case.leavings[c] or ()):
            for t, count in leaving.types:
                terms[t].append((v.leave[c, number], count))
    for (_, t), variable in v.out.items():
        terms[t].append((variable, 1))
    for n, patterns in enumerate(case.own):
        for p, pattern in enumerate(patterns.patterns):
            for key in pattern.leaves:
                terms[case.classes.type_of[key]].append((v.own[n, p], 1))
    return terms


def restarting_pods(case: Case, v: MoveVars) -> list[list[tuple[cp_model.IntVar, int]]]:
    """Return, by type t, (variable, pods) whose sum is the pods of t that stop serving: with their group, or alone."""
    terms = leaving_pods(case, v)
    for group, keys in case.problem.groups.items():
        for key in keys:
            terms[case.classes.type_of[key]] = [(v.whole[group], 1)]
    return terms


def total(terms: Sequence[tuple[cp_model.IntVar, int]]) -> Expression:
    """Return the weighted sum of variables."""
    return cp_model.LinearExpr.weighted_sum([variable for variable, _ in terms], [weight for _, weight in terms])


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
    coming = _coming(case, v)
    for c, node_class in enumerate(case.classes.classes):
        if case.leavings[c] is None:
            levels = [(v.room[key], key[1]) for key in v.room if key[0] == c]
            freed = [(v.out[c, t], case.classes.types[t].gpus) for t, _ in node_class.holds]
            model.add_exactly_one(variable for variable, _ in levels)
            taken: list[tuple[cp_model.IntVar, int]] = []
            if case.classes.sites[node_class.site].single:
                taken = [(variable, -kind.gpus) for variable, kind in coming[node_class.site]]
                for variable, r in levels:
                    if r < 0:
                        nobody = cp_model.LinearExpr.sum([arrival for arrival, _ in coming[node_class.site]])
                        model.add(nobody == 0).only_enforce_if(variable)
            model.add(total(levels) == node_class.spare + total([*freed, *taken]))


def _coming(case: Case, v: MoveVars) -> dict[int, list[tuple[cp_model.IntVar, PodType]]]:
    """Return, by site, who may come."""
    coming: defaultdict[int, list[tuple[cp_model.IntVar, PodType]]] = defaultdict(list)
    for kinds, family in ((case.classes.types, v.go), (case.classes.demands, v.admit)):
        for (index, s), variable in family.items():
            coming[s].append((variable, kinds[index]))
    return coming


def scarce_resources_suffice(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every s with scarce CPU, memory or pods: sum of what comes - sum of what leaves <= left over, in each."""
    coming = _coming(case, v)
    for c, node_class in enumerate(case.classes.classes):
        left_over = case.classes.sites[node_class.site].left_over
        if left_over is None:
            continue
        leaving = [(v.out[c, t], case.classes.types[t]) for t, _ in node_class.holds]
        amounts: tuple[Callable[[PodType], int], ...] = (
            lambda kind: kind.footprint.cpu_milli,
            lambda kind: kind.footprint.memory_bytes,
            lambda _: 1,
        )
        for amount, left in zip(amounts, left_over, strict=True):
            come = [(variable, amount(kind)) for variable, kind in coming[node_class.site]]
            gone = [(variable, -amount(kind)) for variable, kind in leaving]
            # Where pods ask for more than there is already, nothing has to leave; nothing may come either.
            model.add(total([*come, *gone]) <= max(0, left))


def nodes_at(case: Case, v: MoveVars) -> dict[tuple[int, int], list[tuple[cp_model.IntVar, int]]]:
    """Return, by (s, r), the terms whose sum is the nodes of s with r free GPUs once all that leave have left."""
    at: defaultdict[tuple[int, int], list[tuple[cp_model.IntVar, int]]] = defaultdict(list)
    for c, node_class in enumerate(case.classes.classes):
        for number, leaving in enumerate(case.leavings[c] or ()):
            at[node_class.site, leaving.room].append((v.leave[c, number], 1))
    for (c, r), variable in v.room.items():
        if not case.classes.sites[case.classes.classes[c].site].single:
            at[case.classes.classes[c].site, r].append((variable, 1))
    return at


def nodes_left_at(case: Case, v: MoveVars) -> dict[tuple[int, int], list[tuple[cp_model.IntVar, int]]]:
    """Return, by (s, r), the terms whose sum is the nodes of s with r free GPUs at the end."""
    at = nodes_at(case, v)
    left: defaultdict[tuple[int, int], list[tuple[cp_model.IntVar, int]]] = defaultdict(list, at)
    for (s, r, g), variable in v.cut.items():
        left[s, r].append((variable, -1))
        left[s, r - g].append((variable, 1))
    for (c, r), variable in v.room.items():
        if case.classes.sites[case.classes.classes[c].site].single:
            left[case.classes.classes[c].site, r].append((variable, 1))
    return left


def cuts_find_room(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every s, r > 0: nodes at r + sum over g of cut[s, r + g, g] >= sum over g of cut[s, r, g]."""
    for (_, r), terms in nodes_left_at(case, v).items():
        if r > 0 and any(weight < 0 for _, weight in terms):
            model.add(total(terms) >= 0)


def every_cut_is_filled(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every s of several nodes, g: sum over r of cut[s, r, g] = sum of go[t, s], admit[d, s] with g GPUs."""
    sums: defaultdict[tuple[int, int], list[tuple[cp_model.IntVar, int]]] = defaultdict(list)
    for (s, _, g), variable in v.cut.items():
        sums[s, g].append((variable, 1))
    for kinds, family in ((case.classes.types, v.go), (case.classes.demands, v.admit)):
        for (index, s), variable in family.items():
            if case.classes.sites[s].counted and not case.classes.sites[s].single:
                sums[s, kinds[index].gpus].append((variable, -1))
    for terms in sums.values():
        model.add(total(terms) == 0)


def one_pattern_per_own_node(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every n: exactly one own[n, p] is 1."""
    for n, patterns in enumerate(case.own):
        model.add_exactly_one(v.own[n, p] for p in range(len(patterns.patterns)))


def own_nodes_take_what_comes(case: Case, v: MoveVars, model: cp_model.CpModel) -> None:
    """For every n with site s, f: sum over p of f in p * own[n, p] = sum of go[t, s] and admit[d, s] of footprint f."""
    footprints = footprints_of(case.classes)
    for n, patterns in enumerate(case.own):
        sums: defaultdict[int, list[tuple[cp_model.IntVar, int]]] = defaultdict(list)
        for p, pattern in enumerate(patterns.patterns):
            for f, count in pattern.comes:
                sums[f].append((v.own[n, p], count))
        for kinds, family in ((case.classes.types, v.go), (case.classes.demands, v.admit)):
            for index, kind in enumerate(kinds):
                if (index, patterns.site) in family:
                    sums[footprints[kind.footprint]].append((family[index, patterns.site], -1))
        for f in sorted(sums):
            model.add(total(sums[f]) == 0)


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
        of_workload: defaultdict[str, list[tuple[cp_model.IntVar, int]]] = defaultdict(list)
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
    one_pattern_per_own_node,
    own_nodes_take_what_comes,
    who_leaves_comes,
    demand_is_admitted_once,
    nobody_stays_by_moving,
    groups_restart_whole,
    demand_groups_are_admitted_whole,
    moves_are_limited,
)


@dataclass(frozen=True, slots=True)
class Term:
    """One objective: what it counts, in which unit, and whether more of it is better.

    Attributes
    ----------
    parts
        (variable, weight); the objective is their sum.
    at_most
        More than this is worth nothing.
    tier
        The tier of demand whose admission it counts.
    """

    name: str
    unit: str
    maximise: bool
    parts: tuple[tuple[cp_model.IntVar, int], ...]
    at_most: int | None = None
    tier: int | None = None


def terms_of(case: Case, v: MoveVars) -> tuple[Term, ...]:
    """Return the objectives, the most important first."""
    leaving = restarting_pods(case, v)
    terms: list[Term] = []
    for tier, priority in enumerate(case.classes.tiers):
        admitted = _admitted(case, v, tier)
        terms.append(Term(f"GPUs admitted at priority {priority}", "GPUs", True, admitted, tier=tier))
        if tier + 1 < len(case.classes.tiers):
            below = len(case.classes.tiers) - tier - 1
            moved = _moved_of_rank(case.classes.types, leaving, below)
            name = f"replicas moved above priority {case.classes.tiers[tier + 1]}"
            terms.append(Term(name, "moves", False, moved))
    if case.options.empty_nodes:
        parts, already = _empty_nodes(case, v)
        most = already + case.options.empty_nodes
        terms.append(Term("empty nodes", "nodes", True, parts, at_most=most))
    terms.append(Term("replicas moved", "moves", False, tuple(part for parts in leaving for part in parts)))
    if case.options.spare_nodes:
        terms.append(Term("empty nodes kept", "nodes", True, _empty_nodes(case, v)[0]))
    terms.append(Term("replicas without an island", "replicas", False, _linkless(case, v)))
    reload = tuple(
        (variable, count * case.classes.types[t].reload_seconds * case.classes.types[t].gpus)
        for t, parts in enumerate(leaving)
        for variable, count in parts
    )
    terms.append(Term("reload", "GPU-seconds", False, reload))
    terms.append(Term("room left", "GPUs of the mix / 1000", True, _room_left(case, v)))
    return tuple(term for term in terms if any(weight for _, weight in term.parts))


def _admitted(case: Case, v: MoveVars, tier: int) -> tuple[tuple[cp_model.IntVar, int], ...]:
    demands = case.classes.demands
    return tuple((variable, demands[d].gpus) for (d, _), variable in v.admit.items() if demands[d].rank == tier)


def _moved_of_rank(
    types: Sequence[PodType], leaving: Sequence[Sequence[tuple[cp_model.IntVar, int]]], below: int
) -> tuple[tuple[cp_model.IntVar, int], ...]:
    """Pods whose priority is above that of the `below` lowest tiers."""
    return tuple(part for kind, parts in zip(types, leaving, strict=True) if kind.rank >= below for part in parts)


def _empty_nodes(case: Case, v: MoveVars) -> tuple[tuple[tuple[cp_model.IntVar, int], ...], int]:
    parts: list[tuple[cp_model.IntVar, int]] = []
    for (s, r), terms in nodes_left_at(case, v).items():
        if r == case.classes.sites[s].gpus:
            parts += terms
    parts += [
        (v.own[n, p], 1)
        for n, patterns in enumerate(case.own)
        for p, pattern in enumerate(patterns.patterns)
        if pattern.empties
    ]
    already = sum(
        len(node_class.nodes)
        for node_class in case.classes.classes
        if node_class.spare == case.classes.sites[node_class.site].gpus
    )
    return tuple(parts), already


def _linkless(case: Case, v: MoveVars) -> tuple[tuple[cp_model.IntVar, int], ...]:
    parts = [(variable, 1) for (t, s), variable in v.go.items() if s in case.classes.types[t].linkless]
    parts += [(variable, 1) for (d, s), variable in v.admit.items() if s in case.classes.demands[d].linkless]
    parts += [
        (v.own[n, p], pattern.linkless)
        for n, patterns in enumerate(case.own)
        for p, pattern in enumerate(patterns.patterns)
        if pattern.linkless
    ]
    return tuple(parts)


def _room_left(case: Case, v: MoveVars) -> tuple[tuple[cp_model.IntVar, int], ...]:
    weights: defaultdict[int, int] = defaultdict(int)
    by_index: dict[int, cp_model.IntVar] = {}
    for (_, r), terms in nodes_left_at(case, v).items():
        value = capacity_of_count(r, case.mix)
        for variable, weight in terms:
            weights[variable.index] += weight * value
            by_index[variable.index] = variable
    parts = [(by_index[index], weight) for index, weight in weights.items()]
    parts += [
        (v.own[n, p], pattern.capacity_left)
        for n, patterns in enumerate(case.own)
        for p, pattern in enumerate(patterns.patterns)
    ]
    return tuple(parts)
