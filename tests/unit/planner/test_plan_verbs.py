"""`plan moves`, `check`, `report` from the command line, on a small cluster."""

import csv
import io
import json
import subprocess
import sys
import threading

import pytest
from ruamel.yaml import YAML

from islander.cluster.snapshot_json import encode_snapshot
from planner.cli import main
from planner.console import Terminal
from planner.errors import PlannerError
from planner.models.solve import Progress
from planner.plan import Unadmitted
from planner.plan_file import read_plan, write_plan
from planner.plan_verbs import exit_code
from planner.seconds import seconds_of
from planner.solve_progress import SolveProgress
from tests.builders import a_node, a_pod, a_snapshot
from tests.plan_builders import a_plan, move_story


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(move_story()))
    return str(path)


@pytest.fixture
def full(tmp_path):
    """A cluster that no move helps."""
    path = tmp_path / "full.json"
    snapshot = a_snapshot(a_node("a"), a_pod("bare", gpus=6, node="a"), a_pod("waits", gpus=4, tp=4))
    path.write_bytes(encode_snapshot(snapshot))
    return str(path)


def run(capsys, *arguments):
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_g32_one_move_makes_room_and_the_plan_is_json(capsys, file):
    code, out, _ = run(capsys, "plan", "moves", "--snapshot", file, "-o", "json")
    plan = json.loads(out)
    assert (code, plan["kind"], plan["outcome"]) == (0, "MovePlan", "plan")
    assert [(step["pod"], step["from"], step["to"]) for step in plan["steps"]] == [("search/embed-1", "a", "b")]
    assert [(a["pod"], a["node"], a["afterWave"]) for a in plan["admits"]] == [("chat/llama-2", "a", 1)]
    assert plan["solver"]["status"] == "optimal"


def test_yaml_says_what_json_says(capsys, file):
    _, as_json, _ = run(capsys, "plan", "moves", "--snapshot", file, "-o", "json")
    _, as_yaml, _ = run(capsys, "plan", "moves", "--snapshot", file, "-o", "yaml")
    one, other = json.loads(as_json), YAML(typ="safe").load(as_yaml)
    assert one["id"] == other["id"]
    assert one["steps"] == other["steps"]


def test_people_read_nodes_steps_risks_and_what_starts(capsys, file):
    code, out, err = run(capsys, "plan", "moves", "--snapshot", file)
    assert code == 0
    assert out.startswith("1 move makes room for 1 of 1 pending replica.\nProved: ")
    assert "search/embed-1" in out
    assert "risk: " in out
    assert "after wave 1" in out
    assert "BARE_POD 1" in out
    assert "islander check" in err
    assert "\x1b" not in out


def test_wide_shows_objectives_and_every_pod_that_holds_still(capsys, file):
    _, out, _ = run(capsys, "plan", "moves", "--snapshot", file, "-o", "wide")
    assert "labs/alone" in out
    assert "replicas moved" in out
    assert "uid-search-embed-1" in out


