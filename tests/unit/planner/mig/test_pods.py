"""What pods are taken to want, however they say it, and what is said when they do not get it."""

from __future__ import annotations

from typing import Any

import pytest

from islander.cluster.node import Node
from islander.cluster.pod import NodeTerm, Pod, Requirement
from planner.mig.plan import MigPlan
from tests.builders import H100, a_node, a_pod, a_snapshot
from tests.mig_builders import A100, a_mig_node, a_mig_pod
from tests.unit.planner.mig.test_planning import cut, planned

PRODUCT = "nvidia.com/gpu.product"
DRIVER = "nvidia.com/cuda.driver-version.major"
OF_INSTANCE = "nvidia.com/mig-1g.10gb.product"


def required(*requirements: tuple[str, str, tuple[str, ...]]) -> Any:
    """Node affinity with one alternative for each requirement."""
    return tuple(NodeTerm((Requirement(*requirement),)) for requirement in requirements)


def met(plan: MigPlan) -> dict[str, int]:
    return {line.profile: line.met for line in plan.demand}


@pytest.mark.parametrize(
    "terms",
    [
        required((PRODUCT, "In", (f"{H100}-MIG-1g.10gb",))),
        required((PRODUCT, "In", (f"{H100}-MIG-1g.10gb",)), (PRODUCT, "In", (f"{A100}-MIG-1g.10gb",))),
    ],
)
def test_g41_a_pod_that_names_the_slices_by_affinity_waits_for_them(terms: Any) -> None:
    plan = planned(a_snapshot(a_mig_node(strategy="single"), a_pod("p", node_terms=terms)))
    assert met(plan) == {"1g.10gb": 1}
    assert len(cut(plan)) == 8


@pytest.mark.parametrize(
    "terms",
    [
        required((PRODUCT, "In", (f"{H100}-MIG-1g.10gb", f"{H100}-MIG-2g.20gb"))),
        required((PRODUCT, "In", (H100, f"{H100}-MIG-1g.10gb"))),
        required((PRODUCT, "In", (f"{H100}-MIG-1g.10gb",)), ("pool", "In", ("a",))),
        required((PRODUCT, "NotIn", (f"{H100}-MIG-1g.10gb",))),
    ],
)
def test_g41_a_pod_that_may_run_on_several_kinds_of_device_asks_for_no_slices(terms: Any) -> None:
    assert planned(a_snapshot(a_mig_node(strategy="single"), a_pod("p", node_terms=terms))).demand == []


@pytest.mark.parametrize(
    "wish",
    [
        {"node_selector": {OF_INSTANCE: f"{H100}-MIG-1g.10gb"}},
        {"node_terms": required((OF_INSTANCE, "In", (f"{H100}-MIG-1g.10gb",)))},
        {"node_terms": required(("nvidia.com/mig-1g.10gb.count", "Exists", ()))},
        {"node_terms": required(("nvidia.com/mig-1g.10gb.memory", "Gt", ("9000",)))},
    ],
)
def test_a_label_that_comes_with_the_layout_is_no_obstacle(wish: Any) -> None:
    plan = planned(a_snapshot(a_mig_node("h100"), a_mig_pod(**wish)))
    assert cut(plan) == {("h100", 7): ["1g.10gb"]}


def test_instances_of_another_product_than_the_pod_names_do_not_serve_it() -> None:
    pod = a_mig_pod(node_selector={OF_INSTANCE: f"{A100}-MIG-1g.10gb"})
    assert cut(planned(a_snapshot(a_mig_node("h100"), pod))) == {}
    assert set(cut(planned(a_snapshot(a_mig_node("h100"), a_mig_node("a100", product=A100), pod)))) == {("a100", 7)}


def test_a_pod_that_shuns_nodes_with_instances_is_believed() -> None:
    shuns = required(("nvidia.com/mig-1g.10gb.count", "DoesNotExist", ()))
    node = a_mig_node(labels={"nvidia.com/mig-1g.10gb.count": "1"}, cut={0: [("1g.10gb", 0)]})
    assert met(planned(a_snapshot(node, a_mig_pod(node_terms=shuns)))) == {"1g.10gb": 0}


def test_nothing_is_cut_for_a_pod_that_asks_for_more_than_a_node_can_have() -> None:
    nodes = [a_mig_node(name, gpus=1) for name in "ab"]
    plan = planned(a_snapshot(*nodes, a_mig_pod("big", "3g.40gb", count=4), a_mig_pod("fits", "3g.40gb", count=2)))
    assert list(cut(plan).values()) == [["3g.40gb", "3g.40gb"]]
    ((profile, count, code, message),) = [(u.profile, u.count, u.code, u.message) for u in plan.unmet]
    assert (profile, count, code) == ("3g.40gb", 4, "NO_GPU_TO_CUT")
    assert message.endswith("one pod asks for 4 instances, more than any node can have")


def test_free_instances_of_a_node_without_a_report_serve_a_pod_that_asks_for_several() -> None:
    node = a_node(gpus=0, mig={"1g.10gb": 7}, labels={PRODUCT: H100, "nvidia.com/mig.strategy": "mixed"})
    assert met(planned(a_snapshot(node, a_mig_pod(count=7)))) == {"1g.10gb": 7}


@pytest.mark.parametrize(
    ("node", "pod", "words"),
    [
        (a_mig_node(gpus=1, used={0: "default/x"}), a_mig_pod(), "before the plan: in use 1"),
        (
            a_mig_node(gpus=2, used={0: "default/x"}, strategy="single"),
            a_pod("p", node_selector={PRODUCT: f"{H100}-MIG-1g.10gb"}),
            "idle 1, in use 1; with strategy single only a node whose GPUs are all idle is cut",
        ),
        (a_mig_node(strategy="single"), a_mig_pod(), "no node of its product has MIG strategy mixed"),
        (
            a_mig_node(product=A100, labels={DRIVER: "470"}),
            a_mig_pod(profile="1g.20gb"),
            "driver of the node is too old to cut its GPUs",
        ),
        (a_mig_node(), a_mig_pod(node_selector={"pool": "a"}), "no node that takes pods fits its selectors"),
    ],
)
def test_what_is_unmet_says_what_stands_in_the_way(node: Node, pod: Pod, words: str) -> None:
    (unmet,) = planned(a_snapshot(node, a_pod("x", node="n1"), pod)).unmet
    assert unmet.code == "NO_GPU_TO_CUT"
    assert words in unmet.message
