"""From the JSON of the Kubernetes API to cluster values; past this door there is no wire type and no text quantity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

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
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload
from islander.kube import api_structs as api
from islander.kube import kueue_structs as kueue
from islander.kube.kueue_values import (
    CONFIGURATION_GROUP,
    autoscaler_value,
    cluster_queue_value,
    cohort_value,
    configuration_of_map,
    configuration_value,
    local_queue_value,
    namespace_quota_value,
    queued_workload_value,
    resource_flavor_value,
    topology_value,
)
from islander.kube.manifest import manifest_of
from islander.kube.pod_spec import MalformedField
from islander.kube.values import (
    budget_value,
    claim_value,
    namespace_value,
    node_value,
    pod_value,
    priority_class_value,
    resource_claim_value,
    resource_slice_value,
    volume_value,
    workload_value,
)

Raw = bytes | msgspec.Raw
ClusterObject = (
    Node
    | Pod
    | Workload
    | DisruptionBudget
    | PriorityClass
    | Namespace
    | ResourceSlice
    | ResourceClaim
    | PersistentVolumeClaim
    | PersistentVolume
    | ClusterQueue
    | Cohort
    | LocalQueue
    | ResourceFlavor
    | QueueTopology
    | QueuedWorkload
    | Autoscaler
    | NamespaceQuota
    | QueueConfiguration
)
QueueObject = TypeVar("QueueObject", ClusterQueue, Cohort, LocalQueue, ResourceFlavor, QueueTopology)
Wire = TypeVar("Wire")
Parsed = TypeVar("Parsed", bound=ClusterObject | None)


class MalformedObject(ValueError):
    """An object of the API cannot be used; the message is one line that names object and field."""

    def __init__(self, kind: str, namespace: str, name: str, field: str, message: str) -> None:
        where = f"{kind or 'object'} {f'{namespace}/' if namespace else ''}{name or '(no name)'}"
        super().__init__(f"{where}: {f'{field}: ' if field else ''}{message}")
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.field = field
        self.message = message


class UnusedObject(MalformedObject):
    """An object of a kind of which only some are used, and this is none of them."""


# Kind -> API group. Other groups use the same words: a Job of batch.volcano.sh is no Job of ours.
GROUPS: Mapping[str, str] = {
    "Node": "",
    "Pod": "",
    "Namespace": "",
    "ReplicationController": "",
    "ReplicaSet": "apps",
    "Deployment": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
    "PodDisruptionBudget": "policy",
    "PriorityClass": "scheduling.k8s.io",
    "ResourceSlice": "resource.k8s.io",
    "ResourceClaim": "resource.k8s.io",
    "PersistentVolumeClaim": "",
    "PersistentVolume": "",
    "ClusterQueue": "kueue.x-k8s.io",
    "Cohort": "kueue.x-k8s.io",
    "LocalQueue": "kueue.x-k8s.io",
    "ResourceFlavor": "kueue.x-k8s.io",
    "Topology": "kueue.x-k8s.io",
    "Workload": "kueue.x-k8s.io",
    "Configuration": CONFIGURATION_GROUP,
    "ConfigMap": "",
    "HorizontalPodAutoscaler": "autoscaling",
    "ScaledObject": "keda.sh",
    "ResourceQuota": "",
}

_TYPE_META = msgspec.json.Decoder(api.TypeMeta)
_POD = msgspec.json.Decoder(api.Pod)
_NODE = msgspec.json.Decoder(api.Node)
_WORKLOAD = msgspec.json.Decoder(api.Workload)
_BUDGET = msgspec.json.Decoder(api.PodDisruptionBudget)
_PRIORITY_CLASS = msgspec.json.Decoder(api.PriorityClass)
_NAMESPACE = msgspec.json.Decoder(api.Namespace)
_RESOURCE_SLICE = msgspec.json.Decoder(api.ResourceSlice)
_RESOURCE_CLAIM = msgspec.json.Decoder(api.ResourceClaim)
_CLAIM = msgspec.json.Decoder(api.PersistentVolumeClaim)
_VOLUME = msgspec.json.Decoder(api.PersistentVolume)
_CLUSTER_QUEUE = msgspec.json.Decoder(kueue.ClusterQueue)
_COHORT = msgspec.json.Decoder(kueue.Cohort)
_LOCAL_QUEUE = msgspec.json.Decoder(kueue.LocalQueue)
_RESOURCE_FLAVOR = msgspec.json.Decoder(kueue.ResourceFlavor)
_TOPOLOGY = msgspec.json.Decoder(kueue.Topology)
_QUEUED_WORKLOAD = msgspec.json.Decoder(kueue.Workload)
_AUTOSCALER = msgspec.json.Decoder(kueue.Autoscaler)
_NAMESPACE_QUOTA = msgspec.json.Decoder(kueue.NamespaceQuota)
_CONFIGURATION = msgspec.json.Decoder(kueue.Configuration)
_CONFIG_MAP = msgspec.json.Decoder(kueue.ConfigMap)


def kind_of(raw: Raw) -> tuple[str, str]:
    """Return (API group, kind) of a document; raise MalformedObject when it is no JSON object."""
    meta = _decoded(_TYPE_META, raw, "")
    group, slash, _ = (meta.api_version or "").partition("/")
    return group if slash else "", meta.kind or ""


def parse_object(raw: Raw, kind: str = "") -> ClusterObject:
    """Return the value of an object of any kind in `GROUPS`.

    Parameters
    ----------
    kind
        For items of a typed list, which do not say their kind; otherwise the object's own kind counts.

    Raises
    ------
    MalformedObject
        The object is broken, or of a kind that is not used; `UnusedObject` for a ConfigMap that nobody reads.
    """
    group = GROUPS.get(kind)
    if not kind:
        group, kind = kind_of(raw)
    if group is None or GROUPS.get(kind) != group:
        raise MalformedObject(kind, "", _identity(raw)[1], "kind", "this kind is not used")
    parser = _PARSERS.get(kind)
    return parser(raw) if parser is not None else parse_workload(raw, kind)


def parse_pod(raw: Raw) -> Pod:
    """Return the value of a v1 Pod; raise MalformedObject when a field is not what the API allows."""
    return _converted(_POD, raw, "Pod", pod_value)


def parse_node(raw: Raw) -> Node:
    """Return the value of a v1 Node; raise MalformedObject when a field has a wrong type.

    What a node says wrongly about itself (an amount, an annotation of ours) is a warning on the node, since a node
    that is left out is worse than one of which less is believed.
    """
    return _converted(_NODE, raw, "Node", node_value)


def parse_workload(raw: Raw, kind: str) -> Workload:
    """Return the value of a controller of pods of that kind."""
    return _converted(_WORKLOAD, raw, kind, lambda wire: workload_value(wire, kind))


def parse_budget(raw: Raw) -> DisruptionBudget:
    """Return the value of a PodDisruptionBudget."""
    return _converted(_BUDGET, raw, "PodDisruptionBudget", budget_value)


def parse_priority_class(raw: Raw) -> PriorityClass:
    """Return the value of a PriorityClass."""
    return _converted(_PRIORITY_CLASS, raw, "PriorityClass", priority_class_value)


def parse_namespace(raw: Raw) -> Namespace:
    """Return the value of a Namespace."""
    return _converted(_NAMESPACE, raw, "Namespace", namespace_value)


def parse_resource_slice(raw: Raw) -> ResourceSlice:
    """Return the value of a ResourceSlice."""
    return _converted(_RESOURCE_SLICE, raw, "ResourceSlice", resource_slice_value)


def parse_resource_claim(raw: Raw) -> ResourceClaim:
    """Return the value of a ResourceClaim."""
    return _converted(_RESOURCE_CLAIM, raw, "ResourceClaim", resource_claim_value)


def parse_claim(raw: Raw) -> PersistentVolumeClaim:
    """Return the value of a PersistentVolumeClaim."""
    return _converted(_CLAIM, raw, "PersistentVolumeClaim", claim_value)


def parse_volume(raw: Raw) -> PersistentVolume:
    """Return the value of a PersistentVolume."""
    return _converted(_VOLUME, raw, "PersistentVolume", volume_value)


def parse_cluster_queue(raw: Raw) -> ClusterQueue:
    """Return the value of a ClusterQueue."""
    return _with_manifest(_converted(_CLUSTER_QUEUE, raw, "ClusterQueue", cluster_queue_value), raw, "ClusterQueue")


def parse_cohort(raw: Raw) -> Cohort:
    """Return the value of a Cohort."""
    return _with_manifest(_converted(_COHORT, raw, "Cohort", cohort_value), raw, "Cohort")


def parse_local_queue(raw: Raw) -> LocalQueue:
    """Return the value of a LocalQueue."""
    return _with_manifest(_converted(_LOCAL_QUEUE, raw, "LocalQueue", local_queue_value), raw, "LocalQueue")


def parse_resource_flavor(raw: Raw) -> ResourceFlavor:
    """Return the value of a ResourceFlavor."""
    value = _converted(_RESOURCE_FLAVOR, raw, "ResourceFlavor", resource_flavor_value)
    return _with_manifest(value, raw, "ResourceFlavor")


def parse_topology(raw: Raw) -> QueueTopology:
    """Return the value of a Topology of Kueue."""
    return _with_manifest(_converted(_TOPOLOGY, raw, "Topology", topology_value), raw, "Topology")


def parse_queued_workload(raw: Raw) -> QueuedWorkload:
    """Return the value of a Workload of Kueue."""
    return _converted(_QUEUED_WORKLOAD, raw, "Workload", queued_workload_value)


def parse_autoscaler(raw: Raw, kind: str) -> Autoscaler:
    """Return the value of a HorizontalPodAutoscaler or a ScaledObject."""
    return _converted(_AUTOSCALER, raw, kind, lambda wire: autoscaler_value(wire, kind))


def parse_namespace_quota(raw: Raw) -> NamespaceQuota:
    """Return the value of a ResourceQuota."""
    return _converted(_NAMESPACE_QUOTA, raw, "ResourceQuota", namespace_quota_value)


def parse_configuration(raw: Raw) -> QueueConfiguration:
    """Return the value of Kueue's Configuration, as a document of its own."""
    return _converted(_CONFIGURATION, raw, "Configuration", configuration_value)


