"""Plans of small clusters whose right answer is known (cases E of the case list)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from islander.cluster import names
from islander.cluster.node import Node, Taint
from islander.cluster.pod import Pod, PodTerm, Requirement
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import DisruptionBudget, Workload
from islander.policy.settings import PolicySettings
from planner.check import check_plan
from planner.moves import plan_moves
from planner.options import Goal, PlanOptions, SolveLimits
from planner.outlook import after
from planner.plan import MovePlan
from planner.world import World
from tests.builders import a_budget, a_node, a_pod, a_report, a_snapshot, a_workload, owned_by

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS = PolicySettings()
L40S = "NVIDIA-L40S"


def replica(name: str, gpus: int, node: str, *, workload: Workload | None = None, **fields: Any) -> Pod:
    """A replica of a workload of two, so that it may move."""
    owner = owned_by(workload or a_workload(f"w-{name}"))
    return a_pod(name, gpus=gpus, node=node, owner=owner, **fields)


def snapshot_of(*objects: Node | Pod | Workload | DisruptionBudget) -> ClusterSnapshot:
    """A snapshot in which every owner that is not given has two replicas."""
    given = {(o.kind, o.name) for o in objects if isinstance(o, Workload)}
    owners = {(o.owner.kind, o.owner.name) for o in objects if isinstance(o, Pod) and o.owner is not None}
    others = [a_workload(name, kind=kind, replicas=2) for kind, name in sorted(owners - given)]
    return a_snapshot(*objects, *others, kinds=["PodDisruptionBudget", "ReplicaSet"])


def plan(snapshot: ClusterSnapshot, **options: Any) -> MovePlan:
    chosen = PlanOptions(**options)
    made = plan_moves(snapshot, SETTINGS, chosen, NOW)
    assert check_plan(made, snapshot, SETTINGS, chosen).valid
    return made


def moves(made: MovePlan) -> set[tuple[str, str, str]]:
    return {(step.pod.removeprefix("default/"), step.from_node, step.to_node) for step in made.steps}


def admitted(made: MovePlan) -> dict[str, str]:
    return {admission.pod.removeprefix("default/"): admission.node for admission in made.admits}


def g32(wanted: int, *fixed: str) -> ClusterSnapshot:
    """Four nodes of 8 with 2, 2, 1 and 1 free GPUs; `fixed` pods have no owner."""
    layout = {"a": (4, 2), "b": (4, 1, 1), "c": (4, 3), "d": (4, 2, 1)}
    pods = []
    for node, sizes in layout.items():
        for number, gpus in enumerate(sizes):
            name = f"{node}{gpus}-{number}"
            pods.append(a_pod(name, gpus=gpus, node=node) if name in fixed else replica(name, gpus, node))
    return snapshot_of(*(a_node(name) for name in layout), *pods, a_pod("p", gpus=wanted))


def test_a_pod_of_four_needs_one_move_g32() -> None:
    made = plan(g32(4))
    assert moves(made) == {("a2-1", "a", "b")}
    assert admitted(made) == {"p": "a"}
    assert made.outcome == "plan"
    assert made.solver.status == "optimal"
    assert made.cost.steps == made.cost.replicas_interrupted == 1
    assert made.before.placeable["4"] == 0


def test_two_small_pods_move_when_the_one_of_two_is_fixed_g32() -> None:
    made = plan(g32(4, "a2-1"))
    assert {pod for pod, _, _ in moves(made)} == {"b1-1", "b1-2"}
    assert sum(step.gpus for step in made.steps) == 2
    assert admitted(made) == {"p": "b"}


def test_three_gpus_move_when_a_small_pod_is_fixed_too_g32() -> None:
    made = plan(g32(4, "a2-1", "b1-1"))
    assert {pod for pod, _, _ in moves(made)} == {"d2-1", "d1-2"}
    assert admitted(made) == {"p": "d"}


@pytest.mark.parametrize(("wanted", "steps", "gpus"), [(5, 2, 6), (6, 3, 6)])
def test_larger_pods_need_more_moves_g32(wanted: int, steps: int, gpus: int) -> None:
    made = plan(g32(wanted))
    assert len(made.steps) == steps
    assert sum(step.gpus for step in made.steps) == gpus
    assert len(admitted(made)) == 1


def test_a_move_that_needs_room_waits_for_the_moves_that_free_it_g32() -> None:
    made = plan(g32(6))
    last = max(made.steps, key=lambda step: step.wave)
    assert (last.pod, last.from_node, last.to_node) == ("default/a4-0", "a", "b")
    assert last.depends_on == [step.id for step in made.steps if step.from_node == "b"]
    assert made.admits[0].after_wave == last.wave == 2


def test_seven_gpus_do_not_fit_where_six_are_free_g32() -> None:
    made = plan(g32(7))
    assert made.outcome == "infeasible"
    assert made.steps == []
    assert made.unadmitted[0].code == "NO_ROOM_EVEN_IF_REPACKED"
    assert "one more node of NVIDIA-H100-80GB-HBM3" in made.unadmitted[0].message


def test_nothing_is_done_where_nothing_waits_s10() -> None:
    snapshot = snapshot_of(a_node("a"), replica("r", 4, "a"))
    made = plan(snapshot)
    assert (made.outcome, made.steps, made.admits) == ("nothing-to-do", [], [])


def test_a_pod_that_fits_already_is_admitted_without_moves() -> None:
    made = plan(snapshot_of(a_node("a"), replica("r", 4, "a"), a_pod("p", gpus=4)))
    assert (moves(made), admitted(made), made.admits[0].after_wave) == (set(), {"p": "a"}, 0)


def test_four_and_four_free_need_one_move_of_four_s1() -> None:
    made = plan(snapshot_of(a_node("a"), a_node("b"), replica("x", 4, "a"), replica("y", 4, "b"), a_pod("p", gpus=8)))
    assert len(made.steps) == 1
    assert len(made.admits) == 1


def test_a_budget_of_zero_holds_the_pod_and_is_named_s2() -> None:
    pods = [replica(name, 4, node, labels={"app": "chat"}) for name, node in (("x", "a"), ("y", "b"))]
    budget = a_budget("chat", labels={"app": "chat"}, allowed=0)
    made = plan(snapshot_of(a_node("a"), a_node("b"), *pods, budget, a_pod("p", gpus=8)))
    assert made.steps == []
    assert {(pod.pod, pod.code) for pod in made.immovable} == {("default/x", "PDB_ZERO"), ("default/y", "PDB_ZERO")}
    assert "1 PDB: default/chat" in made.unadmitted[0].message


def test_pods_of_one_budget_move_in_separate_waves_g33() -> None:
    workload = a_workload("chat", replicas=3)
    pods = [replica(f"r{n}", 4, f"n{n}", workload=workload, labels={"app": "chat"}) for n in range(3)]
    fixed = [a_pod(f"f{n}", gpus=4, node=f"t{n}") for n in range(2)]
    snapshot = snapshot_of(
        *(a_node(f"n{n}") for n in range(3)),
        *(a_node(f"t{n}") for n in range(2)),
        workload,
        *pods,
        *fixed,
        a_budget("chat", labels={"app": "chat"}, allowed=1),
        *(a_pod(f"p{n}", gpus=8) for n in range(2)),
    )
    made = plan(snapshot)
    assert sorted(step.wave for step in made.steps) == [1, 2]
    assert len(made.admits) == 2


def test_pods_of_one_workload_without_a_budget_move_in_separate_waves_g33() -> None:
    workload = a_workload("chat", replicas=3)
    pods = [replica(f"r{n}", 4, f"n{n}", workload=workload) for n in range(2)]
    fixed = [a_pod(f"f{n}", gpus=4, node=f"t{n}") for n in range(2)]
    nodes = [a_node(name) for name in ("n0", "n1", "t0", "t1")]
    made = plan(snapshot_of(*nodes, workload, *pods, *fixed, a_pod("p0", gpus=8), a_pod("p1", gpus=8)))
    assert sorted(step.wave for step in made.steps) == [1, 2]


def test_only_the_legal_target_is_used_g34() -> None:
    """B repels the pod, C has its port taken, D does not match; only E is fine."""
    repels = PodTerm(names.HOSTNAME, (Requirement("app", "In", ("x",)),))
    x = replica("x", 2, "a", labels={"app": "x"}, node_selector={"zone": "1"})
    y = a_pod("y", gpus=1, node="b", pod_anti_affinity=(repels,))
    nodes = [a_node(name, gpus=4, labels={"zone": "2" if name == "d" else "1"}) for name in "abde"]
    full = [a_pod(f"full-{name}", gpus=2, node=name) for name in "bde"]
    made = plan(snapshot_of(*nodes, x, y, *full, a_pod("p", gpus=4)))
    assert moves(made) == {("x", "a", "e")}
    without_e = [node for node in nodes if node.name != "e"]
    made = plan(snapshot_of(*without_e, x, y, *full[:2], a_pod("p", gpus=4)))
    assert made.steps == []


def test_only_the_pod_that_may_and_can_move_does_g36() -> None:
    """G36: who asks for GPUs holds them, whether or not it may move; an exporter that asks for none does not count."""
    daemon = a_workload("daemon", kind="DaemonSet")
    busy = [
        a_pod("daemon-1", gpus=1, node="n1", owner=owned_by(daemon)),
        a_pod("bare", gpus=1, node="n1"),
        replica("wish", 1, "n1", annotations={names.KARPENTER_DO_NOT_DISRUPT: "true"}),
        replica("pinned", 2, "n1", node_selector={names.HOSTNAME: "n1"}),
        replica("d2", 2, "n1"),
        a_pod("mirror", gpus=1, node="n1", annotations={names.MIRROR_POD: "hash"}),
        a_pod("dcgm-exporter", gpus=0, node="n1", owner=owned_by(daemon)),
    ]
    other = a_pod("other", gpus=6, node="n2")
    wanted = a_pod("p", gpus=2, node_selector={names.HOSTNAME: "n1"})
    snapshot = snapshot_of(a_node("n1"), a_node("n2"), *busy, other, wanted)
    made = plan(snapshot)
    assert World.of(snapshot).state("n1", names.NVIDIA_GPU).used == 8
    assert moves(made) == {("d2", "n1", "n2")}
    assert {pod.pod.removeprefix("default/"): pod.code for pod in made.immovable} == {
        "daemon-1": "DAEMONSET",
        "bare": "BARE_POD",
        "wish": "DO_NOT_DISRUPT",
        "mirror": "STATIC_POD",
        "other": "BARE_POD",
    }


def g37(*, low: bool) -> ClusterSnapshot:
    """One move of a pod of priority 1000, or two of priority 10, make room for four GPUs of priority 100."""
    pods = [replica("high", 2, "a", priority=1000), a_pod("fill-a", gpus=4, node="a")]
    if low:
        pods += [replica("low-1", 1, "b", priority=10), replica("low-2", 1, "b", priority=10)]
    else:
        pods += [a_pod("low", gpus=2, node="b")]
    pods += [a_pod("fill-b", gpus=4, node="b"), a_pod("fill-c", gpus=6, node="c")]
    return snapshot_of(*(a_node(name) for name in "abc"), *pods, a_pod("p", gpus=4, priority=100))


def test_two_pods_of_low_priority_move_rather_than_one_of_high_priority_g37() -> None:
    assert {pod for pod, _, _ in moves(plan(g37(low=True)))} == {"low-1", "low-2"}


def test_a_higher_priority_is_not_disturbed_even_if_nothing_else_helps_g37() -> None:
    made = plan(g37(low=False))
    assert made.steps == []
    assert "higher priority" in made.unadmitted[0].message
    assert ("default/high", "PRIORITY_HIGHER") in {(pod.pod, pod.code) for pod in made.immovable}


def g38(*, pinned: bool) -> ClusterSnapshot:
    h100 = {names.GPU_PRODUCT: "NVIDIA-H100-80GB-HBM3"}
    selector = h100 if pinned else None
    return snapshot_of(
        a_node("n1"),
        a_node("n2", product=L40S),
        a_node("n3"),
        a_pod("fill-1", gpus=4, node="n1"),
        replica("mover", 2, "n1", node_selector=selector),
        replica("cpu-1", 0, "n1"),
        replica("cpu-2", 0, "n1"),
        a_pod("fill-3", gpus=6, node="n3"),
        a_pod("p", gpus=4, node_selector=h100),
        a_pod("z", gpus=1, node_selector={names.GPU_PRODUCT: "Tesla-T4"}),
        a_pod("y", gpus=16),
    )


def test_hopeless_pods_hold_nobody_up_and_pods_without_gpus_stay_g38() -> None:
    """G38: one move of the pod with GPUs; what no move can satisfy is told and is in nobody's way."""
    made = plan(g38(pinned=True))
    assert moves(made) == {("mover", "n1", "n3")}
    assert admitted(made) == {"p": "n1"}
    assert {pod.pod: pod.code for pod in made.unadmitted} == {
        "default/z": "WRONG_PRODUCT",
        "default/y": "NODE_TOO_SMALL",
    }


