"""The cluster in units people can use, and why a pod waits."""

import pytest

from islander.cluster import names
from islander.cluster.node import Node, Taint
from islander.cluster.pod import Owner, Toleration
from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.presets import preset
from islander.hardware.topo import cells_of
from islander.policy.explain import explain_pod
from islander.policy.status import cluster_status
from tests.builders import a_node, a_pod, a_report, a_snapshot, a_workload, owned_by


def fragmented() -> ClusterSnapshot:
    """Return the story of free 2, 2, 1, 1 (G32) with a pending TP=4 replica."""
    used = {"a": (4, 2), "b": (4, 1, 1), "c": (4, 3), "d": (4, 2, 1)}
    pods = [a_pod(f"{node}{i}", gpus=gpus, node=node) for node, held in used.items() for i, gpus in enumerate(held)]
    return a_snapshot(*(a_node(name) for name in used), *pods, a_pod("llama", gpus=4, tp=4))


def test_six_free_gpus_in_pieces_place_no_replica_of_four() -> None:
    status = cluster_status(fragmented())
    assert (status.totals.free, status.totals.usable_free, status.largest_free_island) == (6, 6, 2)
    assert status.placeable == {"1": 6, "2": 2, "3": 0, "4": 0, "8": 0}
    assert status.fragmentation.stranded_gpus == {"1": 0, "2": 2, "3": 6, "4": 6, "8": 6}


def test_pending_replica_is_stuck_when_enough_is_free_in_total_yet_nowhere() -> None:
    (pending,) = cluster_status(fragmented()).pending
    assert (pending.pod, pending.reason, pending.stuck) == ("default/llama", "NOT_ENOUGH_FREE_GPUS", True)


def test_pending_pod_that_fits_somewhere_is_not_stuck() -> None:
    (pending,) = cluster_status(a_snapshot(a_node(), a_pod("p", gpus=4, tp=4))).pending
    assert (pending.reason, pending.stuck) == ("", False)


def test_pod_larger_than_all_that_is_free_is_not_stuck_but_short() -> None:
    snapshot = a_snapshot(a_node(), a_pod("big", gpus=8, node="n1"), a_pod("p", gpus=4, tp=4))
    (pending,) = cluster_status(snapshot).pending
    assert (pending.reason, pending.stuck) == ("NOT_ENOUGH_FREE_GPUS", False)


def test_fragmentation_ratio_weighs_stranded_gpus_by_the_gpus_asked_for() -> None:
    status = cluster_status(fragmented())
    # Mix: each common shape once, plus what is seen: 1 GPU 3 times, 2 twice, 3 once, 4 four times without an island
    # and once with one. Shapes of one size are reported together, as islands.
    counts = {1: 1 + 3, 2: 1 + 2, 3: 1, 4: 1 + 4 + 1, 8: 1}
    stranded = {1: 0, 2: 2, 3: 6, 4: 6, 8: 6}
    expected = sum(n * g * stranded[g] for g, n in counts.items()) / sum(n * g for g, n in counts.items()) / 6
    assert status.fragmentation.ratio == pytest.approx(expected, abs=1e-4)


def test_nothing_free_is_a_table_of_zeros_and_no_error_g09() -> None:
    status = cluster_status(a_snapshot(a_node(), a_pod("big", gpus=8, node="n1")))
    assert (status.totals.free, status.largest_free_island, status.fragmentation.ratio) == (0, 0, 0.0)
    assert set(status.placeable.values()) == {0}
    assert cluster_status(a_snapshot()).nodes == []


def test_gpus_on_nodes_that_take_no_pods_are_free_but_not_usable_g08() -> None:
    tainted = a_node("n3", taints=[Taint("team", "x")])
    nodes = (a_node("n1", ready=False), a_node("n2", unschedulable=True), tainted, a_node("n4"))
    status = cluster_status(a_snapshot(*nodes, a_pod("p", gpus=8)))
    assert (status.totals.nodes, status.totals.free, status.totals.usable_free) == (4, 32, 8)
    assert [n.not_schedulable_reason for n in status.nodes if not n.schedulable] == [
        "node is not ready (KubeletNotReady)",
        "node is cordoned",
        "no GPU pod tolerates its taint (team=x:NoSchedule)",
    ]
    tolerated = cluster_status(a_snapshot(*nodes, a_pod("p", gpus=8, tolerations=[Toleration("team", value="x")])))
    assert tolerated.totals.usable_free == 16
    tolerant = explain_pod(a_snapshot(*nodes), a_pod(gpus=8, tolerations=[Toleration("team", value="x")]))
    assert [n.name for n in tolerant.nodes if n.accepted] == ["n3", "n4"]


def test_taint_that_marks_gpu_nodes_keeps_no_gpu_pod_away() -> None:
    node = a_node(taints=[Taint("nvidia.com/gpu", "present")])
    assert cluster_status(a_snapshot(node)).totals.usable_free == 8


