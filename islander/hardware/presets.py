"""Whole nodes by name: the links between the GPUs of well-known machines.

A preset is what the vendor or a real `nvidia-smi topo -m` shows for one machine. PCIe classes and NUMA nodes differ
between makers of otherwise equal boards; where no source tells them, the usual two sockets with half of the GPUs each
are assumed. `islander.dev/gpus` (a node reports its own links) overrides it, `islander.dev/hardware` names a preset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import combinations
from types import MappingProxyType

from islander.hardware.links import Hardware, LinkMatrix, PcieClass
from islander.hardware.products import Fabric, Product

Pair = tuple[int, int]

MAX_GPUS = 256
"""No node has more; a table of links grows with the square, and labels are not to be trusted with memory."""


def _halves(gpus: int) -> tuple[int, ...]:
    """Return the NUMA map of two sockets with half of the GPUs each; fewer than four GPUs share one socket."""
    return tuple(2 * gpu // gpus if gpus >= 4 else 0 for gpu in range(gpus))


def _all_pairs(members: Iterable[int], links: int) -> dict[Pair, int]:
    return dict.fromkeys(combinations(members, 2), links)


def _neighbour_pairs(gpus: int, links: int) -> dict[Pair, int]:
    return {(gpu, gpu + 1): links for gpu in range(0, gpus - 1, 2)}


def _node(
    name: str,
    gpus: int,
    nvlinks: Mapping[Pair, int],
    *,
    numa: tuple[int | None, ...] | None = None,
    classes: Mapping[Pair, PcieClass] | None = None,
    switched: bool = False,
) -> Hardware:
    """Build a node: NODE inside a NUMA node and SYS across, unless `classes` tells the PCIe class of a pair.

    `switched` hides the NVLinks from the device plugin, which counts only those whose far end is a GPU
    (NVIDIA/go-gpuallocator, internal/links/device.go).
    """
    numa = _halves(gpus) if numa is None else numa
    groups: dict[int, list[int]] = {}
    for gpu, numa_node in enumerate(numa):
        if numa_node is not None:
            groups.setdefault(numa_node, []).append(gpu)
    links = LinkMatrix.from_pairs(gpus, dict(nvlinks), groups.values())
    if classes:
        pcie = [list(row) for row in links.pcie]
        for (i, j), pcie_class in classes.items():
            pcie[i][j] = pcie[j][i] = pcie_class
        links = LinkMatrix(tuple(map(tuple, pcie)), links.nvlinks)
    return Hardware(name, links, links.without_nvlinks() if switched else links, numa)


def _switched(name: str, gpus: int, links_per_pair: int) -> Hardware:
    return _node(name, gpus, _all_pairs(range(gpus), links_per_pair), switched=True)


def _bridged(name: str, gpus: int, links_per_pair: int) -> Hardware:
    return _node(name, gpus, _neighbour_pairs(gpus, links_per_pair))


def _switched_nodes() -> Iterable[Hardware]:
    # NVn to all: DGX-2 NVIDIA/nccl-tests 78; A100 NVIDIA/nccl 1505; A800 NVIDIA/nccl 933; H100 sgl-project/sglang
    # 13973; H200 vllm-project/vllm 29944; B200 vllm-project/vllm 16336; H800, H20, B300: vendor's total bandwidth
    # over twice the rate of a link.
    yield _switched("dgx-2-16", 16, 6)
    for chip, links_per_pair in {"h100": 18, "h800": 8, "h20": 18, "h200": 18, "b200": 18, "b300": 18}.items():
        yield _switched(f"hgx-{chip}-8", 8, links_per_pair)
    # Two GPUs behind one PCIe switch; DGX A100's NUMA map as in NVIDIA/nccl 1505 and 1435.
    behind_one_switch = dict.fromkeys(_neighbour_pairs(8, 1), PcieClass.PXB)
    for chip, links_per_pair in {"a100": 12, "a800": 8}.items():
        nvlinks = _all_pairs(range(8), links_per_pair)
        yield _node(f"hgx-{chip}-8", 8, nvlinks, classes=behind_one_switch, switched=True)
    yield _node(
        "dgx-a100-8",
        8,
        _all_pairs(range(8), 12),
        numa=(3, 3, 1, 1, 5, 5, 7, 7),
        classes=behind_one_switch,
        switched=True,
    )
    # Google Cloud's machine types: sixteen GPUs on two joined boards, or a part of one board behind the same switches.
    yield _switched("a2-megagpu-16g", 16, 12)
    for machine, links_per_pair in {"a2-highgpu": 12, "a2-ultragpu": 12, "a3-highgpu": 18}.items():
        yield _node(f"{machine}-2g", 2, _all_pairs(range(2), links_per_pair), numa=(0, 0), switched=True)
        yield _node(f"{machine}-4g", 4, _all_pairs(range(4), links_per_pair), numa=(0, 0, 0, 0), switched=True)
    # One tray of an NVL72 rack: sgl-project/sglang 11208 (NV18, two GPUs per CPU). Links to other trays are not here.
    for chip in ("gb200", "gb300"):
        yield _switched(f"{chip}-4", 4, 18)


def _mesh_nodes() -> Iterable[Hardware]:
    # Boards of four without a switch: A100 NV4, H100 NV6 (NVIDIA/nccl 1617), H200 as H100 (same links); one NUMA node
    # per GPU in that report and in kubernetes-sigs/dra-driver-nvidia-gpu 214.
    for chip, links_per_pair in {"a100": 4, "h100": 6, "h200": 6}.items():
        yield _node(f"hgx-{chip}-4", 4, _all_pairs(range(4), links_per_pair), numa=(0, 1, 2, 3))
    # DGX-1 with V100: NVIDIA/go-gpuallocator, gpuallocator/common_test.go.
    cube = dict.fromkeys([(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)], 2)
    cube |= dict.fromkeys([(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)], 1)
    # Two GPUs per PCIe switch.
    classes = dict.fromkeys(_neighbour_pairs(8, 1), PcieClass.PIX)
    yield _node("dgx-1v", 8, cube, classes=classes)
    yield _node("dgx-1v-numa", 8, cube)
    # The same cube with another numbering, as other makers' boards show it.
    renumbered = dict.fromkeys([(0, 2), (1, 3), (2, 3), (4, 5), (4, 6), (5, 7), (0, 7), (1, 6)], 2)
    renumbered |= dict.fromkeys([(0, 1), (0, 3), (1, 2), (4, 7), (5, 6), (6, 7), (2, 5), (3, 4)], 1)
    yield _node("v100-sxm2-8-mirrored", 8, renumbered)
    # DGX-1 with P100: one link inside each four, and one to the counterpart (NVIDIA DGX-1 system architecture paper).
    first = _all_pairs(range(4), 1) | _all_pairs(range(4, 8), 1) | {(gpu, gpu + 4): 1 for gpu in range(4)}
    yield _node("dgx-1p", 8, first, classes=classes)
    # AMD's boards of eight: one XGMI link between every two (data sheets).
    for chip in ("mi300x", "mi325x", "mi355x"):
        yield _node(f"{chip}-8", 8, _all_pairs(range(8), 1))


def _bridged_nodes() -> Iterable[Hardware]:
    # Every GPU bridged to its neighbour; vendor's product briefs for the number of links.
    per_pair = {"a30": 4, "a40": 4, "rtx-a6000": 4, "a100-pcie": 12, "a800-pcie": 8}
    per_pair |= {"h100-pcie": 12, "h800-pcie": 8, "h100-nvl": 12}
    for chip, links_per_pair in per_pair.items():
        for gpus in (2, 4, 8):
            yield _bridged(f"{chip}-{gpus}", gpus, links_per_pair)
    # H200 NVL: bridges over four (18 links shared by three peers) or over two; vllm-project/vllm 48071 for the eight.
    yield _node("h200-nvl-8", 8, _all_pairs(range(4), 6) | _all_pairs(range(4, 8), 6))
    yield _node("h200-nvl-4", 4, _all_pairs(range(4), 6), numa=(0, 0, 0, 0))
    for gpus in (2, 4, 8):
        yield _bridged(f"h200-nvl-pairs-{gpus}", gpus, 18)


def _irregular_nodes() -> Iterable[Hardware]:
    # NVIDIA/k8s-device-plugin 546: pairs that are not neighbours; all else SYS.
    crossed = dict.fromkeys([(0, 2), (1, 3), (4, 5), (6, 7)], 12)
    all_sys = dict.fromkeys(combinations(range(8), 2), PcieClass.SYS)
    yield _node("a100-pcie-8-crossed", 8, crossed, classes=all_sys)
    yield _node("a100-pcie-6-crossed", 6, dict.fromkeys([(0, 3), (1, 2), (4, 5)], 12))
    # NVIDIA/k8s-device-plugin 436: one bridge for four GPUs.
    yield _node("a100-pcie-4-one-bridge", 4, {(0, 1): 12}, numa=(0, 0, 0, 0))
    crossed_four = dict.fromkeys([(0, 2), (1, 3)], 4)
    one_bridge_root = dict.fromkeys(combinations(range(4), 2), PcieClass.PHB)
    yield _node("rtx-a6000-4-crossed", 4, crossed_four, numa=(0, 0, 0, 0), classes=one_bridge_root)
    # vllm-project/vllm 16336: GPU 2 has lost the fabric, the other seven have not.
    seven = _all_pairs([gpu for gpu in range(8) if gpu != 2], 18)
    yield _node("hgx-b200-8-without-2", 8, seven, switched=True)


PCIE_ONLY_CHIPS: Mapping[str, str] = MappingProxyType(
    {
        "T4": "t4",
        "A10": "a10",
        "A10G": "a10g",
        "L4": "l4",
        "L40": "l40",
        "L40S": "l40s",
        "RTX-PRO-6000": "rtx-pro-6000",
        "V100-PCIe-16GB": "v100-pcie",
        "V100-PCIe-32GB": "v100-pcie",
        "P100-PCIe-16GB": "p100-pcie",
    }
)


@lru_cache(maxsize=1024)
def _pcie_only(chip: str, gpus: int) -> Hardware:
    numa: tuple[int | None, ...] = _halves(gpus) if gpus in (1, 2, 4, 8) else (None,) * gpus
    return _node(f"{chip}-{gpus}", gpus, {}, numa=numa)


def _pcie_nodes() -> Iterable[Hardware]:
    # `pcie-n` is for a bridgeable product without bridges. Two sockets with half of the GPUs each, NODE inside.
    for chip in ("pcie", *sorted(set(PCIE_ONLY_CHIPS.values()))):
        for gpus in (1, 2, 4, 8):
            yield _pcie_only(chip, gpus)


PRESETS: Mapping[str, Hardware] = MappingProxyType(
    {
        hardware.name: hardware
        for group in (_switched_nodes(), _mesh_nodes(), _bridged_nodes(), _irregular_nodes(), _pcie_nodes())
        for hardware in group
    }
)

# The node that a product's label and a count prove. Not here, because label and count prove nothing: bridged products
# (which GPUs, if any, are bridged?), V100 and P100 with SXM2 (makers number the cube differently, and some boards join
# only pairs), a part of a board in a virtual machine, MI250, GH200 with two.
_USUAL: Mapping[tuple[str, int], str] = MappingProxyType(
    {
        ("V100-SXM3-32GB", 16): "dgx-2-16",
        ("A100-SXM4-40GB", 4): "hgx-a100-4",
        ("A100-SXM4-40GB", 8): "hgx-a100-8",
        ("A100-SXM4-40GB", 16): "a2-megagpu-16g",
        ("A100-SXM4-80GB", 4): "hgx-a100-4",
        ("A100-SXM4-80GB", 8): "hgx-a100-8",
        ("A800-SXM4-80GB", 8): "hgx-a800-8",
        ("H100-SXM-80GB", 4): "hgx-h100-4",
        ("H100-SXM-80GB", 8): "hgx-h100-8",
        ("H800-SXM-80GB", 8): "hgx-h800-8",
        ("H20", 8): "hgx-h20-8",
        ("H20-141GB", 8): "hgx-h20-8",
        ("H200-SXM-141GB", 4): "hgx-h200-4",
        ("H200-SXM-141GB", 8): "hgx-h200-8",
        ("B200", 8): "hgx-b200-8",
        ("B300", 8): "hgx-b300-8",
        ("GB200", 4): "gb200-4",
        ("GB300", 4): "gb300-4",
        ("MI300X", 8): "mi300x-8",
        ("MI325X", 8): "mi325x-8",
        ("MI355X", 8): "mi355x-8",
    }
)


_PCIE_ONLY_COUNTS = frozenset(str(count) for count in range(1, 17))


def preset(name: str) -> Hardware | None:
    """Return the node of that name, None for an unknown name; names of PCIe-only nodes go up to 16 GPUs."""
    found = PRESETS.get(name)
    chip, _, count = name.rpartition("-")
    if found is None and chip in {"pcie", *PCIE_ONLY_CHIPS.values()} and count in _PCIE_ONLY_COUNTS:
        return _pcie_only(chip, int(count))
    return found


def preset_for(product: Product, gpus: int) -> Hardware:
    """Return the node that a product and a number of GPUs prove, and unknown hardware where they prove too little.

    Proven is only a node whose GPUs are all linked alike or not at all. So whatever GPUs the device plugin picks, the
    answer to "are they an island" does not rest on an assumed PCIe tree. What labels can never tell is a sick link:
    a node whose GPU has lost the fabric (see `hgx-b200-8-without-2`) needs the node's own report.

    For four GPUs with SXM the links of the board of four are given (`NV4`, `NV6`); half of a board of eight has more.

    Raises
    ------
    ValueError
        The number of GPUs is negative or above `MAX_GPUS`.
    """
    name = _USUAL.get((product.name, gpus))
    if name is not None:
        return PRESETS[name]
    if product.fabric is Fabric.NONE and 1 <= gpus <= MAX_GPUS:
        return _pcie_only(PCIE_ONLY_CHIPS[product.name], gpus)
    if gpus == 1:
        return _pcie_only("pcie", 1)
    return unknown_hardware(gpus)


@lru_cache(maxsize=MAX_GPUS + 1)
def unknown_hardware(gpus: int) -> Hardware:
    """Return a node of which only the number of GPUs is known: no NVLinks, no NUMA map, every pair SYS.

    Raises
    ------
    ValueError
        The number of GPUs is negative or above `MAX_GPUS`.
    """
    if not 0 <= gpus <= MAX_GPUS:
        raise ValueError(f"a node cannot have {gpus} GPUs; expected 0 to {MAX_GPUS}")
    links = LinkMatrix.from_pairs(gpus, {})
    return Hardware(f"unknown-{gpus}", links, links, (None,) * gpus, topology_known=False)
