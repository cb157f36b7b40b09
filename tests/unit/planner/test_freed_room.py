"""Room that a plan frees has one purpose, and room that others hold is no room (G21, G45)."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import structs

from islander.cluster import names
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from islander.policy.status import cluster_status
from planner.check import check_plan
from planner.moves import plan_moves
from planner.options import PlanOptions
from planner.plan import MovePlan
from tests.builders import a_budget, a_node, a_pod, a_snapshot, a_workload, owned_by
from tests.plan_builders import move_story

SETTINGS, OPTIONS = PolicySettings(), PlanOptions()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def planned(snapshot: ClusterSnapshot) -> MovePlan:
    return plan_moves(snapshot, SETTINGS, OPTIONS, NOW)


def codes(plan: MovePlan, snapshot: ClusterSnapshot) -> list[tuple[str, str]]:
    return [(found.step, found.code) for found in check_plan(plan, snapshot, SETTINGS).violations]


def joined(snapshot: ClusterSnapshot, *pods: Pod) -> ClusterSnapshot:
    keys = {pod.key for pod in pods}
    kept = [pod for pod in snapshot.pods if pod.key not in keys]
    return structs.replace(snapshot, pods=tuple(sorted((*kept, *pods), key=lambda pod: (pod.namespace, pod.name))))


def test_the_plan_names_the_node_that_is_freed_and_for_whom_g21() -> None:
    plan = planned(move_story())
    (step,), (admission,) = plan.steps, plan.admits
    assert (admission.pod, admission.node, admission.gpus) == ("chat/llama-2", step.from_node, 4)
    assert admission.after_wave == step.wave
    assert step.preconditions == {"node": "a", "freeGpus": 2, "uid": "uid-search-embed-1", "disruptionsAllowed": 1}


def test_a_small_pod_in_the_freed_room_makes_the_plan_invalid_g21() -> None:
    """Before the plan starts a small pod comes to the node that is freed: the admission has no room any more."""
    story = move_story()
    plan = planned(story)
    assert codes(plan, story) == []
    assert codes(plan, joined(story, a_pod("thief", gpus=1, node="a"))) == [("", "NOT_ENOUGH_FREE_GPUS")]


def test_a_small_pod_where_the_moved_one_should_go_makes_its_step_invalid_g21() -> None:
    story = move_story()
    plan = planned(story)
    found = codes(plan, joined(story, a_pod("thief", gpus=1, node="b")))
    assert (plan.steps[0].id, "NOT_ENOUGH_FREE_GPUS") in found


def test_a_replacement_that_came_back_makes_the_plan_invalid_g21() -> None:
    """The moved pod was evicted, and its replacement started where it had been: its uid is another one."""
    story = move_story()
    plan = planned(story)
    moved = next(pod for pod in story.pods if pod.key == plan.steps[0].pod)
    back = structs.replace(moved, uid="another", name="embed-3")
    gone = structs.replace(story, pods=tuple(pod for pod in story.pods if pod.key != moved.key))
    assert (plan.steps[0].id, "STALE_POD") in codes(plan, joined(gone, back))
    assert (plan.steps[0].id, "STALE_POD") in codes(plan, joined(gone, structs.replace(moved, uid="another")))


def outside_kueue() -> ClusterSnapshot:
    """21 usable nodes of 8, one full of a StatefulSet without a queue; 3 cordoned ones, one of them with a pod."""
    stateful = a_workload("notebooks", kind="StatefulSet", namespace="labs", replicas=2)
    queued = a_workload("train", namespace="team", replicas=2)
    return a_snapshot(
        *(a_node(f"n{number:02}") for number in range(21)),
        *(a_node(f"off{number}", unschedulable=True) for number in range(3)),
        stateful,
        queued,
        *(a_pod(f"notebooks-{n}", gpus=4, node="n00", namespace="labs", owner=owned_by(stateful)) for n in range(2)),
        a_pod(
            "train-0",
            gpus=2,
            node="off0",
            namespace="team",
            labels={names.KUEUE_QUEUE: "team"},
            owner=owned_by(queued),
        ),
    )


def test_gpus_held_outside_kueue_are_used_and_cordoned_nodes_give_none_g45() -> None:
    status = cluster_status(outside_kueue(), SETTINGS)
    assert (status.totals.gpus, status.totals.used, status.totals.usable_free) == (24 * 8, 8 + 2, 160)
    assert status.placeable["8"] == 20
    full = next(node for node in status.nodes if node.name == "n00")
    assert (full.used, full.free) == (8, 0)


def test_a_plan_counts_on_no_gpu_that_is_held_outside_kueue_or_cordoned_g45() -> None:
    """20 replicas of 8 fit, the 21st does not: neither on the node that is held, nor on the cordoned ones."""
    waiting = [
        a_pod(f"w{number:02}", gpus=8, namespace="team", labels={names.KUEUE_QUEUE: "team"}) for number in range(21)
    ]
    held = a_budget("notebooks", namespace="labs", allowed=0)
    snapshot = structs.replace(joined(outside_kueue(), *waiting), budgets=(held,), kinds=("PodDisruptionBudget",))
    plan = planned(snapshot)
    assert len(plan.admits) == 20
    assert {admission.node for admission in plan.admits} == {f"n{number:02}" for number in range(1, 21)}
    assert plan.steps == []
    assert len(plan.unadmitted) == 1