def test_a_pod_that_names_no_product_may_go_to_another_one_g38() -> None:
    assert {pod for pod, _, _ in moves(plan(g38(pinned=False)))} == {"mover"}


def test_a_pending_group_is_admitted_whole_or_not_at_all_g31() -> None:
    workload = a_workload("lws", kind="LeaderWorkerSet", replicas=3, group_size=2)
    members = [
        a_pod(
            f"lws-{group}-{member}",
            gpus=1,
            owner=owned_by(workload),
            labels={names.LWS_NAME: "lws", names.LWS_GROUP_INDEX: str(group)},
        )
        for group in range(3)
        for member in range(2)
    ]
    made = plan(snapshot_of(*(a_node(f"n{n}", gpus=1) for n in range(5)), workload, *members))
    groups = [pod.rsplit("-", 1)[0] for pod in admitted(made)]
    assert len(groups) == 4
    assert all(groups.count(group) == 2 for group in groups)


def group_in_the_way(*, room: int) -> ClusterSnapshot:
    """A worker of a group of two stands in the way on `a`; its leader on `b` restarts with it."""
    workload = a_workload("lws", kind="LeaderWorkerSet", replicas=2, group_size=2)
    labels = {names.LWS_NAME: "lws", names.LWS_GROUP_INDEX: "0"}
    leader = a_pod("lws-0", gpus=2, node="b", owner=owned_by(workload), labels=labels)
    worker = a_pod("lws-0-1", gpus=2, node="a", owner=owned_by(workload), labels=labels)
    nodes = [a_node("a"), a_node("b", gpus=2), a_node("c", gpus=room)]
    fill = a_pod("fill", gpus=2, node="a")
    return snapshot_of(*nodes, workload, leader, worker, fill, a_pod("p", gpus=6))


