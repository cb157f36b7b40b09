"""Builders of clusters with MIG: a test names how GPUs are cut and who uses them, counts and reports follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from islander.cluster import names
from islander.cluster.node import MigDevice, Node, ReportedGpu
from islander.cluster.pod import Pod
from islander.cluster.resources import Resources
from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.mig import resource_name
from planner.mig.plan import GpuLayout, MigPlan
from tests.builders import H100, a_node, a_pod, a_report, a_workload, owned_by

A100 = "NVIDIA-A100-SXM4-80GB"
A30 = "NVIDIA-A30"

Cut = Sequence[tuple[str, int] | tuple[str, int, str]]
"""Instances of one GPU: (profile, start) or (profile, start, pod)."""


def a_mig_node(
    name: str = "n1",
    *,
    gpus: int = 8,
    cut: Mapping[int, Cut] | None = None,
    used: Mapping[int, str] | None = None,
    product: str = H100,
    strategy: str = "mixed",
    labels: Mapping[str, str] | None = None,
    links: Sequence[Sequence[str]] = (),
    sick: Sequence[int] = (),
    **fields: Any,
) -> Node:
    """A node that reports its GPUs: `cut` tells how some of them are cut, `used` who has which whole GPU."""
    layouts = cut or {}
    report = a_report(gpus, used=used, links=links, sick=sick)
    devices = {
        index: tuple(MigDevice(one[0], one[1], one[2] if len(one) > 2 else None) for one in layout)
        for index, layout in layouts.items()
    }
    report = structs.replace(
        report, gpus=tuple(structs.replace(gpu, mig=devices.get(gpu.index, ())) for gpu in report.gpus)
    )
    all_labels = ({names.MIG_STRATEGY: strategy} if strategy else {}) | dict(labels or {})
    node = a_node(name, gpus=gpus, product=product, labels=all_labels, report=report, **fields)
    counts = Counter(resource_name(device.profile) for cut_as in devices.values() for device in cut_as)
    capacity = {names.NVIDIA_GPU: gpus - len(layouts), **counts}
    allocatable = capacity | {names.NVIDIA_GPU: gpus - len(layouts) - len(sick)}
    return structs.replace(
        node, capacity=_with(node.capacity, capacity), allocatable=_with(node.allocatable, allocatable)
    )


def _with(amounts: Resources, counts: Mapping[str, int]) -> Resources:
    return structs.replace(amounts, extended=tuple(sorted((k, n) for k, n in counts.items() if n)))


def a_mig_pod(
    name: str = "m1", profile: str = "1g.10gb", *, count: int = 1, movable: bool = False, **fields: Any
) -> Pod:
    """A pod that asks for instances of one profile; `movable` gives it an owner with another Ready replica."""
    owner = {"owner": owned_by(a_workload(name, replicas=2))} if movable else {}
    return a_pod(name, gpus=count, gpu_resource=resource_name(profile), **(owner | fields))


def owner_of(pod: Pod) -> Any:
    """The workload behind a movable pod."""
    return a_workload(pod.name, namespace=pod.namespace, replicas=2)


def carried_out(snapshot: ClusterSnapshot, plan: MigPlan) -> ClusterSnapshot:
    """The snapshot once mig-parted has done what the plan says; who had to leave runs on other instances, or waits."""
    layouts = {(gpu.node, gpu.index): gpu for gpu in plan.gpus if gpu.created}
    drained = {drain.pod for drain in plan.drains}
    nodes = [_recut(node, layouts) for node in snapshot.nodes]
    pods = [pod for pod in snapshot.pods if pod.key not in drained]
    came_back: list[Pod] = []
    for pod in snapshot.pods:
        if pod.key in drained:
            nodes, found = _placed(nodes, pod)
            came_back.append(found)
    return structs.replace(
        snapshot, nodes=tuple(nodes), pods=tuple(sorted([*pods, *came_back], key=lambda p: (p.namespace, p.name)))
    )


def _recut(node: Node, layouts: Mapping[tuple[str, int], GpuLayout]) -> Node:
    assert node.gpu_report is not None
    gpus = []
    for gpu in node.gpu_report.gpus:
        told = layouts.get((node.name, gpu.index))
        if told is not None:
            gpu = structs.replace(gpu, pod=None, mig=tuple(MigDevice(i.profile, i.start) for i in told.created))
        gpus.append(gpu)
    return _counted(node, gpus)


def _placed(nodes: list[Node], pod: Pod) -> tuple[list[Node], Pod]:
    """Let a pod use the first free instance of its profile anywhere."""
    ((resource, _),) = pod.spec.requests.extended
    for at, node in enumerate(nodes):
        assert node.gpu_report is not None
        for gpu in node.gpu_report.gpus:
            for number, device in enumerate(gpu.mig):
                if not device.pod and resource_name(device.profile) == resource:
                    devices = list(gpu.mig)
                    devices[number] = structs.replace(device, pod=pod.key)
                    changed = [structs.replace(g, mig=tuple(devices)) if g is gpu else g for g in node.gpu_report.gpus]
                    moved = structs.replace(pod, node=node.name)
                    return [*nodes[:at], _counted(node, changed), *nodes[at + 1 :]], moved
    raise AssertionError(f"{pod.key} finds no instance: the plan takes away what it needs")


def _counted(node: Node, gpus: Sequence[ReportedGpu]) -> Node:
    """The node with these GPUs, and counts that agree with them."""
    assert node.gpu_report is not None
    counts = Counter(resource_name(device.profile) for gpu in gpus for device in gpu.mig)
    whole = sum(not gpu.mig for gpu in gpus)
    sick = sum(not gpu.healthy for gpu in gpus)
    return structs.replace(
        node,
        gpu_report=structs.replace(node.gpu_report, gpus=tuple(gpus)),
        capacity=_with(node.capacity, {names.NVIDIA_GPU: whole, **counts}),
        allocatable=_with(node.allocatable, {names.NVIDIA_GPU: whole - sick, **counts}),
    )
