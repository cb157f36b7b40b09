"""Following one kind of object: list, then watch, and list again when the watch cannot go on."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from islander.kube.errors import (
    ApiBusy,
    ApiError,
    ApiForbidden,
    ApiGone,
    ApiNotFound,
    ApiStalled,
    ApiUnreachable,
    ApiUnreadable,
)
from islander.kube.kinds import WatchedKind
from islander.kube.reading import PAGE_LIMIT, Listing, read_event, read_list
from islander.kube.state import Event, KindState
from islander.kube.transport import LineStream, Transport

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How patient a watch is; seconds.

    Attributes
    ----------
    silence_s
        A watch without data for so long is given up; the API server sends a bookmark about every minute.
    watch_s
        The server is asked to end a watch after this time up to twice as much, so that they spread over its replicas.
    first_backoff_s, longest_backoff_s
        Pauses after failures double between these, each shortened at random by up to a half.
    longest_named_pause_s
        A server that names the pause itself is not left alone for longer than this.
    denied_retry_s
        Pause before an optional kind that is forbidden or not served is asked for again.
    """

    page_limit: int = PAGE_LIMIT
    silence_s: float = 150.0
    watch_s: int = 300
    first_backoff_s: float = 0.5
    longest_backoff_s: float = 30.0
    longest_named_pause_s: float = 300.0
    denied_retry_s: float = 300.0


class Feed(Protocol):
    """Where a watcher hands over what it learns; called from the watcher's thread only."""

    @property
    def state(self) -> KindState:
        """What is known; only read here."""

    def listed(self, listing: Listing) -> None:
        """Take in a complete list."""

    def happened(self, event: Event) -> None:
        """Take in an event."""

    def failed(self, error: ApiError) -> None:
        """Take note of a list or watch that failed; the watcher goes on by itself."""


class Watcher:
    """Keeps a feed up to date with one kind of object until it is stopped."""

    def __init__(
        self,
        kind: WatchedKind,
        transport: Transport,
        feed: Feed,
        *,
        settings: WatchSettings,
        monotonic: Callable[[], float],
        jitter: random.Random,
    ) -> None:
        self._kind = kind
        self._transport = transport
        self._feed = feed
        self._settings = settings
        self._monotonic = monotonic
        self._jitter = jitter
        self._stop = threading.Event()
        self._stream: LineStream | None = None
        self._listed = False
        self._progress = False
        self._failures = 0

    def run(self) -> None:
        """List and watch until `stop`; never raises."""
        while not self._stop.is_set():
            try:
                pause_s = self.step()
            # A thread that dies leaves a cluster state that looks alive and grows old.
            except Exception:
                _log.exception("watcher failed", extra={"kind": self._kind.kind})
                pause_s = self._after(ApiUnreadable(f"watch of {self._kind.path}: failed inside"), progress=False)
            self._stop.wait(pause_s)

    def stop(self) -> None:
        """End `run` soon, from any thread; a list that is waiting for its answer is not interrupted."""
        self._stop.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def step(self) -> float:
        """List when there is need to, then watch until that ends; return the seconds to pause before the next step."""
        started = self._monotonic()
        self._progress = False
        try:
            if not self._listed and not self._list():
                return 0.0
            started = self._monotonic()
            self._watch()
        except ApiError as error:
            return 0.0 if self._stop.is_set() else self._after(error, progress=self._progress)
        if self._progress or self._monotonic() - started >= 1.0:
            self._failures = 0
            return 0.0
        # A server that ends every watch at once must not be asked without a pause.
        self._failures += 1
        return self._backoff_s()

    def _list(self) -> bool:
        listing = read_list(
            self._transport,
            self._kind,
            self._feed.state,
            limit=self._settings.page_limit,
            stopped=self._stop.is_set,
        )
        if listing is None:
            return False
        self._feed.listed(listing)
        self._listed = True
        return True

    def _watch(self) -> None:
        seconds = round(self._settings.watch_s * self._jitter.uniform(1, 2))
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._feed.state.position,
            "timeoutSeconds": str(seconds),
        }
        stream = self._transport.stream(self._kind.path, params, silence_s=self._settings.silence_s)
        self._stream = stream
        if self._stop.is_set():
            stream.close()
        try:
            for line in stream:
                event = read_event(self._kind, line, self._feed.state)
                self._progress = True
                self._failures = 0
                if event is not None:
                    self._feed.happened(event)
        finally:
            self._stream = None

    def _after(self, error: ApiError, *, progress: bool) -> float:
        """Decide whether the position in the history still holds, and return the pause in seconds."""
        self._failures += 1
        self._feed.failed(error)
        self._listed = self._listed and _position_holds(error, progress=progress)
        if isinstance(error, ApiGone) and self._failures == 1:
            return 0.0
        if is_denied(error) and not self._kind.required:
            return self._settings.denied_retry_s
        return max(self._backoff_s(), min(error.retry_after_s or 0.0, self._settings.longest_named_pause_s))

    def _backoff_s(self) -> float:
        doubled = self._settings.first_backoff_s * 2.0 ** min(self._failures - 1, 30)
        return min(doubled, self._settings.longest_backoff_s) * self._jitter.uniform(0.5, 1)


def is_denied(error: ApiError) -> bool:
    """Return whether the server has answered that this kind is not to be had."""
    return isinstance(error, ApiForbidden | ApiNotFound)


def _position_holds(error: ApiError, *, progress: bool) -> bool:
    """Return whether the next watch may go on where this one ended.

    A watch that brought something goes on. One that failed at once goes on only after failures that say nothing about
    the position: no connection, or a busy server. Everything else lists again, so that neither an event the server
    cannot encode nor a proxy that swallows events stops the state from being renewed.
    """
    if isinstance(error, ApiGone | ApiUnreadable) or is_denied(error):
        return False
    if progress:
        return True
    if isinstance(error, ApiUnreachable):
        return not isinstance(error, ApiStalled)
    return isinstance(error, ApiBusy) and error.status == 429
