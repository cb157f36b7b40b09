import csv
import gzip
import io
import json
import os
import shlex
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from islander.cluster.snapshot_json import decode_snapshot, encode_snapshot
from planner.cli import main
from tests.builders import a_node, a_pod, a_snapshot, node_object, pod_object

VERBS = ("status", "explain", "plan", "check", "report", "snapshot", "schema", "demo", "version")


@pytest.fixture
def file(tmp_path):
    """A cluster of two nodes: `full` has one GPU free, `half` four; a pod of four waits."""
    snapshot = a_snapshot(
        a_node("full", labels={"pool": "x"}),
        a_node("half"),
        a_pod("big", node="full", gpus=7, namespace="chat"),
        a_pod("small", node="half", gpus=4, namespace="chat"),
        a_pod("waits", gpus=4, tp=4, namespace="chat"),
    )
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(snapshot))
    return str(path)


def run(capsys, *arguments):
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_status_prints_the_document_of_its_kind_as_json(capsys, file):
    code, out, err = run(capsys, "status", "--snapshot", file, "-o", "json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert list(document)[:3] == ["apiVersion", "kind", "warnings"]
    assert (document["apiVersion"], document["kind"]) == ("islander.dev/v1", "ClusterStatus")
    assert document["totals"]["free"] == 5
    assert document["placeable"]["4"] == 1


def test_yaml_says_what_json_says(capsys, file):
    _, as_json, _ = run(capsys, "status", "--snapshot", file, "-o", "json")
    _, as_yaml, _ = run(capsys, "status", "--snapshot", file, "-o", "yaml")
    assert YAML(typ="safe").load(as_yaml) == json.loads(as_json)


def test_status_for_people_draws_the_nodes(capsys, file):
    code, out, _ = run(capsys, "status", "--snapshot", file)
    assert code == 0
    assert "free 5" in out
    assert any(line.startswith("full  [AAAAAAA") for line in out.splitlines())
    assert "\x1b" not in out, "no colour in a pipe"


def test_csv_has_one_row_per_node(capsys, file):
    _, out, _ = run(capsys, "status", "--snapshot", file, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["NODE"], row["FREE"]) for row in rows] == [("full", "1"), ("half", "4")]


def test_markdown_is_a_table(capsys, file):
    _, out, _ = run(capsys, "status", "--snapshot", file, "-o", "markdown", "--no-headers")
    assert all(line.startswith("| ") for line in out.splitlines())
    assert "NODE" not in out


def test_wide_names_the_pods_of_each_node(capsys, file):
    _, out, _ = run(capsys, "status", "--snapshot", file, "-o", "wide")
    assert "chat/big(7)" in out


def test_a_selector_narrows_the_nodes(capsys, file):
    _, out, _ = run(capsys, "status", "--snapshot", file, "-o", "json", "-l", "pool=x")
    assert [node["name"] for node in json.loads(out)["nodes"]] == ["full"]


def test_a_namespace_narrows_the_pods_that_wait(capsys, file):
    _, in_chat, _ = run(capsys, "status", "--snapshot", file, "-o", "json", "-n", "chat")
    _, in_other, _ = run(capsys, "status", "--snapshot", file, "-o", "json", "-n", "other")
    assert [pod["pod"] for pod in json.loads(in_chat)["pending"]] == ["chat/waits"]
    assert json.loads(in_other)["pending"] == []


def test_output_is_the_same_every_time(capsys, file):
    assert run(capsys, "status", "--snapshot", file) == run(capsys, "status", "--snapshot", file)


def test_explain_answers_node_by_node(capsys, file):
    code, out, _ = run(capsys, "explain", "chat/waits", "--snapshot", file, "-o", "json")
    document = json.loads(out)
    verdicts = {node["name"]: (node["verdict"], node["code"]) for node in document["nodes"]}
    assert code == 0
    assert document["kind"] == "PodExplanation"
    assert verdicts == {"full": ("impossible", "NOT_ENOUGH_FREE_GPUS"), "half": ("guaranteed", "")}


def test_explain_takes_the_namespace_from_a_flag(capsys, file):
    assert run(capsys, "explain", "waits", "-n", "chat", "--snapshot", file)[0] == 0


