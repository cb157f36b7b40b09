"""The GPUs of a cluster as MIG sees them: how each is cut, who uses it, and which nodes may be changed at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from islander.cluster import names
from islander.cluster.machine import hardware_of, is_shared
from islander.cluster.mig_devices import INVALID, MigChange, mig_change, sliced_as
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.links import Hardware
from islander.hardware.mig import geometry_for, profile_of_resource
from islander.hardware.presets import unknown_hardware
from islander.policy.fit import not_schedulable
from islander.policy.occupancy import GpuState, gpu_state
from islander.policy.reasons import Code, MoveCode
from islander.policy.selectors import selects
from planner.errors import PlannerError
from planner.mig.gpus import FleetGpu, Use, canonical, devices_of, distrust, gpus_of_node
from planner.mig.options import MigOptions
from planner.mig.tolerance import product_of
from planner.selector import parse_selector

MIXED, SINGLE, NO_STRATEGY = "mixed", "single", ""


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
    def driver(self) -> int | None:
        """Major version of the node's driver, None when no label tells it."""
        return driver_of(self.node)

    @property
    def sliced_as(self) -> str:
        """Profile that `nvidia.com/gpu` counts under strategy `single`; empty when it counts whole GPUs."""
        return sliced_as(self.node)


def spare_by_product(node: FleetNode) -> dict[tuple[str, str], int]:
    """Return the free instances of a node by (product, profile), as far as its GPUs tell; the rest has its label's."""
    found: Counter[tuple[str, str]] = Counter()
    for profile, spare in node.spare:
        left = spare
        holders = sorted({gpu.product for gpu in node.gpus if profile in dict(gpu.counts)})
        for product in holders:
            own = sum(dict(gpu.free).get(profile, 0) for gpu in node.gpus if gpu.product == product)
            found[product, profile] += min(own, left)
            left -= min(own, left)
        found[holders[0] if holders else product_of(node.node), profile] += left
    return {key: count for key, count in sorted(found.items()) if count}


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
                    why = f"--nodes {options.nodes} does not select it"
                    found = replace(found, closed=Closed(MoveCode.NOT_SELECTED, why))
                nodes.append(found)
                warnings += _doubts(found)
        return cls(tuple(nodes), {pod.key: pod for pod in snapshot.pods if not pod.finished}, tuple(warnings))


def _node(node: Node, pods: Sequence[Pod], strategy: str, *, dra: bool) -> FleetNode | None:
    product = product_of(node)
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
    gpus = gpus_of_node(node, pods, product, state)
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
    driver = driver_of(node)
    if driver is not None and driver < least:
        return Closed(MoveCode.DRIVER_TOO_OLD, f"driver {driver} is there, {least} is needed")
    if node.gpu_report and (why := distrust(node, gpus)):
        return Closed(MoveCode.GPUS_NOT_KNOWN, why)
    if all(gpu.use in (Use.UNSURE, Use.SICK) for gpu in gpus):
        return Closed(MoveCode.GPUS_NOT_KNOWN, _unknown(node, gpus))
    return None


def _unknown(node: Node, gpus: Sequence[FleetGpu]) -> str:
    if node.gpu_report is None:
        return "no report of the node says which of its GPUs are idle, and how they are cut"
    return "the report of the node and the counts of the API disagree" if gpus else "the node has no GPU"


def driver_of(node: Node) -> int | None:
    """Return the major version of a node's driver, None when no label tells it."""
    text = next((value for key in names.DRIVER_MAJOR if (value := node.label(key))), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _doubts(found: FleetNode) -> list[str]:
    """Return what the operator should know of a node, whatever is planned."""
    if found.sliced_as == INVALID:
        cure = "cut all its GPUs alike, or set the device plugin's strategy to mixed"
        return [f"node {found.name}: strategy single, but its GPUs are not cut alike: it offers no usable GPU; {cure}"]
    return []
