"""The demand mix: which shapes the cluster is asked for, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import log2

from islander.cluster.snapshot import ClusterSnapshot, ShapeWeight
from islander.policy.need import PodNeed, need_of
from islander.policy.settings import DEFAULT_MIX, DemandMix, PolicySettings, Shape


def observed_mix(needs: Iterable[PodNeed]) -> DemandMix:
    """Return the mix of the pods seen, running and pending; MIG instances are no GPUs, and not counted.

    Every common shape counts as seen once more than it was, so that room is kept for a replica that is not there yet.
    """
    counts: Counter[Shape] = Counter({shape: 1 for shape, _ in DEFAULT_MIX.weights})
    for need in needs:
        if need.gpus and not need.asks_mig:
            counts[Shape(need.gpus, island=need.shape.island)] += 1
    return DemandMix(tuple((shape, float(count)) for shape, count in sorted(counts.items())))


def coarse_mix(mix: DemandMix) -> DemandMix:
    """Return the mix with each shape's share rounded to a power of two.

    What is judged under one mix need not be judged again until a share has about doubled or halved; the order of nodes
    hardly depends on finer differences (docs/benchmarks.md, policy under churn).
    """
    total = sum(weight for _, weight in mix.weights)
    return DemandMix(tuple((shape, 2.0 ** round(log2(weight / total))) for shape, weight in mix.weights))


def mix_of(snapshot: ClusterSnapshot, settings: PolicySettings) -> DemandMix:
    """Return the mix of the settings, else the one in force where the snapshot was taken, else the one of its pods."""
    if settings.mix is not None:
        return settings.mix
    if snapshot.demand_mix:
        return DemandMix(tuple((Shape(s.gpus, s.island), s.weight) for s in snapshot.demand_mix))
    alive = (pod for pod in snapshot.pods if not pod.finished)
    return observed_mix(need_of(pod, settings) for pod in alive)


def weights_of(mix: DemandMix) -> tuple[ShapeWeight, ...]:
    """Return a mix as a snapshot carries it."""
    return tuple(ShapeWeight(shape.gpus, shape.island, weight) for shape, weight in mix.weights)


def shapes_by_size(mix: DemandMix, sizes: Iterable[int] = ()) -> dict[str, Shape]:
    """Return the shapes of a mix, keyed by their GPUs; a size that is asked for both ways counts as an island.

    Parameters
    ----------
    sizes
        Sizes that are to be there as islands, whether or not the mix holds them.
    """
    shapes = {str(size): Shape(size, island=size > 1) for size in sizes}
    for shape, _ in mix.weights:
        known = shapes.get(str(shape.gpus))
        shapes[str(shape.gpus)] = Shape(shape.gpus, island=shape.island or (known is not None and known.island))
    return shapes
