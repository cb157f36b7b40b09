"""The cluster as it is now: several kinds, each followed by a thread of its own, and snapshots of all of them."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from islander.cluster.snapshot import ClusterSnapshot
from islander.kube.announce import Announcer, OnChange
from islander.kube.errors import ApiError
from islander.kube.gather import snapshot_of, sorted_objects
from islander.kube.kinds import WATCHED_KINDS, WatchedKind
from islander.kube.parse import ClusterObject
from islander.kube.reading import Listing
from islander.kube.state import Event, KindState, apply_event, apply_list, empty, problems
from islander.kube.transport import Transport
from islander.kube.watch import Watcher, WatchSettings, is_denied

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KindStatus:
    """How it stands with one kind.

    Attributes
    ----------
    synced
        The first full list has arrived and the listeners were told.
    denied
        The server does not let us see the kind, or does not serve it.
    problem
        The last failure since something arrived, empty when there is none.
    objects, unparsable
        How many are believed, and how many cannot be parsed at present.
    skipped_total
        Versions of objects that could not be parsed so far.
    restarts_total
        Lists and watches that failed so far; a watch that the server ends in good order is none, and an optional kind
        that stays denied counts once.
    last_event_monotonic
        When something arrived last: a list, an event or a bookmark; None before the first list.
    """

    kind: str
    required: bool
    synced: bool
    denied: bool
    problem: str
    objects: int
    unparsable: int
    skipped_total: int
    restarts_total: int
    last_event_monotonic: float | None


class ClusterStore:
    """Live state of the kinds that are watched; may be used by several threads.

    Parameters
    ----------
    monotonic
        Clock for ages, seconds.
    jitter
        Randomness of the pauses between attempts.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        kinds: Sequence[WatchedKind] = WATCHED_KINDS,
        settings: WatchSettings | None = None,
        monotonic: Callable[[], float],
        jitter: random.Random,
    ) -> None:
        self._monotonic = monotonic
        self._changed = threading.Condition(threading.Lock())
        self._announcer = Announcer()
        self._feeds = {kind.kind: _KindFeed(kind, self._changed, self._announcer, monotonic) for kind in kinds}
        self._watchers = {
            name: Watcher(
                feed.kind,
                transport,
                feed,
                settings=settings or WatchSettings(),
                monotonic=monotonic,
                jitter=jitter,
            )
            for name, feed in self._feeds.items()
        }
        self._threads: list[threading.Thread] = []

    def add_listener(self, on_change: OnChange) -> None:
        """Call `on_change` for every change from now on; added before `start`, it hears of every object.

        Calls come in the order of the changes, one at a time, from the watchers' threads and under no lock of the
        store, which may be asked from inside. What a listener raises is logged and stops nobody else.
        """
        self._announcer.add(on_change)

    def start(self) -> None:
        """Begin to list and watch, one daemon thread for each kind."""
        if self._threads:
            raise RuntimeError("the store has been started before")
        for name, watcher in self._watchers.items():
            thread = threading.Thread(target=watcher.run, name=f"watch-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, *, timeout_s: float = 5.0) -> bool:
        """End all watches; return whether every thread has ended within `timeout_s` seconds."""
        for watcher in self._watchers.values():
            watcher.stop()
        deadline = self._monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def missing(self) -> tuple[str, ...]:
        """Return what readiness waits for, each as `kind` or `kind: why`; empty when ready.

        A kind is there once it was listed; one that is not required also when the server denies it.
        """
        with self._changed:
            return tuple(
                f"{name}: {feed.problem}" if feed.problem else name
                for name, feed in self._feeds.items()
                if not feed.settled
            )

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until nothing is missing; return False when that takes longer than `timeout_s` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: all(f.settled for f in self._feeds.values()), timeout_s)

    def status(self) -> tuple[KindStatus, ...]:
        """Return how it stands with each kind, in the order in which they were given."""
        with self._changed:
            return tuple(feed.status() for feed in self._feeds.values())

    def last_event_monotonic(self) -> float | None:
        """Return how far back the news of the required kinds reaches: the oldest of their last events.

        None before all of them were listed.
        """
        with self._changed:
            times = [f.last_event for f in self._feeds.values() if f.kind.required]
        heard = [t for t in times if t is not None]
        return min(heard) if heard and len(heard) == len(times) else None

    def get(self, kind: str, key: str) -> ClusterObject | None:
        """Return an object by `namespace/name`, or name when it has no namespace; None when it is not known."""
        with self._changed:
            return self._feeds[kind].state.objects.get(key)

    def snapshot(self, taken_at: str) -> ClusterSnapshot:
        """Return everything that is known, each kind in itself consistent; `missing` tells whether that is everything.

        Parameters
        ----------
        taken_at
            RFC 3339 time.
        """
        objects = {name: feed.sorted_objects() for name, feed in self._feeds.items()}
        with self._changed:
            kinds = [name for name, feed in self._feeds.items() if feed.synced]
            warnings = [w for name, feed in self._feeds.items() for w in problems(feed.state.unparsable, name)]
        return snapshot_of(objects, kinds=kinds, warnings=warnings, taken_at=taken_at)


