"""The fields of Kubernetes API objects that Islander uses, as they stand on the wire.

Every field may be missing or null, as the API server and old dumps leave them; everything else of an object is skipped
while it is decoded, so that a megabyte of image names costs no memory.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

# As in the API's own types; larger numbers could be written in JSON, but not be read back by others.
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Amounts = dict[str, str | int | float | None]
Texts = dict[str, str | None]


class ApiStruct(Struct, rename="camel", omit_defaults=True):
    """Common configuration of the structs of this module."""


class TypeMeta(ApiStruct):
    """What kind of object a document is."""

    api_version: str | None = None
    kind: str | None = None


class OwnerReference(ApiStruct):
    """`metadata.ownerReferences[]`."""

    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    api_version: str | None = None
    controller: bool | None = None


class Metadata(ApiStruct):
    """`metadata`."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: Texts | None = None
    annotations: Texts | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Expression(ApiStruct):
    """A requirement of a label selector or a node selector."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelector(ApiStruct):
    """`matchLabels` and `matchExpressions`."""

    match_labels: Texts | None = None
    match_expressions: list[Expression] | None = None


class ResourceRequirements(ApiStruct):
    """`resources` of a container or a pod."""

    requests: Amounts | None = None
    limits: Amounts | None = None
    claims: list[ApiStruct] | None = None


class EnvVar(ApiStruct):
    """`env[]` of a container, literal values only."""

    name: str | None = None
    value: str | None = None


class ContainerPort(ApiStruct):
    """`ports[]` of a container."""

    container_port: Int64 | None = None
    host_port: Int64 | None = None
    protocol: str | None = None
    host_ip: str | None = None


class PodContainer(ApiStruct):
    """`spec.containers[]` and `spec.initContainers[]`."""

    name: str | None = None
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class NodeSelectorTerm(ApiStruct):
    """`nodeSelectorTerms[]`."""

    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(ApiStruct):
    """`requiredDuringSchedulingIgnoredDuringExecution` of node affinity."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(ApiStruct):
    """`spec.affinity.nodeAffinity`."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class PodAffinityTerm(ApiStruct):
    """A required term of pod affinity or anti-affinity."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str | None = None


class PodAffinity(ApiStruct):
    """`spec.affinity.podAffinity` and `spec.affinity.podAntiAffinity`."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None


class Affinity(ApiStruct):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(ApiStruct):
    """`spec.topologySpreadConstraints[]`."""

    topology_key: str | None = None
    max_skew: Int64 | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    min_domains: Int64 | None = None


class PodToleration(ApiStruct):
    """`spec.tolerations[]`."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class ClaimSource(ApiStruct):
    """`persistentVolumeClaim` of a volume."""

    claim_name: str | None = None


class Volume(ApiStruct):
    """`spec.volumes[]`."""

    name: str | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: ApiStruct | None = None


class PodSpec(ApiStruct):
    """`spec` of a pod."""

    node_name: str | None = None
    containers: list[PodContainer] | None = None
    init_containers: list[PodContainer] | None = None
    resources: ResourceRequirements | None = None
    overhead: Amounts | None = None
    node_selector: Texts | None = None
    affinity: Affinity | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    tolerations: list[PodToleration] | None = None
    host_network: bool | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[ApiStruct] | None = None
    priority: Int64 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    termination_grace_period_seconds: Int64 | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[ApiStruct] | None = None