def test_without_pending_pods_the_running_ones_tell_which_taints_are_tolerated() -> None:
    team = a_node("n1", taints=[Taint("team", "x")])
    running = a_pod("r", gpus=2, node="n1", tolerations=[Toleration("team", value="x")])
    assert cluster_status(a_snapshot(team, running)).totals.usable_free == 6
    assert cluster_status(a_snapshot(team, running, a_pod("p"))).totals.usable_free == 0


def test_withdrawn_and_overallocated_gpus_are_said_and_free_is_never_negative_g07() -> None:
    snapshot = a_snapshot(
        a_node("a", allocatable=2), a_node("b"), a_node("c", allocatable=5), a_pod("x", gpus=6, node="a")
    )
    status = cluster_status(snapshot)
    assert [(n.free, n.withdrawn) for n in status.nodes] == [(0, 6), (8, 0), (5, 3)]
    assert (status.totals.free, status.totals.withdrawn, status.totals.overallocated) == (13, 9, 4)


def test_node_whose_gpus_are_not_registered_yet_is_shown_as_such_g09() -> None:
    fresh = a_node(gpus=0, labels={names.GPU_PRESENT: "true", names.GPU_PRODUCT: "NVIDIA-H200"})
    (node,) = cluster_status(a_snapshot(fresh)).nodes
    assert (node.free, node.not_schedulable_reason) == (0, "GPU node, not ready")


def test_shared_gpus_are_counted_as_the_cards_they_are_g28() -> None:
    shared = {names.GPU_SHARING_STRATEGY: "time-slicing"}
    two, one = {names.GPU_COUNT: "2", names.GPU_REPLICAS: "2"}, {names.GPU_COUNT: "1", names.GPU_REPLICAS: "12"}
    n1 = a_node("n1", gpus=4, product="NVIDIA-L4-SHARED", labels=two | shared)
    n2 = a_node("n2", gpus=12, product="NVIDIA-L4-SHARED", labels=one | shared)
    n3 = a_node("n3", gpus=2, product="NVIDIA-L4")
    status = cluster_status(a_snapshot(n1, n2, n3))
    assert [n.gpus for n in status.nodes] == [2, 1, 2]
    assert status.totals.gpus == 5


def test_islands_are_what_can_be_cut_at_the_same_time() -> None:
    six = a_report(used={6: "default/x", 7: "default/x"})
    snapshot = a_snapshot(a_node(report=six), a_pod("x", gpus=2, node="n1"))
    (node,) = cluster_status(snapshot).nodes
    assert node.islands == {"1": 6, "2": 3, "4": 1, "8": 0}
    assert (node.free_indexes, node.free_indexes_source) == ([0, 1, 2, 3, 4, 5], "agent")


def test_two_free_bridged_pairs_are_two_islands_of_two_and_none_of_four() -> None:
    bridged = preset("a100-pcie-8")
    assert bridged is not None
    used = dict.fromkeys((4, 5, 6, 7), "default/x")
    node = a_node(report=a_report(used=used, links=cells_of(bridged.links), numa=bridged.numa))
    (found,) = cluster_status(a_snapshot(node, a_pod("x", gpus=4, node="n1"))).nodes
    assert found.islands == {"1": 4, "2": 2, "4": 0, "8": 0}


def test_free_gpus_are_not_named_when_nobody_knows_them() -> None:
    (node,) = cluster_status(a_snapshot(a_node(), a_pod("x", gpus=2, node="n1"))).nodes
    assert (node.free_indexes, node.free_indexes_source) == (None, "unknown")


def test_pods_are_shown_with_the_workload_behind_their_replica_set() -> None:
    deployment = a_workload("chat", kind="Deployment")
    replica_set = a_workload("chat-6d9c", owner=owned_by(deployment))
    pod = a_pod("chat-6d9c-x", gpus=4, node="n1", owner=owned_by(replica_set), priority=10)
    (node,) = cluster_status(a_snapshot(a_node(), deployment, replica_set, pod)).nodes
    assert [(p.pod, p.gpus, p.workload, p.priority) for p in node.pods] == [
        ("default/chat-6d9c-x", 4, "Deployment/chat", 10)
    ]


def test_workload_is_read_from_the_template_hash_when_the_dump_has_no_replica_sets() -> None:
    labels = {"pod-template-hash": "6d9c"}
    pod = a_pod("chat-6d9c-x", gpus=4, node="n1", owner=Owner("ReplicaSet", "chat-6d9c"), labels=labels)
    (node,) = cluster_status(a_snapshot(a_node(), pod)).nodes
    assert node.pods[0].workload == "Deployment/chat"


@pytest.mark.parametrize(
    ("node", "warning"),
    [
        (a_node(hardware="no-such-preset"), "'no-such-preset' is not a known preset; it is ignored"),
        (a_node(labels={names.GPU_COUNT: "two"}), "'two' is not a number; it is ignored"),
        (a_node(product="NVIDIA-ODD"), "'NVIDIA-ODD' is not in the catalogue; its links are not known"),
        (a_node(warnings=["status.capacity[x]: odd"]), "node n1: status.capacity[x]: odd"),
    ],
)
def test_what_was_not_believed_of_a_node_is_a_warning_g11(node: Node, warning: str) -> None:
    assert [warning in said for said in cluster_status(a_snapshot(node)).warnings] == [True]
