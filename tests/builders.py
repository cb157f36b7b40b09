"""Builders of cluster values and API objects: a test names what matters to it, the rest is a usual cluster.

`a_node`, `a_pod`, `a_snapshot` build domain values; `node_object`, `pod_object` build what the Kubernetes API returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from islander.cluster import names
from islander.cluster.devices import ClaimedDevice, ResourceClaim, ResourceSlice
from islander.cluster.node import GpuReport, Node, ReportedGpu, Taint
from islander.cluster.pod import Container, ContainerKind, NodeTerm, Owner, Pod, PodSpec, Requirement, Toleration
from islander.cluster.queues import (
    Autoscaler,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    LocalQueue,
    NamespaceQuota,
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
from islander.hardware.mig import resource_name

GIB = 2**30
H100 = "NVIDIA-H100-80GB-HBM3"

Labels = Mapping[str, str]
ClusterObject = (
    Node
    | Pod
    | Workload
    | DisruptionBudget
    | PriorityClass
    | Namespace
    | ResourceSlice
    | ResourceClaim
    | PersistentVolumeClaim
    | PersistentVolume
    | ClusterQueue
    | Cohort
    | LocalQueue
    | ResourceFlavor
    | QueueTopology
    | QueuedWorkload
    | Autoscaler
    | NamespaceQuota
    | QueueConfiguration
)
T = TypeVar("T")


def sorted_pairs(values: Labels) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(values.items()))


def resources(
    cpu: float = 0,
    memory_gib: float = 0,
    gpus: int = 0,
    *,
    gpu_resource: str = names.NVIDIA_GPU,
    others: Mapping[str, int] | None = None,
) -> Resources:
    """Amounts of `cpu` cores, `memory_gib` GiB, `gpus` devices, and of other extended resources."""
    counts = {gpu_resource: gpus, **(others or {})}
    return Resources(
        cpu_milli=round(cpu * 1000),
        memory_bytes=round(memory_gib * GIB),
        extended=tuple(sorted((name, count) for name, count in counts.items() if count)),
    )


def a_node(
    name: str = "n1",
    *,
    gpus: int = 8,
    allocatable: int | None = None,
    product: str | None = H100,
    memory_mib: int = 81559,
    hardware: str | None = None,
    labels: Labels | None = None,
    taints: Sequence[Taint] = (),
    unschedulable: bool = False,
    ready: bool = True,
    report: GpuReport | None = None,
    gpu_resource: str = names.NVIDIA_GPU,
    mig: Mapping[str, int] | None = None,
    cpu: float = 192,
    memory_gib: float = 2048,
    max_pods: int = 110,
    warnings: Sequence[str] = (),
) -> Node:
    """A ready node with `gpus` GPUs of `product`; `allocatable` is fewer when some are withdrawn.

    `product` None leaves the labels of GPU feature discovery out; `hardware` sets the annotation with that preset;
    `mig` is the instances by profile that it offers beside the GPUs, as strategy `mixed` does.
    """
    instances = {resource_name(profile): count for profile, count in (mig or {}).items()}
    all_labels = {names.HOSTNAME: name}
    if product is not None and gpus:
        all_labels |= {
            names.GPU_PRESENT: "true",
            names.GPU_PRODUCT: product,
            names.GPU_COUNT: str(gpus),
            names.GPU_MEMORY: str(memory_mib),
        }
    all_labels |= labels or {}
    offered = gpus if allocatable is None else allocatable
    return Node(
        name=name,
        uid=f"uid-{name}",
        labels=sorted_pairs(all_labels),
        annotations=((names.HARDWARE, hardware),) if hardware is not None else (),
        taints=tuple(taints),
        unschedulable=unschedulable,
        ready=ready,
        not_ready_reason="" if ready else "KubeletNotReady",
        capacity=resources(cpu, memory_gib, gpus, gpu_resource=gpu_resource, others=instances),
        allocatable=resources(cpu, memory_gib, offered, gpu_resource=gpu_resource, others=instances),
        max_pods=max_pods,
        gpu_report=report,
        warnings=tuple(warnings),
    )


def a_report(
    gpus: int = 8,
    *,
    used: Mapping[int, str] | None = None,
    sick: Iterable[int] = (),
    links: Sequence[Sequence[str]] = (),
    plugin_links: Sequence[Sequence[str]] = (),
    numa: Sequence[int | None] = (),
    topology_manager_policy: str = "",
) -> GpuReport:
    """A node's report of its GPUs; `used` maps a GPU index to the `namespace/name` of its pod."""
    users = used or {}
    unhealthy = set(sick)
    return GpuReport(
        gpus=tuple(
            ReportedGpu(
                index=i,
                uuid=f"GPU-{i}",
                numa=numa[i] if i < len(numa) else None,
                healthy=i not in unhealthy,
                pod=users.get(i),
            )
            for i in range(gpus)
        ),
        links=tuple(tuple(row) for row in links),
        plugin_links=tuple(tuple(row) for row in plugin_links),
        topology_manager_policy=topology_manager_policy,
    )


