"""A problem in counts: which pods are of one type, and which nodes take the same ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.policy.assess import Verdict, assess
from islander.policy.fit import unfit
from islander.policy.need import PodNeed
from islander.policy.occupancy import GpuState
from islander.policy.settings import DEFAULT_MIX
from planner.goal import in_order
from planner.models.alike import held, out_of_order, symmetries_at
from planner.models.classes import (
    NOBODY,
    Classes,
    Footprint,
    NodeClass,
    PodType,
    Site,
    counts_decide,
    is_ruled,
    rank_of,
    tiers_of,
    without_rules,
)
from planner.problem import Demand, MovablePod, Problem
from planner.rules import Rules
from planner.world import World

# Rules between pods are looked up node by node only while (nodes x types with rules x pods) is so small.
MAX_RULE_LOOKUPS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Draft:
    """A type before its sites are known."""

    pod: Pod
    need: PodNeed
    rank: int
    reload_seconds: int
    apart: Hashable
    ruled: bool

    def legality(self) -> Hashable:
        spec = self.pod.spec
        rules: Hashable = (self.pod.namespace, self.pod.labels, spec) if self.ruled else None
        return (self.need, spec.node_selector, spec.node_terms, spec.tolerations, rules)


def classes_of(problem: Problem, world: World, *, per_workload: bool = False, ignore_scarcity: bool = False) -> Classes:
    """Return the problem in counts.

    Parameters
    ----------
    per_workload
        Tell pods of different workloads apart, because their moves are limited.
    ignore_scarcity
        Take CPU, memory and pod slots for sufficient everywhere: far fewer types and sites, and bounds that hold all
        the same, but a solution of it may not fit.
    """
    tiers = tiers_of(problem.demands)
    rules = Rules.of(world)
    moving = {key: _draft_of(mover, tiers, rules, per_workload) for key, mover in problem.movable.items()}
    waiting = {demand.key: _draft_of_demand(demand, tiers, rules) for demand in problem.demands}
    kinds: dict[Hashable, _Draft] = {}
    for draft in (*moving.values(), *waiting.values()):
        kinds.setdefault(draft.legality(), draft)
    board = _Board(world, kinds, problem.movable, ignore_scarcity=ignore_scarcity)
    types, type_of = _types(moving, board, "t")
    demands, _ = _types(waiting, board, "d")
    return Classes(
        tiers=tiers,
        types=types,
        demands=demands,
        sites=board.sites,
        classes=_node_classes(board, world, type_of, [draft.need for draft in kinds.values()]),
        type_of=type_of,
        exact=not board.looked_up,
    )


def _draft_of(mover: MovablePod, tiers: tuple[int, ...], rules: Rules, per_workload: bool) -> _Draft:
    apart = (mover.unit, mover.pod.key) if mover.group else (mover.workload if per_workload else None)
    ruled = is_ruled(mover.pod) or rules.repel(mover.pod)
    return _Draft(mover.pod, mover.need, rank_of(mover.pod.spec.priority, tiers), mover.reload_seconds, apart, ruled)


def _draft_of_demand(demand: Demand, tiers: tuple[int, ...], rules: Rules) -> _Draft:
    ruled = is_ruled(demand.pod) or rules.repel(demand.pod)
    return _Draft(demand.pod, demand.need, tiers.index(demand.priority), 0, demand.group, ruled)


def _types(drafts: Mapping[str, _Draft], board: _Board, letter: str) -> tuple[tuple[PodType, ...], dict[str, int]]:
    alike: defaultdict[Hashable, list[str]] = defaultdict(list)
    for key in sorted(drafts, key=in_order):
        draft = drafts[key]
        footprint = Footprint.of(draft.pod, draft.need, scarce=board.scarce)
        sites, linkless = board.legal[draft.legality()]
        alike[(footprint, draft.rank, draft.reload_seconds, sites, linkless, draft.apart)].append(key)
    types: list[PodType] = []
    type_of: dict[str, int] = {}
    for keys in alike.values():
        draft = drafts[keys[0]]
        sites, linkless = board.legal[draft.legality()]
        type_of |= dict.fromkeys(keys, len(types))
        name = f"{letter}{len(types)}"
        footprint = Footprint.of(draft.pod, draft.need, scarce=board.scarce)
        types.append(PodType(name, footprint, tuple(keys), draft.rank, draft.reload_seconds, sites, linkless))
    return tuple(types), type_of


class _Board:
    """Sites, and which kind of pod each takes."""

    def __init__(
        self, world: World, kinds: Mapping[Hashable, _Draft], movable: Collection[str], *, ignore_scarcity: bool
    ) -> None:
        self._world = world
        self._kinds = kinds
        self._keys = sorted(_label_keys(kinds.values()))
        self._names = _node_names(kinds.values())
        self.resources = sorted({draft.need.resource for draft in kinds.values()})
        self._worst = _worst_per_gpu(kinds.values())
        pods = sum(len(there) for there in world.pods_on.values())
        look_up = len(world.nodes) * sum(draft.ruled for draft in kinds.values()) * pods <= MAX_RULE_LOOKUPS
        self._ruled = [draft for draft in kinds.values() if draft.ruled] if look_up else []
        self.looked_up = bool(self._ruled)
        self._movable = movable
        self._ignore_scarcity = ignore_scarcity
        self.states: dict[str, GpuState] = {}
        self._left_over: dict[str, tuple[int, int, int] | None] = {}
        self.sites = self._sites()
        self.scarce = any(left is not None for left in self._left_over.values())
        self.legal = {key: self._legal_sites(draft) for key, draft in kinds.items()}

    def _sites(self) -> tuple[Site, ...]:
        alike: defaultdict[tuple[Hashable, ...], list[str]] = defaultdict(list)
        for name in sorted(self._world.nodes):
            node = self._world.nodes[name]
            offered = [resource for resource in self.resources if node.allocatable.count(resource)]
            if not offered:
                continue
            state = self.states[name] = self._world.state(name, offered[0])
            counted = len(offered) == 1 and counts_decide(state, (draft.need for draft in self._kinds.values()))
            self._left_over[name] = left_over = self._scarce_on(node, state)
            kind = (state.resource, state.allocatable, state.capacity, state.hardware, state.product, state.memory_mib)
            reports = None if counted else _reports_of(node, state, offered)
            apart = "" if left_over is None else name
            usable = (state.shared, state.whole, state.mig_change)
            alike[(apart, counted, self._signature(node), kind, usable, reports)].append(name)
        return tuple(
            Site(index, tuple(nodes), self.states[nodes[0]].allocatable, bool(counted), self._left_over[nodes[0]])
            for index, ((_, counted, *_), nodes) in enumerate(alike.items())
        )

    def _signature(self, node: Node) -> Hashable:
        labels = dict(node.labels)
        taints = tuple(taint for taint in node.taints if taint.effect != "PreferNoSchedule")
        values = tuple(labels.get(key) for key in self._keys)
        closed = tuple(unfit(draft.pod, node, self._world.neighbours(), ()) is not None for draft in self._ruled)
        return (node.ready, node.unschedulable, taints, values, node.name if node.name in self._names else "", closed)

    def _scarce_on(self, node: Node, state: GpuState) -> tuple[int, int, int] | None:
        """Return what the node's pods leave over; None when that suffices whatever comes onto its GPUs."""
        there = self._world.pods_at(node.name)
        staying = [pod for pod in there if pod.key not in self._movable]
        gpus = max(0, state.allocatable - sum(pod.spec.requests.count(state.resource) for pod in staying))
        cpu_milli, memory_bytes = self._worst
        enough = (
            sum(pod.spec.requests.cpu_milli for pod in staying) + gpus * cpu_milli <= node.allocatable.cpu_milli
            and sum(pod.spec.requests.memory_bytes for pod in staying) + gpus * memory_bytes
            <= node.allocatable.memory_bytes
            and len(staying) + gpus <= node.max_pods
        )
        if enough or self._ignore_scarcity:
            return None
        return (
            node.allocatable.cpu_milli - sum(pod.spec.requests.cpu_milli for pod in there),
            node.allocatable.memory_bytes - sum(pod.spec.requests.memory_bytes for pod in there),
            node.max_pods - len(there),
        )

    def _legal_sites(self, draft: _Draft) -> tuple[frozenset[int], frozenset[int]]:
        legal: set[int] = set()
        linkless: set[int] = set()
        pod = without_rules(draft.pod)
        for site in self.sites:
            node = self._world.nodes[site.nodes[0]]
            around, candidate = (self._world.neighbours(), draft.pod) if draft in self._ruled else (NOBODY, pod)
            if unfit(candidate, node, around, ()) is not None:
                continue
            found = assess(self._world.emptied(node.name, draft.need.resource), draft.need, DEFAULT_MIX)
            if found.accepted or not site.counted:
                legal.add(site.index)
                if site.counted and draft.need.wants_island and found.verdict is Verdict.IMPOSSIBLE:
                    linkless.add(site.index)
        return frozenset(legal), frozenset(linkless)


