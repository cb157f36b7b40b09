"""What is known of one kind of object, and how lists and events change it. Pure: tests feed literal events.

A list is the truth: it replaces everything. After it, an event counts only when it is newer than what is known of its
object, because a server may repeat and reorder events when a watch starts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from islander.kube.parse import ClusterObject

# Since Kubernetes 1.35 resource versions are comparable integers; those of other servers are only equal or different.
Version = int | str

# Deletions that are remembered until a bookmark or a list makes them superfluous; about 100 bytes each.
_TOMBSTONES = 10_000


class EventType(StrEnum):
    """What an event says of its object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as a list or an event showed it.

    Attributes
    ----------
    key
        `namespace/name`, or the name of an object without namespace; empty when not even that can be read.
    value
        None when the object cannot be used; `problem` then says why.
    last_good
        With `value` None: what is safe to go on believing, None when nothing is.
    """

    key: str
    version: Version
    value: ClusterObject | None = None
    problem: str = ""
    last_good: ClusterObject | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a watch; of a bookmark only the version counts."""

    type: EventType
    seen: Seen


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one object; `old` None is new, `new` None is gone."""

    key: str
    old: ClusterObject | None
    new: ClusterObject | None


@dataclass(frozen=True, slots=True)
class Unparsable:
    """An object that cannot be used, in this version, and whether an earlier version still stands for it."""

    version: Version
    problem: str
    kept: bool


@dataclass(slots=True)
class KindState:
    """The objects of one kind.

    Attributes
    ----------
    objects
        By key, what is believed.
    versions
        By key, the newest version seen, of objects that cannot be parsed too.
    unparsable
        By key, what cannot be parsed at present; `objects` then holds what is safe to believe instead, or nothing.
    skipped
        How many versions of objects were skipped so far.
    position
        Where the next watch starts.
    floor
        Everything up to this version has been seen; an addition or change that is not above it is old news.
    generation
        Grows with every change of `objects`.
    """

    objects: dict[str, ClusterObject] = field(default_factory=dict)
    versions: dict[str, Version] = field(default_factory=dict)
    unparsable: dict[str, Unparsable] = field(default_factory=dict)
    tombstones: dict[str, Version] = field(default_factory=dict)
    skipped: int = 0
    position: str = ""
    floor: Version = ""
    generation: int = 0


def version_of(resource_version: str) -> Version:
    """Return the number when it is one, else the opaque text."""
    return int(resource_version) if resource_version.isascii() and resource_version.isdecimal() else resource_version


def apply_list(state: KindState, items: Iterable[Seen], resource_version: str) -> list[Change]:
    """Make `items` the whole state as of `resource_version`; additions and changes come before removals.

    In that order an observer who adds up sees too little room for a moment, never too much.
    """
    before = state.objects
    was_unparsable = state.unparsable
    state.objects, state.versions, state.unparsable, state.tombstones = {}, {}, {}, {}
    for seen in items:
        if seen.key in state.versions and _not_newer(seen.version, state.versions[seen.key]):
            continue
        _store(state, seen, was_unparsable.get(seen.key))
    state.floor = version_of(resource_version)
    state.position = resource_version
    changes = [Change(key, before.get(key), new) for key, new in state.objects.items() if _differ(before.get(key), new)]
    changes += [Change(key, old, None) for key, old in before.items() if key not in state.objects]
    if changes:
        state.generation += 1
    return changes


def apply_event(state: KindState, event: Event) -> Change | None:
    """Apply one event; None when nothing changed: a bookmark, a repetition, old news, an unreadable object."""
    seen = event.seen
    if event.type is EventType.BOOKMARK:
        _pass_bookmark(state, seen.version)
        return None
    _advance(state, seen.version)
    if not seen.key:
        state.skipped += 1
        return None
    old = state.objects.get(seen.key)
    if event.type is EventType.DELETED:
        if seen.key in state.versions and _older(seen.version, state.versions[seen.key]):
            return None
        _bury(state, seen)
        new = None
    else:
        if _is_old_news(state, seen):
            return None
        was_unparsable = state.unparsable.pop(seen.key, None)
        state.tombstones.pop(seen.key, None)
        _store(state, seen, was_unparsable)
        new = state.objects.get(seen.key)
    if not _differ(old, new):
        return None
    state.generation += 1
    return Change(seen.key, old, new)


def empty(state: KindState) -> list[Change]:
    """Forget everything, as when the kind is no longer served."""
    return apply_list(state, (), "")


def problems(unparsable: Mapping[str, Unparsable], kind: str) -> list[str]:
    """Return one sentence for each skipped object, sorted."""
    return sorted(
        f"{kind} {key} is {'read from an earlier version' if u.kept else 'left out'}: {u.problem}"
        for key, u in unparsable.items()
    )


def _store(state: KindState, seen: Seen, was_unparsable: Unparsable | None) -> None:
    value = seen.value if seen.value is not None else seen.last_good
    if not seen.key:
        state.skipped += 1
        return
    if seen.value is None:
        if was_unparsable is None or was_unparsable.version != seen.version:
            state.skipped += 1
        state.unparsable[seen.key] = Unparsable(seen.version, seen.problem, kept=value is not None)
    else:
        state.unparsable.pop(seen.key, None)
    state.versions[seen.key] = seen.version
    if value is not None:
        state.objects[seen.key] = value
    else:
        # An earlier entry of the same list must not stand for this one.
        state.objects.pop(seen.key, None)


def _bury(state: KindState, seen: Seen) -> None:
    state.objects.pop(seen.key, None)
    state.versions.pop(seen.key, None)
    state.unparsable.pop(seen.key, None)
    buried = state.tombstones.pop(seen.key, seen.version)
    state.tombstones[seen.key] = buried if _older(seen.version, buried) else seen.version
    if len(state.tombstones) > _TOMBSTONES:
        del state.tombstones[next(iter(state.tombstones))]


def _is_old_news(state: KindState, seen: Seen) -> bool:
    known = (state.floor, state.versions.get(seen.key), state.tombstones.get(seen.key))
    return any(version is not None and _not_newer(seen.version, version) for version in known)


def _advance(state: KindState, version: Version) -> None:
    here = version_of(state.position)
    if version != "" and not _older(version, here):
        state.position = str(version)


def _pass_bookmark(state: KindState, version: Version) -> None:
    _advance(state, version)
    if _older(version, state.floor):
        return
    state.floor = version
    state.tombstones = {k: v for k, v in state.tombstones.items() if not _not_newer(v, version)}


def _older(one: Version, other: Version) -> bool:
    return isinstance(one, int) and isinstance(other, int) and one < other


def _not_newer(one: Version, other: Version) -> bool:
    return (one == other and one != "") or _older(one, other)


def _differ(old: ClusterObject | None, new: ClusterObject | None) -> bool:
    return old is not new and old != new
