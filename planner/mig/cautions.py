"""What whoever carries a plan of MIG layouts out must know of MIG and of mig-parted: only what applies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from islander.cluster import names
from islander.hardware.products import Fabric, product_by_label
from planner.mig.fleet import NO_STRATEGY, SINGLE, Fleet, FleetNode
from planner.mig.plan import GpuLayout

_MOST_NAMED = 4


def cautions(fleet: Fleet, gpus: Sequence[GpuLayout], labels: Mapping[str, str], kept: Collection[str]) -> list[str]:
    """Return the warnings of a plan that changes these nodes, one sentence each; nothing when it changes none.

    Parameters
    ----------
    kept
        Names in the plan's file of configurations that other nodes have.
    """
    if not labels:
        return []
    nodes = [node for node in fleet.nodes if node.name in labels]
    return [
        *_of_mig(gpus),
        *_of_nodes(nodes, gpus),
        *_of_strategy(nodes),
        *_of_other_configs(fleet, {*labels.values(), *kept}, labels),
    ]


def _of_mig(gpus: Sequence[GpuLayout]) -> Iterator[str]:
    created = [gpu for gpu in gpus if gpu.created]
    if created:
        yield "MIG instances have no peer-to-peer, by NVLink or PCIe: they are for replicas of one rank (TP=1, PP=1)"
        yield "instances do not survive a reboot of the node; the MIG manager makes them again"
    reset = sorted({gpu.node for gpu in gpus if gpu.reset})
    if reset:
        yield (
            f"{_some(reset)}: switching MIG mode on or off needs a reset of the GPU, in some virtual machines a reboot "
            "of it, and no GPU pod on that GPU"
        )
    trained_down = sorted({gpu.node for gpu in gpus if gpu.reset and _is_switched_ampere(gpu.product)})
    if trained_down:
        yield (
            f"{_some(trained_down)}: NVLinks of a GPU in MIG mode are trained down on this board; Fabric Manager must "
            "run to bring them back"
        )


def _is_switched_ampere(product: str) -> bool:
    found = product_by_label(product)
    return found is not None and found.fabric is Fabric.NVSWITCH


def _of_nodes(nodes: Sequence[FleetNode], gpus: Sequence[GpuLayout]) -> Iterator[str]:
    yield (
        f"{_some([node.name for node in nodes])}: the device plugin pauses on the whole node while it is changed, so "
        "no GPU pod starts there; cordon it first, or kubelet may hand out a GPU that is about to be cut"
    )
    drained = {pod for gpu in gpus for pod in gpu.drains}
    busy = [node.name for node in nodes if any(set(gpu.pods) - drained for gpu in node.gpus)]
    if busy:
        yield (
            f"{_some(busy)}: pods go on running on GPUs that keep their layout; the MIG manager does not drain them, "
            "and a reboot would end them"
        )


def _of_strategy(nodes: Sequence[FleetNode]) -> Iterator[str]:
    single = [node.name for node in nodes if node.strategy == SINGLE]
    if single:
        yield (
            f"{_some(single)}: strategy single turns the whole node: all its GPUs are cut alike, {names.NVIDIA_GPU} "
            "then counts instances, and no pod finds a whole GPU there"
        )
    told = [node.name for node in nodes if node.strategy == NO_STRATEGY]
    if told:
        yield (
            f"{_some(told)}: no label tells the MIG strategy; the plan takes it for mixed: set the device plugin's "
            "strategy to mixed, or the instances are not offered under their own names"
        )
    differing = [node.name for node in nodes if node.strategy != (node.node.label(names.MIG_STRATEGY) or node.strategy)]
    if differing:
        yield f"{_some(differing)}: the device plugin runs another MIG strategy than the plan is for; change it first"


def _of_other_configs(fleet: Fleet, there: Collection[str], labels: Mapping[str, str]) -> Iterator[str]:
    """Name the nodes whose present label would name nothing once the file is the manager's only one."""
    others: dict[str, list[str]] = {}
    for node in fleet.nodes:
        config = node.node.label(names.MIG_CONFIG)
        if config and node.name not in labels and config not in there:
            others.setdefault(config, []).append(node.name)
    for config, labelled in sorted(others.items()):
        yield (
            f"{_some(labelled)}: labelled {names.MIG_CONFIG}={config}, which is not in the file of this plan; add it "
            "before the file replaces the one in use"
        )


def _some(keys: Collection[str]) -> str:
    listed = sorted(keys)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(listed[:_MOST_NAMED]) + more
