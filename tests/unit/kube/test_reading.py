"""Lists in pages and event lines, over a real connection (G20)."""

from __future__ import annotations

import gc
import json
import tracemalloc

import pytest

from islander.kube.client import KubeClient
from islander.kube.errors import ApiGone, ApiUnreadable
from islander.kube.kinds import NODES, PODS
from islander.kube.reading import read_event, read_list
from islander.kube.state import EventType, KindState
from tests.builders import node_object, pod_object
from tests.fake_api import FakeApi, bookmark_event, error_event, event

PATH = "/api/v1/pods"


def put_pods(api: FakeApi, count: int) -> None:
    api.put(*(pod_object(f"p{i}") for i in range(count)))


def tokens(api: FakeApi) -> list[bool]:
    """For each list request, whether it went on with a continue token."""
    return ["continue" in r.params for r in api.seen("Pod", watch=False)]


def test_all_pages_of_a_list_are_read(api: FakeApi, client: KubeClient) -> None:
    put_pods(api, 12)
    listing = read_list(client, PODS, KindState(), limit=5)
    assert listing is not None
    assert sorted(seen.key for seen in listing.items) == sorted(f"default/p{i}" for i in range(12))
    assert listing.resource_version == str(api.version)
    assert [r.params["limit"] for r in api.seen("Pod", watch=False)] == ["5", "5", "5"]


def test_a_list_that_fills_its_last_page_ends_there(api: FakeApi, client: KubeClient) -> None:
    put_pods(api, 10)
    listing = read_list(client, PODS, KindState(), limit=5)
    assert listing is not None
    assert len(listing.items) == 10
    assert len(api.requests) == 2


def test_an_empty_list_may_be_null(api: FakeApi, client: KubeClient) -> None:
    api.answer_next("GET", PATH, 200, {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": None})
    listing = read_list(client, PODS, KindState())
    assert listing is not None
    assert (listing.items, listing.resource_version) == ([], "7")


def test_g20_a_list_whose_continue_token_ran_out_begins_again(api: FakeApi, client: KubeClient) -> None:
    put_pods(api, 12)
    api.expire_token(2)
    listing = read_list(client, PODS, KindState(), limit=5)
    assert listing is not None
    assert len({seen.key for seen in listing.items}) == len(listing.items) == 12
    assert tokens(api) == [False, True, True, False, True, True]


def test_a_list_that_never_gets_to_its_end_in_pages_is_asked_in_one_answer(api: FakeApi, client: KubeClient) -> None:
    put_pods(api, 12)
    api.expire_token(2, times=2)
    listing = read_list(client, PODS, KindState(), limit=5)
    assert listing is not None
    assert len(listing.items) == 12
    last = api.requests[-1].params
    assert last == {"resourceVersion": str(api.version), "resourceVersionMatch": "NotOlderThan"}


def test_a_list_stops_between_two_pages(api: FakeApi, client: KubeClient) -> None:
    put_pods(api, 12)
    assert read_list(client, PODS, KindState(), limit=5, stopped=lambda: len(api.requests) == 2) is None
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    "body", [b"", b"{", b"<html>login</html>", b"[]", b"\xff", b"{}", b'{"kind":"Status"}', b"null"]
)
def test_an_answer_that_is_no_list_is_not_an_empty_cluster(api: FakeApi, client: KubeClient, body: bytes) -> None:
    api.answer_next("GET", PATH, 200, body)
    with pytest.raises(ApiUnreadable):
        read_list(client, PODS, KindState())


def test_what_is_not_used_of_a_node_is_not_kept_in_memory(api: FakeApi, client: KubeClient) -> None:
    images = [{"names": [f"image-{i}" + "x" * 1000], "sizeBytes": i} for i in range(1000)]
    api.put(*(node_object(f"n{i}") | {"status": {"images": images}} for i in range(10)))
    read_list(client, NODES, KindState(), limit=2)
    gc.collect()
    tracemalloc.start()
    try:
        listing = read_list(client, NODES, KindState(), limit=2)
        gc.collect()
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert listing is not None
    assert len(listing.items) == 10
    assert kept < 1_000_000 < most


def test_an_event_is_read_from_its_line() -> None:
    found = read_event(PODS, json.dumps(event("MODIFIED", pod_object("p1"), 12)).encode(), KindState())
    assert found is not None
    assert (found.type, found.seen.key, found.seen.version) == (EventType.MODIFIED, "default/p1", 12)
    mark = read_event(PODS, json.dumps(bookmark_event(13)).encode(), KindState())
    assert mark is not None
    assert (mark.type, mark.seen.version) == (EventType.BOOKMARK, 13)


def test_an_event_of_an_unknown_type_is_passed_over() -> None:
    assert read_event(PODS, json.dumps(event("RENAMED", pod_object("p1"))).encode(), KindState()) is None


def test_g20_an_error_event_with_410_says_that_the_position_is_gone() -> None:
    with pytest.raises(ApiGone):
        read_event(PODS, json.dumps(error_event(410, "Expired")).encode(), KindState())


@pytest.mark.parametrize("line", [b"{", b"1", b"{}", b'{"type":"ADDED"}', b"\xff", b"<html>"])
def test_a_line_that_is_no_event_is_an_error(line: bytes) -> None:
    with pytest.raises(ApiUnreadable):
        read_event(PODS, line, KindState())
