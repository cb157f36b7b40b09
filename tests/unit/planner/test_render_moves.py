"""A plan for people: words, tables, strips."""

import pytest
from rich.text import Text

from islander.policy.settings import PolicySettings
from planner.pictures import pictures
from planner.plan import Immovable, Phase, Unadmitted
from planner.plan_words import headline, proof, reason
from planner.render import moves as showing
from planner.render.glyphs import ASCII, UNICODE
from planner.render.table import text_lines
from tests.plan_builders import a_plan, a_step, an_admission, an_outlook, move_story


def rows(table):
    return [[cell.plain if isinstance(cell, Text) else cell for cell in row] for row in table.rows]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (a_plan(), "1 move makes room for 1 of 1 pending replica."),
        (
            a_plan(steps=[a_step(1), a_step(2)], unadmitted=[Unadmitted("x/y", "NO_ROOM_EVEN_IF_REPACKED", "")]),
            "2 moves make room for 1 of 2 pending replicas.",
        ),
        (a_plan(steps=[], admits=[an_admission(after_wave=0)]), "No move is needed: 1 of 1 pending replica fits"),
        (a_plan(steps=[], admits=[], outcome="nothing-to-do"), "Nothing to do: no replica waits for GPUs."),
        (
            a_plan(steps=[], admits=[], outcome="infeasible", unadmitted=[Unadmitted("x/y", "PDB_ZERO", "")]),
            "No legal sequence of moves makes room for the pending replica.",
        ),
        (a_plan(steps=[], admits=[], outcome="no-answer-in-time"), "No answer within 10 s"),
        (a_plan(admits=[], after=an_outlook(empty_nodes=1)), "1 move empties 1 node."),
        (
            a_plan(admits=[an_admission("goal/1")], options=["--goal=tp=4,count=1"]),
            "1 move makes room for 1 of 1 wanted",
        ),
        (
            a_plan(steps=[], admits=[], outcome="nothing-to-do", options=["--empty-nodes=1"]),
            "Nothing to do: no move would empty another node.",
        ),
    ],
)
def test_the_headline_says_what_comes_of_it(plan, words):
    assert headline(plan).startswith(words)


def test_only_a_proved_plan_says_so():
    assert proof(a_plan()).startswith("Proved: ")
    open_phase = Phase("replicas moved", 5.0, 3.0, "feasible", 1.0)
    told = proof(a_plan(status="feasible", phases=[open_phase]))
    assert told == "Not proved: replicas moved is 5, and 3 is not ruled out."
    assert proof(a_plan(status="feasible")).startswith("Not proved")
    assert proof(a_plan(steps=[], admits=[], outcome="nothing-to-do")) == ""


def test_strips_show_one_cell_per_gpu_before_and_after():
    drawn = pictures(a_plan(), move_story(), PolicySettings())
    letters = showing.letters_for(drawn)
    table = rows(showing.node_table(drawn, letters, UNICODE))
    assert [row[0] for row in table] == ["a", "b"]
    assert sorted(table[0][1]) == sorted("[AAAACC··]")
    assert table[0][2].count("A") == 8
    assert table[0][3] == "C leaves (2), A starts (4)"
    assert table[1][3] == "C arrives (2)"
    assert showing.legend(drawn, letters) == "A chat/llama  B labs/alone  C search/embed"


def test_a_terminal_without_unicode_gets_ascii():
    drawn = pictures(a_plan(), move_story(), PolicySettings())
    lines = text_lines(showing.node_table(drawn, showing.letters_for(drawn), ASCII), ellipsis=ASCII.ellipsis)
    assert all(line.plain.isascii() for line in lines)
    assert ".." in lines[1].plain


def test_a_narrow_terminal_cuts_names_and_never_numbers():
    plan = a_plan(steps=[a_step(pod="search/" + "e" * 60, gpus=2)])
    lines = text_lines(showing.step_table(plan, risks=False), width=100, ellipsis="…")
    assert all(line.cell_len <= 100 for line in lines)
    assert "300 s" in lines[1].plain


def test_every_risk_is_told_once_with_its_steps():
    plan = a_plan(steps=[a_step(1), a_step(2, risks=["the only replica of its workload"]), a_step(3)])
    assert [line.plain for line in showing.risk_lines(plan)] == [
        "risk: requests longer than 30 s may be cut off (s1, s3)",
        "risk: the only replica of its workload (s2)",
    ]


def test_a_replica_that_stays_pending_is_told_with_what_would_help():
    plan = a_plan(
        unadmitted=[
            Unadmitted("a/b", "NO_ROOM_EVEN_IF_REPACKED", "one more node would do"),
            Unadmitted("a/c", "PDB_ZERO", ""),
        ]
    )
    table = rows(showing.refusal_table(plan))
    assert table[0] == ["a/b", "NO_ROOM_EVEN_IF_REPACKED", "one more node would do"]
    assert table[1] == ["a/c", "PDB_ZERO", "disruption budget allows no disruption now"]


def test_what_holds_still_is_summed_up_by_code():
    plan = a_plan(immovable=[Immovable("a/b", "PDB_ZERO"), Immovable("a/c", "BARE_POD"), Immovable("a/d", "PDB_ZERO")])
    assert showing.immovable_line(plan) == "3 pods with GPUs are not to be moved: PDB_ZERO 2, BARE_POD 1"
    assert showing.immovable_line(a_plan(immovable=[])) == ""


def test_a_code_of_another_release_does_not_break_the_page():
    assert "not known" in reason("SOMETHING_NEW").sentence


def test_shapes_are_sorted_by_size():
    plan = a_plan(before=an_outlook(placeable={"16": 1, "2": 1, "8": 1}))
    shapes = [name for name, *_ in showing.outlook_rows(plan) if name.startswith("replicas of")]
    assert shapes == [f"replicas of {n} that fit" for n in (1, 2, 4, 8, 16)]
