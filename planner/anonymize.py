"""A snapshot without names: the cluster for a bug report, on which everything is decided as on the original.

Nothing is passed on that is not known to name nobody: amounts, times, the vocabulary of Kubernetes and of the vendors.
Everything else is replaced by invented names, the same one everywhere (`planner.invented_names`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from islander.cluster import names
from islander.cluster.devices import ClaimedDevice, ResourceClaim, ResourceSlice
from islander.cluster.gpu_report import TOPOLOGY_MANAGER_POLICIES
from islander.cluster.node import GpuReport, MigDevice, Node, ReportedGpu
from islander.cluster.pod import (
    Container,
    HostPort,
    NodeTerm,
    Owner,
    Pod,
    PodSpec,
    PodTerm,
    SpreadConstraint,
)
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload
from planner import vocabulary
from planner.invented_names import invented_words
from planner.plain_command import with_plain_command
from planner.queue_renaming import QueueRenaming
from planner.renaming import LEFT_OUT, Renaming


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
    _SnapshotRenaming(Renaming(noted, numbers)).snapshot(snapshot)
    invented = invented_words(words)
    return _SnapshotRenaming(Renaming(invented.__getitem__, numbers)).snapshot(snapshot)


def _compared_as_numbers(snapshot: ClusterSnapshot) -> Iterable[str]:
    """Yield the node labels whose values some pod compares as numbers."""
    terms = [term for pod in snapshot.pods for term in pod.spec.node_terms or ()]
    terms += [term for volume in snapshot.volumes for term in volume.node_terms or ()]
    for term in terms:
        yield from (requirement.key for requirement in term.labels if requirement.operator in ("Gt", "Lt"))


class _SnapshotRenaming:
    """Replaces what names somebody, object by object."""

    def __init__(self, names: Renaming) -> None:
        self._names = names
        self._queues = QueueRenaming(names)
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
                Namespace(self._names.name(namespace.name), self._names.labels(namespace.labels))
                for namespace in snapshot.namespaces
            ),
            resource_slices=tuple(map(self._slice, snapshot.resource_slices)),
            resource_claims=tuple(map(self._resource_claim, snapshot.resource_claims)),
            claims=tuple(map(self._claim, snapshot.claims)),
            volumes=tuple(
                PersistentVolume(self._names.name(volume.name), self._node_terms(volume.node_terms), volume.local)
                for volume in snapshot.volumes
            ),
            cluster_queues=tuple(map(self._queues.cluster_queue, snapshot.cluster_queues)),
            cohorts=tuple(map(self._queues.cohort, snapshot.cohorts)),
            local_queues=tuple(map(self._queues.local_queue, snapshot.local_queues)),
            resource_flavors=tuple(map(self._queues.flavor, snapshot.resource_flavors)),
            queue_topologies=tuple(map(self._queues.queue_topology, snapshot.queue_topologies)),
            queued_workloads=tuple(map(self._queues.queued_workload, snapshot.queued_workloads)),
            autoscalers=tuple(map(self._queues.autoscaler, snapshot.autoscalers)),
            namespace_quotas=tuple(map(self._queues.namespace_quota, snapshot.namespace_quotas)),
            queue_configuration=self._queues.configuration(snapshot.queue_configuration),
            kinds=tuple(kind for kind in snapshot.kinds if kind in vocabulary.KINDS),
            demand_mix=snapshot.demand_mix,
            taken_at=self._names.time(snapshot.taken_at),
            warnings=tuple(left_out) if snapshot.warnings else (),
        )

    def _node(self, node: Node) -> Node:
        return Node(
            name=self._names.name(node.name),
            uid=self._names.whole(node.uid),
            labels=self._names.labels(node.labels),
            annotations=self._names.annotations(node.annotations),
            taints=tuple(map(self._names.taint, node.taints)),
            unschedulable=node.unschedulable,
            ready=node.ready,
            not_ready_reason=self._names.one_of(node.not_ready_reason, vocabulary.NOT_READY_REASONS),
            capacity=self._names.resources(node.capacity),
            allocatable=self._names.resources(node.allocatable),
            max_pods=node.max_pods,
            gpu_report=None if node.gpu_report is None else self._report(node.gpu_report),
            warnings=(LEFT_OUT,) * len(node.warnings),
            created=self._names.time(node.created),
        )

    def _report(self, report: GpuReport) -> GpuReport:
        return GpuReport(
            gpus=tuple(map(self._gpu, report.gpus)),
            links=vocabulary.link_table(report.links),
            plugin_links=vocabulary.link_table(report.plugin_links),
            topology_manager_policy=self._names.one_of(report.topology_manager_policy, TOPOLOGY_MANAGER_POLICIES),
        )

    def _gpu(self, gpu: ReportedGpu) -> ReportedGpu:
        return ReportedGpu(
            index=gpu.index,
            uuid=self._names.whole(gpu.uuid),
            numa=gpu.numa,
            healthy=gpu.healthy,
            pod=self._pod_key(gpu.pod),
            product=self._names.product(gpu.product),
            memory_mib=gpu.memory_mib,
            mig=tuple(
                MigDevice(self._names.like(d.profile, vocabulary.MIG_PROFILE), d.start, self._pod_key(d.pod))
                for d in gpu.mig
            ),
        )

    def _pod_key(self, key: str | None) -> str | None:
        return None if key is None else self._names.name(key)

    def _pod(self, pod: Pod) -> Pod:
        return Pod(
            namespace=self._names.name(pod.namespace),
            name=self._names.name(pod.name),
            uid=self._names.whole(pod.uid),
            spec=self._spec(pod.spec),
            node=self._names.name(pod.node),
            nominated_node=self._names.name(pod.nominated_node),
            phase=self._names.one_of(pod.phase, vocabulary.PHASES),
            ready=pod.ready,
            labels=self._names.labels(pod.labels),
            annotations=self._names.annotations(pod.annotations),
            owner=self._owner(pod.owner),
            created=self._names.time(pod.created),
            started=self._names.time(pod.started),
            deleted=self._names.time(pod.deleted),
            unschedulable_message=LEFT_OUT if pod.unschedulable_message else "",
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
            requests=self._names.resources(spec.requests),
            node_selector=self._names.labels(spec.node_selector),
            node_terms=self._node_terms(spec.node_terms),
            pod_affinity=tuple(map(self._pod_term, spec.pod_affinity)),
            pod_anti_affinity=tuple(map(self._pod_term, spec.pod_anti_affinity)),
            spread=tuple(
                SpreadConstraint(
                    self._names.key(s.topology_key), s.max_skew, self._names.selector(s.selector), s.min_domains
                )
                for s in spec.spread
            ),
            tolerations=tuple(map(self._names.toleration, spec.tolerations)),
            host_ports=tuple(
                HostPort(
                    port.port,
                    self._names.one_of(port.protocol, vocabulary.PROTOCOLS),
                    self._names.one_of(port.host_ip, vocabulary.EVERY_ADDRESS),
                )
                for port in spec.host_ports
            ),
            claims=tuple(map(self._names.name, spec.claims)),
            resource_claims=spec.resource_claims,
            priority=spec.priority,
            priority_class=self._names.name(spec.priority_class),
            preemption_policy=self._names.one_of(spec.preemption_policy, vocabulary.PREEMPTION_POLICIES),
            grace_seconds=spec.grace_seconds,
            scheduler_name=self._names.one_of(spec.scheduler_name, (PodSpec().scheduler_name,)),
            gated=spec.gated,
        )

    def _container(self, container: Container) -> Container:
        plain = with_plain_command(container, self._names.whole)
        return structs.replace(
            plain,
            name=self._names.name(plain.name),
            requests=self._names.resources(plain.requests),
            image=self._names.name(plain.image),
        )

    def _node_terms(self, terms: Sequence[NodeTerm] | None) -> tuple[NodeTerm, ...] | None:
        if terms is None:
            return None
        return tuple(
            NodeTerm(tuple(map(self._names.requirement, term.labels)), tuple(map(self._names.requirement, term.fields)))
            for term in terms
        )

    def _pod_term(self, term: PodTerm) -> PodTerm:
        return PodTerm(
            topology_key=self._names.key(term.topology_key),
            selector=self._names.selector(term.selector),
            namespaces=tuple(map(self._names.name, term.namespaces)),
            namespace_selector=self._names.selector(term.namespace_selector),
        )

    def _owner(self, owner: Owner | None) -> Owner | None:
        if owner is None:
            return None
        return Owner(
            self._names.one_of(owner.kind, vocabulary.OWNER_KINDS),
            self._names.name(owner.name),
            self._names.whole(owner.uid),
            self._names.api_version(owner.api_version),
        )

    def _workload(self, workload: Workload) -> Workload:
        return structs.replace(
            workload,
            kind=self._names.one_of(workload.kind, vocabulary.OWNER_KINDS),
            namespace=self._names.name(workload.namespace),
            name=self._names.name(workload.name),
            uid=self._names.whole(workload.uid),
            owner=self._owner(workload.owner),
            labels=self._names.labels(workload.labels),
        )

    def _budget(self, budget: DisruptionBudget) -> DisruptionBudget:
        return structs.replace(
            budget,
            namespace=self._names.name(budget.namespace),
            name=self._names.name(budget.name),
            selector=self._names.selector(budget.selector),
            min_available=self._names.like(budget.min_available, vocabulary.AMOUNT_OR_SHARE),
            max_unavailable=self._names.like(budget.max_unavailable, vocabulary.AMOUNT_OR_SHARE),
            unhealthy_pod_eviction_policy=self._names.one_of(
                budget.unhealthy_pod_eviction_policy, vocabulary.EVICTION_POLICIES
            ),
        )

    def _priority_class(self, found: PriorityClass) -> PriorityClass:
        return structs.replace(
            found,
            name=self._names.name(found.name),
            preemption_policy=self._names.one_of(found.preemption_policy, vocabulary.PREEMPTION_POLICIES),
        )

    def _slice(self, found: ResourceSlice) -> ResourceSlice:
        return structs.replace(
            found,
            name=self._names.name(found.name),
            driver=self._names.one_of(found.driver, names.DRA_DRIVERS.values()),
            node=self._names.name(found.node),
        )

    def _resource_claim(self, claim: ResourceClaim) -> ResourceClaim:
        return structs.replace(
            claim,
            namespace=self._names.name(claim.namespace),
            name=self._names.name(claim.name),
            node=self._names.name(claim.node),
            devices=tuple(
                ClaimedDevice(
                    self._names.one_of(device.driver, names.DRA_DRIVERS.values()),
                    self._names.name(device.pool),
                    self._names.like(device.device, vocabulary.DEVICE),
                )
                for device in claim.devices
            ),
            pods=tuple(map(self._names.name, claim.pods)),
        )

    def _claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return structs.replace(
            claim,
            namespace=self._names.name(claim.namespace),
            name=self._names.name(claim.name),
            volume=self._names.name(claim.volume),
            access_modes=tuple(self._names.one_of(mode, vocabulary.ACCESS_MODES) for mode in claim.access_modes),
        )
