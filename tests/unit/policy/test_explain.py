"""Why a pod fits here and not there."""

import pytest

from islander.cluster import names
from islander.policy.explain import explain_pod
from tests.builders import a_node, a_pod, a_snapshot


def test_refusing_nodes_are_counted_by_code() -> None:
    snapshot = a_snapshot(
        a_node("free"),
        a_node("full"),
        a_node("small", gpus=4),
        a_node("closed", unschedulable=True),
        a_pod(gpus=8, node="full"),
    )
    explanation = explain_pod(snapshot, a_pod("asking", gpus=8))
    assert explanation.summary == {"NODE_CORDONED": 1, "NODE_TOO_SMALL": 1, "NOT_ENOUGH_FREE_GPUS": 1}
    assert {node.name: node.score for node in explanation.nodes} == {"free": 10, "full": 0, "small": 0, "closed": 0}


def test_a_pod_does_not_stand_in_its_own_way() -> None:
    running = a_pod("running", gpus=8, node="n1")
    explanation = explain_pod(a_snapshot(a_node("n1"), running), running)
    assert [node.accepted for node in explanation.nodes] == [True]


@pytest.mark.parametrize(
    ("annotations", "warning"),
    [
        ({names.TOPOLOGY: "always"}, "'always' is not one of required, preferred, ignored, and counts as absent"),
        ({names.TENSOR_PARALLEL_SIZE: "four"}, "'four' is not a positive whole number and is ignored"),
    ],
)
def test_an_annotation_that_is_not_understood_is_a_warning_and_counts_as_absent(
    annotations: dict[str, str], warning: str
) -> None:
    explanation = explain_pod(a_snapshot(a_node()), a_pod(gpus=4, tp=4, annotations=annotations))
    assert [warning in said for said in explanation.warnings] == [True]
    assert explanation.need == explain_pod(a_snapshot(a_node()), a_pod(gpus=4, tp=4)).need


def test_sizes_that_do_not_match_the_gpus_are_a_warning_g29() -> None:
    explanation = explain_pod(a_snapshot(a_node()), a_pod(gpus=2, tp=4))
    assert ["2 missing" in warning for warning in explanation.warnings] == [True]


def test_a_pod_that_is_as_it_should_be_has_no_warning() -> None:
    assert explain_pod(a_snapshot(a_node()), a_pod(gpus=4, tp=4, topology="required")).warnings == []
    assert explain_pod(a_snapshot(a_node()), a_pod(gpus=0, topology="always")).warnings == []
