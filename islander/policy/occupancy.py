"""How many GPUs of a node are free, and which sets of them that may be.

Counts come from the API, as kube-scheduler counts them; identity comes from the best source there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import combinations

from islander.cluster import names
from islander.cluster.machine import gpu_memory, hardware_of, is_shared, physical_gpus, whole_gpus
from islander.cluster.mig_devices import MigChange, mig_change, names_mig, sliced_as
from islander.cluster.node import GpuReport, Node
from islander.cluster.pod import ContainerKind, Pod
from islander.hardware.links import Hardware, gpus_of, mask_of
from islander.policy.kubelet import kubelet_picks

# 12 of 16 GPUs free can be 1,820 sets; beyond this many the sets are not listed and only bounds are known.
MAX_FREE_SETS = 128


class Source(StrEnum):
    """Where the identity of the free GPUs comes from."""

    AGENT = "agent"
    DRA = "dra"
    PREDICTED = "predicted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GpuState:
    """The GPUs of one node for one resource name.

    Attributes
    ----------
    capacity, allocatable, used
        As kube-scheduler counts; `used` sums the effective requests of bound pods that are not finished.
    physical
        Whole GPUs behind the resource: fewer than `capacity` when they are shared.
    free_sets
        Every set of GPUs that may be the free ones, as bit masks, ascending. Empty when nothing is known.
    source
        Where `free_sets` comes from; `unknown` says that every set of the right size is in it.
    offered
        False when the node does not name the resource at all.
    whole
        True when one device is one whole GPU of its own; false for shared replicas and MIG slices.
    mig
        MIG profile of the instances that the resource counts, `INVALID` where the node's layouts allow none, empty for
        what is no MIG.
    mig_change
        Whether the node's MIG layout is being changed.
    dra
        True when GPUs of the node are, or may be, handed out by dynamic resource allocation: only kube-scheduler counts
        them.
    topology_manager_policy
        kubelet's policy as the node reports it; empty when it does not.
    product, memory_mib
        Of the GPUs (the smallest memory in MiB when they differ); empty and 0 when not known.
    """

    resource: str
    capacity: int
    allocatable: int
    used: int
    physical: int
    hardware: Hardware
    free_sets: tuple[int, ...]
    source: Source
    offered: bool = True
    gpu_node: bool = True
    shared: bool = False
    whole: bool = True
    topology_manager_policy: str = ""
    product: str = ""
    memory_mib: int = 0
    gpu_pods: int = 0
    mig: str = ""
    mig_change: MigChange = MigChange.SETTLED
    dra: bool = False

    @property
    def free(self) -> int:
        """GPUs that kube-scheduler would still hand out; never negative."""
        return max(0, self.allocatable - self.used)

    def without_instances(self) -> GpuState:
        """Return the state as whole GPUs see it: MIG instances under their name are none."""
        return replace(self, capacity=0, allocatable=0, used=0, gpu_pods=0) if self.mig else self

    @property
    def withdrawn(self) -> int:
        """GPUs that the node has but does not offer: unhealthy, or not yet registered."""
        return max(0, self.capacity - self.allocatable)

    @property
    def overallocated(self) -> int:
        """GPUs that pods hold beyond what the node offers."""
        return 0 if self.dra else max(0, self.used - self.allocatable)


def gpu_state(
    node: Node, pods: Iterable[Pod], resource: str = names.NVIDIA_GPU, *, dra: bool = False, claimed: int = 0
) -> GpuState:
    """Return the state of a node's GPUs.

    Parameters
    ----------
    pods
        Pods bound to the node (finished ones are ignored), and any that are assumed to be.
    dra
        Whether a driver has published devices of the node that may be handed out as `resource`. It counts only where
        the node does not name the resource itself: a node serves a name in one of the two ways. Nor does it count for
        MIG instances on a node that names some of another profile.
    claimed
        GPUs that claims hold of a node that names the resource itself (G46). kube-scheduler does not count them, so
        only who tells what is free does.
    """
    capacity, allocatable = node.capacity.count(resource), node.allocatable.count(resource)
    holders = [pod for pod in pods if pod.spec.requests.count(resource) and not pod.finished]
    used = sum(pod.spec.requests.count(resource) for pod in holders) + (claimed if capacity or allocatable else 0)
    hardware, _ = hardware_of(node, resource)
    shared, whole = is_shared(node), whole_gpus(node, resource)
    free_sets: tuple[int, ...] = ()
    source = Source.UNKNOWN
    offered = bool(capacity or allocatable)
    dra = dra and not offered and not (resource.startswith(names.MIG_RESOURCE_PREFIX) and names_mig(node))
    if whole and hardware.gpus and not dra:
        free_sets, source = _free_sets(node, hardware, holders, resource, max(0, allocatable - used))
    return GpuState(
        resource=resource,
        capacity=max(capacity, allocatable),
        allocatable=allocatable,
        used=used,
        physical=physical_gpus(node, resource),
        hardware=hardware,
        free_sets=free_sets,
        source=source,
        offered=offered,
        gpu_node=offered or dra or is_gpu_node(node),
        shared=shared,
        whole=whole,
        topology_manager_policy=node.gpu_report.topology_manager_policy if node.gpu_report else "",
        product=node.label(names.AMD_PRODUCT if resource == names.AMD_GPU else names.GPU_PRODUCT) or "",
        memory_mib=gpu_memory(node, resource).per_rank_mib,
        gpu_pods=len(holders),
        mig=sliced_as(node, resource),
        mig_change=MigChange.SETTLED if resource == names.AMD_GPU else mig_change(node),
        dra=dra,
    )


def is_gpu_node(node: Node) -> bool:
    """Return whether the node's labels say that it has GPUs, even before its device plugin has registered them."""
    return node.label(names.GPU_PRESENT) == "true" or node.label(names.GPU_PRODUCT) is not None