def test_csv_has_one_row_per_step(capsys, file):
    _, out, _ = run(capsys, "plan", "moves", "--snapshot", file, "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["STEP"], row["POD"], row["FROM"], row["TO"]) == ("s1", "search/embed-1", "a", "b")


def test_markdown_is_ready_for_a_merge_request(capsys, file):
    _, out, _ = run(capsys, "plan", "moves", "--snapshot", file, "-o", "markdown")
    assert out.startswith("**1 move makes room for 1 of 1 pending replica.**\n")
    assert "| STEP |" in out or "| WAVE | STEP |" in out.replace("---:", "---")
    assert "`[" in out, "strips are code, so that they keep their shape"


def test_the_plan_file_is_written_beside_the_table_and_holds(capsys, file, tmp_path):
    plan_file = tmp_path / "plan.json"
    code, out, err = run(capsys, "plan", "moves", "--snapshot", file, "--output-file", str(plan_file))
    assert code == 0
    assert out.startswith("1 move")
    assert f"wrote {plan_file}" in err
    assert read_plan(str(plan_file)).steps[0].pod == "search/embed-1"
    code, out, _ = run(capsys, "check", str(plan_file), "--snapshot", file)
    assert code == 0
    assert "holds: 1 step in 1 wave, 1 admitted" in out


def test_the_same_cluster_gives_the_same_plan(capsys, file):
    ids = {json.loads(run(capsys, "plan", "moves", "--snapshot", file, "-o", "json")[1])["id"] for _ in range(2)}
    assert len(ids) == 1


def test_a_goal_makes_room_for_replicas_that_do_not_exist(capsys, file):
    _, out, _ = run(capsys, "plan", "moves", "--snapshot", file, "-o", "json", "--goal", "tp=4,count=1")
    plan = json.loads(out)
    assert [admission["pod"] for admission in plan["admits"]] == ["goal/1"]
    assert plan["options"] == ["--goal=tp=4,count=1"]


def test_flags_reach_the_plan(capsys, file):
    flags = ["--max-moves", "3", "--max-moves-per-workload", "2", "--allow-single-replica", "--allow-unknown-owners"]
    flags += ["--protect", "app=other", "--pod", "chat/llama-2", "--seed", "5", "--time-limit", "3s", "--workers", "1"]
    _, out, _ = run(capsys, "plan", "moves", "--snapshot", file, "-o", "json", *flags)
    plan = json.loads(out)
    assert set(plan["options"]) == {
        "--pod=chat/llama-2",
        "--max-moves=3",
        "--max-moves-per-workload=2",
        "--allow-single-replica",
        "--allow-unknown-owners",
        "--protect=app=other",
    }
    assert (plan["solver"]["seed"], plan["solver"]["timeLimitSeconds"]) == (5, 3.0)


def test_a_protected_pod_stays(capsys, file):
    code, out, _ = run(
        capsys, "plan", "moves", "--snapshot", file, "--protect", "app=embed", "-o", "json", "--detailed-exitcode"
    )
    plan = json.loads(out)
    assert code == 3
    assert plan["outcome"] == "infeasible"
    assert {"pod": "search/embed-1", "code": "PROTECTED"} in plan["immovable"]


def test_detailed_exit_codes_tell_proposed_from_not_in_full_from_nothing_to_do(capsys, file, full, tmp_path):
    idle = tmp_path / "idle.json"
    idle.write_bytes(encode_snapshot(a_snapshot(a_node("a"))))
    codes = {
        name: run(capsys, "plan", "moves", "--snapshot", str(name), "--detailed-exitcode")[0]
        for name in (file, full, idle)
    }
    assert list(codes.values()) == [2, 3, 0]
    assert run(capsys, "plan", "moves", "--snapshot", full)[0] == 0, "only when asked for"


def test_a_plan_that_admits_a_part_is_not_in_full():
    assert exit_code(a_plan(unadmitted=[Unadmitted("x/y", "PDB_ZERO", "")]), detailed=True) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--goal", "tp=x"], "tp"),
        (["--goal", "count=2"], "tp=N is missing"),
        (["--goal", "tp=8,nodes=2"], "nodes=2"),
        (["--goal", "tp=0"], "from 1 to"),
        (["--goal", "tp=2,count=99999999999"], "from 1 to 10000"),
        (["--goal", f"tp={'9' * 5000}"], "from 1 to"),
        (["--pod", "no/such"], "no/such"),
        (["--pod", "llama-2"], "there is chat/llama-2"),
        (["--pod", "nobody"], "name it as NAMESPACE/NAME"),
        (["--pod", ""], "--pod ''"),
        (["--pod", "search/embed-1"], "it is on node a, not pending"),
        (["--protect", "a==b==c"], "selector"),
        (["--time-limit", "soon"], "--time-limit 'soon': not a duration"),
        (["--time-limit", "0"], "more than zero"),
        (["--max-moves", "-1"], "--max-moves"),
        (["--output-file", "/no/such/dir/plan.json"], "/no/such/dir/plan.json"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_1(capsys, file, arguments, words):
    code, out, err = run(capsys, "plan", "moves", "--snapshot", file, "-q", *arguments)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert err.startswith("islander: ")
    assert words in err


@pytest.mark.parametrize(
    ("snapshot", "arguments", "words"),
    [
        (a_snapshot(a_node("a")), [], "Nothing to do: no replica waits for GPUs."),
        (a_snapshot(a_node("a", gpus=0)), [], "Nothing to do: no replica waits for GPUs."),
        (a_snapshot(a_node("a", gpus=0)), ["--goal", "tp=2"], "the cluster has no node with GPUs"),
        (a_snapshot(a_node("a")), ["--goal", "tp=16"], "node has fewer GPUs than one pod asks for (1 of 1 GPU nodes)"),
        (a_snapshot(a_node("a")), ["--goal", "tp=2,product=B200"], "no node has GPUs of product 'B200'"),
        (a_snapshot(a_node("a", unschedulable=True), a_pod("w")), [], "node is cordoned (1 of 1 GPU nodes)"),
        (move_story(), ["--max-moves", "0"], "more moves are needed than are allowed"),
        (move_story(), ["--max-moves-per-workload", "0"], "more moves are needed than are allowed"),
        (move_story(), ["--time-limit", "1ms"], "plan mv-"),
        (move_story(), ["--empty-nodes", "5"], "--empty-nodes 5: 0 more nodes are empty after the plan"),
    ],
)
def test_odd_clusters_and_wishes_end_in_a_clear_sentence(capsys, tmp_path, snapshot, arguments, words):
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(snapshot))
    code, out, err = run(capsys, "plan", "moves", "--snapshot", str(path), *arguments)
    assert code == 0
    assert words in out + err


def test_replicas_of_a_goal_come_in_the_order_of_their_numbers(capsys, tmp_path):
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(a_snapshot(a_node("a"))))
    _, out, _ = run(capsys, "plan", "moves", "--snapshot", str(path), "--goal", "tp=2,count=11", "-o", "json")
    plan = json.loads(out)
    assert [admission["pod"] for admission in plan["admits"]] == [f"goal/{number}" for number in range(1, 5)]
    assert [pod["pod"] for pod in plan["unadmitted"]] == [f"goal/{number}" for number in range(5, 12)]


