"""Lists and events on a state, literally (G06, G16, G20)."""

from __future__ import annotations

import pytest

from islander.kube.parse import ClusterObject
from islander.kube.state import (
    Change,
    Event,
    EventType,
    KindState,
    Seen,
    apply_event,
    apply_list,
    empty,
    problems,
    version_of,
)
from tests.builders import a_node, a_pod

A1 = a_pod("a", gpus=8, node="n1")
A2 = a_pod("a", gpus=8, node="n1", deleted="2026-01-01T00:10:00Z")
B1 = a_pod("b", gpus=2)
KEY_A, KEY_B = "default/a", "default/b"


def seen(obj: ClusterObject, version: int | str) -> Seen:
    key = obj.key if hasattr(obj, "key") else obj.name
    return Seen(key, version, obj)


def added(obj: ClusterObject, version: int | str) -> Event:
    return Event(EventType.ADDED, seen(obj, version))


def modified(obj: ClusterObject, version: int | str) -> Event:
    return Event(EventType.MODIFIED, seen(obj, version))


def deleted(obj: ClusterObject, version: int | str) -> Event:
    return Event(EventType.DELETED, seen(obj, version))


def bookmark(version: int | str) -> Event:
    return Event(EventType.BOOKMARK, Seen("", version))


def listed(*items: Seen, version: str = "100") -> KindState:
    state = KindState()
    apply_list(state, items, version)
    return state


def test_a_list_replaces_everything_and_names_additions_before_removals() -> None:
    state = listed(seen(A1, 50))
    assert apply_list(state, [seen(B1, 120)], "130") == [Change(KEY_B, None, B1), Change(KEY_A, A1, None)]
    assert state.objects == {KEY_B: B1}
    assert state.position == "130"


def test_a_list_that_brings_nothing_new_changes_nothing() -> None:
    state = listed(seen(A1, 50))
    generation = state.generation
    assert apply_list(state, [seen(A1, 50)], "130") == []
    assert state.generation == generation


def test_a_key_that_stands_twice_in_a_list_counts_in_its_newest_version() -> None:
    assert listed(seen(A2, 60), seen(A1, 50)).objects == {KEY_A: A2}
    assert listed(seen(A1, 50), seen(A2, 60)).objects == {KEY_A: A2}


def test_g06_a_deleted_pod_is_gone_by_its_tombstone() -> None:
    state = listed(version="100")
    assert apply_event(state, added(A1, 101)) == Change(KEY_A, None, A1)
    assert apply_event(state, modified(A2, 102)) == Change(KEY_A, A1, A2)
    assert apply_event(state, deleted(A2, 103)) == Change(KEY_A, A2, None)
    assert state.objects == {}


def test_g06_a_deletion_that_was_missed_is_seen_by_the_next_list() -> None:
    state = listed(seen(A1, 50))
    assert apply_list(state, [], "130") == [Change(KEY_A, A1, None)]


def test_g20_an_older_event_does_not_overwrite_a_newer_state() -> None:
    state = listed(seen(A2, 60), version="60")
    assert apply_event(state, modified(A1, 50)) is None
    assert apply_event(state, deleted(A1, 50)) is None
    assert state.objects == {KEY_A: A2}


def test_g20_versions_are_compared_as_numbers() -> None:
    state = listed(seen(A1, 99), version="99")
    assert apply_event(state, modified(A2, 100)) == Change(KEY_A, A1, A2)
    assert apply_event(state, modified(A1, 99)) is None


def test_an_event_that_comes_twice_counts_once() -> None:
    state = listed(version="100")
    assert apply_event(state, added(A1, 101)) is not None
    assert apply_event(state, added(A1, 101)) is None
    assert apply_event(state, deleted(A1, 102)) is not None
    assert apply_event(state, deleted(A1, 102)) is None


def test_an_old_event_does_not_bring_a_deleted_pod_back() -> None:
    state = listed(version="100")
    apply_event(state, added(A1, 101))
    apply_event(state, deleted(A1, 103))
    assert apply_event(state, modified(A2, 102)) is None
    assert state.objects == {}


def test_a_deletion_that_arrives_before_its_additions_still_deletes() -> None:
    state = listed(version="100")
    assert apply_event(state, deleted(A1, 103)) is None
    assert apply_event(state, added(A1, 101)) is None
    assert apply_event(state, deleted(A1, 102)) is None
    assert apply_event(state, modified(A1, 103)) is None
    assert state.objects == {}


def test_a_name_that_is_used_again_is_a_new_object() -> None:
    state = listed(seen(A1, 50))
    apply_event(state, deleted(A1, 101))
    assert apply_event(state, added(B1, 102)) == Change(KEY_B, None, B1)
    assert apply_event(state, added(A2, 103)) == Change(KEY_A, None, A2)


