"""A snapshot without names: the cluster for a bug report, on which everything is decided as on the original.

Nothing is passed on that is not known to name nobody: amounts, times, the vocabulary of Kubernetes and of the vendors.
Everything else is replaced by invented names, the same one everywhere (`planner.invented_names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import structs

from islander.cluster import names
from islander.cluster.devices import ClaimedDevice, ResourceClaim, ResourceSlice
from islander.cluster.gpu_report import TOPOLOGY_MANAGER_POLICIES
from islander.cluster.node import GpuReport, MigDevice, Node, ReportedGpu, Taint
from islander.cluster.pod import (
    Container,
    HostPort,
    NodeTerm,
    Owner,
    Pod,
    PodSpec,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Toleration,
)
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
from islander.cluster.resources import Resources
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload
from islander.hardware.presets import preset
from islander.policy.selectors import integer
from planner import vocabulary
from planner.invented_names import Word, invented_words, renamed
from planner.plain_command import with_plain_command

Pairs = tuple[tuple[str, str], ...]

_LEFT_OUT = "a text is left out here: it may hold names"


def anonymized(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot with invented names; the same snapshot always gives the same one.

    Status, explanations and plans are those of the original up to names, with the same ones first where names decide
    between equals. Texts that people or programs wrote (warnings, the scheduler's messages) are left out, and commands
    say no more than what is read of them.
    """
    words: set[str] = set()

    def noted(word: str) -> str:
        words.add(word)
        return word

    numbers = frozenset(_compared_as_numbers(snapshot))
    _Renaming(noted, numbers).snapshot(snapshot)
    invented = invented_words(words)
    return _Renaming(invented.__getitem__, numbers).snapshot(snapshot)


def _compared_as_numbers(snapshot: ClusterSnapshot) -> Iterable[str]:
    """Yield the node labels whose values some pod compares as numbers."""
    terms = [term for pod in snapshot.pods for term in pod.spec.node_terms or ()]
    terms += [term for volume in snapshot.volumes for term in volume.node_terms or ()]
    for term in terms:
        yield from (requirement.key for requirement in term.labels if requirement.operator in ("Gt", "Lt"))


