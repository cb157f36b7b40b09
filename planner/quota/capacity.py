"""What can really be placed on the nodes of a flavor, beside what the sum of their GPUs says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec import structs

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.queues import ResourceFlavor
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.demand import mix_of
from islander.policy.occupancy import GpuState, gpu_state
from islander.policy.room import replicas_guaranteed
from islander.policy.settings import COMMON_SIZES, PolicySettings, Shape
from planner.quota.membership import Membership
from planner.quota.usable import nodes_of, why_unusable

# Replicas of shared GPUs under their own name (NVIDIA/k8s-device-plugin, README.md, renameByDefault).
SHARED_GPU = "nvidia.com/gpu.shared"
_CLAIMS_ONLY = "its GPUs are handed out by dynamic resource allocation; they are not counted here"


class Unit(StrEnum):
    """What one device of a flavor's resource is; amounts of different units add up to nothing."""

    GPU = "whole GPU"
    INSTANCE = "MIG instance"
    SHARE = "share of a GPU"


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One usable node of a flavor, in devices of the flavor's resource.

    Attributes
    ----------
    allocatable
        Devices that the node offers.
    usable
        Devices that Kueue may hand out: allocatable, less `held_outside`.
    held_outside
        Devices that pods hold which no queue counts.
    used
        Devices that all pods hold now, those of queues too.
    replicas
        How many replicas of each shape fit at the same time when only what is held outside is there.
    replicas_now
        The same beside everything that runs now.
    """

    name: str
    product: str
    allocatable: int
    usable: int
    held_outside: int
    used: int
    replicas: Mapping[Shape, int]
    replicas_now: Mapping[Shape, int]


@dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """What a flavor offers of one resource.

    Attributes
    ----------
    unit
        What is counted; nodes of the flavor that offer something else under the same name are among `unusable`.
    nodes
        Usable nodes, by name.
    arithmetic
        Sum of what its nodes offer, whatever state they are in: what a quota is usually made of.
    usable
        Sum of `usable` over `nodes`: the most that quotas may add up to.
    held_outside
        (pod or claim as `namespace/name`, devices) that no queue counts, on usable nodes.
    unusable
        (node, why) of the flavor's nodes that count for nothing.
    placeable, placeable_now
        How many replicas of each shape fit at the same time, see `NodeRoom`.
    placeable_without_biggest
        As `placeable`, without the N nodes whose loss takes most of that shape; equal for N = 0.
    usable_without_biggest
        As `usable`, without the N nodes with most usable devices, which are `biggest`.
    """

    flavor: str
    resource: str
    unit: Unit
    nodes: tuple[NodeRoom, ...]
    arithmetic: int
    usable: int
    held_outside: tuple[tuple[str, int], ...]
    unusable: tuple[tuple[str, str], ...]
    placeable: Mapping[Shape, int]
    placeable_now: Mapping[Shape, int]
    placeable_without_biggest: Mapping[Shape, int]
    usable_without_biggest: int
    biggest: tuple[str, ...] = ()

    @property
    def largest_request(self) -> int:
        """The most devices that one pod can ask for and be placed; 0 without usable nodes."""
        return max((node.usable for node in self.nodes), default=0)

    def placeable_gpus(self, shape: Shape) -> int:
        """Return the devices that replicas of a shape can fill."""
        return shape.gpus * self.placeable.get(shape, 0)


def capacities(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    survive_nodes: int = 0,
    shapes: Collection[Shape] = (),
    flavors: Sequence[ResourceFlavor] | None = None,
    membership: Membership | None = None,
) -> tuple[FlavorCapacity, ...]:
    """Return what each flavor offers of each GPU resource, by flavor and resource.

    A resource is counted when a queue names it for the flavor, or a node of the flavor offers it.

    Parameters
    ----------
    survive_nodes
        How many nodes of each flavor may fail at the same time.
    shapes
        Shapes to count beside the common ones, as islands and not, and those of the snapshot's pods.
    flavors
        By default those of the snapshot.
    membership
        Tells which pods a queue counts; by default what the snapshot shows.
    """
    is_queued = _QueuedPods(snapshot, membership or Membership.of(snapshot))
    count = _Count(snapshot, settings, _shapes(snapshot, settings, shapes), is_queued)
    named = _named_by_queues(snapshot)
    return tuple(
        count.of(flavor, nodes, resource, survive_nodes)
        for flavor in sorted(snapshot.resource_flavors if flavors is None else flavors, key=lambda f: f.name)
        for nodes in (nodes_of(flavor, snapshot.nodes),)
        for resource in _resources(nodes, named.get(flavor.name, ()), settings)
    )


def unit_of(state: GpuState) -> Unit:
    """Return what one device of a node is."""
    if state.whole:
        return Unit.GPU
    return Unit.SHARE if state.shared or state.resource == SHARED_GPU else Unit.INSTANCE


def is_gpu_resource(resource: str, settings: PolicySettings) -> bool:
    """Return whether a quota of that resource is one of GPUs, or of parts of them."""
    return resource in (*settings.gpu_resources, SHARED_GPU) or resource.startswith(names.MIG_RESOURCE_PREFIX)


class _QueuedPods:
    """Tells the pods that a queue counts; without LocalQueues to look into, Kueue's own marks are believed."""

    def __init__(self, snapshot: ClusterSnapshot, membership: Membership) -> None:
        self._membership = membership
        self._marks = {names.KUEUE_MANAGED}
        if not snapshot.local_queues:
            self._marks |= {names.KUEUE_QUEUE, names.KUEUE_POD_SET, names.KUEUE_LOCAL_QUEUE, names.KUEUE_POD_GROUP}

    def __call__(self, pod: Pod) -> bool:
        return bool(self._membership.queue_of(pod)) or any(key in self._marks for key, _ in pod.labels)


