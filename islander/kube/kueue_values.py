"""From the wire structs of Kueue's objects to values, one function for each kind; v1beta1 and v1beta2 give equal ones.

Each raises MalformedField when a field is not what the API allows, or the object has no name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import msgspec
import yaml

from islander.cluster.interning import one_object
from islander.cluster.node import Taint
from islander.cluster.pod import Toleration
from islander.cluster.quantity import MalformedQuantity, bytes_of, milli, parse_quantity
from islander.cluster.queues import (
    Autoscaler,
    ClusterQueue,
    Cohort,
    FlavorFungibility,
    FlavorQuotas,
    FlavorUsage,
    LocalQueue,
    NamespaceQuota,
    PodSet,
    Preemption,
    QueueConfiguration,
    QueuedWorkload,
    QueueTopology,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from islander.kube import api_structs as api
from islander.kube import kueue_structs as wires
from islander.kube.pod_spec import MalformedField, parse_pod_spec, parse_selector, text_pairs
from islander.kube.values import metadata_of

# Where Kueue's own manifests and its chart keep the configuration.
CONFIGURATION_KEY = "controller_manager_config.yaml"
CONFIGURATION_GROUP = "config.kueue.x-k8s.io"
# sigs.k8s.io/kueue v0.17.0, apis/config/v1beta1/defaults.go; v1beta2 asks for the timeout.
_DEFAULT_PODS_READY_SECONDS = 300
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|μs|ms|s|m|h))+|0", re.ASCII)
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOSECONDS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_NANOSECONDS["h"] = 3600 * 10**9
# v1beta1 has these as other names of the value that v1beta2 keeps.
_OLD_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def cluster_queue_value(wire: wires.ClusterQueue) -> ClusterQueue:
    """Return a ClusterQueue, without its manifest."""
    _, name = metadata_of(wire.metadata)
    spec = wire.spec or wires.ClusterQueueSpec()
    status = wire.status or wires.ClusterQueueStatus()
    preemption = spec.preemption or wires.Preemption()
    fungibility = spec.flavor_fungibility or wires.FlavorFungibility()
    active = _condition(status.conditions, "Active")
    inactive = active if active is not None and active.status != "True" else wires.Condition()
    return ClusterQueue(
        name=name,
        api_version=wire.api_version or "",
        cohort=spec.cohort_name or spec.cohort or "",
        resource_groups=_groups(spec.resource_groups, "spec.resourceGroups"),
        namespace_selector=parse_selector(spec.namespace_selector, "spec.namespaceSelector"),
        queueing_strategy=spec.queueing_strategy or "",
        preemption=Preemption(
            preemption.reclaim_within_cohort or "",
            (preemption.borrow_within_cohort or wires.BorrowWithinCohort()).policy or "",
            preemption.within_cluster_queue or "",
        ),
        fungibility=FlavorFungibility(
            _new_fungibility(fungibility.when_can_borrow),
            _new_fungibility(fungibility.when_can_preempt),
            fungibility.preference or "",
        ),
        fair_weight=_weight(spec.fair_sharing),
        stop_policy=spec.stop_policy or "",
        admission_checks=_checks(spec),
        concurrent_admission=spec.concurrent_admission_policy is not None,
        reservation=_usage(status.flavors_reservation, "status.flavorsReservation"),
        usage=_usage(status.flavors_usage, "status.flavorsUsage"),
        pending_workloads=status.pending_workloads or 0,
        reserving_workloads=status.reserving_workloads or 0,
        admitted_workloads=status.admitted_workloads or 0,
        active=None if active is None else active.status == "True",
        inactive_reason=inactive.reason or "",
        inactive_message=inactive.message or "",
        effective=_effective(status.effective_quotas or status.effective_quota),
    )


def cohort_value(wire: wires.Cohort) -> Cohort:
    """Return a Cohort, without its manifest."""
    _, name = metadata_of(wire.metadata)
    spec = wire.spec or wires.CohortSpec()
    status = wire.status or wires.CohortStatus()
    return Cohort(
        name=name,
        api_version=wire.api_version or "",
        parent=spec.parent_name or spec.parent or "",
        resource_groups=_groups(spec.resource_groups, "spec.resourceGroups"),
        fair_weight=_weight(spec.fair_sharing),
        effective=_effective(status.effective_quotas or status.effective_quota),
    )


def local_queue_value(wire: wires.LocalQueue) -> LocalQueue:
    """Return a LocalQueue, without its manifest."""
    metadata, name = metadata_of(wire.metadata)
    spec = wire.spec or wires.LocalQueueSpec()
    return LocalQueue(
        namespace=sys.intern(metadata.namespace or "default"),
        name=name,
        api_version=wire.api_version or "",
        cluster_queue=spec.cluster_queue or "",
        stop_policy=spec.stop_policy or "",
        fair_weight=_weight(spec.fair_sharing),
        pending_workloads=(wire.status or wires.LocalQueueStatus()).pending_workloads or 0,
    )


def resource_flavor_value(wire: wires.ResourceFlavor) -> ResourceFlavor:
    """Return a ResourceFlavor, without its manifest."""
    _, name = metadata_of(wire.metadata)
    spec = wire.spec or wires.ResourceFlavorSpec()
    return ResourceFlavor(
        name=name,
        api_version=wire.api_version or "",
        node_labels=text_pairs(spec.node_labels),
        node_taints=tuple(Taint(t.key or "", t.value or "", t.effect or "") for t in spec.node_taints or ()),
        tolerations=tuple(
            Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "")
            for t in spec.tolerations or ()
        ),
        topology=spec.topology_name or "",
    )


def topology_value(wire: wires.Topology) -> QueueTopology:
    """Return a Topology, without its manifest."""
    _, name = metadata_of(wire.metadata)
    levels = (wire.spec or wires.TopologySpec()).levels or ()
    return QueueTopology(name, wire.api_version or "", tuple(level.node_label or "" for level in levels))


def queued_workload_value(wire: wires.Workload) -> QueuedWorkload:
    """Return a Workload of Kueue."""
    metadata, name = metadata_of(wire.metadata)
    spec = wire.spec or wires.WorkloadSpec()
    status = wire.status or wires.WorkloadStatus()
    admission = status.admission or wires.Admission()
    reserved = _condition(status.conditions, "QuotaReserved")
    admitted = _condition(status.conditions, "Admitted")
    ready = _condition(status.conditions, "PodsReady")
    return QueuedWorkload(
        namespace=sys.intern(metadata.namespace or "default"),
        name=name,
        api_version=wire.api_version or "",
        queue=spec.queue_name or "",
        priority=spec.priority or 0,
        active=spec.active is not False,
        pod_sets=one_object(
            tuple(
                _pod_set(index, pod_set, admission.pod_set_assignments or (), status.resource_requests or ())
                for index, pod_set in enumerate(spec.pod_sets or ())
            )
        ),
        owners=tuple((owner.kind or "", owner.name or "") for owner in metadata.owner_references or ()),
        admitted_by=admission.cluster_queue or "",
        admitted=_holds(admitted),
        finished=_holds(_condition(status.conditions, "Finished")),
        pending_reason=(reserved.reason or "") if reserved is not None and not _holds(reserved) else "",
        created=metadata.creation_timestamp or "",
        admitted_at=(admitted.last_transition_time or "") if admitted is not None and _holds(admitted) else "",
        ready_at=(ready.last_transition_time or "") if ready is not None and _holds(ready) else "",
    )


def autoscaler_value(wire: wires.Autoscaler, kind: str) -> Autoscaler:
    """Return between how many replicas something is scaled."""
    metadata, name = metadata_of(wire.metadata)
    spec = wire.spec or wires.AutoscalerSpec()
    target = spec.scale_target_ref or wires.ScaleTarget()
    if kind == "ScaledObject":
        # github.com/kedacore/keda, apis/keda/v1alpha1/scaledobject_types.go.
        least, most, target_kind = spec.min_replica_count or 0, spec.max_replica_count, target.kind or "Deployment"
        most = 100 if most is None else most
    else:
        least = 1 if spec.min_replicas is None else spec.min_replicas
        most, target_kind = spec.max_replicas, target.kind or ""
        if most is None:
            raise MalformedField("spec.maxReplicas", "is missing")
    if least < 0 or most < 0:
        raise MalformedField("spec", f"{least} to {most} replicas: a number is negative")
    return Autoscaler(
        kind=kind,
        namespace=sys.intern(metadata.namespace or "default"),
        name=name,
        target_kind=target_kind,
        target_name=target.name or "",
        min_replicas=least,
        max_replicas=most,
    )


def namespace_quota_value(wire: wires.NamespaceQuota) -> NamespaceQuota:
    """Return a ResourceQuota."""
    metadata, name = metadata_of(wire.metadata)
    hard = (wire.spec or wires.NamespaceQuotaSpec()).hard or {}
    return NamespaceQuota(
        namespace=sys.intern(metadata.namespace or "default"),
        name=name,
        hard=tuple(
            sorted(
                (key, _amount(key.removeprefix("requests.").removeprefix("limits."), text, f"spec.hard[{key}]"))
                for key, text in hard.items()
                if text is not None
            )
        ),
    )


def configuration_of_map(wire: wires.ConfigMap) -> wires.Configuration | None:
    """Return the configuration that a ConfigMap holds; None for a ConfigMap of something else."""
    text = (wire.data or {}).get(CONFIGURATION_KEY)
    if text is None:
        return None
    field = f"data[{CONFIGURATION_KEY}]"
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise MalformedField(field, f"is not YAML: {str(error).partition(chr(10))[0]}") from None
    try:
        found = msgspec.convert(document, wires.Configuration, strict=False)
    except msgspec.ValidationError as error:
        raise MalformedField(field, str(error)) from None
    ours = found.kind == "Configuration" and (found.api_version or "").startswith(f"{CONFIGURATION_GROUP}/")
    return found if ours else None


def configuration_value(wire: wires.Configuration) -> QueueConfiguration:
    """Return what of Kueue's configuration bears on quotas."""
    # In v1beta2 a block switches itself on; in v1beta1 it says so.
    newer = not (wire.api_version or "").endswith("/v1beta1")
    wait, sharing = wire.wait_for_pods_ready, wire.fair_sharing
    waits = wait is not None and (newer if wait.enable is None else wait.enable)
    shares = sharing is not None and (newer if sharing.enable is None else sharing.enable)
    seconds = None
    if wait is not None and waits:
        seconds = (
            _DEFAULT_PODS_READY_SECONDS
            if wait.timeout is None
            else _duration_seconds(wait.timeout, "waitForPodsReady.timeout")
        )
    return QueueConfiguration(
        wait_for_pods_ready_seconds=seconds,
        frameworks=tuple(sorted((wire.integrations or wires.Integrations()).frameworks or ())),
        excluded_prefixes=tuple((wire.resources or wires.ConfiguredResources()).exclude_resource_prefixes or ()),
        fair_sharing=shares,
    )