def a_container(
    name: str = "vllm",
    *,
    gpus: int = 0,
    tp: int | None = None,
    argv: Sequence[str] = (),
    env: Labels | None = None,
    kind: ContainerKind = ContainerKind.APP,
    cpu: float = 0,
    memory_gib: float = 0,
    gpu_resource: str = names.NVIDIA_GPU,
    image: str = "",
) -> Container:
    """A container; with `tp` it runs `vllm serve` with that tensor parallel size."""
    words = tuple(argv)
    if tp is not None:
        words = words or ("vllm", "serve", "some/model")
        words = (*words, "--tensor-parallel-size", str(tp))
    return Container(
        name=name,
        kind=kind,
        requests=resources(cpu, memory_gib, gpus, gpu_resource=gpu_resource),
        argv=words,
        env=sorted_pairs(env or {}),
        image=image,
    )


def a_pod(
    name: str = "p1",
    *,
    gpus: int = 1,
    tp: int | None = None,
    node: str = "",
    namespace: str = "default",
    phase: str | None = None,
    ready: bool | None = None,
    topology: str | None = None,
    priority: int = 0,
    owner: Owner | None = None,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    containers: Sequence[Container] | None = None,
    node_selector: Labels | None = None,
    tolerations: Sequence[Toleration] = (),
    gpu_resource: str = names.NVIDIA_GPU,
    cpu: float = 1,
    memory_gib: float = 1,
    deleted: str = "",
    nominated_node: str = "",
    created: str = "2026-01-01T00:00:00Z",
    grace_seconds: int = 30,
    **spec: Any,
) -> Pod:
    """A pod with one container of `gpus` GPUs; Running when `node` is given, else Pending.

    `tp` adds vLLM's flag; `topology` sets the annotation; `containers` replaces the one container (the pod's request
    is then the sum of the apps). Further keywords are fields of `PodSpec`.
    """
    if containers is None:
        containers = (a_container(gpus=gpus, tp=tp, cpu=cpu, memory_gib=memory_gib, gpu_resource=gpu_resource),)
    total = Resources()
    for container in containers:
        total = total.plus(container.requests)
    kept = dict(annotations or {})
    if topology is not None:
        kept[names.TOPOLOGY] = topology
    running = bool(node) if phase is None else phase == "Running"
    return Pod(
        namespace=namespace,
        name=name,
        uid=f"uid-{namespace}-{name}",
        spec=PodSpec(
            containers=tuple(containers),
            requests=spec.pop("requests", total),
            node_selector=sorted_pairs(node_selector or {}),
            tolerations=tuple(tolerations),
            priority=priority,
            grace_seconds=grace_seconds,
            **spec,
        ),
        node=node,
        nominated_node=nominated_node,
        phase=phase if phase is not None else ("Running" if node else "Pending"),
        ready=running if ready is None else ready,
        labels=sorted_pairs(labels or {}),
        annotations=sorted_pairs(kept),
        owner=owner,
        created=created,
        started=created if running else "",
        deleted=deleted,
    )


def a_workload(
    name: str = "w1",
    *,
    kind: str = "ReplicaSet",
    namespace: str = "default",
    replicas: int | None = 1,
    ready_replicas: int | None = None,
    group_size: int = 1,
    owner: Owner | None = None,
    labels: Labels | None = None,
) -> Workload:
    """A controller of pods; all its replicas are ready unless `ready_replicas` says otherwise."""
    return Workload(
        kind=kind,
        namespace=namespace,
        name=name,
        uid=f"uid-{kind}-{namespace}-{name}",
        replicas=replicas,
        ready_replicas=(replicas or 0) if ready_replicas is None else ready_replicas,
        group_size=group_size,
        owner=owner,
        labels=sorted_pairs(labels or {}),
    )


def a_resource_slice(
    node: str = "n1", *, devices: int = 8, driver: str = "gpu.nvidia.com", name: str = ""
) -> ResourceSlice:
    """The devices that a driver of dynamic resource allocation publishes for one node."""
    return ResourceSlice(name or f"{node}-{driver}", driver, node, devices)


