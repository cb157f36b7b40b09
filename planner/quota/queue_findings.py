"""Findings about queues: what they promise, whom they keep waiting, and what else stands in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from islander.cluster import names
from islander.cluster.pod import Requirement
from islander.cluster.queues import ClusterQueue, QueuedWorkload
from islander.policy.selectors import integer, selects
from planner.quota.capacity_findings import finding
from planner.quota.finding_codes import FindingCode, QuotaFinding, Severity
from planner.quota.inspection import Inspection, called, listed

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_STRICT = "StrictFIFO"
# Kueue evicts in the middle of a slow start when there is no more than this between the slowest start and its patience.
_PATIENCE = 2

Planned = Mapping[tuple[str, str], tuple[int, int | None]]


def quota_in_parts_of_replicas(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield quotas and limits that are no multiple of the GPUs of the replicas that use them."""
    for queue in case.snapshot.cluster_queues:
        demand = case.demand_of.get(queue.name)
        island = demand.island if demand else 1
        for at in case.gpu_quotas(queue) if island > 1 else ():
            if at.quota.resource not in case.settings.gpu_resources:
                continue
            for key, amount in (
                ("nominalQuota", at.quota.nominal),
                ("borrowingLimit", at.quota.borrowing_limit),
                ("lendingLimit", at.quota.lending_limit),
            ):
                if amount is not None and amount % island:
                    message = f"{amount} is no multiple of {island}; {amount % island} of them make no replica"
                    code = FindingCode.NOT_WHOLE_ISLANDS
                    yield finding(code, Severity.WARNING, called(queue), f"{at.path}.{key}", message)


