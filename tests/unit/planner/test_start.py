"""What a command loads before it answers: the start of the process is most of the time of a small plan."""

import json
import subprocess
import sys

import pytest

from islander.cluster.snapshot_json import encode_snapshot
from tests.plan_builders import move_story

# Packages that cost much to load and that no plan from a file needs.
NOT_FOR_A_PLAN = (
    "pandas",
    "kubernetes",
    "networkx",
    "urllib3",
    "requests",
    "urllib.request",
    "jinja2",
    "flask",
    "planner.anonymize",
)
# A plan loads about 630 modules; once they were 1,490.
MOST_MODULES = 750

COMMAND = """
import json, sys
{before}
from planner.cli import main
code = main(sys.argv[1:])
print(json.dumps({{"code": code, "modules": sorted(sys.modules)}}), file=sys.stderr)
"""

SERIES = """
from planner.models.light_ortools import cp_model
import sys
assert "pandas" not in sys.modules
import pandas
series = cp_model.CpModel().new_int_var_series("x", pandas.Index(["a", "b"]), 0, 5)
assert isinstance(series, pandas.Series)
assert list(series.index) == ["a", "b"]
"""

MORE_OF_PANDAS = """
import sys
from planner.models.light_ortools import pandas_later
with pandas_later():
    import pandas
    frame = pandas.DataFrame
assert sys.modules["pandas"].DataFrame is frame
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "cluster.json"
    path.write_bytes(encode_snapshot(move_story()))
    return str(path)


def run(program, *words):
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def command(*words, before=""):
    done = run(COMMAND.format(before=before), *words)
    return done.stdout, json.loads(done.stderr.splitlines()[-1])


def test_a_plan_from_a_file_loads_no_more_than_it_needs(file):
    _, found = command("plan", "moves", "--snapshot", file)
    assert found["code"] == 0
    assert "ortools.sat.python.cp_model" in found["modules"]
    assert set(NOT_FOR_A_PLAN).isdisjoint(found["modules"])
    assert len(found["modules"]) < MOST_MODULES


def test_a_plan_is_the_same_where_pandas_is_loaded(file):
    words = ("plan", "moves", "--snapshot", file, "-o", "json")
    without, _ = command(*words)
    with_pandas, found = command(*words, before="import pandas")
    assert "pandas" in found["modules"]
    assert json.loads(without)["id"] == json.loads(with_pandas)["id"]


@pytest.mark.parametrize("program", [SERIES, MORE_OF_PANDAS])
def test_pandas_is_there_for_whoever_needs_it(program):
    run(program)
