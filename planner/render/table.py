"""A table as data, and its three forms: aligned text, CSV, Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

Cell = str | Text
_GAP = 2
_NARROWEST = 12


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `right` aligns numbers, `shrinks` marks text that may be cut when the terminal is narrow."""

    title: str
    right: bool = False
    shrinks: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; every row has one cell per column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        """Refuse rows of another width."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"row with {len(row)} cells in a table with {len(self.columns)} columns")


def text_lines(table: Table, *, width: int | None = None, headers: bool = True, ellipsis: str = "…") -> list[Text]:
    """Return the table as aligned lines.

    Parameters
    ----------
    width
        Cells of a terminal line; columns that shrink are cut to it. None: nothing is cut.
    ellipsis
        What a cut cell ends with.
    """
    rows = [tuple(_as_text(cell) for cell in row) for row in table.rows]
    if headers:
        rows.insert(0, tuple(Text(column.title, style="bold") for column in table.columns))
    widths = [max((row[i].cell_len for row in rows), default=0) for i in range(len(table.columns))]
    if width is not None:
        widths = _narrowed(widths, table.columns, width)
    return [_line(row, table.columns, widths, ellipsis) for row in rows]


def csv_text(table: Table, *, headers: bool = True) -> str:
    """Return the table as CSV (RFC 4180, but with plain line feeds)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if headers:
        writer.writerow([column.title for column in table.columns])
    writer.writerows([_as_text(cell).plain for cell in row] for row in table.rows)
    return out.getvalue()


def markdown_text(table: Table, *, headers: bool = True) -> str:
    """Return the table in Markdown, ready for a merge request."""
    lines = []
    if headers:
        lines.append(_markdown_row([column.title for column in table.columns]))
        lines.append(_markdown_row(["---:" if column.right else "---" for column in table.columns]))
    lines += [_markdown_row([_as_text(cell).plain for cell in row]) for row in table.rows]
    return "".join(f"{line}\n" for line in lines)


def _as_text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def _markdown_row(cells: Sequence[str]) -> str:
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in cells)
    return "| " + " | ".join(escaped) + " |"


def _narrowed(widths: Sequence[int], columns: Sequence[Column], width: int) -> list[int]:
    """Take the excess from the widest shrinking columns, none below a readable minimum."""
    narrowed = list(widths)
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    while excess > 0:
        candidates = [i for i, column in enumerate(columns) if column.shrinks and narrowed[i] > _NARROWEST]
        if not candidates:
            break
        narrowed[max(candidates, key=lambda i: narrowed[i])] -= 1
        excess -= 1
    return narrowed


def _line(row: Sequence[Text], columns: Sequence[Column], widths: Sequence[int], ellipsis: str) -> Text:
    line = Text()
    for i, (cell, column, width) in enumerate(zip(row, columns, widths, strict=True)):
        cell = _cut(cell, width, ellipsis)
        padding = " " * (width - cell.cell_len)
        line.append(padding if column.right else "")
        line.append_text(cell)
        if i < len(row) - 1:
            line.append(("" if column.right else padding) + " " * _GAP)
    line.rstrip()
    return line


def _cut(cell: Text, width: int, ellipsis: str) -> Text:
    if cell.cell_len <= width:
        return cell
    cut = cell.copy()
    cut.truncate(max(width - len(ellipsis), 0), overflow="crop")
    return cut.append(ellipsis)
