"""The nodes behind the planned flavors, and the room they have for replicas once quota is what lets pods in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from islander.cluster.node import Node
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings, Shape
from planner.quota.capacity import FlavorCapacity, Unit, capacities
from planner.quota.flavors import FlavorPlan
from planner.quota.membership import Membership
from planner.quota.rooms import Kind, NodeClass, Pattern, Remains, Room, gpus_of_pattern, largest_patterns, node_classes


@dataclass(frozen=True, slots=True)
class Fleet:
    """The planned flavors as nodes.

    Attributes
    ----------
    capacities
        What each planned flavor offers of its GPU resource, by its index.
    counted
        What the planned flavors offer of any resource.
    nodes
        Usable nodes by name.
    flavors_of
        Indices of the flavors that a usable node belongs to.
    resource_of
        GPU resource of a usable node.
    remains
        What pods that no quota counts, with GPUs or without, leave of a usable node.
    """

    capacities: tuple[FlavorCapacity, ...]
    counted: tuple[FlavorCapacity, ...]
    nodes: Mapping[str, Node]
    flavors_of: Mapping[str, tuple[int, ...]]
    resource_of: Mapping[str, str]
    remains: Mapping[str, Remains]

    @classmethod
    def of(
        cls,
        snapshot: ClusterSnapshot,
        settings: PolicySettings,
        plan: FlavorPlan,
        membership: Membership,
        survive_nodes: int,
        shapes: Iterable[Shape],
    ) -> Fleet:
        """Return the fleet of a snapshot; `membership` tells whose pods quota counts."""
        counted = capacities(
            snapshot,
            settings,
            survive_nodes,
            tuple(sorted(set(shapes))),
            [planned.flavor for planned in plan.flavors],
            membership,
        )
        found = {(capacity.flavor, capacity.resource): capacity for capacity in counted}
        offers = tuple(found.get((f.name, f.resource), nothing(f.name, f.resource)) for f in plan.flavors)
        flavors_of: defaultdict[str, list[int]] = defaultdict(list)
        resource_of: dict[str, str] = {}
        for i, capacity in enumerate(offers):
            for room in capacity.nodes:
                flavors_of[room.name].append(i)
                resource_of.setdefault(room.name, capacity.resource)
        held = {pod for capacity in offers for pod, _ in capacity.held_outside}
        nodes = {node.name: node for node in snapshot.nodes if node.name in flavors_of}

        def left(node: Node) -> Remains:
            resource = resource_of[node.name]
            there = snapshot.pods_by_node.get(node.name, ())
            return Remains.of(
                node, [p for p in there if p.key in held or not p.spec.requests.count(resource)], resource
            )

        return cls(
            capacities=offers,
            counted=counted,
            nodes=nodes,
            flavors_of={name: tuple(sorted(set(indices))) for name, indices in flavors_of.items()},
            resource_of=resource_of,
            remains={name: left(node) for name, node in nodes.items()},
        )

    def rooms(self, kinds: Sequence[Kind]) -> dict[str, Room]:
        """Return the room of each usable node for replicas of some kinds."""
        return {name: remains.room(kinds) for name, remains in self.remains.items()}

    def flavors_that_hold(self, shape: Shape) -> frozenset[int]:
        """Return the flavors with a node that holds a replica of a shape."""
        kinds = (Kind(shape),)
        return frozenset(
            flavor
            for name, room in self.rooms(kinds).items()
            if largest_patterns(room, kinds)
            for flavor in self.flavors_of[name]
        )

    def biggest(self, sizes: Mapping[str, int], flavor: int, number: int) -> frozenset[str]:
        """Return so many nodes of a flavor, those that hold most GPUs of replicas; `sizes` tells how many."""
        members = [name for name, indices in self.flavors_of.items() if flavor in indices]
        return frozenset(sorted(members, key=lambda name: (-sizes[name], name))[:number])

    def classes(
        self, rooms: Mapping[str, Room], kinds: tuple[Kind, ...], without: Collection[str] = ()
    ) -> tuple[NodeClass, ...]:
        """Return the nodes in classes, some left out."""
        kept = {name: room for name, room in rooms.items() if name not in without}
        return node_classes(kept, self.flavors_of, kinds)


@lru_cache(maxsize=4096)
def most_gpus(room: Room, kinds: tuple[Kind, ...]) -> int:
    """Return the most GPUs that replicas of some kinds take on a node."""
    patterns: tuple[Pattern, ...] = largest_patterns(room, kinds)
    return max((gpus_of_pattern(pattern, kinds) for pattern in patterns), default=0)


def nothing(flavor: str, resource: str) -> FlavorCapacity:
    """Return what a flavor without nodes offers."""
    return FlavorCapacity(flavor, resource, Unit.GPU, (), 0, 0, (), (), {}, {}, {}, 0)
