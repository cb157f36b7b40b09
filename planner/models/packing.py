"""The model of what fits by CPU and memory when every pod may move or stop: variables, rules, goals.

Every rule is a function whose docstring is its inequality; none needs another to have run. `RULES` is the list of them.
Pods that ask for the same are counted, not told apart, so that no two solutions differ by an exchange of such pods.

Indexes: k kind of pods, n node, t tier of priority, 0 the highest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from planner.models.light_ortools import cp_model
from planner.packing import PackedNode

Expression = cp_model.LinearExprT

# counts[k, n]: pods of kind k on node n; none where a pair is missing.
Counts = Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class PodKind:
    """Pods with equal requests and priority: any of them is as good as any other."""

    cpu_milli: int
    memory_bytes: int
    tier: int


@dataclass(frozen=True, slots=True)
class Part:
    """Some nodes, and the pods that may run on them.

    Attributes
    ----------
    pods
        pods[k]: how many there are of kind k.
    running
        running[k, n]: how many of kind k run on node n before anything changes.
    """

    nodes: tuple[PackedNode, ...]
    kinds: tuple[PodKind, ...]
    pods: tuple[int, ...]
    running: Counts

    def most(self, k: int, n: int) -> int:
        """Return how many pods of kind k node n holds when it holds nothing else."""
        kind, node = self.kinds[k], self.nodes[n]
        rooms = [self.pods[k]]
        if kind.cpu_milli:
            rooms.append(node.cpu_milli // kind.cpu_milli)
        if kind.memory_bytes:
            rooms.append(node.memory_bytes // kind.memory_bytes)
        return min(rooms)


@dataclass(frozen=True, slots=True)
class PackingVars:
    """The variables.

    Attributes
    ----------
    put
        put[k, n]: pods of kind k that run on node n afterwards.
    keep
        keep[k, n]: those of them that did not move.
    """

    put: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    keep: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)


def variables_of(part: Part, model: cp_model.CpModel) -> PackingVars:
    """Make the variables, each with the tightest domain, and none where no pod fits."""
    v = PackingVars()
    for k in range(len(part.kinds)):
        for n in range(len(part.nodes)):
            most = part.most(k, n)
            if most > 0:
                v.put[k, n] = model.new_int_var(0, most, f"put[{k},{n}]")
    for k, n in sorted(v.put.keys() & part.running.keys()):
        # A pod that runs here may be meant for another part.
        stays = min(part.running[k, n], part.pods[k])
        if stays:
            v.keep[k, n] = model.new_int_var(0, stays, f"keep[{k},{n}]")
    return v


def nodes_hold_what_they_have(part: Part, v: PackingVars, model: cp_model.CpModel) -> None:
    """For every n: sum over k of cpu(k) * put[k, n] <= cpu of n; the same for memory."""
    here: defaultdict[int, list[tuple[cp_model.IntVar, PodKind]]] = defaultdict(list)
    for (k, n), variable in v.put.items():
        here[n].append((variable, part.kinds[k]))
    for n, pods in here.items():
        variables = [variable for variable, _ in pods]
        cpu_milli = cp_model.LinearExpr.weighted_sum(variables, [kind.cpu_milli for _, kind in pods])
        memory_bytes = cp_model.LinearExpr.weighted_sum(variables, [kind.memory_bytes for _, kind in pods])
        model.add(cpu_milli <= part.nodes[n].cpu_milli)
        model.add(memory_bytes <= part.nodes[n].memory_bytes)


def pods_run_once(part: Part, v: PackingVars, model: cp_model.CpModel) -> None:
    """For every k: sum over n of put[k, n] <= pods of k."""
    places: defaultdict[int, list[cp_model.IntVar]] = defaultdict(list)
    for (k, _), variable in v.put.items():
        places[k].append(variable)
    for k, variables in places.items():
        model.add(cp_model.LinearExpr.sum(variables) <= part.pods[k])


def who_stays_is_there(part: Part, v: PackingVars, model: cp_model.CpModel) -> None:
    """For every k, n: keep[k, n] <= put[k, n]."""
    for key, variable in v.keep.items():
        model.add(variable <= v.put[key])


Rule = Callable[[Part, PackingVars, cp_model.CpModel], None]

RULES: tuple[Rule, ...] = (nodes_hold_what_they_have, pods_run_once, who_stays_is_there)


def build(part: Part) -> tuple[cp_model.CpModel, PackingVars]:
    """Return the model with all its rules, and its variables; it has no objective yet."""
    model = cp_model.CpModel()
    v = variables_of(part, model)
    for rule in RULES:
        rule(part, v, model)
    return model, v


class Measure(Enum):
    """What a goal counts."""

    PLACED = auto()
    KEPT = auto()


@dataclass(frozen=True, slots=True)
class Goal:
    """As many pods as possible of tiers 0 to t: that run, or that run where they ran before."""

    measure: Measure
    tier: int

    def reached(self, part: Part, counts: Counts) -> int:
        """Return the value of the goal when pods run so."""
        if self.measure is Measure.PLACED:
            return sum(pods for (k, _), pods in counts.items() if part.kinds[k].tier <= self.tier)
        return sum(
            min(pods, counts.get((k, n), 0)) for (k, n), pods in part.running.items() if part.kinds[k].tier <= self.tier
        )

    def expression(self, part: Part, v: PackingVars) -> Expression:
        """Return the value of the goal as the model counts it."""
        family = v.put if self.measure is Measure.PLACED else v.keep
        counted = [variable for (k, _), variable in family.items() if part.kinds[k].tier <= self.tier]
        return cp_model.LinearExpr.sum(counted)

    def ceiling(self, part: Part) -> int:
        """Return what the goal cannot exceed: all pods, or all that run."""
        if self.measure is Measure.PLACED:
            return sum(pods for kind, pods in zip(part.kinds, part.pods, strict=True) if kind.tier <= self.tier)
        return self.reached(part, part.running)


def goals_of(tiers: int) -> tuple[Goal, ...]:
    """Return the goals, the most important first."""
    return tuple(Goal(measure, tier) for tier in range(tiers) for measure in (Measure.PLACED, Measure.KEPT))
