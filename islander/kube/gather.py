"""A snapshot from lists: of everything at once, for a program that looks once, and for the store that follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from islander.cluster.devices import ResourceClaim, ResourceSlice
from islander.cluster.node import Node
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
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload
from islander.kube.errors import ApiError, ApiNotFound
from islander.kube.kinds import LISTED_KINDS, WatchedKind
from islander.kube.parse import ClusterObject
from islander.kube.reading import Listing, read_list
from islander.kube.state import KindState, apply_list, problems
from islander.kube.transport import Transport
from islander.kube.watch import is_denied

T = TypeVar("T", bound=ClusterObject)


def read_cluster(
    transport: Transport, *, taken_at: str, kinds: Sequence[WatchedKind] = LISTED_KINDS
) -> ClusterSnapshot:
    """List every kind once and return the snapshot; nothing is retried.

    A kind that is not required and may not be seen, or is not served, is not among the snapshot's `kinds`.

    Raises
    ------
    ApiError
        A list failed.
    """
    objects: dict[str, Sequence[ClusterObject]] = {}
    warnings: list[str] = []
    for kind in kinds:
        state = KindState()
        try:
            listing = _listing(transport, kind, state)
        except ApiError as error:
            if kind.required or not is_denied(error):
                raise
            continue
        if listing is not None:
            apply_list(state, listing.items, listing.resource_version)
            objects[kind.kind] = sorted_objects(state.objects.values())
            warnings += problems(state.unparsable, kind.kind)
    return snapshot_of(objects, kinds=objects, warnings=warnings, taken_at=taken_at)


def _listing(transport: Transport, kind: WatchedKind, state: KindState) -> Listing | None:
    """List a kind in the newest version that is served; errors as in `read_list`."""
    *newer, oldest = kind.path, *kind.older_paths
    for path in newer:
        try:
            return read_list(transport, replace(kind, path=path), state)
        except ApiNotFound:
            continue
    return read_list(transport, replace(kind, path=oldest), state)


def snapshot_of(
    objects: Mapping[str, Sequence[ClusterObject]], *, kinds: Iterable[str], warnings: Iterable[str], taken_at: str
) -> ClusterSnapshot:
    """Return a snapshot of objects by kind, which are sorted within their kind."""
    workloads = [w for kind in sorted(objects) for w in _only(Workload, objects[kind])]
    return ClusterSnapshot(
        nodes=_only(Node, objects.get("Node", ())),
        pods=_only(Pod, objects.get("Pod", ())),
        workloads=tuple(workloads),
        budgets=_only(DisruptionBudget, objects.get("PodDisruptionBudget", ())),
        priority_classes=_only(PriorityClass, objects.get("PriorityClass", ())),
        namespaces=_only(Namespace, objects.get("Namespace", ())),
        resource_slices=_only(ResourceSlice, objects.get("ResourceSlice", ())),
        resource_claims=_only(ResourceClaim, objects.get("ResourceClaim", ())),
        claims=_only(PersistentVolumeClaim, objects.get("PersistentVolumeClaim", ())),
        volumes=_only(PersistentVolume, objects.get("PersistentVolume", ())),
        cluster_queues=_only(ClusterQueue, objects.get("ClusterQueue", ())),
        cohorts=_only(Cohort, objects.get("Cohort", ())),
        local_queues=_only(LocalQueue, objects.get("LocalQueue", ())),
        resource_flavors=_only(ResourceFlavor, objects.get("ResourceFlavor", ())),
        queue_topologies=_only(QueueTopology, objects.get("Topology", ())),
        queued_workloads=_only(QueuedWorkload, objects.get("Workload", ())),
        autoscalers=tuple(a for kind in sorted(objects) for a in _only(Autoscaler, objects[kind])),
        namespace_quotas=_only(NamespaceQuota, objects.get("ResourceQuota", ())),
        queue_configuration=next(iter(_only(QueueConfiguration, objects.get("ConfigMap", ()))), None),
        kinds=tuple(sorted(kinds)),
        taken_at=taken_at,
        warnings=tuple(warnings),
    )


def sorted_objects(objects: Iterable[ClusterObject]) -> tuple[ClusterObject, ...]:
    """Return objects of one kind by namespace and name."""
    return tuple(sorted(objects, key=_order))


def _order(obj: ClusterObject) -> tuple[str, str]:
    return getattr(obj, "namespace", ""), getattr(obj, "name", "")


def _only(kind: type[T], objects: Sequence[ClusterObject]) -> tuple[T, ...]:
    if not objects or not isinstance(objects[0], kind):
        return ()
    return tuple(o for o in objects if isinstance(o, kind))