def test_events_of_different_objects_may_come_out_of_order() -> None:
    state = listed(version="100")
    apply_event(state, added(A1, 105))
    assert apply_event(state, added(B1, 103)) == Change(KEY_B, None, B1)
    assert state.position == "105"


def test_what_a_list_has_settled_is_not_replayed_by_the_watch_after_it() -> None:
    state = listed(version="100")
    assert apply_event(state, added(A1, 90)) is None
    assert state.objects == {}


def test_a_deletion_counts_even_when_its_version_is_the_objects_last_one() -> None:
    state = listed(seen(A1, 50), version="100")
    assert apply_event(state, deleted(A1, 50)) == Change(KEY_A, A1, None)


def test_a_bookmark_moves_the_position_and_drops_the_tombstones_behind_it() -> None:
    state = listed(version="100")
    apply_event(state, deleted(A1, 103))
    apply_event(state, deleted(B1, 110))
    assert apply_event(state, bookmark(105)) is None
    assert state.tombstones == {KEY_B: 110}
    assert state.position == "110"
    assert apply_event(state, added(A1, 102)) is None


def test_a_bookmark_from_the_past_changes_nothing() -> None:
    state = listed(version="100")
    apply_event(state, bookmark(90))
    assert (state.position, state.floor) == ("100", 100)


def test_tombstones_do_not_grow_without_end_when_bookmarks_never_come() -> None:
    state = listed(version="1")
    for version in range(2, 20_002):
        apply_event(state, deleted(a_node(f"n{version}"), version))
    assert len(state.tombstones) == 10_000
    assert "n20001" in state.tombstones


def test_opaque_versions_are_taken_in_the_order_of_arrival() -> None:
    state = listed(seen(A1, "x9"), version="x9")
    assert apply_event(state, modified(A2, "x10")) == Change(KEY_A, A1, A2)
    assert apply_event(state, modified(A2, "x10")) is None
    assert apply_event(state, deleted(A2, "x11")) == Change(KEY_A, A2, None)
    assert state.position == "x11"


@pytest.mark.parametrize("text", ["", "x1", "١٢", "-1", "1.5"])
def test_only_plain_decimal_numbers_are_compared(text: str) -> None:
    assert version_of(text) == text


def test_an_object_without_a_version_is_never_old_news() -> None:
    state = listed(seen(A1, ""), version="100")
    assert apply_event(state, modified(A2, "")) == Change(KEY_A, A1, A2)


def test_g16_a_deletion_of_something_unknown_is_no_error() -> None:
    state = listed(version="100")
    assert apply_event(state, deleted(a_node("gone"), 101)) is None


def unparsable(version: int, last_good: ClusterObject | None = None, problem: str = "spec: is odd") -> Seen:
    return Seen(KEY_A, version, None, problem, last_good)


def test_an_object_that_cannot_be_parsed_is_left_out_and_counted_once_per_version() -> None:
    state = listed(unparsable(50))
    assert state.objects == {}
    assert state.skipped == 1
    apply_list(state, [unparsable(50)], "110")
    assert state.skipped == 1
    assert apply_event(state, Event(EventType.MODIFIED, unparsable(120))) is None
    assert state.skipped == 2
    assert problems(state.unparsable, "Pod") == ["Pod default/a is left out: spec: is odd"]


def test_an_object_that_turns_unparsable_leaves_what_is_safe_to_believe() -> None:
    state = listed(seen(A1, 50))
    assert apply_event(state, Event(EventType.MODIFIED, unparsable(101, last_good=A1))) is None
    assert state.objects == {KEY_A: A1}
    assert problems(state.unparsable, "Pod") == ["Pod default/a is read from an earlier version: spec: is odd"]
    assert apply_event(state, modified(A2, 102)) == Change(KEY_A, A1, A2)
    assert state.unparsable == {}


def test_an_object_that_turns_unparsable_and_leaves_nothing_is_gone() -> None:
    state = listed(seen(A1, 50))
    assert apply_event(state, Event(EventType.MODIFIED, unparsable(101))) == Change(KEY_A, A1, None)
    assert apply_event(state, deleted(A1, 102)) is None
    assert state.unparsable == {}


def test_an_object_without_a_readable_name_is_only_counted() -> None:
    state = listed(Seen("", "", None, "metadata cannot be read"))
    assert state.objects == {}
    assert state.skipped == 1
    assert apply_event(state, Event(EventType.DELETED, Seen("", 101, None, "no name"))) is None
    assert state.skipped == 2
    assert state.tombstones == {}


def test_forgetting_everything_names_what_is_gone() -> None:
    state = listed(seen(A1, 50))
    assert empty(state) == [Change(KEY_A, A1, None)]
    assert apply_event(state, added(A1, 50)) == Change(KEY_A, None, A1)