class Condition(ApiStruct):
    """`status.conditions[]`."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class PodStatus(ApiStruct):
    """`status` of a pod."""

    phase: str | None = None
    conditions: list[Condition] | None = None
    nominated_node_name: str | None = None
    start_time: str | None = None


class Pod(ApiStruct):
    """v1 Pod."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class NodeTaint(ApiStruct):
    """`spec.taints[]`."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(ApiStruct):
    """`spec` of a node."""

    taints: list[NodeTaint] | None = None
    unschedulable: bool | None = None


class NodeStatus(ApiStruct):
    """`status` of a node."""

    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    conditions: list[Condition] | None = None


class Node(ApiStruct):
    """v1 Node."""

    metadata: Metadata | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class GroupTemplate(ApiStruct):
    """`spec.leaderWorkerTemplate` of a LeaderWorkerSet."""

    size: Int64 | None = None


class WorkloadSpec(ApiStruct):
    """`spec` of any controller of pods."""

    replicas: Int64 | None = None
    parallelism: Int64 | None = None
    leader_worker_template: GroupTemplate | None = None


class WorkloadStatus(ApiStruct):
    """`status` of any controller of pods."""

    ready_replicas: Int64 | None = None
    ready: Int64 | None = None
    number_ready: Int64 | None = None
    desired_number_scheduled: Int64 | None = None


class Workload(ApiStruct):
    """Any controller of pods."""

    metadata: Metadata | None = None
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class BudgetSpec(ApiStruct):
    """`spec` of a PodDisruptionBudget."""

    selector: LabelSelector | None = None
    min_available: Int64 | str | None = None
    max_unavailable: Int64 | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(ApiStruct):
    """`status` of a PodDisruptionBudget."""

    disruptions_allowed: Int64 | None = None
    current_healthy: Int64 | None = None
    desired_healthy: Int64 | None = None


class PodDisruptionBudget(ApiStruct):
    """policy/v1 PodDisruptionBudget."""

    metadata: Metadata | None = None
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


class PriorityClass(ApiStruct):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: Metadata | None = None
    value: Int64 | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


class Namespace(ApiStruct):
    """v1 Namespace."""

    metadata: Metadata | None = None


class ResourceSliceSpec(ApiStruct):
    """`spec` of a ResourceSlice; of the devices only their number is used."""

    driver: str | None = None
    node_name: str | None = None
    devices: list[ApiStruct] | None = None


class ResourceSlice(ApiStruct):
    """resource.k8s.io/v1 ResourceSlice."""

    metadata: Metadata | None = None
    spec: ResourceSliceSpec | None = None


class AllocatedDevice(ApiStruct):
    """`status.allocation.devices.results[]` of a ResourceClaim."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    admin_access: bool | None = None


class AllocatedDevices(ApiStruct):
    """`status.allocation.devices` of a ResourceClaim."""

    results: list[AllocatedDevice] | None = None


class Allocation(ApiStruct):
    """`status.allocation` of a ResourceClaim."""

    devices: AllocatedDevices | None = None
    node_selector: NodeSelector | None = None


class ClaimUser(ApiStruct):
    """`status.reservedFor[]` of a ResourceClaim."""

    resource: str | None = None
    name: str | None = None


class ResourceClaimStatus(ApiStruct):
    """`status` of a ResourceClaim."""

    allocation: Allocation | None = None
    reserved_for: list[ClaimUser] | None = None


class ResourceClaim(ApiStruct):
    """resource.k8s.io/v1 ResourceClaim."""

    metadata: Metadata | None = None
    status: ResourceClaimStatus | None = None


class ClaimSpec(ApiStruct):
    """`spec` of a PersistentVolumeClaim."""

    volume_name: str | None = None
    access_modes: list[str] | None = None


class PersistentVolumeClaim(ApiStruct):
    """v1 PersistentVolumeClaim."""

    metadata: Metadata | None = None
    spec: ClaimSpec | None = None


class VolumeNodeAffinity(ApiStruct):
    """`spec.nodeAffinity` of a PersistentVolume."""

    required: NodeSelector | None = None


class VolumeSpec(ApiStruct):
    """`spec` of a PersistentVolume; of its source only whether it is a disk of one node."""

    node_affinity: VolumeNodeAffinity | None = None
    local: ApiStruct | None = None
    host_path: ApiStruct | None = None


class PersistentVolume(ApiStruct):
    """v1 PersistentVolume."""

    metadata: Metadata | None = None
    spec: VolumeSpec | None = None
