"""The kinds of objects that are watched: where they are served, how they are parsed, what an unreadable one leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from islander.cluster.pod import Pod
from islander.kube.parse import ClusterObject, MalformedObject, parse_object
from islander.kube.state import KindState, Seen, version_of

Salvage = Callable[[ClusterObject | None, msgspec.Raw], ClusterObject | None]


def keep(old: ClusterObject | None, _raw: msgspec.Raw) -> ClusterObject | None:
    """Go on with the earlier version."""
    return old


def forget(_old: ClusterObject | None, _raw: msgspec.Raw) -> None:
    """Leave the object out: an unknown node promises no room, an outdated one may promise what is no longer there."""


def keep_pod(old: ClusterObject | None, raw: msgspec.Raw) -> ClusterObject | None:
    """Go on with the earlier version, moved to the node and phase that can still be read.

    What a pod asks for hardly changes in its life, so its GPUs stay counted; were it left out, they would count as
    free. A terminal phase still frees them.
    """
    if not isinstance(old, Pod):
        return None
    try:
        now = _WHEREABOUTS.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return old
    return msgspec.structs.replace(old, node=now.spec.node_name or old.node, phase=now.status.phase or old.phase)


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """One kind of object.

    Attributes
    ----------
    kind, path
        As the API names and serves it, over all namespaces.
    required
        Nothing can be decided without it. Another kind may be forbidden or not served; the snapshot then says that
        nobody looked at it.
    salvage
        What to believe of an object that cannot be parsed, given its earlier version.
    older_paths
        Where older releases serve it, asked one after the other when `path` is not served.
    field_selector
        Which objects to ask for; empty for all.
    """

    kind: str
    path: str
    required: bool = False
    salvage: Salvage = keep
    older_paths: tuple[str, ...] = ()
    field_selector: str = ""


NODES = WatchedKind("Node", "/api/v1/nodes", required=True, salvage=forget)
PODS = WatchedKind("Pod", "/api/v1/pods", required=True, salvage=keep_pod)

WATCHED_KINDS = (
    NODES,
    PODS,
    WatchedKind("Namespace", "/api/v1/namespaces"),
    WatchedKind("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    WatchedKind("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
    WatchedKind("ReplicaSet", "/apis/apps/v1/replicasets"),
    WatchedKind("Deployment", "/apis/apps/v1/deployments"),
    WatchedKind("StatefulSet", "/apis/apps/v1/statefulsets"),
    WatchedKind("DaemonSet", "/apis/apps/v1/daemonsets"),
    WatchedKind("Job", "/apis/batch/v1/jobs"),
    WatchedKind("LeaderWorkerSet", "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"),
    WatchedKind("ResourceSlice", "/apis/resource.k8s.io/v1/resourceslices"),
)


def _of_kueue(kind: str, plural: str, older: tuple[str, ...] = ("v1beta1",)) -> WatchedKind:
    """Return a kind of Kueue: v1beta1 is gone since 0.20, v1beta2 is served since 0.15."""
    group = "/apis/kueue.x-k8s.io"
    older_paths = tuple(f"{group}/{version}/{plural}" for version in older)
    return WatchedKind(kind, f"{group}/v1beta2/{plural}", older_paths=older_paths)


# Who looks once, to plan moves or quotas, also asks where volumes can be reached, which devices are claimed, who queues
# for what, and what scales; decisions about one pod at a time leave that to kube-scheduler and Kueue, and nothing
# watches these kinds.
LISTED_KINDS = (
    *WATCHED_KINDS,
    WatchedKind("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    WatchedKind("PersistentVolume", "/api/v1/persistentvolumes"),
    WatchedKind("ResourceClaim", "/apis/resource.k8s.io/v1/resourceclaims"),
    _of_kueue("ClusterQueue", "clusterqueues"),
    # These two were v1alpha1 before 0.14.
    _of_kueue("Cohort", "cohorts", ("v1beta1", "v1alpha1")),
    _of_kueue("Topology", "topologies", ("v1beta1", "v1alpha1")),
    _of_kueue("LocalQueue", "localqueues"),
    _of_kueue("ResourceFlavor", "resourceflavors"),
    _of_kueue("Workload", "workloads"),
    WatchedKind("ConfigMap", "/api/v1/configmaps", field_selector="metadata.name=kueue-manager-config"),
    WatchedKind(
        "HorizontalPodAutoscaler",
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        older_paths=("/apis/autoscaling/v1/horizontalpodautoscalers",),
    ),
    WatchedKind("ScaledObject", "/apis/keda.sh/v1alpha1/scaledobjects"),
    WatchedKind("ResourceQuota", "/api/v1/resourcequotas"),
)


def see(kind: WatchedKind, raw: msgspec.Raw, state: KindState) -> Seen:
    """Return the object as parsed, or why it cannot be used; what is known in this version is not parsed again."""
    try:
        metadata = _ENVELOPE.decode(raw).metadata
    except (msgspec.DecodeError, RecursionError) as error:
        return Seen("", "", problem=f"its metadata cannot be read: {error}")
    version = version_of(metadata.resource_version or "")
    if not metadata.name:
        return Seen("", version, problem="it has no name")
    key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    known = state.objects.get(key)
    if known is not None and version != "" and version == state.versions[key] and key not in state.unparsable:
        return Seen(key, version, known)
    try:
        return Seen(key, version, parse_object(raw, kind.kind))
    except MalformedObject as error:
        problem = f"{error.field}: {error.message}" if error.field else error.message
        return Seen(key, version, problem=problem, last_good=kind.salvage(known, raw))


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None


class _Envelope(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _WhereaboutsSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None


class _WhereaboutsStatus(msgspec.Struct, frozen=True):
    phase: str | None = None


class _Whereabouts(msgspec.Struct, frozen=True):
    spec: _WhereaboutsSpec = _WhereaboutsSpec()
    status: _WhereaboutsStatus = _WhereaboutsStatus()


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_WHEREABOUTS = msgspec.json.Decoder(_Whereabouts)
