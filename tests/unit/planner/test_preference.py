import msgspec
import pytest

from islander.policy.explain import Parts, explain_pod
from planner.render.explain import answers_by_rank
from planner.render.preference import advantage, preference_line
from tests.builders import a_node, a_pod, a_snapshot


def ranked(snapshot, pod):
    return answers_by_rank(explain_pod(snapshot, pod))


@pytest.fixture
def two_equal_answers():
    first, second = ranked(a_snapshot(a_node("a"), a_node("b")), a_pod("p"))
    assert first.parts == second.parts
    return first, second


@pytest.mark.parametrize("part", Parts.__struct_fields__)
def test_every_part_of_a_score_can_be_the_reason(part, two_equal_answers):
    best, other = two_equal_answers
    better = msgspec.structs.replace(best.parts, **{part: getattr(best.parts, part) + 1})
    assert advantage(msgspec.structs.replace(best, parts=better), other)


def test_the_first_part_that_differs_is_the_reason(two_equal_answers):
    best, other = two_equal_answers
    better = msgspec.structs.replace(best.parts, packing=9, tightness=9)
    assert "used already" in advantage(msgspec.structs.replace(best, parts=better), other)


def test_a_broken_node_is_preferred_for_one_gpu_and_the_line_says_so():
    snapshot = a_snapshot(a_node("broken"), a_node("whole"), a_pod("x", node="broken", gpus=7))
    assert preference_line(ranked(snapshot, a_pod("p"))) == (
        "broken comes before whole: less room for other replicas is lost."
    )


def test_equal_nodes_are_said_to_be_equal():
    line = preference_line(ranked(a_snapshot(a_node("a"), a_node("b"), a_node("c")), a_pod("p")))
    assert line.startswith("a and 2 more are equal")


def test_a_single_node_needs_no_preference():
    assert preference_line(ranked(a_snapshot(a_node("a")), a_pod("p"))) == ""
