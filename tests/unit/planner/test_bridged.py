"""Fleets of nodes in which bridges join pairs of GPUs: single GPUs split the pairs, and who waits needs whole ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import Workload
from islander.policy.settings import PolicySettings
from planner.check import check_plan
from planner.moves import plan_moves
from planner.options import PlanOptions, SolveLimits
from planner.plan import MovePlan
from tests.bench.planned_clusters import bridged
from tests.builders import a_node, a_pod, a_report, a_snapshot, a_workload, owned_by

SETTINGS = PolicySettings()
OPTIONS = PlanOptions(limits=SolveLimits(time_limit_seconds=60))
PCIE = "NVIDIA-A100-80GB-PCIe"
PAIRS = (
    ("X", "NV12", "SYS", "SYS"),
    ("NV12", "X", "SYS", "SYS"),
    ("SYS", "SYS", "X", "NV12"),
    ("SYS", "SYS", "NV12", "X"),
)


def plan(snapshot: ClusterSnapshot) -> MovePlan:
    made = plan_moves(snapshot, SETTINGS, OPTIONS, datetime(2026, 1, 1, tzinfo=UTC))
    assert check_plan(made, snapshot, SETTINGS, OPTIONS).valid
    return made


def free_pairs(snapshot: ClusterSnapshot) -> int:
    reports = [node.gpu_report for node in snapshot.nodes if node.gpu_report is not None]
    users = [[gpu.pod for gpu in report.gpus] for report in reports]
    return sum(there[gpu] is None and there[gpu + 1] is None for there in users for gpu in range(0, len(there), 2))


@pytest.mark.parametrize("nodes", [14, 24, 60])
def test_a_fleet_of_split_pairs_is_planned_with_the_fewest_moves(nodes: int) -> None:
    """No move frees more than one pair, so that the number of moves is the least without asking any solver."""
    snapshot = bridged(nodes, nodes)
    made = plan(snapshot)
    assert len(made.admits) == nodes
    assert len(made.steps) == nodes - free_pairs(snapshot)
    assert made.solver.status == "optimal"
    assert all(phase.bound == phase.value for phase in made.solver.phases)


def pod_on(name: str, node: str, zone: str = "", *, moves: bool = True, gpus: int = 1, **fields: Any) -> Pod:
    owner = owned_by(a_workload(name, replicas=2)) if moves else None
    selector = {"zone": zone} if zone else None
    return a_pod(name, gpus=gpus, node=node, owner=owner, node_selector=selector, **fields)


def a_bridged_node(name: str, zone: str, *users: str | None) -> Node:
    used = {gpu: f"default/{user}" for gpu, user in enumerate(users) if user is not None}
    return a_node(name, gpus=4, product=PCIE, labels={"zone": zone}, report=a_report(4, used=used, links=PAIRS))


def snapshot_of(*objects: Node | Pod) -> ClusterSnapshot:
    owners = {pod.owner.name for pod in objects if isinstance(pod, Pod) and pod.owner is not None}
    workloads: list[Workload] = [a_workload(name, replicas=2) for name in sorted(owners)]
    return a_snapshot(*objects, *workloads, kinds=["PodDisruptionBudget", "ReplicaSet"])


def chain(number: int) -> list[Node | Pod]:
    """Three nodes: what splits the pair on the first can go to the second only, once somebody has left that one."""
    a, b, c = f"a{number}", f"b{number}", f"c{number}"
    return [
        a_bridged_node(a, a, f"split-{a}", None, f"{a}-2", f"{a}-3"),
        a_bridged_node(b, b, f"blocks-{b}", f"{b}-1", f"{b}-2", f"{b}-3"),
        a_bridged_node(c, c, f"{c}-0", None, f"{c}-2", f"{c}-3"),
        pod_on(f"split-{a}", a, b),
        pod_on(f"blocks-{b}", b, c),
        *(pod_on(f"{a}-{n}", a, moves=False) for n in (2, 3)),
        *(pod_on(f"{b}-{n}", b, moves=False) for n in (1, 2, 3)),
        *(pod_on(f"{c}-{n}", c, moves=False) for n in (0, 2, 3)),
        a_pod(f"waits-{number}", gpus=2, tp=2, topology="required"),
    ]


def test_a_node_of_a_large_fleet_gives_a_pod_away_and_takes_another() -> None:
    """15 nodes, 5 chains of two moves, each in the only order that works."""
    snapshot = snapshot_of(*(thing for number in range(5) for thing in chain(number)))
    made = plan(snapshot)
    assert {(a.pod, a.node) for a in made.admits} == {(f"default/waits-{n}", f"a{n}") for n in range(5)}
    assert {(s.pod, s.to_node, s.wave) for s in made.steps} == {
        move for n in range(5) for move in ((f"default/blocks-b{n}", f"c{n}", 1), (f"default/split-a{n}", f"b{n}", 2))
    }
    assert made.solver.status == "optimal"


def test_nobody_moves_to_the_node_where_it_is() -> None:
    """A replica of two lies across both pairs of its node; to pick anew at home it would have to leave first."""
    nodes = [
        a_bridged_node(f"n{n:02}", "x", f"across-{n}", None, f"across-{n}", None)
        if not n
        else a_bridged_node(f"n{n:02}", "x", f"full-{n}", f"full-{n}", f"full-{n}", f"full-{n}")
        for n in range(14)
    ]
    across = pod_on("across-0", "n00", gpus=2, tp=2)
    full = [pod_on(f"full-{n}", f"n{n:02}", gpus=4, tp=4, moves=False) for n in range(1, 14)]
    made = plan(snapshot_of(*nodes, across, *full, a_pod("waits", gpus=2, tp=2, topology="required")))
    assert (made.steps, made.admits) == ([], [])
    assert made.outcome == "infeasible"


def test_who_waits_for_one_gpu_must_not_be_able_to_take_half_of_the_pair() -> None:
    """A pair and a half are free: both may start in any order, so that only one of them is sure of its place."""
    nodes = [
        a_bridged_node("n00", "x", None, None, None, "half"),
        *(a_bridged_node(f"n{n:02}", "x", *[f"full-{n}"] * 4) for n in range(1, 14)),
    ]
    full = [pod_on(f"full-{n}", f"n{n:02}", gpus=4, tp=4, moves=False) for n in range(1, 14)]
    waits = [a_pod("pair", gpus=2, tp=2, topology="required"), a_pod("one", gpus=1)]
    made = plan(snapshot_of(*nodes, pod_on("half", "n00", moves=False), *full, *waits))
    assert [admission.pod for admission in made.admits] == ["default/pair"]
    assert made.solver.status == "optimal"
