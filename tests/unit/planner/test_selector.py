import pytest

from islander.cluster.pod import Requirement
from planner.errors import PlannerError
from planner.selector import only_nodes, parse_selector
from tests.builders import a_node, a_pod, a_snapshot


@pytest.mark.parametrize(
    ("text", "requirement"),
    [
        ("pool=h100", Requirement("pool", "In", ("h100",))),
        ("pool==h100", Requirement("pool", "In", ("h100",))),
        ("pool!=h100", Requirement("pool", "NotIn", ("h100",))),
        ("nvidia.com/gpu.product=NVIDIA-L4", Requirement("nvidia.com/gpu.product", "In", ("NVIDIA-L4",))),
        ("zone in (a, b)", Requirement("zone", "In", ("a", "b"))),
        ("zone notin (a)", Requirement("zone", "NotIn", ("a",))),
        ("spot", Requirement("spot", "Exists")),
        ("!spot", Requirement("spot", "DoesNotExist")),
        ("spot=", Requirement("spot", "In", ("",))),
    ],
)
def test_every_form_of_kubectl_is_understood(text, requirement):
    assert parse_selector(text) == (requirement,)


def test_requirements_are_separated_by_commas_outside_parentheses():
    assert len(parse_selector("pool=h100,zone in (a,b),!spot")) == 3


@pytest.mark.parametrize("text", ["=h100", "pool=a b", "zone in a", "zone in (a;b)", "a/b/c"])
def test_what_is_no_selector_is_named(text):
    with pytest.raises(PlannerError, match="is not key=value"):
        parse_selector(text)


def test_only_nodes_keeps_the_selected_nodes_their_pods_and_the_pods_that_wait():
    snapshot = a_snapshot(
        a_node("a", labels={"pool": "x"}),
        a_node("b", labels={"pool": "y"}),
        a_pod("on-a", node="a"),
        a_pod("on-b", node="b"),
        a_pod("waits"),
    )
    kept = only_nodes(snapshot, "pool=x")
    assert [node.name for node in kept.nodes] == ["a"]
    assert [pod.name for pod in kept.pods] == ["on-a", "waits"]


def test_a_selector_that_selects_nothing_is_an_error_and_not_an_empty_cluster():
    with pytest.raises(PlannerError, match="none of 1 nodes"):
        only_nodes(a_snapshot(a_node("a")), "pool=x")
