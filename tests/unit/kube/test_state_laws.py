"""Laws of a state: however news is repeated, delayed and reordered, it ends as the server's last version (G20)."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from islander.cluster.pod import Pod
from islander.kube.state import Change, Event, EventType, KindState, Seen, apply_event, apply_list
from tests.builders import a_pod

KEYS = ("default/a", "default/b", "default/c")
Timeline = list[tuple[str, Pod | None]]


@dataclass(frozen=True)
class Server:
    """What happened: entry i of the timeline is resource version i + 1; None is a deletion."""

    timeline: Timeline

    def event(self, version: int) -> Event:
        key, pod = self.timeline[version - 1]
        kind = EventType.DELETED if pod is None else EventType.MODIFIED
        # The last state of a deleted pod comes with the version of its deletion.
        return Event(kind, Seen(key, version, pod or a_pod(key.partition("/")[2])))

    def objects(self, version: int) -> dict[str, Seen]:
        found: dict[str, Seen] = {}
        for number, (key, pod) in enumerate(self.timeline[:version], start=1):
            if pod is None:
                found.pop(key, None)
            else:
                found[key] = Seen(key, number, pod)
        return found


@st.composite
def servers(draw: st.DrawFn) -> Server:
    """Timelines in which only what exists is deleted, and every version of a pod differs."""
    timeline: Timeline = []
    alive: set[str] = set()
    for number in range(draw(st.integers(0, 12))):
        key = draw(st.sampled_from(KEYS))
        if key in alive and draw(st.booleans()):
            timeline.append((key, None))
            alive.discard(key)
        else:
            timeline.append((key, a_pod(key.partition("/")[2], labels={"version": str(number)})))
            alive.add(key)
    return Server(timeline)


def believed(state: KindState) -> dict[str, object]:
    return dict(state.objects)


def expected(server: Server, version: int) -> dict[str, object]:
    return {key: seen.value for key, seen in server.objects(version).items()}


@settings(deadline=None)
@given(servers(), st.data())
def test_any_interleaving_of_lists_and_events_ends_in_the_last_version(server: Server, data: st.DataObject) -> None:
    now = len(server.timeline)
    state, heard, listed = KindState(), list[Change](), 0
    for moment in sorted(data.draw(st.lists(st.integers(0, now), min_size=1, max_size=3))):
        # Whatever has happened by then may have come before the list, in any order and number.
        for version in data.draw(st.lists(st.integers(1, moment), max_size=6)) if moment and listed else ():
            change = apply_event(state, server.event(version))
            heard += [change] if change else []
        heard += apply_list(state, server.objects(moment).values(), str(moment))
        assert believed(state) == expected(server, moment)
        listed = moment
    rest = list(range(listed + 1, now + 1))
    repeated = data.draw(st.lists(st.integers(1, now), max_size=8)) if now else []
    for version in data.draw(st.permutations(rest + repeated)):
        change = apply_event(state, server.event(version))
        heard += [change] if change else []
    assert believed(state) == expected(server, now)
    assert replay(heard) == believed(state)


@settings(deadline=None)
@given(servers(), st.data())
def test_bookmarks_never_hide_news(server: Server, data: st.DataObject) -> None:
    now = len(server.timeline)
    state = KindState()
    apply_list(state, (), "0")
    for version in range(1, now + 1):
        for old in data.draw(st.lists(st.integers(1, version), max_size=2)):
            apply_event(state, server.event(old))
        apply_event(state, server.event(version))
        if data.draw(st.booleans()):
            apply_event(state, Event(EventType.BOOKMARK, Seen("", version)))
        assert believed(state) == expected(server, version)
    assert state.position == str(now)


@settings(deadline=None)
@given(servers(), st.data())
def test_opaque_versions_that_come_in_order_end_in_the_last_version(server: Server, data: st.DataObject) -> None:
    def opaque(event: Event) -> Event:
        return Event(event.type, Seen(event.seen.key, f"v{event.seen.version}", event.seen.value))

    state = KindState()
    apply_list(state, (), "v0")
    for version in range(1, len(server.timeline) + 1):
        for _ in range(data.draw(st.integers(1, 3))):
            apply_event(state, opaque(server.event(version)))
    assert believed(state) == expected(server, len(server.timeline))


def replay(changes: list[Change]) -> dict[str, object]:
    """Return what a listener believes; each change must start where the one before it ended."""
    found: dict[str, object] = {}
    for change in changes:
        assert found.get(change.key) == change.old
        if change.new is None:
            del found[change.key]
        else:
            found[change.key] = change.new
    return found
