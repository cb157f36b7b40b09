"""Which replicas a node holds at the same time, and which nodes are alike in that.

A pattern is how many replicas of each kind are on one node together. It counts when they fit whatever kubelet picks,
the largest placed first, and when every part of it fits too, so that a node may hold less than its pattern.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.resources import Resources
from islander.hardware.islands import is_island
from islander.hardware.links import Hardware
from islander.policy.kubelet import kubelet_picks
from islander.policy.occupancy import GpuState, gpu_state
from islander.policy.settings import Shape

Pattern = tuple[int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A kind of replica: its shape, and the most CPU and memory that one of them asks for (0: not known)."""

    shape: Shape
    cpu_milli: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """What a node has for replicas once the pods that quota does not count are on it.

    Attributes
    ----------
    free_sets
        Sets of GPUs that may be the free ones, as bit masks; empty when too many may be.
    policy
        kubelet's Topology Manager policy.
    whole
        False where a device is a share or a slice of a GPU: then there are no islands.
    cpu_milli, memory_bytes, pods
        What is left of them; None where it is more than the free GPUs can need.
    """

    hardware: Hardware
    free: int
    free_sets: tuple[int, ...]
    policy: str
    whole: bool
    cpu_milli: int | None = None
    memory_bytes: int | None = None
    pods: int | None = None


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that are alike to replicas.

    Attributes
    ----------
    flavors
        Flavors that the nodes belong to, by index, ascending; more than one where flavors overlap.
    nodes
        Names, sorted.
    patterns
        The largest patterns; none is part of another.
    """

    flavors: tuple[int, ...]
    nodes: tuple[str, ...]
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Remains:
    """What pods that quota does not count leave of a node."""

    state: GpuState
    cpu_milli: int
    memory_bytes: int
    pods: int

    @classmethod
    def of(cls, node: Node, outside: Sequence[Pod], resource: str) -> Remains:
        """Return what is left of a node beside the pods `outside`."""
        used = Resources()
        for pod in outside:
            used = used.plus(pod.spec.requests)
        return cls(
            state=gpu_state(node, outside, resource),
            cpu_milli=max(0, node.allocatable.cpu_milli - used.cpu_milli),
            memory_bytes=max(0, node.allocatable.memory_bytes - used.memory_bytes),
            pods=max(0, node.max_pods - len(outside)),
        )

    def room(self, kinds: Sequence[Kind]) -> Room:
        """Return the room for replicas of some kinds."""
        state = self.state
        # The hungriest mix of replicas that the free GPUs allow, by what one GPU comes with.
        most_cpu = max((-(-kind.cpu_milli * state.free // kind.shape.gpus) for kind in kinds), default=0)
        most_memory = max((-(-kind.memory_bytes * state.free // kind.shape.gpus) for kind in kinds), default=0)
        return Room(
            hardware=state.hardware,
            free=state.free,
            free_sets=state.free_sets,
            policy=state.topology_manager_policy,
            whole=state.whole,
            cpu_milli=self.cpu_milli if self.cpu_milli < most_cpu else None,
            memory_bytes=self.memory_bytes if self.memory_bytes < most_memory else None,
            pods=self.pods if self.pods < state.free else None,
        )


def holds(room: Room, kinds: Sequence[Kind], pattern: Pattern) -> bool:
    """Return whether the replicas of a pattern fit together, the largest placed first."""
    wanted = [(kind, count) for kind, count in zip(kinds, pattern, strict=True) if count]
    if sum(count * kind.shape.gpus for kind, count in wanted) > room.free:
        return False
    if room.cpu_milli is not None and sum(count * kind.cpu_milli for kind, count in wanted) > room.cpu_milli:
        return False
    if room.memory_bytes is not None and sum(n * kind.memory_bytes for kind, n in wanted) > room.memory_bytes:
        return False
    if room.pods is not None and sum(count for _, count in wanted) > room.pods:
        return False
    needs = sorted(
        ((kind.shape.gpus, kind.shape.island and kind.shape.gpus > 1) for kind, n in wanted for _ in range(n)),
        reverse=True,
    )
    return gpus_hold(room.hardware, room.free_sets, room.policy, tuple(needs), whole=room.whole)


def gpus_hold(
    hardware: Hardware,
    free_sets: tuple[int, ...],
    policy: str,
    needs: tuple[tuple[int, bool], ...],
    *,
    whole: bool = True,
) -> bool:
    """Return whether GPUs can be picked for all needs, one after the other, whatever kubelet picks.

    Parameters
    ----------
    needs
        (GPUs, as an island or not) in the order in which they are placed; no more GPUs than are free.
    """
    if not any(island for _, island in needs):
        return True
    if not whole:
        return False
    if not free_sets:
        return is_island(hardware.links, hardware.all_gpus)
    return all(_holds(hardware, policy, free, needs) for free in free_sets)


@lru_cache(maxsize=1 << 16)
def _holds(hardware: Hardware, policy: str, free: int, needs: tuple[tuple[int, bool], ...]) -> bool:
    if not any(island for _, island in needs):
        return sum(gpus for gpus, _ in needs) <= free.bit_count()
    if is_island(hardware.links, free):
        return sum(gpus for gpus, _ in needs) <= free.bit_count()
    (gpus, island), rest = needs[0], needs[1:]
    picks = kubelet_picks(hardware, policy, free, gpus)
    if picks.may_fail or not picks.sets:
        return False
    if island and not all(is_island(hardware.links, pick) for pick in picks.sets):
        return False
    return all(_holds(hardware, policy, free & ~pick, rest) for pick in picks.sets)


@lru_cache(maxsize=4096)
def largest_patterns(room: Room, kinds: tuple[Kind, ...]) -> tuple[Pattern, ...]:
    """Return the patterns of a room that are part of no other, in descending order; none when nothing fits."""
    nothing = (0,) * len(kinds)
    solid = {nothing}
    layer = {nothing}
    while layer:
        grown = {_one_more(pattern, k) for pattern in layer for k in range(len(kinds))}
        layer = {
            pattern
            for pattern in grown
            if all(part in solid for part in _one_less(pattern)) and holds(room, kinds, pattern)
        }
        solid |= layer
    largest = [p for p in solid if any(p) and not any(_one_more(p, k) in solid for k in range(len(kinds)))]
    return tuple(sorted(largest, reverse=True))


def _one_more(pattern: Pattern, k: int) -> Pattern:
    return (*pattern[:k], pattern[k] + 1, *pattern[k + 1 :])


def _one_less(pattern: Pattern) -> Iterable[Pattern]:
    return ((*pattern[:k], pattern[k] - 1, *pattern[k + 1 :]) for k in range(len(pattern)) if pattern[k])


def node_classes(
    rooms: Mapping[str, Room], flavors_of: Mapping[str, Collection[int]], kinds: tuple[Kind, ...]
) -> tuple[NodeClass, ...]:
    """Return the nodes in classes, in the order of their first nodes; nodes that hold nothing are left out."""
    members: defaultdict[tuple[tuple[int, ...], Room], list[str]] = defaultdict(list)
    for name in sorted(rooms):
        members[tuple(sorted(flavors_of[name])), rooms[name]].append(name)
    classes = []
    for (flavors, room), nodes in members.items():
        patterns = largest_patterns(room, kinds)
        if flavors and patterns:
            classes.append(NodeClass(flavors, tuple(nodes), patterns))
    return tuple(classes)


def gpus_of_pattern(pattern: Pattern, kinds: Sequence[Kind]) -> int:
    """Return the GPUs that the replicas of a pattern take."""
    return sum(count * kind.shape.gpus for count, kind in zip(pattern, kinds, strict=True))