def _condition(conditions: list[wires.Condition] | None, condition_type: str) -> wires.Condition | None:
    return next((condition for condition in conditions or () if condition.type == condition_type), None)


def _holds(condition: wires.Condition | None) -> bool:
    return condition is not None and condition.status == "True"


def _new_fungibility(word: str | None) -> str:
    return _OLD_FUNGIBILITY.get(word or "", word or "")


def _weight(sharing: wires.FairSharing | None) -> str:
    return "" if sharing is None or sharing.weight is None else str(sharing.weight)


def _checks(spec: wires.ClusterQueueSpec) -> tuple[tuple[str, tuple[str, ...]], ...]:
    rules = (spec.admission_checks_strategy or wires.ChecksStrategy()).admission_checks or ()
    found = [(rule.name or "", tuple(rule.on_flavors or ())) for rule in rules]
    return tuple(found or [(name, ()) for name in spec.admission_checks or ()])


def _amount(resource: str, text: str | int | float, field: str) -> int:
    """Return an amount as quotas count: thousandths of a CPU, whole units of anything else, rounded up as Kueue does.

    Source: sigs.k8s.io/kueue v0.17.0, pkg/resources/requests.go, ResourceValue.
    """
    count: Callable[..., int] = milli if resource == "cpu" else bytes_of
    try:
        return count(parse_quantity(text))
    except MalformedQuantity as error:
        raise MalformedField(field, str(error)) from None


