"""Plans of moves on clusters with MIG devices: instances are counted apart, nodes that are being cut are no targets."""

from __future__ import annotations

from typing import Any

import pytest

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from planner.check import check_plan
from planner.moves import plan_moves
from planner.options import PlanOptions
from planner.plan import MovePlan
from tests.builders import H100, a_node, a_pod, a_snapshot
from tests.unit.planner.plans import SETTINGS, a_replica, workloads_of
from tests.unit.planner.test_moves import NOW


def planned(*objects: Node | Pod) -> MovePlan:
    movable = [o for o in objects if isinstance(o, Pod) and o.node]
    snapshot = a_snapshot(*objects, *workloads_of(movable), kinds=["PodDisruptionBudget", "ReplicaSet"])
    made = plan_moves(snapshot, SETTINGS, PlanOptions(), NOW)
    assert check_plan(made, snapshot, SETTINGS, PlanOptions()).valid
    return made


@pytest.mark.parametrize("state", ["pending", "rebooting", "failed"])
def test_nothing_moves_to_a_node_that_is_being_cut_or_is_admitted_there(state: str) -> None:
    """G40: the node is empty, and like the other in everything else."""
    waiting = a_pod("waiting", gpus=8, tp=8)
    closed = a_node("a-closed", labels={names.MIG_CONFIG_STATE: state})
    nodes = (closed, a_node("b"), a_node("c"))
    pods = (a_replica("small", 1, "b"), a_replica("most", 7, "c"), waiting)
    made = planned(*nodes, *pods)
    assert [(step.pod, step.to_node) for step in made.steps] == [("default/small", "c")]
    assert [(admission.pod, admission.node) for admission in made.admits] == [("default/waiting", "b")]


def test_with_the_change_done_the_node_is_one_like_others() -> None:
    done = a_node("a-done", labels={names.MIG_CONFIG_STATE: "success"})
    made = planned(done, a_node("b"), a_replica("small", 1, "b"), a_pod("waiting", gpus=8, tp=8))
    assert (made.steps, [admission.node for admission in made.admits]) == ([], ["a-done"])


def test_slices_under_the_name_of_gpus_are_no_target_for_tensor_parallelism() -> None:
    """G41: the slices are free, the whole GPUs are in pieces."""
    slices = a_node("a-slices", gpus=56, product=f"{H100}-MIG-1g.10gb", memory_mib=9728)
    pods: list[Any] = [a_replica("small", 1, "b"), a_replica("most", 7, "c"), a_pod("waiting", gpus=8, tp=8)]
    made = planned(slices, a_node("b"), a_node("c"), *pods)
    assert [admission.node for admission in made.admits] == ["b"]


def test_a_pod_of_instances_is_admitted_where_one_is_free() -> None:
    """G41 b."""
    holder = a_pod("holder", gpus=1, gpu_resource="nvidia.com/mig-3g.40gb", node="a")
    nodes = (a_node("a", gpus=6, mig={"3g.40gb": 1}), a_node("b", gpus=6, mig={"3g.40gb": 1}))
    made = planned(*nodes, holder, a_pod("waiting", gpus=1, gpu_resource="nvidia.com/mig-3g.40gb"))
    assert (made.steps, [(a.pod, a.node) for a in made.admits]) == ([], [("default/waiting", "b")])
