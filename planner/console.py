"""The terminal: results go to stdout, everything else to stderr, colour only where a person watches."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from planner.render.glyphs import Glyphs, glyphs_for
from planner.render.table import Table, text_lines


class _Console(Console):
    """A console that leaves a closed pipe to the command line, where it is no error."""

    def on_broken_pipe(self) -> None:
        """Pass on what rich would turn into an exit code of its own."""
        raise BrokenPipeError


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where results and remarks go.

    Attributes
    ----------
    width
        Cells of a line on a terminal; None when the results go to a file or a pipe, where nothing is cut.
    """

    out: Console
    err: Console
    glyphs: Glyphs
    width: int | None
    headers: bool = True
    quiet: bool = False

    @classmethod
    def of_this_process(cls, *, headers: bool = True, quiet: bool = False) -> Self:
        """Return the terminal that this process writes to; rich honours NO_COLOR."""
        # rich prints nothing at all on a terminal of no width, which is what some environments claim.
        environment = {key: value for key, value in os.environ.items() if (key, value) != ("COLUMNS", "0")}
        out = _Console(soft_wrap=True, highlight=False, markup=False, emoji=False, _environ=environment)
        err = _Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False, _environ=environment)
        width = out.width if out.file.isatty() else None
        return cls(out, err, glyphs_for(sys.stdout.encoding), width, headers, quiet)

    def write(self, text: str) -> None:
        """Write a finished document to stdout, byte for byte."""
        self.out.file.write(text if text.endswith("\n") else f"{text}\n")
        self.out.file.flush()

    def lines(self, lines: Iterable[Text | str]) -> None:
        """Write lines to stdout."""
        for line in lines:
            self.out.print(line)

    def table(self, table: Table) -> None:
        """Write a table to stdout as aligned text."""
        self.lines(text_lines(table, width=self.width, headers=self.headers, ellipsis=self.glyphs.ellipsis))

    def note(self, message: str) -> None:
        """Tell something beside the result, unless `--quiet` was asked for."""
        if not self.quiet:
            self.err.print(message)

    def working(self, what: str) -> Working:
        """Show on stderr that something takes its time, when a person watches."""
        return Working(self.err, what, shown=not self.quiet and self.err.file.isatty())


class Working:
    """A line with a spinner for the time of a `with` block."""

    def __init__(self, console: Console, what: str, *, shown: bool) -> None:
        self._status = Status(what, console=console) if shown else None

    def __enter__(self) -> Self:
        """Start the spinner."""
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        if self._status is not None:
            self._status.stop()


def log_to_stderr(verbose: int) -> None:
    """Let the log go to stderr: warnings, with `-v` what is done, with `-vv` details."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s %(name)s: %(message)s", force=True)


def ready_streams() -> None:
    """Give a process that was started with closed streams empty ones, and let no character fail to be written."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, TextIOWrapper(BytesIO(), encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
