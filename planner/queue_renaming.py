"""Invented names for Kueue's objects, and for what scales and limits pods beside them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from islander.cluster.queues import (
    Autoscaler,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    FlavorUsage,
    LocalQueue,
    NamespaceQuota,
    PodSet,
    QueueConfiguration,
    QueuedWorkload,
    QueueTopology,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from planner import vocabulary
from planner.renaming import LEFT_OUT, Renaming


class QueueRenaming:
    """Replaces what names somebody in the objects of Kueue."""

    def __init__(self, names: Renaming) -> None:
        self._names = names

    def _covered(self, resource: str) -> str:
        """Return a resource that a quota counts; those without a vendor are Kubernetes' own."""
        return resource if resource in vocabulary.PLAIN_RESOURCES else self._names.resource(resource)

    def _flavor_quotas(self, flavor: FlavorQuotas) -> FlavorQuotas:
        return FlavorQuotas(
            self._names.name(flavor.flavor),
            tuple(
                Quota(self._covered(q.resource), q.nominal, q.borrowing_limit, q.lending_limit)
                for q in flavor.resources
            ),
        )

    def _groups(self, groups: Iterable[ResourceGroup]) -> tuple[ResourceGroup, ...]:
        return tuple(
            ResourceGroup(
                tuple(map(self._covered, group.covered_resources)), tuple(map(self._flavor_quotas, group.flavors))
            )
            for group in groups
        )

    def _usage(self, usage: Iterable[FlavorUsage]) -> tuple[FlavorUsage, ...]:
        return tuple(
            FlavorUsage(self._names.name(u.flavor), self._covered(u.resource), u.total, u.borrowed) for u in usage
        )

    def _weight(self, text: str) -> str:
        return self._names.like(text, vocabulary.QUANTITY)

    def _word_of_kueue(self, text: str) -> str:
        return self._names.one_of(text, vocabulary.KUEUE_WORDS)

    def cluster_queue(self, queue: ClusterQueue) -> ClusterQueue:
        """Return a ClusterQueue; its manifest, which holds names, is left out."""
        return structs.replace(
            queue,
            name=self._names.name(queue.name),
            api_version=self._names.api_version(queue.api_version),
            cohort=self._names.name(queue.cohort),
            resource_groups=self._groups(queue.resource_groups),
            namespace_selector=self._names.selector(queue.namespace_selector),
            queueing_strategy=self._word_of_kueue(queue.queueing_strategy),
            preemption=structs.replace(
                queue.preemption,
                **{name: self._word_of_kueue(text) for name, text in structs.asdict(queue.preemption).items()},
            ),
            fungibility=structs.replace(
                queue.fungibility,
                **{name: self._word_of_kueue(text) for name, text in structs.asdict(queue.fungibility).items()},
            ),
            fair_weight=self._weight(queue.fair_weight),
            stop_policy=self._word_of_kueue(queue.stop_policy),
            admission_checks=tuple(
                (self._names.name(check), tuple(map(self._names.name, flavors)))
                for check, flavors in queue.admission_checks
            ),
            reservation=self._usage(queue.reservation),
            usage=self._usage(queue.usage),
            inactive_reason=self._word_of_kueue(queue.inactive_reason),
            inactive_message=LEFT_OUT if queue.inactive_message else "",
            effective=tuple(map(self._flavor_quotas, queue.effective)),
            manifest="",
        )

    def cohort(self, cohort: Cohort) -> Cohort:
        """Return a Cohort."""
        return structs.replace(
            cohort,
            name=self._names.name(cohort.name),
            api_version=self._names.api_version(cohort.api_version),
            parent=self._names.name(cohort.parent),
            resource_groups=self._groups(cohort.resource_groups),
            fair_weight=self._weight(cohort.fair_weight),
            effective=tuple(map(self._flavor_quotas, cohort.effective)),
            manifest="",
        )

    def local_queue(self, queue: LocalQueue) -> LocalQueue:
        """Return a LocalQueue."""
        return structs.replace(
            queue,
            namespace=self._names.name(queue.namespace),
            name=self._names.name(queue.name),
            api_version=self._names.api_version(queue.api_version),
            cluster_queue=self._names.name(queue.cluster_queue),
            stop_policy=self._word_of_kueue(queue.stop_policy),
            fair_weight=self._weight(queue.fair_weight),
            manifest="",
        )

    def flavor(self, flavor: ResourceFlavor) -> ResourceFlavor:
        """Return a ResourceFlavor."""
        return structs.replace(
            flavor,
            name=self._names.name(flavor.name),
            api_version=self._names.api_version(flavor.api_version),
            node_labels=self._names.labels(flavor.node_labels),
            node_taints=tuple(map(self._names.taint, flavor.node_taints)),
            tolerations=tuple(map(self._names.toleration, flavor.tolerations)),
            topology=self._names.name(flavor.topology),
            manifest="",
        )

    def queue_topology(self, topology: QueueTopology) -> QueueTopology:
        """Return a Topology."""
        return structs.replace(
            topology,
            name=self._names.name(topology.name),
            api_version=self._names.api_version(topology.api_version),
            levels=tuple(map(self._names.key, topology.levels)),
            manifest="",
        )

    def _pod_set(self, pods: PodSet) -> PodSet:
        way, blank, label = pods.topology_request.partition(" ")
        return structs.replace(
            pods,
            name=self._names.name(pods.name),
            requests=tuple(sorted((self._covered(resource), amount) for resource, amount in pods.requests)),
            flavors=tuple(
                sorted((self._covered(resource), self._names.name(flavor)) for resource, flavor in pods.flavors)
            ),
            topology_request=f"{self._word_of_kueue(way)}{blank}{self._names.key(label)}",
        )

    def queued_workload(self, workload: QueuedWorkload) -> QueuedWorkload:
        """Return a Workload."""
        return structs.replace(
            workload,
            namespace=self._names.name(workload.namespace),
            name=self._names.name(workload.name),
            api_version=self._names.api_version(workload.api_version),
            queue=self._names.name(workload.queue),
            pod_sets=tuple(map(self._pod_set, workload.pod_sets)),
            owners=tuple(
                (self._names.one_of(kind, vocabulary.OWNER_KINDS), self._names.name(name))
                for kind, name in workload.owners
            ),
            admitted_by=self._names.name(workload.admitted_by),
            pending_reason=self._word_of_kueue(workload.pending_reason),
            created=self._names.time(workload.created),
            admitted_at=self._names.time(workload.admitted_at),
            ready_at=self._names.time(workload.ready_at),
        )

    def autoscaler(self, autoscaler: Autoscaler) -> Autoscaler:
        """Return an autoscaler."""
        return structs.replace(
            autoscaler,
            kind=self._names.one_of(autoscaler.kind, vocabulary.OWNER_KINDS),
            namespace=self._names.name(autoscaler.namespace),
            name=self._names.name(autoscaler.name),
            target_kind=self._names.one_of(autoscaler.target_kind, vocabulary.OWNER_KINDS),
            target_name=self._names.name(autoscaler.target_name),
        )

    def namespace_quota(self, quota: NamespaceQuota) -> NamespaceQuota:
        """Return a ResourceQuota."""
        return structs.replace(
            quota,
            namespace=self._names.name(quota.namespace),
            name=self._names.name(quota.name),
            hard=tuple(sorted((self._quota_key(key), amount) for key, amount in quota.hard)),
        )

    def _quota_key(self, key: str) -> str:
        prefix = next((p for p in ("requests.", "limits.") if key.startswith(p)), "")
        return f"{prefix}{self._covered(key.removeprefix(prefix))}"

    def configuration(self, configuration: QueueConfiguration | None) -> QueueConfiguration | None:
        """Return what is kept of Kueue's configuration."""
        if configuration is None:
            return None
        return structs.replace(
            configuration,
            frameworks=tuple(
                sorted(self._names.one_of(f, vocabulary.KUEUE_FRAMEWORKS) for f in configuration.frameworks)
            ),
            excluded_prefixes=tuple(map(self._covered, configuration.excluded_prefixes)),
        )