def a_resource_claim(
    *devices: str, node: str = "n1", name: str = "gpus", namespace: str = "default", pods: Sequence[str] = ("p1",)
) -> ResourceClaim:
    """A claim that holds these devices of a node for pods."""
    held = tuple(ClaimedDevice("gpu.nvidia.com", node, device) for device in devices)
    return ResourceClaim(namespace, name, node if held else "", held, tuple(pods))


def a_budget(
    name: str = "b1",
    *,
    namespace: str = "default",
    labels: Labels | None = None,
    allowed: int = 1,
    **fields: Any,
) -> DisruptionBudget:
    """A budget over the pods with `labels` (every pod of the namespace when not given)."""
    selector = tuple(Requirement(key, "In", (value,)) for key, value in sorted((labels or {}).items()))
    return DisruptionBudget(namespace, name, selector, disruptions_allowed=allowed, **fields)


def a_claim(
    name: str = "data", *, volume: str = "", namespace: str = "default", mode: str = "ReadWriteOnce"
) -> PersistentVolumeClaim:
    """A claim bound to `volume`, or one that waits for its first pod."""
    return PersistentVolumeClaim(namespace, name, volume, (mode,))


def a_volume(name: str = "pv1", *, local: bool = False, **labels: str) -> PersistentVolume:
    """A volume reached from the nodes with these labels, `zone` and `hostname` standing for the well-known keys."""
    keys = {"zone": names.ZONE, "hostname": names.HOSTNAME}
    term = NodeTerm(tuple(Requirement(keys.get(key, key), "In", (value,)) for key, value in sorted(labels.items())))
    return PersistentVolume(name, (term,) if labels else None, local)


def quotas(flavor: str, gpus: int, *, borrow: int | None = None, lend: int | None = None) -> FlavorQuotas:
    """Quotas of a flavor for whole GPUs."""
    return FlavorQuotas(flavor, (Quota(names.NVIDIA_GPU, gpus, borrow, lend),))


def a_cluster_queue(
    name: str = "team",
    *flavors: FlavorQuotas,
    cohort: str = "",
    namespaces: Sequence[str] | None = (),
    **fields: Any,
) -> ClusterQueue:
    """A ClusterQueue over GPUs; `namespaces` may use it (nobody for None, everybody when empty)."""
    selector = None
    if namespaces is not None:
        selector = (Requirement("kubernetes.io/metadata.name", "In", tuple(namespaces)),) if namespaces else ()
    covered = tuple(quota.resource for quota in flavors[0].resources) if flavors else ()
    groups = (ResourceGroup(covered, flavors),) if flavors else ()
    return ClusterQueue(
        name,
        api_version="kueue.x-k8s.io/v1beta2",
        cohort=cohort,
        resource_groups=groups,
        namespace_selector=selector,
        **fields,
    )


def a_flavor(name: str = "h100", *, labels: Labels | None = None, **fields: Any) -> ResourceFlavor:
    """A ResourceFlavor over the nodes with these labels."""
    return ResourceFlavor(name, "kueue.x-k8s.io/v1beta2", sorted_pairs(labels or {}), **fields)


def owned_by(workload: Workload) -> Owner:
    """The owner reference of a pod (or workload) that `workload` controls."""
    api_versions = {"Job": "batch/v1", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}
    return Owner(workload.kind, workload.name, workload.uid, api_versions.get(workload.kind, "apps/v1"))


