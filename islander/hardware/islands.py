"""NVLink islands of one node: sets of GPUs that are pairwise linked, and how good a set of GPUs is.

An island is a clique of the NVLink graph, not a connected component: vLLM's custom all-reduce over more than two GPUs
wants every pair joined. GPU sets are bit masks (bit i stands for GPU i).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NewType

from islander.hardware.links import PCIE_WORDS, LinkMatrix, PcieClass, gpus_of, mask_of

LinkQuality = NewType("LinkQuality", int)
"""How good a link is; larger is better: any NVLink above every PCIe class, more NVLinks above fewer."""

QUALITY_PER_NVLINK = 100
"""Puts one NVLink above the best PCIe class (`PcieClass.BOARD` is 60); the same unit as the device plugin's points."""

ALONE = LinkQuality(1_000_000)
"""The quality of a set without pairs: one GPU waits for no link, so nothing is better."""

# The largest node that is not one island and that anybody builds; beyond that the exact search could take minutes.
EXACT_GPUS = 16


def pair_quality(links: LinkMatrix, i: int, j: int) -> LinkQuality:
    """Return the quality of the link between two different GPUs."""
    nvlinks = links.nvlinks[i][j]
    return LinkQuality(QUALITY_PER_NVLINK * nvlinks if nvlinks else links.pcie[i][j])


def link_name(quality: LinkQuality, nvlink_word: str = "NV") -> str:
    """Return the word of `nvidia-smi topo -m` for a quality: `NV18`, `PIX`, ..., and `X` for a GPU alone.

    Parameters
    ----------
    nvlink_word
        What stands before the number of links; `XGMI` for AMD's links.
    """
    if quality >= ALONE:
        return "X"
    if quality >= QUALITY_PER_NVLINK:
        return f"{nvlink_word}{quality // QUALITY_PER_NVLINK}"
    return PCIE_WORDS[PcieClass(quality)]


@lru_cache(maxsize=1024)
def neighbours(links: LinkMatrix) -> tuple[int, ...]:
    """Return for each GPU the mask of the GPUs that it has NVLinks to, shape (gpus,)."""
    return tuple(mask_of(j for j, count in enumerate(row) if count and j != i) for i, row in enumerate(links.nvlinks))


@lru_cache(maxsize=1024)
def maximal_islands(links: LinkMatrix) -> tuple[int, ...]:
    """Return the islands of a node that no other island contains, sorted; a GPU without NVLink is one of its own."""
    if not links.gpus:
        return ()
    return tuple(sorted(_grown(neighbours(links), 0, (1 << links.gpus) - 1, 0)))


def _grown(linked: Sequence[int], island: int, candidates: int, seen: int) -> Iterator[int]:
    """Yield the largest islands that hold an island, more of the candidates, and none that was seen before.

    All of `candidates` and `seen` are linked to the whole island. This is the algorithm of Bron and Kerbosch with the
    pivot of Tomita: islands that only lack the pivot's partners are found through the pivot.
    """
    if not candidates and not seen:
        yield island
        return
    pivot = max(gpus_of(candidates | seen), key=lambda gpu: (linked[gpu] & candidates).bit_count())
    for gpu in gpus_of(candidates & ~linked[pivot]):
        yield from _grown(linked, island | 1 << gpu, candidates & linked[gpu], seen & linked[gpu])
        candidates &= ~(1 << gpu)
        seen |= 1 << gpu


@lru_cache(maxsize=65536)
def is_island(links: LinkMatrix, mask: int) -> bool:
    """Tell whether every two GPUs of a set are joined by NVLink; true for one GPU, false for none."""
    linked = neighbours(links)
    return mask != 0 and all((mask & ~(1 << gpu)) & ~linked[gpu] == 0 for gpu in gpus_of(mask))


@lru_cache(maxsize=16384)
def islands_of_size(links: LinkMatrix, mask: int, size: int) -> tuple[int, ...]:
    """Return every island of exactly `size` GPUs inside a set, as masks in ascending order."""
    if size <= 0:
        return ()
    found = {
        mask_of(members)
        for island in maximal_islands(links)
        if (island & mask).bit_count() >= size
        for members in combinations(gpus_of(island & mask), size)
    }
    return tuple(sorted(found))


@lru_cache(maxsize=65536)
def largest_island(links: LinkMatrix, mask: int) -> int:
    """Return the number of GPUs of the largest island inside a set."""
    return max(((island & mask).bit_count() for island in maximal_islands(links)), default=0)


@lru_cache(maxsize=65536)
def disjoint_islands(links: LinkMatrix, mask: int, size: int) -> int:
    """Return how many islands of `size` GPUs can be cut from a set at the same time.

    Exact for sizes 1 and 2, for sets that fall apart into islands, and for up to `EXACT_GPUS` GPUs that hang together;
    a lower bound beyond (no such node is known).
    """
    if size <= 0:
        return 0
    if size == 1:
        return mask.bit_count()
    linked = neighbours(links)
    return sum(_cut(links, part, size) for part in _parts(linked, _useful(linked, mask, size)))