def test_a_group_restarts_whole_when_one_member_moves_s4() -> None:
    made = plan(group_in_the_way(room=2))
    assert {step.pod for step in made.steps} == {"default/lws-0", "default/lws-0-1"}
    assert {step.wave for step in made.steps} == {1}
    assert ("lws-0-1", "a", "c") in moves(made)
    assert made.cost.steps == 2


def test_a_group_without_room_for_the_member_that_leaves_stays_s4() -> None:
    made = plan(group_in_the_way(room=1))
    assert made.steps == []
    assert len(made.unadmitted) == 1


def swap(*, buffer: bool) -> ClusterSnapshot:
    """Two pods would have to trade places before the pending one fits: each may run on one of two nodes only."""
    x = replica("x", 4, "a", node_selector={"side": "left"})
    y = replica("y", 4, "b", node_selector={"side": "left"})
    nodes = [
        a_node("a", gpus=4, labels={"side": "left", "fast": "yes"}),
        a_node("b", gpus=4, labels={"side": "left"}),
        *([a_node("c", gpus=4, labels={"side": "left"})] if buffer else []),
    ]
    return snapshot_of(*nodes, x, y, a_pod("p", gpus=4, node_selector={"fast": "yes"}))


def test_without_a_free_node_nobody_trades_places_s3() -> None:
    made = plan(swap(buffer=False))
    assert made.steps == []
    assert made.outcome == "infeasible"


