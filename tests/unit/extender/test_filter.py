from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from extender.cache import ClusterCache
from islander.cluster import names
from islander.policy.reasons import REASONS, Code
from tests.builders import H100, a_node, a_pod, a_report, a_resource_slice, a_snapshot, node_object, pod_object
from tests.unit.extender.harness import InMemoryExtender, asking

NOT_ENOUGH = REASONS[Code.NOT_ENOUGH_FREE_GPUS].sentence


def full(node: str, gpus: int = 8, name: str = "holder") -> Any:
    return a_pod(name, gpus=gpus, node=node)


def test_filter_refuses_a_node_that_is_full_with_the_sentence_of_its_code() -> None:
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), full("n1"))
    answer = extender.filter(asking(gpus=1), ["n1", "n2"])
    assert answer == {
        "Nodes": None,
        "NodeNames": ["n2"],
        "FailedNodes": {"n1": NOT_ENOUGH},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_filter_keeps_the_order_and_the_subset_of_the_request() -> None:
    """G16: n3 is free but was not asked for."""
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), a_node("n3"))
    assert extender.filter(asking(), ["n2", "n1"])["NodeNames"] == ["n2", "n1"]


def test_a_node_that_is_not_known_fails_with_a_reason() -> None:
    """G16: n9 was just deleted; it may be back for the next attempt, so it is curable."""
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), a_node("n9"))
    extender.lose(a_node("n9"))
    answer = extender.filter(asking(), ["n1", "n2", "n9"])
    assert answer["NodeNames"] == ["n1", "n2"]
    assert answer["FailedNodes"] == {"n9": REASONS[Code.UNKNOWN_NODE].sentence}


def test_events_of_pods_on_a_node_that_is_gone_are_no_error() -> None:
    """G16: the pod's deletion arrives after the node's."""
    pod = full("n1")
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), pod)
    extender.lose(a_node("n1"))
    extender.lose(pod)
    extender.see(a_pod("late", gpus=2, node="n1"))
    extender.lose(a_pod("late", gpus=2, node="n1"))
    assert extender.filter(asking(gpus=8), ["n1", "n2"])["NodeNames"] == ["n2"]
    extender.see(a_node("n1"))
    assert extender.filter(asking(gpus=8), ["n1", "n2"])["NodeNames"] == ["n1", "n2"]


def test_refusals_that_preemption_cannot_cure_are_unresolvable() -> None:
    """G17: n1 is too small, n3 is another product than the pod asks for, n2 is only full."""
    extender = InMemoryExtender(
        a_node("n1", gpus=4), a_node("n2"), full("n2", 5), a_node("n3", product="NVIDIA-A100-SXM4-80GB")
    )
    pod = asking(gpus=8, spec={"nodeSelector": {"nvidia.com/gpu.product": H100}})
    answer = extender.filter(pod, ["n1", "n2", "n3"])
    assert answer["NodeNames"] == []
    assert answer["FailedNodes"] == {"n2": NOT_ENOUGH}
    assert answer["FailedAndUnresolvableNodes"] == {
        "n1": REASONS[Code.NODE_TOO_SMALL].sentence,
        "n3": REASONS[Code.WRONG_PRODUCT].sentence,
    }


def test_a_refusal_that_only_we_make_is_unresolvable() -> None:
    """Preemption would evict for nothing: its dry runs do not ask the extender."""
    report = a_report(4, used={0: "default/a", 2: "default/b"})
    holders = [a_pod("a", gpus=1, node="n1"), a_pod("b", gpus=1, node="n1")]
    extender = InMemoryExtender(a_node("n1", gpus=4, product=None, hardware="a100-pcie-4", report=report), *holders)
    answer = extender.filter(asking(gpus=2, tp=2, topology="required"), ["n1"])
    assert answer["FailedNodes"] == {}
    assert answer["FailedAndUnresolvableNodes"] == {"n1": REASONS[Code.NO_FREE_ISLAND].sentence}
    assert extender.filter(asking(gpus=2, tp=2), ["n1"])["NodeNames"] == ["n1"]


