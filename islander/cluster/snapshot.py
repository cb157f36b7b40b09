"""The cluster at one moment: what the extender decides on, the planner plans on, and a bug report carries."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from msgspec import Struct

from islander.cluster import names
from islander.cluster.devices import ResourceClaim, ResourceSlice
from islander.cluster.node import Node
from islander.cluster.owners import Owners
from islander.cluster.pod import Pod
from islander.cluster.queues import (
    Autoscaler,
    ClusterQueue,
    Cohort,
    LocalQueue,
    NamespaceQuota,
    QueueConfiguration,
    QueuedWorkload,
    QueueTopology,
    ResourceFlavor,
)
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload


class ShapeWeight(Struct, frozen=True, rename="camel"):
    """How often replicas ask for so many GPUs of one node, and whether as an island."""

    gpus: int
    island: bool
    weight: float


class ClusterSnapshot(Struct, frozen=True, dict=True, rename="camel", omit_defaults=True):
    """A cluster at one moment; all sequences are sorted by namespace and name.

    Attributes
    ----------
    taken_at
        RFC 3339 time, given by whoever took it.
    queue_configuration
        What Kueue itself is configured to do; None when nobody looked, or it is not there.
    kinds
        Kinds that were looked at, so that "there is no budget" can be told from "nobody asked for budgets".
    demand_mix
        The mix that is configured where the snapshot was taken; empty for the mix of the pods themselves.
    warnings
        Objects that were skipped and why, one sentence each.
    """

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    workloads: tuple[Workload, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    cluster_queues: tuple[ClusterQueue, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    local_queues: tuple[LocalQueue, ...] = ()
    resource_flavors: tuple[ResourceFlavor, ...] = ()
    queue_topologies: tuple[QueueTopology, ...] = ()
    queued_workloads: tuple[QueuedWorkload, ...] = ()
    autoscalers: tuple[Autoscaler, ...] = ()
    namespace_quotas: tuple[NamespaceQuota, ...] = ()
    queue_configuration: QueueConfiguration | None = None
    kinds: tuple[str, ...] = ()
    demand_mix: tuple[ShapeWeight, ...] = ()
    taken_at: str = ""
    warnings: tuple[str, ...] = ()

    @cached_property
    def pods_by_node(self) -> dict[str, tuple[Pod, ...]]:
        """Pods that hold devices, by the node they are bound to."""
        by_node: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in self.pods:
            if pod.holds_devices:
                by_node[pod.node].append(pod)
        return {name: tuple(pods) for name, pods in by_node.items()}

    @cached_property
    def _slices_by_node(self) -> dict[str, tuple[ResourceSlice, ...]]:
        by_node: defaultdict[str, list[ResourceSlice]] = defaultdict(list)
        for found in self.resource_slices:
            by_node[found.node].append(found)
        return {name: tuple(slices) for name, slices in by_node.items()}

    def has_devices(self, node: str, resource: str) -> bool:
        """Return whether a driver offers devices of the node that may be handed out as `resource`."""
        return any(found.serves(resource) for found in self._slices_by_node.get(node, ()))

    @cached_property
    def _claimed(self) -> dict[tuple[str, str], frozenset[tuple[str, str]]]:
        found: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
        for claim in self.resource_claims:
            for device in claim.devices if claim.node else ():
                found[claim.node, device.driver].add((device.pool, device.gpu))
        return {key: frozenset(gpus) for key, gpus in found.items()}

    def claimed(self, node: str, resource: str) -> int:
        """Return how many GPUs of the node claims hold that might be handed out as `resource` too, each once."""
        return len(self._claimed.get((node, names.DRA_DRIVERS.get(resource, "")), ()))

    @cached_property
    def owners(self) -> Owners:
        """Looks up which workload a pod belongs to."""
        return Owners(self.workloads)
