from __future__ import annotations

import gzip
import json
import logging
from typing import Any

import msgspec
import pytest

from extender.decide import Decider
from islander.cluster.snapshot_json import decode_snapshot
from islander.policy.demand import mix_of
from islander.policy.explain import explain_pod
from islander.policy.settings import DemandMix, PolicySettings, Shape
from tests.builders import a_node, a_pod
from tests.unit.extender.harness import MAX_BODY_BYTES, FakeBinder, InMemoryExtender, asking

VERBS = ("filter", "prioritize", "preempt", "bind", "explain")

BODIES = [
    b"",
    b"null",
    b"{}",
    b"[]",
    b"7",
    b'"text"',
    b"{",
    b"\xff\xfe",
    b'{"Pod": "\xff"}',
    b'{"Pod": {"metadata": {"name": "\xff"}}, "NodeNames": ["a"]}',
    b'{"Pod": {"metadata": {"name": "a"}}, "NodeNames": ["\xff"]}',
    b'{"Pod": {"metadata": {"name": "a"}}, "NodeNames": ["\\ud800"]}',
    b'{"Pod": {"metadata": {"name": "a"}}, "NodeNames": {"a": 1}}',
    b'{"Pod": {"metadata": {"name": "a"}}, "NodeNames": [null]}',
    b'{"Pod": {"metadata": {"name": "a"}}, "Nodes": []}',
    b'{"Pod": {"metadata": {"name": "a"}}, "Nodes": {"items": [{}]}}',
    b'{"Pod": {"metadata": {"name": "a"}}, "Nodes": {"items": [null]}}',
    b'{"Pod": {"metadata": {"name": "a"}, "spec": {"containers": {}}}, "NodeNames": []}',
    b'{"Pod": {"metadata": {"name": "a"}, "spec": NaN}, "NodeNames": []}',
    b'{"Pod": null, "NodeNames": ["a"]}',
    b'{"Pod": [], "pod": {}, "NodeNames": ["a"]}',
    b'{"Pod": {"metadata": {"name": "a"}}, "NodeNameToMetaVictims": {"n": {"NumPDBViolations": 1e99}}}',
    b'{"Pod": {"metadata": {"name": "a"}}, "NodeNameToMetaVictims": {"n": {"NumPDBViolations": 99999999999999999999}}}',
    b'{"Pod": {"metadata": {"name": "a"}}, "NodeNameToMetaVictims": {"n": {"Pods": [7]}}}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"Pod": {"metadata": ' + b"[" * 100_000,
    b'{"Pod": {"metadata": {"name": "a"}}, "NodeNames": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
]


@pytest.fixture(scope="module")
def extender() -> InMemoryExtender:
    return InMemoryExtender(a_node("n1"), a_pod("holder", gpus=4, node="n1"), binder=FakeBinder())


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_no_body_is_a_mistake_of_ours(extender: InMemoryExtender, verb: str, body: bytes) -> None:
    response = extender.post(verb, body)
    assert response.status_code in (200, 400), response.text
    assert "Traceback" not in response.text
    if response.status_code == 400 and verb in ("filter", "bind"):
        assert response.get_json()["Error"]
    if response.status_code == 400 and verb not in ("filter", "bind"):
        assert response.content_type == "text/plain; charset=utf-8"
        assert response.text.count("\n") == 1


