"""The variables of the model: who leaves, what is cut from the free GPUs, who comes.

Indexes: c node class, l leaving of a class, t type of running pods, d type of demands, s site, r free GPUs of a node
(where links count, its state), g kind of a pod that comes (where counts decide, its GPUs), f set of demands that come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from islander.policy.need import PodNeed
from islander.policy.settings import DemandMix
from planner.models.classes import Classes, PodType
from planner.models.islands import Islands, islands_of, kind_of, kinds_of
from planner.models.light_ortools import cp_model
from planner.models.patterns import Leaving, leavings
from planner.options import PlanOptions
from planner.problem import Problem
from planner.world import World

Expression = cp_model.LinearExprT
# (variable, factor): the parts of a sum.
Parts = list[tuple[cp_model.IntVar, int]]


@dataclass(frozen=True, slots=True)
class Case:
    """All that the model is made from."""

    problem: Problem
    world: World
    options: PlanOptions
    classes: Classes
    mix: DemandMix
    leavings: tuple[tuple[Leaving, ...] | None, ...]
    islands: Mapping[int, Islands]
    kinds: Mapping[PodNeed, int]

    @classmethod
    def of(cls, problem: Problem, world: World, options: PlanOptions, classes: Classes, mix: DemandMix) -> Case:
        """Return the case of a problem."""
        islands, with_links = islands_of(problem, world, classes)
        listed = tuple(
            with_links[c] if c in with_links else leavings(k, classes.types, single=classes.sites[k.site].single)
            for c, k in enumerate(classes.classes)
        )
        return cls(problem, world, options, classes, mix, listed, islands, kinds_of(classes))

    @property
    def exact(self) -> bool:
        """True when no legal plan is outside the model, so that its bounds are bounds of the plans."""
        on = {self.problem.movable[key].pod.node for keys in self.problem.groups.values() for key in keys}
        # What a group's pod picks that restarts where it is, is not followed.
        groups_are_counted = not any(on.intersection(self.classes.sites[s].nodes) for s in self.islands)
        complete = all(islands.complete for islands in self.islands.values())
        return self.classes.exact and complete and groups_are_counted

    def size(self, site: int, pods: PodType) -> int:
        """Return what a site tells pods apart by: their GPUs, and where links count, their kind."""
        return pods.gpus if site not in self.islands else self.kinds[kind_of(pods.footprint.need)]

    def after(self, site: int, room: int, size: int) -> int:
        """Return the room of a node when a pod has come."""
        return room - size if site not in self.islands else self.islands[site].steps[room, size].state


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
        cut[s, r, g]: nodes of site s that have r free GPUs when one more pod of g GPUs comes; where links count, one
        more pod that moves.
    fill
        fill[s, r, f]: nodes of site s, on which links count, to which demands f come.
    go
        go[t, s]: pods of type t that come to site s.
    admit
        admit[d, s]: demands of type d admitted on site s.
    whole
        whole[k]: 1 when group k of running pods restarts, wherever its pods then run.
    """

    leave: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    out: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    room: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    cut: dict[tuple[int, int, int], cp_model.IntVar] = field(default_factory=dict)
    fill: dict[tuple[int, int, int], cp_model.IntVar] = field(default_factory=dict)
    go: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    admit: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    whole: dict[str, cp_model.IntVar] = field(default_factory=dict)

    def all(self) -> list[cp_model.IntVar]:
        """Return every variable, in the order in which they were made."""
        families = (self.leave, self.out, self.room, self.cut, self.fill, self.go, self.admit, self.whole)
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
    for s, islands in case.islands.items():
        nodes = len(classes.sites[s].nodes)
        for r, g in islands.steps:
            v.cut[s, r, g] = model.new_int_var(0, nodes, f"cut[{s},{r},{g}]")
        for r, fills in islands.fills.items():
            for f in range(len(fills)):
                v.fill[s, r, f] = model.new_int_var(0, nodes, f"fill[{s},{r},{f}]")
    for t, kind in enumerate(classes.types):
        for s in sorted(kind.sites):
            v.go[t, s] = model.new_int_var(0, len(kind.pods), f"go[{t},{s}]")
    for d, kind in enumerate(classes.demands):
        for s in sorted(kind.sites):
            v.admit[d, s] = model.new_int_var(0, len(kind.pods), f"admit[{d},{s}]")
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


