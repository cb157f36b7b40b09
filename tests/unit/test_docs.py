"""The docs say what the code does: generated pages are fresh, links lead somewhere, names exist."""

import re
from pathlib import Path

import pytest

from docs.generate import FOLDER, PAGES, page
from extender.config import parse_config
from islander.cluster import names
from islander.cluster.gpu_report import parse_gpu_report
from islander.policy.reasons import REASONS, Code

ROOT = FOLDER.parent
PAGES_WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(FOLDER.glob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(name):
    assert (FOLDER / name).read_text() == page(name), "run `make docs`"


def test_every_code_has_a_sentence_a_cause_and_a_cure_in_the_docs():
    text = (FOLDER / "codes.md").read_text()
    documented = re.findall(r"^### `([A-Z_]+)`$", text, re.MULTILINE)
    assert documented == [code.value for code in Code]
    for reason in REASONS.values():
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


def test_the_readme_names_every_target_of_the_makefile_that_it_promises():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in PAGES_WRITTEN:
        assert set(re.findall(r"`make ([a-z-]+)`", path.read_text())) <= targets, path.name
