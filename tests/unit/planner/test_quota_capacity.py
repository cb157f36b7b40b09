"""The capacity of a flavor is what can be placed on its nodes, not what their labels add up to."""

from __future__ import annotations

import pytest

from islander.cluster import names
from islander.cluster.node import Node, Taint
from islander.cluster.pod import Toleration
from islander.cluster.queues import LocalQueue, QueuedWorkload
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings, Shape
from planner.quota.capacity import FlavorCapacity, Unit, capacities
from tests.builders import (
    H100,
    a_cluster_queue,
    a_flavor,
    a_node,
    a_pod,
    a_resource_claim,
    a_resource_slice,
    a_snapshot,
    a_workload,
    owned_by,
    quotas,
)

PAIR, FOUR, EIGHT = Shape(2, island=True), Shape(4, island=True), Shape(8, island=True)
H200 = "NVIDIA-H200"
RTX = "NVIDIA-GeForce-RTX-3090"
A100 = "NVIDIA-A100-SXM4-40GB"


def by_product(name: str, product: str) -> object:
    return a_flavor(name, labels={names.GPU_PRODUCT: product})


def only(snapshot: ClusterSnapshot, survive_nodes: int = 0, flavor: str = "") -> FlavorCapacity:
    found = capacities(snapshot, PolicySettings(), survive_nodes)
    (one,) = (capacity for capacity in found if flavor in ("", capacity.flavor))
    return one


def test_a_flavor_is_the_sum_over_its_nodes() -> None:
    """G43."""
    snapshot = a_snapshot(
        a_node("a", product=RTX),
        a_node("b", product=RTX),
        a_node("c", product=A100, gpus=4),
        a_flavor("rtx", labels={names.GPU_PRODUCT: RTX}),
        a_flavor("a100", labels={names.GPU_PRODUCT: A100}),
    )
    found = {capacity.flavor: capacity for capacity in capacities(snapshot, PolicySettings())}
    assert (found["rtx"].arithmetic, found["rtx"].usable) == (16, 16)
    assert (found["a100"].arithmetic, found["a100"].usable) == (4, 4)
    # Without NVLink there are no islands, yet any two GPUs of a node make a replica that does not ask for one.
    assert found["rtx"].placeable[FOUR] == 0
    assert found["rtx"].placeable[Shape(4, island=False)] == 4


def test_eight_gpus_in_two_halves_hold_no_replica_of_eight() -> None:
    """G44 b."""
    found = only(a_snapshot(a_node("a", gpus=4), a_node("b", gpus=4), a_flavor()))
    assert (found.usable, found.largest_request) == (8, 4)
    assert (found.placeable[FOUR], found.placeable[EIGHT]) == (2, 0)
    assert found.placeable_gpus(FOUR) == 8


def fleet(*cordoned: str) -> list[Node]:
    return [a_node(f"n{i:02}", unschedulable=f"n{i:02}" in cordoned) for i in range(23)]


def test_gpus_held_outside_queues_are_subtracted_and_named() -> None:
    """G45."""
    outside = a_workload("old-store", kind="StatefulSet")
    inside = a_workload("chat", kind="StatefulSet", labels={names.KUEUE_QUEUE: "lq"})
    snapshot = a_snapshot(
        *fleet("n21", "n22"),
        a_flavor(),
        a_cluster_queue("team", quotas("h100", 168)),
        LocalQueue("default", "lq", cluster_queue="team"),
        outside,
        inside,
        a_pod("old-store-0", gpus=8, node="n00", owner=owned_by(outside)),
        a_pod("chat-0", gpus=8, node="n01", owner=owned_by(inside)),
    )
    found = only(snapshot)
    assert found.usable == 160
    assert found.held_outside == (("default/old-store-0", 8),)
    assert found.arithmetic == 184
    assert found.unusable == (("n21", "node is cordoned"), ("n22", "node is cordoned"))
    assert (found.placeable[EIGHT], found.placeable_now[EIGHT]) == (20, 19)


@pytest.mark.parametrize(
    "labels",
    [
        {names.KUEUE_QUEUE: "lq"},
        {names.KUEUE_MANAGED: "true"},
        {names.KUEUE_CLUSTER_QUEUE: "team"},
        {names.KUEUE_POD_SET: "main"},
    ],
)
def test_a_pod_with_a_mark_of_kueue_is_not_outside(labels: dict[str, str]) -> None:
    found = only(a_snapshot(a_node(), a_flavor(), a_pod(gpus=8, node="n1", labels=labels)))
    assert (found.usable, found.held_outside) == (8, ())


def test_a_pod_of_a_job_that_is_queued_is_not_outside() -> None:
    job = a_workload("train", kind="Job")
    pod = a_pod("train-x", gpus=8, node="n1", owner=owned_by(job))
    queue = LocalQueue("default", "lq", cluster_queue="team")
    queued = QueuedWorkload("default", "job-train", queue="lq", owners=(("Job", "train"),))
    assert only(a_snapshot(a_node(), a_flavor(), job, pod)).usable == 0
    assert only(a_snapshot(a_node(), a_flavor(), job, pod, queue, queued)).usable == 8


