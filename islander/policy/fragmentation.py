"""How much of a node's free GPUs each shape can still use, and what a pick takes away from that."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from islander.hardware.islands import disjoint_islands
from islander.hardware.links import LinkMatrix
from islander.policy.settings import DemandMix, Shape


def capacity(links: LinkMatrix, free: int, shape: Shape) -> int:
    """Return how many replicas of a shape can be cut from the free GPUs at the same time."""
    if shape.island and shape.gpus > 1:
        return disjoint_islands(links, free, shape.gpus)
    return free.bit_count() // shape.gpus


@lru_cache(maxsize=1 << 16)
def unusable_gpus(links: LinkMatrix, free: int, mix: DemandMix) -> float:
    """Return the free GPUs that a replica of the mix cannot use, in GPUs, averaged over the mix.

    Notes
    -----
    For a shape s: free - gpus(s) x capacity(s). Shapes are weighted by popularity x gpus(s) squared: weighted by
    popularity alone, the rare large replicas are starved by the many small ones (docs/benchmarks.md).

    References
    ----------
    The measure follows Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
    Gradient Descent", USENIX ATC 2023, with islands in the place of fractions, and with the part of a node's free
    GPUs that a shape leaves over counted even where the shape fits.
    """
    total = lost = 0.0
    for shape, popularity in mix.weights:
        weight = popularity * shape.gpus * shape.gpus
        total += weight
        lost += weight * (free.bit_count() - shape.gpus * capacity(links, free, shape))
    return lost / total if total else 0.0


def stranded_share(mix: DemandMix, stranded: Mapping[str, float], free: float) -> float:
    """Return the share of the free GPUs that the demand cannot use, 0 to 1; 0 when nothing is free.

    Parameters
    ----------
    stranded
        GPUs that stay free when as many replicas as fit have come, by the GPUs of a replica.

    Notes
    -----
    The mean over the mix, weighted by the GPUs that each shape asks for.
    """
    asked = sum(weight * shape.gpus for shape, weight in mix.weights)
    if not free or not asked:
        return 0.0
    return sum(weight * shape.gpus * stranded[str(shape.gpus)] for shape, weight in mix.weights) / asked / free


def gradient(links: LinkMatrix, free: int, pick: int, mix: DemandMix) -> float:
    """Return how many more GPUs become unusable when `pick` is taken out of `free`; negative when fewer."""
    return unusable_gpus(links, free & ~pick, mix) - unusable_gpus(links, free, mix)