def test_gpus_that_are_gone_from_allocatable_are_not_free() -> None:
    """G07: A has lost 6 of 8 while 6 are used, B is empty, C has lost 3."""
    extender = InMemoryExtender(
        a_node("a", allocatable=2), full("a", 6), a_node("b"), a_node("c", allocatable=5), a_node("d", allocatable=0)
    )
    assert extender.filter(asking(gpus=8), ["a", "b", "c", "d"])["NodeNames"] == ["b"]
    assert extender.filter(asking(gpus=2), ["a", "b", "c", "d"])["NodeNames"] == ["b", "c"]


def test_a_deleted_pod_leaves_no_ghost() -> None:
    """G06: seen by its deletion event, and seen only by its absence in the next list."""
    for change in ("deleted", "deleted twice", "finished"):
        holder = a_pod("a", gpus=8)
        extender = InMemoryExtender(a_node("n1"), holder)
        bound = full("n1", name="a")
        extender.see(bound, holder)
        assert extender.filter(asking(gpus=8), ["n1"])["NodeNames"] == []
        if change == "finished":
            extender.see(a_pod("a", gpus=8, node="n1", phase="Succeeded"), bound)
        else:
            extender.lose(bound)
        if change == "deleted twice":
            extender.lose(bound)
        assert extender.filter(asking(gpus=8), ["n1"])["NodeNames"] == ["n1"]


def test_a_terminating_pod_still_holds_its_gpus() -> None:
    """G04."""
    bound = full("n1")
    extender = InMemoryExtender(a_node("n1"), bound)
    extender.see(a_pod("holder", gpus=8, node="n1", deleted="2026-01-01T00:00:10Z"), bound)
    assert extender.filter(asking(gpus=8), ["n1"])["NodeNames"] == []


def test_a_pod_without_gpus_passes_everywhere() -> None:
    extender = InMemoryExtender(a_node("n1"), full("n1"))
    for gpus in (None, "0"):
        answer = extender.filter(pod_object("web", gpus=gpus), ["n1", "n9"])
        assert answer["NodeNames"] == ["n1", "n9"]
        assert answer["FailedNodes"] == {}


def test_a_node_of_unknown_topology_is_refused_only_when_topology_is_required() -> None:
    extender = InMemoryExtender(a_node("n1", product=None))
    assert extender.filter(asking(gpus=4, tp=4), ["n1"])["NodeNames"] == ["n1"]
    refused = extender.filter(asking(gpus=4, tp=4, topology="required"), ["n1"])
    assert list(refused["FailedAndUnresolvableNodes"]) == ["n1"]


def test_a_node_whose_gpus_come_by_resource_claims_is_not_refused_by_count() -> None:
    """kube-scheduler has found devices in resource slices; the node itself names no GPU."""
    extender = InMemoryExtender(a_node("n1", gpus=0), a_node("n2"))
    assert extender.filter(asking(gpus=4, tp=4), ["n1"])["NodeNames"] == ["n1"]
    assert extender.prioritize(asking(gpus=4, tp=4), ["n1", "n2"]) == {"n1": 0, "n2": 10}
    refused = extender.filter(asking(gpus=4, tp=4, topology="required"), ["n1"])
    assert refused["FailedAndUnresolvableNodes"] == {"n1": REASONS[Code.ISLAND_NOT_GUARANTEED].sentence}
    assert extender.filter(asking(gpus=1, topology="required"), ["n1"])["NodeNames"] == ["n1"]


def test_a_node_whose_gpus_two_systems_offer_takes_plain_pods_as_kube_scheduler_counts() -> None:
    """G46: two are held by the device plugin; what claims hold is not the extender's to count."""
    nodes = (a_node("both"), a_pod("plain", gpus=2, node="both"))
    snapshot = a_snapshot(*nodes, a_resource_slice("both"))
    cache = ClusterCache((names.NVIDIA_GPU,), has_devices=snapshot.has_devices)
    extender = InMemoryExtender(*nodes, a_resource_slice("both"), cache=cache)
    assert extender.filter(asking(gpus=6), ["both"])["NodeNames"] == ["both"]
    assert extender.filter(asking(gpus=7), ["both"])["NodeNames"] == []


