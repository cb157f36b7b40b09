"""The GPUs of a cluster as MIG sees them: how each is cut, who uses it, and which nodes may be changed at all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from islander.cluster import names
from islander.cluster.machine import hardware_of, is_shared, physical_gpus
from islander.cluster.mig_devices import INVALID, MigChange, mig_change, sliced_as
from islander.cluster.node import Node, ReportedGpu
from islander.cluster.pod import ContainerKind, Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.links import Hardware
from islander.hardware.mig import Geometry, Placement, geometry_for, profile_of_resource
from islander.hardware.presets import unknown_hardware
from islander.hardware.products import parse_product_label
from islander.policy.fit import not_schedulable
from islander.policy.occupancy import GpuState, Source, gpu_state
from islander.policy.reasons import Code, MoveCode
from islander.policy.selectors import selects
from planner.errors import PlannerError
from planner.mig.options import MigOptions
from planner.selector import parse_selector

MIXED, SINGLE, NO_STRATEGY = "mixed", "single", ""


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


@dataclass(frozen=True, slots=True)
class Closed:
    """Why a node is no target: a code and what its sentence leaves out."""

    code: Code | MoveCode
    message: str


@dataclass(frozen=True, slots=True)
class FleetNode:
    """A node with NVIDIA GPUs.

    Attributes
    ----------
    strategy
        The device plugin's MIG strategy; empty when the labels do not tell.
    gpus
        By index; empty when not even their number is known.
    spare
        Free instances of each profile on nodes that take pods; whatever is not certain is not counted.
    closed
        Why the node must not be changed; None when it may be.
    takes_pods
        True when new pods may start there.
    state
        Its whole GPUs, as the policy counts them.
    """

    node: Node
    strategy: str
    gpus: tuple[FleetGpu, ...]
    hardware: Hardware
    spare: tuple[tuple[str, int], ...]
    closed: Closed | None
    takes_pods: bool
    state: GpuState

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def sliced_as(self) -> str:
        """Profile that `nvidia.com/gpu` counts under strategy `single`; empty when it counts whole GPUs."""
        return sliced_as(self.node)


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes with NVIDIA GPUs, by name, and what is uncertain about them."""

    nodes: tuple[FleetNode, ...]
    pods: Mapping[str, Pod]
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, options: MigOptions) -> Fleet:
        """Return the fleet of a snapshot, as far as the options let nodes change.

        Raises
        ------
        PlannerError
            The selector of nodes is none, or selects nothing.
        """
        selector = parse_selector(options.nodes) if options.nodes.strip() else ()
        if selector and not any(selects(selector, dict(node.labels)) for node in snapshot.nodes):
            raise PlannerError(f"--nodes {options.nodes!r} selects none of {len(snapshot.nodes)} nodes")
        nodes, warnings = [], []
        for node in snapshot.nodes:
            here = [pod for pod in snapshot.pods_by_node.get(node.name, ()) if devices_of(pod)]
            dra = snapshot.has_devices(node.name, names.NVIDIA_GPU)
            if found := _node(node, here, options.strategy, dra=dra):
                if found.closed is None and not selects(selector, dict(node.labels)):
                    found = _with(found, Closed(MoveCode.NOT_SELECTED, f"--nodes {options.nodes} does not select it"))
                nodes.append(found)
                warnings += _doubts(found)
        return cls(tuple(nodes), {pod.key: pod for pod in snapshot.pods if not pod.finished}, tuple(warnings))


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


def _with(node: FleetNode, closed: Closed) -> FleetNode:
    return FleetNode(
        node.node, node.strategy, node.gpus, node.hardware, node.spare, closed, node.takes_pods, node.state
    )


def _node(node: Node, pods: Sequence[Pod], strategy: str, *, dra: bool) -> FleetNode | None:
    product = parse_product_label(node.label(names.GPU_PRODUCT) or "").name
    offers = any(
        name == names.NVIDIA_GPU or name.startswith(names.MIG_RESOURCE_PREFIX)
        for name, count in (*node.capacity.extended, *node.allocatable.extended)
        if count
    )
    if not offers and not product and not node.gpu_report:
        return None
    labelled = node.label(names.MIG_STRATEGY) or NO_STRATEGY
    strategy = strategy or (labelled if labelled in (MIXED, SINGLE) else NO_STRATEGY)
    state = gpu_state(node, pods, names.NVIDIA_GPU)
    gpus = _gpus(node, pods, product, state)
    takes_pods = not_schedulable(node) is None and mig_change(node) is MigChange.SETTLED
    return FleetNode(
        node=node,
        strategy=strategy,
        gpus=gpus,
        hardware=_hardware(node, gpus),
        spare=_spare(node, pods, product, gpus) if takes_pods else (),
        closed=_closed(node, product, gpus, dra=dra),
        takes_pods=takes_pods,
        state=state,
    )


