"""The GPUs of one node as MIG sees them: how each is cut, and who uses it, as far as anybody can say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from islander.cluster import names
from islander.cluster.machine import is_shared, physical_gpus
from islander.cluster.mig_devices import sliced_as
from islander.cluster.node import Node, ReportedGpu
from islander.cluster.pod import ContainerKind, Pod
from islander.hardware.mig import Geometry, Placement, geometry_for, parse_profile_name, profile_of_resource
from islander.hardware.products import parse_product_label
from islander.policy.occupancy import GpuState, Source
from planner.mig.layouts import placed


class Use(StrEnum):
    """Who uses a GPU."""

    IDLE = "idle"
    SLICED = "sliced"
    WHOLE = "whole"
    UNSURE = "unsure"
    SICK = "sick"


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance; `pod` is the key of its user, empty when it is free."""

    profile: str
    start: int
    pod: str = ""


@dataclass(frozen=True, slots=True)
class FleetGpu:
    """One GPU.

    Attributes
    ----------
    product
        Value of `nvidia.com/gpu.product` without endings; empty when not known.
    geometry
        None when nobody knows how the product is cut.
    instances
        As the node reports them, by start.
    pods
        Keys of the pods that use it, sorted.
    """

    index: int
    product: str
    geometry: Geometry | None
    use: Use
    instances: tuple[Instance, ...] = ()
    pods: tuple[str, ...] = ()

    @property
    def layout(self) -> tuple[Placement, ...]:
        """Where its instances lie."""
        return tuple(Placement(instance.profile, instance.start) for instance in self.instances)

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """Its instances as mig-parted counts them, by name."""
        return tuple(sorted(Counter(instance.profile for instance in self.instances).items()))

    @property
    def free(self) -> tuple[tuple[str, int], ...]:
        """Its instances without a pod, by name."""
        return tuple(sorted(Counter(i.profile for i in self.instances if not i.pod).items()))


def devices_of(pod: Pod) -> tuple[tuple[str, int], ...]:
    """Return the whole GPUs and MIG instances that a pod asks for, by resource."""
    return tuple(
        (name, count)
        for name, count in pod.spec.requests.extended
        if count and (name == names.NVIDIA_GPU or name.startswith(names.MIG_RESOURCE_PREFIX))
    )


def canonical(geometry: Geometry | None, profile: str) -> str:
    """Return a profile's name as the table writes it, or as it stands when the product has none like it."""
    found = geometry.profile(profile) if geometry is not None else None
    return found.name if found is not None else profile


def gpus_of_node(node: Node, pods: Sequence[Pod], product: str, state: GpuState) -> tuple[FleetGpu, ...]:
    """Return the GPUs of a node by index: from its report, else as far as counts tell; empty when they tell nothing."""
    reported = node.gpu_report.gpus if node.gpu_report else ()
    cut_up = bool(sliced_as(node)) or any(
        name.startswith(names.MIG_RESOURCE_PREFIX) and count for name, count in node.capacity.extended
    )
    if reported:
        return _reported(node, pods, product, reported, state)
    geometry = geometry_for(product)
    # Nothing tells GPUs apart here. With nobody on the node all are idle; whatever else is the case, no one is sure.
    number = physical_gpus(node)
    # Of a node that does not offer all its GPUs nobody knows which ones are missing.
    idle = not pods and not cut_up and state.allocatable == number and not is_shared(node)
    use = Use.IDLE if idle else Use.UNSURE
    return tuple(FleetGpu(index, product, geometry, use) for index in range(number))


def _reported(
    node: Node, pods: Sequence[Pod], product: str, reported: Sequence[ReportedGpu], state: GpuState
) -> tuple[FleetGpu, ...]:
    alive = {pod.key for pod in pods}
    placed = _located(node, pods, reported)
    sure_free = _surely_free(node, reported, placed, state)
    lost = _lost_profiles(node, pods, reported)
    found = []
    for gpu in reported:
        own = parse_product_label(gpu.product.replace(" ", "-")).name if gpu.product else product
        geometry = geometry_for(own)
        instances = tuple(
            Instance(
                canonical(geometry, device.profile),
                device.start,
                device.pod if device.pod and device.pod in alive else "",
            )
            for device in sorted(gpu.mig, key=lambda device: device.start)
        )
        users = {instance.pod for instance in instances if instance.pod}
        if gpu.pod is not None and gpu.pod in alive:
            users.add(gpu.pod)
        if not gpu.healthy:
            use = Use.SICK
        elif instances:
            unsure = any(not i.pod and i.profile in lost for i in instances) or (gpu.pod in alive)
            use = Use.UNSURE if unsure else Use.SLICED if users else Use.IDLE
        elif users:
            use = Use.WHOLE
        else:
            use = Use.IDLE if sure_free >> gpu.index & 1 else Use.UNSURE
        found.append(FleetGpu(gpu.index, own, geometry, use, instances, tuple(sorted(users))))
    return tuple(found)