def test_in_a_file_only_a_node_with_resource_slices_is_taken_for_one_with_devices() -> None:
    """Nobody has counted the nodes of a file before."""
    nodes = (a_node("cpu", gpus=0), a_node("dra", gpus=0), a_node("network", gpus=0))
    slices = (a_resource_slice("dra"), a_resource_slice("network", driver="nic.example.com"))
    snapshot = a_snapshot(*nodes, *slices)
    cache = ClusterCache((names.NVIDIA_GPU,), has_devices=snapshot.has_devices)
    extender = InMemoryExtender(*nodes, *slices, cache=cache)
    answer = extender.filter(asking(gpus=1), ["cpu", "dra", "network"])
    assert answer["NodeNames"] == ["dra"]
    assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys(
        ("cpu", "network"), REASONS[Code.NODE_TOO_SMALL].sentence
    )


def test_whole_nodes_are_judged_as_they_were_sent() -> None:
    """Templates of an autoscaler: unknown to us, without pods; the answer carries the objects unchanged."""
    extender = InMemoryExtender(a_node("n1"), full("n1"))
    sent = [node_object("template"), node_object("n1"), node_object("small", gpus=2)]
    body = {"Pod": asking(gpus=4), "Nodes": {"items": sent}, "NodeNames": None}
    answer = extender.post("filter", body).get_json()
    assert answer["NodeNames"] is None
    assert answer["Nodes"]["items"] == [sent[0]]
    assert answer["FailedNodes"] == {"n1": NOT_ENOUGH}
    assert list(answer["FailedAndUnresolvableNodes"]) == ["small"]


def test_a_whole_node_that_cannot_be_understood_passes() -> None:
    extender = InMemoryExtender()
    odd = {"metadata": {"name": "odd", "labels": 7}}
    answer = extender.post("filter", {"Pod": asking(), "Nodes": {"items": [odd]}}).get_json()
    assert answer["Nodes"]["items"] == [odd]


@pytest.mark.parametrize(
    "keys", [("Pod", "Nodes", "NodeNames"), ("pod", "nodes", "nodenames"), ("pod", "nodes", "nodeNames")]
)
def test_keys_are_read_in_any_case(keys: tuple[str, str, str]) -> None:
    """G15."""
    extender = InMemoryExtender(a_node("n1"), a_node("n2"))
    body = dict(zip(keys, (asking(), None, ["n1", "n2"]), strict=True))
    assert extender.post("filter", body).get_json()["NodeNames"] == ["n1", "n2"]


@pytest.mark.parametrize(
    "rest",
    [
        {"Nodes": None, "NodeNames": None},
        {},
        {"NodeNames": []},
        {"Nodes": {"items": []}},
        {"Nodes": {"items": None}},
        {"Nodes": {}},
    ],
)
def test_no_nodes_are_an_empty_answer(rest: dict[str, Any]) -> None:
    """G15."""
    response = InMemoryExtender(a_node("n1")).post("filter", {"Pod": asking(), **rest})
    assert response.status_code == 200
    answer = response.get_json()
    assert not answer["NodeNames"]
    assert not (answer["Nodes"] or {}).get("items")
    assert answer["Error"] == ""