def _useful(linked: Sequence[int], mask: int, size: int) -> int:
    """Return the set without the GPUs that have too few partners to be in an island of the size."""
    while True:
        kept = mask_of(gpu for gpu in gpus_of(mask) if (linked[gpu] & mask).bit_count() >= size - 1)
        if kept == mask:
            return mask
        mask = kept


def _parts(linked: Sequence[int], mask: int) -> list[int]:
    """Return the connected parts of a set."""
    parts = []
    while mask:
        part, border = 0, mask & -mask
        while border:
            part |= border
            border = mask_of(other for gpu in gpus_of(border) for other in gpus_of(linked[gpu] & mask & ~part))
        parts.append(part)
        mask &= ~part
    return parts


@lru_cache(maxsize=65536)
def _cut(links: LinkMatrix, part: int, size: int) -> int:
    """Return how many islands of a size can be cut from GPUs that hang together."""
    most = part.bit_count() // size
    if is_island(links, part):
        return most
    if most <= 1:
        return int(largest_island(links, part) >= size)
    if size == 2:
        # Hybrid meshes alone get here, and loading all of networkx takes longer than most commands.
        import networkx as nx

        graph: nx.Graph[int] = nx.Graph((gpu, other) for gpu in gpus_of(part) for other in _partners(links, part, gpu))
        return len(nx.max_weight_matching(graph, maxcardinality=True))
    if part.bit_count() > EXACT_GPUS:
        return _greedy_cut(links, part, size)
    best = 0
    first = part & -part
    # Either some island takes the first GPU, or none does.
    for taken in (*_islands_with(links, part, first, size), first):
        best = max(best, (taken != first) + disjoint_islands(links, part & ~taken, size))
        if best == most:
            break
    return best


def _partners(links: LinkMatrix, part: int, gpu: int) -> tuple[int, ...]:
    return tuple(gpus_of(neighbours(links)[gpu] & part))


def _islands_with(links: LinkMatrix, part: int, gpu_bit: int, size: int) -> list[int]:
    others = {
        mask_of(members)
        for island in maximal_islands(links)
        if island & gpu_bit
        for members in combinations(gpus_of(island & part & ~gpu_bit), size - 1)
    }
    return sorted(gpu_bit | mask for mask in others)


def _greedy_cut(links: LinkMatrix, part: int, size: int) -> int:
    count = 0
    for island in maximal_islands(links):
        fits = (island & part).bit_count() // size
        part &= ~mask_of(list(gpus_of(island & part))[: fits * size])
        count += fits
    return count


@lru_cache(maxsize=65536)
def worst_link(links: LinkMatrix, mask: int) -> LinkQuality:
    """Return the quality of the worst link between two GPUs of a set; `ALONE` when it has no pair."""
    return min((pair_quality(links, i, j) for i, j in combinations(gpus_of(mask), 2)), default=ALONE)


@lru_cache(maxsize=65536)
def ring_links(links: LinkMatrix, mask: int) -> int:
    """Return the NVLinks between the GPUs of a set, summed over its pairs."""
    return sum(links.nvlinks[i][j] for i, j in combinations(gpus_of(mask), 2))


@lru_cache(maxsize=65536)
def closes_ring(links: LinkMatrix, mask: int) -> bool:
    """Tell whether NVLinks lead once around all GPUs of a set and back; for two GPUs, whether they are linked."""
    if is_island(links, mask):
        return True
    if mask.bit_count() <= 2:
        return False
    linked = neighbours(links)
    start = mask & -mask
    ends = {(start, start)}
    for _ in range(mask.bit_count() - 1):
        ends = {
            (walked | 1 << step, 1 << step)
            for walked, end in ends
            for step in gpus_of(linked[end.bit_length() - 1] & mask & ~walked)
        }
    return any(linked[end.bit_length() - 1] & start for _, end in ends)


def numa_nodes(numa: Sequence[int | None], mask: int) -> int | None:
    """Return on how many NUMA nodes a set of GPUs lies; None when the NUMA node of one of them is not known."""
    nodes = {numa[gpu] for gpu in gpus_of(mask)}
    return None if None in nodes else len(nodes)


@lru_cache(maxsize=16384)
def best_sets(links: LinkMatrix, mask: int, size: int, numa: tuple[int | None, ...] = ()) -> tuple[int, ...]:
    """Return the best sets of `size` GPUs inside a set of GPUs, as masks in ascending order; all are equally good.

    Better is, in this order: every pair linked; a closed NVLink ring; more NVLinks in total; fewer NUMA nodes (where
    `numa`, shape (gpus,), tells them); a better worst link; better PCIe classes in total.
    """

    def merit(candidate: int) -> tuple[int, ...]:
        pairs = list(combinations(gpus_of(candidate), 2))
        span = numa_nodes(numa, candidate) if numa else None
        return (
            is_island(links, candidate),
            closes_ring(links, candidate),
            ring_links(links, candidate),
            -(span if span is not None else candidate.bit_count()),
            worst_link(links, candidate),
            sum(links.pcie[i][j] for i, j in pairs),
        )

    if size <= 0 or size > mask.bit_count():
        return ()
    merits = {candidate: merit(candidate) for candidate in map(mask_of, combinations(gpus_of(mask), size))}
    best = max(merits.values())
    return tuple(sorted(candidate for candidate, value in merits.items() if value == best))
