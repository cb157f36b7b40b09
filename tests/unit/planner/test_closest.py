import pytest

from islander.policy.explain import explain_pod
from islander.policy.settings import PolicySettings
from planner.closest import Closest, closest_node
from tests.builders import a_node, a_pod, a_snapshot

A100_PCIE = "NVIDIA-A100-80GB-PCIe"


def closest(snapshot, pod):
    return closest_node(snapshot, pod, explain_pod(snapshot, pod), PolicySettings())


@pytest.fixture
def four_nodes():
    """G32: A holds 4+2, B 4+1+1, C 4+3, D 4+2+1 of eight GPUs each; free 2, 2, 1, 1."""
    held = {"a": (4, 2), "b": (4, 1, 1), "c": (4, 3), "d": (4, 2, 1)}
    pods = [a_pod(f"{n}-{i}", node=n, gpus=gpus) for n, sizes in held.items() for i, gpus in enumerate(sizes)]
    return a_snapshot(*(a_node(n) for n in held), *pods)


def test_g32_the_two_gpu_pod_of_a_is_what_stands_in_the_way_and_b_has_room_for_it(four_nodes):
    found = closest(four_nodes, a_pod("p", gpus=4, tp=4))
    assert found == Closest("a", (("default/a-1", 2),), elsewhere="b")
    assert found.sentence() == "Closest is a: it would do if default/a-1 (2 GPUs) ran elsewhere; b has room for it now."


def test_several_pods_in_the_way_are_named_together():
    # 6 of 8 are used by one-GPU pods, so a pod of four is two pods short.
    pods = [a_pod(f"p{i}", node="n1") for i in range(6)]
    found = closest(a_snapshot(a_node("n1"), *pods), a_pod("p", gpus=4))
    assert found is not None
    assert found.in_the_way == (("default/p0", 1), ("default/p1", 1))
    assert found.elsewhere == ""


def test_a_pod_of_higher_priority_is_not_thought_away():
    snapshot = a_snapshot(a_node("n1"), a_pod("high", node="n1", gpus=6, priority=10))
    assert closest(snapshot, a_pod("p", gpus=4)) is None


def test_a_node_that_is_too_small_even_when_empty_is_not_close():
    assert closest(a_snapshot(a_node("n1", gpus=2), a_pod("x", node="n1")), a_pod("p", gpus=4)) is None


def test_a_node_that_the_pod_may_not_use_is_not_close():
    snapshot = a_snapshot(a_node("n1"), a_pod("x", node="n1", gpus=6))
    assert closest(snapshot, a_pod("p", gpus=4, node_selector={"pool": "other"})) is None


def test_a_broken_island_is_mended_by_the_fewest_pods():
    # Bridged pairs 0-1 and 2-3; x and y hold one GPU each, nobody knows which. Without x three GPUs are free: among any
    # three there is a whole pair, and the device plugin takes it.
    node = a_node("n1", gpus=4, product=A100_PCIE, hardware="a100-pcie-4")
    snapshot = a_snapshot(node, a_pod("x", node="n1"), a_pod("y", node="n1"))
    found = closest(snapshot, a_pod("p", gpus=2, tp=2, topology="required"))
    assert found is not None
    assert found.in_the_way == (("default/x", 1),)
