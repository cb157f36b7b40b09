"""From the structs of the wire to cluster values, one function for each kind.

Each raises MalformedField when a field is not what the API allows, or the object has no name.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from islander.cluster import names
from islander.cluster.devices import ClaimedDevice, ResourceClaim, ResourceSlice
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


def metadata_of(metadata: api.Metadata | None) -> tuple[api.Metadata, str]:
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


def pod_value(wire: api.Pod) -> Pod:
    """Return a pod."""
    metadata, name = metadata_of(wire.metadata)
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


def node_value(wire: api.Node) -> Node:
    """Return a node; what it says wrongly about itself is a warning on it."""
    metadata, name = metadata_of(wire.metadata)
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


def workload_value(wire: api.Workload, kind: str) -> Workload:
    """Return a controller of pods; DaemonSets and Jobs count their pods in fields of their own."""
    metadata, name = metadata_of(wire.metadata)
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


def budget_value(wire: api.PodDisruptionBudget) -> DisruptionBudget:
    """Return a disruption budget."""
    metadata, name = metadata_of(wire.metadata)
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


def priority_class_value(wire: api.PriorityClass) -> PriorityClass:
    """Return a priority class."""
    _, name = metadata_of(wire.metadata)
    return PriorityClass(name, wire.value or 0, bool(wire.global_default), wire.preemption_policy or "")


def namespace_value(wire: api.Namespace) -> Namespace:
    """Return a namespace."""
    metadata, name = metadata_of(wire.metadata)
    return Namespace(name, one_object(text_pairs(metadata.labels)))


def resource_slice_value(wire: api.ResourceSlice) -> ResourceSlice:
    """Return the devices that a driver has published."""
    _, name = metadata_of(wire.metadata)
    spec = wire.spec or api.ResourceSliceSpec()
    return ResourceSlice(
        name,
        driver=sys.intern(spec.driver or ""),
        node=sys.intern(spec.node_name or ""),
        devices=len(spec.devices or ()),
    )


def resource_claim_value(wire: api.ResourceClaim) -> ResourceClaim:
    """Return the devices that a claim holds, each once, and the pods that share them."""
    metadata, name = metadata_of(wire.metadata)
    status = wire.status or api.ResourceClaimStatus()
    allocation = status.allocation or api.Allocation()
    devices = {
        ClaimedDevice(sys.intern(found.driver or ""), sys.intern(found.pool or ""), found.device or "")
        for found in (allocation.devices or api.AllocatedDevices()).results or ()
        if not found.admin_access
    }
    return ResourceClaim(
        namespace=sys.intern(metadata.namespace or "default"),
        name=name,
        node=sys.intern(_node_of(allocation, devices)),
        devices=tuple(sorted(devices, key=lambda d: (d.driver, d.pool, d.device))),
        pods=tuple(sorted({user.name or "" for user in status.reserved_for or () if user.resource == "pods"})),
    )


def _node_of(allocation: api.Allocation, devices: Collection[ClaimedDevice]) -> str:
    """Return the one node that an allocation is bound to; the drivers that serve GPUs name their pools after nodes."""
    terms = parse_node_terms(allocation.node_selector, "status.allocation.nodeSelector") or ()
    for term in terms[:1] if len(terms) == 1 else ():
        for requirement in term.fields:
            if (requirement.key, requirement.operator) == ("metadata.name", "In") and len(requirement.values) == 1:
                return requirement.values[0]
    pools = {device.pool for device in devices if device.driver in names.DRA_DRIVERS.values()}
    return pools.pop() if len(pools) == 1 else ""


def claim_value(wire: api.PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return a claim; one that a pod owns goes with the pod."""
    metadata, name = metadata_of(wire.metadata)
    spec = wire.spec or api.ClaimSpec()
    owner = _owner(metadata)
    return PersistentVolumeClaim(
        namespace=sys.intern(metadata.namespace or "default"),
        name=name,
        volume=spec.volume_name or "",
        access_modes=one_object(tuple(sorted(spec.access_modes or ()))),
        ephemeral=owner is not None and owner.kind == "Pod",
    )


def volume_value(wire: api.PersistentVolume) -> PersistentVolume:
    """Return a volume, and where it can be reached."""
    _, name = metadata_of(wire.metadata)
    spec = wire.spec or api.VolumeSpec()
    affinity = spec.node_affinity or api.VolumeNodeAffinity()
    return PersistentVolume(
        name,
        node_terms=one_object(parse_node_terms(affinity.required, "spec.nodeAffinity")),
        local=spec.local is not None or spec.host_path is not None,
    )
