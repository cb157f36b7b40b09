"""What the policy is worth without a cluster: whole-GPU serving churn on 128 nodes, the same streams for every policy.

The policy is the real one (`assess`, `spread_ranks`); the others are kube-scheduler's scoring strategies and chance,
ties by a fixed order. `python -m tests.bench.bench_policy FIRST LAST` plays other seeds than the usual.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import mean, stdev

import numpy as np
import pytest

from islander.cluster import names
from islander.hardware.islands import is_island
from islander.hardware.links import gpus_of
from islander.hardware.presets import PRESETS
from islander.policy.assess import ScoreParts, assess
from islander.policy.kubelet import kubelet_picks
from islander.policy.need import ContainerNeed, PodNeed
from islander.policy.occupancy import GpuState, gpu_state
from islander.policy.score import spread_ranks
from islander.policy.settings import DemandMix, Shape, Topology
from tests.bench.churn import GPUS_PER_NODE, MIXES, SIZES, Choose, Counts, Nodes, Pick, Tally, replay, stream
from tests.builders import a_node, a_pod, a_report

NODES, STEPS, WARM_UP = 128, 40_000, 10_000
SEEDS = range(11, 31)
BRIDGED = "a100-pcie-8"

Order = Callable[[ScoreParts], tuple[float, ...]]


def as_it_is(parts: ScoreParts) -> tuple[float, ...]:
    return parts


def tightness_first(parts: ScoreParts) -> tuple[float, ...]:
    return parts._replace(packing=parts.tightness, tightness=parts.packing)


# Policies ---------------------------------------------------------------------------------------------------------


def least_allocated(now: Nodes, gpus: int) -> int:
    return int(now.free.argmax())


def most_allocated(now: Nodes, gpus: int) -> int:
    return int(np.where(now.free >= gpus, now.free, GPUS_PER_NODE + 1).argmin())


def by_chance(seed: int) -> Choose:
    chance = random.Random(seed)
    return lambda now, gpus: int(chance.choice(np.flatnonzero(now.free >= gpus)))


def islander(
    mix: DemandMix, hardware: str = "hgx-h100-8", *, reported: bool = False, order: Order = as_it_is
) -> Choose:
    """Return the policy; where nodes report, it knows which GPUs are free, else only how many."""
    ranks = {gpus: _ranks(gpus, mix, hardware, reported, order) for gpus in SIZES}

    def choose(now: Nodes, gpus: int) -> int:
        known = now.masks if reported else now.free
        fixed = np.arange(len(known))
        return int(spread_ranks(ranks[gpus][known, now.pods], fixed).argmax())

    return choose


def _ranks(gpus: int, mix: DemandMix, hardware: str, reported: bool, order: Order) -> Counts:
    """Return the rank of a node by what is known of its free GPUs and by its pods; -1 where the pod does not fit."""
    island = gpus if not reported else min(gpus, 2)
    topology = Topology.PREFERRED if gpus > 1 else Topology.IGNORED
    need = PodNeed(names.NVIDIA_GPU, gpus, (ContainerNeed(gpus, island),), topology, tensor_parallel=island)
    keys: dict[tuple[int, int], tuple[float, ...]] = {}
    for known, state in _states(hardware, reported):
        found = assess(state, need, mix)
        if found.accepted:
            keys |= {(known, pods): order(found.parts._replace(packing=pods)) for pods in range(GPUS_PER_NODE + 1)}
    place = {key: rank for rank, key in enumerate(sorted(set(keys.values())))}
    ranks = np.full((1 << GPUS_PER_NODE, GPUS_PER_NODE + 1), -1, dtype=np.int64)
    for at, key in keys.items():
        ranks[at] = place[key]
    return ranks


def _states(hardware: str, reported: bool) -> Iterator[tuple[int, GpuState]]:
    """Yield each state of a node by what is known of it: the mask of its free GPUs, or their number."""
    everything = (1 << GPUS_PER_NODE) - 1
    for free in range(1 << GPUS_PER_NODE) if reported else range(GPUS_PER_NODE + 1):
        used = [*gpus_of(everything & ~free)] if reported else [*range(free, GPUS_PER_NODE)]
        pods = [a_pod(f"p{gpu}", node="n1") for gpu in used]
        report = a_report(used={gpu: f"default/p{gpu}" for gpu in used}) if reported else None
        yield free, gpu_state(a_node(hardware=hardware, report=report), pods)


def demand_mix(popularity: Sequence[float], island: int = GPUS_PER_NODE) -> DemandMix:
    shares = zip(SIZES, popularity, strict=True)
    return DemandMix(tuple((Shape(gpus, island=1 < gpus <= island), share) for gpus, share in shares))


# Tables -----------------------------------------------------------------------------------------------------------


def compare(mix: str, seeds: Sequence[int]) -> dict[str, list[Tally]]:
    """Return what each policy makes of the same streams, one tally per seed."""
    policies: dict[str, Choose] = {
        "LeastAllocated": least_allocated,
        "MostAllocated": most_allocated,
        "Islander": islander(demand_mix(MIXES[mix])),
        "Islander, tightness before packing": islander(demand_mix(MIXES[mix]), order=tightness_first),
    }
    tallies: dict[str, list[Tally]] = {name: [] for name in (*policies, "chance")}
    for seed in seeds:
        arrivals = stream(seed, MIXES[mix], nodes=NODES, steps=STEPS)
        for name, choose in {**policies, "chance": by_chance(seed)}.items():
            tallies[name].append(replay(arrivals, choose, nodes=NODES, warm_up=WARM_UP))
    return tallies


def show(mix: str, tallies: Mapping[str, Sequence[Tally]]) -> None:
    base = tallies["MostAllocated"]
    for name, runs in tallies.items():
        gains = [run.share(8) - other.share(8) for run, other in zip(runs, base, strict=True)]
        error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else float("nan")
        print(
            f"| {mix} | {name} | {mean(run.share(8) for run in runs):.2f} | {mean(gains):+.2f} ± {error:.2f} "
            f"| {mean(run.gpu_share for run in runs):.2f} | {mean(run.stuck_share for run in runs):.2f} |",
            flush=True,
        )


def show_all(seeds: Sequence[int]) -> None:
    print("\n| mix | policy | 8-GPU admitted % | against MostAllocated | GPU-weighted % | stuck % |")
    print("|---|---|---|---|---|---|")
    for mix in MIXES:
        show(mix, compare(mix, seeds))


def show_bridged(seeds: Sequence[int]) -> None:
    """Nodes of bridged pairs with agents: pods of 2 and more GPUs run tensor parallel over 2."""
    links = PRESETS[BRIDGED].links
    mix = demand_mix(MIXES["serve"], island=2)
    policies: dict[str, Choose] = {
        "LeastAllocated": least_allocated,
        "MostAllocated": most_allocated,
        "Islander": islander(mix, BRIDGED, reported=True),
    }
    print("\n| policy | TP=2 pods on a linked pair % | 8-GPU admitted % | GPU-weighted % |\n|---|---|---|---|")
    for name, choose in policies.items():
        pairs: Counter[bool] = Counter()
        runs = []

        def count(gpus: int, pick: int, pairs: Counter[bool] = pairs) -> None:
            if gpus == 2:
                pairs[is_island(links, pick)] += 1

        for seed in seeds:
            arrivals = stream(seed, MIXES["serve"], nodes=NODES, steps=STEPS)
            pick = kubelet(seed)
            runs.append(replay(arrivals, choose, nodes=NODES, warm_up=WARM_UP, pick=pick, picked=count))
        print(
            f"| {name} | {100 * pairs[True] / pairs.total():.2f} | {mean(run.share(8) for run in runs):.2f} "
            f"| {mean(run.gpu_share for run in runs):.2f} |",
            flush=True,
        )


def kubelet(seed: int) -> Pick:
    """Return a kubelet that draws among the picks that the device plugin may make."""
    chance = random.Random(seed)
    hardware = PRESETS[BRIDGED]
    sets = lru_cache(maxsize=None)(lambda free, gpus: kubelet_picks(hardware, "", free, gpus).sets)
    return lambda free, gpus: int(chance.choice(sets(free, gpus)))


@pytest.mark.bench
def test_policies_under_churn() -> None:
    show_all(SEEDS)


@pytest.mark.bench
def test_policies_on_bridged_pairs() -> None:
    show_bridged(SEEDS[:5])


if __name__ == "__main__":
    first, last = (int(number) for number in sys.argv[1:3]) if len(sys.argv) > 2 else (SEEDS[0], SEEDS[-1])
    show_all(range(first, last + 1))
    show_bridged(range(first, min(first + 5, last + 1)))
