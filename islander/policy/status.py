"""The state of a cluster in units people can use: replicas that fit, GPUs that are stranded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field, structs

from islander.cluster import names
from islander.cluster.machine import gpu_memory, hardware_of
from islander.cluster.mig_devices import INVALID, MigChange, mig_resources, silent_gpus
from islander.cluster.node import Node, Taint
from islander.cluster.pod import Pod, PodSpec
from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.mig import profile_of_resource
from islander.policy.demand import mix_of, shapes_by_size
from islander.policy.explain import Judged, judge_nodes
from islander.policy.fit import not_schedulable
from islander.policy.fragmentation import stranded_share
from islander.policy.need import PodNeed, need_of
from islander.policy.neighbours import Neighbourhood
from islander.policy.occupancy import GpuState, gpu_state
from islander.policy.reasons import REASONS, Code
from islander.policy.room import islands_free, largest_free_island, replicas_guaranteed
from islander.policy.selectors import untolerated_taint
from islander.policy.settings import COMMON_SIZES, DemandMix, PolicySettings
from islander.policy.status_mig import MigTotals, NodeMig, mig_totals, node_mig
from islander.policy.use import UseHint


class Totals(Struct, frozen=True, rename="camel"):
    """Sums over all GPU nodes, in GPUs except `nodes`; `usable_free` counts only nodes that accept new pods."""

    nodes: int
    gpus: int
    allocatable: int
    used: int
    free: int
    usable_free: int
    withdrawn: int
    overallocated: int


class Fragmentation(Struct, frozen=True, rename="camel"):
    """Free GPUs that a shape cannot use, per shape, and their share of all usable free GPUs, mean over the mix."""

    ratio: float
    stranded_gpus: dict[str, int]


class PodOnNode(Struct, frozen=True, rename="camel"):
    """A pod that holds GPUs of a node."""

    pod: str
    gpus: int
    workload: str
    priority: int


class NodeStatus(Struct, frozen=True, rename="camel"):
    """One GPU node; `islands` is how many free islands of each size can be cut from it at the same time.

    MIG instances are told in `mig`, and counted as GPUs nowhere.

    `memory_mib_per_rank` is the memory of its smallest GPU: what each rank of a replica can count on.
    """

    name: str
    product: str
    hardware: str
    gpus: int
    allocatable: int
    used: int
    free: int
    withdrawn: int
    schedulable: bool
    not_schedulable_reason: str
    free_indexes: list[int] | None
    free_indexes_source: str
    islands: dict[str, int]
    clique: str
    memory_mib: int
    memory_mib_per_rank: int
    heterogeneous: bool
    pods: list[PodOnNode]
    mig: NodeMig | None = None


class PendingPod(Struct, frozen=True, rename="camel"):
    """A pod that waits for GPUs or MIG instances; `stuck` when enough usable are free in total, yet no node fits."""

    pod: str
    shape: str
    reason: str
    stuck: bool


class ClusterStatus(Struct, frozen=True, rename="camel"):
    """What is free, in units people can use; `hints` is empty where nothing was measured."""

    totals: Totals
    placeable: dict[str, int]
    largest_free_island: int
    fragmentation: Fragmentation
    nodes: list[NodeStatus]
    pending: list[PendingPod]
    warnings: list[str]
    mig: dict[str, MigTotals] = field(default_factory=dict)
    hints: list[UseHint] = field(default_factory=list)
    api_version: str = names.API_VERSION
    kind: str = "ClusterStatus"


def cluster_status(snapshot: ClusterSnapshot, settings: PolicySettings | None = None) -> ClusterStatus:
    """Return the status of a snapshot; the demand mix is the one of the settings, or what the snapshot's pods ask."""
    settings = settings or PolicySettings()
    gpu_nodes = _gpu_nodes(snapshot, settings)
    needs = {pod.key: need_of(pod, settings) for pod in snapshot.pods if not pod.finished}
    mix = mix_of(snapshot, settings)
    closed = _closed(gpu_nodes, snapshot, needs, settings)
    usable = [state for node, state in gpu_nodes if node.name not in closed]
    usable_free = sum(state.free for state in usable)
    shapes = shapes_by_size(mix, COMMON_SIZES)
    placeable = {
        key: sum(replicas_guaranteed(state, shape) for state in usable) for key, shape in sorted(shapes.items())
    }
    stranded = {key: usable_free - shapes[key].gpus * count for key, count in placeable.items()}
    nodes = [_node_status(node, state, snapshot, closed.get(node.name, "")) for node, state in gpu_nodes]
    mig = mig_totals((node.mig, node.schedulable) for node in nodes if node.mig is not None)
    return ClusterStatus(
        totals=_totals(gpu_nodes, usable_free),
        placeable=placeable,
        largest_free_island=max((largest_free_island(state) for state in usable), default=0),
        fragmentation=Fragmentation(round(stranded_share(mix, stranded, usable_free), 4), stranded),
        nodes=nodes,
        pending=_pending(snapshot, mix, needs, usable_free, mig),
        mig=mig,
        warnings=[
            *snapshot.warnings,
            *(f"node {n.name}: {w}" for n, s in gpu_nodes for w in _warnings(n, s, snapshot)),
        ],
    )


