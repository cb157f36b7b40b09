"""A plan survives its file; whatever is no plan is told in one line."""

import gzip
import io
import json

import pytest

from planner.errors import PlannerError
from planner.output import document_of, json_text
from planner.plan_file import read_plan, write_plan
from tests.plan_builders import a_plan

DOCUMENT = document_of(a_plan())


@pytest.mark.parametrize("name", ["plan.json", "plan.yaml", "plan.yml", "plan", "plan.json.gz", "plan.yaml.gz"])
def test_a_plan_is_read_as_it_was_written(tmp_path, name):
    plan = a_plan()
    write_plan(plan, tmp_path / name)
    read = read_plan(str(tmp_path / name))
    assert read == plan
    assert read.with_id().id == plan.id


def test_the_name_of_the_file_says_its_format(tmp_path):
    write_plan(a_plan(), tmp_path / "plan.yaml")
    write_plan(a_plan(), tmp_path / "plan.json")
    assert (tmp_path / "plan.yaml").read_text().startswith("apiVersion: islander.dev/v1\n")
    assert json.loads((tmp_path / "plan.json").read_text())["kind"] == "MovePlan"


def test_steps_say_from_and_to_in_the_file(tmp_path):
    write_plan(a_plan(), tmp_path / "plan.json")
    (step,) = json.loads((tmp_path / "plan.json").read_text())["steps"]
    assert (step["from"], step["to"], step["dependsOn"]) == ("a", "b", [])


def test_a_plan_comes_from_stdin(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json_text(DOCUMENT).encode())))
    assert read_plan("-") == a_plan()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a plan"),
        (b"\x7fELF\x02\x01\xff\xfe", "not a plan: the file is no text"),
        (b'{"kind": "MovePlan", ', "broken JSON"),
        (b"kind: [MovePlan", "neither JSON nor YAML"),
        (b"[" * 100_000, "not a plan: maximum recursion depth"),
        (b"a: " + b"[" * 5000, "not a plan: maximum recursion depth"),
        (b"a: 2020-13-45", "not a plan: month must be"),
        (b"[]", "not a plan"),
        (b'{"steps": []}', "not a plan"),
        (b'{"apiVersion": "v1", "kind": "List", "items": []}', "'List' is no kind of plan"),
        (b'{"apiVersion": "islander.dev/v9", "kind": "MovePlan"}', "apiVersion 'islander.dev/v9'"),
        (b'{"apiVersion": "islander.dev/v1", "kind": "MovePlan"}', "not a whole MovePlan"),
        (gzip.compress(json_text(DOCUMENT).encode())[:-20], "cut off or broken"),
        (json_text({**DOCUMENT, "steps": [{**DOCUMENT["steps"][0], "gpus": "two"}]}).encode(), "$.steps[0].gpus"),
        (json_text({**DOCUMENT, "goal": "x\x1b[31m"}).encode(), "control characters"),
        (json_text({**DOCUMENT, "goal": "x\u202ey"}).encode(), "control characters"),
    ],
)
def test_a_file_that_is_no_plan_is_told_in_one_line_with_its_name(tmp_path, content, words):
    path = tmp_path / "plan"
    path.write_bytes(content)
    with pytest.raises(PlannerError) as told:
        read_plan(str(path))
    assert str(told.value).startswith(f"{path}: ")
    assert words in str(told.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PlannerError, match="no-such: No such file"):
        read_plan(str(tmp_path / "no-such"))


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(PlannerError, match=r"--output-file .*no-such/plan.json: No such file"):
        write_plan(a_plan(), tmp_path / "no-such" / "plan.json")