class _Renaming:
    """Replaces what names somebody, value by value."""

    def __init__(self, word: Word, numbers: frozenset[str]) -> None:
        self._word = word
        self._numbers = numbers
        self._specs: dict[int, PodSpec] = {}

    def snapshot(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        left_out = [f"{len(snapshot.warnings)} warnings of the original are left out: they may hold names"]
        return ClusterSnapshot(
            nodes=tuple(map(self._node, snapshot.nodes)),
            pods=tuple(map(self._pod, snapshot.pods)),
            workloads=tuple(map(self._workload, snapshot.workloads)),
            budgets=tuple(map(self._budget, snapshot.budgets)),
            priority_classes=tuple(map(self._priority_class, snapshot.priority_classes)),
            namespaces=tuple(
                Namespace(self._name(namespace.name), self._labels(namespace.labels))
                for namespace in snapshot.namespaces
            ),
            resource_slices=tuple(map(self._slice, snapshot.resource_slices)),
            resource_claims=tuple(map(self._resource_claim, snapshot.resource_claims)),
            claims=tuple(map(self._claim, snapshot.claims)),
            volumes=tuple(
                PersistentVolume(self._name(volume.name), self._node_terms(volume.node_terms), volume.local)
                for volume in snapshot.volumes
            ),
            cluster_queues=tuple(map(self._cluster_queue, snapshot.cluster_queues)),
            cohorts=tuple(map(self._cohort, snapshot.cohorts)),
            local_queues=tuple(map(self._local_queue, snapshot.local_queues)),
            resource_flavors=tuple(map(self._flavor, snapshot.resource_flavors)),
            queue_topologies=tuple(map(self._queue_topology, snapshot.queue_topologies)),
            queued_workloads=tuple(map(self._queued_workload, snapshot.queued_workloads)),
            autoscalers=tuple(map(self._autoscaler, snapshot.autoscalers)),
            namespace_quotas=tuple(map(self._namespace_quota, snapshot.namespace_quotas)),
            queue_configuration=self._configuration(snapshot.queue_configuration),
            kinds=tuple(kind for kind in snapshot.kinds if kind in vocabulary.KINDS),
            demand_mix=snapshot.demand_mix,
            taken_at=self._time(snapshot.taken_at),
            warnings=tuple(left_out) if snapshot.warnings else (),
        )

    def _name(self, text: str) -> str:
        return renamed(text, self._word)

    def _whole(self, text: str) -> str:
        return self._word(text) if text else ""

    def _one_of(self, text: str, known: Iterable[str]) -> str:
        return text if text in known else self._name(text)

    def _like(self, text: str, known: re.Pattern[str]) -> str:
        return text if known.fullmatch(text) else self._name(text)

    def _time(self, text: str) -> str:
        return self._like(text, vocabulary.TIME)

    def _key(self, text: str) -> str:
        return text if vocabulary.is_known_key(text) else self._name(text)

    def _label(self, key: str, text: str) -> str:
        if key in vocabulary.KEYS_OF_NAMES:
            return self._name(text)
        if text in vocabulary.BOOLEANS:
            return text
        if key in vocabulary.KEYS_OF_PRODUCTS:
            return self._product(text)
        if text in vocabulary.WORDS_OF_KEY.get(key, ()):
            return text
        if key in self._numbers and integer(text) is not None:
            return text
        return self._like(text, vocabulary.NUMBER) if vocabulary.is_key_of_amounts(key) else self._name(text)

    def _labels(self, labels: Pairs) -> Pairs:
        return tuple(sorted((self._key(key), self._label(key, text)) for key, text in labels))

    def _product(self, text: str) -> str:
        return vocabulary.product_text(text, self._name)

    def _annotations(self, annotations: Pairs) -> Pairs:
        return tuple((key, self._annotation(key, text)) for key, text in annotations if key in vocabulary.ANNOTATIONS)

    def _annotation(self, key: str, text: str) -> str:
        if key in names.KUEUE_TOPOLOGY_ANNOTATIONS:
            return text if text in vocabulary.BOOLEANS else self._key(text)
        if key == names.HARDWARE and preset(text) is not None:
            return text
        bare = text.strip()
        known = bare in vocabulary.WORDS_OF_KEY.get(key, vocabulary.BOOLEANS) or vocabulary.NUMBER.fullmatch(bare)
        return text if known else self._name(text)

    def _resources(self, resources: Resources) -> Resources:
        return structs.replace(
            resources, extended=tuple(sorted((self._resource(name), count) for name, count in resources.extended))
        )

    def _resource(self, name: str) -> str:
        if vocabulary.is_known_key(name):
            return name
        # Any resource with this word in its name counts as GPUs.
        return f"{self._name(name)}-gpu" if "gpu" in name else self._name(name)

    def _node(self, node: Node) -> Node:
        return Node(
            name=self._name(node.name),
            uid=self._whole(node.uid),
            labels=self._labels(node.labels),
            annotations=self._annotations(node.annotations),
            taints=tuple(map(self._taint, node.taints)),
            unschedulable=node.unschedulable,
            ready=node.ready,
            not_ready_reason=self._one_of(node.not_ready_reason, vocabulary.NOT_READY_REASONS),
            capacity=self._resources(node.capacity),
            allocatable=self._resources(node.allocatable),
            max_pods=node.max_pods,
            gpu_report=None if node.gpu_report is None else self._report(node.gpu_report),
            warnings=(_LEFT_OUT,) * len(node.warnings),
            created=self._time(node.created),
        )

    def _taint(self, taint: Taint) -> Taint:
        return Taint(self._key(taint.key), self._value(taint.value), self._one_of(taint.effect, vocabulary.EFFECTS))

    def _value(self, text: str) -> str:
        """Return the value of a taint or of its toleration."""
        return self._one_of(text, vocabulary.BOOLEANS)

    def _report(self, report: GpuReport) -> GpuReport:
        return GpuReport(
            gpus=tuple(map(self._gpu, report.gpus)),
            links=vocabulary.link_table(report.links),
            plugin_links=vocabulary.link_table(report.plugin_links),
            topology_manager_policy=self._one_of(report.topology_manager_policy, TOPOLOGY_MANAGER_POLICIES),
        )

    def _gpu(self, gpu: ReportedGpu) -> ReportedGpu:
        return ReportedGpu(
            index=gpu.index,
            uuid=self._whole(gpu.uuid),
            numa=gpu.numa,
            healthy=gpu.healthy,
            pod=self._pod_key(gpu.pod),
            product=self._product(gpu.product),
            memory_mib=gpu.memory_mib,
            mig=tuple(
                MigDevice(self._like(d.profile, vocabulary.MIG_PROFILE), d.start, self._pod_key(d.pod)) for d in gpu.mig
            ),
        )

    def _pod_key(self, key: str | None) -> str | None:
        return None if key is None else self._name(key)

    def _pod(self, pod: Pod) -> Pod:
        return Pod(
            namespace=self._name(pod.namespace),
            name=self._name(pod.name),
            uid=self._whole(pod.uid),
            spec=self._spec(pod.spec),
            node=self._name(pod.node),
            nominated_node=self._name(pod.nominated_node),
            phase=self._one_of(pod.phase, vocabulary.PHASES),
            ready=pod.ready,
            labels=self._labels(pod.labels),
            annotations=self._annotations(pod.annotations),
            owner=self._owner(pod.owner),
            created=self._time(pod.created),
            started=self._time(pod.started),
            deleted=self._time(pod.deleted),
            unschedulable_message=_LEFT_OUT if pod.unschedulable_message else "",
        )

    def _spec(self, spec: PodSpec) -> PodSpec:
        # Pods of one template share the object, and it lives as long as the snapshot.
        known = self._specs.get(id(spec))
        if known is None:
            known = self._specs[id(spec)] = self._new_spec(spec)
        return known

    def _new_spec(self, spec: PodSpec) -> PodSpec:
        return PodSpec(
            containers=tuple(map(self._container, spec.containers)),
            requests=self._resources(spec.requests),
            node_selector=self._labels(spec.node_selector),
            node_terms=self._node_terms(spec.node_terms),
            pod_affinity=tuple(map(self._pod_term, spec.pod_affinity)),
            pod_anti_affinity=tuple(map(self._pod_term, spec.pod_anti_affinity)),
            spread=tuple(
                SpreadConstraint(self._key(s.topology_key), s.max_skew, self._selector(s.selector), s.min_domains)
                for s in spec.spread
            ),
            tolerations=tuple(map(self._toleration, spec.tolerations)),
            host_ports=tuple(
                HostPort(
                    port.port,
                    self._one_of(port.protocol, vocabulary.PROTOCOLS),
                    self._one_of(port.host_ip, vocabulary.EVERY_ADDRESS),
                )
                for port in spec.host_ports
            ),
            claims=tuple(map(self._name, spec.claims)),
            resource_claims=spec.resource_claims,
            priority=spec.priority,
            priority_class=self._name(spec.priority_class),
            preemption_policy=self._one_of(spec.preemption_policy, vocabulary.PREEMPTION_POLICIES),
            grace_seconds=spec.grace_seconds,
            scheduler_name=self._one_of(spec.scheduler_name, (PodSpec().scheduler_name,)),
            gated=spec.gated,
        )

    def _container(self, container: Container) -> Container:
        plain = with_plain_command(container, self._whole)
        return structs.replace(
            plain,
            name=self._name(plain.name),
            requests=self._resources(plain.requests),
            image=self._name(plain.image),
        )

    def _toleration(self, toleration: Toleration) -> Toleration:
        return Toleration(
            self._key(toleration.key),
            self._one_of(toleration.operator, vocabulary.OPERATORS),
            self._value(toleration.value),
            self._one_of(toleration.effect, vocabulary.EFFECTS),
        )

    def _requirement(self, requirement: Requirement) -> Requirement:
        return Requirement(
            self._key(requirement.key),
            self._one_of(requirement.operator, vocabulary.OPERATORS),
            tuple(self._label(requirement.key, value) for value in requirement.values),
        )

    def _selector(self, selector: Sequence[Requirement] | None) -> tuple[Requirement, ...] | None:
        return None if selector is None else tuple(map(self._requirement, selector))

    def _node_terms(self, terms: Sequence[NodeTerm] | None) -> tuple[NodeTerm, ...] | None:
        if terms is None:
            return None
        return tuple(
            NodeTerm(tuple(map(self._requirement, term.labels)), tuple(map(self._requirement, term.fields)))
            for term in terms
        )

    def _pod_term(self, term: PodTerm) -> PodTerm:
        return PodTerm(
            topology_key=self._key(term.topology_key),
            selector=self._selector(term.selector),
            namespaces=tuple(map(self._name, term.namespaces)),
            namespace_selector=self._selector(term.namespace_selector),
        )

    def _owner(self, owner: Owner | None) -> Owner | None:
        if owner is None:
            return None
        return Owner(
            self._one_of(owner.kind, vocabulary.OWNER_KINDS),
            self._name(owner.name),
            self._whole(owner.uid),
            self._api_version(owner.api_version),
        )

    def _api_version(self, text: str) -> str:
        group, slash, version = text.rpartition("/")
        return f"{self._one_of(group, vocabulary.API_GROUPS)}{slash}{self._like(version, vocabulary.VERSION)}"

    def _workload(self, workload: Workload) -> Workload:
        return structs.replace(
            workload,
            kind=self._one_of(workload.kind, vocabulary.OWNER_KINDS),
            namespace=self._name(workload.namespace),
            name=self._name(workload.name),
            uid=self._whole(workload.uid),
            owner=self._owner(workload.owner),
            labels=self._labels(workload.labels),
        )

    def _budget(self, budget: DisruptionBudget) -> DisruptionBudget:
        return structs.replace(
            budget,
            namespace=self._name(budget.namespace),
            name=self._name(budget.name),
            selector=self._selector(budget.selector),
            min_available=self._like(budget.min_available, vocabulary.AMOUNT_OR_SHARE),
            max_unavailable=self._like(budget.max_unavailable, vocabulary.AMOUNT_OR_SHARE),
            unhealthy_pod_eviction_policy=self._one_of(
                budget.unhealthy_pod_eviction_policy, vocabulary.EVICTION_POLICIES
            ),
        )

    def _priority_class(self, found: PriorityClass) -> PriorityClass:
        return structs.replace(
            found,
            name=self._name(found.name),
            preemption_policy=self._one_of(found.preemption_policy, vocabulary.PREEMPTION_POLICIES),
        )

    def _slice(self, found: ResourceSlice) -> ResourceSlice:
        return structs.replace(
            found,
            name=self._name(found.name),
            driver=self._one_of(found.driver, names.DRA_DRIVERS.values()),
            node=self._name(found.node),
        )

    def _resource_claim(self, claim: ResourceClaim) -> ResourceClaim:
        return structs.replace(
            claim,
            namespace=self._name(claim.namespace),
            name=self._name(claim.name),
            node=self._name(claim.node),
            devices=tuple(
                ClaimedDevice(
                    self._one_of(device.driver, names.DRA_DRIVERS.values()),
                    self._name(device.pool),
                    self._like(device.device, vocabulary.DEVICE),
                )
                for device in claim.devices
            ),
            pods=tuple(map(self._name, claim.pods)),
        )

    def _claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return structs.replace(
            claim,
            namespace=self._name(claim.namespace),
            name=self._name(claim.name),
            volume=self._name(claim.volume),
            access_modes=tuple(self._one_of(mode, vocabulary.ACCESS_MODES) for mode in claim.access_modes),
        )

    def _covered(self, resource: str) -> str:
        """Return a resource that a quota counts; those without a vendor are Kubernetes' own."""
        return resource if resource in vocabulary.PLAIN_RESOURCES else self._resource(resource)

    def _flavor_quotas(self, flavor: FlavorQuotas) -> FlavorQuotas:
        return FlavorQuotas(
            self._name(flavor.flavor),
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
        return tuple(FlavorUsage(self._name(u.flavor), self._covered(u.resource), u.total, u.borrowed) for u in usage)

    def _weight(self, text: str) -> str:
        return self._like(text, vocabulary.QUANTITY)

    def _word_of_kueue(self, text: str) -> str:
        return self._one_of(text, vocabulary.KUEUE_WORDS)

    def _cluster_queue(self, queue: ClusterQueue) -> ClusterQueue:
        return structs.replace(
            queue,
            name=self._name(queue.name),
            api_version=self._api_version(queue.api_version),
            cohort=self._name(queue.cohort),
            resource_groups=self._groups(queue.resource_groups),
            namespace_selector=self._selector(queue.namespace_selector),
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
                (self._name(check), tuple(map(self._name, flavors))) for check, flavors in queue.admission_checks
            ),
            reservation=self._usage(queue.reservation),
            usage=self._usage(queue.usage),
            inactive_reason=self._word_of_kueue(queue.inactive_reason),
            inactive_message=_LEFT_OUT if queue.inactive_message else "",
            effective=tuple(map(self._flavor_quotas, queue.effective)),
            manifest="",
        )

    def _cohort(self, cohort: Cohort) -> Cohort:
        return structs.replace(
            cohort,
            name=self._name(cohort.name),
            api_version=self._api_version(cohort.api_version),
            parent=self._name(cohort.parent),
            resource_groups=self._groups(cohort.resource_groups),
            fair_weight=self._weight(cohort.fair_weight),
            effective=tuple(map(self._flavor_quotas, cohort.effective)),
            manifest="",
        )

    def _local_queue(self, queue: LocalQueue) -> LocalQueue:
        return structs.replace(
            queue,
            namespace=self._name(queue.namespace),
            name=self._name(queue.name),
            api_version=self._api_version(queue.api_version),
            cluster_queue=self._name(queue.cluster_queue),
            stop_policy=self._word_of_kueue(queue.stop_policy),
            fair_weight=self._weight(queue.fair_weight),
            manifest="",
        )

    def _flavor(self, flavor: ResourceFlavor) -> ResourceFlavor:
        return structs.replace(
            flavor,
            name=self._name(flavor.name),
            api_version=self._api_version(flavor.api_version),
            node_labels=self._labels(flavor.node_labels),
            node_taints=tuple(map(self._taint, flavor.node_taints)),
            tolerations=tuple(map(self._toleration, flavor.tolerations)),
            topology=self._name(flavor.topology),
            manifest="",
        )

    def _queue_topology(self, topology: QueueTopology) -> QueueTopology:
        return structs.replace(
            topology,
            name=self._name(topology.name),
            api_version=self._api_version(topology.api_version),
            levels=tuple(map(self._key, topology.levels)),
            manifest="",
        )

    def _pod_set(self, pods: PodSet) -> PodSet:
        way, blank, label = pods.topology_request.partition(" ")
        return structs.replace(
            pods,
            name=self._name(pods.name),
            requests=tuple(sorted((self._covered(resource), amount) for resource, amount in pods.requests)),
            flavors=tuple(sorted((self._covered(resource), self._name(flavor)) for resource, flavor in pods.flavors)),
            topology_request=f"{self._word_of_kueue(way)}{blank}{self._key(label)}",
        )

    def _queued_workload(self, workload: QueuedWorkload) -> QueuedWorkload:
        return structs.replace(
            workload,
            namespace=self._name(workload.namespace),
            name=self._name(workload.name),
            api_version=self._api_version(workload.api_version),
            queue=self._name(workload.queue),
            pod_sets=tuple(map(self._pod_set, workload.pod_sets)),
            owners=tuple(
                (self._one_of(kind, vocabulary.OWNER_KINDS), self._name(name)) for kind, name in workload.owners
            ),
            admitted_by=self._name(workload.admitted_by),
            pending_reason=self._word_of_kueue(workload.pending_reason),
            created=self._time(workload.created),
            admitted_at=self._time(workload.admitted_at),
            ready_at=self._time(workload.ready_at),
        )

    def _autoscaler(self, autoscaler: Autoscaler) -> Autoscaler:
        return structs.replace(
            autoscaler,
            kind=self._one_of(autoscaler.kind, vocabulary.OWNER_KINDS),
            namespace=self._name(autoscaler.namespace),
            name=self._name(autoscaler.name),
            target_kind=self._one_of(autoscaler.target_kind, vocabulary.OWNER_KINDS),
            target_name=self._name(autoscaler.target_name),
        )

    def _namespace_quota(self, quota: NamespaceQuota) -> NamespaceQuota:
        return structs.replace(
            quota,
            namespace=self._name(quota.namespace),
            name=self._name(quota.name),
            hard=tuple(sorted((self._quota_key(key), amount) for key, amount in quota.hard)),
        )

    def _quota_key(self, key: str) -> str:
        prefix = next((p for p in ("requests.", "limits.") if key.startswith(p)), "")
        return f"{prefix}{self._covered(key.removeprefix(prefix))}"

    def _configuration(self, configuration: QueueConfiguration | None) -> QueueConfiguration | None:
        if configuration is None:
            return None
        return structs.replace(
            configuration,
            frameworks=tuple(sorted(self._one_of(f, vocabulary.KUEUE_FRAMEWORKS) for f in configuration.frameworks)),
            excluded_prefixes=tuple(map(self._covered, configuration.excluded_prefixes)),
        )
