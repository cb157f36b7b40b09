"""The nodes behind the planned flavors, and the room they have for replicas once quota is what lets pods in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings, Shape
from planner.quota.capacity import FlavorCapacity, Unit, capacities
from planner.quota.flavors import FlavorPlan
from planner.quota.membership import Membership
from planner.quota.rooms import Kind, NodeClass, Pattern, Room, gpus_of_pattern, largest_patterns, node_classes, room_of


@dataclass(frozen=True, slots=True)
class Fleet:
    """The planned flavors as nodes.

    Attributes
    ----------
    capacities
        What each planned flavor offers, by its index.
    nodes
        Usable nodes by name.
    flavors_of
        Indices of the flavors that a usable node belongs to.
    resource_of
        GPU resource of a usable node.
    outside
        Pods on a usable node that no quota counts; those without GPUs too.
    """

    capacities: tuple[FlavorCapacity, ...]
    nodes: Mapping[str, Node]
    flavors_of: Mapping[str, tuple[int, ...]]
    resource_of: Mapping[str, str]
    outside: Mapping[str, tuple[Pod, ...]]

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
        found = {
            (capacity.flavor, capacity.resource): capacity
            for capacity in capacities(
                snapshot,
                settings,
                survive_nodes,
                tuple(sorted(set(shapes))),
                [planned.flavor for planned in plan.flavors],
                membership,
            )
        }
        offers = tuple(found.get((f.name, f.resource), nothing(f.name, f.resource)) for f in plan.flavors)
        flavors_of: defaultdict[str, list[int]] = defaultdict(list)
        resource_of: dict[str, str] = {}
        for i, capacity in enumerate(offers):
            for room in capacity.nodes:
                flavors_of[room.name].append(i)
                resource_of.setdefault(room.name, capacity.resource)
        held = {pod for capacity in offers for pod, _ in capacity.held_outside}
        outside = {
            name: tuple(
                pod
                for pod in snapshot.pods_by_node.get(name, ())
                if pod.key in held or not pod.spec.requests.count(resource_of[name])
            )
            for name in flavors_of
        }
        return cls(
            capacities=offers,
            nodes={node.name: node for node in snapshot.nodes if node.name in flavors_of},
            flavors_of={name: tuple(sorted(set(indices))) for name, indices in flavors_of.items()},
            resource_of=resource_of,
            outside=outside,
        )

    def rooms(self, kinds: Sequence[Kind]) -> dict[str, Room]:
        """Return the room of each usable node for replicas of some kinds."""
        return {
            name: room_of(node, self.outside[name], self.resource_of[name], kinds) for name, node in self.nodes.items()
        }

    def holds(self, shape: Shape, flavors: Collection[int]) -> bool:
        """Return whether some node of the flavors holds a replica of a shape."""
        kinds = (Kind(shape),)
        return any(
            largest_patterns(room, kinds)
            for name, room in self.rooms(kinds).items()
            if set(flavors) & set(self.flavors_of[name])
        )

    def biggest(self, rooms: Mapping[str, Room], kinds: tuple[Kind, ...], number: int) -> frozenset[str]:
        """Return the nodes of each flavor that hold most GPUs of replicas, so many of each."""
        gone: set[str] = set()
        for i in range(len(self.capacities)):
            members = [name for name, indices in self.flavors_of.items() if i in indices]
            gone |= set(sorted(members, key=lambda name: (-most_gpus(rooms[name], kinds), name))[:number])
        return frozenset(gone)

    def classes(
        self, rooms: Mapping[str, Room], kinds: tuple[Kind, ...], without: Collection[str] = ()
    ) -> tuple[NodeClass, ...]:
        """Return the nodes in classes, some left out."""
        kept = {name: room for name, room in rooms.items() if name not in without}
        return node_classes(kept, self.flavors_of, kinds)


def most_gpus(room: Room, kinds: tuple[Kind, ...]) -> int:
    """Return the most GPUs that replicas of some kinds take on a node."""
    patterns: tuple[Pattern, ...] = largest_patterns(room, kinds)
    return max((gpus_of_pattern(pattern, kinds) for pattern in patterns), default=0)


def nothing(flavor: str, resource: str) -> FlavorCapacity:
    """Return what a flavor without nodes offers."""
    return FlavorCapacity(flavor, resource, Unit.GPU, (), 0, 0, (), (), {}, {}, {}, 0)
