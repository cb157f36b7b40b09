from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from islander.policy.settings import DemandMix, PolicySettings, Shape
from tests.builders import a_node, a_pod, a_report, node_object, pod_object
from tests.unit.extender.harness import InMemoryExtender, asking


def used(node: str, gpus: int, name: str = "holder") -> Any:
    return a_pod(f"{name}-{node}", gpus=gpus, node=node)


def test_every_node_has_one_integer_score_from_0_to_10() -> None:
    """G18: nodes with 0, 3 and 8 free, and one that we know nothing of."""
    extender = InMemoryExtender(a_node("n0"), used("n0", 8), a_node("n3"), used("n3", 5), a_node("n8"))
    names = ["n0", "n3", "n8", "nowhere"]
    body = {"Pod": asking(gpus=1), "NodeNames": names}
    answer = json.loads(extender.post("prioritize", body).data)
    assert [set(entry) for entry in answer] == [{"Host", "Score"}] * 4
    assert [entry["Host"] for entry in answer] == names
    scores = {entry["Host"]: entry["Score"] for entry in answer}
    assert all(type(score) is int and 0 <= score <= 10 for score in scores.values())
    assert scores["nowhere"] == 0
    assert scores["n0"] == 0
    assert max(scores.values()) == 10


def test_a_single_gpu_pod_goes_where_the_island_is_broken_already() -> None:
    """G23 at the level of nodes: the whole node stays whole."""
    extender = InMemoryExtender(a_node("broken"), used("broken", 1), a_node("whole"))
    scores = extender.prioritize(asking(gpus=1), ["whole", "broken"])
    assert scores["broken"] > scores["whole"]


def test_a_node_with_a_linked_pair_outranks_one_without_at_equal_fill() -> None:
    """G22 at the level of nodes."""
    linked = a_report(4, used={0: "default/a-linked", 1: "default/b-linked"})
    split = a_report(4, used={0: "default/a-split", 2: "default/b-split"})
    extender = InMemoryExtender(
        a_node("linked", gpus=4, product=None, hardware="a100-pcie-4", report=linked),
        a_node("split", gpus=4, product=None, hardware="a100-pcie-4", report=split),
        *(a_pod(f"{p}-{n}", gpus=1, node=n) for n in ("linked", "split") for p in "ab"),
    )
    scores = extender.prioritize(asking(gpus=2, tp=2), ["split", "linked"])
    assert scores["linked"] == 10
    assert scores["split"] < 9


def test_equal_nodes_get_9_and_the_first_by_name_10() -> None:
    extender = InMemoryExtender(*(a_node(f"n{i}") for i in range(4)))
    for order in (["n3", "n1", "n2"], ["n1", "n2", "n3"]):
        extender.holds.settle("uid-default-asking")
        assert extender.prioritize(asking(gpus=8), order) == {"n1": 10, "n2": 9, "n3": 9}


def test_pods_without_gpus_score_every_node_0() -> None:
    extender = InMemoryExtender(a_node("n1"))
    assert extender.prioritize(pod_object("web", gpus=None), ["n1", "n9"]) == {"n1": 0, "n9": 0}
    assert extender.holds.count(extender.clock.now_s) == 0


def test_names_that_need_escapes_come_back_as_they_were_sent() -> None:
    extender = InMemoryExtender(a_node('odd"\\name'))
    assert extender.prioritize(asking(), ['odd"\\name', 'other"\n'])['odd"\\name'] == 10


def test_whole_nodes_are_scored_as_they_were_sent() -> None:
    extender = InMemoryExtender(a_node("n1"), used("n1", 7))
    sent = [node_object("n0"), node_object("n1"), {"metadata": {"name": "odd", "labels": 7}}]
    answer = extender.post("prioritize", {"Pod": asking(gpus=1), "Nodes": {"items": sent}}).get_json()
    assert answer == [{"Host": "n0", "Score": 0}, {"Host": "n1", "Score": 10}, {"Host": "odd", "Score": 0}]
    nothing = extender.post("prioritize", {"Pod": pod_object(gpus=None), "Nodes": {"items": sent}}).get_json()
    assert [entry["Score"] for entry in nothing] == [0, 0, 0]


@pytest.mark.parametrize("rest", [{}, {"NodeNames": []}, {"Nodes": {"items": []}}])
def test_no_nodes_are_no_scores(rest: dict[str, Any]) -> None:
    response = InMemoryExtender(a_node("n1")).post("prioritize", {"Pod": asking(), **rest})
    assert (response.status_code, response.get_json()) == (200, [])


