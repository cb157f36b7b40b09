"""How many replicas still fit on a node, and how many of them for sure."""

import pytest

from islander.cluster import names
from islander.cluster.node import Node
from islander.policy.occupancy import GpuState, gpu_state
from islander.policy.room import islands_free, largest_free_island, replicas_guaranteed
from islander.policy.settings import Shape
from tests.builders import a_node, a_pod


def state(node: Node, used: int) -> GpuState:
    return gpu_state(node, [a_pod(f"p{i}", gpus=1, node=node.name) for i in range(used)])


def test_where_every_set_is_an_island_nobody_need_know_which_gpus_are_free() -> None:
    # 16 GPUs behind a switch, 9 free: 11,440 sets are too many to list.
    unlisted = state(a_node(gpus=16, hardware="dgx-2-16"), used=7)
    assert unlisted.free_sets == ()
    assert [islands_free(unlisted, size) for size in (1, 2, 4, 8)] == [9, 4, 2, 1]
    assert largest_free_island(unlisted) == 9
    assert replicas_guaranteed(unlisted, Shape(4, island=True)) == 2


def test_where_sets_differ_and_are_too_many_only_single_gpus_are_sure() -> None:
    unlisted = state(a_node(gpus=16, product=None), used=7)
    assert unlisted.free_sets == ()
    assert [islands_free(unlisted, size) for size in (1, 2, 4)] == [9, 0, 0]
    assert largest_free_island(unlisted) == 1
    assert replicas_guaranteed(unlisted, Shape(2, island=True)) == 0
    assert replicas_guaranteed(unlisted, Shape(2, island=False)) == 4


@pytest.mark.parametrize(("used", "pairs"), [(0, 4), (1, 3), (3, 1), (5, 0)])
def test_of_bridged_gpus_as_many_pairs_are_free_as_the_worst_set_leaves(used: int, pairs: int) -> None:
    # Which GPUs are used is not known: 3 of them may lie in 3 pairs, 5 in all 4.
    bridged = state(a_node(hardware="a100-pcie-8", product=None), used)
    assert islands_free(bridged, 2) == pairs


def test_shared_gpus_are_no_islands() -> None:
    shared = state(a_node(gpus=4, labels={names.GPU_REPLICAS: "2", names.GPU_SHARING_STRATEGY: "time-slicing"}), used=0)
    assert (islands_free(shared, 1), largest_free_island(shared)) == (0, 0)
    assert replicas_guaranteed(shared, Shape(2, island=True)) == 0
    assert replicas_guaranteed(shared, Shape(2, island=False)) == 2
