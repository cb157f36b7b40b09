"""One watcher, step by step, against literal streams of a fake API server (G06, G20)."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from islander.kube.client import KubeClient
from islander.kube.errors import ApiError, ApiGone, ApiStalled, ApiUnreachable, ApiUnreadable
from islander.kube.kinds import PODS, WatchedKind
from islander.kube.reading import Listing
from islander.kube.state import Event, KindState, apply_event, apply_list
from islander.kube.watch import Watcher, WatchSettings
from tests.builders import pod_object
from tests.fake_api import Act, Cut, FakeApi, Hang, bookmark_event, error_event, event, line

PATH = "/api/v1/pods"
SETTINGS = WatchSettings(page_limit=500, silence_s=30, watch_s=60, first_backoff_s=1, longest_backoff_s=8)
IMPATIENT = dataclasses.replace(SETTINGS, silence_s=1)
OPTIONAL = WatchedKind("Pod", PATH)


class RecordingFeed:
    """Applies what it is given and remembers it."""

    def __init__(self) -> None:
        self.state = KindState()
        self.lists: list[Listing] = []
        self.errors: list[ApiError] = []

    def listed(self, listing: Listing) -> None:
        self.lists.append(listing)
        apply_list(self.state, listing.items, listing.resource_version)

    def happened(self, happening: Event) -> None:
        apply_event(self.state, happening)

    def failed(self, error: ApiError) -> None:
        self.errors.append(error)

    @property
    def names(self) -> set[str]:
        return {key.removeprefix("default/") for key in self.state.objects}


class Clock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def feed() -> RecordingFeed:
    return RecordingFeed()


Make = Callable[..., Watcher]


@pytest.fixture
def make(client: KubeClient, feed: RecordingFeed) -> Make:
    def watcher(kind: WatchedKind = PODS, settings: WatchSettings = SETTINGS) -> Watcher:
        return Watcher(kind, client, feed, settings=settings, monotonic=Clock(), jitter=random.Random(1))

    return watcher


def pod(name: str = "a", version: int = 0, **fields: Any) -> dict[str, Any]:
    return pod_object(name, metadata={"resourceVersion": str(version)}, **fields)


def lists(api: FakeApi) -> int:
    return len([r for r in api.seen("Pod", watch=False) if "continue" not in r.params])


def positions(api: FakeApi) -> list[str]:
    """The resource versions the watches started from."""
    return [r.params["resourceVersion"] for r in api.seen("Pod", watch=True)]


def test_a_watch_starts_where_the_list_stood_and_asks_for_bookmarks(
    api: FakeApi, make: Make, feed: RecordingFeed
) -> None:
    api.put(pod("a"))
    api.script_watch("Pod", event("ADDED", pod("b"), 1002))
    assert make().step() == 0
    assert feed.names == {"a", "b"}
    params = api.seen("Pod", watch=True)[0].params
    assert params["resourceVersion"] == "1001"
    assert params["allowWatchBookmarks"] == "true"
    assert 60 <= int(params["timeoutSeconds"]) <= 120


def test_a_watch_that_ended_in_good_order_goes_on_after_its_last_event(api: FakeApi, make: Make) -> None:
    api.script_watch("Pod", event("ADDED", pod("a"), 1005))
    api.script_watch("Pod", bookmark_event(1009))
    api.script_watch("Pod", event("DELETED", pod("a"), 1010))
    watcher = make()
    assert [watcher.step() for _ in range(3)] == [0, 0, 0]
    assert positions(api) == ["1000", "1005", "1009"]
    assert lists(api) == 1


def test_g20_a_watch_that_expires_lists_again_at_once(api: FakeApi, make: Make, feed: RecordingFeed) -> None:
    api.put(pod("a"), pod("b"))
    api.script_watch("Pod", error_event(410, "Expired", "too old resource version"))
    watcher = make()
    assert watcher.step() == 0
    assert isinstance(feed.errors[0], ApiGone)
    api.delete("Pod", "default/b", silent=True)
    api.script_watch("Pod", bookmark_event(1004))
    assert watcher.step() == 0
    assert lists(api) == 2
    assert feed.names == {"a"}


@pytest.mark.parametrize("code", [410, 403, 404])
def test_g20_a_watch_that_loses_its_position_after_some_events_lists_again(
    api: FakeApi, make: Make, feed: RecordingFeed, code: int
) -> None:
    api.script_watch("Pod", event("ADDED", pod("a"), 1005), error_event(code))
    api.script_watch("Pod", bookmark_event(1006))
    watcher = make()
    watcher.step()
    watcher.step()
    assert lists(api) == 2
    assert feed.names == set()


def test_g20_a_watch_that_is_answered_with_status_410_lists_again(
    api: FakeApi, make: Make, feed: RecordingFeed
) -> None:
    watcher = make()
    api.script_watch("Pod", bookmark_event(1001))
    watcher.step()
    api.answer_next("GET", PATH, 410)
    assert watcher.step() == 0
    api.script_watch("Pod", bookmark_event(1001))
    watcher.step()
    assert lists(api) == 2
    assert [type(e) for e in feed.errors] == [ApiGone]


def test_a_watch_that_expires_again_and_again_pauses(api: FakeApi, make: Make) -> None:
    watcher = make()
    pauses = []
    for _ in range(6):
        api.script_watch("Pod", error_event(410, "Expired"))
        pauses.append(watcher.step())
    assert pauses[0] == 0
    assert all(1 <= pause <= 2 for pause in pauses[1:2])
    assert all(4 <= pause <= 8 for pause in pauses[4:])


def test_g20_old_objects_in_random_order_after_a_new_list_change_nothing(
    api: FakeApi, make: Make, feed: RecordingFeed
) -> None:
    api.put(*(pod(f"p{i}", node="n1") for i in range(20)))
    api.script_watch("Pod", error_event(410, "Expired"))
    watcher = make()
    watcher.step()
    expected = dict(feed.state.objects)
    old = [event("MODIFIED", pod(f"p{i}", phase="Pending"), 900 + i) for i in range(20)]
    old += [event("DELETED", pod(f"p{i}"), 800 + i) for i in range(20)]
    old += [event("ADDED", pod(f"ghost{i}", node="n1"), 700 + i) for i in range(20)]
    random.Random(3).shuffle(old)
    api.script_watch("Pod", *old)
    watcher.step()
    assert feed.state.objects == expected


def test_events_behind_an_error_event_are_not_read(api: FakeApi, make: Make, feed: RecordingFeed) -> None:
    api.script_watch("Pod", error_event(410, "Expired"), event("ADDED", pod("ghost"), 2000))
    make().step()
    assert feed.names == set()


def test_a_watch_that_is_cut_goes_on_where_it_was(api: FakeApi, make: Make, feed: RecordingFeed) -> None:
    api.script_watch("Pod", event("ADDED", pod("a"), 1005), Cut())
    api.script_watch("Pod", event("ADDED", pod("b"), 1006))
    watcher = make()
    assert 0.5 <= watcher.step() <= 1
    watcher.step()
    assert positions(api) == ["1000", "1005"]
    assert lists(api) == 1
    assert feed.names == {"a", "b"}
    assert [type(e) for e in feed.errors] == [ApiUnreachable]


def test_an_event_that_is_cut_comes_again_with_the_next_watch(api: FakeApi, make: Make, feed: RecordingFeed) -> None:
    whole = line(event("ADDED", pod("b"), 1006))
    api.script_watch("Pod", event("ADDED", pod("a"), 1005), whole[:40], Cut())
    api.script_watch("Pod", whole[:100], whole[100:])
    watcher = make()
    watcher.step()
    assert feed.names == {"a"}
    watcher.step()
    assert feed.names == {"a", "b"}


def test_a_watch_that_stalls_after_some_events_goes_on(api: FakeApi, make: Make, feed: RecordingFeed) -> None:
    api.script_watch("Pod", event("ADDED", pod("a"), 1005), Hang())
    api.script_watch("Pod", bookmark_event(1006))
    watcher = make(settings=IMPATIENT)
    watcher.step()
    watcher.step()
    assert [type(e) for e in feed.errors] == [ApiStalled]
    assert positions(api) == ["1000", "1005"]
    assert lists(api) == 1


def test_a_watch_that_stalls_without_a_word_lists_again(api: FakeApi, make: Make, feed: RecordingFeed) -> None:
    api.script_watch("Pod", Hang())
    watcher = make(settings=IMPATIENT)
    watcher.step()
    api.put(pod("a"))
    api.script_watch("Pod", bookmark_event(1006))
    watcher.step()
    assert lists(api) == 2
    assert feed.names == {"a"}


def test_a_busy_server_is_asked_again_after_the_time_it_names(api: FakeApi, make: Make) -> None:
    watcher = make()
    api.script_watch("Pod", bookmark_event(1001))
    watcher.step()
    api.answer_next("GET", PATH, 429, headers={"Retry-After": "30"})
    assert watcher.step() == 30
    api.script_watch("Pod", bookmark_event(1002))
    watcher.step()
    assert lists(api) == 1


@pytest.mark.parametrize("seconds", ["86400", "9" * 12, "9" * 400])
def test_a_pause_that_a_server_names_has_a_limit(api: FakeApi, make: Make, seconds: str) -> None:
    api.answer_next("GET", PATH, 429, headers={"Retry-After": seconds})
    assert make().step() == WatchSettings().longest_named_pause_s


def test_an_event_the_server_cannot_send_does_not_hold_the_watch_for_ever(
    api: FakeApi, make: Make, feed: RecordingFeed
) -> None:
    watcher = make()
    api.script_watch("Pod", event("ADDED", pod("a"), 1005), error_event(500, "InternalError"))
    watcher.step()
    api.script_watch("Pod", error_event(500, "InternalError"))
    watcher.step()
    api.put(pod("b"))
    api.script_watch("Pod", bookmark_event(1007))
    watcher.step()
    assert positions(api) == ["1000", "1005", "1001"]
    assert lists(api) == 2
    assert feed.names == {"b"}


@pytest.mark.parametrize("garbage", [b"<html>\n", b'{"type":"ADDED"\n', b"\xff\xfe\n"])
def test_a_line_that_is_no_event_lists_again(api: FakeApi, make: Make, feed: RecordingFeed, garbage: bytes) -> None:
    watcher = make()
    api.script_watch("Pod", event("ADDED", pod("a"), 1005), garbage)
    assert watcher.step() > 0
    assert [type(e) for e in feed.errors] == [ApiUnreadable]
    api.script_watch("Pod", bookmark_event(1007))
    watcher.step()
    assert lists(api) == 2


def test_an_unparsable_object_does_not_end_the_watch(api: FakeApi, make: Make, feed: RecordingFeed) -> None:
    odd = pod("odd", spec={"containers": "none"})
    acts: list[Act] = [event("ADDED", odd, 1003), event("ADDED", {"metadata": 1}), event("ADDED", pod("a"), 1004)]
    api.script_watch("Pod", *acts)
    make().step()
    assert feed.names == {"a"}
    assert feed.state.skipped == 2
    assert list(feed.state.unparsable) == ["default/odd"]


def test_a_server_that_ends_every_watch_at_once_is_not_asked_without_a_pause(api: FakeApi, make: Make) -> None:
    watcher = make()
    pauses = []
    for _ in range(3):
        api.script_watch("Pod")
        pauses.append(watcher.step())
    assert 0.5 <= pauses[0] <= 1 <= pauses[1] <= 2 <= pauses[2] <= 4
    assert lists(api) == 1


def test_pauses_grow_up_to_a_limit_and_shrink_after_news(api: FakeApi, make: Make) -> None:
    watcher = make()
    api.answer_next("GET", PATH, 500, times=5)
    pauses = [watcher.step() for _ in range(5)]
    for pause, full in zip(pauses, (1, 2, 4, 8, 8), strict=True):
        assert full / 2 <= pause <= full
    api.script_watch("Pod", bookmark_event(1001), Cut())
    assert 0.5 <= watcher.step() <= 1


def test_an_optional_kind_that_is_denied_is_asked_for_now_and_then(api: FakeApi, make: Make) -> None:
    api.answer_next("GET", PATH, 403)
    assert make(OPTIONAL).step() == SETTINGS.denied_retry_s


def test_a_required_kind_that_is_denied_is_asked_for_soon(api: FakeApi, make: Make) -> None:
    api.answer_next("GET", PATH, 403)
    assert make().step() <= SETTINGS.first_backoff_s


def test_a_watcher_stops_while_it_waits_for_events(api: FakeApi, make: Make, feed: RecordingFeed) -> None:
    watcher = make(settings=WatchSettings(silence_s=60))
    thread = threading.Thread(target=watcher.run)
    thread.start()
    api.wait_for_watch("Pod")
    watcher.stop()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert feed.errors == []


def test_a_watcher_stops_while_it_pauses(api: FakeApi, make: Make) -> None:
    watcher = make(settings=WatchSettings(first_backoff_s=1000, longest_backoff_s=1000))
    api.answer_next("GET", PATH, 500, times=None)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    api.wait_for(lambda: len(api.requests) == 1)
    watcher.stop()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert len(api.requests) == 1


def test_a_watcher_survives_a_mistake_of_its_own(
    api: FakeApi, make: Make, feed: RecordingFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(_listing: Listing) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError

    monkeypatch.setattr(feed, "listed", mistaken)
    api.put(pod("a"))
    watcher = make(settings=WatchSettings(first_backoff_s=0.001, silence_s=60))
    thread = threading.Thread(target=watcher.run)
    thread.start()
    api.wait_for_watch("Pod")
    watcher.stop()
    thread.join(timeout=10)
    assert feed.names == {"a"}
    assert [type(e) for e in feed.errors] == [ApiUnreadable]
