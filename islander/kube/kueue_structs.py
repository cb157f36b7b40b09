"""The fields of Kueue's objects that Islander uses, as they stand on the wire, and of what scales and limits beside it.

One struct serves v1beta1 and v1beta2; where a field was renamed, both names are there.

Source: sigs.k8s.io/kueue v0.17.0, apis/kueue/v1beta1 and v1beta2, apis/config/v1beta1 and v1beta2; `effectiveQuotas`:
kubernetes-sigs/kueue, keps/12382-dynamic-quota-orchestration (there still `effectiveQuota`).
"""

from __future__ import annotations

from islander.kube.api_structs import (
    Amounts,
    ApiStruct,
    Int64,
    LabelSelector,
    Metadata,
    NodeTaint,
    PodSpec,
    PodToleration,
    Texts,
)

Amount = str | int | float


class ResourceQuota(ApiStruct):
    """`resources[]` of a flavor's quotas."""

    name: str | None = None
    nominal_quota: Amount | None = None
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class FlavorQuotas(ApiStruct):
    """`flavors[]` of a resource group."""

    name: str | None = None
    resources: list[ResourceQuota] | None = None


class ResourceGroup(ApiStruct):
    """`spec.resourceGroups[]`."""

    covered_resources: list[str] | None = None
    flavors: list[FlavorQuotas] | None = None


class BorrowWithinCohort(ApiStruct):
    """`spec.preemption.borrowWithinCohort`."""

    policy: str | None = None


class Preemption(ApiStruct):
    """`spec.preemption`."""

    reclaim_within_cohort: str | None = None
    borrow_within_cohort: BorrowWithinCohort | None = None
    within_cluster_queue: str | None = None


class FlavorFungibility(ApiStruct):
    """`spec.flavorFungibility`."""

    when_can_borrow: str | None = None
    when_can_preempt: str | None = None
    preference: str | None = None


class FairSharing(ApiStruct):
    """`spec.fairSharing`."""

    weight: Amount | None = None


class CheckRule(ApiStruct):
    """`spec.admissionChecksStrategy.admissionChecks[]`."""

    name: str | None = None
    on_flavors: list[str] | None = None


class ChecksStrategy(ApiStruct):
    """`spec.admissionChecksStrategy`."""

    admission_checks: list[CheckRule] | None = None


class ClusterQueueSpec(ApiStruct):
    """`spec` of a ClusterQueue; `cohort` and `admission_checks` are v1beta1."""

    cohort: str | None = None
    cohort_name: str | None = None
    resource_groups: list[ResourceGroup] | None = None
    namespace_selector: LabelSelector | None = None
    queueing_strategy: str | None = None
    preemption: Preemption | None = None
    flavor_fungibility: FlavorFungibility | None = None
    fair_sharing: FairSharing | None = None
    stop_policy: str | None = None
    admission_checks: list[str] | None = None
    admission_checks_strategy: ChecksStrategy | None = None
    concurrent_admission_policy: ApiStruct | None = None


class ResourceUsage(ApiStruct):
    """`resources[]` of a flavor's usage."""

    name: str | None = None
    total: Amount | None = None
    borrowed: Amount | None = None


class FlavorUsage(ApiStruct):
    """`status.flavorsUsage[]` and `status.flavorsReservation[]`."""

    name: str | None = None
    resources: list[ResourceUsage] | None = None


class Condition(ApiStruct):
    """`status.conditions[]`."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class EffectiveQuotas(ApiStruct):
    """`status.effectiveQuotas`: what counts instead of the spec."""

    resource_groups: list[ResourceGroup] | None = None


class ClusterQueueStatus(ApiStruct):
    """`status` of a ClusterQueue."""

    conditions: list[Condition] | None = None
    flavors_reservation: list[FlavorUsage] | None = None
    flavors_usage: list[FlavorUsage] | None = None
    pending_workloads: Int64 | None = None
    reserving_workloads: Int64 | None = None
    admitted_workloads: Int64 | None = None
    effective_quota: EffectiveQuotas | None = None
    effective_quotas: EffectiveQuotas | None = None


class ClusterQueue(ApiStruct):
    """A ClusterQueue."""

    api_version: str | None = None
    metadata: Metadata | None = None
    spec: ClusterQueueSpec | None = None
    status: ClusterQueueStatus | None = None


class CohortSpec(ApiStruct):
    """`spec` of a Cohort; `parent` is v1alpha1."""

    parent: str | None = None
    parent_name: str | None = None
    resource_groups: list[ResourceGroup] | None = None
    fair_sharing: FairSharing | None = None


class CohortStatus(ApiStruct):
    """`status` of a Cohort."""

    effective_quota: EffectiveQuotas | None = None
    effective_quotas: EffectiveQuotas | None = None


class Cohort(ApiStruct):
    """A Cohort."""

    api_version: str | None = None
    metadata: Metadata | None = None
    spec: CohortSpec | None = None
    status: CohortStatus | None = None


class LocalQueueSpec(ApiStruct):
    """`spec` of a LocalQueue."""

    cluster_queue: str | None = None
    stop_policy: str | None = None
    fair_sharing: FairSharing | None = None


class LocalQueueStatus(ApiStruct):
    """`status` of a LocalQueue."""

    pending_workloads: Int64 | None = None


class LocalQueue(ApiStruct):
    """A LocalQueue."""

    api_version: str | None = None
    metadata: Metadata | None = None
    spec: LocalQueueSpec | None = None
    status: LocalQueueStatus | None = None


class ResourceFlavorSpec(ApiStruct):
    """`spec` of a ResourceFlavor."""

    node_labels: Texts | None = None
    node_taints: list[NodeTaint] | None = None
    tolerations: list[PodToleration] | None = None
    topology_name: str | None = None


class ResourceFlavor(ApiStruct):
    """A ResourceFlavor."""

    api_version: str | None = None
    metadata: Metadata | None = None
    spec: ResourceFlavorSpec | None = None


class TopologyLevel(ApiStruct):
    """`spec.levels[]` of a Topology."""

    node_label: str | None = None


class TopologySpec(ApiStruct):
    """`spec` of a Topology."""

    levels: list[TopologyLevel] | None = None


class Topology(ApiStruct):
    """A Topology."""

    api_version: str | None = None
    metadata: Metadata | None = None
    spec: TopologySpec | None = None


class TopologyRequest(ApiStruct):
    """`topologyRequest` of a pod set."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_set_slice_required_topology: str | None = None


