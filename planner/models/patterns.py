"""What can happen to one node: which pods leave it, and what then fits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from msgspec import structs

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.policy.assess import Verdict, assess
from islander.policy.fit import unfit
from islander.policy.occupancy import GpuState, gpu_state
from islander.policy.room import replicas_guaranteed
from islander.policy.settings import DEFAULT_MIX, DemandMix
from planner.models.classes import NOBODY, Classes, Footprint, NodeClass, PodType, without_rules
from planner.problem import Problem
from planner.world import World

# Beyond so many sets of leaving pods a node gets one variable per type of pod instead of one per set.
MAX_LEAVINGS = 64
# A node where links count is followed through so many states; then only what was found so far is proposed.
MAX_STATES = 3_000
LEAST_STATES = 60
# With more such nodes than this, a node either gives pods away or takes running ones, not both: no chains of moves.
MAX_CHAINED = 12
# Room left is measured in thousandths of a GPU of the demand mix.
CAPACITY_SCALE = 1_000


@dataclass(frozen=True, slots=True)
class Leaving:
    """Pods that leave one node of a class.

    Attributes
    ----------
    types
        (type index, pods), sorted.
    room
        GPUs that are then free.
    """

    types: tuple[tuple[int, int], ...]
    room: int

    def count(self, type_index: int) -> int:
        """Return how many pods of a type leave."""
        return next((count for index, count in self.types if index == type_index), 0)


@dataclass(frozen=True, slots=True)
class OwnPattern:
    """What happens to one node on which more counts than free GPUs.

    Attributes
    ----------
    leaves
        Keys of the pods that leave, sorted.
    comes
        (footprint index, pods), sorted.
    linkless
        Arriving pods that prefer an island and may not get one.
    capacity_left
        Room for the demand mix afterwards, scaled by `CAPACITY_SCALE`.
    empties
        True when no pod holds a GPU of the node afterwards, and one does now.
    """

    leaves: tuple[str, ...]
    comes: tuple[tuple[int, int], ...]
    linkless: int = 0
    capacity_left: int = 0
    empties: bool = False

    def count(self, footprint: int) -> int:
        """Return how many pods of a footprint come."""
        return next((count for index, count in self.comes if index == footprint), 0)


def leavings(node_class: NodeClass, types: Sequence[PodType], *, single: bool) -> tuple[Leaving, ...] | None:
    """Return every set of pods that may leave a node of the class, the empty one first.

    None when they are too many, or the node is the only one of its site: then its pods get a variable each.
    """
    if single:
        return None
    size = 1
    for _, count in node_class.holds:
        size *= count + 1
    if size > MAX_LEAVINGS and len(node_class.nodes) == 1 and node_class.spare >= 0:
        return None
    found = []
    for counts in product(*(range(count + 1) for _, count in node_class.holds)):
        chosen = tuple((index, n) for (index, _), n in zip(node_class.holds, counts, strict=True) if n)
        room = max(0, node_class.spare + sum(types[index].gpus * n for index, n in chosen))
        found.append(Leaving(chosen, room))
    return tuple(found)


def capacity_of(state: GpuState, mix: DemandMix) -> int:
    """Return the room a node has for the demand mix, in GPUs, scaled by `CAPACITY_SCALE`."""
    total = sum(weight for _, weight in mix.weights)
    return sum(
        round(CAPACITY_SCALE * weight / total) * shape.gpus * replicas_guaranteed(state, shape)
        for shape, weight in mix.weights
    )


def capacity_of_count(room: int, mix: DemandMix) -> int:
    """Return the same for a node of which `room` GPUs are free, any of which are as good as any others."""
    total = sum(weight for _, weight in mix.weights)
    return sum(
        round(CAPACITY_SCALE * weight / total) * shape.gpus * (max(0, room) // shape.gpus)
        for shape, weight in mix.weights
    )


@dataclass(frozen=True, slots=True)
class OwnPatterns:
    """Patterns of one node, the empty one first; `complete` is False when some may be missing."""

    node: str
    site: int
    patterns: tuple[OwnPattern, ...]
    complete: bool


def footprints_of(classes: Classes) -> dict[Footprint, int]:
    """Return the index of every footprint."""
    indexes: dict[Footprint, int] = {}
    for kind in (*classes.types, *classes.demands):
        indexes.setdefault(kind.footprint, len(indexes))
    return indexes


def own_patterns(problem: Problem, world: World, classes: Classes, mix: DemandMix) -> Iterator[OwnPatterns]:
    """Yield what can happen to each node on which more counts than free GPUs."""
    footprints = footprints_of(classes)
    chained = len(classes.own_nodes) <= MAX_CHAINED
    budget = max(LEAST_STATES, MAX_STATES // max(1, len(classes.own_nodes) // 8))
    for site in classes.sites:
        if not site.counted:
            yield _OneNode(problem, world, classes, footprints, site.index, mix, chained=chained).patterns(budget)


class _OneNode:
    """One node, followed through every order in which pods may come and go."""

    def __init__(
        self,
        problem: Problem,
        world: World,
        classes: Classes,
        footprints: Mapping[Footprint, int],
        site: int,
        mix: DemandMix,
        *,
        chained: bool,
    ) -> None:
        self.site = site
        self.chained = chained
        self.waiting = {footprints[kind.footprint] for kind in classes.demands}
        self.node: Node = world.nodes[classes.sites[site].nodes[0]]
        self.pods = world.pods_at(self.node.name)
        self.mix = mix
        self.movable = sorted(pod.key for pod in self.pods if pod.key in problem.movable)
        self.samples: dict[int, Pod] = {}
        self.footprints = {index: footprint for footprint, index in footprints.items()}
        self.most: dict[int, int] = {}
        for kind, running in (*((k, True) for k in classes.types), *((k, False) for k in classes.demands)):
            if site not in kind.sites:
                continue
            index = footprints[kind.footprint]
            elsewhere = sum(1 for key in kind.pods if not running or key not in self.movable)
            self.most[index] = self.most.get(index, 0) + elsewhere
            if index not in self.samples:
                pods: Mapping[str, Pod] = (
                    {key: problem.movable[key].pod for key in kind.pods[:1]}
                    if running
                    else {demand.key: demand.pod for demand in problem.demands if demand.key == kind.pods[0]}
                )
                self.samples[index] = without_rules(pods[kind.pods[0]])

    def patterns(self, budget: int) -> OwnPatterns:
        """Return the patterns, those that let fewer pods leave for the same arrivals only."""
        start: tuple[frozenset[str], tuple[int, ...]] = (frozenset(), ())
        seen = {start}
        queue = deque([start])
        while queue and len(seen) < budget:
            gone, come = queue.popleft()
            for state in self._next(gone, come):
                if state not in seen:
                    seen.add(state)
                    queue.append(state)
        least: dict[tuple[int, ...], list[frozenset[str]]] = {}
        for gone, come in sorted(seen, key=lambda state: (len(state[0]), state[1], sorted(state[0]))):
            kept = least.setdefault(come, [])
            wholly = len(gone) == len(self.movable) and not come
            if wholly or not any(smaller < gone for smaller in kept):
                kept.append(gone)
        found = [self._pattern(gone, come) for come, kept in least.items() for gone in kept]
        found.sort(key=lambda pattern: (len(pattern.leaves), len(pattern.comes), pattern.leaves, pattern.comes))
        return OwnPatterns(self.node.name, self.site, tuple(found), complete=self.chained and not queue)

    def _next(self, gone: frozenset[str], come: tuple[int, ...]) -> Iterator[tuple[frozenset[str], tuple[int, ...]]]:
        if self.chained or self.waiting.issuperset(come):
            for key in self.movable:
                if key not in gone:
                    yield gone | {key}, come
        there = self._there(gone, come)
        states: dict[str, GpuState] = {}
        for index, pod in self.samples.items():
            if come.count(index) >= self.most[index] or (gone and not self.chained and index not in self.waiting):
                continue
            need = self.footprints[index].need
            if unfit(pod, self.node, NOBODY, there) is not None:
                continue
            if need.resource not in states:
                states[need.resource] = gpu_state(self.node, there, need.resource)
            if assess(states[need.resource], need, DEFAULT_MIX).accepted:
                yield gone, tuple(sorted((*come, index)))

    def _there(self, gone: frozenset[str], come: tuple[int, ...]) -> tuple[Pod, ...]:
        arrived = (
            structs.replace(self.samples[index], name=f"{self.samples[index].name}~{n}", phase="Running")
            for n, index in enumerate(come)
        )
        return (*(pod for pod in self.pods if pod.key not in gone), *arrived)

    def _pattern(self, gone: frozenset[str], come: tuple[int, ...]) -> OwnPattern:
        there = self._there(gone, come)
        resource = next((self.footprints[index].need.resource for index in self.samples), "")
        state = gpu_state(self.node, there, resource)
        held = sum(1 for pod in self.pods if resource and pod.spec.requests.count(resource))
        return OwnPattern(
            leaves=tuple(sorted(gone)),
            comes=tuple((index, come.count(index)) for index in sorted(set(come))),
            linkless=sum(self._linkless(gone, come, index) for index in come),
            capacity_left=capacity_of(state, self.mix) if resource else 0,
            empties=bool(held) and not state.used,
        )

    def _linkless(self, gone: frozenset[str], come: tuple[int, ...], index: int) -> bool:
        need = self.footprints[index].need
        if not need.wants_island:
            return False
        others = list(come)
        others.remove(index)
        state = gpu_state(self.node, self._there(gone, tuple(others)), need.resource)
        return assess(state, need, DEFAULT_MIX).verdict is not Verdict.GUARANTEED