def _located(node: Node, pods: Sequence[Pod], reported: Sequence[ReportedGpu]) -> bool:
    """Return whether the report names the devices of every pod with whole GPUs, or under `single` with slices."""
    seen: Counter[str] = Counter()
    for gpu in reported:
        if gpu.pod is not None and not gpu.mig:
            seen[gpu.pod] += 1
        for device in gpu.mig if sliced_as(node) else ():
            if device.pod is not None:
                seen[device.pod] += 1
    return all(seen[pod.key] >= _held(pod, names.NVIDIA_GPU) for pod in pods)


def _surely_free(node: Node, reported: Sequence[ReportedGpu], located: bool, state: GpuState) -> int:
    """Return the whole GPUs that are idle whatever kubelet may have done since the report was written."""
    if is_shared(node):
        return 0
    if state.source is Source.AGENT and state.whole and state.free_sets:
        sure = state.free_sets[0]
        for mask in state.free_sets[1:]:
            sure &= mask
        return sure
    users = {gpu.pod for gpu in reported if gpu.pod}
    free = [gpu.index for gpu in reported if gpu.healthy and not gpu.mig and not gpu.pod]
    # Where a pod is that the report does not know, nobody can say; nor which GPU is missing when the API counts fewer.
    if not located or (users and not state.whole) or (state.whole and state.free < len(free)):
        return 0
    return sum(1 << index for index in free)


def _lost_profiles(node: Node, pods: Sequence[Pod], reported: Sequence[ReportedGpu]) -> frozenset[str]:
    """Return the profiles of which some instance is used by a pod that the report does not show, or is miscounted."""
    geometry_of = {gpu.index: geometry_for(gpu.product) if gpu.product else None for gpu in reported}
    default = geometry_for(parse_product_label(node.label(names.GPU_PRODUCT) or "").name)
    shown: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for gpu in reported:
        for device in gpu.mig:
            shown[canonical(geometry_of[gpu.index] or default, device.profile)][device.pod or ""] += 1
    if sliced_as(node):
        return frozenset(shown) if not _located(node, pods, reported) else frozenset()
    lost = set()
    offered = {
        canonical(default, profile): count
        for name, count in node.capacity.extended
        if (profile := profile_of_resource(name)) is not None
    }
    for pod in pods:
        for name, _ in devices_of(pod):
            if (profile := profile_of_resource(name)) is not None:
                profile = canonical(default, profile)
                if shown[profile][pod.key] < _held(pod, name):
                    lost.add(profile)
    if offered:
        lost |= {profile for profile in shown if offered.get(profile, 0) != shown[profile].total()}
    return frozenset(lost)


def distrust(node: Node, gpus: Sequence[FleetGpu]) -> str:
    """Return why the node's report must not be written into a configuration, empty when it may be.

    A configuration says of every GPU how it is cut, of those too that stay as they are: were it wrong there, mig-parted
    would refuse it, or end instances that nobody knew of.
    """
    for gpu in gpus:
        if not _can_be(gpu):
            told = ", ".join(f"{count} x {profile:.30}" for profile, count in gpu.counts)
            return f"GPU {gpu.index} is reported as {told:.80}, which its product cannot be cut into"
    whole = 0 if is_shared(node) or sliced_as(node) else node.capacity.count(names.NVIDIA_GPU)
    if len(gpus) < (most := whole + sum(bool(gpu.instances) for gpu in gpus)):
        return f"the report tells of {len(gpus)} GPUs, and the node has {most}"
    reported = Counter(parse_profile_name(i.profile) for gpu in gpus for i in gpu.instances)
    offered = Counter(
        {
            parse_profile_name(canonical(gpus[0].geometry, profile)): count
            for name, count in node.capacity.extended
            if count and (profile := profile_of_resource(name)) is not None
        }
    )
    if offered and offered != reported:
        return "the report and the counts of the API disagree about the instances"
    return ""


def _can_be(gpu: FleetGpu) -> bool:
    if gpu.geometry is not None:
        # The starts are not compared: a report may leave them out.
        return placed(gpu.geometry, gpu.counts) is not None
    return all(parse_profile_name(instance.profile) for instance in gpu.instances)


def _held(pod: Pod, resource: str) -> int:
    """Return the devices that a running pod holds: what an init container used is free again."""
    kinds = [c for c in pod.spec.containers if c.kind is not ContainerKind.INIT]
    return sum(container.requests.count(resource) for container in kinds)