def _gpu_nodes(snapshot: ClusterSnapshot, settings: PolicySettings) -> list[tuple[Node, GpuState]]:
    found = []
    for node in snapshot.nodes:
        resource = gpu_resource_of(node, settings)
        pods = snapshot.pods_by_node.get(node.name, ())
        claimed = snapshot.claimed(node.name, resource)
        state = gpu_state(node, pods, resource, dra=snapshot.has_devices(node.name, resource), claimed=claimed)
        if state.gpu_node or mig_resources(node):
            found.append((node, state.without_instances()))
    return found


def _warnings(node: Node, state: GpuState, snapshot: ClusterSnapshot) -> tuple[str, ...]:
    _, doubts = hardware_of(node, state.resource)
    found = [*node.warnings, *doubts]
    if state.dra:
        found.append("its GPUs are handed out by dynamic resource allocation; they are not counted here")
    elif state.offered and snapshot.has_devices(node.name, state.resource):
        found.append(
            "device plugin and dynamic resource allocation both offer its GPUs, and may hand out the same one; "
            "they are counted once"
        )
    if silent := silent_gpus(node):
        found.append(f"{silent} of its GPUs offer nothing: MIG is on without instances, or they are not registered")
    return tuple(found)


def gpu_resource_of(node: Node, settings: PolicySettings) -> str:
    """Return the GPU resource that the node offers, the first configured one when it offers none."""
    for resource in settings.gpu_resources:
        if node.capacity.count(resource) or node.allocatable.count(resource):
            return resource
    return settings.gpu_resources[0]


def _closed(
    gpu_nodes: Sequence[tuple[Node, GpuState]],
    snapshot: ClusterSnapshot,
    needs: dict[str, PodNeed],
    settings: PolicySettings,
) -> dict[str, str]:
    """Return the nodes that accept no new GPU pods, each with the reason.

    A taint closes a node when no pending GPU pod tolerates it (no running one where none is pending). The usual taint
    of GPU nodes, named like the resource, closes none.
    """
    asking = [pod for pod in snapshot.pods if pod.key in needs and needs[pod.key].gpus]
    asking = [pod for pod in asking if not pod.node] or asking
    templates = {pod.spec.tolerations: pod for pod in asking}.values()
    closed = {}
    for node, state in gpu_nodes:
        taints = tuple(t for t in node.taints if t.key not in settings.gpu_resources)
        if blocked := not_schedulable(node):
            closed[node.name] = blocked.message
        elif taint := _taint_nobody_tolerates(structs.replace(node, taints=taints), templates):
            closed[node.name] = f"no GPU pod tolerates its taint ({taint.key}={taint.value}:{taint.effect})"
        elif code := _closed_by_mig(state):
            closed[node.name] = REASONS[code].sentence
        elif not state.offered and not state.dra and not mig_resources(node):
            closed[node.name] = "GPU node, not ready"
    return closed


