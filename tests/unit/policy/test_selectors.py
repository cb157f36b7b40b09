"""Label requirements, node selectors and taints."""

import pytest

from islander.cluster.node import Taint
from islander.cluster.pod import NodeTerm, Requirement, Toleration
from islander.policy.selectors import requirement_holds, selects, unmatched_key, untolerated_taint
from tests.builders import a_node, a_pod


@pytest.mark.parametrize(
    ("operator", "values", "labels", "holds"),
    [
        ("In", ("a", "b"), {"k": "b"}, True),
        ("In", ("a",), {}, False),
        ("NotIn", ("a",), {"k": "a"}, False),
        ("NotIn", ("a",), {}, True),
        ("Exists", (), {"k": ""}, True),
        ("Exists", (), {}, False),
        ("DoesNotExist", (), {}, True),
        ("DoesNotExist", (), {"k": "a"}, False),
        ("Gt", ("80000",), {"k": "81559"}, True),
        ("Gt", ("81559",), {"k": "81559"}, False),
        ("Lt", ("10",), {"k": "-3"}, True),
        ("Gt", ("x",), {"k": "5"}, False),
        ("Gt", ("1",), {"k": "many"}, False),
        ("Gt", (), {"k": "5"}, False),
        ("Gt", ("²",), {"k": "5"}, False),
        ("Gt", ("1",), {"k": "9" * 5000}, False),
        ("Near", ("a",), {"k": "a"}, False),
    ],
)
def test_requirement_operators(operator: str, values: tuple[str, ...], labels: dict[str, str], holds: bool) -> None:
    assert requirement_holds(Requirement("k", operator, values), labels) is holds


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not selects(None, {"a": "b"})
    assert selects((), {"a": "b"})


def test_node_terms_are_alternatives_and_their_requirements_are_not() -> None:
    big = NodeTerm(labels=(Requirement("size", "In", ("big",)), Requirement("zone", "In", ("z1",))))
    fast = NodeTerm(labels=(Requirement("speed", "Exists"),))
    pod = a_pod(node_terms=(big, fast))
    assert unmatched_key(pod, a_node(labels={"size": "big", "zone": "z1"})) is None
    assert unmatched_key(pod, a_node(labels={"speed": "yes"})) is None
    assert unmatched_key(pod, a_node(labels={"size": "big", "zone": "z2"})) == "zone"


@pytest.mark.parametrize("terms", [(), (NodeTerm(),)])
def test_empty_affinity_matches_no_node(terms: tuple[NodeTerm, ...]) -> None:
    assert unmatched_key(a_pod(node_terms=terms), a_node()) is not None


def test_affinity_on_the_node_name_is_a_field() -> None:
    pod = a_pod(node_terms=(NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),))
    assert unmatched_key(pod, a_node("n1")) is None
    assert unmatched_key(pod, a_node("n2")) == "metadata.name"


def test_node_selector_names_the_label_that_fails() -> None:
    assert unmatched_key(a_pod(node_selector={"disk": "nvme"}), a_node()) == "disk"


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="team", value="x", effect="NoSchedule"), True),
        (Toleration(key="team", value="x"), True),
        (Toleration(key="team", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="team", value="y"), False),
        (Toleration(key="team", value="x", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
    ],
)
def test_tolerations(toleration: Toleration, tolerated: bool) -> None:
    node = a_node(taints=[Taint("team", "x", "NoSchedule")])
    assert (untolerated_taint(a_pod(tolerations=[toleration]), node) is None) is tolerated


def test_a_preference_taint_keeps_nobody_away() -> None:
    assert untolerated_taint(a_pod(), a_node(taints=[Taint("busy", effect="PreferNoSchedule")])) is None
