from __future__ import annotations

from collections.abc import Mapping

from extender.cache import ClusterCache
from extender.predictions import PredictionCheck
from islander.cluster.node import Node
from islander.policy.settings import PolicySettings
from tests.builders import a_node, a_pod, a_report, a_snapshot


def reporting(used: Mapping[int, str]) -> Node:
    """A node with four GPUs in two bridged pairs, 0-1 and 2-3."""
    return a_node("n1", gpus=4, product=None, hardware="a100-pcie-4", report=a_report(4, used=used))


def outcomes(before: Mapping[int, str], after: Mapping[int, str], pods: Mapping[str, int]) -> list[bool]:
    counted: list[bool] = []
    cache = ClusterCache(("nvidia.com/gpu",))
    there = [a_pod(name.removeprefix("default/"), gpus=gpus, node="n1") for name, gpus in pods.items()]
    cache.load(a_snapshot(reporting(before), *there))
    check = PredictionCheck(cache, PolicySettings(), counted.append)
    check.on_change("Node", "n1", reporting(before), reporting(after))
    return counted


A, B, C = "default/a", "default/b", "default/c"


def test_a_pick_that_was_predicted_is_a_hit() -> None:
    """One GPU is in use; a pod of two gets the whole pair, not the rest of the broken one."""
    assert outcomes({0: A}, {0: A, 2: B, 3: B}, {A: 1, B: 2}) == [True]


def test_another_pick_is_a_miss() -> None:
    assert outcomes({0: A}, {0: A, 1: B, 2: B}, {A: 1, B: 2}) == [False]


def test_what_cannot_be_judged_counts_for_nothing() -> None:
    assert outcomes({0: A}, {0: A}, {A: 1}) == [], "nothing new"
    assert outcomes({}, {0: A, 1: B}, {A: 1, B: 1}) == [], "two at once"
    assert outcomes({0: A}, {1: B}, {B: 1}) == [], "one came while another went"
    assert outcomes({0: A}, {0: A, 1: B}, {A: 1}) == [], "a pod that we have not seen"
    assert outcomes({0: A}, {0: A, 1: B}, {A: 1, B: 2}) == [], "a report that is not complete"
    assert outcomes({0: A}, {0: A, 1: B}, {A: 1, B: 1, C: 1}) == [True], "others on their way do not matter"


def test_nodes_that_do_not_report_and_other_kinds_are_passed_over() -> None:
    counted: list[bool] = []
    check = PredictionCheck(ClusterCache(("nvidia.com/gpu",)), PolicySettings(), counted.append)
    check.on_change("Node", "n1", a_node("n1"), a_node("n1", unschedulable=True))
    check.on_change("Node", "n1", None, reporting({}))
    check.on_change("Pod", "default/a", a_pod("a"), a_pod("a", node="n1"))
    assert counted == []