def test_explain_puts_the_best_node_first_and_gives_the_cure_of_the_others(capsys, file):
    _, out, _ = run(capsys, "explain", "chat/waits", "--snapshot", file)
    lines = out.splitlines()
    assert lines[0].startswith("chat/waits needs 4 GPUs on one node, joined by NVLink where possible (TP 4")
    assert lines[1] == "1 of 2 nodes can take it"
    assert [line.split()[0] for line in lines[4:6]] == ["half", "full"]
    assert "Wait, move a pod away" in out


def test_explain_names_the_closest_node_when_none_fits(capsys, file, tmp_path):
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 6}}}]}\n"
    )
    code, out, _ = run(capsys, "explain", "-f", str(manifest), "--snapshot", file)
    assert code == 0
    assert "Closest is half: it would do if chat/small (4 GPUs) ran elsewhere." in out.splitlines()


def test_a_pod_that_asks_for_no_gpu_is_explained_too(capsys, tmp_path):
    path = tmp_path / "c.json"
    path.write_bytes(encode_snapshot(a_snapshot(a_node("n"), a_pod("web", gpus=0))))
    code, out, _ = run(capsys, "explain", "default/web", "--snapshot", str(path))
    assert code == 0
    assert out.startswith("default/web asks for no GPU")


def test_what_kubectl_prints_is_read_from_stdin(capsys, monkeypatch):
    dump = {"kind": "List", "apiVersion": "v1", "items": [node_object("n1"), pod_object("p1", gpus=3, node="n1")]}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(dump).encode())))
    _, out, _ = run(capsys, "status", "--snapshot", "-", "-o", "json")
    assert json.loads(out)["totals"]["used"] == 3


@pytest.mark.parametrize("name", ["copy.json", "copy.json.gz"])
def test_snapshot_writes_what_every_verb_reads(capsys, file, tmp_path, name):
    copy = tmp_path / name
    assert run(capsys, "snapshot", "--snapshot", file, "--output-file", str(copy))[0] == 0
    assert run(capsys, "status", "--snapshot", str(copy)) == run(capsys, "status", "--snapshot", file)
    assert (copy.read_bytes()[:2] == b"\x1f\x8b") is name.endswith(".gz")


def test_snapshot_without_a_file_goes_to_stdout(capfdbinary, file):
    assert main(["snapshot", "--snapshot", file]) == 0
    out, err = capfdbinary.readouterr()
    assert [node.name for node in decode_snapshot(out).nodes] == ["full", "half"]
    assert err == b""


def test_an_anonymised_snapshot_names_nobody_and_reads_the_same(capsys, file, tmp_path):
    copy = tmp_path / "copy.json"
    assert run(capsys, "snapshot", "--anonymize", "--snapshot", file, "--output-file", str(copy))[0] == 0
    text = copy.read_text()
    assert all(name not in text for name in ("full", "half", "chat", "big", "small", "waits", "some/model"))
    before, after = (
        json.loads(run(capsys, "status", "--snapshot", path, "-o", "json")[1]) for path in (file, str(copy))
    )
    assert (before["totals"], before["placeable"]) == (after["totals"], after["placeable"])


