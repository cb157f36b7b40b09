"""What a node offers as MIG: the strategy of its device plugin, instances by profile, and whether it is being changed.

References
----------
Labels: NVIDIA/k8s-device-plugin (`internal/lm`, docs of GPU feature discovery); states of a change: NVIDIA/mig-parted,
deployments/k8s-mig-manager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from islander.cluster import names
from islander.cluster.node import Node, ReportedGpu
from islander.hardware.mig import Geometry, Placement, geometry_for, profile_of_resource, resource_name
from islander.hardware.products import parse_product_label

INVALID = "INVALID"


class MigChange(StrEnum):
    """How far the MIG manager is with the layout that a node is asked to have.

    Attributes
    ----------
    SETTLED
        Nothing was asked for, or it is done.
    CHANGING
        The manager is at work or the node reboots: devices come and go, and a pod that uses one stops the change.
    FAILED
        It gave up: what the GPUs look like is not certain, and a person has to look.
    """

    SETTLED = "settled"
    CHANGING = "changing"
    FAILED = "failed"


_CHANGES: Mapping[str, MigChange] = {
    "pending": MigChange.CHANGING,
    "rebooting": MigChange.CHANGING,
    "failed": MigChange.FAILED,
}


@dataclass(frozen=True, slots=True)
class CutGpu:
    """A GPU of which the node reports instances.

    Attributes
    ----------
    geometry
        None for a product that the table does not hold.
    layout
        Names in the table's spelling where it knows them; by start.
    """

    index: int
    geometry: Geometry | None
    layout: tuple[Placement, ...]


def mig_change(node: Node) -> MigChange:
    """Return whether the node's MIG layout is being changed; an unknown state counts as settled."""
    return _CHANGES.get((node.label(names.MIG_CONFIG_STATE) or "").strip().lower(), MigChange.SETTLED)


def sliced_as(node: Node, resource: str = names.NVIDIA_GPU) -> str:
    """Return the profile that a resource of the node counts; `INVALID` for nothing usable, empty for no MIG at all.

    With strategy `single` instances go by the name of whole GPUs, and the product label tells them apart.
    """
    if resource != names.NVIDIA_GPU:
        return profile_of_resource(resource) or ""
    return _single_profile(node.label(names.GPU_PRODUCT) or "")


@lru_cache(maxsize=1024)
def _single_profile(label: str) -> str:
    mig = parse_product_label(label).mig
    if mig is None:
        return ""
    return mig if mig == INVALID else profile_of_resource(resource_name(mig)) or mig


def names_mig(node: Node) -> bool:
    """Return whether the node names MIG instances of any profile, as strategy `mixed` does."""
    return any(name.startswith(names.MIG_RESOURCE_PREFIX) for name, _ in node.capacity.extended)


def mig_resources(node: Node) -> tuple[str, ...]:
    """Return the resources of the node that count MIG instances, sorted; those without a free place are among them."""
    offered = {name for name, _ in (*node.capacity.extended, *node.allocatable.extended)}
    found = {name for name in offered if name.startswith(names.MIG_RESOURCE_PREFIX)}
    if sliced_as(node):
        found.add(names.NVIDIA_GPU)
    return tuple(sorted(found))


def silent_gpus(node: Node) -> int:
    """Return how many GPUs of a node with strategy `mixed` offer nothing, as one with MIG on and no instances does.

    It is what the label counts beyond the whole GPUs and those that are cut; 0 where nothing tells how many are cut.
    """
    label = node.label(names.GPU_COUNT) or ""
    if node.label(names.MIG_STRATEGY) != "mixed" or not (label.isascii() and label.isdigit() and len(label) <= 3):
        return 0
    cut = len(cut_gpus(node))
    if names_mig(node) and not cut:
        return 0
    return max(0, int(label) - node.capacity.count(names.NVIDIA_GPU) - cut)


def instance_memory_mib(node: Node, resource: str) -> int:
    """Return the memory of an instance that the resource counts, in MiB; 0 when not known.

    The label of the profile wins (`nvidia.com/mig-1g.10gb.memory`; `nvidia.com/gpu.memory` under strategy `single`),
    then the table of the product.
    """
    label = names.GPU_MEMORY if resource == names.NVIDIA_GPU else f"{resource}.memory"
    text = node.label(label) or ""
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return int(text)
    geometry = geometry_for(node.label(names.GPU_PRODUCT) or "")
    profile = geometry.profile(sliced_as(node, resource)) if geometry else None
    return profile.memory_mib if profile else 0


def cut_gpus(node: Node) -> tuple[CutGpu, ...]:
    """Return the GPUs that the node reports as cut, by index; none without a report, whatever the counts say."""
    reported = node.gpu_report.gpus if node.gpu_report else ()
    return tuple(_cut(gpu, node.label(names.GPU_PRODUCT) or "") for gpu in reported if gpu.mig)


def _cut(gpu: ReportedGpu, node_product: str) -> CutGpu:
    # NVML writes spaces where labels have hyphens.
    geometry = geometry_for(gpu.product.replace(" ", "-") or node_product)
    layout = []
    for device in gpu.mig:
        profile = geometry.profile(device.profile) if geometry else None
        layout.append(Placement(profile.name if profile else device.profile, device.start))
    return CutGpu(gpu.index, geometry, tuple(sorted(layout, key=lambda placement: placement.start)))


def more_instances(gpus: Collection[CutGpu]) -> dict[str, int]:
    """Return how many more instances of each profile can be made beside those there are, each profile by itself."""
    found: Counter[str] = Counter()
    for gpu in gpus:
        for profile in gpu.geometry.profiles if gpu.geometry else ():
            layout = list(gpu.layout)
            for start in profile.starts:
                placement = Placement(profile.name, start)
                if gpu.geometry and gpu.geometry.is_legal([*layout, placement]):
                    layout.append(placement)
                    found[profile.name] += 1
    return dict(found)