def test_an_extender_that_knows_no_node_scores_0() -> None:
    assert InMemoryExtender().prioritize(asking(), ["n1", "n2"]) == {"n1": 0, "n2": 0}


def test_the_next_pod_is_scored_as_though_the_first_were_on_its_way() -> None:
    """G12: no watch event between the two calls."""
    extender = InMemoryExtender(a_node("n1"), used("n1", 6), a_node("n2"), used("n2", 6))
    first = extender.prioritize(asking("a", gpus=2), ["n1", "n2"])
    second = extender.prioritize(asking("b", gpus=2), ["n1", "n2"])
    assert (first["n1"], second["n2"]) == (10, 10)
    assert second["n1"] == 0
    assert extender.filter(asking("b", gpus=2), ["n1", "n2"])["NodeNames"] == ["n1", "n2"]


def test_a_pod_that_is_scored_again_does_not_stand_in_its_own_way() -> None:
    extender = InMemoryExtender(a_node("n1"), used("n1", 6), a_node("n2"), used("n2", 6))
    for _ in range(3):
        assert extender.prioritize(asking("a", gpus=2), ["n1", "n2"])["n1"] == 10
    assert extender.holds.count(extender.clock.now_s) == 1


def test_a_hold_ends_with_time_and_with_what_the_watch_shows() -> None:
    both = ["n1", "n2"]
    extender = InMemoryExtender(a_node("n1"), used("n1", 6), a_node("n2"), used("n2", 6))
    extender.prioritize(asking("a", gpus=2), both)
    extender.clock.now_s += 1.9
    assert extender.prioritize(asking("b", gpus=2), both)["n2"] == 10
    extender.clock.now_s += 0.2
    assert extender.prioritize(asking("c", gpus=2), both)["n1"] == 10, "the hold of a is over, that of b is not"
    extender.see(a_pod("c", gpus=2, node="n2"), a_pod("c", gpus=2))
    assert extender.holds.count(extender.clock.now_s) == 1
    extender.lose(a_pod("b", gpus=2))
    assert extender.holds.count(extender.clock.now_s) == 0
    extender.see(a_pod("c", gpus=2), a_pod("c", gpus=2, node="n2"))
    extender.prioritize(asking("c", gpus=2), both)
    extender.see(a_pod("c", gpus=2, labels={"changed": "yes"}), a_pod("c", gpus=2))
    assert extender.holds.count(extender.clock.now_s) == 1, "a pending pod's change says nothing of where it goes"


def test_without_soft_holds_nothing_is_remembered() -> None:
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), soft_hold_s=0.0)
    assert extender.prioritize(asking("a", gpus=8), ["n1", "n2"]) == extender.prioritize(
        asking("b", gpus=8), ["n1", "n2"]
    )


def test_two_pods_fired_at_once_do_not_end_on_the_same_half_free_node() -> None:
    """G12: two TP=4 pods, two nodes with four GPUs free each, both scored before either is seen."""
    for _ in range(20):
        extender = InMemoryExtender(a_node("n1"), used("n1", 4), a_node("n2"), used("n2", 4), a_node("n3"))
        start = threading.Barrier(2)

        def best(name: str, extender: InMemoryExtender = extender, start: threading.Barrier = start) -> str:
            start.wait()
            scores = extender.prioritize(asking(name, gpus=4, tp=4), ["n1", "n2", "n3"])
            return max(scores, key=scores.__getitem__)

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(best, "ab")) == ["n1", "n2"]


def test_the_demand_mix_decides_what_room_is_kept() -> None:
    """4 and 5 GPUs are free: a small pod leaves room for a replica of 4 only on the second node."""
    objects = [a_node("four"), used("four", 4), a_node("five"), used("five", 3)]
    for gpus, best in ((4, "five"), (1, "four")):
        mix = DemandMix(((Shape(gpus, island=gpus > 1), 1.0),))
        extender = InMemoryExtender(*objects, settings=PolicySettings(mix=mix))
        assert extender.prioritize(asking(gpus=1), ["five", "four"])[best] == 10


def test_a_hold_whose_time_is_over_is_not_counted_though_nobody_asks_for_a_score_again() -> None:
    extender = InMemoryExtender(a_node("n1"), a_node("n2"))
    extender.prioritize(asking(gpus=2), ["n1", "n2"])
    assert extender.holds.count(extender.clock.now_s) == 1
    extender.clock.now_s += 2.0
    assert extender.holds.count(extender.clock.now_s) == 0
