"""The review page in a real browser: its numbers are the plan's, it loads nothing, it fits paper and phone."""

import json

import pytest

from islander.cluster.snapshot_json import encode_snapshot
from planner.cli import main
from planner.demo import bundled
from tests.browser.pages import ARTIFACTS, a_browser, contrast, number_of, texts

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The demo's cluster, the plan that makes room there, and its report."""
    path = tmp_path_factory.mktemp("report")
    (path / "cluster.json").write_bytes(encode_snapshot(bundled("four-nodes.yaml").snapshot))
    source = ["--snapshot", str(path / "cluster.json"), "-q"]
    assert main(["plan", "moves", "-o", "json", "--output-file", str(path / "plan.json"), *source]) == 0
    assert main(["report", str(path / "plan.json"), "--output-file", str(path / "report.html"), *source]) == 0
    return path


@pytest.fixture(scope="module")
def plan(folder):
    return json.loads((folder / "plan.json").read_text())


@pytest.fixture(scope="module")
def browser(folder, tmp_path_factory):
    """A browser with the report open."""
    with a_browser(tmp_path_factory.mktemp("profile")) as found:
        found.set_view(1280, 900)
        found.open((folder / "report.html").as_uri())
        yield found


def test_the_numbers_on_the_page_are_those_of_the_plan_file(browser, plan):
    assert texts(browser, "#plan-id") == [plan["id"]]
    assert texts(browser, "#cost-steps") == [str(plan["cost"]["steps"])]
    assert texts(browser, "#cost-interrupted") == [str(plan["cost"]["replicasInterrupted"])]
    assert float(texts(browser, "#cost-gpu-minutes")[0]) == plan["cost"]["gpuMinutes"]
    asked = len(plan["admits"]) + len(plan["unadmitted"])
    assert texts(browser, "#admitted") == [f"{len(plan['admits'])} of {asked}"]


def test_the_outlook_is_that_of_the_plan_file(browser, plan):
    rows = [row.split("\t") for row in texts(browser, "#outlook tbody tr")]
    shown = {name: (before, after) for name, before, after in rows}
    for shape, before in plan["before"]["placeable"].items():
        assert shown[f"replicas of {shape} that fit"] == (str(before), str(plan["after"]["placeable"][shape]))
    largest = (str(plan["before"]["largestFreeIsland"]), str(plan["after"]["largestFreeIsland"]))
    assert shown["largest free island"] == largest


def test_every_step_is_a_row_with_its_values(browser, plan):
    rows = [row.split("\t") for row in texts(browser, "#step-table tbody tr")]
    assert len(rows) == len(plan["steps"])
    for row, step in zip(rows, plan["steps"], strict=True):
        told = [step["id"], str(step["wave"]), step["pod"], str(step["gpus"]), step["from"], step["to"]]
        assert row[:6] == told


def test_the_drawings_hold_as_many_gpus_as_the_plan_moves(browser, plan):
    moved = sum(step["gpus"] for step in plan["steps"])
    admitted = sum(admission["gpus"] for admission in plan["admits"])
    counts = {fate: number_of(browser, f".nodes g.{fate} rect") for fate in ("leaves", "arrives", "admitted")}
    assert counts == {"leaves": moved, "arrives": moved, "admitted": admitted}
    assert number_of(browser, ".graph g.step") == len(plan["steps"])


def test_hovering_a_cell_shows_the_replica(browser, plan):
    titles = browser.run("[...document.querySelectorAll('.nodes g.leaves > title')].map(e => e.textContent)")
    assert set(titles) == {f"{step['pod']}, {step['gpus']} GPUs, moves away" for step in plan["steps"]}


def test_the_page_asks_for_nothing_and_complains_of_nothing(browser, folder):
    outside = [url for url in browser.requests if url not in ((folder / "report.html").as_uri(), "data:,")]
    assert outside == []
    assert browser.complaints == []
    assert browser.run("performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length") == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_the_ground(browser, dark):
    browser.set_view(1280, 900, dark=dark)
    ground, text, soft = browser.run(
        "['backgroundColor', 'color'].map(p => getComputedStyle(document.body)[p])"
        ".concat(getComputedStyle(document.querySelector('.soft')).color)"
    )
    assert contrast(ground, text) >= 7
    assert contrast(ground, soft) >= 4.5
    ARTIFACTS.mkdir(exist_ok=True)
    browser.screenshot(ARTIFACTS / f"report-{'dark' if dark else 'light'}.png")


def test_a_phone_scrolls_in_one_direction_only(browser):
    browser.set_view(390, 844, phone=True)
    wide, view = browser.run("[document.documentElement.scrollWidth, window.innerWidth]")
    assert (wide, view) == (390, 390)
    browser.screenshot(ARTIFACTS / "report-phone.png")


def test_paper_is_white_and_shows_all(browser):
    browser.set_view(794, 1123, dark=True, media="print")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    cut = browser.run(
        "[...document.querySelectorAll('.scroll, .nodes')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    )
    assert cut == 0
    assert browser.pdf().startswith(b"%PDF-")
    browser.set_view(1280, 900)