def workloads_above_quota(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield workloads that wait for more than their queue can ever have."""
    for queue in case.snapshot.cluster_queues:
        most: dict[str, int | None] = {}
        for at in case.gpu_quotas(queue):
            limit = at.quota.borrowing_limit if queue.cohort else 0
            here = None if limit is None else at.quota.nominal + limit
            known = most.get(at.quota.resource, 0)
            most[at.quota.resource] = None if here is None or known is None else max(known, here)
        for workload in case.workloads_of.get(queue.name, ()):
            for pods in workload.pod_sets if not workload.admitted_by else ():
                for resource, count in pods.requests:
                    limit = most.get(resource)
                    if limit is not None and count * pods.count > limit:
                        message = (
                            f"{workload.namespace}/{workload.name} asks for {count * pods.count} {resource}, "
                            f"the queue can have {limit}"
                        )
                        yield finding(FindingCode.REQUEST_ABOVE_QUOTA, Severity.ERROR, called(queue), "", message)


def baselines_on_loan(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield queues whose baseline is above their nominal quota, and those that may not take back what they lend."""
    for queue in case.snapshot.cluster_queues:
        demand = case.demand_of.get(queue.name)
        if demand is None or not demand.baseline:
            continue
        quotas = [at.quota for at in case.gpu_quotas(queue) if at.quota.resource in case.settings.gpu_resources]
        nominal = sum(quota.nominal for quota in quotas)
        if demand.baseline > nominal:
            message = (
                f"the minimum of replicas needs {demand.baseline} GPUs, the nominal quota is {nominal}: "
                f"{demand.baseline - nominal} can be taken away"
            )
            yield finding(FindingCode.BASELINE_BORROWED, Severity.ERROR, called(queue), "", message)
        kept = sum(q.nominal - (q.nominal if q.lending_limit is None else q.lending_limit) for q in quotas)
        lends = bool(queue.cohort) and len(case.trees[case.root_of(queue.cohort)]) > 1
        reclaims = queue.preemption.reclaim_within_cohort not in ("", "Never")
        if lends and not reclaims and kept < min(demand.baseline, nominal):
            message = f"{demand.baseline} GPUs are its baseline, {kept} are never lent, and it may reclaim nothing"
            path = "spec.preemption.reclaimWithinCohort"
            yield finding(FindingCode.CANNOT_RECLAIM, Severity.WARNING, called(queue), path, message)


def quota_below_reservation(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield queues that hold more than they may have today."""
    for queue in case.snapshot.cluster_queues:
        yield from below_reservation(
            queue,
            {
                (at.flavor, at.quota.resource): (at.quota.nominal, at.quota.borrowing_limit if queue.cohort else 0)
                for at in case.gpu_quotas(queue)
            },
        )


def below_reservation(queue: ClusterQueue, planned: Planned) -> Iterator[QuotaFinding]:
    """Yield what workloads hold beyond quotas that are planned, or in force.

    Parameters
    ----------
    planned
        (nominal quota, borrowing limit) by (flavor, resource); a limit of None is no limit.
    """
    for used in queue.reservation:
        if (used.flavor, used.resource) not in planned:
            continue
        nominal, limit = planned[used.flavor, used.resource]
        if limit is not None and used.total > nominal + limit:
            message = (
                f"workloads hold {used.total} {used.resource} of {used.flavor}, the queue may have {nominal + limit}: "
                f"{used.total - nominal - limit} too many"
            )
            yield finding(FindingCode.BELOW_RESERVATION, Severity.WARNING, called(queue), "", message)


def who_waits_for_whom(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield queues in which small workloads pass a large one, or a large one holds up small ones."""
    for queue in case.snapshot.cluster_queues:
        strict = queue.queueing_strategy == _STRICT
        code = FindingCode.LARGE_BLOCKS_SMALL if strict else FindingCode.SMALL_STARVES_LARGE
        workloads = case.workloads_of.get(queue.name, ())
        evidence = _blocked(case, workloads) if strict else _passed(case, workloads)
        if evidence:
            yield finding(code, Severity.WARNING, called(queue), "spec.queueingStrategy", evidence)
            continue
        demand = case.demand_of.get(queue.name)
        sizes = sorted({r.gpus for r in demand.replicas}) if demand else []
        if len(sizes) > 1:
            strategy = _STRICT if strict else "BestEffortFIFO"
            message = f"replicas of {sizes[0]} and of {sizes[-1]} GPUs share the queue, which is {strategy}"
            yield finding(code, Severity.INFO, called(queue), "spec.queueingStrategy", message)


def _passed(case: Inspection, workloads: tuple[QueuedWorkload, ...]) -> str:
    """Return which workload smaller ones have passed, in a sentence; empty when none was."""
    for waiting in sorted(workloads, key=lambda w: (-case.gpus_of(w), w.created)):
        if waiting.admitted_by or not waiting.created or not waiting.active:
            continue
        passed = [
            w
            for w in workloads
            if w.admitted and w.created > waiting.created and 0 < case.gpus_of(w) < case.gpus_of(waiting)
        ]
        if passed:
            return (
                f"{waiting.namespace}/{waiting.name} waits for {case.gpus_of(waiting)} GPUs since {waiting.created}; "
                f"{len(passed)} smaller ones that came later were admitted"
            )
    return ""


def _blocked(case: Inspection, workloads: tuple[QueuedWorkload, ...]) -> str:
    """Return which workload holds up smaller ones, in a sentence; empty when none does."""
    waiting = sorted((w for w in workloads if not w.admitted_by and w.active), key=lambda w: (-w.priority, w.created))
    if not waiting:
        return ""
    first, behind = waiting[0], waiting[1:]
    smaller = [w for w in behind if 0 < case.gpus_of(w) < case.gpus_of(first)]
    if not smaller:
        return ""
    return f"{first.namespace}/{first.name} waits for {case.gpus_of(first)} GPUs, {len(smaller)} smaller ones behind it"


def impatience(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield how long workloads took to get ready, where Kueue waits hardly longer."""
    configuration = case.snapshot.queue_configuration
    seconds = configuration.wait_for_pods_ready_seconds if configuration else None
    if not seconds:
        return
    starts = [(_start_seconds(w), f"{w.namespace}/{w.name}") for w in case.snapshot.queued_workloads]
    starts += [
        (integer(pod.annotation(names.RELOAD_SECONDS) or "") or 0, f"{pod.namespace}/{pod.name} (as annotated)")
        for pod in case.snapshot.pods
        if not pod.finished and case.membership.queue_of(pod)
    ]
    slow = sorted((start for start in starts if start[0] * _PATIENCE > seconds), reverse=True)
    if slow:
        severity = Severity.ERROR if slow[0][0] >= seconds else Severity.WARNING
        others = f"; {len(slow) - 1} more needed over half of that time" if len(slow) > 1 else ""
        message = f"Kueue waits {seconds} s until pods are ready; {slow[0][1]} needed {slow[0][0]} s{others}"
        about, field = "Configuration/kueue-manager-config", "waitForPodsReady.timeout"
        yield finding(FindingCode.READY_TIMEOUT_TOO_SHORT, severity, about, field, message)


def _start_seconds(workload: QueuedWorkload) -> int:
    """Return how long a workload took from admission until its pods were ready; 0 when that is not known."""
    try:
        admitted = datetime.fromisoformat(workload.admitted_at)
        ready = datetime.fromisoformat(workload.ready_at)
    except ValueError:
        return 0
    if (admitted.tzinfo is None) != (ready.tzinfo is None):
        return 0
    return max(0, int((ready - admitted).total_seconds()))


def namespaces_with_two_gates(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield ResourceQuotas on GPUs in namespaces whose pods Kueue gates already."""
    queues = {queue.name: queue for queue in case.snapshot.cluster_queues}
    doors: dict[str, list[str]] = {}
    for door in case.snapshot.local_queues:
        doors.setdefault(door.namespace, []).append(door.cluster_queue)
    for quota in case.snapshot.namespace_quotas:
        for key, hard in quota.hard:
            resource = key.removeprefix("requests.")
            used = [queues[name] for name in doors.get(quota.namespace, ()) if name in queues]
            most = [
                at.quota.nominal + (at.quota.borrowing_limit or 0)
                for queue in used
                for at in case.gpu_quotas(queue)
                if at.quota.resource == resource
            ]
            if most:
                severity = Severity.WARNING if hard <= sum(most) else Severity.INFO
                message = (
                    f"allows {hard} of {resource}, its queues have {sum(most)}; pods that Kueue holds back count too"
                )
                about = f"ResourceQuota/{quota.namespace}/{quota.name}"
                code = FindingCode.RESOURCE_QUOTA_DOUBLES
                yield finding(code, severity, about, f"spec.hard[{key}]", message)


def sets_that_cannot_scale(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield autoscalers of StatefulSets that have a queue."""
    queued = {
        (w.namespace, w.name)
        for w in case.snapshot.workloads
        if w.kind == "StatefulSet" and any(key == names.KUEUE_QUEUE for key, _ in w.labels)
    }
    for scaler in case.snapshot.autoscalers:
        if scaler.target_kind == "StatefulSet" and (scaler.namespace, scaler.target_name) in queued:
            message = f"scales StatefulSet {scaler.target_name} between {scaler.min_replicas} and {scaler.max_replicas}"
            about = f"{scaler.kind}/{scaler.namespace}/{scaler.name}"
            yield finding(FindingCode.SET_CANNOT_SCALE, Severity.ERROR, about, "spec.scaleTargetRef", message)


def namespaces_shut_out(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield LocalQueues in namespaces that their ClusterQueue does not let in."""
    labels = {namespace.name: dict(namespace.labels) for namespace in case.snapshot.namespaces}
    queues = {queue.name: queue for queue in case.snapshot.cluster_queues}
    for door in case.snapshot.local_queues:
        queue = queues.get(door.cluster_queue)
        selector = queue.namespace_selector if queue else None
        if queue is None or selector is None:
            continue
        known = labels.get(door.namespace, {}) | {_NAMESPACE_NAME: door.namespace}
        if door.namespace not in labels and not _by_name(selector):
            continue
        if not selects(selector, known):
            about = f"LocalQueue/{door.namespace}/{door.name}"
            message = f"ClusterQueue {queue.name} does not select namespace {door.namespace}"
            yield finding(FindingCode.NAMESPACE_SHUT_OUT, Severity.ERROR, about, "spec.clusterQueue", message)


def _by_name(selector: tuple[Requirement, ...]) -> bool:
    return all(requirement.key == _NAMESPACE_NAME for requirement in selector)


def queues_that_admit_nothing(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield queues that are stopped, or that Kueue calls inactive."""
    stops = [(called(queue), queue.stop_policy) for queue in case.snapshot.cluster_queues]
    stops += [(f"LocalQueue/{door.namespace}/{door.name}", door.stop_policy) for door in case.snapshot.local_queues]
    for about, policy in stops:
        if policy not in ("", "None"):
            message = f"stopPolicy is {policy}"
            yield finding(FindingCode.ADMISSION_STOPPED, Severity.WARNING, about, "spec.stopPolicy", message)
    for queue in case.snapshot.cluster_queues:
        if queue.active is False and queue.inactive_reason not in ("Stopped", "Terminating"):
            message = f"{queue.inactive_reason}: {queue.inactive_message}".strip(": ")
            yield finding(FindingCode.QUEUE_INACTIVE, Severity.ERROR, called(queue), "status.conditions", message)


def quotas_set_elsewhere(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield queues and cohorts whose effective quotas another controller sets."""
    for holder in case.holders:
        if holder.effective:
            parts = [
                f"{flavor.flavor} {quota.resource} {quota.nominal}"
                for flavor in holder.effective
                for quota in flavor.resources
            ]
            code = FindingCode.QUOTAS_SET_ELSEWHERE
            message = f"status.effectiveQuotas counts, not the spec: {listed(parts)}"
            yield finding(code, Severity.WARNING, called(holder), "status.effectiveQuotas", message)
