"""From the JSON of the Kubernetes API to cluster values; past this door there is no wire type and no text quantity."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from islander.cluster import names
from islander.cluster.devices import ResourceSlice
from islander.cluster.gpu_report import parse_gpu_report
from islander.cluster.interning import one_object
from islander.cluster.node import GpuReport, Node, Taint
from islander.cluster.pod import Owner, Pod
from islander.cluster.quantity import MalformedQuantity, parse_quantity, whole_number
from islander.cluster.resources import Resources
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload
from islander.kube import api_structs as api
from islander.kube.pod_spec import (
    MalformedField,
    parse_node_terms,
    parse_pod_spec,
    parse_resources,
    parse_selector,
    text_pairs,
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
    return _converted(_POD, raw, "Pod", _pod)


def parse_node(raw: Raw) -> Node:
    """Return the value of a v1 Node; raise MalformedObject when a field has a wrong type.

    What a node says wrongly about itself (an amount, an annotation of ours) is a warning on the node, since a node
    that is left out is worse than one of which less is believed.
    """
    return _converted(_NODE, raw, "Node", _node)


def parse_workload(raw: Raw, kind: str) -> Workload:
    """Return the value of a controller of pods of that kind."""
    return _converted(_WORKLOAD, raw, kind, lambda wire: _workload(wire, kind))


def parse_budget(raw: Raw) -> DisruptionBudget:
    """Return the value of a PodDisruptionBudget."""
    return _converted(_BUDGET, raw, "PodDisruptionBudget", _budget)


def parse_priority_class(raw: Raw) -> PriorityClass:
    """Return the value of a PriorityClass."""
    return _converted(_PRIORITY_CLASS, raw, "PriorityClass", _priority_class)


def parse_namespace(raw: Raw) -> Namespace:
    """Return the value of a Namespace."""
    return _converted(_NAMESPACE, raw, "Namespace", _namespace)


def parse_resource_slice(raw: Raw) -> ResourceSlice:
    """Return the value of a ResourceSlice."""
    return _converted(_RESOURCE_SLICE, raw, "ResourceSlice", _resource_slice)


def parse_claim(raw: Raw) -> PersistentVolumeClaim:
    """Return the value of a PersistentVolumeClaim."""
    return _converted(_CLAIM, raw, "PersistentVolumeClaim", _claim)


def parse_volume(raw: Raw) -> PersistentVolume:
    """Return the value of a PersistentVolume."""
    return _converted(_VOLUME, raw, "PersistentVolume", _volume)


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


def _metadata(metadata: api.Metadata | None) -> tuple[api.Metadata, str]:
    """Return the metadata and the object's name; a template that has only `generateName` is called by that."""
    found = metadata or api.Metadata()
    name = found.name or found.generate_name
    if not name:
        raise MalformedField("metadata.name", "is missing")
    return found, name


def _owner(metadata: api.Metadata) -> Owner | None:
    for reference in metadata.owner_references or ():
        if reference.controller:
            return one_object(
                Owner(reference.kind or "", reference.name or "", reference.uid or "", reference.api_version or "")
            )
    return None


def _kept(annotations: api.Texts | None, kept: frozenset[str]) -> tuple[tuple[str, str], ...]:
    if not annotations or kept.isdisjoint(annotations):
        return ()
    return text_pairs({key: value for key, value in annotations.items() if key in kept})


def _condition(conditions: list[api.Condition] | None, condition_type: str) -> api.Condition | None:
    return next((condition for condition in conditions or () if condition.type == condition_type), None)


def _pod(wire: api.Pod) -> Pod:
    metadata, name = _metadata(wire.metadata)
    labels = metadata.labels or {}
    spec = wire.spec or api.PodSpec()
    status = wire.status or api.PodStatus()
    node = spec.node_name or ""
    ready = _condition(status.conditions, "Ready")
    scheduled = None if node else _condition(status.conditions, "PodScheduled")
    return Pod(
        namespace=sys.intern(metadata.namespace or "default"),
        name=name,
        uid=metadata.uid or "",
        spec=parse_pod_spec(spec, name, labels),
        node=sys.intern(node),
        nominated_node=sys.intern(status.nominated_node_name or ""),
        phase=sys.intern(status.phase or "Pending"),
        ready=ready is not None and ready.status == "True",
        labels=one_object(text_pairs(labels)),
        annotations=one_object(_kept(metadata.annotations, names.KEPT_POD_ANNOTATIONS)),
        owner=_owner(metadata),
        created=metadata.creation_timestamp or "",
        started=status.start_time or "",
        deleted=metadata.deletion_timestamp or "",
        unschedulable_message=(scheduled.message or "") if scheduled and scheduled.reason == "Unschedulable" else "",
    )


def _node(wire: api.Node) -> Node:
    metadata, name = _metadata(wire.metadata)
    spec = wire.spec or api.NodeSpec()
    status = wire.status or api.NodeStatus()
    annotations = metadata.annotations or {}
    ready, reason = _readiness(status.conditions)
    warnings: list[str] = []
    report = _report(annotations.get(names.GPUS), warnings)
    capacity = _node_resources(status.capacity, "capacity", warnings)
    allocatable = _node_resources(status.allocatable, "allocatable", warnings)
    return Node(
        name=sys.intern(name),
        uid=metadata.uid or "",
        # Nodes share nearly all their labels; each pair is kept once.
        labels=tuple(one_object(pair) for pair in text_pairs(metadata.labels)),
        annotations=one_object(_kept(annotations, names.KEPT_NODE_ANNOTATIONS - {names.GPUS})),
        taints=one_object(
            tuple(Taint(taint.key or "", taint.value or "", taint.effect or "") for taint in spec.taints or ())
        ),
        unschedulable=bool(spec.unschedulable),
        ready=ready,
        not_ready_reason=reason,
        capacity=one_object(capacity),
        allocatable=one_object(allocatable),
        max_pods=_max_pods(status.allocatable, warnings),
        gpu_report=report,
        warnings=tuple(warnings),
        created=metadata.creation_timestamp or "",
    )


