"""How long the first prediction of kubelet's pick takes: every set of free GPUs and every size of several nodes.

Later predictions of the same set are looked up. `python -m tests.bench.bench_pick` prints the table.
"""

from __future__ import annotations

import gc
import random
import time
from itertools import product

import pytest

from islander.hardware.links import LinkMatrix
from islander.hardware.presets import PRESETS
from islander.policy.pick import possible_picks

NODES = ("hgx-h100-8", "a100-pcie-8", "dgx-1v", "dgx-2-16")
# Of the 65,535 sets of sixteen GPUs so many are drawn for each size.
SAMPLE = 20


def asked(gpus: int) -> list[tuple[int, int]]:
    """Return (free GPUs as a bit mask, size): all of eight GPUs, a sample of sixteen."""
    if gpus <= 8:
        return [(free, size) for free, size in product(range(1, 1 << gpus), range(1, gpus + 1))]
    dice = random.Random(1)
    return [
        (sum(1 << gpu for gpu in dice.sample(range(gpus), free)), size)
        for size in range(1, gpus + 1)
        for free in [dice.randint(size, gpus) for _ in range(SAMPLE)]
    ]


def first_calls_ms(links: LinkMatrix, calls: list[tuple[int, int]]) -> list[float]:
    """Return the CPU time of each call, ascending, in a process that has followed another node before.

    How so many GPUs split into sets is the same for all nodes, and made once.
    """
    another = LinkMatrix.from_pairs(links.gpus, {(0, links.gpus - 1): 1})
    for free, size in calls:
        possible_picks(another, free, size)
    # As the extender does once it is ready: a full collection would walk through everything that is loaded.
    gc.collect()
    gc.freeze()
    took = []
    for free, size in calls:
        begin = time.thread_time()
        possible_picks(links, free, size)
        took.append((time.thread_time() - begin) * 1000)
    return sorted(took)


@pytest.mark.bench
def test_predictions() -> None:
    print("\n| node | predictions | p50 CPU ms | p99 CPU ms | longest CPU ms |\n|---|---|---|---|---|")
    for name in NODES:
        links = PRESETS[name].plugin_links
        took = first_calls_ms(links, asked(links.gpus))
        figures = [f"{took[len(took) // 2]:.3f}", f"{took[len(took) * 99 // 100]:.3f}", f"{took[-1]:.2f}"]
        print(f"| {name} | {len(took)} | {' | '.join(figures)} |")


if __name__ == "__main__":
    test_predictions()
