"""What can really be placed on the nodes of a flavor, beside what the sum of their GPUs says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings, Shape


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One usable node of a flavor, in devices of the flavor's resource.

    Attributes
    ----------
    usable
        Devices that Kueue may hand out: allocatable, less `held_outside`.
    held_outside
        Devices that pods hold which Kueue does not count.
    used
        Devices that all pods hold now, those of Kueue too.
    replicas
        By GPUs of the shape: how many replicas fit at the same time when only what is held outside is there.
    replicas_now
        The same beside everything that runs now.
    """

    name: str
    product: str
    allocatable: int
    usable: int
    held_outside: int
    used: int
    replicas: Mapping[int, int] = field(default_factory=dict)
    replicas_now: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """What a flavor offers of one resource.

    Attributes
    ----------
    nodes
        Usable nodes, by name.
    arithmetic
        Sum of the allocatable devices of all its nodes that say they have some, whatever state they are in.
    usable
        Sum of `usable` over `nodes`: the most that quotas may add up to.
    held_outside
        (pod as `namespace/name`, devices) that Kueue does not count, on usable nodes.
    unusable
        (node, why) of the flavor's nodes that count for nothing.
    placeable, placeable_now
        By GPUs of the shape: replicas that fit at the same time, see `NodeRoom`.
    placeable_without_biggest
        As `placeable`, without the N nodes whose loss takes most of that shape; equal for N = 0.
    usable_without_biggest
        As `usable`, without the N nodes with most usable devices.
    biggest
        Names of those nodes.
    """

    flavor: str
    resource: str
    nodes: tuple[NodeRoom, ...]
    arithmetic: int
    usable: int
    held_outside: tuple[tuple[str, int], ...]
    unusable: tuple[tuple[str, str], ...]
    placeable: Mapping[int, int]
    placeable_now: Mapping[int, int]
    placeable_without_biggest: Mapping[int, int]
    usable_without_biggest: int
    biggest: tuple[str, ...] = ()

    @property
    def largest_request(self) -> int:
        """The most devices that one pod can ask for and be placed; 0 without usable nodes."""
        return max((node.usable for node in self.nodes), default=0)


def capacities(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    survive_nodes: int = 0,
    shapes: tuple[Shape, ...] = (),
) -> tuple[FlavorCapacity, ...]:
    """Return what each flavor of the snapshot offers of each GPU resource, by flavor and resource.

    Parameters
    ----------
    survive_nodes
        How many nodes of each flavor may fail at the same time.
    shapes
        Shapes to count beside the common ones and those of the snapshot's pods.
    """
    raise NotImplementedError