def _label_keys(drafts: Iterable[_Draft]) -> set[str]:
    keys: set[str] = set()
    for draft in drafts:
        keys |= {key for key, _ in draft.pod.spec.node_selector}
        keys |= {label.key for term in draft.pod.spec.node_terms or () for label in term.labels}
    return keys


def _node_names(drafts: Iterable[_Draft]) -> set[str]:
    fields = (field for draft in drafts for term in draft.pod.spec.node_terms or () for field in term.fields)
    return {value for field in fields for value in field.values}


def _reports_of(node: Node, state: GpuState, offered: Sequence[str]) -> Hashable:
    """Return what a node reports of its GPUs, beside who holds them, where links count."""
    told = node.gpu_report is not None and bool(node.gpu_report.gpus)
    others = tuple((resource, node.allocatable.count(resource)) for resource in offered)
    return state.topology_manager_policy, told, out_of_order(node, state.hardware.gpus), others


def _worst_per_gpu(drafts: Iterable[_Draft]) -> tuple[int, int]:
    cpu_milli = memory_bytes = 0
    for draft in drafts:
        requests, gpus = draft.pod.spec.requests, max(1, draft.need.gpus)
        cpu_milli = max(cpu_milli, -(-requests.cpu_milli // gpus))
        memory_bytes = max(memory_bytes, -(-requests.memory_bytes // gpus))
    return cpu_milli, memory_bytes


def _node_classes(
    board: _Board, world: World, type_of: Mapping[str, int], needs: Collection[PodNeed]
) -> tuple[NodeClass, ...]:
    found: list[NodeClass] = []
    for site in board.sites:
        alike: defaultdict[tuple[int, tuple[tuple[int, int], ...], Hashable], list[str]] = defaultdict(list)
        pods: dict[str, tuple[str, ...]] = {}
        for name in site.nodes:
            state, there = board.states[name], world.pods_at(name)
            counts = Counter(type_of[pod.key] for pod in there if pod.key in type_of)
            like: Hashable = None
            if not site.counted:
                node = world.nodes[name]
                resources = [resource for resource in board.resources if node.allocatable.count(resource)]
                symmetries = symmetries_at(node, world, resources, needs)
                holders = held(node, there, resources, symmetries, type_of)
                used = tuple(world.state(name, resource).used for resource in resources)
                like, pods[name] = (used, holders.like), holders.pods
            alike[state.allocatable - state.used, tuple(sorted(counts.items())), like].append(name)
        for (spare, holds, _), names in sorted(alike.items(), key=lambda item: (item[0][:2], item[1])):
            of_each = tuple(pods[name] for name in names) if not site.counted else ()
            found.append(NodeClass(site.index, tuple(names), spare, holds, of_each))
    return tuple(found)