def test_room_made_by_preemption_is_kept_from_equal_and_lower_priority() -> None:
    nominee = a_pod("nominee", gpus=8, priority=100, nominated_node="n1")
    failed_once = replace(nominee, unschedulable_message="0/2 nodes are available")
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), failed_once)
    assert extender.filter(asking("other", priority=0), ["n1", "n2"])["NodeNames"] == ["n2"]
    assert extender.filter(asking("equal", priority=100), ["n1", "n2"])["NodeNames"] == ["n2"]
    assert extender.filter(asking("higher", priority=101), ["n1", "n2"])["NodeNames"] == ["n1", "n2"]
    assert extender.filter(asking("nominee", 8, priority=100), ["n1", "n2"])["NodeNames"] == ["n1", "n2"]
    extender.see(full("n2", name="nominee"), failed_once)
    assert extender.filter(asking("other", priority=0), ["n1", "n2"])["NodeNames"] == ["n1"]


def test_an_expected_place_only_lowers_the_score() -> None:
    """On the way to a bind the scheduler names the node too; nothing was preempted, and nothing is refused."""
    expected = a_pod("expected", gpus=8, nominated_node="n1")
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), expected)
    assert extender.filter(asking(gpus=8), ["n1", "n2"])["NodeNames"] == ["n1", "n2"]
    assert extender.prioritize(asking(gpus=8), ["n1", "n2"]) == {"n1": 0, "n2": 10}


def test_filter_writes_nothing_and_gives_the_same_answer_again() -> None:
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), full("n1", 5))
    answers = [extender.filter(asking(gpus=4), ["n1", "n2"]) for _ in range(5)]
    assert all(answer == answers[0] for answer in answers)
    assert extender.prioritize(asking("b", gpus=4), ["n1", "n2"])["n2"] == 10


def test_filter_is_not_ready_before_the_first_lists() -> None:
    """G13: never "all free"."""
    extender = InMemoryExtender(a_node("n1"), waits_for=("Node", "Pod: refused"))
    answer = extender.filter(asking(), ["n1"])
    assert "Node, Pod: refused" in answer["Error"]
    assert "NodeNames" not in answer
    for verb in ("prioritize", "preempt"):
        response = extender.post(verb, {"Pod": asking(), "NodeNames": ["n1"]})
        assert (response.status_code, response.text.startswith("not ready")) == (503, True)


def test_a_restarted_replica_counts_what_another_one_bound() -> None:
    """G13: pods A and B were bound before this replica listed."""
    extender = InMemoryExtender(a_node("n1"), full("n1", 4, "a"), full("n1", 4, "b"))
    assert extender.filter(asking("c", gpus=4), ["n1"])["FailedNodes"] == {"n1": NOT_ENOUGH}


def test_answers_are_right_while_events_arrive() -> None:
    """An event that has been told before a call is in the answer, whatever other threads do."""
    extender = InMemoryExtender(*(a_node(f"n{i}") for i in range(20)))
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for i in range(10, 20):
                extender.see(full(f"n{i}", name=f"churn-{i}"))
                extender.lose(full(f"n{i}", name=f"churn-{i}"))

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(30):
            extender.see(full("n1"))
            assert "n1" in extender.filter(asking(gpus=1), ["n1", "n2", "n15"])["FailedNodes"]
            extender.lose(full("n1"))
            assert "n1" in extender.filter(asking(gpus=8), ["n1", "n2", "n15"])["NodeNames"]
    finally:
        stop.set()
        thread.join()


def test_refusals_are_counted_by_code() -> None:
    extender = InMemoryExtender(a_node("n1"), full("n1"), a_node("n2", gpus=4))
    extender.filter(asking(gpus=8), ["n1", "n2", "n3"])
    text = extender.metrics.expose().decode()
    for code in ("NOT_ENOUGH_FREE_GPUS", "NODE_TOO_SMALL", "UNKNOWN_NODE"):
        assert f'islander_rejections_total{{code="{code}"}} 1.0' in text


def test_sentences_name_no_node_and_no_number() -> None:
    extender = InMemoryExtender(a_node("n1"), full("n1"), a_node("n2", gpus=4))
    answer = extender.filter(asking(gpus=8), ["n1", "n2", "n3"])
    messages = json.dumps([*answer["FailedNodes"].values(), *answer["FailedAndUnresolvableNodes"].values()])
    assert not any(character.isdigit() for character in messages)
