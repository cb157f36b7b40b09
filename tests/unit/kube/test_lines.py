from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from islander.kube.lines import lines_of


def test_lines_are_joined_when_the_network_cuts_them_anywhere() -> None:
    whole = '{"name":"größe"}\n{"b":2}\r\n'.encode()
    for cut in range(1, len(whole)):
        assert list(lines_of([whole[:cut], whole[cut:]])) == ['{"name":"größe"}'.encode(), b'{"b":2}']


def test_a_last_line_without_its_end_has_not_arrived() -> None:
    assert list(lines_of([b'{"a":1}\n{"b"'])) == [b'{"a":1}']


def test_blank_lines_are_left_out() -> None:
    assert list(lines_of([b"\n\r\n", b"  \n1\n", b"\n"])) == [b"1"]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=8).filter(lambda b: b"\n" not in b), max_size=8), st.data())
def test_any_cutting_gives_the_same_lines(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    bounds = [0, *cuts, len(whole)]
    chunks = [whole[a:b] for a, b in itertools.pairwise(bounds)]
    assert list(lines_of(chunks)) == [line.strip() for line in lines if line.strip()]
