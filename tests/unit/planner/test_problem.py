"""From a snapshot and options to demand, and what is said about all that the snapshot lacks."""

from __future__ import annotations

from typing import Any

import pytest

from islander.cluster import names
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings, Topology
from planner.errors import PlannerError
from planner.options import Goal, PlanOptions
from planner.plan import Cost, SnapshotFacts
from planner.problem import Problem, problem_of
from planner.world import World
from tests.builders import (
    a_budget,
    a_claim,
    a_node,
    a_pod,
    a_resource_slice,
    a_snapshot,
    a_volume,
    a_workload,
)
from tests.unit.planner.plans import a_replica, move, workloads_of

SETTINGS = PolicySettings()


def pose(*objects: Any, options: PlanOptions | None = None, kinds: Any = None) -> Problem:
    return problem_of(a_snapshot(a_node(), *objects, kinds=kinds), SETTINGS, options or PlanOptions())


def keys(problem: Problem) -> list[str]:
    return [demand.key for demand in problem.demands]


def said(problem: Problem, words: str) -> bool:
    return any(words in warning for warning in problem.warnings)


class TestDemand:
    def test_pods_that_wait_for_gpus_are_the_demand_highest_priority_first(self) -> None:
        problem = pose(
            a_pod("b", gpus=4),
            a_pod("a", gpus=2),
            a_pod("urgent", gpus=1, priority=10),
            a_pod("cpu", gpus=0),
            a_pod("runs", node="n1"),
            a_pod("done", phase="Succeeded"),
            a_pod("going", deleted="2026-01-01T00:00:00Z"),
        )
        assert keys(problem) == ["default/urgent", "default/a", "default/b"]
        assert [demand.need.gpus for demand in problem.demands] == [1, 2, 4]
        assert problem.demands[0].priority == 10

    def test_a_gated_pod_is_no_demand_and_is_said(self) -> None:
        problem = pose(a_pod("held", gated=True), a_pod("free"))
        assert keys(problem) == ["default/free"]
        assert said(problem, "default/held has scheduling gates")

    def test_a_pod_of_mig_devices_is_demand_too(self) -> None:
        assert keys(pose(a_pod("slice", gpu_resource="nvidia.com/mig-1g.10gb"))) == ["default/slice"]

    def test_pods_that_are_asked_for_are_the_whole_demand(self) -> None:
        options = PlanOptions(pods=("default/b",))
        assert keys(pose(a_pod("a"), a_pod("b"), options=options)) == ["default/b"]

    @pytest.mark.parametrize(
        ("pod", "why"),
        [
            (a_pod("other"), "no such pod"),
            (a_pod("b", node="n1"), "on node n1"),
            (a_pod("b", phase="Failed"), "finished"),
            (a_pod("b", gpus=0), "no GPU"),
        ],
        ids=["absent", "runs", "finished", "no GPU"],
    )
    def test_a_pod_that_is_asked_for_and_cannot_be_demand_is_an_error(self, pod: Any, why: str) -> None:
        with pytest.raises(PlannerError, match=f"--pod default/b: .*{why}"):
            pose(pod, options=PlanOptions(pods=("default/b",)))

    def test_g31_the_pending_pods_of_a_group_are_one_demand_in_parts(self) -> None:
        labels = {names.LWS_NAME: "big", names.LWS_GROUP_INDEX: "1"}
        problem = pose(a_pod("big-1", labels=labels), a_pod("big-1-1", labels=labels), a_pod("alone"))
        assert {demand.key: demand.group for demand in problem.demands} == {
            "default/alone": None,
            "default/big-1": "default/big/1",
            "default/big-1-1": "default/big/1",
        }

    def test_where_the_volume_of_a_pending_pod_is_becomes_its_requirement(self) -> None:
        problem = pose(a_pod("p", claims=("data",)), a_claim(volume="pv1"), a_volume("pv1", zone="z1"))
        assert problem.demands[0].pod.spec.node_terms is not None
        assert not said(problem, "nothing is known of volumes")

    def test_a_pending_pod_with_volumes_that_nobody_knows_is_said(self) -> None:
        problem = pose(a_pod("p", claims=("data",)))
        assert keys(problem) == ["default/p"]
        assert said(problem, "default/p: nothing is known of volumes")


