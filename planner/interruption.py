"""Ctrl-C while a plan is made: the first one ends the search and keeps what was found, the second ends everything."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Threads of this name do not survive the end of the interpreter; a process that still has one ends without it.
SOLVER_THREAD = "solver"


class SearchInterrupted(KeyboardInterrupt):
    """Somebody asked to stop while something was searched for that can be done without."""


class Interruption:
    """Whether somebody asked to stop.

    A request breaks into a search. Where none runs, something is just being finished that every answer needs; there a
    request is kept, and breaks into the next search.
    """

    def __init__(self) -> None:
        self._asked = False
        self._searching = False

    @property
    def asked(self) -> bool:
        """True once somebody has asked to stop."""
        return self._asked

    def ask(self) -> None:
        """Take a request to stop.

        Raises
        ------
        SearchInterrupted
            A search is broken off.
        KeyboardInterrupt
            It is the second request: whatever is going on ends.
        """
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        if self._searching:
            raise SearchInterrupted

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Let a request break into a `with` block, also one that came before it."""
        before = self._searching
        self._searching = True
        try:
            if self._asked:
                raise SearchInterrupted
            yield
        finally:
            self._searching = before

    @contextmanager
    def by_ctrl_c(self) -> Iterator[None]:
        """Take Ctrl-C as a request for the time of a `with` block.

        Signals come to the main thread only, and not to a process that was started to ignore them.
        """
        known = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or known in (signal.SIG_IGN, None):
            yield
            return
        signal.signal(signal.SIGINT, lambda *_: self.ask())
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, known)


def end_beside_a_solver(code: int) -> None:
    """End the process at once where a solver still works; everywhere else do nothing."""
    if any(thread.name == SOLVER_THREAD for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
