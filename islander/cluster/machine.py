"""Which hardware a node is: from its own report, its annotation, or its labels, in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from islander.cluster import names
from islander.cluster.mig_devices import instance_memory_mib, sliced_as
from islander.cluster.node import Node, ReportedGpu
from islander.hardware.links import Hardware
from islander.hardware.presets import MAX_GPUS, preset, preset_for, unknown_hardware
from islander.hardware.products import parse_product_label, product_by_label
from islander.hardware.reported import reported_hardware
from islander.hardware.topo import MalformedTopology, matrix_from_cells

Cells = tuple[tuple[str, ...], ...]


class _Facts(NamedTuple):
    """All that the hardware of a node is read from; equal facts give the same hardware."""

    links: Cells
    plugin_links: Cells
    numa: tuple[tuple[int, int | None], ...]
    annotation: str | None
    product: str
    count_label: str
    gpus: int
    heterogeneous: bool
    slices: bool


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Memory of the GPUs of one node.

    Attributes
    ----------
    total_mib
        Of all GPUs together, MiB; 0 when not known.
    per_rank_mib
        Of the smallest GPU, MiB: what each rank of a tensor parallel group can count on, since all ranks hold equal
        shares and kubelet chooses the GPUs.
    heterogeneous
        True when the node reports GPUs of different products or sizes.
    """

    total_mib: int
    per_rank_mib: int
    heterogeneous: bool = False


def hardware_of(node: Node, resource: str = names.NVIDIA_GPU) -> tuple[Hardware, tuple[str, ...]]:
    """Return the hardware behind a node's GPU resource, and a sentence for each thing that was not believed.

    The links of the node's report win, then the annotation `islander.dev/hardware`, then what product and number of
    GPUs prove; else only the number is known. The hardware of shared GPUs is that of the GPUs, not of the replicas.
    """
    labels = dict(node.labels)
    report = node.gpu_report
    reported = report.gpus if report else ()
    return _hardware(
        _Facts(
            links=report.links if report else (),
            plugin_links=report.plugin_links if report else (),
            numa=tuple((gpu.index, gpu.numa) for gpu in reported if gpu.numa is not None),
            annotation=node.annotation(names.HARDWARE),
            product=_product_label(labels, resource),
            count_label=labels.get(names.GPU_COUNT, "") if resource != names.AMD_GPU else "",
            gpus=_gpu_count(node, labels, resource),
            heterogeneous=_is_heterogeneous(reported),
            slices=_is_sliced(labels, resource),
        )
    )


def is_shared(node: Node) -> bool:
    """Return whether the node's `nvidia.com/gpu` are replicas of shared GPUs: two of them may be the same GPU (G28)."""
    return _is_shared(dict(node.labels))


def whole_gpus(node: Node, resource: str = names.NVIDIA_GPU) -> bool:
    """Return whether one device of the resource is one whole GPU: neither a replica nor a MIG instance."""
    labels = dict(node.labels)
    if resource == names.NVIDIA_GPU and _is_shared(labels):
        return False
    return not _is_sliced(labels, resource)


def physical_gpus(node: Node, resource: str = names.NVIDIA_GPU) -> int:
    """Return how many GPUs stand behind the resource; 0 when it counts MIG instances only.

    Replicas of shared GPUs are counted by the label `nvidia.com/gpu.count`, else by dividing by the replicas.
    """
    labels = dict(node.labels)
    return 0 if _is_sliced(labels, resource) else _gpu_count(node, labels, resource)


def gpu_memory(node: Node, resource: str = names.NVIDIA_GPU) -> GpuMemory:
    """Return the memory of the node's GPUs: of each by its report, else by label, else by the product catalogue.

    One label cannot speak for different GPUs (G11), so it counts only where no GPU says its own size. Where MIG
    instances go by the name of GPUs, it is the memory of one instance.
    """
    if resource == names.NVIDIA_GPU and sliced_as(node):
        return GpuMemory(0, instance_memory_mib(node, resource))
    labels = dict(node.labels)
    reported = node.gpu_report.gpus if node.gpu_report else ()
    sizes = [gpu.memory_mib for gpu in reported if gpu.memory_mib]
    heterogeneous = _is_heterogeneous(reported)
    if sizes and len(sizes) == len(reported):
        return GpuMemory(sum(sizes), min(sizes), heterogeneous)
    size = _whole(labels.get(names.GPU_MEMORY, "")) if resource != names.AMD_GPU else None
    if size is None:
        product = product_by_label(_product_label(labels, resource))
        size = product.memory_mib if product else 0
    smallest = min([size, *sizes]) if size else 0
    return GpuMemory(size * physical_gpus(node, resource), smallest, heterogeneous)


