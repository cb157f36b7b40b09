"""What kube-scheduler of each supported minor sent (tests/kwok/wire_recording.py recorded it) is understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders import a_node, a_pod
from tests.unit.extender.harness import FakeBinder, InMemoryExtender

REQUESTS = sorted((Path(__file__).parents[2] / "golden" / "requests").glob("*/*.json"))
MINORS = ("1.34", "1.36", "1.37")


def requests_of(verb: str) -> Any:
    found = [path for path in REQUESTS if path.name.startswith(f"{verb}-")]
    return pytest.mark.parametrize("path", found, ids=[f"{path.parent.name}-{path.stem}" for path in found])


def body_of(path: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(path.read_text())
    return body


def full_cluster(path: Path) -> InMemoryExtender:
    """The two nodes of the recording, full of the pods that the request would have removed."""
    body = body_of(path)
    uids = {}
    for node, victims in (body["NodeNameToMetaVictims"] or {}).items():
        uids[node] = [pod["UID"] for pod in victims["Pods"]]
    for node, victims in (body["NodeNameToVictims"] or {}).items():
        uids[node] = [pod["metadata"]["uid"] for pod in victims["Pods"]]
    holders = [
        replace(a_pod(f"on-{node}", gpus=8, node=node), uid=uid) for node, there in uids.items() for uid in there
    ]
    return InMemoryExtender(a_node("gpu-1"), a_node("gpu-2"), *holders)


def test_every_verb_is_recorded_in_both_modes_for_every_minor() -> None:
    verbs = ("filter", "prioritize", "preempt", "bind")
    expected = {f"{minor}/{verb}-{mode}.json" for minor in MINORS for verb in verbs for mode in ("names", "nodes")}
    assert {f"{path.parent.name}/{path.name}" for path in REQUESTS} == expected


@requests_of("filter")
def test_filter_is_answered_in_the_form_that_was_sent(path: Path) -> None:
    body = body_of(path)
    answer = InMemoryExtender(a_node("gpu-1", gpus=4), a_node("gpu-2")).post("filter", body).get_json()
    if path.stem == "filter-names":
        assert answer["Nodes"] is None
        assert answer["NodeNames"] == ["gpu-2"]
        assert list(answer["FailedAndUnresolvableNodes"]) == ["gpu-1"]
    else:
        # Whole nodes are judged as they were sent: both have eight GPUs.
        assert answer["NodeNames"] is None
        assert answer["Nodes"]["items"] == body["Nodes"]["items"]
        assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["gpu-1", "gpu-2"]
    assert answer["Error"] == ""


@requests_of("filter")
def test_filter_knows_the_pods_that_hold_the_gpus_of_a_node(path: Path) -> None:
    extender = InMemoryExtender(a_node("gpu-1"), a_node("gpu-2"), a_pod("holder", gpus=1, node="gpu-1"))
    answer = extender.post("filter", body_of(path)).get_json()
    assert list(answer["FailedNodes"]) == ["gpu-1"]


@requests_of("prioritize")
def test_prioritize_scores_every_node_and_one_of_them_best(path: Path) -> None:
    answer = InMemoryExtender(a_node("gpu-1"), a_node("gpu-2")).post("prioritize", body_of(path)).get_json()
    assert answer == [{"Host": "gpu-1", "Score": 10}, {"Host": "gpu-2", "Score": 9}]


@requests_of("preempt")
def test_preempt_keeps_the_candidates_whose_victims_make_room(path: Path) -> None:
    answer = full_cluster(path).post("preempt", body_of(path)).get_json()
    kept = answer["NodeNameToMetaVictims"]
    assert sorted(kept) == ["gpu-1", "gpu-2"]
    assert all(len(victims["Pods"]) == 1 and victims["Pods"][0]["UID"] for victims in kept.values())


@requests_of("preempt")
def test_preempt_drops_a_candidate_whose_victims_do_not_make_enough_room(path: Path) -> None:
    extender = full_cluster(path)
    extender.see(a_pod("one-more", gpus=1, node="gpu-2"))
    answer = extender.post("preempt", body_of(path)).get_json()
    assert list(answer["NodeNameToMetaVictims"]) == ["gpu-1"]


@requests_of("bind")
def test_bind_hands_the_four_names_on(path: Path) -> None:
    binder = FakeBinder()
    extender = InMemoryExtender(a_node("gpu-1"), a_node("gpu-2"), binder=binder)
    body = body_of(path)
    assert extender.post("bind", body).get_json() == {"Error": ""}
    (asked,) = binder.asked
    assert {"PodName": asked.name, "PodNamespace": asked.namespace, "PodUID": asked.uid, "Node": asked.node} == body
