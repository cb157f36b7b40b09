"""What fits by CPU and memory when every pod may move or stop."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from planner.errors import PlannerError
from planner.models.light_ortools import cp_model
from planner.models.outcome import SolveStatus
from planner.models.packing import RULES, Goal, Measure, Part, PodKind, build, goals_of
from planner.models.packing_parts import FewNodes, exchanged, in_counts, named, waiting
from planner.models.repacking import repack
from planner.options import SolveLimits
from planner.packing import PackedNode, PackedPod, Packing

ONE_WORKER = SolveLimits(time_limit_seconds=20.0)


def a_node(name: str, cpu: int = 4, memory: int = 4) -> PackedNode:
    return PackedNode(name, cpu, memory)


def a_pod(key: str, cpu: int = 1, memory: int = 1, priority: int = 0) -> PackedPod:
    return PackedPod(key, cpu, memory, priority)


def a_packing(nodes: int, *pods: tuple[PackedPod, str], cpu: int = 4, memory: int = 4) -> Packing:
    """Nodes n0, n1, ... of one size, and pods with the node on which each runs, or an empty name."""
    return Packing(
        tuple(a_node(f"n{n}", cpu, memory) for n in range(nodes)),
        tuple(pod for pod, _ in pods),
        {pod.key: node for pod, node in pods if node},
    )


# Values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "pods", "places"),
    [
        ((a_node("n0"), a_node("n0")), (), {}),
        ((a_node("n0"),), (a_pod("a"), a_pod("a")), {}),
        ((a_node("n0"),), (a_pod("a"),), {"a": "n1"}),
        ((a_node("n0"),), (), {"a": "n0"}),
        ((a_node("n0"),), (a_pod("a", cpu=5),), {"a": "n0"}),
        ((a_node("n0"),), (a_pod("a", memory=5),), {"a": "n0"}),
    ],
)
def test_a_packing_that_cannot_be_is_refused(
    nodes: tuple[PackedNode, ...], pods: tuple[PackedPod, ...], places: dict[str, str]
) -> None:
    with pytest.raises(PlannerError):
        Packing(nodes, pods, places)


def test_pods_that_run_nowhere_are_pending_and_tiers_go_from_high_to_low() -> None:
    packing = a_packing(1, (a_pod("a", priority=1), "n0"), (a_pod("b", priority=7), ""))
    assert [pod.key for pod in packing.pending] == ["b"]
    assert packing.tiers == (7, 1)


# Counts -----------------------------------------------------------------------------------------------------------


def test_equal_pods_are_counted_together_and_of_them_those_stay_that_can() -> None:
    packing = a_packing(2, (a_pod("a"), "n0"), (a_pod("b"), "n1"), (a_pod("c"), ""), (a_pod("d", priority=1), "n1"))
    part, keys = in_counts(packing)
    assert keys == (("a", "b", "c"), ("d",))
    assert part.running == {(0, 0): 1, (0, 1): 1, (1, 1): 1}
    assert waiting(part, part.running) == {0: 1}
    assert named(packing, keys, {(0, 1): 2, (1, 1): 1}) == {"b": "n1", "a": "n1", "d": "n1"}


def test_few_nodes_take_their_pods_and_candidates_along_and_put_back_what_was_found() -> None:
    packing = a_packing(3, (a_pod("a"), "n0"), (a_pod("b", cpu=2), "n1"), (a_pod("c", cpu=3), "n2"), (a_pod("d"), ""))
    whole, _ = in_counts(packing)
    few = FewNodes.of(whole, whole.running, (1, 2), {0: 1})
    assert few.part.nodes == packing.nodes[1:]
    assert few.kinds == (0, 1, 2)
    assert few.part.pods == (1, 1, 1)
    assert few.part.running == {(1, 0): 1, (2, 1): 1}
    found = {(0, 1): 1, (1, 0): 0, (2, 1): 1}
    assert few.replaced(whole.running, found) == {(0, 0): 1, (0, 2): 1, (2, 2): 1}


def test_equal_nodes_exchange_what_they_hold_until_most_pods_are_back() -> None:
    whole, _ = in_counts(a_packing(3, (a_pod("a"), "n0"), (a_pod("b", cpu=2), "n1"), (a_pod("c", cpu=3), "n2")))
    turned = {(0, 1): 1, (1, 2): 1, (2, 0): 1}
    assert exchanged(whole, turned) == whole.running


def test_nodes_of_other_sizes_exchange_nothing() -> None:
    packing = Packing((a_node("n0", 4), a_node("n1", 5)), (a_pod("a"), a_pod("b", 2)), {"a": "n0", "b": "n1"})
    whole, _ = in_counts(packing)
    turned = {(0, 1): 1, (1, 0): 1}
    assert exchanged(whole, turned) == turned


def test_pods_of_high_priority_come_first_when_nodes_exchange() -> None:
    low = [(a_pod(f"low{n}", cpu=1, priority=0), "n1") for n in range(3)]
    whole, _ = in_counts(a_packing(2, (a_pod("high", priority=1), "n0"), *low))
    swapped = exchanged(whole, {(0, 1): 1, (1, 1): 3})
    assert swapped == {(0, 0): 1, (1, 0): 3}


# Model ------------------------------------------------------------------------------------------------------------


def a_part() -> Part:
    kinds = (PodKind(2, 1, 0), PodKind(1, 2, 1), PodKind(9, 9, 1))
    return Part((a_node("n0", 3, 3), a_node("n1", 4, 4)), kinds, (2, 2, 1), {(0, 0): 1, (1, 1): 2})


def test_no_variable_is_made_for_pods_that_fit_nowhere_and_names_are_unique() -> None:
    model, v = build(a_part())
    assert sorted(v.put) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sorted(v.keep) == [(0, 0), (1, 1)]
    names = [variable.name for variable in model.proto.variables]
    assert len(set(names)) == len(names)


def feasible(values: dict[str, int]) -> bool:
    """Return whether the model allows these values of named variables."""
    model, v = build(a_part())
    for variable in (*v.put.values(), *v.keep.values()):
        if variable.name in values:
            model.add(variable == values[variable.name])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return bool(solver.solve(model) == cp_model.OPTIMAL)


@pytest.mark.parametrize(
    ("values", "allowed"),
    [
        ({"put[0,0]": 1, "put[1,0]": 1}, True),
        ({"put[0,1]": 2, "put[1,1]": 1}, False),  # 5 of 4 CPU
        ({"put[0,1]": 1, "put[1,1]": 2}, False),  # 5 of 4 memory
        ({"put[0,0]": 1, "put[0,1]": 2}, False),  # 3 of 2 pods
        ({"put[1,1]": 1, "keep[1,1]": 2}, False),  # 2 of 1 stay
        ({"put[1,1]": 2, "keep[1,1]": 2}, True),
    ],
)
def test_each_rule_forbids_what_it_says(values: dict[str, int], allowed: bool) -> None:
    assert len(RULES) == 3
    assert feasible(values) is allowed


def test_goals_go_from_the_highest_tier_down_and_count_the_tiers_above_too() -> None:
    assert goals_of(2) == (
        Goal(Measure.PLACED, 0),
        Goal(Measure.KEPT, 0),
        Goal(Measure.PLACED, 1),
        Goal(Measure.KEPT, 1),
    )
    part, counts = a_part(), {(0, 1): 1, (1, 1): 1, (1, 0): 1}
    assert [goal.reached(part, counts) for goal in goals_of(2)] == [1, 0, 3, 1]
    assert [goal.ceiling(part) for goal in goals_of(2)] == [2, 1, 5, 3]


# Packing anew -----------------------------------------------------------------------------------------------------


def test_a_pod_that_fits_on_no_node_gets_room_by_one_move() -> None:
    packing = a_packing(2, (a_pod("a", 2, 2), "n0"), (a_pod("b", 2, 2), "n1"), (a_pod("c", 4, 4), ""))
    made = repack(packing, ONE_WORKER)
    assert made.status is SolveStatus.OPTIMAL
    assert [phase.value for phase in made.phases] == [3, 1]
    assert made.places["a"] == made.places["b"] != made.places["c"]


def test_a_pod_of_higher_priority_takes_the_place_of_several_lower_ones() -> None:
    low = [(a_pod(f"low{n}"), "n0") for n in range(4)]
    made = repack(a_packing(1, *low, (a_pod("high", 4, 4, priority=5), "")), ONE_WORKER)
    assert made.places == {"high": "n0"}
    assert [(phase.name, phase.value) for phase in made.phases] == [
        ("pods placed of priority 5 and above", 1),
        ("running pods kept of priority 5 and above", 0),
        ("pods placed of priority 0 and above", 1),
        ("running pods kept of priority 0 and above", 0),
    ]


def test_what_cannot_be_better_stays_and_is_proved() -> None:
    packing = a_packing(2, (a_pod("a", 3, 1), "n0"), (a_pod("b", 3, 1), "n1"), (a_pod("c", 2, 1), ""))
    made = repack(packing, ONE_WORKER)
    assert made.places == packing.places
    assert made.status is SolveStatus.OPTIMAL


def test_without_time_everything_stays_and_nothing_is_claimed() -> None:
    packing = a_packing(2, (a_pod("a", 2, 2), "n0"), (a_pod("b", 2, 2), "n1"), (a_pod("c", 4, 4), ""))
    made = repack(packing, replace(ONE_WORKER, time_limit_seconds=0.0))
    assert made.places == packing.places
    assert made.status is SolveStatus.FEASIBLE


def test_a_packing_without_pods_or_nodes_is_done() -> None:
    assert repack(Packing((), (), {}), ONE_WORKER).status is SolveStatus.OPTIMAL
    made = repack(Packing((), (a_pod("a"),), {}), ONE_WORKER)
    assert (made.places, made.status) == ({}, SolveStatus.OPTIMAL)


@pytest.mark.parametrize("workers", [1, 2])
def test_many_nodes_are_packed_a_few_at_a_time(workers: int) -> None:
    """Sixteen nodes with 3 of 4 CPU in use, and as many pods of 1 CPU and of 2: room for each after moves."""
    nodes = range(16)
    running = [(a_pod(f"r{n}-{i}", 1, 1), f"n{n}") for n, i in product(nodes, range(3))]
    pending = [(a_pod(f"p{n}", 2, 1), "") for n in range(8)]
    made = repack(a_packing(16, *running, *pending), replace(ONE_WORKER, workers=workers))
    assert made.phases[0].value == 56
    # Each pod of 2 CPU finds one free, so that one pod moves for it.
    assert made.phases[1].value == 40
    assert made.status is SolveStatus.OPTIMAL
