"""What cutting GPUs up does to the islands of a node: which sets of GPUs to give away, and what still fits beside."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product

from islander.hardware.islands import disjoint_islands, is_island, islands_of_size, neighbours
from islander.hardware.links import Hardware, gpus_of, mask_of

# Islands of these sizes are worth keeping whoever asks today.
ISLAND_SIZES = (2, 4, 8)
# More ways to give GPUs of one node away are not tried; no node that is built has so many that differ.
MOST_CHOICES = 1024


def islands_in(hardware: Hardware, mask: int, size: int) -> int:
    """Return how many islands of a size can be cut from a set; as many as can be there where links are not known."""
    if not hardware.topology_known:
        return mask.bit_count() // size
    return disjoint_islands(hardware.links, mask, size)


def gpus_in_islands(hardware: Hardware, mask: int, sizes: Sequence[int] = ISLAND_SIZES) -> int:
    """Return sum over sizes of (GPUs in disjoint islands of that size inside the set)."""
    return sum(size * islands_in(hardware, mask, size) for size in sizes)


def is_uniform(hardware: Hardware) -> bool:
    """Return whether all GPUs of a node are alike: joined pairwise, not joined at all, or nobody knows."""
    if not hardware.topology_known or not any(neighbours(hardware.links)):
        return True
    return is_island(hardware.links, hardware.all_gpus)


@lru_cache(maxsize=65536)
def packs(hardware: Hardware, mask: int, islands: tuple[int, ...], loose: int) -> bool:
    """Return whether disjoint islands of these sizes, and so many GPUs beside them, are in a set at the same time.

    Parameters
    ----------
    islands
        Largest first.
    """
    if sum(islands) + loose > mask.bit_count():
        return False
    if not islands:
        return True
    links = hardware.links
    if not hardware.topology_known or is_island(links, mask):
        return True
    size, *rest = islands
    return any(packs(hardware, mask & ~island, tuple(rest), loose) for island in islands_of_size(links, mask, size))


@lru_cache(maxsize=16384)
def choices(hardware: Hardware, idle: int, kinds: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sets of idle GPUs that may be given away, one of each sort of sets that do the same to the islands.

    Parameters
    ----------
    kinds
        Disjoint sets of the idle GPUs; GPUs of different kinds are never taken for the same.
    """
    groups = _twins(hardware, idle, kinds)
    found = []
    for counts in product(*(range(len(group) + 1) for group in groups)):
        # The last ones of each group go, so that what stays begins at the lowest index.
        found.append(mask_of(gpu for group, n in zip(groups, counts, strict=True) for gpu in group[len(group) - n :]))
        if len(found) > MOST_CHOICES:
            return _nested(idle)
    return tuple(sorted(found, key=lambda mask: (mask.bit_count(), -mask)))


def _nested(idle: int) -> tuple[int, ...]:
    """Return one set of each size, each inside the next: the last GPUs."""
    gpus = list(gpus_of(idle))
    return tuple(mask_of(gpus[len(gpus) - n :]) for n in range(len(gpus) + 1))


def _twins(hardware: Hardware, idle: int, kinds: tuple[int, ...]) -> list[list[int]]:
    """Return the idle GPUs in groups of those that have the same neighbours among the idle, and are of one kind."""
    linked = neighbours(hardware.links) if hardware.topology_known else (0,) * hardware.gpus
    groups: list[list[int]] = []
    for gpu in gpus_of(idle):
        for group in groups:
            # To have the same neighbours besides each other is transitive, so one member speaks for its group.
            both = (1 << gpu) | (1 << group[0])
            same_kind = all((kind & both) in (0, both) for kind in kinds)
            if same_kind and (linked[gpu] & idle & ~both) == (linked[group[0]] & idle & ~both):
                group.append(gpu)
                break
        else:
            groups.append([gpu])
    return groups


@lru_cache(maxsize=16384)
def fitting(
    hardware: Hardware, mask: int, needs: tuple[tuple[tuple[int, ...], int, int], ...]
) -> tuple[tuple[int, ...], ...]:
    """Return how many pods of each need fit in a set at the same time: every vector that no other one exceeds.

    Parameters
    ----------
    needs
        (islands, loose, most) of each need.
    """
    found: list[tuple[int, ...]] = []
    _extend(hardware, mask, needs, (), (), 0, found)
    return tuple(v for v in found if not any(w != v and all(a >= b for a, b in zip(w, v, strict=True)) for w in found))


def _extend(
    hardware: Hardware,
    mask: int,
    needs: tuple[tuple[tuple[int, ...], int, int], ...],
    counts: tuple[int, ...],
    islands: tuple[int, ...],
    loose: int,
    found: list[tuple[int, ...]],
) -> None:
    if len(counts) == len(needs):
        found.append(counts)
        return
    own, beside, most = needs[len(counts)]
    for count in range(most + 1):
        together = tuple(sorted((*islands, *(own * count)), reverse=True))
        if not packs(hardware, mask, together, loose + beside * count):
            break
        _extend(hardware, mask, needs, (*counts, count), together, loose + beside * count, found)
