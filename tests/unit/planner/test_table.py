import csv
import io

import pytest
from rich.text import Text

from planner.render.table import Column, Table, csv_text, markdown_text, text_lines

TABLE = Table(
    (Column("NAME", shrinks=True), Column("GPUS", right=True), Column("WHY")),
    (("gpu-node-with-a-long-name", "8", "full"), ("b", "16", "two, free")),
)


def plain(lines: list[Text]) -> list[str]:
    return [line.plain for line in lines]


def test_text_aligns_words_left_and_numbers_right_without_trailing_blanks():
    assert plain(text_lines(TABLE)) == [
        "NAME                       GPUS  WHY",
        "gpu-node-with-a-long-name     8  full",
        "b                            16  two, free",
    ]


def test_headers_can_be_left_out():
    assert plain(text_lines(TABLE, headers=False))[0].startswith("gpu-node")


def test_a_narrow_terminal_cuts_the_column_that_may_shrink():
    lines = plain(text_lines(TABLE, width=32))
    assert lines[1] == "gpu-node-with-…     8  full"
    assert max(map(len, lines)) <= 32


def test_a_pipe_gets_every_character():
    assert "gpu-node-with-a-long-name" in plain(text_lines(TABLE, width=None))[1]


def test_a_column_is_never_cut_below_what_can_be_read():
    lines = plain(text_lines(TABLE, width=10))
    assert lines[1].startswith("gpu-node-wi…")


def test_wide_characters_count_as_two_cells():
    table = Table((Column("A"), Column("B")), (("日本", "x"), ("ab", "y")))
    assert plain(text_lines(table, headers=False)) == ["日本  x", "ab    y"]


def test_csv_is_read_back_by_a_csv_reader():
    rows = list(csv.reader(io.StringIO(csv_text(TABLE))))
    assert rows == [
        ["NAME", "GPUS", "WHY"],
        ["gpu-node-with-a-long-name", "8", "full"],
        ["b", "16", "two, free"],
    ]


def test_markdown_escapes_what_would_end_a_cell():
    table = Table((Column("A"), Column("N", right=True)), (("x|y", "1"),))
    assert markdown_text(table) == "| A | N |\n| --- | ---: |\n| x\\|y | 1 |\n"


def test_a_row_of_another_width_is_refused():
    with pytest.raises(ValueError, match="2 cells in a table with 1 columns"):
        Table((Column("A"),), (("1", "2"),))
