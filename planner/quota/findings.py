"""What is wrong with the quotas of a cluster today."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.quota.capacity import FlavorCapacity, capacities
from planner.quota.capacity_findings import (
    baselines_without_the_biggest_node,
    finding,
    flavors_that_overlap,
    flavors_that_say_too_little,
    gpus_held_outside,
    nodes_with_two_allocators,
    quota_above_capacity,
    quota_in_small_pieces,
    units_that_do_not_mix,
)
from planner.quota.finding_codes import CODE_OF_RULE, FINDINGS, FindingCode, QuotaFinding, Severity
from planner.quota.inspection import Inspection
from planner.quota.membership import Membership
from planner.quota.queue_findings import (
    baselines_on_loan,
    below_reservation,
    impatience,
    namespaces_shut_out,
    namespaces_with_two_gates,
    queues_that_admit_nothing,
    quota_below_reservation,
    quota_in_parts_of_replicas,
    quotas_set_elsewhere,
    sets_that_cannot_scale,
    who_waits_for_whom,
    workloads_above_quota,
)
from planner.quota.rules.objects import RuleViolation
from planner.quota.teams import QueueDemand
from planner.quota.validation import manifests_of, violations

__all__ = ["FINDINGS", "FindingCode", "QuotaFinding", "Severity", "below_reservation", "findings_of"]

_KUEUE = "kueue.x-k8s.io/"
_OLD_VERSIONS = ("v1beta1", "v1alpha1")


def findings_of(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    demands: Sequence[QueueDemand] = (),
    *,
    known_capacities: Sequence[FlavorCapacity] | None = None,
    membership: Membership | None = None,
    survive_nodes: int = 0,
) -> tuple[QuotaFinding, ...]:
    """Return everything that is wrong with the quotas as they are, errors first.

    Parameters
    ----------
    demands
        What the teams behind queues ask for; without it, nothing is said of baselines and islands.
    known_capacities
        Of the snapshot's flavors, when they have been counted before.
    """
    member = membership or Membership.of(snapshot)
    shapes = {replicas.shape for demand in demands for replicas in demand.replicas}
    counted = (
        capacities(snapshot, settings, survive_nodes, shapes, membership=member)
        if known_capacities is None
        else tuple(known_capacities)
    )
    case = Inspection(snapshot, settings, tuple(demands), counted, member, survive_nodes)
    order = list(Severity)
    found = dict.fromkeys(one for look in _LOOKS for one in look(case))
    return tuple(sorted(found, key=lambda one: (order.index(one.severity), one.code, one.object, one.field)))


def broken_rules(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield what breaks the rules V1 to V19, where the snapshot has the objects as they were written."""
    for broken in violations(manifests_of(case.snapshot), complete=case.snapshot.kinds):
        severity = Severity.WARNING if _is_accepted(broken) else Severity.ERROR
        message = f"{broken.rule}: {broken.message}"
        yield finding(CODE_OF_RULE[broken.rule], severity, broken.object, broken.field, message)


def _is_accepted(broken: RuleViolation) -> bool:
    """Return whether Kueue takes it, and then does less than was meant."""
    match broken.rule:
        case "V7":
            return broken.object.startswith("Cohort/")
        case "V16":
            return broken.field == "spec.namespaceSelector"
        case _:
            return broken.rule == "V8"


def old_versions(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield how many objects are written in a version that Kueue gives up."""
    snapshot = case.snapshot
    versions = Counter(("ClusterQueue", queue.api_version) for queue in snapshot.cluster_queues)
    versions.update(("Cohort", cohort.api_version) for cohort in snapshot.cohorts)
    versions.update(("LocalQueue", queue.api_version) for queue in snapshot.local_queues)
    versions.update(("ResourceFlavor", flavor.api_version) for flavor in snapshot.resource_flavors)
    versions.update(("Topology", topology.api_version) for topology in snapshot.queue_topologies)
    for old in _OLD_VERSIONS:
        counts = {kind: n for (kind, version), n in sorted(versions.items()) if version == f"{_KUEUE}{old}"}
        if counts:
            message = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            yield finding(FindingCode.OLD_API_VERSION, Severity.INFO, f"{_KUEUE}{old}", "apiVersion", message)


_LOOKS: tuple[Callable[[Inspection], Iterator[QuotaFinding]], ...] = (
    broken_rules,
    old_versions,
    quota_above_capacity,
    quota_in_small_pieces,
    baselines_without_the_biggest_node,
    gpus_held_outside,
    flavors_that_say_too_little,
    flavors_that_overlap,
    units_that_do_not_mix,
    nodes_with_two_allocators,
    quota_in_parts_of_replicas,
    workloads_above_quota,
    baselines_on_loan,
    quota_below_reservation,
    who_waits_for_whom,
    impatience,
    namespaces_with_two_gates,
    sets_that_cannot_scale,
    namespaces_shut_out,
    queues_that_admit_nothing,
    quotas_set_elsewhere,
)
