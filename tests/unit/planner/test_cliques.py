"""Groups that have to run in one NVLink clique of a rack (G27), which they say by affinity to their own members."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from islander.cluster import names
from islander.cluster.pod import Pod, PodTerm, Requirement
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.explain import explain_pod
from islander.policy.settings import PolicySettings
from planner.check import check_plan
from planner.moves import plan_moves
from planner.options import PlanOptions
from planner.plan import MovePlan
from tests.builders import a_node, a_pod, a_snapshot, a_workload, owned_by

RACKS = {"a1": "X.1", "a2": "X.1", "b1": "Y.2", "c1": None, "c2": None}
SETTINGS, OPTIONS = PolicySettings(), PlanOptions()
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GROUP = a_workload("moe", kind="LeaderWorkerSet", replicas=1, group_size=2)
OF_GROUP = {names.LWS_NAME: "moe", names.LWS_GROUP_INDEX: "0"}
TOGETHER = PodTerm(
    names.GPU_CLIQUE,
    (Requirement(names.LWS_NAME, "In", ("moe",)), Requirement(names.LWS_GROUP_INDEX, "In", ("0",))),
)


def member(number: int, *, together: bool = True, node: str = "") -> Pod:
    affinity = (TOGETHER,) if together else ()
    return a_pod(f"moe-0-{number}", gpus=4, node=node, owner=owned_by(GROUP), labels=OF_GROUP, pod_affinity=affinity)


def racks(*pods: Pod) -> ClusterSnapshot:
    """Two nodes of clique X.1, one of Y.2 and two of no clique, with four GPUs each."""
    nodes = [
        a_node(name, gpus=4, labels={names.GPU_CLIQUE: clique} if clique else {}) for name, clique in RACKS.items()
    ]
    tenant = a_workload("tenant", replicas=2)
    return a_snapshot(*nodes, GROUP, tenant, *pods, kinds=["PodDisruptionBudget", "ReplicaSet", "LeaderWorkerSet"])


def fixed(node: str) -> Pod:
    return a_pod(f"fixed-{node}", gpus=4, node=node)


def plan(snapshot: ClusterSnapshot) -> MovePlan:
    made = plan_moves(snapshot, SETTINGS, OPTIONS, NOW)
    assert check_plan(made, snapshot, SETTINGS, OPTIONS).valid
    return made


def places(made: MovePlan) -> set[str]:
    return {admission.node for admission in made.admits}


def accepting(snapshot: ClusterSnapshot, pod: Pod) -> set[str]:
    return {node.name for node in explain_pod(snapshot, pod, SETTINGS).nodes if node.accepted}


def test_g27_a_group_does_not_start_across_cliques() -> None:
    """a1 and b1 are of different racks, and c1 and c2 are no rack only because neither is labelled."""
    made = plan(racks(fixed("a2"), member(0), member(1)))
    assert made.admits == made.steps == []
    assert {refused.pod for refused in made.unadmitted} == {"default/moe-0-0", "default/moe-0-1"}
    assert made.outcome == "infeasible"


def test_g27_a_group_starts_where_its_clique_has_room_for_all_of_it() -> None:
    made = plan(racks(member(0), member(1)))
    assert places(made) == {"a1", "a2"}
    assert made.steps == []


def test_g27_who_holds_the_clique_moves_out_of_it() -> None:
    tenant = a_pod("tenant-1", gpus=4, node="a2", owner=owned_by(a_workload("tenant", replicas=2)))
    made = plan(racks(tenant, member(0), member(1)))
    assert [(step.pod, step.from_node) for step in made.steps] == [("default/tenant-1", "a2")]
    assert made.steps[0].to_node in {"b1", "c1", "c2"}
    assert places(made) == {"a1", "a2"}


def test_g27_a_group_that_does_not_insist_starts_on_any_two_nodes() -> None:
    made = plan(racks(fixed("a2"), member(0, together=False), member(1, together=False)))
    assert len(places(made)) == 2
    assert "a2" not in places(made)


def test_g27_the_first_member_goes_to_no_node_without_a_clique() -> None:
    assert accepting(racks(fixed("a2"), member(0), member(1)), member(0)) == {"a1", "b1"}


@pytest.mark.parametrize(("first", "rest"), [("a1", {"a2"}), ("b1", set())])
def test_g27_the_second_member_follows_the_first_into_its_clique(first: str, rest: set[str]) -> None:
    assert accepting(racks(member(0, node=first), member(1)), member(1)) == rest
