"""`plan mig` from the command line: formats, files, exit codes, one line for each mistake; `check` of its plan."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from islander.cluster.snapshot_json import encode_snapshot
from planner.cli import main
from planner.mig.parted import read_parted
from tests.builders import a_pod, a_snapshot
from tests.mig_builders import a_mig_node, a_mig_pod

FLAGS = ("--profile", "1g.10gb=9", "--profile", "3g.40gb=1")


@pytest.fixture
def file(tmp_path):
    """Two nodes, of which one has a GPU in use; a replica of eight waits."""
    path = tmp_path / "cluster.json"
    nodes = [a_mig_node("a"), a_mig_node("b", used={0: "default/x"})]
    path.write_bytes(encode_snapshot(a_snapshot(*nodes, a_pod("x", node="b"), a_pod("tp8", gpus=8, tp=8))))
    return str(path)


def run(capsys, *arguments):
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_the_plan_is_json_with_the_keys_of_the_contract(capsys, file):
    code, out, _ = run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "-o", "json")
    plan = json.loads(out)
    assert (code, plan["apiVersion"], plan["kind"], plan["outcome"]) == (0, "islander.dev/v1", "MigPlan", "plan")
    assert {"demand", "gpus", "unmet", "nodeLabels", "files", "warnings"} <= plan.keys()
    assert {(d["profile"], d["count"], d["source"]) for d in plan["demand"]} == {
        ("1g.10gb", 9, "--profile"),
        ("3g.40gb", 1, "--profile"),
    }
    for gpu in plan["gpus"]:
        assert {"node", "index", "product", "before", "after", "keeps", "drains", "created"} <= gpu.keys()
        assert all(instance.keys() == {"profile", "start"} for instance in gpu["after"])
    assert list(plan["nodeLabels"]) == ["b"]
    assert read_parted(plan["files"]["mig-parted.yaml"])[1] == []


def test_yaml_says_what_json_says(capsys, file):
    _, as_json, _ = run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "-o", "json")
    _, as_yaml, _ = run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "-o", "yaml")
    assert YAML(typ="safe").load(as_yaml)["files"] == json.loads(as_json)["files"]


def test_the_files_are_written_ready_for_kubectl(capsys, file, tmp_path):
    folder = tmp_path / "deep" / "layouts"
    code, _, err = run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "-o", "yaml", "--output-dir", str(folder))
    assert code == 0
    assert {path.name for path in folder.iterdir()} == {
        "clusterpolicy-patch.yaml",
        "kustomization.yaml",
        "mig-parted.yaml",
        "node-labels.yaml",
    }
    assert f"kubectl apply -k {folder}" in err
    kustomization = YAML(typ="safe").load(folder / "kustomization.yaml")
    (generated,) = kustomization["configMapGenerator"]
    assert generated["files"] == ["config.yaml=mig-parted.yaml"]
    assert all((folder / name).exists() for name in kustomization["resources"])
    policy = YAML(typ="safe").load(folder / "clusterpolicy-patch.yaml")
    assert policy["spec"]["migManager"]["config"]["name"] == generated["name"]
    (node,) = YAML(typ="safe").load_all(folder / "node-labels.yaml")
    assert (
        node["metadata"]["labels"]["nvidia.com/mig.config"]
        in YAML(typ="safe").load(folder / "mig-parted.yaml")["mig-configs"]
    )


def test_a_directory_that_cannot_be_made_is_named(capsys, file, tmp_path):
    (tmp_path / "taken").write_text("")
    code, _, err = run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "--output-dir", str(tmp_path / "taken" / "x"))
    assert (code, "--output-dir" in err, err.count("\n")) == (1, True, err.count("\n"))
    assert "Not a directory" in err


def test_people_read_a_headline_the_demand_and_the_gpus(capsys, file):
    _, out, err = run(capsys, "plan", "mig", "--snapshot", file, *FLAGS)
    lines = out.splitlines()
    assert lines[0] == "2 GPUs on 1 node are cut: 10 of 10 instances will be there."
    assert lines[1] == "Proved: no other choice of GPUs and layouts is better."
    assert "b     7     whole   5 x 1g.10gb            -" in out or "5 x 1g.10gb" in out
    assert "warning: MIG instances have no peer-to-peer" in err


def test_wide_shows_places_labels_and_objectives(capsys, file):
    _, out, _ = run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "-o", "wide")
    assert "3g.40gb@4" in out
    assert "GPUs in islands broken" in out
    assert "nvidia.com/mig.config" in out


def test_csv_has_a_row_for_each_gpu_that_changes(capsys, file):
    _, out, _ = run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["NODE"], row["GPU"]) for row in rows] == [("b", "6"), ("b", "7")]


def test_markdown_is_ready_for_a_merge_request(capsys, file):
    _, out, _ = run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "-o", "markdown")
    assert out.startswith("**2 GPUs on 1 node are cut")
    assert "| NODE | GPUS | BEFORE | AFTER | DRAIN FIRST |" in out


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--profile", "1g.10gb=1"), 2),
        (("--profile", "1g.10gb=900"), 3),
        ((), 0),
    ],
)
def test_the_detailed_exit_code_tells_what_is_proposed(capsys, file, flags, code):
    assert run(capsys, "plan", "mig", "--snapshot", file, *flags, "--detailed-exitcode")[0] == code
    assert run(capsys, "plan", "mig", "--snapshot", file, *flags)[0] == 0


def test_what_is_missing_is_told_with_its_code(capsys, file):
    _, out, _ = run(capsys, "plan", "mig", "--snapshot", file, "--profile", "1g.10gb=900")
    assert "NOT MET" in out
    assert "ISLAND_NEEDED" in out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--profile", "1g.10gb"), ""),
        (("--profile", "many"), "is no MIG profile"),
        (("--profile", "1g.10gb=x"), "not PROFILE=COUNT"),
        (("--profile", "9g.10gb=1"), "no product has a profile 9g.10gb"),
        (("--demand", "no-such.yaml"), "no-such.yaml: No such file"),
        (("--nodes", "=x"), "selector '=x'"),
        (("--time-limit", "soon"), "--time-limit 'soon'"),
        (("--strategy", "both"), "--strategy"),
    ],
)
def test_a_mistake_is_one_line(capsys, file, flags, words):
    code, _, err = run(capsys, "plan", "mig", "--snapshot", file, "-q", *flags)
    if words:
        assert (code, err.count("\n")) == (1, 1)
        assert words in err
    else:
        assert code == 0


def test_check_judges_the_plan_that_was_written(capsys, file, tmp_path):
    plan = str(tmp_path / "plan.json")
    run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "--output-file", plan)
    code, out, _ = run(capsys, "check", plan, "--snapshot", file)
    assert code == 0
    assert "holds: 2 GPUs of 1 node cut anew, 0 pods drained first" in out


def test_check_ends_with_4_when_a_gpu_is_used_meanwhile(capsys, file, tmp_path):
    plan = str(tmp_path / "plan.yaml")
    run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "--output-file", plan)
    now = tmp_path / "now.json"
    used = dict.fromkeys(range(8), "default/big")
    nodes = [a_mig_node("a"), a_mig_node("b", used=used)]
    now.write_bytes(encode_snapshot(a_snapshot(*nodes, a_pod("big", gpus=8, node="b"))))
    code, out, _ = run(capsys, "check", plan, "--snapshot", str(now), "-o", "json")
    verdict = json.loads(out)
    assert (code, verdict["valid"]) == (4, False)
    assert {violation["code"] for violation in verdict["violations"]} == {"BARE_POD"}


def test_a_plan_that_was_edited_is_told(capsys, file, tmp_path):
    plan = tmp_path / "plan.json"
    run(capsys, "plan", "mig", "--snapshot", file, *FLAGS, "--output-file", str(plan))
    plan.write_text(plan.read_text().replace('"goal": "9 x', '"goal": "8 x'))
    _, _, err = run(capsys, "check", str(plan), "--snapshot", file)
    assert "was changed after it was made" in err


def test_help_ends_with_two_examples(capsys):
    _, out, _ = run(capsys, "plan", "mig", "--help")
    assert out.rstrip().splitlines()[-2].strip().startswith("islander plan mig --profile")
    assert out.rstrip().splitlines()[-1].strip().startswith("islander plan mig --demand")


def test_a_demand_file_is_planned_for(capsys, file, tmp_path):
    demand = tmp_path / "demand.yaml"
    demand.write_text("demand: [{profile: 3g.40gb, count: 1}]\nmodels: [{name: embedder, memoryGiB: 8, replicas: 2}]\n")
    _, out, _ = run(capsys, "plan", "mig", "--snapshot", file, "--demand", str(demand), "-o", "json")
    plan = json.loads(out)
    assert [(d["source"], d["profile"], d["met"]) for d in plan["demand"]] == [
        ("model embedder", "1g.10gb", 2),
        ("demand file", "3g.40gb", 1),
    ]


def test_pods_of_a_dump_are_the_demand_by_default(capsys, tmp_path):
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(a_snapshot(a_mig_node(), a_mig_pod("m", "2g.20gb"))))
    _, out, _ = run(capsys, "plan", "mig", "--snapshot", str(path), "-o", "json")
    assert [(d["profile"], d["source"], d["pods"]) for d in json.loads(out)["demand"]] == [
        ("2g.20gb", "pending pods", ["default/m"])
    ]


def test_judging_a_plan_loads_no_solver(file, tmp_path):
    plan = str(tmp_path / "plan.json")
    assert main(["plan", "mig", "--snapshot", file, *FLAGS, "-q", "--output-file", plan]) == 0
    program = (
        "import sys; from planner.cli import main; code = main(sys.argv[1:]); "
        "assert not any(name.partition('.')[0] == 'ortools' for name in sys.modules); sys.exit(code)"
    )
    words = [sys.executable, "-c", program, "check", plan, "--snapshot", file]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_before_any_plan_ends_with_130(capsys, file, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.mig.planning.plan_mig", interrupted)
    code, out, err = run(capsys, "plan", "mig", "--snapshot", file)
    assert (code, out) == (130, "")
    assert "interrupted before any plan was written" in err
