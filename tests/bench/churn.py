"""Whole-GPU serving churn: a seeded stream of pods that come and go, and what a policy admits of it.

There is no queue: a pod that fits nowhere on arrival is refused for good.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

SIZES = (1, 2, 4, 8)
GPUS_PER_NODE = 8
# Popularity of pods of 1, 2, 4 and 8 GPUs.
MIXES: Mapping[str, tuple[float, ...]] = {
    "serve": (0.50, 0.20, 0.20, 0.10),
    "large": (0.25, 0.25, 0.25, 0.25),
    "small": (0.70, 0.20, 0.08, 0.02),
}

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that arrives at a step and, if it was admitted, leaves before the arrival of step `leaves`."""

    step: int
    gpus: int
    leaves: int


def stream(seed: int, mix: Sequence[float], *, nodes: int, steps: int, load: float = 0.95) -> list[Arrival]:
    """Return one arrival per step.

    Parameters
    ----------
    load
        GPUs asked for at a time on average, as a share of all GPUs; lifetimes are lognormal with sigma 1.
    """
    chance = random.Random(seed)
    mean_gpus = sum(size * share for size, share in zip(SIZES, mix, strict=True)) / sum(mix)
    mean_life = load * nodes * GPUS_PER_NODE / mean_gpus
    arrivals = []
    for step in range(steps):
        gpus = chance.choices(SIZES, mix)[0]
        life = chance.lognormvariate(math.log(mean_life) - 0.5, 1.0)
        arrivals.append(Arrival(step, gpus, math.ceil(step + life)))
    return arrivals


@dataclass(slots=True)
class Tally:
    """What came of a stream, warm-up left out.

    Attributes
    ----------
    offered, admitted
        Pods by size.
    stuck
        Pods refused although enough GPUs were free in total.
    """

    offered: Counter[int] = field(default_factory=Counter)
    admitted: Counter[int] = field(default_factory=Counter)
    stuck: int = 0

    def note(self, gpus: int, *, admitted: bool, free: int) -> None:
        """Count one arrival; `free` is what the whole cluster had free before it."""
        self.offered[gpus] += 1
        self.admitted[gpus] += admitted
        self.stuck += not admitted and free >= gpus

    def add(self, other: Tally) -> None:
        """Take in what came of another stream."""
        self.offered += other.offered
        self.admitted += other.admitted
        self.stuck += other.stuck

    def share(self, gpus: int) -> float:
        """Return the percentage of pods of this size that were admitted."""
        return 100.0 * self.admitted[gpus] / self.offered[gpus]

    @property
    def gpu_share(self) -> float:
        """The percentage of the GPUs asked for that were granted."""
        asked = sum(gpus * pods for gpus, pods in self.offered.items())
        return 100.0 * sum(gpus * pods for gpus, pods in self.admitted.items()) / asked

    @property
    def stuck_share(self) -> float:
        """Stuck pods in percent of all."""
        return 100.0 * self.stuck / self.offered.total()


@dataclass(slots=True)
class Nodes:
    """Equal nodes; free GPUs, pods, and the free GPUs as a bit mask, each of shape (nodes,)."""

    free: Counts
    pods: Counts
    masks: Counts

    @classmethod
    def empty(cls, nodes: int) -> Nodes:
        """Return nodes without pods."""
        return cls(
            free=np.full(nodes, GPUS_PER_NODE, dtype=np.int64),
            pods=np.zeros(nodes, dtype=np.int64),
            masks=np.full(nodes, (1 << GPUS_PER_NODE) - 1, dtype=np.int64),
        )


Choose = Callable[[Nodes, int], int]
Pick = Callable[[int, int], int]


def lowest(mask: int, gpus: int) -> int:
    """Return the free GPUs with the lowest indexes; any will do where all are joined."""
    picked = 0
    for _ in range(gpus):
        picked |= mask & ~picked & -(mask & ~picked)
    return picked


def replay(
    arrivals: Sequence[Arrival],
    choose: Choose,
    *,
    nodes: int,
    warm_up: int,
    pick: Pick = lowest,
    picked: Callable[[int, int], None] = lambda _gpus, _pick: None,
) -> Tally:
    """Let a policy place a stream.

    Parameters
    ----------
    choose
        Called with the nodes and the size of a pod that fits somewhere; returns the index of a node.
    warm_up
        Arrivals that are placed but not counted.
    pick
        What kubelet hands out, of a mask of free GPUs and a size.
    picked
        Called with the size and the pick of each pod that counts.
    """
    now = Nodes.empty(nodes)
    leaving: list[tuple[int, int, int]] = []
    tally = Tally()
    free_in_total = nodes * GPUS_PER_NODE
    for arrival in arrivals:
        while leaving and leaving[0][0] <= arrival.step:
            _, node, mask = heapq.heappop(leaving)
            free_in_total += mask.bit_count()
            now.free[node] += mask.bit_count()
            now.pods[node] -= 1
            now.masks[node] |= mask
        gpus = arrival.gpus
        fits = bool(now.free.max() >= gpus)
        if arrival.step >= warm_up:
            tally.note(gpus, admitted=fits, free=free_in_total)
        if fits:
            node = choose(now, gpus)
            mask = pick(int(now.masks[node]), gpus)
            free_in_total -= gpus
            now.free[node] -= gpus
            now.pods[node] += 1
            now.masks[node] &= ~mask
            heapq.heappush(leaving, (arrival.leaves, node, mask))
            if arrival.step >= warm_up:
                picked(gpus, mask)
    return tally
