"""Small packings against all that is possible."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from planner.models.outcome import SolveStatus
from planner.models.repacking import repack
from planner.options import SolveLimits
from planner.packing import PackedNode, PackedPod, Packing
from tests.bench.packing_check import faults, worth
from tests.bench.random_packings import SETTINGS, Setting, instances, scheduled

LIMITS = SolveLimits(time_limit_seconds=30.0)
CASES, BATCH = 60, 15


def random_packing(seed: int) -> Packing:
    """Up to 5 nodes, some of one size, and up to 7 pods, some of them equal; where pods run is not always clever."""
    random = Random(seed)
    sizes = [(random.randint(4, 6), random.randint(4, 6)) for _ in range(random.randint(1, 2))]
    nodes = tuple(PackedNode(f"n{n}", *random.choice(sizes)) for n in range(random.choice([1, 2, 2, 3, 3, 5])))
    pods: list[PackedPod] = []
    wanted, priorities = random.randint(4, 7), random.choice([[0], [0, 0, 5], [0, 5, 9]])
    while len(pods) < wanted:
        cpu, memory, priority = random.randint(1, 4), random.randint(1, 4), random.choice(priorities)
        for _ in range(random.choice([1, 1, 2])):
            pods.append(PackedPod(f"p{len(pods)}", cpu, memory, priority))
    packing = Packing(nodes, tuple(pods[:wanted]), {})
    if random.random() < 0.5:
        return scheduled(packing)
    shuffled = random.sample(packing.pods, len(packing.pods))
    places: dict[str, str] = {}
    for pod in shuffled:
        fitting = [node.name for node in nodes if not faults(packing, {**places, pod.key: node.name})]
        if fitting and random.random() < 0.9:
            places[pod.key] = random.choice(fitting)
    return Packing(nodes, packing.pods, places)


def everything_possible(packing: Packing) -> Iterator[dict[str, str]]:
    """Yield every way in which pods can run."""

    def place(number: int, places: dict[str, str]) -> Iterator[dict[str, str]]:
        if number == len(packing.pods):
            yield places
            return
        yield from place(number + 1, places)
        key = packing.pods[number].key
        for node in packing.nodes:
            more = {**places, key: node.name}
            if not faults(packing, more):
                yield from place(number + 1, more)

    return place(0, {})


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_packing_anew_reaches_the_best_of_all_that_is_possible(first: int) -> None:
    for seed in range(first, first + BATCH):
        packing = random_packing(seed)
        made = repack(packing, LIMITS)
        best = max(worth(packing, places) for places in everything_possible(packing))
        assert not faults(packing, made.places), f"seed {seed}"
        assert worth(packing, made.places) == best, f"seed {seed}"
        assert tuple(phase.value for phase in made.phases) == best, f"seed {seed}"
        assert made.status is SolveStatus.OPTIMAL, f"seed {seed}"


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting.pods in (64, 128)][::6])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_answer_that_ran_out_of_time_is_legal_no_worse_and_says_what_it_is(setting: Setting, workers: int) -> None:
    packing = next(instances(setting))
    made = repack(packing, SolveLimits(time_limit_seconds=0.25, workers=workers))
    reached = worth(packing, made.places)
    assert not faults(packing, made.places)
    assert reached >= worth(packing, packing.places)
    assert reached == tuple(phase.value for phase in made.phases)
    assert all(phase.value <= phase.bound for phase in made.phases)
    assert (made.status is SolveStatus.OPTIMAL) == all(phase.value == phase.bound for phase in made.phases)


def test_the_random_packings_are_not_all_easy() -> None:
    """In some the present packing is the best; in others pods have to move, and in some to stop."""
    better, moved, stopped = 0, 0, 0
    for seed in range(CASES):
        packing = random_packing(seed)
        made = repack(packing, LIMITS)
        better += worth(packing, made.places) > worth(packing, packing.places)
        moved += any(made.places.get(key, node) != node for key, node in packing.places.items())
        stopped += any(key not in made.places for key in packing.places)
    assert 10 <= better <= CASES - 10
    assert moved >= 5
    assert stopped >= 5