class _KindFeed:
    """One kind's state and how it stands; changed by its watcher's thread, under the store's lock."""

    def __init__(
        self,
        kind: WatchedKind,
        changed: threading.Condition,
        announcer: Announcer,
        monotonic: Callable[[], float],
    ) -> None:
        self.kind = kind
        self.state = KindState()
        self.synced = False
        self.denied = False
        self.problem = ""
        self.restarts = 0
        self.last_event: float | None = None
        self._changed = changed
        self._announcer = announcer
        self._monotonic = monotonic
        self._sorted: tuple[int, tuple[ClusterObject, ...]] = (0, ())

    @property
    def settled(self) -> bool:
        return self.synced or (self.denied and not self.kind.required)

    def listed(self, listing: Listing) -> None:
        with self._changed:
            known = dict(self.state.unparsable)
            changes = apply_list(self.state, listing.items, listing.resource_version)
            self._announcer.queue(self.kind.kind, changes)
            self._arrived()
        self._announcer.tell()
        with self._changed:
            self.synced, self.denied = True, False
            self._changed.notify_all()
        for key, now in self.state.unparsable.items():
            if key not in known or known[key].problem != now.problem:
                self._log_unparsable(key, now.problem)
        _log.info("listed", extra={"kind": self.kind.kind, "objects": len(self.state.objects)})

    def happened(self, event: Event) -> None:
        with self._changed:
            known = self.state.unparsable.get(event.seen.key)
            change = apply_event(self.state, event)
            now = self.state.unparsable.get(event.seen.key)
            self._announcer.queue(self.kind.kind, () if change is None else (change,))
            self._arrived()
        self._announcer.tell()
        if now is not None and (known is None or known.problem != now.problem):
            self._log_unparsable(event.seen.key, now.problem)

    def failed(self, error: ApiError) -> None:
        with self._changed:
            repeated = self.problem == str(error)
            if not (self.denied and is_denied(error) and not self.kind.required):
                self.restarts += 1
            self.problem = str(error)
            if is_denied(error):
                self.denied = True
                if not self.kind.required:
                    # What is no longer shown is not known; the snapshot then says that nobody looked.
                    self._announcer.queue(self.kind.kind, empty(self.state))
                    self.synced = False
            self._changed.notify_all()
        self._announcer.tell()
        # An optional kind that is not served is asked for again and again, which is worth one line.
        level = logging.DEBUG if repeated else logging.WARNING
        _log.log(level, "watch failed", extra={"kind": self.kind.kind, "reason": str(error)})

    def sorted_objects(self) -> tuple[ClusterObject, ...]:
        with self._changed:
            generation = self.state.generation
            if self._sorted[0] == generation:
                return self._sorted[1]
            objects = list(self.state.objects.values())
        # Sorting takes tens of milliseconds for a large cluster; events need not wait for it.
        result = sorted_objects(objects)
        with self._changed:
            self._sorted = (generation, result)
        return result

    def status(self) -> KindStatus:
        return KindStatus(
            kind=self.kind.kind,
            required=self.kind.required,
            synced=self.synced,
            denied=self.denied,
            problem=self.problem,
            objects=len(self.state.objects),
            unparsable=len(self.state.unparsable),
            skipped_total=self.state.skipped,
            restarts_total=self.restarts,
            last_event_monotonic=self.last_event,
        )

    def _arrived(self) -> None:
        self.last_event = self._monotonic()
        self.problem = ""

    def _log_unparsable(self, key: str, problem: str) -> None:
        _log.warning("object cannot be parsed", extra={"kind": self.kind.kind, "object": key, "reason": problem})
