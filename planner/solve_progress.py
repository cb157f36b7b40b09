"""Shows on stderr how far a long search is: best, bound, gap, elapsed."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.status import Status

from planner.console import Terminal

if TYPE_CHECKING:
    from planner.models.solve import Progress

# A search that is done by then says nothing.
FIRST_SECONDS = 2.0
# A terminal's line is written over, a log's is not.
TERMINAL_SECONDS = 0.5
LOG_SECONDS = 5.0


class SolveProgress:
    """Takes what the solver reports, and shows the latest of it now and then for the time of a `with` block."""

    def __init__(self, terminal: Terminal, *, first_seconds: float = FIRST_SECONDS) -> None:
        self._terminal = terminal
        self._first_seconds = first_seconds
        self._latest: Progress | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)
        self._started = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Take a report of the solver; it comes from the solver's thread."""
        self._latest = progress

    def __enter__(self) -> Self:
        """Start to watch."""
        self._started = time.monotonic()
        if not self._terminal.quiet:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and take a terminal's line away."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def line(self) -> str:
        """Return how far the search is."""
        spent = f"searching for {time.monotonic() - self._started:.0f} s"
        latest = self._latest
        if latest is None:
            return spent
        return f"{spent}; {latest.phase}: best {latest.best:g}, bound {latest.bound:g}, gap {latest.gap:.0%}"

    def _show(self) -> None:
        if self._over.wait(self._first_seconds):
            return
        console = self._terminal.err
        if not console.is_terminal:
            while True:
                console.print(self.line())
                if self._over.wait(LOG_SECONDS):
                    return
        with Status(self.line(), console=console) as status:
            while not self._over.wait(TERMINAL_SECONDS):
                status.update(self.line())
