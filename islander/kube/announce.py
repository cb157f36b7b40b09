"""Telling listeners what has changed: in order, one call at a time, and under none of the state's locks."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

from islander.kube.parse import ClusterObject
from islander.kube.state import Change

_log = logging.getLogger(__name__)

# kind, key, the object before (None: new), the object now (None: gone).
OnChange = Callable[[str, str, ClusterObject | None, ClusterObject | None], None]


class Announcer:
    """A queue of changes and who wants to hear of them."""

    def __init__(self) -> None:
        self._listeners: list[OnChange] = []
        self._untold: deque[tuple[str, Change]] = deque()
        self._telling = threading.Lock()

    def add(self, on_change: OnChange) -> None:
        """Tell `on_change` from now on."""
        self._listeners.append(on_change)

    def queue(self, kind: str, changes: Iterable[Change]) -> None:
        """Take in changes; the caller holds the lock under which it made them, so that the order is theirs."""
        self._untold.extend((kind, change) for change in changes)

    def tell(self) -> None:
        """Tell everything in the queue; on return, what the caller has queued was told, if not by this thread."""
        with self._telling:
            while self._untold:
                kind, change = self._untold.popleft()
                for on_change in self._listeners:
                    try:
                        on_change(kind, change.key, change.old, change.new)
                    # A listener's mistake must not cost the others their news, nor the watch its thread.
                    except Exception:
                        _log.exception("listener failed", extra={"kind": kind, "key": change.key})