def test_with_a_free_node_one_move_is_enough_s3() -> None:
    assert moves(plan(swap(buffer=True))) == {("x", "a", "c")}


def cycle(*, buffer: bool) -> ClusterSnapshot:
    """x and y1 would have to trade nodes, so that one GPU comes free on the node that p names."""
    pods = [replica("x", 4, "a"), replica("y1", 3, "b")]
    nodes = [a_node("a", gpus=4, labels={"for": "p"}), a_node("b", gpus=4)]
    spare = [a_node("c", gpus=3)] if buffer else []
    return snapshot_of(*nodes, *spare, *pods, a_pod("p", gpus=1, node_selector={"for": "p"}))


def test_a_cycle_without_a_buffer_is_refused_by_name_s3() -> None:
    made = plan(cycle(buffer=False))
    assert made.steps == []
    assert made.unadmitted[0].code == "CYCLE_WITHOUT_BUFFER"
    assert made.solver.status == "optimal"


def test_a_cycle_with_a_buffer_is_untied_by_moving_one_pod_there() -> None:
    made = plan(cycle(buffer=True))
    assert [(step.pod, step.from_node, step.to_node) for step in made.steps] == [
        ("default/y1", "b", "c"),
        ("default/x", "a", "b"),
    ]
    assert admitted(made) == {"p": "a"}


