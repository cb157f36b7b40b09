"""Which replicas a node holds at the same time, whatever kubelet picks."""

import pytest

from islander.policy.settings import Shape
from planner.quota.rooms import Kind, Remains, largest_patterns, node_classes
from tests.builders import a_node, a_pod, a_report

ONE, PAIR, FOUR, EIGHT = (Kind(Shape(gpus, island=gpus > 1)) for gpus in (1, 2, 4, 8))
PAIRS_OF_FOUR = (
    ("X", "NV12", "SYS", "SYS"),
    ("NV12", "X", "SYS", "SYS"),
    ("SYS", "SYS", "X", "NV12"),
    ("SYS", "SYS", "NV12", "X"),
)


def room(node, *outside, kinds=()):
    return Remains.of(node, outside, "nvidia.com/gpu").room(kinds)


def patterns(node, kinds, *outside):
    return largest_patterns(room(node, *outside, kinds=kinds), tuple(kinds))


def test_an_nvswitch_node_of_eight_holds_every_split_of_eight():
    # 8 = 2 x 4 = 4 + 4 x 1 = 8 x 1; nothing larger fits and nothing smaller is largest.
    assert patterns(a_node(), (ONE, FOUR)) == ((8, 0), (4, 1), (0, 2))


def test_bridged_pairs_hold_pairs_and_no_island_of_four():
    node = a_node(gpus=4, report=a_report(4, links=PAIRS_OF_FOUR))
    assert patterns(node, (PAIR,)) == ((2,),)
    assert patterns(node, (FOUR,)) == ()
    assert patterns(node, (Kind(Shape(4, island=False)),)) == ((1,),)


def test_a_pod_outside_queues_breaks_the_pair_that_it_holds():
    node = a_node(gpus=4, report=a_report(4, links=PAIRS_OF_FOUR, used={0: "default/out"}))
    assert patterns(node, (PAIR,), a_pod("out", gpus=1, node="n1")) == ((1,),)


def test_what_is_outside_takes_gpus_even_where_nothing_is_reported():
    assert patterns(a_node(), (FOUR,), a_pod("out", gpus=1, node="n1")) == ((1,),)


@pytest.mark.parametrize(
    ("node", "kind", "most"),
    [
        (a_node(cpu=16), Kind(Shape(1, island=False), cpu_milli=4000), 4),
        (a_node(memory_gib=100), Kind(Shape(1, island=False), memory_bytes=30 * 2**30), 3),
        (a_node(max_pods=5), Kind(Shape(1, island=False)), 5),
    ],
)
def test_scarce_cpu_memory_or_pod_slots_end_a_pattern(node, kind, most):
    assert patterns(node, (kind,)) == ((most,),)


def test_nodes_are_one_class_when_only_their_plenty_differs():
    """192 or 128 cores are both more than eight GPUs of 4 cores each can use."""
    kinds = (Kind(Shape(1, island=False), cpu_milli=4000),)
    rooms = {name: room(a_node(name, cpu=cpu), kinds=kinds) for name, cpu in (("a", 192), ("b", 128), ("c", 16))}
    classes = node_classes(rooms, dict.fromkeys(rooms, (0,)), kinds)
    assert [found.nodes for found in classes] == [("a", "b"), ("c",)]


def test_shares_of_gpus_make_no_island():
    node = a_node(gpus=8, labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"})
    assert patterns(node, (PAIR,)) == ()
    assert patterns(node, (ONE,)) == ((8,),)


def test_a_node_that_holds_nothing_is_in_no_class():
    rooms = {"a": room(a_node("a", gpus=2))}
    assert node_classes(rooms, {"a": (0,)}, (FOUR,)) == ()
    assert node_classes(rooms, {"a": ()}, (ONE,)) == ()
