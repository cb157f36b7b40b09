"""Catalogue of data-centre GPUs: how node labels spell them, their memory, and what joins them inside a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

NVIDIA = "nvidia.com/gpu"
AMD = "amd.com/gpu"


class Fabric(StrEnum):
    """What joins the GPUs of one node besides PCIe.

    Attributes
    ----------
    NVSWITCH
        A switch, or a board with direct links between all GPUs (the boards of four): every pair is linked.
    BRIDGE
        Bridges that are bought apart from the GPU, between two or four neighbours: the label does not tell which GPUs
        they join, or whether there are any.
    MESH
        Direct links that do not join every pair, or that depend on the maker of the board.
    XGMI
        AMD's direct links between all GPUs of the board.
    NONE
        PCIe only; the product has no other connector.
    """

    NVSWITCH = "nvswitch"
    BRIDGE = "bridge"
    MESH = "mesh"
    XGMI = "xgmi"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Product:
    """A GPU product.

    Attributes
    ----------
    name
        Short name, unique.
    labels
        Values of `nvidia.com/gpu.product` (or `amd.com/gpu.product-name`) that mean this product, in full spelling.
    memory_mib
        Total memory of one GPU in MiB as the driver reports it (`nvidia-smi`, `nvidia.com/gpu.memory`); a driver may
        report up to 4 % less, because older ones subtract what the firmware reserves.
    fabric
        What joins the GPUs of the usual node.
    links_per_pair
        Links between two joined GPUs of the usual largest node, the n of `NVn`; 0 when there are none.
    link_gb_s
        Bandwidth of one such link in one direction, GB/s; 0 when there are none.
    pcie_gb_s
        Bandwidth of the product's PCIe connector in one direction, GB/s (generation 3: 16, 4: 32, 5: 64; x16; L4,
        T4 and A10 included, whose slots may be narrower).
    source
        Where label, memory and links were seen.
    resource
        The extended resource under which a device plugin offers whole GPUs.
    """

    name: str
    labels: tuple[str, ...]
    memory_mib: int
    fabric: Fabric
    links_per_pair: int
    link_gb_s: float
    pcie_gb_s: int
    source: str
    resource: str = NVIDIA


# Rates of one link in one direction, GB/s. NVLink: NVIDIA's architecture papers for Pascal (first generation), Volta to
# Hopper (second to fourth), Blackwell (fifth). XGMI: AMD's data sheets of MI250, MI300X, MI355X (half of the figure for
# both directions). Bridges of A30, A40 and RTX A6000: the data sheets' totals over four links.
_NVLINK1, _NVLINK2_TO_4, _NVLINK5 = 20, 25, 50
_NVLINK_A40 = 14.0625
_XGMI_MI200, _XGMI_MI300, _XGMI_MI355 = 50, 64, 76.8
_PCIE3, _PCIE4, _PCIE5 = 16, 32, 64

_GFD = "labels: GPU feature discovery's documentation and nodes' labels in public issues"

# Links of the boards: `nvidia-smi topo -m` in public issues, named by repository and number. Memory: `nvidia-smi`.
# Compiled 2026-12-01. "nominal" marks a memory size that is the vendor's figure, not a driver's report.
PRODUCTS: tuple[Product, ...] = (
    Product(
        "P100-SXM2-16GB",
        ("Tesla-P100-SXM2-16GB",),
        16384,
        Fabric.MESH,
        1,
        _NVLINK1,
        _PCIE3,
        f"{_GFD}; links: NVIDIA DGX-1 system architecture paper; memory nominal",
    ),
    Product(
        "P100-PCIe-16GB",
        ("Tesla-P100-PCIE-16GB",),
        16384,
        Fabric.NONE,
        0,
        0,
        _PCIE3,
        f"{_GFD}; no NVLink: Tesla P100 data sheet; memory nominal",
    ),
    Product(
        "V100-SXM2-16GB",
        ("Tesla-V100-SXM2-16GB",),
        16384,
        Fabric.MESH,
        2,
        _NVLINK2_TO_4,
        _PCIE3,
        f"{_GFD}; links: NVIDIA/go-gpuallocator tests; memory nominal",
    ),
    Product(
        "V100-SXM2-32GB",
        ("Tesla-V100-SXM2-32GB", "Tesla-V100-SXM2-32GB-LS"),
        32768,
        Fabric.MESH,
        2,
        _NVLINK2_TO_4,
        _PCIE3,
        f"{_GFD}; links: NVIDIA/go-gpuallocator tests; memory nominal",
    ),
    Product(
        "V100-SXM3-32GB",
        ("Tesla-V100-SXM3-32GB", "Tesla-V100-SXM3-32GB-H"),
        32768,
        Fabric.NVSWITCH,
        6,
        _NVLINK2_TO_4,
        _PCIE3,
        f"{_GFD}; links: NVIDIA/nccl-tests issue 78 (DGX-2); memory nominal",
    ),
    Product(
        "V100-PCIe-16GB",
        ("Tesla-V100-PCIE-16GB",),
        16384,
        Fabric.NONE,
        0,
        0,
        _PCIE3,
        f"{_GFD}; no NVLink: Tesla V100 data sheet; memory nominal",
    ),
    Product(
        "V100-PCIe-32GB",
        ("Tesla-V100-PCIE-32GB", "Tesla-V100S-PCIE-32GB"),
        32768,
        Fabric.NONE,
        0,
        0,
        _PCIE3,
        f"{_GFD}; no NVLink: Tesla V100 data sheet; memory nominal",
    ),
    Product("T4", ("Tesla-T4",), 15360, Fabric.NONE, 0, 0, _PCIE3, f"{_GFD}; T4 data sheet"),
    Product("A10", ("NVIDIA-A10",), 23028, Fabric.NONE, 0, 0, _PCIE4, f"{_GFD}; A10 data sheet"),
    Product("A10G", ("NVIDIA-A10G",), 23028, Fabric.NONE, 0, 0, _PCIE4, f"{_GFD}; AWS G5 instance page"),
    Product(
        "A30",
        ("NVIDIA-A30",),
        24576,
        Fabric.BRIDGE,
        4,
        _NVLINK2_TO_4,
        _PCIE4,
        f"{_GFD}; links: A30 data sheet (200 GB/s in a pair)",
    ),
    Product(
        "A40",
        ("NVIDIA-A40",),
        46068,
        Fabric.BRIDGE,
        4,
        _NVLINK_A40,
        _PCIE4,
        f"{_GFD}; links: NVIDIA/k8s-device-plugin issue 1193 (NV4 pairs), A40 data sheet (112.5 GB/s in a pair)",
    ),
    Product(
        "RTX-A6000",
        ("NVIDIA-RTX-A6000",),
        49140,
        Fabric.BRIDGE,
        4,
        _NVLINK_A40,
        _PCIE4,
        f"{_GFD}; links: RTX A6000 data sheet (112.5 GB/s in a pair)",
    ),
    Product(
        "A100-SXM4-40GB",
        ("NVIDIA-A100-SXM4-40GB",),
        40960,
        Fabric.NVSWITCH,
        12,
        _NVLINK2_TO_4,
        _PCIE4,
        f"{_GFD}; links: NVIDIA/nccl issue 1505",
    ),
    Product(
        "A100-SXM4-80GB",
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM-80GB"),
        81920,
        Fabric.NVSWITCH,
        12,
        _NVLINK2_TO_4,
        _PCIE4,
        f"{_GFD}; links: NVIDIA/nccl issue 1435",
    ),
    Product(
        "A100-PCIe-40GB",
        ("NVIDIA-A100-PCIE-40GB",),
        40960,
        Fabric.BRIDGE,
        12,
        _NVLINK2_TO_4,
        _PCIE4,
        f"{_GFD}; links: NVIDIA/k8s-device-plugin issue 546",
    ),
    Product(
        "A100-PCIe-80GB",
        ("NVIDIA-A100-80GB-PCIe",),
        81920,
        Fabric.BRIDGE,
        12,
        _NVLINK2_TO_4,
        _PCIE4,
        f"{_GFD}; links: A100 PCIe product brief (three bridges, NV12)",
    ),
    Product(
        "A800-SXM4-80GB",
        ("NVIDIA-A800-SXM4-80GB",),
        81920,
        Fabric.NVSWITCH,
        8,
        _NVLINK2_TO_4,
        _PCIE4,
        f"{_GFD}; links: NVIDIA/nccl issue 933 (NV8 to all)",
    ),
    Product(
        "A800-PCIe-80GB",
        ("NVIDIA-A800-80GB-PCIe",),
        81920,
        Fabric.BRIDGE,
        8,
        _NVLINK2_TO_4,
        _PCIE4,
        f"{_GFD}; links: A800 PCIe product guide (400 GB/s in a pair)",
    ),
    Product("L4", ("NVIDIA-L4",), 23034, Fabric.NONE, 0, 0, _PCIE4, f"{_GFD}; L4 data sheet"),
    Product("L40", ("NVIDIA-L40",), 46068, Fabric.NONE, 0, 0, _PCIE4, f"{_GFD}; L40 data sheet"),
    Product("L40S", ("NVIDIA-L40S",), 46068, Fabric.NONE, 0, 0, _PCIE4, f"{_GFD}; L40S data sheet"),
    Product(
        "RTX-PRO-6000",
        (
            "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
            "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
            "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
        ),
        97887,
        Fabric.NONE,
        0,
        0,
        _PCIE5,
        f"{_GFD}; MIG user guide (memory); RTX PRO 6000 data sheet",
    ),
    Product(
        "H20",
        ("NVIDIA-H20",),
        97871,
        Fabric.NVSWITCH,
        18,
        _NVLINK2_TO_4,
        _PCIE5,
        f"{_GFD}; memory: NVIDIA/nvtrust issue 128; links: H20 brief (900 GB/s)",
    ),
    Product(
        "H20-141GB",
        ("NVIDIA-H20-3e",),
        143771,
        Fabric.NVSWITCH,
        18,
        _NVLINK2_TO_4,
        _PCIE5,
        f"{_GFD}; memory as H200 (same HBM3e, nominal 141 GB); links: H20 brief (900 GB/s)",
    ),
    Product(
        "H100-SXM-80GB",
        ("NVIDIA-H100-80GB-HBM3",),
        81559,
        Fabric.NVSWITCH,
        18,
        _NVLINK2_TO_4,
        _PCIE5,
        f"{_GFD}; links: sgl-project/sglang issue 13973",
    ),
    Product(
        "H100-PCIe-80GB",
        ("NVIDIA-H100-PCIe",),
        81559,
        Fabric.BRIDGE,
        12,
        _NVLINK2_TO_4,
        _PCIE5,
        f"{_GFD}; links: H100 PCIe product brief (600 GB/s in a pair)",
    ),
    Product(
        "H100-NVL-94GB",
        ("NVIDIA-H100-NVL",),
        95830,
        Fabric.BRIDGE,
        12,
        _NVLINK2_TO_4,
        _PCIE5,
        f"{_GFD}; links: H100 NVL product brief (600 GB/s in a pair)",
    ),
    Product(
        "H800-SXM-80GB",
        ("NVIDIA-H800",),
        81559,
        Fabric.NVSWITCH,
        8,
        _NVLINK2_TO_4,
        _PCIE5,
        f"{_GFD}; links: H800 brief (400 GB/s); memory as H100",
    ),
    Product(
        "H800-PCIe-80GB",
        ("NVIDIA-H800-PCIe",),
        81559,
        Fabric.BRIDGE,
        8,
        _NVLINK2_TO_4,
        _PCIE5,
        f"{_GFD}; links: H800 PCIe product guide (400 GB/s in a pair); memory as H100",
    ),
    Product(
        "H200-SXM-141GB",
        ("NVIDIA-H200",),
        143771,
        Fabric.NVSWITCH,
        18,
        _NVLINK2_TO_4,
        _PCIE5,
        f"{_GFD}; links: vllm-project/vllm issue 29944",
    ),
    Product(
        "H200-NVL-141GB",
        ("NVIDIA-H200-NVL",),
        143771,
        Fabric.BRIDGE,
        18,
        _NVLINK2_TO_4,
        _PCIE5,
        f"{_GFD}; links: vllm-project/vllm issue 48071 (two bridged islands), H200 NVL brief (900 GB/s: "
        "NV18 in a pair, NV6 to each of three)",
    ),
    Product(
        "GH200-96GB",
        ("NVIDIA-GH200-480GB", "NVIDIA-GH200-120GB", "NVIDIA-GH200-96GB-HBM3"),
        97871,
        Fabric.MESH,
        18,
        _NVLINK2_TO_4,
        _PCIE5,
        f"{_GFD} (480GB and 120GB count the CPU's memory); one GPU per node is usual",
    ),
    Product(
        "GH200-144GB",
        ("NVIDIA-GH200-144G-HBM3e",),
        147456,
        Fabric.MESH,
        18,
        _NVLINK2_TO_4,
        _PCIE5,
        "label: NVIDIA/mig-parted issue 139; memory nominal; one or two GPUs per node",
    ),
    Product(
        "B200",
        ("NVIDIA-B200",),
        183359,
        Fabric.NVSWITCH,
        18,
        _NVLINK5,
        _PCIE5,
        f"{_GFD}; links: vllm-project/vllm issue 16336",
    ),
    Product(
        "B300",
        ("NVIDIA-B300-SXM6-AC", "NVIDIA-B300-SXM6-PC", "NVIDIA-B300"),
        275040,
        Fabric.NVSWITCH,
        18,
        _NVLINK5,
        _PCIE5,
        f"{_GFD}; links: HGX B300 data sheet (1800 GB/s)",
    ),
    Product(
        "GB200",
        ("NVIDIA-GB200",),
        189471,
        Fabric.NVSWITCH,
        18,
        _NVLINK5,
        _PCIE5,
        f"{_GFD}; links: NVIDIA/k8s-test-infra issue 371, sgl-project/sglang issue 11208",
    ),
    Product(
        "GB300",
        ("NVIDIA-GB300",),
        284208,
        Fabric.NVSWITCH,
        18,
        _NVLINK5,
        _PCIE5,
        f"{_GFD}; links as GB200 (same tray and switches)",
    ),
    Product(
        "MI250",
        ("AMD_Instinct_MI250X_MI250", "AMD_Instinct_MI250X", "AMD_Instinct_MI250"),
        65536,
        Fabric.MESH,
        1,
        _XGMI_MI200,
        _PCIE4,
        "label: AMD's marketing name as its node labeller cleans it; one device is one die of the package, half of its "
        "128 GB (nominal); links: ROCm/rocm-systems issue 5763 (not every pair)",
        AMD,
    ),
    Product(
        "MI300X",
        ("AMD_Instinct_MI300X_OAM", "AMD_Instinct_MI300X"),
        196608,
        Fabric.XGMI,
        1,
        _XGMI_MI300,
        _PCIE5,
        "label: AMD device plugin's documentation; memory nominal (192G); links: MI300X data sheet (one to each)",
        AMD,
    ),
    Product(
        "MI325X",
        ("AMD_Instinct_MI325_OAM", "AMD_Instinct_MI325X_OAM", "AMD_Instinct_MI325X"),
        262144,
        Fabric.XGMI,
        1,
        _XGMI_MI300,
        _PCIE5,
        "label: nodes' labels in public repositories; memory nominal (256G); links: MI325X data sheet",
        AMD,
    ),
    Product(
        "MI355X",
        ("AMD_Instinct_MI355_OAM", "AMD_Instinct_MI355X_OAM", "AMD_Instinct_MI355X"),
        294912,
        Fabric.XGMI,
        1,
        _XGMI_MI355,
        _PCIE5,
        "label: nodes' labels in public repositories; memory nominal (288G); links: MI355X data sheet",
        AMD,
    ),
)


@dataclass(frozen=True, slots=True)
class ProductLabel:
    """A product label taken apart.

    Attributes
    ----------
    name
        The label without the suffixes that GPU feature discovery adds.
    shared
        True when the offered devices are replicas of shared GPUs (time-slicing or MPS), not GPUs.
    mig
        MIG profile when the offered devices are MIG instances (strategy `single`), `INVALID` when the node's layouts
        do not allow that strategy, None for whole GPUs.
    """

    name: str
    shared: bool = False
    mig: str | None = None


def parse_product_label(label: str) -> ProductLabel:
    """Take the value of a product label apart: `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED` and the like.

    References
    ----------
    Suffixes as NVIDIA/k8s-device-plugin writes them (`internal/lm`); `-SHARED` comes last.
    """
    label = label.strip()
    unshared = label.removesuffix("-SHARED")
    name, _, mig = unshared.partition("-MIG-")
    return ProductLabel(name, shared=unshared != label, mig=mig or None)


def _key(name: str) -> str:
    # Older drivers write `A100-SXM4-40GB`, `Tesla` went in and out of names, and labellers of AMD's GPUs differ in
    # the character they put for a space.
    return name.casefold().replace("_", "-").removeprefix("nvidia-").removeprefix("tesla-")


_BY_KEY: Mapping[str, Product] = MappingProxyType({_key(label): p for p in PRODUCTS for label in p.labels})

PRODUCT_BY_NAME: Mapping[str, Product] = MappingProxyType({p.name: p for p in PRODUCTS})


@lru_cache(maxsize=1024)
def product_by_label(label: str) -> Product | None:
    """Return the product that a node's label names, None for a product that the catalogue does not hold.

    Suffixes for MIG and sharing, a missing `NVIDIA-` and the case of letters do not matter.
    """
    return _BY_KEY.get(_key(parse_product_label(label).name))