class _Count:
    """Counts flavor by flavor; what does not depend on the flavor is looked up once."""

    def __init__(
        self, snapshot: ClusterSnapshot, settings: PolicySettings, shapes: Sequence[Shape], is_queued: _QueuedPods
    ) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._shapes = shapes
        self._is_queued = is_queued
        asking = (p for p in snapshot.pods if not p.finished and _asks(p, settings) and is_queued(p))
        self._templates = tuple({pod.spec.tolerations: pod for pod in asking}.values())
        self._rooms: dict[tuple[str, str], tuple[GpuState, NodeRoom, tuple[tuple[str, int], ...]]] = {}
        self._counted: dict[tuple[Hashable, ...], Mapping[Shape, int]] = {}

    def of(self, flavor: ResourceFlavor, nodes: Sequence[Node], resource: str, survive_nodes: int) -> FlavorCapacity:
        offered = [(node, *self._room(node, resource)) for node in nodes if _offers(node, resource)]
        units = {unit_of(state) for _, state, _, _ in offered}
        unit = next((u for u in Unit if u in units), Unit.GPU)
        unusable = [(node.name, _CLAIMS_ONLY) for node in nodes if self._is_claimed_only(node, resource)]
        rooms: list[NodeRoom] = []
        held: list[tuple[str, int]] = []
        for node, state, room, outside in offered:
            if unit_of(state) is not unit:
                unusable.append((node.name, f"its {resource} are each a {unit_of(state)}, not a {unit}"))
            elif why := why_unusable(node, flavor, self._templates, self._settings):
                unusable.append((node.name, why))
            else:
                rooms.append(room)
                held += outside
        biggest = sorted(rooms, key=lambda room: (-room.usable, room.name))[:survive_nodes]
        usable = sum(room.usable for room in rooms)
        return FlavorCapacity(
            flavor=flavor.name,
            resource=resource,
            unit=unit,
            nodes=tuple(rooms),
            arithmetic=sum(room.allocatable for _, state, room, _ in offered if unit_of(state) is unit),
            usable=usable,
            held_outside=tuple(sorted(held)),
            unusable=tuple(sorted(unusable)),
            placeable=_sums(rooms, self._shapes),
            placeable_now={shape: sum(room.replicas_now[shape] for room in rooms) for shape in self._shapes},
            placeable_without_biggest=_sums(rooms, self._shapes, survive_nodes),
            usable_without_biggest=usable - sum(room.usable for room in biggest),
            biggest=tuple(room.name for room in biggest),
        )

    def _room(self, node: Node, resource: str) -> tuple[GpuState, NodeRoom, tuple[tuple[str, int], ...]]:
        key = (node.name, resource)
        if key not in self._rooms:
            self._rooms[key] = self._new_room(node, resource)
        return self._rooms[key]

    def _new_room(self, node: Node, resource: str) -> tuple[GpuState, NodeRoom, tuple[tuple[str, int], ...]]:
        pods = [pod for pod in self._snapshot.pods_by_node.get(node.name, ()) if pod.spec.requests.count(resource)]
        outside = [pod for pod in pods if not self._is_queued(pod)]
        held = [(pod.key, pod.spec.requests.count(resource)) for pod in outside]
        offered, claimed = node.allocatable.count(resource), self._snapshot.claimed(node.name, resource)
        if claimed:
            # Which GPUs the device plugin still has to give is not known, only how many are left.
            node = _with_fewer(node, resource, claimed)
            held += self._claims(node.name, resource)
        now = gpu_state(node, pods, resource)
        empty = now if len(outside) == len(pods) else gpu_state(node, outside, resource)
        room = NodeRoom(
            name=node.name,
            product=now.product,
            allocatable=offered,
            usable=empty.free,
            held_outside=empty.used + claimed,
            used=now.used + claimed,
            replicas=self._replicas(empty),
            replicas_now=self._replicas(now),
        )
        return now, room, tuple(held)

    def _claims(self, node: str, resource: str) -> list[tuple[str, int]]:
        """Return the claims that hold GPUs of a node; a GPU that several hold parts of counts with the first."""
        found: list[tuple[str, int]] = []
        seen: set[tuple[str, str]] = set()
        for claim in self._snapshot.resource_claims:
            gpus = {(d.pool, d.gpu) for d in claim.devices if d.driver == names.DRA_DRIVERS.get(resource)}
            if claim.node == node and (new := gpus - seen):
                seen |= new
                found.append((f"{claim.namespace}/{claim.name} (ResourceClaim)", len(new)))
        return found

    def _is_claimed_only(self, node: Node, resource: str) -> bool:
        return not _offers(node, resource) and self._snapshot.has_devices(node.name, resource)

    def _replicas(self, state: GpuState) -> Mapping[Shape, int]:
        # Most nodes of a fleet are alike in all that this depends on.
        key = (state.hardware, state.topology_manager_policy, state.whole, state.free, state.free_sets)
        if key not in self._counted:
            self._counted[key] = {shape: replicas_guaranteed(state, shape) for shape in self._shapes}
        return self._counted[key]