@lru_cache(maxsize=8192)
def _hardware(facts: _Facts) -> tuple[Hardware, tuple[str, ...]]:
    warnings: list[str] = []
    if facts.count_label and _whole(facts.count_label) is None:
        warnings.append(f"label {names.GPU_COUNT}: {facts.count_label!r:.40} is not a number; it is ignored")
    if facts.heterogeneous:
        warnings.append("its GPUs are of different kinds; product labels tell only one of them")
    found = _by_report(facts, warnings) or _by_annotation(facts, warnings) or _by_labels(facts, warnings)
    return found, tuple(warnings)


def _by_report(facts: _Facts, warnings: list[str]) -> Hardware | None:
    if not facts.links:
        return None
    if len(facts.links) < facts.gpus:
        warnings.append(
            f"annotation {names.GPUS}: links are ignored: {len(facts.links)} rows for the node's {facts.gpus} GPUs"
        )
        return None
    numa_of = dict(facts.numa)
    numa = tuple(numa_of.get(gpu) for gpu in range(len(facts.links)))
    key = "links"
    try:
        links, doubts = matrix_from_cells(facts.links, numa)
        warnings.extend(f"annotation {names.GPUS}: links: {doubt}" for doubt in doubts)
        if not facts.plugin_links:
            return reported_hardware(links, numa=numa)
        key = "pluginLinks"
        plugin_links, doubts = matrix_from_cells(facts.plugin_links, numa)
        warnings.extend(f"annotation {names.GPUS}: pluginLinks: {doubt}" for doubt in doubts)
        return reported_hardware(links, plugin_links, numa)
    except MalformedTopology as error:
        warnings.append(f"annotation {names.GPUS}: {key} are ignored: {error}")
        return None


def _by_annotation(facts: _Facts, warnings: list[str]) -> Hardware | None:
    if facts.annotation is None:
        return None
    found = preset(facts.annotation)
    if found is None:
        warnings.append(f"annotation {names.HARDWARE}: {facts.annotation!r:.80} is not a known preset; it is ignored")
    elif found.gpus < facts.gpus:
        warnings.append(
            f"annotation {names.HARDWARE}: {facts.annotation} has {found.gpus} GPUs, the node {facts.gpus}; "
            "it is ignored"
        )
        return None
    return found


def _by_labels(facts: _Facts, warnings: list[str]) -> Hardware:
    gpus = facts.gpus
    if gpus > MAX_GPUS:
        warnings.append(f"{gpus} GPUs are more than a node has; their links are not known")
        gpus = MAX_GPUS
    if facts.slices or not facts.product or facts.heterogeneous or not gpus:
        return unknown_hardware(0 if facts.slices else gpus)
    product = product_by_label(facts.product)
    if product is None:
        warnings.append(f"GPU product {facts.product!r:.80} is not in the catalogue; its links are not known")
        return unknown_hardware(gpus)
    return preset_for(product, gpus)


def _gpu_count(node: Node, labels: Mapping[str, str], resource: str) -> int:
    offered = max(node.capacity.count(resource), node.allocatable.count(resource))
    if resource != names.NVIDIA_GPU:
        return offered
    reported = len(node.gpu_report.gpus) if node.gpu_report else 0
    labelled = _whole(labels.get(names.GPU_COUNT, ""))
    if _is_shared(labels):
        replicas = _whole(labels.get(names.GPU_REPLICAS, "")) or 1
        return reported or labelled or -(-offered // replicas)
    # With MIG strategy `mixed` the GPUs that are cut up are not offered under this name, but are part of the machine.
    cut_up = any(name.startswith(names.MIG_RESOURCE_PREFIX) for name, _ in node.capacity.extended)
    if offered and not cut_up:
        return max(offered, reported)
    return max(offered, reported, labelled or 0)


def _product_label(labels: Mapping[str, str], resource: str) -> str:
    return labels.get(names.AMD_PRODUCT if resource == names.AMD_GPU else names.GPU_PRODUCT, "")


def _is_shared(labels: Mapping[str, str]) -> bool:
    return (
        parse_product_label(labels.get(names.GPU_PRODUCT, "")).shared
        or (_whole(labels.get(names.GPU_REPLICAS, "")) or 0) > 1
        or labels.get(names.GPU_SHARING_STRATEGY, "none") not in ("", "none")
    )


def _is_sliced(labels: Mapping[str, str], resource: str) -> bool:
    if resource.startswith(names.MIG_RESOURCE_PREFIX):
        return True
    return resource == names.NVIDIA_GPU and parse_product_label(labels.get(names.GPU_PRODUCT, "")).mig is not None


def _is_heterogeneous(reported: tuple[ReportedGpu, ...]) -> bool:
    products = {gpu.product for gpu in reported if gpu.product}
    sizes = {gpu.memory_mib for gpu in reported if gpu.memory_mib}
    return len(products) > 1 or len(sizes) > 1


def _whole(text: str) -> int | None:
    """Return the number that a label's value writes, None when it writes none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