def test_check_says_what_does_not_hold_and_ends_with_4(capsys, tmp_path, file):
    moved_on = a_snapshot(*[o for o in (*move_story().nodes, *move_story().pods) if o.name != "embed-1"])
    later, plan_file = tmp_path / "later.json", tmp_path / "plan.json"
    later.write_bytes(encode_snapshot(moved_on))
    write_plan(a_plan(), plan_file)
    code, out, err = run(capsys, "check", str(plan_file), "--snapshot", str(later))
    assert code == 4
    assert "does not hold" in out
    assert "STALE_POD" in out
    assert "another snapshot" in err
    code, out, _ = run(capsys, "check", str(plan_file), "--snapshot", str(later), "-o", "json")
    verdict = json.loads(out)
    assert (code, verdict["kind"], verdict["valid"]) == (4, "PlanVerdict", False)
    assert verdict["violations"][0].keys() == {"step", "code", "message"}


def test_check_warns_of_a_plan_that_expired_or_was_changed(capsys, tmp_path, file):
    plan_file = tmp_path / "plan.json"
    write_plan(a_plan(), plan_file)
    changed = json.loads(plan_file.read_text()) | {"goal": "something else"}
    plan_file.write_text(json.dumps(changed))
    code, _, err = run(capsys, "check", str(plan_file), "--snapshot", file)
    assert code == 0
    assert "does not belong to the id" in err
    assert "expired at 2026-01-01T00:15:00Z" in err


def test_plan_and_snapshot_cannot_both_be_stdin(capsys, monkeypatch):
    text = json.dumps({"kind": "x"})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(capsys, "check", "-", "--snapshot", "-")[0] == 1


def test_report_writes_one_file(capsys, tmp_path, file):
    plan_file, page = tmp_path / "plan.json", tmp_path / "report.html"
    write_plan(a_plan(), plan_file)
    code, out, err = run(capsys, "report", str(plan_file), "--snapshot", file, "--output-file", str(page))
    assert (code, out, err) == (0, "", f"wrote {page}\n")
    assert a_plan().id in page.read_text()


def test_report_without_any_cluster_is_made_from_the_plan_alone(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-such"))
    monkeypatch.setenv("HOME", str(tmp_path))
    write_plan(a_plan(), tmp_path / "plan.json")
    code, out, err = run(capsys, "report", str(tmp_path / "plan.json"))
    assert code == 0
    assert out.startswith("<!doctype html>")
    assert "does not draw the nodes" in err


def test_report_of_a_named_cluster_that_is_not_there_is_an_error(capsys, tmp_path):
    write_plan(a_plan(), tmp_path / "plan.json")
    code, out, _ = run(capsys, "report", str(tmp_path / "plan.json"), "--snapshot", str(tmp_path / "no-such"))
    assert (code, out) == (1, "")


@pytest.mark.parametrize(
    "arguments", [["status"], ["explain", "search/embed-1"], ["check", "PLAN"], ["report", "PLAN"], ["plan", "--help"]]
)
def test_only_planning_loads_the_solver(file, tmp_path, arguments):
    write_plan(a_plan(), tmp_path / "plan.json")
    words = [str(tmp_path / "plan.json") if word == "PLAN" else word for word in arguments]
    words += [] if "--help" in words else ["--snapshot", file]
    program = "import sys; from planner.cli import main; main(sys.argv[1:]); sys.exit('ortools' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10.0), ("2m", 120.0), ("1m30s", 90.0), ("500ms", 0.5), ("7", 7.0), ("0.5", 0.5)]
)
def test_durations_are_read_as_people_write_them(text, seconds):
    assert seconds_of(text, "--time-limit") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "-1s", "10 s", "1d", "s", "1e3", "25h", "0s", "\u0661s"])
def test_anything_else_is_no_duration(text):
    with pytest.raises(PlannerError, match="--time-limit"):
        seconds_of(text, "--time-limit")


def test_a_long_search_tells_how_far_it_is_on_stderr(capsys):
    told = threading.Event()
    with SolveProgress(Terminal.of_this_process(), first_seconds=0) as progress:
        shown = progress._terminal.err.print
        progress._terminal.err.print = lambda *words: (shown(*words), told.set())
        progress(Progress("replicas moved", 5.0, 4.0, 1.0))
        assert told.wait(10)
        assert progress.line().endswith("s; replicas moved: best 5, bound 4, gap 20%")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("searching for 0 s")


def test_a_short_search_says_nothing(capsys):
    with SolveProgress(Terminal.of_this_process()) as progress:
        progress(Progress("replicas moved", 5.0, 4.0, 1.0))
    assert capsys.readouterr() == ("", "")
