"""Drawings of the nodes: nothing is lost between before and after, and what stays does not jump."""

from islander.policy.settings import PolicySettings
from planner.pictures import Fate, pictures
from tests.builders import a_node, a_pod, a_report, a_snapshot
from tests.plan_builders import a_plan, a_step, an_admission, move_story


def drawn(plan, snapshot):
    return {picture.name: picture for picture in pictures(plan, snapshot, PolicySettings())}


def users(cells):
    return [cell.pod.rpartition("/")[2] for cell in cells]


def test_the_mover_leaves_a_gap_that_the_pending_replica_fills():
    a = drawn(a_plan(), move_story())["a"]
    assert sorted(users(a.before)) == ["", "", "embed-1", "embed-1"] + ["llama-1"] * 4
    assert a.gpus(Fate.LEAVES) == {"search/embed-1": 2}
    assert a.gpus(Fate.ADMITTED) == {"chat/llama-2": 4}
    assert sorted(users(a.after)) == ["llama-1"] * 4 + ["llama-2"] * 4


def test_the_mover_arrives_on_its_target():
    b = drawn(a_plan(), move_story())["b"]
    assert b.gpus(Fate.ARRIVES) == {"search/embed-1": 2}
    assert [cell.fate for cell in b.before].count(Fate.FREE) == 2
    assert Fate.FREE not in [cell.fate for cell in b.after]


def test_what_stays_is_drawn_in_the_same_place_twice():
    for picture in drawn(a_plan(), move_story()).values():
        for before, after in zip(picture.before, picture.after, strict=True):
            if before.fate is Fate.STAYS:
                assert after == before


def test_nodes_that_the_plan_does_not_touch_are_not_drawn():
    snapshot = a_snapshot(a_node("a"), a_node("b"), a_node("c"), a_pod("embed-1", gpus=2, node="a", namespace="search"))
    assert list(drawn(a_plan(admits=[]), snapshot)) == ["a", "b"]


def test_a_replica_that_moves_twice_is_drawn_where_it_ends():
    through = [a_step(1, to_node="c"), a_step(2, from_node="c", to_node="b")]
    snapshot = a_snapshot(a_node("a"), a_node("b"), a_node("c"), a_pod("embed-1", gpus=2, node="a", namespace="search"))
    found = drawn(a_plan(steps=through, admits=[]), snapshot)
    assert found["b"].gpus(Fate.ARRIVES) == {"search/embed-1": 2}
    assert found["c"].before == found["c"].after


def test_a_node_that_would_be_overfilled_shows_the_cells_beyond():
    full = a_snapshot(a_node("a", gpus=2), a_pod("x", gpus=2, node="a"))
    a = drawn(a_plan(steps=[], admits=[an_admission(gpus=4)]), full)["a"]
    assert len(a.before) == 2
    assert len(a.after) == 6


def test_an_absurd_number_of_gpus_does_not_make_an_absurd_drawing():
    a = drawn(a_plan(steps=[], admits=[an_admission(gpus=10**9)]), a_snapshot(a_node("a", gpus=2)))["a"]
    assert len(a.after) < 20


def test_withdrawn_gpus_are_no_room():
    snapshot = a_snapshot(a_node("a", gpus=8, allocatable=6), a_node("b"))
    a = drawn(a_plan(steps=[], admits=[an_admission(gpus=4)]), snapshot)["a"]
    assert [cell.fate for cell in a.after].count(Fate.WITHDRAWN) == 2
    assert [cell.fate for cell in a.after].count(Fate.ADMITTED) == 4


def test_an_arrival_is_drawn_side_by_side_where_that_is_possible():
    report = a_report(8, used={1: "default/x", 4: "default/y"})
    snapshot = a_snapshot(a_node("a", report=report), a_pod("x", node="a"), a_pod("y", node="a"))
    a = drawn(a_plan(steps=[], admits=[an_admission(gpus=3)]), snapshot)["a"]
    assert users(a.after)[5:] == ["llama-2"] * 3


def test_a_replica_of_a_goal_has_a_place_too():
    snapshot = a_snapshot(a_node("a"))
    a = drawn(a_plan(steps=[], admits=[an_admission("goal/1", gpus=8, after_wave=0)]), snapshot)["a"]
    assert {cell.workload for cell in a.after} == {"goal"}
