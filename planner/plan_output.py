"""What the verbs that plan do alike: exit codes, tables that end somewhere, Markdown, files, and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rich.text import Text

from planner.console import Terminal
from planner.errors import PlannerError
from planner.interruption import Interruption, end_beside_a_solver
from planner.render.table import Table, markdown_text

PROPOSED, NOT_IN_FULL, NOT_VALID, INTERRUPTED = 2, 3, 4, 130
# Tables for people end here; -o wide shows everything.
ROWS_SHOWN = 20


def until_interrupted(terminal: Terminal, work: Callable[[Interruption], int]) -> int:
    """Return the exit code of `work`, or that of a command that Ctrl-C has ended.

    The first Ctrl-C ends the search, and what was found by then is shown; before there is anything, and when it comes
    again, it ends everything.
    """
    stop = Interruption()
    try:
        code = work(stop)
    except KeyboardInterrupt:
        terminal.note("interrupted before any plan was written")
        end_beside_a_solver(INTERRUPTED)
        return INTERRUPTED
    return INTERRUPTED if stop.asked else code


def print_table(table: Table, terminal: Terminal, *, wide: bool, most: int = ROWS_SHOWN) -> None:
    """Print a table after an empty line, unless it has no rows; `wide` shows all of them."""
    if not table.rows:
        return
    terminal.lines([""])
    shown = Table(table.columns, table.rows if wide else table.rows[:most])
    terminal.table(shown)
    tell_of_more(len(table.rows) - len(shown.rows), "rows", terminal)


def tell_of_more(number: int, what: str, terminal: Terminal) -> None:
    """Tell how many were left out, if any were."""
    if number > 0:
        terminal.lines([f"{number} more {what}; -o wide shows all"])


def markdown(title: Iterable[Text | str], blocks: Iterable[Table | str]) -> str:
    """Return the lines of a title, and tables and texts after them, as Markdown; empty ones are left out."""
    first, *rest = (str(line) for line in title)
    parts = [f"**{first}**", "  \n".join(rest)]
    parts += [block if isinstance(block, str) else markdown_text(block) if block.rows else "" for block in blocks]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write texts by file name into a folder, which is made when it is not there.

    Raises
    ------
    PlannerError
        A file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise PlannerError(f"--output-dir {folder}: {problem.strerror or problem}") from problem