def a_snapshot(
    *objects: ClusterObject,
    kinds: Sequence[str] | None = None,
    taken_at: str = "2026-01-01T00:00:00Z",
    warnings: Sequence[str] = (),
) -> ClusterSnapshot:
    """A snapshot of `objects` in any order; the kinds looked at are those given, plus nodes and pods."""

    def of(kind: type[T]) -> list[T]:
        return [o for o in objects if isinstance(o, kind)]

    workloads = of(Workload)
    called = {
        DisruptionBudget: "PodDisruptionBudget",
        QueueTopology: "Topology",
        QueuedWorkload: "Workload",
        NamespaceQuota: "ResourceQuota",
        QueueConfiguration: "Configuration",
    }
    seen = {"Node", "Pod"} | {
        o.kind if isinstance(o, Workload | Autoscaler) else called.get(type(o), type(o).__name__) for o in objects
    }
    return ClusterSnapshot(
        nodes=tuple(sorted(of(Node), key=lambda n: n.name)),
        pods=tuple(sorted(of(Pod), key=lambda p: (p.namespace, p.name))),
        workloads=tuple(sorted(workloads, key=lambda w: (w.kind, w.namespace, w.name))),
        budgets=tuple(sorted(of(DisruptionBudget), key=lambda b: (b.namespace, b.name))),
        priority_classes=tuple(sorted(of(PriorityClass), key=lambda c: c.name)),
        namespaces=tuple(sorted(of(Namespace), key=lambda n: n.name)),
        resource_slices=tuple(sorted(of(ResourceSlice), key=lambda s: s.name)),
        resource_claims=tuple(sorted(of(ResourceClaim), key=lambda c: (c.namespace, c.name))),
        claims=tuple(sorted(of(PersistentVolumeClaim), key=lambda c: (c.namespace, c.name))),
        volumes=tuple(sorted(of(PersistentVolume), key=lambda v: v.name)),
        cluster_queues=tuple(sorted(of(ClusterQueue), key=lambda q: q.name)),
        cohorts=tuple(sorted(of(Cohort), key=lambda c: c.name)),
        local_queues=tuple(sorted(of(LocalQueue), key=lambda q: (q.namespace, q.name))),
        resource_flavors=tuple(sorted(of(ResourceFlavor), key=lambda f: f.name)),
        queue_topologies=tuple(sorted(of(QueueTopology), key=lambda t: t.name)),
        queued_workloads=tuple(sorted(of(QueuedWorkload), key=lambda w: (w.namespace, w.name))),
        autoscalers=tuple(sorted(of(Autoscaler), key=lambda a: (a.kind, a.namespace, a.name))),
        namespace_quotas=tuple(sorted(of(NamespaceQuota), key=lambda q: (q.namespace, q.name))),
        queue_configuration=next(iter(of(QueueConfiguration)), None),
        kinds=tuple(sorted(seen if kinds is None else kinds)),
        taken_at=taken_at,
        warnings=tuple(warnings),
    )


def node_object(
    name: str = "n1",
    *,
    gpus: int = 8,
    allocatable: int | None = None,
    product: str | None = H100,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    ready: bool = True,
) -> dict[str, Any]:
    """A Node as the API returns it."""
    all_labels = {names.HOSTNAME: name}
    if product is not None and gpus:
        all_labels |= {names.GPU_PRESENT: "true", names.GPU_PRODUCT: product, names.GPU_COUNT: str(gpus)}
    all_labels |= labels or {}
    amounts = {"cpu": "192", "memory": "2113396Mi", "ephemeral-storage": "900Gi", "pods": "110"}
    offered = gpus if allocatable is None else allocatable
    spec: dict[str, Any] = {"podCIDR": "10.0.0.0/24"}
    if taints:
        spec["taints"] = [dict(t) for t in taints]
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": all_labels,
            "annotations": dict(annotations or {}),
        },
        "spec": spec,
        "status": {
            "capacity": amounts | ({names.NVIDIA_GPU: str(gpus)} if gpus else {}),
            "allocatable": amounts | ({names.NVIDIA_GPU: str(offered)} if gpus else {}),
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "reason": "KubeletReady" if ready else "KubeletNotReady",
                },
            ],
        },
    }


def container_object(
    name: str = "vllm",
    *,
    gpus: int | str | None = None,
    requests: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A container as the API returns it; `gpus` sets request and limit of `nvidia.com/gpu`."""
    asked = {} if gpus is None else {names.NVIDIA_GPU: gpus if isinstance(gpus, str) else str(gpus)}
    wanted = {"requests": {**asked, **(requests or {})}, "limits": {**asked, **(limits or {})}}
    return {"name": name, "image": "some/image:1", "resources": {k: v for k, v in wanted.items() if v}, **fields}


def pod_object(
    name: str = "p1",
    *,
    namespace: str = "default",
    gpus: int | str | None = 1,
    node: str = "",
    phase: str | None = None,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    containers: Sequence[Mapping[str, Any]] | None = None,
    init_containers: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A Pod as the API returns it, Running when `node` is given; `metadata`, `spec`, `status` are merged over it."""
    base_spec: dict[str, Any] = {
        "containers": [dict(c) for c in (containers if containers is not None else [container_object(gpus=gpus)])],
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "priority": 0,
    }
    if init_containers:
        base_spec["initContainers"] = [dict(c) for c in init_containers]
    if node:
        base_spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            **(metadata or {}),
        },
        "spec": {**base_spec, **(spec or {})},
        "status": {"phase": phase or ("Running" if node else "Pending"), **(status or {})},
    }