def _limit(resource: str, text: wires.Amount | None, field: str) -> int | None:
    return None if text is None else _amount(resource, text, field)


def _named(name: str | None, field: str) -> str:
    if not name:
        raise MalformedField(f"{field}.name", "is missing")
    return sys.intern(name)


def _groups(groups: Iterable[wires.ResourceGroup] | None, field: str) -> tuple[ResourceGroup, ...]:
    return tuple(
        ResourceGroup(
            tuple(map(sys.intern, group.covered_resources or ())),
            tuple(
                _flavor(flavor, f"{field}[{number}].flavors[{index}]")
                for index, flavor in enumerate(group.flavors or ())
            ),
        )
        for number, group in enumerate(groups or ())
    )


def _flavor(flavor: wires.FlavorQuotas, field: str) -> FlavorQuotas:
    quotas = []
    for index, wire in enumerate(flavor.resources or ()):
        here = f"{field}.resources[{index}]"
        name = _named(wire.name, here)
        quotas.append(
            Quota(
                name,
                _limit(name, wire.nominal_quota, f"{here}.nominalQuota") or 0,
                _limit(name, wire.borrowing_limit, f"{here}.borrowingLimit"),
                _limit(name, wire.lending_limit, f"{here}.lendingLimit"),
            )
        )
    return FlavorQuotas(_named(flavor.name, field), tuple(quotas))