def _hardware(node: Node, gpus: Sequence[FleetGpu]) -> Hardware:
    """Return the node's links; unknown ones where the labels count instances, or fewer GPUs than the node reports."""
    found, _ = hardware_of(node)
    least = max((gpu.index + 1 for gpu in gpus), default=0)
    return found if found.gpus >= least else unknown_hardware(least)


def _gpus(node: Node, pods: Sequence[Pod], product: str, state: GpuState) -> tuple[FleetGpu, ...]:
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


def _held(pod: Pod, resource: str) -> int:
    """Return the devices that a running pod holds: what an init container used is free again."""
    kinds = [c for c in pod.spec.containers if c.kind is not ContainerKind.INIT]
    return sum(container.requests.count(resource) for container in kinds)


def _spare(node: Node, pods: Sequence[Pod], product: str, gpus: Sequence[FleetGpu]) -> tuple[tuple[str, int], ...]:
    geometry = geometry_for(product)
    sliced = sliced_as(node)
    if sliced == INVALID:
        return ()
    spare: Counter[str] = Counter()
    if sliced:
        used = sum(pod.spec.requests.count(names.NVIDIA_GPU) for pod in pods)
        spare[canonical(geometry, sliced)] = node.allocatable.count(names.NVIDIA_GPU) - used
    offered = [(name, profile_of_resource(name)) for name, _ in node.allocatable.extended]
    for name, profile in offered:
        if profile is not None:
            used = sum(pod.spec.requests.count(name) for pod in pods)
            spare[canonical(geometry, profile)] += node.allocatable.count(name) - used
    if not sliced and not any(profile for _, profile in offered):
        # The device plugin has not registered them yet.
        for gpu in gpus:
            if gpu.use in (Use.IDLE, Use.SLICED):
                spare.update(dict(gpu.free))
    return tuple(sorted((profile, count) for profile, count in spare.items() if count > 0))


def _closed(node: Node, product: str, gpus: Sequence[FleetGpu], *, dra: bool) -> Closed | None:
    if blocked := not_schedulable(node):
        return Closed(blocked.code, blocked.detail)
    change = mig_change(node)
    if change is not MigChange.SETTLED:
        code = Code.MIG_FAILED if change is MigChange.FAILED else Code.MIG_CHANGING
        return Closed(code, f"{names.MIG_CONFIG_STATE} is {node.label(names.MIG_CONFIG_STATE)}")
    if all(gpu.geometry is None for gpu in gpus) and geometry_for(product) is None:
        return Closed(MoveCode.NO_MIG_TABLE, f"no recommendation for product {product or 'unknown'}")
    if node.label(names.MIG_CAPABLE) == "false":
        return Closed(MoveCode.NO_MIG_TABLE, f"{names.MIG_CAPABLE} is false")
    if is_shared(node):
        return Closed(Code.SHARED_GPUS, "its GPUs are shared by time slices or MPS")
    if dra:
        return Closed(MoveCode.GPUS_NOT_KNOWN, "dynamic resource allocation hands out its GPUs")
    least = min((gpu.geometry.min_driver for gpu in gpus if gpu.geometry), default=0)
    driver = _driver(node)
    if driver is not None and driver < least:
        return Closed(MoveCode.DRIVER_TOO_OLD, f"driver {driver} is there, {least} is needed")
    if all(gpu.use in (Use.UNSURE, Use.SICK) for gpu in gpus):
        return Closed(MoveCode.GPUS_NOT_KNOWN, _unknown(node, gpus))
    return None


def _unknown(node: Node, gpus: Sequence[FleetGpu]) -> str:
    if node.gpu_report is None:
        return "no report of the node says which of its GPUs are idle, and how they are cut"
    return "the report of the node and the counts of the API disagree" if gpus else "the node has no GPU"


def _driver(node: Node) -> int | None:
    text = next((value for key in names.DRIVER_MAJOR if (value := node.label(key))), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _doubts(found: FleetNode) -> list[str]:
    """Return what the operator should know of a node, whatever is planned."""
    if found.sliced_as == INVALID:
        cure = "cut all its GPUs alike, or set the device plugin's strategy to mixed"
        return [f"node {found.name}: strategy single, but its GPUs are not cut alike: it offers no usable GPU; {cure}"]
    return []