def _readiness(conditions: list[api.Condition] | None) -> tuple[bool, str]:
    """Return whether the node is ready, and why not; a node without conditions is a template and counts as ready."""
    if not conditions:
        return True, ""
    ready = _condition(conditions, "Ready")
    if ready is None:
        return False, "NoReadyCondition"
    return ready.status == "True", "" if ready.status == "True" else ready.reason or f"Ready is {ready.status}"


def _report(text: str | None, warnings: list[str]) -> GpuReport | None:
    if not text:
        return None
    report, found = parse_gpu_report(text)
    warnings.extend(f"annotation {names.GPUS}: {warning}" for warning in found)
    return report


def _node_resources(amounts: api.Amounts | None, field: str, warnings: list[str]) -> Resources:
    """Return the amounts; one that is malformed counts as absent, with a warning."""
    usable = dict(amounts or {})
    while True:
        try:
            return parse_resources(usable, f"status.{field}")
        except MalformedField as error:
            warnings.append(f"{error}; it counts as absent")
            del usable[error.field[len(f"status.{field}[") : -1]]


def _max_pods(allocatable: api.Amounts | None, warnings: list[str]) -> int:
    text = (allocatable or {}).get("pods")
    default = Node("").max_pods
    if text is None:
        return default
    try:
        return whole_number(parse_quantity(text))
    except MalformedQuantity as error:
        warnings.append(f"status.allocatable[pods]: {error}; {default} is assumed")
        return default


def _workload(wire: api.Workload, kind: str) -> Workload:
    metadata, name = _metadata(wire.metadata)
    spec = wire.spec or api.WorkloadSpec()
    status = wire.status or api.WorkloadStatus()
    if kind == "DaemonSet":
        replicas, ready = status.desired_number_scheduled, status.number_ready
    elif kind == "Job":
        replicas, ready = 1 if spec.parallelism is None else spec.parallelism, status.ready
    else:
        replicas, ready = 1 if spec.replicas is None else spec.replicas, status.ready_replicas
    template = spec.leader_worker_template
    return Workload(
        kind=kind,
        namespace=sys.intern(metadata.namespace or "default"),
        name=name,
        uid=metadata.uid or "",
        replicas=replicas,
        ready_replicas=ready or 0,
        group_size=1 if template is None or template.size is None else template.size,
        owner=_owner(metadata),
        labels=one_object(text_pairs(metadata.labels)),
    )


def _budget(wire: api.PodDisruptionBudget) -> DisruptionBudget:
    metadata, name = _metadata(wire.metadata)
    spec = wire.spec or api.BudgetSpec()
    status = wire.status or api.BudgetStatus()
    return DisruptionBudget(
        namespace=sys.intern(metadata.namespace or "default"),
        name=name,
        selector=parse_selector(spec.selector, "spec.selector"),
        min_available="" if spec.min_available is None else str(spec.min_available),
        max_unavailable="" if spec.max_unavailable is None else str(spec.max_unavailable),
        disruptions_allowed=status.disruptions_allowed or 0,
        current_healthy=status.current_healthy or 0,
        desired_healthy=status.desired_healthy or 0,
        unhealthy_pod_eviction_policy=spec.unhealthy_pod_eviction_policy or "",
    )


def _priority_class(wire: api.PriorityClass) -> PriorityClass:
    _, name = _metadata(wire.metadata)
    return PriorityClass(name, wire.value or 0, bool(wire.global_default), wire.preemption_policy or "")


def _namespace(wire: api.Namespace) -> Namespace:
    metadata, name = _metadata(wire.metadata)
    return Namespace(name, one_object(text_pairs(metadata.labels)))


def _resource_slice(wire: api.ResourceSlice) -> ResourceSlice:
    _, name = _metadata(wire.metadata)
    spec = wire.spec or api.ResourceSliceSpec()
    return ResourceSlice(
        name,
        driver=sys.intern(spec.driver or ""),
        node=sys.intern(spec.node_name or ""),
        devices=len(spec.devices or ()),
    )


def _claim(wire: api.PersistentVolumeClaim) -> PersistentVolumeClaim:
    metadata, name = _metadata(wire.metadata)
    spec = wire.spec or api.ClaimSpec()
    owner = _owner(metadata)
    return PersistentVolumeClaim(
        namespace=sys.intern(metadata.namespace or "default"),
        name=name,
        volume=spec.volume_name or "",
        access_modes=one_object(tuple(sorted(spec.access_modes or ()))),
        ephemeral=owner is not None and owner.kind == "Pod",
    )


def _volume(wire: api.PersistentVolume) -> PersistentVolume:
    _, name = _metadata(wire.metadata)
    spec = wire.spec or api.VolumeSpec()
    affinity = spec.node_affinity or api.VolumeNodeAffinity()
    return PersistentVolume(
        name,
        node_terms=one_object(parse_node_terms(affinity.required, "spec.nodeAffinity")),
        local=spec.local is not None or spec.host_path is not None,
    )