def _sums(rooms: Sequence[NodeRoom], shapes: Iterable[Shape], without: int = 0) -> dict[Shape, int]:
    """Return how many replicas of each shape fit, without the nodes that hold most of it."""
    counts = {shape: [room.replicas[shape] for room in rooms] for shape in shapes}
    if without:
        counts = {shape: sorted(found)[: max(0, len(found) - without)] for shape, found in counts.items()}
    return {shape: sum(found) for shape, found in counts.items()}


def _shapes(snapshot: ClusterSnapshot, settings: PolicySettings, more: Collection[Shape]) -> tuple[Shape, ...]:
    common = {Shape(size, island) for size in COMMON_SIZES for island in (False, size > 1)}
    return tuple(sorted({*common, *more, *(shape for shape, _ in mix_of(snapshot, settings).weights)}))


def _named_by_queues(snapshot: ClusterSnapshot) -> Mapping[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    groups = [group for queue in snapshot.cluster_queues for group in queue.resource_groups]
    groups += [group for cohort in snapshot.cohorts for group in cohort.resource_groups]
    for flavor in (flavor for group in groups for flavor in group.flavors):
        found[flavor.flavor].update(quota.resource for quota in flavor.resources)
    return found


def _resources(nodes: Sequence[Node], named: Iterable[str], settings: PolicySettings) -> tuple[str, ...]:
    offered = {name for node in nodes for name, _ in node.allocatable.extended}
    offered |= {name for node in nodes for name, _ in node.capacity.extended}
    return tuple(sorted(name for name in offered.union(named) if is_gpu_resource(name, settings)))


def _with_fewer(node: Node, resource: str, claimed: int) -> Node:
    left = max(0, node.allocatable.count(resource) - claimed)
    counts = tuple((name, left if name == resource else count) for name, count in node.allocatable.extended)
    return structs.replace(node, allocatable=structs.replace(node.allocatable, extended=counts))


def _offers(node: Node, resource: str) -> bool:
    return bool(node.capacity.count(resource) or node.allocatable.count(resource))


def _asks(pod: Pod, settings: PolicySettings) -> bool:
    return any(is_gpu_resource(name, settings) for name, _ in pod.spec.requests.extended)
