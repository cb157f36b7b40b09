"""Which GPUs kubelet may hand out: the set of possible answers of NVIDIA's device plugin.

The plugin's best-effort policy is deterministic for an ordered list of free GPUs, but kubelet passes the list in random
order, so every tie is decided by chance. What can be predicted is the set of possible picks, and nothing less.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, factorial
from typing import Any

import numpy as np
import numpy.typing as npt

from islander.hardware.links import LinkMatrix, gpus_of, mask_of

NVLINK_POINTS = 100
# From this many sets on the allocator's reuse of slices can overwrite the partition it keeps: any set may come out.
SETS_THAT_BREAK_THE_ALLOCATOR = 7
# More partitions than this (16 GPUs in sets of 4: 2.6 million) would stall a scheduling call. The allocator itself
# takes minutes there; every set is then called possible, which can only understate a guarantee.
MAX_PARTITIONS = 20_000

Masks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Picks:
    """The possible picks for one container.

    Attributes
    ----------
    sets
        Bit masks of the GPU sets that kubelet may hand out, ascending. Empty when the request cannot be met.
    exact
        False when `sets` may hold sets that never come out (never the reverse).
    may_fail
        True when the allocator may return a blank device, so that kubelet refuses the pod.
    """

    sets: tuple[int, ...]
    exact: bool = True
    may_fail: bool = False


NO_PICK = Picks(())


@lru_cache(maxsize=1 << 16)
def possible_picks(plugin_links: LinkMatrix, free: int, size: int, required: int = 0) -> Picks:
    """Return every set of `size` GPUs that the device plugin may prefer out of the free ones.

    Parameters
    ----------
    plugin_links
        Links as the plugin counts them (blind to NVSwitch), `Hardware.plugin_links`.
    free
        Bit mask of the GPUs that kubelet offers.
    size
        GPUs asked for by the container.
    required
        Bit mask of GPUs that must be among the answer: those that an init container left over.

    Notes
    -----
    The allocator splits the free GPUs, padded with blanks, into sets of `size` so that the sum of all pair points
    inside the sets is largest, and returns the best set of that split. A set holds no blank or all of them.

    References
    ----------
    NVIDIA/go-gpuallocator 876e7b7, gpuallocator/besteffort_policy.go; kubelet's unordered offer:
    kubernetes pkg/kubelet/cm/devicemanager/manager.go.
    """
    count = free.bit_count()
    if size <= 0 or count < size or required & ~free or required.bit_count() > size:
        return NO_PICK
    gpus = tuple(gpus_of(free))
    if count == size:
        return Picks((free,))
    if size == 1:
        # Single GPUs all score zero: the first of the list wins, and the list has no order.
        return Picks((required,) if required else tuple(1 << gpu for gpu in gpus))
    partitions = _partitions(count, size)
    if partitions is None:
        return Picks(_all_sets(gpus, size, required), exact=False)

    points = _set_points(plugin_links, gpus)
    needed = _compress(required, gpus)
    held = (partitions & needed) == needed if needed else np.ones(partitions.shape, dtype=bool)
    if needed:
        # Only partitions that can answer at all are compared: one blank-free set must hold what is required.
        answers = (held & (_set_sizes(count)[partitions] == size)).any(axis=1)
        partitions, held = partitions[answers], held[answers]
    set_points = points[partitions]
    totals = set_points.sum(axis=1)
    best = totals == totals.max()
    partitions, set_points, held = partitions[best], set_points[best], held[best]
    set_points = np.where(held, set_points, -1)
    winners = np.unique(partitions[set_points == set_points.max(axis=1, keepdims=True)])
    whole = winners[_set_sizes(count)[winners] == size]
    return Picks(
        tuple(sorted(_expand(int(mask), gpus) for mask in whole)),
        may_fail=len(whole) < len(winners),
    )


def _all_sets(gpus: tuple[int, ...], size: int, required: int) -> tuple[int, ...]:
    others = [gpu for gpu in gpus if not required >> gpu & 1]
    return tuple(sorted(required | mask_of(c) for c in combinations(others, size - required.bit_count())))


def _compress(mask: int, gpus: tuple[int, ...]) -> int:
    return mask_of(rank for rank, gpu in enumerate(gpus) if mask >> gpu & 1)


def _expand(ranks: int, gpus: tuple[int, ...]) -> int:
    return mask_of(gpus[rank] for rank in gpus_of(ranks))


def pair_points(plugin_links: LinkMatrix) -> npt.NDArray[np.int64]:
    """Return the allocator's points of every pair, shape (gpus, gpus): the PCIe class plus 100 for each NVLink."""
    points: npt.NDArray[np.int64] = np.array(plugin_links.pcie, dtype=np.int64) + NVLINK_POINTS * np.array(
        plugin_links.nvlinks, dtype=np.int64
    )
    np.fill_diagonal(points, 0)
    return points


@lru_cache(maxsize=4096)
def _set_points(plugin_links: LinkMatrix, gpus: tuple[int, ...]) -> Masks:
    """Return the sum of pair points inside every set of ranks, shape (2 ** len(gpus),)."""
    pairs = pair_points(plugin_links)[np.ix_(gpus, gpus)]
    points = np.zeros(1, dtype=np.int64)
    to_new: Masks
    for rank in range(len(gpus)):
        to_new = np.zeros(1, dtype=np.int64)
        for other in range(rank):
            to_new = np.concatenate([to_new, to_new + pairs[rank, other]])
        points = np.concatenate([points, points + to_new])
    return points


@lru_cache(maxsize=32)
def _set_sizes(count: int) -> npt.NDArray[np.int64]:
    """Return the number of members of every set of ranks, shape (2 ** count,)."""
    sizes: npt.NDArray[Any] = np.zeros(1, dtype=np.int64)
    for _ in range(count):
        sizes = np.concatenate([sizes, sizes + 1])
    return sizes


@lru_cache(maxsize=256)
def _partitions(count: int, size: int) -> Masks | None:
    """Return all splits of `count` GPUs, shape (splits, sets); None when the allocator's answer cannot be followed.

    Each cell is a set of ranks. When `size` does not divide `count` each split has one smaller set: its other places
    are the blanks.
    """
    sets = -(-count // size)
    if sets >= SETS_THAT_BREAK_THE_ALLOCATOR or _partition_count(count, size) > MAX_PARTITIONS:
        return None
    rows: list[list[int]] = []

    def split(rest: int, sizes_left: tuple[int, int], chosen: list[int]) -> None:
        if not rest:
            rows.append(list(chosen))
            return
        first, *others = gpus_of(rest)
        whole_left, small_left = sizes_left
        for members, whole in ((size, True), (count % size, False)):
            if not (whole_left if whole else small_left):
                continue
            for company in combinations(others, members - 1):
                chosen.append(1 << first | mask_of(company))
                split(rest & ~chosen[-1], (whole_left - whole, small_left - (not whole)), chosen)
                chosen.pop()

    split((1 << count) - 1, (count // size, int(count % size > 0)), [])
    return np.array(rows, dtype=np.int64)


def _partition_count(count: int, size: int) -> int:
    total, rest, sets = 1, count, count // size
    for _ in range(sets):
        total *= comb(rest, size)
        rest -= size
    return total // factorial(sets)