def test_a_pod_whose_request_is_not_valid_is_a_bad_request_that_names_it(extender: InMemoryExtender) -> None:
    """G10."""
    response = extender.post("filter", {"Pod": asking("odd", gpus="500m"), "NodeNames": ["n1"]})
    assert response.status_code == 400
    assert "default/odd" in response.get_json()["Error"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_body_beyond_the_limit_is_413(extender: InMemoryExtender, verb: str) -> None:
    response = extender.post(verb, b" " * (MAX_BODY_BYTES + 1))
    assert response.status_code == 413
    assert "Traceback" not in response.text


def test_other_routes_and_methods_are_404_and_405(extender: InMemoryExtender) -> None:
    client = extender.app.test_client()
    assert client.get("/").status_code == 404
    assert client.post("/filter/more").status_code == 404
    assert client.get("/static/x").status_code == 404
    for verb in VERBS:
        response = client.get(f"/{verb}")
        assert (response.status_code, "POST" in response.headers["Allow"]) == (405, True)
    assert client.post("/status").status_code == 405


def test_a_bug_of_ours_is_logged_in_full_and_answered_without_detail(
    extender: InMemoryExtender, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(Decider, "filter", fail)
    monkeypatch.setattr(Decider, "prioritize", fail)
    body = {"Pod": asking(), "NodeNames": ["n1"]}
    response = extender.post("filter", body)
    assert (response.status_code, response.get_json()) == (500, {"Error": "internal error"})
    assert extender.post("prioritize", body).text == "internal error\n"
    assert "secret detail" in caplog.text


def test_explain_answers_for_a_sent_and_for_a_known_pod() -> None:
    waiting = a_pod("waiting", gpus=8)
    extender = InMemoryExtender(a_node("n1"), a_pod("holder", gpus=4, node="n1"), a_node("n2"), waiting)
    client = extender.app.test_client()
    known = client.get("/explain/default/waiting")
    assert known.status_code == 200
    answer = known.get_json()
    assert (answer["kind"], answer["pod"]) == ("PodExplanation", "default/waiting")
    assert {n["name"]: n["code"] for n in answer["nodes"]} == {"n1": "NOT_ENOUGH_FREE_GPUS", "n2": ""}
    sent = extender.post("explain", asking("waiting", gpus=8)).get_json()
    assert [n["code"] for n in sent["nodes"]] == [n["code"] for n in answer["nodes"]]
    assert client.get("/explain/default/nobody").status_code == 404
    assert client.get("/explain/other/waiting").status_code == 404


def test_explain_filter_and_prioritize_agree() -> None:
    extender = InMemoryExtender(a_node("n1"), a_pod("holder", gpus=5, node="n1"), a_node("n2"), a_node("n3", gpus=4))
    nodes = ["n1", "n2", "n3"]
    explained = extender.post("explain", asking(gpus=2, tp=2)).get_json()
    assert [n["name"] for n in explained["nodes"] if n["accepted"]] == extender.filter(asking(gpus=2, tp=2), nodes)[
        "NodeNames"
    ]
    assert {n["name"]: n["score"] for n in explained["nodes"]} == extender.prioritize(asking(gpus=2, tp=2), nodes)


def test_status_tells_what_is_free() -> None:
    extender = InMemoryExtender(a_node("n1"), a_pod("holder", gpus=5, node="n1"))
    answer = extender.app.test_client().get("/status").get_json()
    assert (answer["kind"], answer["totals"]["free"]) == ("ClusterStatus", 3)


def test_the_snapshot_is_what_decisions_are_made_on_and_is_compressed_when_asked() -> None:
    extender = InMemoryExtender(a_node("n1"), a_pod("holder", gpus=5, node="n1"))
    client = extender.app.test_client()
    plain = client.get("/snapshot")
    assert "Content-Encoding" not in plain.headers
    assert msgspec.structs.replace(decode_snapshot(plain.data), demand_mix=()) == extender.source.content
    packed = client.get("/snapshot", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.content_length == len(packed.data)
    assert gzip.decompress(packed.data) == plain.data
    assert "Content-Encoding" not in client.get("/snapshot", headers={"Accept-Encoding": "gzip;q=0"}).headers


def test_snapshot_carries_the_mix_in_force_so_that_its_reader_explains_with_the_same_scores() -> None:
    lopsided = DemandMix(((Shape(8, island=True), 50.0), (Shape(1, island=False), 1.0)))
    nodes = (a_node("n1"), a_pod("holder", gpus=4, node="n1"), a_node("n2"), a_pod("waiting", gpus=2, tp=2))
    extender = InMemoryExtender(*nodes, settings=PolicySettings(mix=lopsided))
    client = extender.app.test_client()
    taken = decode_snapshot(client.get("/snapshot").data)
    pod = next(pod for pod in taken.pods if pod.name == "waiting")
    assert mix_of(taken, PolicySettings()) == lopsided
    read = msgspec.json.decode(msgspec.json.encode(explain_pod(taken, pod)))
    assert read == client.get("/explain/default/waiting").get_json()


def test_readiness_says_what_is_missing_and_liveness_does_not_wait_for_it() -> None:
    """G13."""
    extender = InMemoryExtender(waits_for=("Pod: GET /api/v1/pods: 403",))
    client = extender.app.test_client()
    response = client.get("/readyz")
    assert (response.status_code, "GET /api/v1/pods: 403" in response.text) == (503, True)
    assert client.get("/healthz").status_code == 200
    for path in ("/status", "/snapshot", "/explain/default/a"):
        assert client.get(path).status_code == 503
    assert extender.post("explain", asking()).status_code == 503
    extender.source.waits_for = ()
    assert client.get("/readyz").status_code == 200
    extender.services.stopping = True
    assert (client.get("/readyz").text, client.get("/healthz").status_code) == ("stopping\n", 200)


def test_the_version_is_told(extender: InMemoryExtender) -> None:
    assert extender.app.test_client().get("/version").get_json()["version"]


def test_requests_are_counted_and_timed_by_verb_and_status() -> None:
    extender = InMemoryExtender(a_node("n1"))
    extender.filter(asking(), ["n1"])
    extender.post("filter", b"nonsense")
    extender.post("prioritize", b" " * (MAX_BODY_BYTES + 1))
    text = extender.app.test_client().get("/metrics").text
    assert 'islander_requests_total{code="200",verb="filter"} 1.0' in text
    assert 'islander_requests_total{code="400",verb="filter"} 1.0' in text
    assert 'islander_requests_total{code="413",verb="prioritize"} 1.0' in text
    assert 'islander_request_duration_seconds_count{verb="filter"} 2.0' in text


def test_a_pod_that_no_node_takes_is_logged_with_the_counts_by_code(caplog: pytest.LogCaptureFixture) -> None:
    extender = InMemoryExtender(a_node("n1", gpus=4), a_node("n2"), a_pod("holder", gpus=8, node="n2"))
    with caplog.at_level(logging.INFO, "extender.web"):
        extender.filter(asking("fits", gpus=2), ["n1", "n2"])
        assert not caplog.records
        extender.filter(asking("stuck", gpus=8), ["n1", "n2"])
    fields: Any = caplog.records[0]
    assert fields.message == "filter refused nodes"
    assert (fields.pod, fields.refused) == ("default/stuck", {"NODE_TOO_SMALL": 1, "NOT_ENOUGH_FREE_GPUS": 1})


def test_names_in_an_answer_are_those_of_the_request(extender: InMemoryExtender) -> None:
    """Names are data: whatever a client sends as a node's name comes back as JSON."""
    names = ['quote"', "back\\slash", "new\nline", "\u2028", "ünï", "", "n1"]
    response = extender.post("filter", {"Pod": asking(gpus=0), "NodeNames": names})
    assert json.loads(response.data)["NodeNames"] == names
    assert [e["Host"] for e in extender.post("prioritize", {"Pod": asking(gpus=0), "NodeNames": names}).get_json()] == (
        names
    )