def test_nodes_that_take_no_pods_count_for_nothing() -> None:
    """G08: with a toleration the tainted node counts."""
    taint = Taint("team", "x", "NoSchedule")
    nodes = (
        a_node("n1", ready=False),
        a_node("n2", unschedulable=True),
        a_node("n3", taints=(taint,)),
        a_node("n4", taints=(Taint(names.NVIDIA_GPU, "present", "NoSchedule"),)),
        a_node("n5", labels={names.MIG_CONFIG_STATE: "pending"}),
    )
    plain = only(a_snapshot(*nodes, a_flavor()))
    assert [room.name for room in plain.nodes] == ["n4"]
    assert [name for name, _ in plain.unusable] == ["n1", "n2", "n3", "n5"]
    toleration = Toleration("team", "Exists")
    for flavor in (a_flavor(tolerations=(toleration,)), a_flavor(node_taints=(taint,))):
        assert only(a_snapshot(*nodes, flavor)).usable == 16
    pod = a_pod(gpus=8, tolerations=(toleration,), labels={names.KUEUE_QUEUE: "lq"})
    assert only(a_snapshot(*nodes, a_flavor(), pod)).usable == 16
    assert only(a_snapshot(*nodes, a_flavor(), a_pod(gpus=8, tolerations=(toleration,)))).usable == 8


def test_slices_and_shares_are_never_added_to_whole_gpus() -> None:
    sliced = a_node("sliced", gpus=14, product="NVIDIA-A100-SXM4-80GB-MIG-3g.40gb")
    shared = a_node("shared", gpus=32, product=f"{H100}-SHARED", labels={names.GPU_REPLICAS: "4"})
    mixed = only(a_snapshot(a_node("whole"), sliced, shared, a_flavor()))
    assert (mixed.unit, mixed.arithmetic, mixed.usable) == (Unit.GPU, 8, 8)
    assert [name for name, _ in mixed.unusable] == ["shared", "sliced"]
    alone = only(a_snapshot(sliced, a_flavor()))
    assert (alone.unit, alone.usable) == (Unit.INSTANCE, 14)
    assert (alone.placeable[Shape(1, island=False)], alone.placeable[PAIR]) == (14, 0)


def test_mig_instances_of_the_mixed_strategy_are_a_resource_of_their_own() -> None:
    resource = "nvidia.com/mig-3g.40gb"
    cut = a_node("cut", gpus=16, gpu_resource=resource, product="NVIDIA-A100-SXM4-80GB")
    found = capacities(a_snapshot(cut, a_node("whole"), a_flavor()), PolicySettings())
    assert [(c.resource, c.unit, c.usable) for c in found] == [
        (names.NVIDIA_GPU, Unit.GPU, 8),
        (resource, Unit.INSTANCE, 16),
    ]


def test_the_loss_of_the_biggest_nodes_is_counted_for_each_shape() -> None:
    nodes = (a_node("big"), a_node("half", gpus=4), a_node("other", gpus=4))
    found = only(a_snapshot(*nodes, a_flavor()), survive_nodes=1)
    assert (found.usable, found.usable_without_biggest, found.biggest) == (16, 8, ("big",))
    assert {shape.gpus: found.placeable_without_biggest[shape] for shape in (PAIR, FOUR, EIGHT)} == {2: 4, 4: 2, 8: 0}
    assert only(a_snapshot(*nodes, a_flavor()), survive_nodes=5).usable_without_biggest == 0
    assert only(a_snapshot(*nodes, a_flavor())).placeable_without_biggest == found.placeable


def test_a_resource_that_a_queue_names_is_counted_where_no_node_offers_it() -> None:
    snapshot = a_snapshot(a_node("cpu", gpus=0, product=None), a_flavor(), a_cluster_queue("team", quotas("h100", 8)))
    found = only(snapshot)
    assert (found.resource, found.usable, found.largest_request, found.nodes) == (names.NVIDIA_GPU, 0, 0, ())


def test_gpus_that_a_node_withdrew_are_no_room_for_quota() -> None:
    """G07: allocatable counts, not capacity."""
    found = only(a_snapshot(a_node("sick", allocatable=5), a_flavor()))
    assert (found.arithmetic, found.usable, found.placeable[FOUR]) == (5, 5, 1)


def test_gpus_of_two_allocators_are_counted_once() -> None:
    """G46: eight GPUs, not sixteen; two by the device plugin and one by a claim of two pods leave five."""
    queued = {names.KUEUE_QUEUE: "lq"}
    found = only(
        a_snapshot(
            a_node(),
            a_resource_slice("n1"),
            a_flavor(),
            a_pod("plugin", gpus=2, node="n1", labels=queued),
            a_pod("p1", gpus=0, node="n1", labels=queued, resource_claims=True),
            a_pod("p2", gpus=0, node="n1", labels=queued, resource_claims=True),
            a_resource_claim("gpu-0", pods=("p1", "p2")),
        )
    )
    assert (found.arithmetic, found.usable) == (8, 7)
    assert found.held_outside == (("default/gpus (ResourceClaim)", 1),)
    (room,) = found.nodes
    assert (room.allocatable, room.used, room.held_outside) == (8, 3, 1)
    assert (found.placeable[FOUR], found.placeable_now[FOUR]) == (1, 1)
    assert found.placeable_now[Shape(1, island=False)] == 5


def test_a_node_that_only_serves_claims_is_named_and_counts_for_nothing() -> None:
    node = a_node("dra", gpus=0, product=None)
    found = only(a_snapshot(node, a_resource_slice("dra"), a_flavor(), a_cluster_queue("team", quotas("h100", 8))))
    assert (found.usable, [name for name, _ in found.unusable]) == (0, ["dra"])
