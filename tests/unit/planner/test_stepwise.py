"""Plans made one demand after the other, for when the solver had too little time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from islander.cluster import names
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner import solution
from planner.check import check_plan
from planner.models.solve import Proposal, SolveStatus
from planner.moves import plan_moves
from planner.options import PlanOptions
from planner.problem import problem_of
from planner.stepwise import Stepwise
from planner.world import World
from tests.bench.planned_clusters import irregular, story
from tests.builders import a_node, a_pod, a_snapshot
from tests.unit.planner.plans import a_replica, workloads_of

SETTINGS, OPTIONS = PolicySettings(), PlanOptions()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def decided(snapshot: ClusterSnapshot) -> Stepwise:
    return Stepwise.of(problem_of(snapshot, SETTINGS, OPTIONS), World.of(snapshot))


def crowded(*, wanted: int = 4, priority: int = 0, only_on: str = "") -> ClusterSnapshot:
    """Nodes a and b have a replica of two and two free GPUs each, c is full; `priority` is that of the replicas."""
    pods = [
        a_replica(name, gpus, node, priority=priority)
        for name, gpus, node in (("x", 2, "a"), ("y", 2, "b"), ("z", 4, "c"))
    ]
    selector = {names.HOSTNAME: only_on} if only_on else None
    waits = a_pod("p", gpus=wanted, node_selector=selector)
    return a_snapshot(*(a_node(n, gpus=4) for n in "abc"), *pods, *workloads_of(pods), waits)


def test_a_replica_gives_way_to_a_demand() -> None:
    made = decided(crowded())
    assert len(made.units) == 1
    assert [key for key, _ in made.admits] == ["default/p"]


def test_what_has_room_is_admitted_without_moves() -> None:
    made = decided(crowded(wanted=2))
    assert made.units == []
    assert [key for key, _ in made.admits] == ["default/p"]


def test_nobody_gives_way_to_a_lower_priority() -> None:
    made = decided(crowded(priority=5))
    assert (made.units, made.admits) == ([], [])


def test_a_demand_that_finds_no_room_leaves_everybody_where_they_are() -> None:
    made = decided(crowded(only_on="c"))
    assert (made.units, made.admits) == ([], [])


def test_the_story_is_solved() -> None:
    made = decided(story())
    assert [key for key, _ in made.admits] == ["default/waits"]
    assert len(made.units) <= 2


def test_a_solver_that_finds_nothing_in_its_time_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*arguments: Any) -> None:
        arguments[-1].append(Proposal({}, {}, {}, (), SolveStatus.FEASIBLE, exact=False))

    monkeypatch.setattr(solution, "_propose", nothing)
    snapshot = irregular(30, 6)
    made = plan_moves(snapshot, SETTINGS, OPTIONS, NOW)
    assert check_plan(made, snapshot, SETTINGS, OPTIONS).valid
    assert len(made.admits) >= 3
    assert made.steps
    assert made.solver.status == "feasible"