def test_bare_pods_and_daemons_in_the_way_make_another_node_the_source_s5() -> None:
    daemon = a_workload("daemon", kind="DaemonSet")
    pods = [
        a_pod("bare", gpus=2, node="a"),
        a_pod("daemon-1", gpus=2, node="a", owner=owned_by(daemon)),
        replica("x", 4, "b"),
    ]
    made = plan(snapshot_of(a_node("a"), a_node("b"), *pods, a_pod("p", gpus=8)))
    assert moves(made) == {("x", "b", "a")}


def test_higher_tiers_are_admitted_first_and_no_pod_above_a_tier_moves_for_it() -> None:
    """Room for one of two: the one of higher priority gets it, though the other one would need no move."""
    pods = [replica("x", 4, "a"), replica("y", 4, "b")]
    waiting = [a_pod("low", gpus=4, priority=0), a_pod("high", gpus=8, priority=10)]
    made = plan(snapshot_of(a_node("a"), a_node("b"), *pods, *waiting))
    assert set(admitted(made)) == {"high"}
    pods = [replica("x", 4, "a", priority=5), replica("y", 4, "b", priority=5)]
    made = plan(snapshot_of(a_node("a"), a_node("b"), *pods, a_pod("low", gpus=8), a_pod("high", gpus=1, priority=10)))
    assert set(admitted(made)) == {"high"}
    assert made.steps == []


def test_a_goal_makes_room_for_replicas_that_do_not_exist() -> None:
    pods = [replica("x", 4, "a"), replica("y", 4, "b")]
    made = plan(snapshot_of(a_node("a"), a_node("b"), *pods), goal=Goal(8))
    assert [admission.pod for admission in made.admits] == ["goal/1"]
    assert len(made.steps) == 1
    assert made.goal == "make room for tp=8,count=1"


def test_whole_nodes_are_emptied_on_demand() -> None:
    pods = [replica(f"r{n}", 2, f"n{n}") for n in range(4)]
    made = plan(snapshot_of(*(a_node(f"n{n}") for n in range(4)), *pods), empty_nodes=2)
    assert len(made.steps) == 2
    assert (made.before.empty_nodes, made.after.empty_nodes) == (0, 2)


def test_a_limit_of_moves_is_kept_and_named() -> None:
    made = plan(g32(6), max_moves=2)
    assert made.steps == []
    assert made.unadmitted[0].code == "OVER_MOVE_LIMIT"
    assert len(plan(g32(6), max_moves=3).steps) == 3


