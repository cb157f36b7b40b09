"""Which pods may leave a node of a class, and what the room is worth that is then free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from islander.policy.occupancy import GpuState
from islander.policy.room import replicas_guaranteed
from islander.policy.settings import DemandMix
from planner.models.classes import NodeClass, PodType

# Beyond so many sets of leaving pods a node gets one variable per type of pod instead of one per set.
MAX_LEAVINGS = 64
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
        GPUs that are then free; where links count, the state of the node.
    positions
        Where links count: which of `NodeClass.pods` they are.
    """

    types: tuple[tuple[int, int], ...]
    room: int
    positions: tuple[int, ...] = ()

    def count(self, type_index: int) -> int:
        """Return how many pods of a type leave."""
        return next((count for index, count in self.types if index == type_index), 0)


def leavings(node_class: NodeClass, types: Sequence[PodType], *, single: bool) -> tuple[Leaving, ...] | None:
    """Return every set of pods that may leave a node of the class where counts decide, the empty one first.

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
