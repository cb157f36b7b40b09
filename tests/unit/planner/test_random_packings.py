"""The random packings of the benchmark, the emulated scheduler, and the checker of answers."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import groupby, islice

import pytest

from planner.packing import PackedNode, PackedPod, Packing
from tests.bench.bench_packings import LARGE, PUBLISHED, Measured, sample, shares
from tests.bench.packing_check import Outcome, faults, outcome, placed, worth
from tests.bench.random_packings import PRIORITIES, SETTINGS, Setting, drawn, instances, scheduled

SETTING = Setting(usage=95, nodes=8, pods_per_node=4, priorities=4)


def a_packing(*pods: PackedPod, nodes: int = 2, cpu: int = 1000, memory: int = 1000) -> Packing:
    return Packing(tuple(PackedNode(f"n{n}", cpu, memory) for n in range(nodes)), pods, {})


# Generator --------------------------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_packing_every_time_and_another_seed_another() -> None:
    assert drawn(SETTING, 3) == drawn(SETTING, 3)
    assert drawn(SETTING, 3) != drawn(SETTING, 4)


@pytest.mark.parametrize("seed", range(5))
def test_pods_come_in_sets_of_one_to_four_equal_ones(seed: int) -> None:
    packing = drawn(SETTING, seed)
    assert len(packing.pods) == 32
    assert len(packing.nodes) == 8
    for _, members in groupby(packing.pods, key=lambda pod: pod.key.split("-")[0]):
        of_set = list(members)
        assert 1 <= len(of_set) <= 4
        assert len({(pod.cpu_milli, pod.memory_bytes, pod.priority) for pod in of_set}) == 1
    assert all(100 <= pod.cpu_milli <= 1000 for pod in packing.pods)
    assert all(10**8 <= pod.memory_bytes <= 10**9 for pod in packing.pods)
    assert {pod.priority for pod in packing.pods} <= {1, 2, 3, 4}


@pytest.mark.parametrize("usage", [90, 105])
def test_nodes_are_alike_and_just_so_large_that_pods_ask_for_the_share(usage: int) -> None:
    packing = drawn(Setting(usage, 16, 8, 1), 1)
    (cpu,) = {node.cpu_milli for node in packing.nodes}
    (memory,) = {node.memory_bytes for node in packing.nodes}
    for size, asked in (
        (cpu, sum(pod.cpu_milli for pod in packing.pods)),
        (memory, sum(pod.memory_bytes for pod in packing.pods)),
    ):
        assert 16 * (size - 2) * usage < 100 * asked <= 16 * size * usage


def test_below_full_usage_every_instance_has_a_pending_pod() -> None:
    assert all(packing.pending for packing in islice(instances(Setting(90, 4, 8, 1)), 10))


def test_the_settings_are_those_of_the_published_shares() -> None:
    """4 usages x 2 x 4 sizes x 3 priorities, without 32 nodes of 8 pods at 90 %."""
    assert len(SETTINGS) == len(set(SETTINGS)) == 93


def test_a_third_of_the_settings_has_each_size_once_and_each_priority_as_often() -> None:
    taken = [setting for setting, wanted in sample(Fraction(1, 3)) if wanted]
    assert len({(setting.usage, setting.nodes, setting.pods_per_node) for setting in taken}) == len(taken) == 31
    often = Counter(setting.priorities for setting in taken)
    assert max(often.values()) - min(often[priorities] for priorities in PRIORITIES) <= 1
    assert sum(wanted for _, wanted in sample(Fraction(2))) == 186


# Scheduler --------------------------------------------------------------------------------------------------------


def test_the_scheduler_spreads_and_takes_the_first_of_equal_nodes() -> None:
    pods = [PackedPod(f"p{n}", 100, 100) for n in range(3)]
    assert scheduled(a_packing(*pods)).places == {"p0": "n0", "p1": "n1", "p2": "n0"}


def test_the_scheduler_weighs_balance_as_much_as_room() -> None:
    """100 CPU and 300 memory are in use on n0, 200 and 200 on n1; a pod of 300 and 100 comes.

    Both nodes would have 60 % left on average; shares in use are 0.4 and 0.4 on n0, 0.5 and 0.3 on n1.
    """
    first, second = PackedPod("a", 100, 300), PackedPod("b", 200, 200)
    pod = PackedPod("c", 300, 100)
    made = scheduled(a_packing(first, second, pod))
    assert made.places == {"a": "n0", "b": "n1", "c": "n0"}


def test_the_scheduler_places_high_priority_first_and_leaves_pending_what_does_not_fit() -> None:
    low, high = PackedPod("low", 600, 600, 1), PackedPod("high", 600, 600, 2)
    made = scheduled(a_packing(low, high, nodes=1))
    assert made.places == {"high": "n0"}
    assert made.pending == (low,)


@pytest.mark.parametrize("setting", SETTINGS[::17])
def test_the_scheduler_overfills_no_node_and_leaves_nothing_that_fits(setting: Setting) -> None:
    packing = scheduled(drawn(setting, 0))
    assert not faults(packing, packing.places)
    for pod in packing.pending:
        assert all(faults(packing, {**packing.places, pod.key: node.name}) for node in packing.nodes)


# Checker ----------------------------------------------------------------------------------------------------------


def test_the_checker_finds_overfull_nodes_and_unknown_names() -> None:
    packing = a_packing(PackedPod("a", 600, 100), PackedPod("b", 600, 100), PackedPod("c", 100, 950))
    assert not faults(packing, {"a": "n0", "b": "n1"})
    assert faults(packing, {"a": "n0", "b": "n0"}) == ["n0 is overfull"]
    assert faults(packing, {"a": "n1", "c": "n1"}) == ["n1 is overfull"]
    assert faults(packing, {"a": "n7"}) == ["a on n7: unknown"]
    assert faults(packing, {"x": "n0"}) == ["x on n0: unknown"]


def test_worth_counts_placed_then_kept_from_the_highest_priority_down() -> None:
    pods = (PackedPod("a", 1, 1, 2), PackedPod("b", 1, 1, 2), PackedPod("c", 1, 1, 1), PackedPod("d", 1, 1, 1))
    packing = Packing(a_packing().nodes, pods, {"a": "n0", "c": "n0", "d": "n1"})
    places = {"a": "n0", "b": "n0", "c": "n1"}
    assert worth(packing, places) == (2, 1, 3, 1)
    assert worth(packing, packing.places) == (1, 1, 3, 3)
    assert placed(packing, places) == (2, 1)


def test_outcomes_are_told_apart_as_in_the_published_tables() -> None:
    pods = (PackedPod("high", 1, 1, 2), PackedPod("low", 1, 1, 1), PackedPod("lower", 1, 1, 0))
    packing = Packing(a_packing().nodes, pods, {"low": "n0", "lower": "n0"})
    better, same, worse = {"high": "n0"}, {"low": "n1", "lower": "n0"}, {"lower": "n0"}
    assert outcome(packing, better, proved=False) is Outcome.BETTER
    assert outcome(packing, better, proved=True) is Outcome.BETTER_AND_OPTIMAL
    assert outcome(packing, same, proved=True) is Outcome.DEFAULT_OPTIMAL
    assert outcome(packing, same, proved=False) is Outcome.FAILURE
    assert outcome(packing, worse, proved=True) is Outcome.FAILURE
    everything = Packing(packing.nodes, pods, {"high": "n0", "low": "n0", "lower": "n0"})
    assert outcome(everything, everything.places, proved=True) is Outcome.NO_CALL


def test_shares_of_outcomes_are_of_all_instances_and_published_ones_sum_to_all() -> None:
    found = [Measured(SETTING, kind, 0.0, 0.0) for kind in (Outcome.BETTER, Outcome.BETTER, Outcome.FAILURE)]
    assert shares(found)[Outcome.BETTER] == pytest.approx(200 / 3)
    assert shares(found)[Outcome.NO_CALL] == 0
    for published in (*PUBLISHED.values(), *filter(None, LARGE.values())):
        assert sum(published.values()) == pytest.approx(100, abs=0.3)