class TestGoal:
    def test_a_goal_is_so_many_replicas_instead_of_what_waits(self) -> None:
        problem = pose(a_pod("waits"), options=PlanOptions(goal=Goal(8, 2)))
        assert keys(problem) == ["goal/1", "goal/2"]
        need = problem.demands[0].need
        assert (need.gpus, need.tensor_parallel, need.topology) == (8, 8, Topology.PREFERRED)
        assert need.wants_island

    def test_a_goal_wants_islands_as_the_policy_does_by_default(self) -> None:
        settings = PolicySettings(topology_default=Topology.REQUIRED)
        problem = problem_of(a_snapshot(a_node()), settings, PlanOptions(goal=Goal(4)))
        assert problem.demands[0].need.topology is Topology.REQUIRED

    def test_a_goal_of_single_gpus_wants_no_island(self) -> None:
        assert not pose(options=PlanOptions(goal=Goal(1))).demands[0].need.wants_island

    def test_a_goal_and_a_pod_that_is_asked_for_are_both_demand(self) -> None:
        options = PlanOptions(goal=Goal(8), pods=("default/a",))
        assert keys(pose(a_pod("a"), a_pod("b"), options=options)) == ["default/a", "goal/1"]

    def test_a_goal_of_a_product_goes_to_its_nodes_alone(self) -> None:
        problem = pose(a_node("n2", product="L40S"), options=PlanOptions(goal=Goal(4, product="L40S")))
        demand = problem.demands[0]
        world = World.of(a_snapshot(a_node(), a_node("n2", product="L40S")))
        assert demand.need.products == ("L40S",)
        assert world.refusal(demand.pod, demand.need, "n1") is not None
        assert world.refusal(demand.pod, demand.need, "n2") is None
        assert not said(problem, "no node has GPUs of product")

    def test_a_product_that_no_node_has_is_said(self) -> None:
        assert said(pose(options=PlanOptions(goal=Goal(4, product="T4"))), "no node has GPUs of product 'T4'")

    def test_a_goal_counts_the_gpus_that_the_nodes_have(self) -> None:
        amd = a_node("m1", product=None, gpu_resource=names.AMD_GPU)
        problem = problem_of(a_snapshot(amd), SETTINGS, PlanOptions(goal=Goal(2)))
        assert problem.demands[0].need.resource == names.AMD_GPU

    def test_a_goal_tolerates_the_taint_of_gpu_nodes(self) -> None:
        demand = pose(options=PlanOptions(goal=Goal(2))).demands[0]
        assert [(t.key, t.operator) for t in demand.pod.spec.tolerations] == [(names.NVIDIA_GPU, "Exists")]

    def test_a_goal_has_the_highest_priority_among_gpu_pods(self) -> None:
        system = a_pod("system", node="n1", priority=2_000_000_000)
        pods = a_pod("high", node="n1", priority=700), a_pod("cpu", gpus=0, priority=900), system
        assert pose(*pods, options=PlanOptions(goal=Goal(2))).demands[0].priority == 700

    @pytest.mark.parametrize(
        ("text", "goal"),
        [
            ("tp=8", Goal(8)),
            ("count=2, tp=4", Goal(4, 2)),
            ("tp=4,count=2,product=NVIDIA-L40S", Goal(4, 2, "NVIDIA-L40S")),
        ],
    )
    def test_a_goal_is_read_as_it_is_written(self, text: str, goal: Goal) -> None:
        assert Goal.parse(text) == goal
        assert Goal.parse(str(goal)) == goal

    @pytest.mark.parametrize("text", ["", "tp", "tp=", "tp=0", "tp=x", "count=2", "tp=8,tp=4", "tp=8,size=2", "tp=٣"])
    def test_a_goal_that_says_nothing_is_an_error_that_names_it(self, text: str) -> None:
        with pytest.raises(PlannerError, match="goal"):
            Goal.parse(text)