def test_a_limit_per_workload_is_kept() -> None:
    workload = a_workload("chat", replicas=4)
    pods = [replica(f"r{n}", 1, "a", workload=workload) for n in range(2)]
    snapshot = snapshot_of(
        a_node("a", gpus=2), a_node("b", gpus=2), workload, *pods, a_pod("p", gpus=2), a_pod("q", gpus=2)
    )
    assert len(plan(snapshot).admits) == 1
    busy = [a_pod("f", gpus=6, node="b"), *(replica(f"r{n}", 1, "a", workload=workload) for n in range(2))]
    tight = snapshot_of(a_node("a"), a_node("b"), workload, *busy, a_pod("g", gpus=1, node="a"), a_pod("p", gpus=7))
    assert len(plan(tight).steps) == 2
    assert plan(tight, max_moves_per_workload=1).steps == []


def test_single_replicas_move_by_surge_when_allowed() -> None:
    workload = a_workload("only", replicas=1)
    pods = [replica("x", 4, "a", workload=workload), a_pod("y", gpus=4, node="b")]
    snapshot = snapshot_of(a_node("a"), a_node("b"), workload, *pods, a_pod("p", gpus=8))
    held = plan(snapshot)
    assert held.steps == []
    assert "--allow-single-replica" in held.unadmitted[0].message
    made = plan(snapshot, allow_single_replica=True)
    assert [step.method for step in made.steps] == ["surge"]
    assert made.cost.replicas_interrupted == 0


def test_cordoned_nodes_are_named_as_what_would_help() -> None:
    pods = [a_pod("x", gpus=4, node="a")]
    made = plan(snapshot_of(a_node("a"), a_node("b", unschedulable=True), *pods, a_pod("p", gpus=8)))
    assert "8 GPUs" in made.unadmitted[0].message
    assert "cordoned" in made.unadmitted[0].message


def test_no_pod_goes_to_a_node_whose_taint_it_does_not_tolerate() -> None:
    tainted = a_node("b", taints=[Taint("karpenter.sh/disrupted", effect="NoSchedule")])
    made = plan(snapshot_of(a_node("a"), tainted, replica("x", 4, "a"), a_pod("p", gpus=8)))
    assert made.steps == []


def test_an_island_is_guaranteed_on_a_node_of_bridged_pairs() -> None:
    """Two pairs: the free GPUs 1 and 3 are no pair until the pod on 0 has gone."""
    links = (
        ("X", "NV12", "SYS", "SYS"),
        ("NV12", "X", "SYS", "SYS"),
        ("SYS", "SYS", "X", "NV12"),
        ("SYS", "SYS", "NV12", "X"),
    )
    report = a_report(4, links=links, used={0: "default/x", 2: "default/y"})
    pairs = a_node("a", gpus=4, product="NVIDIA-A100-80GB-PCIe", report=report)
    pods = [replica("x", 1, "a"), a_pod("y", gpus=1, node="a")]
    wanted = a_pod("p", gpus=2, tp=2, topology="required")
    made = plan(snapshot_of(pairs, a_node("b", gpus=1), *pods, wanted))
    assert moves(made) == {("x", "a", "b")}
    assert admitted(made) == {"p": "a"}


def test_planning_again_after_the_plan_finds_nothing_to_do() -> None:
    snapshot = g32(6)
    made = plan(snapshot)
    world = World.of(snapshot)
    by_key = {pod.key: pod for pod in snapshot.pods}
    for step in made.steps:
        world = world.arrived(by_key[step.pod], step.to_node).left(step.pod, step.from_node)
    for admission in made.admits:
        world = world.arrived(by_key[admission.pod], admission.node)
    assert plan(after(snapshot, world)).outcome == "nothing-to-do"


def test_the_same_snapshot_gives_the_same_plan() -> None:
    first, second = plan(g32(5)), plan(g32(5))
    assert first.id == second.id
    assert structs.replace(first, solver=second.solver) == second


def test_the_same_cluster_seen_later_gives_the_same_id() -> None:
    first, second = (plan(structs.replace(g32(5), taken_at=f"2026-01-01T00:0{minute}:00Z")) for minute in (0, 1))
    assert first.snapshot != second.snapshot
    assert first.id == second.id


def test_without_time_there_is_still_a_plan_that_holds() -> None:
    made = plan(g32(6), limits=SolveLimits(time_limit_seconds=0.0))
    assert made.outcome in {"plan", "no-answer-in-time", "infeasible"}
