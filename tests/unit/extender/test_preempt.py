from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.builders import a_node, a_pod, a_report, pod_object
from tests.unit.extender.harness import InMemoryExtender, asking


def holder(name: str, node: str, gpus: int) -> Any:
    return a_pod(name, gpus=gpus, node=node)


def test_a_node_stays_when_the_pod_fits_without_the_victims() -> None:
    extender = InMemoryExtender(a_node("n1"), holder("a", "n1", 8), a_node("n2"), holder("b", "n2", 8))
    kept = extender.preempt(asking(gpus=8, priority=10), {"n1": ["uid-default-a"], "n2": []})
    assert kept == {"n1": ["uid-default-a"]}


def test_a_node_goes_when_the_victims_are_too_few() -> None:
    extender = InMemoryExtender(a_node("n1"), holder("a", "n1", 4), holder("b", "n1", 4))
    assert extender.preempt(asking(gpus=8), {"n1": ["uid-default-a"]}) == {}
    assert extender.preempt(asking(gpus=4), {"n1": ["uid-default-a"]}) == {"n1": ["uid-default-a"]}


def test_nobody_is_evicted_for_topology_alone() -> None:
    """A candidate without victims is one that only we refused; we name no victims of our own."""
    report = a_report(4, used={0: "default/a", 2: "default/b"})
    extender = InMemoryExtender(
        a_node("n1", gpus=4, product=None, hardware="a100-pcie-4", report=report),
        holder("a", "n1", 1),
        holder("b", "n1", 1),
    )
    assert extender.preempt(asking(gpus=2, tp=2, topology="required"), {"n1": []}) == {}


def test_victims_must_free_an_island_when_topology_is_required() -> None:
    report = a_report(4, used={0: "default/a", 1: "default/c", 2: "default/b"})
    extender = InMemoryExtender(
        a_node("n1", gpus=4, product=None, hardware="a100-pcie-4", report=report),
        *(holder(name, "n1", 1) for name in "abc"),
    )
    required = asking(gpus=2, tp=2, topology="required")
    assert extender.preempt(required, {"n1": ["uid-default-b"]}) == {"n1": ["uid-default-b"]}, "frees 2, 3 is free"
    assert extender.preempt(required, {"n1": ["uid-default-a"]}) == {}, "frees 0, which is linked to 1"
    assert extender.preempt(asking(gpus=2, tp=2), {"n1": ["uid-default-a"]}) == {"n1": ["uid-default-a"]}


def test_whole_victims_are_answered_by_uid_with_the_violations_kept() -> None:
    extender = InMemoryExtender(a_node("n1"), holder("a", "n1", 8))
    victim = pod_object("a", gpus=8, node="n1")
    body = {
        "Pod": asking(gpus=8),
        "NodeNameToVictims": {"n1": {"Pods": [victim], "NumPDBViolations": 2}},
        "NodeNameToMetaVictims": None,
    }
    assert extender.post("preempt", body).get_json() == {
        "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-default-a"}], "NumPDBViolations": 2}}
    }


def test_a_node_that_is_not_known_is_left_to_the_scheduler() -> None:
    assert InMemoryExtender().preempt(asking(gpus=8), {"n1": ["u"]}) == {"n1": ["u"]}


def test_pods_without_gpus_are_none_of_our_business() -> None:
    extender = InMemoryExtender(a_node("n1"), holder("a", "n1", 8))
    assert extender.preempt(pod_object(gpus=None), {"n1": ["uid-default-a"], "n2": []}) == {
        "n1": ["uid-default-a"],
        "n2": [],
    }


def test_no_candidates_are_an_empty_answer() -> None:
    for rest in ({}, {"NodeNameToVictims": None, "NodeNameToMetaVictims": None}, {"NodeNameToVictims": {}}):
        response = InMemoryExtender().post("preempt", {"Pod": asking(), **rest})
        assert (response.status_code, response.get_json()) == (200, {"NodeNameToMetaVictims": {}})


def test_room_that_was_made_for_another_pod_is_not_used() -> None:
    nominee = replace(a_pod("nominee", gpus=4, priority=50, nominated_node="n1"), unschedulable_message="no room")
    extender = InMemoryExtender(a_node("n1"), holder("a", "n1", 4), nominee)
    assert extender.preempt(asking(gpus=8, priority=50), {"n1": ["uid-default-a"]}) == {}
    assert extender.preempt(asking(gpus=8, priority=51), {"n1": ["uid-default-a"]}) == {"n1": ["uid-default-a"]}