class PodTemplate(ApiStruct):
    """`template` of a pod set."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None


class PodSet(ApiStruct):
    """`spec.podSets[]` of a Workload."""

    name: str | None = None
    count: Int64 | None = None
    template: PodTemplate | None = None
    topology_request: TopologyRequest | None = None


class WorkloadSpec(ApiStruct):
    """`spec` of a Workload."""

    pod_sets: list[PodSet] | None = None
    queue_name: str | None = None
    priority: Int64 | None = None
    active: bool | None = None


class PodSetAssignment(ApiStruct):
    """`status.admission.podSetAssignments[]`; `resource_usage` is of all its pods together."""

    name: str | None = None
    count: Int64 | None = None
    flavors: Texts | None = None
    resource_usage: Amounts | None = None


class Admission(ApiStruct):
    """`status.admission`."""

    cluster_queue: str | None = None
    pod_set_assignments: list[PodSetAssignment] | None = None


class PodSetRequest(ApiStruct):
    """`status.resourceRequests[]`: of all pods of a set, while it waits."""

    name: str | None = None
    resources: Amounts | None = None


class WorkloadStatus(ApiStruct):
    """`status` of a Workload."""

    conditions: list[Condition] | None = None
    admission: Admission | None = None
    resource_requests: list[PodSetRequest] | None = None


class Workload(ApiStruct):
    """A Workload of Kueue."""

    api_version: str | None = None
    metadata: Metadata | None = None
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class ScaleTarget(ApiStruct):
    """`spec.scaleTargetRef`."""

    kind: str | None = None
    name: str | None = None


class AutoscalerSpec(ApiStruct):
    """`spec` of a HorizontalPodAutoscaler, and, with the counts named otherwise, of a ScaledObject."""

    scale_target_ref: ScaleTarget | None = None
    min_replicas: Int64 | None = None
    max_replicas: Int64 | None = None
    min_replica_count: Int64 | None = None
    max_replica_count: Int64 | None = None


class Autoscaler(ApiStruct):
    """A HorizontalPodAutoscaler (autoscaling/v2, v1) or a ScaledObject (keda.sh/v1alpha1)."""

    metadata: Metadata | None = None
    spec: AutoscalerSpec | None = None


class NamespaceQuotaSpec(ApiStruct):
    """`spec` of a ResourceQuota."""

    hard: Amounts | None = None


class NamespaceQuota(ApiStruct):
    """v1 ResourceQuota."""

    metadata: Metadata | None = None
    spec: NamespaceQuotaSpec | None = None


class WaitForPodsReady(ApiStruct):
    """`waitForPodsReady`; `enable` is v1beta1, in v1beta2 the block itself switches it on."""

    enable: bool | None = None
    timeout: str | None = None


class Integrations(ApiStruct):
    """`integrations`."""

    frameworks: list[str] | None = None


class ConfiguredResources(ApiStruct):
    """`resources`."""

    exclude_resource_prefixes: list[str] | None = None


class ConfiguredFairSharing(ApiStruct):
    """`fairSharing`; `enable` is v1beta1."""

    enable: bool | None = None


class Configuration(ApiStruct):
    """Configuration of config.kueue.x-k8s.io."""

    api_version: str | None = None
    kind: str | None = None
    wait_for_pods_ready: WaitForPodsReady | None = None
    integrations: Integrations | None = None
    resources: ConfiguredResources | None = None
    fair_sharing: ConfiguredFairSharing | None = None


class ConfigMap(ApiStruct):
    """v1 ConfigMap."""

    metadata: Metadata | None = None
    data: Texts | None = None
