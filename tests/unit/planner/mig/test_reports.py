"""What a node's report must say before any of its GPUs is cut: the configuration names those too that stay."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from islander.cluster.node import Node
from planner.mig.options import MigOptions, WantedProfile
from planner.mig.plan import MigPlan
from planner.mig.planning import plan_mig
from tests.builders import H100, a_snapshot, resources
from tests.mig_builders import A100, a_mig_node, a_mig_pod
from tests.unit.planner.mig.test_planning import NOW, SETTINGS, cut, planned


def closed(plan: MigPlan) -> list[tuple[str, str]]:
    return [(node.code, node.message) for node in plan.not_targets]


def offering(node: Node, gpus: int, **mig: int) -> Node:
    """The node with other counts in the API than its report makes one expect."""
    amounts = resources(64, 512, gpus, others={f"nvidia.com/mig-{profile}": n for profile, n in mig.items()})
    return structs.replace(node, capacity=amounts, allocatable=amounts)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ([("1c.3g.40gb", 0)], "1 x 1c.3g.40gb"),
        ([("whatever", 0)], "1 x whatever"),
        ([("1g.10gb", 0)] * 9, "9 x 1g.10gb"),
        ([("3g.40gb", 0), ("4g.40gb", 4), ("1g.10gb", 6)], "1 x 3g.40gb"),
    ],
)
@pytest.mark.parametrize("pod", ["default/m1", ""])
def test_a_layout_that_no_gpu_can_have_keeps_the_whole_node_as_it_is(layout: Any, words: str, pod: str) -> None:
    node = a_mig_node(cut={0: [(profile, start, pod) for profile, start in layout]})
    plan = planned(a_snapshot(node, a_mig_pod("m1", node="n1")), "3g.40gb=2")
    ((code, message),) = closed(plan)
    assert (code, cut(plan)) == ("GPUS_NOT_KNOWN", {})
    assert message.startswith("GPU 0 is reported as ")
    assert words in message


def test_instances_without_starts_are_believed_as_far_as_they_fit() -> None:
    node = a_mig_node(cut={0: [("1g.10gb", 0, "default/m1"), ("1g.10gb", 0)]})
    plan = planned(a_snapshot(node, a_mig_pod("m1", node="n1")), "3g.40gb=2")
    assert cut(plan) == {("n1", 7): ["3g.40gb", "3g.40gb"]}


def test_a_report_of_fewer_gpus_than_the_node_offers_keeps_it_as_it_is() -> None:
    plan = planned(a_snapshot(offering(a_mig_node(gpus=4), 8)), "1g.10gb=1")
    assert closed(plan) == [("GPUS_NOT_KNOWN", "the report tells of 4 GPUs, and the node has 8")]


@pytest.mark.parametrize("offered", [{"1g.10gb": 5}, {"1g.10gb": 2, "2g.20gb": 1}, {"2g.20gb": 3}])
def test_instances_that_the_report_does_not_tell_of_are_not_ended(offered: dict[str, int]) -> None:
    node = offering(a_mig_node(cut={0: [("1g.10gb", 0), ("1g.10gb", 1)]}), 7, **offered)
    plan = planned(a_snapshot(node), "1g.10gb=9")
    assert cut(plan) == {}
    assert closed(plan) == [("GPUS_NOT_KNOWN", "the report and the counts of the API disagree about the instances")]


def test_instances_that_the_device_plugin_has_not_registered_yet_are_believed() -> None:
    node = offering(a_mig_node(cut={0: [("1g.10gb", 0), ("1g.10gb", 1)]}), 7)
    assert planned(a_snapshot(node), "1g.10gb=2").outcome == "nothing-to-do"


@pytest.mark.parametrize("pod", ["default/m1", ""])
def test_instances_of_one_name_count_for_the_product_whose_gpu_has_them(pod: str) -> None:
    """A node with an A100 that is cut, and an H100 that is not: both call the smallest instance 1g.10gb."""
    node = a_mig_node(gpus=2, cut={0: [("1g.10gb", start, pod) for start in (0, 1)]})
    assert node.gpu_report is not None
    products = {0: A100, 1: ""}
    report = (structs.replace(gpu, product=products[gpu.index]) for gpu in node.gpu_report.gpus)
    node = structs.replace(node, gpu_report=structs.replace(node.gpu_report, gpus=tuple(report)))
    snapshot = a_snapshot(node, *([a_mig_pod("m1", count=2, node="n1")] if pod else []))
    asks = MigOptions(profiles=(WantedProfile("1g.10gb", 2, product=H100),), asked=True)
    plan = plan_mig(snapshot, SETTINGS, asks, NOW)
    assert cut(plan) == {("n1", 1): ["1g.10gb", "1g.10gb"]}