def parse_config_map(raw: Raw) -> QueueConfiguration:
    """Return Kueue's configuration out of the ConfigMap that holds it; raise UnusedObject for another ConfigMap."""
    found = _converted(_CONFIG_MAP, raw, "ConfigMap", _configuration_in)
    if found is None:
        raise UnusedObject("ConfigMap", *_identity(raw), "data", "this is not Kueue's configuration")
    return found


def _configuration_in(wire: kueue.ConfigMap) -> QueueConfiguration | None:
    found = configuration_of_map(wire)
    return None if found is None else configuration_value(found)


_PARSERS: Mapping[str, Callable[[Raw], ClusterObject]] = {
    "Node": parse_node,
    "Pod": parse_pod,
    "Namespace": parse_namespace,
    "PodDisruptionBudget": parse_budget,
    "PriorityClass": parse_priority_class,
    "ResourceSlice": parse_resource_slice,
    "ResourceClaim": parse_resource_claim,
    "PersistentVolumeClaim": parse_claim,
    "PersistentVolume": parse_volume,
    "ClusterQueue": parse_cluster_queue,
    "Cohort": parse_cohort,
    "LocalQueue": parse_local_queue,
    "ResourceFlavor": parse_resource_flavor,
    "Topology": parse_topology,
    "Workload": parse_queued_workload,
    "Configuration": parse_configuration,
    "ConfigMap": parse_config_map,
    "HorizontalPodAutoscaler": lambda raw: parse_autoscaler(raw, "HorizontalPodAutoscaler"),
    "ScaledObject": lambda raw: parse_autoscaler(raw, "ScaledObject"),
    "ResourceQuota": parse_namespace_quota,
}


def _converted(decoder: msgspec.json.Decoder[Wire], raw: Raw, kind: str, convert: Callable[[Wire], Parsed]) -> Parsed:
    try:
        return convert(_decoded(decoder, raw, kind))
    except MalformedField as error:
        namespace, name = _identity(raw)
        raise MalformedObject(kind, namespace, name, error.field, error.message) from None


def _with_manifest(value: QueueObject, raw: Raw, kind: str) -> QueueObject:
    try:
        return msgspec.structs.replace(value, manifest=manifest_of(raw))
    except RecursionError as error:
        raise MalformedObject(kind, *_identity(raw), "", f"not valid JSON: {error}") from None


def _decoded(decoder: msgspec.json.Decoder[Wire], raw: Raw, kind: str) -> Wire:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        namespace, name = _identity(raw)
        raise MalformedObject(kind, namespace, name, path.rstrip("`").lstrip("."), message) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedObject(kind, "", "", "", f"not valid JSON: {error}") from None


def _identity(raw: Raw) -> tuple[str, str]:
    """Return namespace and name of an object that is broken elsewhere, empty where even they cannot be read."""
    try:
        document: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return "", ""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return "", ""
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return namespace if isinstance(namespace, str) else "", name if isinstance(name, str) else ""
