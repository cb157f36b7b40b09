"""Words of scripts are split as a shell splits them."""

from __future__ import annotations

import pytest

from islander.cluster.shell import LONGEST_SCRIPT, UNKNOWN, simple_commands


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("a b  c", [("a", "b", "c")]),
        ("a; b && c || d | e & f\ng", [(x,) for x in "abcdefg"]),
        ("a # b\nc", [("a",), ("c",)]),
        ("a#b", [("a#b",)]),
        ("a \\\n  b", [("a", "b")]),
        ("a \\\r\n  b", [("a", "b")]),
        ("a 'b c' \"d e\" f\\ g", [("a", "b c", "d e", "f g")]),
        ("a '' \"\"", [("a", "", "")]),
        ("a 'b", [("a", "b")]),
        ('a "b', [("a", "b")]),
        ("a > out 2>&1 < in b &> all", [("a", "b")]),
        ("(a b)", [("a", "b")]),
        ("a 'x # y' # z", [("a", "x # y")]),
        ('a "\\"b\\"" "c\\d"', [("a", '"b"', "c\\d")]),
        ("", []),
        (" \n;; ", []),
    ],
)
def test_scripts_become_commands(script: str, commands: list[tuple[str, ...]]) -> None:
    assert simple_commands(script, {}) == tuple(commands)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("a $N ${N} \"$N\" '$N' \\$N", ("a", "4", "4", "4", "$N", "$N")),
        ("a x${N}y", ("a", "x4y")),
        ("a ${M:-8} ${N:-8} ${M-9} ${M:=7}", ("a", "8", "4", "9", "7")),
        ('a ${M:-"8"} ${M:-$N}', ("a", "8", UNKNOWN)),
        ("a $M ${M}", ("a", UNKNOWN, UNKNOWN)),
        ("a $(nproc --all) `nproc` $((1 + 2)) $?", ("a", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)),
        ("a $FLAGS b", ("a", "--x", "1", "b")),
        ('a "$FLAGS" b', ("a", "--x 1", "b")),
        ("a 5$ $ $.", ("a", "5$", "$", "$.")),
        ('a "$@"', ("a", "one", "two")),
        ("a $1 $2 $3 ${1}", ("a", "one", "two", UNKNOWN, "one")),
        ("a ${#N}", ("a", UNKNOWN)),
    ],
)
def test_variables_are_expanded_where_they_are_known(script: str, words: tuple[str, ...]) -> None:
    variables = {"N": "4", "FLAGS": "--x 1"}
    assert simple_commands(script, variables, ("one", "two")) == (words,)


def test_assignments_of_the_script_count_from_then_on() -> None:
    script = "N=2\nexport M=3 K\nb $N $M\nL=1 c $L"
    assert simple_commands(script, {"N": "9"}) == (("b", "2", "3"), ("L=1", "c", UNKNOWN))


def test_a_huge_script_is_read_to_a_limit() -> None:
    assert len(simple_commands("a\n" * LONGEST_SCRIPT, {})) == LONGEST_SCRIPT // 2