class TestWarnings:
    def test_a_snapshot_without_budgets_says_so(self) -> None:
        assert said(pose(), "no PodDisruptionBudgets")
        assert not said(pose(a_budget()), "no PodDisruptionBudgets")
        assert not said(pose(kinds=("Node", "Pod", "PodDisruptionBudget")), "no PodDisruptionBudgets")

    def test_a_snapshot_without_owners_says_so(self) -> None:
        assert said(pose(), "no owners")
        assert not said(pose(a_workload()), "no owners")

    def test_claims_are_missed_only_where_a_running_pod_uses_them(self) -> None:
        assert said(pose(a_pod(node="n1", claims=("data",))), "no persistentvolumeclaims")
        assert not said(pose(a_pod(node="n1")), "no persistentvolumeclaims")

    def test_pods_on_nodes_that_are_not_there_are_left_out_and_said(self) -> None:
        problem = pose(*(a_replica(f"p{i}", 1, "gone") for i in range(5)))
        assert not problem.movable
        assert not problem.immovable
        assert said(problem, "default/p0, default/p1, default/p2 and 2 more: the pod's node is not in the snapshot")

    def test_nodes_whose_gpus_nobody_counts_are_said(self) -> None:
        problem = pose(a_node("n2", gpus=0), a_resource_slice("n2"))
        assert said(problem, "n2: dynamic resource allocation hands out the GPUs")
        assert not said(pose(a_resource_slice("n1")), "dynamic resource allocation")


class TestOptions:
    @pytest.mark.parametrize(
        "options",
        [
            PlanOptions(),
            PlanOptions(pods=("a/b", "c/d"), max_moves=0, max_moves_per_workload=1),
            PlanOptions(goal=Goal(8, 2, "L40S"), allow_single_replica=True, allow_unknown_owners=True),
            PlanOptions(protect="app in (a,b),!x", empty_nodes=3, spare_nodes=True),
        ],
    )
    def test_a_plan_can_say_the_options_it_was_made_with(self, options: PlanOptions) -> None:
        assert PlanOptions.from_flags(options.flags()) == options

    @pytest.mark.parametrize(
        "flag", ["--max-moves=-1", "--max-moves=x", "--empty-nodes=", "--protect", "--spare-nodes=1"]
    )
    def test_a_flag_that_is_not_understood_is_an_error(self, flag: str) -> None:
        with pytest.raises(PlannerError, match=flag):
            PlanOptions.from_flags([flag])


class TestFacts:
    def test_equal_clusters_have_one_hash_whenever_they_were_looked_at(self) -> None:
        def facts(*objects: Any, taken_at: str = "2026-01-01T00:00:00Z") -> SnapshotFacts:
            snapshot: ClusterSnapshot = a_snapshot(a_node(), *objects, taken_at=taken_at)
            return SnapshotFacts.of(snapshot, SETTINGS)

        assert facts().hash == facts(taken_at="2026-02-02T00:00:00Z").hash
        assert facts().hash != facts(a_pod()).hash
        assert (facts().nodes, facts().gpus) == (1, 8)

    def test_the_cost_counts_moves_interruptions_and_gpu_minutes(self) -> None:
        pod, other = a_replica("x", 4, "n1"), a_replica("y", 2, "n1")
        steps = move(pod, "n2", reload_seconds=300), move(other, "n2", reload_seconds=30, method="surge")
        assert Cost.of(steps) == Cost(2, 1, 21.0)


def test_movable_pods_groups_and_demands_come_in_order_of_their_keys() -> None:
    pods = [a_replica(name, 1, "n1") for name in ("c", "a", "b")]
    problem = pose(*pods, *workloads_of(pods), a_pod("z"), a_pod("y"))
    assert list(problem.movable) == ["default/a", "default/b", "default/c"]
    assert keys(problem) == ["default/y", "default/z"]
