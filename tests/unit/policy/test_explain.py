"""Why a pod fits here and not there."""

import pytest

from islander.cluster import names
from islander.policy.explain import explain_pod
from tests.builders import a_node, a_pod, a_snapshot


def test_explanation_says_why_every_node_refuses() -> None:
    used = {"a": 6, "b": 6, "c": 7, "d": 7}
    pods = [a_pod(f"on-{node}", gpus=gpus, node=node) for node, gpus in used.items()]
    explanation = explain_pod(a_snapshot(*map(a_node, used), *pods), a_pod("llama", gpus=4, tp=4))
    assert explanation.summary == {"NOT_ENOUGH_FREE_GPUS": 4}
    assert (explanation.need.gpus, explanation.need.tensor_parallel, explanation.need.topology) == (4, 4, "preferred")
    assert [n.free for n in explanation.nodes] == [2, 2, 1, 1]
    assert {n.score for n in explanation.nodes} == {0}


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


def test_explanation_of_a_running_pod_does_not_count_the_pod_against_itself() -> None:
    pod = a_pod("x", gpus=8, tp=8, node="n1")
    (node,) = explain_pod(a_snapshot(a_node(), pod), pod).nodes
    assert (node.verdict, node.accepted) == ("guaranteed", True)


def test_explanation_prefers_the_broken_island_for_a_single_gpu() -> None:
    snapshot = a_snapshot(a_node("broken"), a_node("whole"), a_pod("x", gpus=5, node="broken"))
    scores = {n.name: n.score for n in explain_pod(snapshot, a_pod("single")).nodes}
    assert scores == {"broken": 10, "whole": 0}


def test_a_rule_of_kube_scheduler_goes_before_the_judgement_of_gpus() -> None:
    (node,) = explain_pod(a_snapshot(a_node(unschedulable=True)), a_pod(gpus=16)).nodes
    assert (node.code, node.verdict) == ("NODE_CORDONED", "impossible")


def test_pod_without_gpus_is_explained_as_indifferent() -> None:
    explanation = explain_pod(a_snapshot(a_node()), a_pod(gpus=0))
    assert explanation.need.gpus == 0
    assert [(n.accepted, n.score) for n in explanation.nodes] == [(True, 0)]
