"""`plan quota` on the command line: formats, files, exit codes, and `check` of what it wrote."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import yaml
from ruamel.yaml import YAML

from islander.cluster import names
from islander.cluster.snapshot_json import encode_snapshot
from planner.cli import main
from planner.models import quota_search
from planner.models.light_ortools import cp_model
from tests.builders import H100, a_cluster_queue, a_flavor, a_node, a_pod, a_snapshot, quotas

POLICY = """\
teams:
- {name: chat, namespaces: [chat], shape: {gpus: 4}, baselineReplicas: 2, maxReplicas: 3, weight: 2}
- {name: lab, namespaces: [lab], shape: {gpus: 1}}
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A cluster with two queues of 10 over 14 usable GPUs, and a policy."""
    snapshot = a_snapshot(
        a_node("a"),
        a_node("b"),
        a_flavor("h100", labels={names.GPU_PRODUCT: H100}),
        a_cluster_queue("chat", quotas("h100", 10), cohort="gpu"),
        a_cluster_queue("lab", quotas("h100", 10), cohort="gpu"),
        a_pod("outside", gpus=2, node="a", namespace="data"),
    )
    (tmp_path / "cluster.json").write_bytes(encode_snapshot(snapshot))
    (tmp_path / "policy.yaml").write_text(POLICY)
    return {"cluster": str(tmp_path / "cluster.json"), "policy": str(tmp_path / "policy.yaml")}


def run(capsys, *words: str) -> tuple[int, str, str]:
    code = main(["plan", "quota", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_document_has_the_keys_of_the_contract(capsys, files):
    code, out, _ = run(capsys, "--snapshot", files["cluster"], "--policy", files["policy"], "-o", "json")
    document = json.loads(out)
    assert code == 0
    assert list(document)[:3] == ["apiVersion", "kind", "warnings"]
    assert document["kind"] == "QuotaPlan"
    assert {
        "name",
        "cohort",
        "flavor",
        "resource",
        "nominal",
        "borrowing",
        "lending",
        "baseline",
        "witness",
        "why",
    } <= set(document["queues"][0])
    chat = next(row for row in document["queues"] if row["name"] == "chat")
    assert chat["nominal"] == {"old": 10, "new": 8}
    assert {"arithmetic", "placeable", "placeableWithoutBiggestNode"} <= set(document["totals"])
    assert set(document["files"]) == {"flavors.yaml", "queues.yaml", "kustomization.yaml"}
    assert document["findings"]


def test_yaml_says_what_json_says(capsys, files):
    words = ["--snapshot", files["cluster"], "--policy", files["policy"]]
    _, as_json, _ = run(capsys, *words, "-o", "json")
    _, as_yaml, _ = run(capsys, *words, "-o", "yaml")
    one, other = json.loads(as_json), YAML(typ="safe").load(as_yaml)
    for document in (one, other):
        for key in ("createdAt", "expiresAt", "solver"):
            del document[key]
    assert one == other


def test_the_table_shows_old_and_new_with_the_reason(capsys, files):
    _, out, err = run(capsys, "--snapshot", files["cluster"], "--policy", files["policy"])
    assert "10 -> 8 -2" in out
    assert "10 is no multiple of 4" in out
    assert "14 placeable in whole replicas, 6 without the biggest node" in out
    assert "QUOTA_ABOVE_CAPACITY" in out
    assert "2 GPUs are held outside Kueue, in no quota: data/outside (2)" in err


def test_wide_adds_the_witness_and_what_the_solver_proved(capsys, files):
    _, out, _ = run(capsys, "--snapshot", files["cluster"], "--policy", files["policy"], "-o", "wide")
    assert "WITNESS" in out
    assert "2 x 4" in out
    assert "shares by weight" in out


def test_csv_and_markdown_are_tables_too(capsys, files):
    words = ["--snapshot", files["cluster"], "--policy", files["policy"]]
    _, out, _ = run(capsys, *words, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["QUEUE"] for row in rows] == ["chat", "lab"]
    assert rows[0]["NOMINAL"] == "10 -> 8 -2"
    _, out, _ = run(capsys, *words, "-o", "markdown")
    assert out.startswith("**2 quotas of 2 change")
    assert "| chat | gpu | h100 |" in out


def test_files_are_written_ready_to_be_applied_and_then_nothing_is_left_to_do(capsys, files, tmp_path):
    folder = tmp_path / "new" / "quota"
    words = ["--snapshot", files["cluster"], "--policy", files["policy"], "--detailed-exitcode"]
    code, _, err = run(capsys, *words, "-o", "yaml", "--output-dir", str(folder))
    assert code == 2
    assert f"kubectl apply -k {folder}" in err
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    again = [word for name in listed for word in ("--snapshot", str(folder / name))]
    code, out, _ = run(capsys, *words, *again)
    assert code == 0
    assert out.startswith("Nothing to do")


def test_a_baseline_without_a_place_ends_with_3(capsys, files, tmp_path):
    (tmp_path / "large.yaml").write_text("teams: [{name: chat, shape: {gpus: 8}, baselineReplicas: 9}]")
    words = ["--snapshot", files["cluster"], "--policy", str(tmp_path / "large.yaml")]
    code, out, _ = run(capsys, *words, "--detailed-exitcode")
    assert code == 3
    assert "BASELINE_NOT_PLACEABLE" in out
    assert run(capsys, *words)[0] == 0


def test_a_plan_file_is_judged_by_check(capsys, files, tmp_path):
    plan = tmp_path / "plan.yaml"
    run(capsys, "--snapshot", files["cluster"], "--policy", files["policy"], "--output-file", str(plan))
    assert main(["check", str(plan), "--snapshot", files["cluster"]]) == 0
    assert "14 GPUs guaranteed at the same time" in capsys.readouterr().out
    document = yaml.safe_load(plan.read_text())
    queues = document["files"]["queues.yaml"]
    document["files"]["queues.yaml"] = queues.replace('nominalQuota: "8"', 'nominalQuota: "16"')
    plan.write_text(yaml.safe_dump(document))
    assert main(["check", str(plan), "--snapshot", files["cluster"], "-o", "json"]) == 4
    verdict = json.loads(capsys.readouterr().out)
    assert {violation["code"] for violation in verdict["violations"]} == {"I10"}
    assert any("was changed after it was made" in warning for warning in verdict["warnings"])


def test_ctrl_c_keeps_the_quotas_found_so_far_and_says_so(capsys, files, monkeypatch):
    """It comes when baselines have their place, and the rest is not shared yet."""
    searched = []

    def interrupted(solver, model, report=None):
        searched.append(model)
        return solver.solve(model), len(searched) == 3

    monkeypatch.setattr(quota_search, "until_stopped", interrupted)
    code, out, err = run(capsys, "--snapshot", files["cluster"], "--policy", files["policy"], "-o", "json")
    assert code == 130
    assert "the search was interrupted: these are the best quotas found so far" in err
    document = json.loads(out)
    assert len(document["solver"]["phases"]) == 3
    assert document["unmet"] == []


def test_without_an_answer_in_time_nothing_is_written(capsys, files, tmp_path, monkeypatch):
    """The solver gives up before it knows which baselines have a place."""

    def gives_up(solver, model, report=None):
        solver.solve(model)
        return cp_model.UNKNOWN, False

    monkeypatch.setattr(quota_search, "until_stopped", gives_up)
    folder = tmp_path / "quota"
    words = ["--snapshot", files["cluster"], "--policy", files["policy"], "--output-dir", str(folder)]
    code, out, err = run(capsys, *words, "--detailed-exitcode")
    assert code == 3
    assert out.startswith("No answer within 10 s: do not apply these quotas.")
    assert "nothing is written" in err
    assert not folder.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--policy", "gone.yaml"], "--policy gone.yaml: cannot be read"),
        (["--survive-nodes", "-1"], "--survive-nodes"),
        (["--time-limit", "soon"], "--time-limit"),
    ],
)
def test_a_wrong_command_ends_with_one_line(capsys, files, words, told):
    code, out, err = run(capsys, "--snapshot", files["cluster"], *words)
    assert code == 1
    assert out == ""
    assert told in err
    assert "Traceback" not in err


def test_a_directory_that_cannot_be_made_is_named(capsys, files, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = run(capsys, "--snapshot", files["cluster"], "--output-dir", str(tmp_path / "file" / "x"))
    assert code == 1
    assert "--output-dir" in err


def test_help_ends_with_two_examples(capsys):
    _, out, _ = run(capsys, "--help")
    assert out.count("islander plan quota") >= 2
    assert "--survive-nodes" in out