def leaving_pods(case: Case, v: MoveVars) -> list[Parts]:
    """Return, by type t, (variable, pods) whose sum is the number of pods of t that leave their node."""
    terms: list[Parts] = [[] for _ in case.classes.types]
    for c in range(len(case.classes.classes)):
        for number, leaving in enumerate(case.leavings[c] or ()):
            for t, count in leaving.types:
                terms[t].append((v.leave[c, number], count))
    for (_, t), variable in v.out.items():
        terms[t].append((variable, 1))
    return terms


def restarting_pods(case: Case, v: MoveVars) -> list[Parts]:
    """Return, by type t, (variable, pods) whose sum is the pods of t that stop serving: with their group, or alone."""
    terms = leaving_pods(case, v)
    for group, keys in case.problem.groups.items():
        for key in keys:
            terms[case.classes.type_of[key]] = [(v.whole[group], 1)]
    return terms


def total(terms: Iterable[tuple[cp_model.IntVar, int]]) -> Expression:
    """Return the weighted sum of variables."""
    parts = list(terms)
    return cp_model.LinearExpr.weighted_sum([variable for variable, _ in parts], [weight for _, weight in parts])


def leaving_of_class(case: Case, v: MoveVars, c: int) -> list[tuple[cp_model.IntVar, int, PodType]]:
    """Return (variable, pods, their type) whose sum are the pods that leave nodes of class c."""
    types = case.classes.types
    listed = [
        (v.leave[c, number], count, types[t])
        for number, leaving in enumerate(case.leavings[c] or ())
        for t, count in leaving.types
    ]
    if case.leavings[c] is None:
        listed += [(v.out[c, t], 1, types[t]) for t, _ in case.classes.classes[c].holds]
    return listed


def coming(case: Case, v: MoveVars) -> dict[int, list[tuple[cp_model.IntVar, PodType]]]:
    """Return, by site, who may come."""
    found: defaultdict[int, list[tuple[cp_model.IntVar, PodType]]] = defaultdict(list)
    for kinds, family in ((case.classes.types, v.go), (case.classes.demands, v.admit)):
        for (index, s), variable in family.items():
            found[s].append((variable, kinds[index]))
    return found


def nodes_at(case: Case, v: MoveVars) -> dict[tuple[int, int], Parts]:
    """Return, by (s, r), the terms whose sum is the nodes of s with r free GPUs once all that leave have left."""
    at: defaultdict[tuple[int, int], Parts] = defaultdict(list)
    for c, node_class in enumerate(case.classes.classes):
        for number, leaving in enumerate(case.leavings[c] or ()):
            at[node_class.site, leaving.room].append((v.leave[c, number], 1))
    for (c, r), variable in v.room.items():
        if not case.classes.sites[case.classes.classes[c].site].single:
            at[case.classes.classes[c].site, r].append((variable, 1))
    return at


def nodes_before_demand(case: Case, v: MoveVars) -> dict[tuple[int, int], Parts]:
    """Return, by (s, r), the terms whose sum is the nodes of s with r free GPUs once the cuts are made.

    Where links count, nodes that demands fill are taken off.
    """
    left: defaultdict[tuple[int, int], Parts] = defaultdict(list, nodes_at(case, v))
    for (s, r, g), variable in v.cut.items():
        left[s, r].append((variable, -1))
        left[s, case.after(s, r, g)].append((variable, 1))
    for (s, r, _), variable in v.fill.items():
        left[s, r].append((variable, -1))
    return left


def nodes_left_at(case: Case, v: MoveVars) -> dict[tuple[int, int], Parts]:
    """Return, by (s, r), the terms whose sum is the nodes of s with r free GPUs at the end."""
    left: defaultdict[tuple[int, int], Parts] = defaultdict(list, nodes_before_demand(case, v))
    for (s, r, f), variable in v.fill.items():
        left[s, case.islands[s].fills[r][f].state].append((variable, 1))
    for (c, r), variable in v.room.items():
        if case.classes.sites[case.classes.classes[c].site].single:
            left[case.classes.classes[c].site, r].append((variable, 1))
    return left
