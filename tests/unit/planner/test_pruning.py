"""Moves that nothing needs, and moves for demand of a lower priority, are left out of plans without proof."""

from __future__ import annotations

import pytest

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner import pruning
from planner.options import PlanOptions
from planner.order import Unit, sequence
from planner.problem import problem_of
from planner.pruning import pruned
from planner.world import World
from tests.builders import a_node, a_pod, a_snapshot, a_workload, owned_by


def cluster(*, priority: int = 0, waiting: int = 0) -> ClusterSnapshot:
    """x on `a` may go to `b`, so that a pod of 4 fits on `a`; y on `c` may go to `d` for nothing; q waits for 1."""
    workloads = [a_workload(name, replicas=2) for name in "xy"]
    pods = [
        a_pod(name, gpus=2, node=node, owner=owned_by(workload), priority=priority)
        for name, node, workload in zip("xy", "ac", workloads, strict=True)
    ]
    nodes = [a_node(name, gpus=4) for name in "abcd"]
    demand = [a_pod("p", gpus=4, priority=waiting), a_pod("q", gpus=1, priority=10)]
    return a_snapshot(*nodes, *workloads, *pods, *demand, kinds=["PodDisruptionBudget", "ReplicaSet"])


def what_is_left(snapshot: ClusterSnapshot) -> tuple[list[str], list[str]]:
    problem, world = problem_of(snapshot, PolicySettings(), PlanOptions()), World.of(snapshot)
    units = sequence(problem, world, {"default/x": "b", "default/y": "d"})
    assert isinstance(units, tuple)
    where = {"default/p": "a", "default/q": "c"}
    kept, places = pruned(problem, world, units, [(d, where[d.key]) for d in problem.demands])
    return [key for unit in kept for key, _, _ in unit.legs], sorted(demand.key for demand, _ in places)


def test_a_move_that_nobody_needs_is_left_out() -> None:
    assert what_is_left(cluster()) == (["default/x"], ["default/p", "default/q"])


def test_a_pod_is_not_moved_for_demand_below_its_priority() -> None:
    assert what_is_left(cluster(priority=5)) == ([], ["default/q"])


def test_a_pod_is_moved_for_demand_of_its_own_priority() -> None:
    assert what_is_left(cluster(priority=5, waiting=5)) == (["default/x"], ["default/p", "default/q"])


def chain() -> ClusterSnapshot:
    """p fits on `a`, unless x comes there from `b`; then w has to go to `c`."""
    workloads = [a_workload(name, replicas=2) for name in "wx"]
    running = [
        a_pod("w", gpus=2, node="a", owner=owned_by(workloads[0]), priority=5),
        a_pod("x", gpus=2, node="b", owner=owned_by(workloads[1]), priority=5),
    ]
    nodes = [a_node(name, gpus=4) for name in "abc"]
    waiting = [a_pod("p", gpus=2, priority=5), a_pod("q", gpus=1)]
    return a_snapshot(*nodes, *workloads, *running, *waiting, kinds=["PodDisruptionBudget", "ReplicaSet"])


@pytest.mark.parametrize("tries", [0, 150])
def test_a_move_is_left_out_that_only_another_needless_one_had_need_of(tries, monkeypatch) -> None:
    """w is looked at first, and is needed while x comes; both are above q, so they are looked at in any case."""
    monkeypatch.setattr(pruning, "MOST_TRIES", tries)
    snapshot = chain()
    problem, world = problem_of(snapshot, PolicySettings(), PlanOptions()), World.of(snapshot)
    units = (Unit((("default/w", "a", "c"),)), Unit((("default/x", "b", "a"),)))
    p, q = problem.demands
    kept, places = pruned(problem, world, units, [(p, "a"), (q, "c")])
    assert kept == ()
    assert {(demand.key, node) for demand, node in places} == {("default/p", "a"), ("default/q", "c")}
