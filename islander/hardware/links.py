"""The links between the GPUs of one node, as a square table of PCIe classes and NVLink counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Self


class PcieClass(IntEnum):
    """The closest common ancestor of two GPUs in the PCIe tree; a larger value is a shorter way.

    The values are the points that NVIDIA's device plugin gives to each class (go-gpuallocator,
    gpuallocator/besteffort_policy.go), so that one table serves both quality and prediction.
    """

    SYS = 10
    NODE = 20
    PHB = 30
    PXB = 40
    PIX = 50
    BOARD = 60


PCIE_WORDS: Mapping[PcieClass, str] = MappingProxyType(
    {
        PcieClass.SYS: "SYS",
        PcieClass.NODE: "NODE",
        PcieClass.PHB: "PHB",
        PcieClass.PXB: "PXB",
        PcieClass.PIX: "PIX",
        PcieClass.BOARD: "PSB",
    }
)
"""The word of `nvidia-smi topo -m` for each class."""


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """Links between every two GPUs of one node.

    Attributes
    ----------
    pcie
        Shape (gpus, gpus), symmetric; `PcieClass` values. The diagonal is ignored. An unknown class is `SYS`.
    nvlinks
        Shape (gpus, gpus), symmetric; number of NVLinks between the pair, 0 for none. The diagonal is 0.

    Raises
    ------
    ValueError
        A table is not square, not symmetric, or holds a value outside its range.
    """

    pcie: tuple[tuple[int, ...], ...]
    nvlinks: tuple[tuple[int, ...], ...]
    # Tables are keys of every memo of the policy; hashing 128 cells on each look-up would cost more than the look-up.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the shape and remember the hash."""
        size = len(self.pcie)
        for name, table in (("pcie", self.pcie), ("nvlinks", self.nvlinks)):
            if len(table) != size or any(len(row) != size for row in table):
                raise ValueError(f"link table {name!r} is not square with {size} rows")
            if any(table[i][j] != table[j][i] for i in range(size) for j in range(i)):
                raise ValueError(f"link table {name!r} is not symmetric")
        if any(n < 0 for row in self.nvlinks for n in row):
            raise ValueError("link table 'nvlinks' has a negative count")
        object.__setattr__(self, "_hash", hash((self.pcie, self.nvlinks)))

    def __hash__(self) -> int:
        """Return the remembered hash."""
        return self._hash

    @property
    def gpus(self) -> int:
        """Number of GPUs of the node."""
        return len(self.pcie)

    @classmethod
    def from_pairs(cls, gpus: int, nvlinks: dict[tuple[int, int], int], numa: Iterable[Iterable[int]] = ()) -> Self:
        """Build a table from the linked pairs and the NUMA nodes (NODE inside one, SYS across)."""
        group = {g: k for k, members in enumerate(numa) for g in members}
        counts = {(min(pair), max(pair)): n for pair, n in nvlinks.items()}

        def pcie_class(i: int, j: int) -> int:
            together = i in group and group.get(i) == group.get(j)
            return PcieClass.NODE if together else PcieClass.SYS

        return cls(
            pcie=tuple(tuple(0 if i == j else pcie_class(i, j) for j in range(gpus)) for i in range(gpus)),
            nvlinks=tuple(tuple(counts.get((min(i, j), max(i, j)), 0) for j in range(gpus)) for i in range(gpus)),
        )

    def without_nvlinks(self) -> LinkMatrix:
        """Return the same node with its NVLinks hidden, as an allocator that is blind to switches sees it."""
        return LinkMatrix(self.pcie, tuple(tuple(0 for _ in row) for row in self.nvlinks))


def gpus_of(mask: int) -> Iterator[int]:
    """Yield the GPU indexes of a bit mask (bit i stands for GPU i), in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(indexes: Iterable[int]) -> int:
    """Return the bit mask of GPU indexes: bit i stands for GPU i."""
    mask = 0
    for index in indexes:
        mask |= 1 << index
    return mask


@dataclass(frozen=True, slots=True)
class Hardware:
    """The hardware of one kind of node: everything that identical nodes share.

    Attributes
    ----------
    name
        Preset name (`hgx-h100-8`), or a content-derived name for links that a node reports itself.
    links
        The true links: what NCCL and vLLM will find.
    plugin_links
        The links as NVIDIA's device plugin counts them: blind to NVLink that runs through a switch.
    numa
        NUMA node of each GPU, shape (gpus,); None where it is not known.
    topology_known
        False when only the number of GPUs is known; then no pick is ever called an island.
    """

    name: str
    links: LinkMatrix
    plugin_links: LinkMatrix
    numa: tuple[int | None, ...]
    topology_known: bool = True
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that the parts speak of the same number of GPUs and remember the hash."""
        if not self.links.gpus == self.plugin_links.gpus == len(self.numa):
            raise ValueError(f"hardware {self.name!r}: link tables and NUMA map differ in the number of GPUs")
        object.__setattr__(self, "_hash", hash((self.name, self.links, self.plugin_links, self.numa)))

    def __hash__(self) -> int:
        """Return the remembered hash."""
        return self._hash

    @property
    def gpus(self) -> int:
        """Number of GPUs of the node."""
        return self.links.gpus

    @property
    def all_gpus(self) -> int:
        """Bit mask of all GPUs of the node."""
        return (1 << self.gpus) - 1
