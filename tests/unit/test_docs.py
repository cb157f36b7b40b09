"""The docs say what the code does: generated pages are fresh, links lead somewhere, names exist."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from docs.generate import PAGES, ROOT, page
from extender.__main__ import assemble
from extender.config import parse_config
from extender.web import create_app
from islander.cluster import names
from islander.cluster.gpu_report import parse_gpu_report
from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.reasons import MOVE_REASONS, REASONS, Code, MoveCode
from planner.quota.finding_codes import FINDINGS
from tests.builders import a_node, a_pod, a_snapshot, pod_object

FOLDER = ROOT / "docs"
PAGES_WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(FOLDER.glob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(name):
    assert (ROOT / name).read_text() == page(name), "run `make docs`"


def test_every_code_has_a_sentence_a_cause_and_a_cure_in_the_docs():
    text = (FOLDER / "codes.md").read_text()
    documented = re.findall(r"^### `([A-Z_]+)`$", text, re.MULTILINE)
    assert documented == [code.value for code in (*Code, *MoveCode, *FINDINGS)]
    for reason in (*REASONS.values(), *MOVE_REASONS.values(), *FINDINGS.values()):
        assert all(part in text for part in (reason.sentence, reason.cause, reason.cure))


def test_a_sentence_for_the_scheduler_names_no_number_and_no_object():
    # kube-scheduler groups equal sentences and counts them; a number in one would make each node a group.
    for code, reason in REASONS.items():
        assert not re.search(r"\d|\{", reason.sentence), code


@pytest.mark.parametrize("path", PAGES_WRITTEN, ids=lambda path: path.name)
def test_a_relative_link_leads_to_a_file(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES_WRITTEN, ids=lambda path: path.name)
def test_a_file_that_a_page_names_is_there(path):
    text = path.read_text()
    named = re.findall(r"(?<![\w./-])(?:docs|deploy|tests|islander|extender|planner)/[\w./+-]*\w", text)
    for name in named:
        # Images are written alike (islander/...); a file's name has a dot, and only packages lend their name to images.
        if "." in Path(name).name or not (ROOT / name.split("/")[0] / "__init__.py").exists():
            assert (ROOT / name).exists(), name


@pytest.mark.parametrize("path", PAGES_WRITTEN, ids=lambda path: path.name)
def test_an_annotation_that_a_page_names_is_one_that_is_read(path):
    known = {value for value in vars(names).values() if isinstance(value, str) and value.startswith(f"{names.DOMAIN}/")}
    for key in re.findall(rf"{re.escape(names.DOMAIN)}/[a-z-]+", path.read_text()):
        assert key in known or key == names.API_VERSION.rstrip("0123456789"), key


def test_the_example_configuration_is_accepted():
    example = re.search(r"```yaml\n(.+?)```", (FOLDER / "configuration.md").read_text(), re.DOTALL)
    assert example
    assert parse_config(example[1], "docs/configuration.md").tls is not None


def test_the_example_report_is_understood_without_a_warning():
    example = re.search(r"```json\n(.+?)```", (FOLDER / "hardware.md").read_text(), re.DOTALL)
    assert example
    report, warnings = parse_gpu_report(example[1])
    assert report is not None
    assert len(report.gpus) == 4
    assert warnings == ()


def test_a_page_names_only_targets_that_the_makefile_has():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {
        "demo",
        "demo-cluster",
        "test",
        "test-fast",
        "test-kwok",
        "test-matrix",
        "check",
        "bench",
        "docs",
    } <= targets
    for path in PAGES_WRITTEN:
        assert set(re.findall(r"`make ([a-z-]+)`", path.read_text())) <= targets, path.name


def documented_metrics():
    rows = re.findall(r"^\| `(islander_\w+)` \| (\w+) \| (.*?) \|", (FOLDER / "metrics.md").read_text(), re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


@pytest.fixture
def exposed_metrics(tmp_path):
    """What an extender exposes after it has answered a filter call that refused a node."""
    snapshot = a_snapshot(a_node("n1", gpus=2), a_pod("waits", gpus=4))
    (tmp_path / "snapshot.json").write_bytes(encode_snapshot(snapshot))
    config = parse_config(f"snapshotFile: {tmp_path / 'snapshot.json'}", "test")
    client = create_app(assemble(config).services, max_body_bytes=2**20).test_client()
    assert client.post("/filter", json={"Pod": pod_object("waits", gpus=4), "NodeNames": ["n1"]}).status_code == 200
    families = text_string_to_metric_families(client.get("/metrics").text)
    # The client library adds the time of creation to each counter and histogram.
    return [family for family in families if not family.name.endswith("_created")]


def test_every_metric_is_documented_with_its_type_and_labels(exposed_metrics):
    documented = documented_metrics()
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name: family for family in exposed_metrics
    }
    assert documented.keys() == exposed.keys()
    for name, family in exposed.items():
        kind, labels = documented[name]
        assert kind == family.type, name
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == labels, sample


def test_a_query_of_the_metrics_page_uses_metrics_that_are_there():
    _, _, advice = (FOLDER / "metrics.md").read_text().partition("## What to watch")
    queried = set(re.findall(r"islander_\w+", advice))
    assert queried
    assert {name.removesuffix("_bucket") for name in queried} <= documented_metrics().keys()