def _closed_by_mig(state: GpuState) -> Code | None:
    if state.mig == INVALID:
        return Code.MIG_INVALID
    return {MigChange.CHANGING: Code.MIG_CHANGING, MigChange.FAILED: Code.MIG_FAILED}.get(state.mig_change)


def _taint_nobody_tolerates(node: Node, pods: Collection[Pod]) -> Taint | None:
    found = [untolerated_taint(pod, node) for pod in pods or (Pod("", ""),)]
    return None if None in found else found[0]


def _totals(gpu_nodes: Sequence[tuple[Node, GpuState]], usable_free: int) -> Totals:
    states = [state for _, state in gpu_nodes]
    return Totals(
        nodes=len(states),
        gpus=sum(state.physical for state in states),
        allocatable=sum(state.allocatable for state in states),
        used=sum(state.used for state in states),
        free=sum(state.free for state in states),
        usable_free=usable_free,
        withdrawn=sum(state.withdrawn for state in states),
        overallocated=sum(state.overallocated for state in states),
    )


def _node_status(node: Node, state: GpuState, snapshot: ClusterSnapshot, closed: str) -> NodeStatus:
    owners = snapshot.owners
    memory = gpu_memory(node, state.resource)
    known = len(state.free_sets) == 1
    return NodeStatus(
        name=node.name,
        product=state.product,
        hardware=state.hardware.name,
        gpus=state.physical,
        allocatable=state.allocatable,
        used=state.used,
        free=state.free,
        withdrawn=state.withdrawn,
        schedulable=not closed,
        not_schedulable_reason=closed,
        free_indexes=[i for i in range(state.hardware.gpus) if state.free_sets[0] >> i & 1] if known else None,
        free_indexes_source=state.source.value,
        islands={str(size): islands_free(state, size) for size in COMMON_SIZES},
        clique=node.label(names.GPU_CLIQUE) or "",
        memory_mib=memory.total_mib,
        memory_mib_per_rank=memory.per_rank_mib,
        heterogeneous=memory.heterogeneous,
        pods=[
            PodOnNode(pod.key, pod.spec.requests.count(state.resource), owners.workload_of(pod), pod.spec.priority)
            for pod in snapshot.pods_by_node.get(node.name, ())
            if pod.spec.requests.count(state.resource) and not state.mig
        ],
        mig=node_mig(node, snapshot.pods_by_node.get(node.name, ())),
    )


def _pending(
    snapshot: ClusterSnapshot,
    mix: DemandMix,
    needs: dict[str, PodNeed],
    usable_free: int,
    mig: Mapping[str, MigTotals],
) -> list[PendingPod]:
    around = Neighbourhood.of(snapshot)
    # Replicas of one template get one answer.
    answers: dict[tuple[str, PodSpec, tuple[tuple[str, str], ...], PodNeed], tuple[bool, Code | None]] = {}
    found = []
    for pod in snapshot.pods:
        need = needs.get(pod.key)
        if pod.node or need is None or not need.gpus:
            continue
        template = (pod.namespace, pod.spec, pod.labels, need)
        if template not in answers:
            answers[template] = _answer(judge_nodes(snapshot, pod, need, around, mix))
        fits, code = answers[template]
        free = usable_free
        if need.asks_mig:
            profile = profile_of_resource(need.resource) or need.resource.removeprefix(names.MIG_RESOURCE_PREFIX)
            free = mig[profile].usable_free if profile in mig else 0
        stuck = not fits and need.gpus <= free
        found.append(PendingPod(pod.key, need.shape_name, code.value if code else "", stuck))
    return found


def _answer(judged: Sequence[Judged]) -> tuple[bool, Code | None]:
    """Return whether some node accepts, and the code of most refusals when none does."""
    if any(j.accepted for j in judged):
        return True, None
    codes = [j.code for j in judged if j.code is not None]
    return False, max(sorted(set(codes)), key=codes.count, default=None)
