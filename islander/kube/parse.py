"""From the JSON of the Kubernetes API to cluster values; past this door there is no wire type and no text quantity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from islander.cluster.devices import ResourceSlice
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload
from islander.kube import api_structs as api
from islander.kube.pod_spec import MalformedField
from islander.kube.values import (
    budget_value,
    claim_value,
    namespace_value,
    node_value,
    pod_value,
    priority_class_value,
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
    | PersistentVolumeClaim
    | PersistentVolume
)
Wire = TypeVar("Wire")
Parsed = TypeVar("Parsed", bound=ClusterObject)


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
    "PersistentVolumeClaim": "",
    "PersistentVolume": "",
}

_TYPE_META = msgspec.json.Decoder(api.TypeMeta)
_POD = msgspec.json.Decoder(api.Pod)
_NODE = msgspec.json.Decoder(api.Node)
_WORKLOAD = msgspec.json.Decoder(api.Workload)
_BUDGET = msgspec.json.Decoder(api.PodDisruptionBudget)
_PRIORITY_CLASS = msgspec.json.Decoder(api.PriorityClass)
_NAMESPACE = msgspec.json.Decoder(api.Namespace)
_RESOURCE_SLICE = msgspec.json.Decoder(api.ResourceSlice)
_CLAIM = msgspec.json.Decoder(api.PersistentVolumeClaim)
_VOLUME = msgspec.json.Decoder(api.PersistentVolume)


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
        The object is broken, or of a kind that is not used.
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


def parse_claim(raw: Raw) -> PersistentVolumeClaim:
    """Return the value of a PersistentVolumeClaim."""
    return _converted(_CLAIM, raw, "PersistentVolumeClaim", claim_value)


def parse_volume(raw: Raw) -> PersistentVolume:
    """Return the value of a PersistentVolume."""
    return _converted(_VOLUME, raw, "PersistentVolume", volume_value)


_PARSERS: Mapping[str, Callable[[Raw], ClusterObject]] = {
    "Node": parse_node,
    "Pod": parse_pod,
    "Namespace": parse_namespace,
    "PodDisruptionBudget": parse_budget,
    "PriorityClass": parse_priority_class,
    "ResourceSlice": parse_resource_slice,
    "PersistentVolumeClaim": parse_claim,
    "PersistentVolume": parse_volume,
}


def _converted(decoder: msgspec.json.Decoder[Wire], raw: Raw, kind: str, convert: Callable[[Wire], Parsed]) -> Parsed:
    try:
        return convert(_decoded(decoder, raw, kind))
    except MalformedField as error:
        namespace, name = _identity(raw)
        raise MalformedObject(kind, namespace, name, error.field, error.message) from None


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