def _free_sets(
    node: Node, hardware: Hardware, holders: Sequence[Pod], resource: str, free: int
) -> tuple[tuple[int, ...], Source]:
    reported = node.gpu_report.gpus if node.gpu_report else ()
    if reported and node.gpu_report:
        sets = _reported_sets(node.gpu_report, hardware, holders, resource)
        if sets and all(mask.bit_count() == free for mask in sets):
            return sets, Source.AGENT
        # The report and the counts of the API disagree: the report is old, or something outside the API holds GPUs.
        healthy = mask_of(gpu.index for gpu in reported if gpu.healthy and not gpu.mig and gpu.index < hardware.gpus)
    else:
        healthy = hardware.all_gpus
    return _sets_of_size(healthy if healthy.bit_count() >= free else hardware.all_gpus, free)


def _reported_sets(report: GpuReport, hardware: Hardware, holders: Sequence[Pod], resource: str) -> tuple[int, ...]:
    """Return the free sets that a report allows, after the pods that it does not know yet have picked."""
    alive = {pod.key: pod for pod in holders}
    free = 0
    seen: set[str] = set()
    for gpu in report.gpus:
        if gpu.index >= hardware.gpus or not gpu.healthy or gpu.mig:
            continue
        if gpu.pod is None or gpu.pod not in alive:
            # kubelet frees lazily: a GPU of a pod that is gone from the API is free for the next one.
            free |= 1 << gpu.index
        else:
            seen.add(gpu.pod)
    masks = {free}
    unreported = [pod for pod in holders if pod.key not in seen]
    for pod in sorted(unreported, key=lambda pod: (pod.started or pod.created, pod.key)):
        for container in pod.spec.containers:
            count = container.requests.count(resource)
            if count and container.kind is not ContainerKind.INIT:
                masks = {
                    mask & ~pick
                    for mask in masks
                    for pick in kubelet_picks(hardware, report.topology_manager_policy, mask, count).sets
                }
        if len(masks) > MAX_FREE_SETS:
            return ()
    return tuple(sorted(masks))


def _sets_of_size(gpus: int, free: int) -> tuple[tuple[int, ...], Source]:
    sets = _subsets(gpus, free)
    return sets, Source.PREDICTED if len(sets) == 1 else Source.UNKNOWN


@lru_cache(maxsize=1024)
def _subsets(gpus: int, size: int) -> tuple[int, ...]:
    """Return every subset of that size; none when there are more than `MAX_FREE_SETS`, or fewer GPUs than asked."""
    members = tuple(gpus_of(gpus))
    sets: list[int] = []
    for chosen in combinations(members, size):
        sets.append(mask_of(chosen))
        if len(sets) > MAX_FREE_SETS:
            return ()
    return tuple(sorted(sets))