def _usage(flavors: Iterable[wires.FlavorUsage] | None, field: str) -> tuple[FlavorUsage, ...]:
    found = []
    for number, flavor in enumerate(flavors or ()):
        here = f"{field}[{number}]"
        for index, used in enumerate(flavor.resources or ()):
            place = f"{here}.resources[{index}]"
            name = _named(used.name, place)
            total = _limit(name, used.total, f"{place}.total") or 0
            borrowed = _limit(name, used.borrowed, f"{place}.borrowed") or 0
            found.append(FlavorUsage(_named(flavor.name, here), name, total, borrowed))
    return tuple(found)


def _effective(quotas: wires.EffectiveQuotas | None) -> tuple[FlavorQuotas, ...]:
    groups = _groups((quotas or wires.EffectiveQuotas()).resource_groups, "status.effectiveQuotas.resourceGroups")
    return tuple(flavor for group in groups for flavor in group.flavors)


def _pod_set(
    index: int,
    wire: wires.PodSet,
    assignments: Sequence[wires.PodSetAssignment],
    requests: Sequence[wires.PodSetRequest],
) -> PodSet:
    name = wire.name or "main"
    assigned = next((a for a in assignments if a.name == name), wires.PodSetAssignment())
    counted = next((r.resources for r in requests if r.name == name), None)
    count = assigned.count if assigned.count is not None else 1 if wire.count is None else wire.count
    if count < 0:
        raise MalformedField(f"spec.podSets[{index}].count", f"{count} is negative")
    return PodSet(
        name=name,
        count=count,
        requests=_of_one_pod(index, wire, assigned.resource_usage or counted, count),
        flavors=text_pairs(assigned.flavors),
        topology_request=_topology_request(wire.topology_request),
    )


def _of_one_pod(index: int, wire: wires.PodSet, total: api.Amounts | None, count: int) -> tuple[tuple[str, int], ...]:
    """Return what one pod asks for: what Kueue counts where it has said so, else what its template asks for."""
    if total and count:
        field = f"podSet {index}"
        amounts = {name: _amount(name, text, field) for name, text in total.items() if text is not None}
        return tuple(sorted((name, -(-amount // count)) for name, amount in amounts.items()))
    template = wire.template or wires.PodTemplate()
    try:
        spec = parse_pod_spec(template.spec or api.PodSpec(), "", (template.metadata or api.Metadata()).labels or {})
    except MalformedField as error:
        raise MalformedField(f"spec.podSets[{index}].template.{error.field}", error.message) from None
    asked = spec.requests
    plain = (("cpu", asked.cpu_milli), ("memory", asked.memory_bytes))
    return tuple(sorted((*asked.extended, *(pair for pair in plain if pair[1]))))


def _topology_request(wire: wires.TopologyRequest | None) -> str:
    if wire is None:
        return ""
    if wire.required:
        return f"required {wire.required}"
    if wire.preferred:
        return f"preferred {wire.preferred}"
    if wire.unconstrained:
        return "unconstrained"
    return f"slices {wire.pod_set_slice_required_topology}" if wire.pod_set_slice_required_topology else ""


def _duration_seconds(text: str, field: str) -> int:
    """Return the whole seconds of a duration as Go writes it (`1h30m`, `90s`), rounded down."""
    if not _DURATION.fullmatch(text):
        raise MalformedField(field, f"{text!r:.40} is not a duration such as 10m")
    parts = _DURATION_PART.findall(text)
    return int(sum(Fraction(number) * _NANOSECONDS[unit] for number, unit in parts) // 10**9)