def test_warnings_go_to_stderr_unless_quiet(capsys, tmp_path):
    path = tmp_path / "nodes.json.gz"
    path.write_bytes(gzip.compress(json.dumps(node_object("n1")).encode()))
    _, out, err = run(capsys, "status", "--snapshot", str(path), "-o", "json")
    assert "warning: " in err
    assert json.loads(out)["warnings"]
    assert run(capsys, "status", "--snapshot", str(path), "-o", "json", "-q")[2] == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status", "--snapshot", "/no/such/file"], "/no/such/file"),
        (["status", "--nonsense"], "--nonsense"),
        (["status", "-o", "xml"], "xml"),
        (["nonsense"], "nonsense"),
        (["explain"], "NAMESPACE/POD"),
        (["schema", "Nonsense"], "ClusterStatus"),
        (["status", "--extender", "ftp://x"], "not a URL"),
        (["status", "--extender", "http://127.0.0.1:9"], "is the extender running there?"),
        (["status", "--kubeconfig", "/no/such/kubeconfig"], "--snapshot"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_1(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (1, "")
    assert err.startswith("islander: ")
    assert err.count("\n") == 1
    assert words in err
    assert "Traceback" not in err


def test_an_unknown_pod_is_named_with_those_that_are_called_alike(capsys, file):
    code, _, err = run(capsys, "explain", "other/waits", "--snapshot", file)
    assert code == 1
    assert err == "islander: no pod other/waits; there is chat/waits\n"


def test_a_bug_is_one_line_too(capsys, file, monkeypatch):
    def broken(*_):
        raise RuntimeError("boom")

    monkeypatch.setattr("planner.verbs.cluster_status", broken)
    code, _, err = run(capsys, "status", "--snapshot", file)
    assert code == 1
    assert err == "islander: unexpected RuntimeError: boom. This is a bug; -vv shows where.\n"


def test_an_interrupted_run_ends_with_130(capsys, file, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.verbs.cluster_status", interrupted)
    assert run(capsys, "status", "--snapshot", file)[0] == 130


def test_a_reader_that_has_enough_is_no_error(file):
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed_pipe:
        command = [sys.executable, "-m", "planner", "status", "--snapshot", file]
        done = subprocess.run(command, stdout=closed_pipe, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def outside(arguments, redirection="", **environment):
    """Run the command line as a process of its own, through a shell that changes its streams."""
    command = f"exec {shlex.join([sys.executable, '-m', 'planner', *arguments])} {redirection}"
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("verb", [["status"], ["status", "-o", "json"], ["snapshot"]])
def test_a_full_disk_is_an_error_in_words_and_no_bug(file, verb):
    done = outside([*verb, "--snapshot", file], ">/dev/full")
    assert (done.returncode, done.stderr) == (1, "islander: input or output: No space left on device\n")


def test_a_closed_stdout_is_no_bug(file):
    done = outside(["status", "--snapshot", file], ">&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stdin_is_an_empty_one():
    done = outside(["status", "--snapshot", "-"], "<&-")
    assert done.returncode == 1
    assert done.stderr.startswith("islander: stdin: is empty")


def test_a_terminal_that_claims_no_width_still_gets_the_table(file):
    done = outside(["status", "--snapshot", file], COLUMNS="0")
    assert done.stdout.splitlines()[0].startswith("nodes 2 ")


def test_colour_by_force_brings_no_spinner_into_a_pipe_and_cuts_no_line(file):
    done = outside(["status", "-o", "wide", "--snapshot", file], FORCE_COLOR="1", COLUMNS="40")
    assert (done.returncode, done.stderr) == (0, "")
    assert "…" not in done.stdout


def test_a_character_that_stdout_cannot_carry_is_replaced(tmp_path):
    path = tmp_path / "c.json"
    path.write_bytes(encode_snapshot(a_snapshot(a_node("nœud"), a_pod("p", node="nœud"))))
    done = outside(["status", "--snapshot", str(path), "-o", "json"], PYTHONIOENCODING="ascii")
    assert done.stderr == ""
    assert json.loads(done.stdout)["nodes"][0]["name"] == "n?ud"


@pytest.mark.parametrize("verb", [*VERBS, "plan moves"])
def test_help_of_every_verb_ends_with_two_examples(capsys, verb):
    code, out, _ = run(capsys, *verb.split(), "--help")
    assert code == 0
    _, _, examples = out.partition("Examples:\n")
    lines = examples.strip().splitlines()
    assert len(lines) == 2
    assert all(f"islander {verb}" in line for line in lines)


def test_every_verb_is_there_and_none_that_is_not(capsys):
    _, out, _ = run(capsys, "--help")
    listed = [line.split()[0] for line in out.partition("Commands:\n")[2].strip().splitlines()]
    assert tuple(listed) == VERBS


@pytest.mark.parametrize("group", [[], ["plan"]])
def test_without_a_verb_the_help_is_shown_as_people_read_it(capsys, group):
    code, out, err = run(capsys, *group)
    assert (code, out) == (1, "")
    assert err.startswith("Usage: islander")
    assert "\nCommands:\n" in err


def test_called_as_a_kubectl_plugin_it_says_so(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/kubectl-islander"])
    _, out, _ = run(capsys, "explain", "--help")
    assert "Usage: kubectl islander explain" in out
    assert "kubectl islander explain chat/" in out


@pytest.mark.parametrize("kind", ["ClusterStatus", "PodExplanation", "ClusterSnapshot"])
def test_schema_prints_a_json_schema(capsys, kind):
    _, listed, _ = run(capsys, "schema")
    _, out, _ = run(capsys, "schema", kind)
    assert kind in listed.split()
    assert json.loads(out)["$id"].endswith(f"/{kind}.json")


def test_version_is_the_installed_one(capsys):
    _, out, _ = run(capsys, "version", "-o", "json")
    assert run(capsys, "version")[1] == f"islander {json.loads(out)['version']}\n"
