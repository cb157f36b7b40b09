"""The pages of MIG layouts and quotas in a real browser: numbers of the plan file, no requests, paper and phone."""

import json

import pytest
import yaml

from islander.cluster.snapshot_json import encode_snapshot
from planner.cli import main
from tests.browser.pages import ARTIFACTS, a_browser, contrast, number_of, texts
from tests.report_clusters import mig_cluster, quota_cluster

pytestmark = pytest.mark.browser

_TEAMS = [
    {
        "name": name,
        "namespaces": [name],
        "clusterQueue": name,
        "cohort": "gpu",
        "shape": {"gpus": gpus, "island": True},
        "baselineReplicas": baseline,
    }
    for name, gpus, baseline in (("chat", 4, 3), ("search", 2, 2))
]
_FLAGS = {
    "mig": ["--allow-drain", "--profile", "1g.10gb=30", "--profile", "7g.80gb=3", "--profile", "3g.40gb=1"],
    "quota": ["--survive-nodes", "1", "--policy", "POLICY"],
}
KINDS = tuple(_FLAGS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """For each kind a cluster, its plan and the report, made by the command line."""
    path = tmp_path_factory.mktemp("reports")
    (path / "teams.yaml").write_text(yaml.safe_dump({"teams": _TEAMS, "reserve": {8: 1}}))
    for kind, snapshot in (("mig", mig_cluster()), ("quota", quota_cluster())):
        (path / f"{kind}-cluster.json").write_bytes(encode_snapshot(snapshot))
        source = ["--snapshot", str(path / f"{kind}-cluster.json"), "-q"]
        flags = [str(path / "teams.yaml") if flag == "POLICY" else flag for flag in _FLAGS[kind]]
        plan = str(path / f"{kind}.json")
        assert main(["plan", kind, *flags, "-o", "json", "--output-file", plan, *source]) == 0
        assert main(["report", plan, "--output-file", str(path / f"{kind}.html"), *source]) == 0
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with a_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def opened(browser, folder):
    """Opens the page of a kind, and gives its plan file."""

    def open_page(kind):
        browser.requests.clear()
        browser.complaints.clear()
        browser.set_view(1280, 900)
        browser.open((folder / f"{kind}.html").as_uri())
        return json.loads((folder / f"{kind}.json").read_text())

    return open_page


def rows(browser, table):
    return [row.split("\t") for row in texts(browser, f"{table} tbody tr")]


def test_the_numbers_of_mig_layouts_are_those_of_the_plan_file(browser, opened):
    plan = opened("mig")
    cost = plan["cost"]
    assert texts(browser, "#plan-id") == [plan["id"]]
    assert texts(browser, "#verdict strong") == ["The plan holds."]
    shown = {name: texts(browser, f"#cost-{name}") for name in ("gpus", "nodes", "drained", "destroyed")}
    assert shown == {
        "gpus": [str(cost["gpusChanged"])],
        "nodes": [str(cost["nodesChanged"])],
        "drained": [str(cost["podsDrained"])],
        "destroyed": [str(cost["instancesDestroyed"])],
    }
    demand = [[line["profile"], str(line["count"]), str(line["met"])] for line in plan["demand"]]
    assert [row[:3] for row in rows(browser, "#demand-table")] == demand
    assert rows(browser, "#label-table") == [[node, value] for node, value in sorted(plan["nodeLabels"].items())]


def test_the_instances_that_are_drawn_are_those_of_the_plan_file(browser, opened):
    plan = opened("mig")
    drawn = browser.run("[...document.querySelectorAll('.slots g.arrives > title')].map(e => e.textContent)")
    created = {instance["profile"] for gpu in plan["gpus"] for instance in gpu["created"]}
    assert {title.partition(": ")[2].partition(",")[0] for title in drawn} == created
    labels = browser.run("[...document.querySelectorAll('.slots g.arrives > text')].map(e => e.textContent)")
    assert len(labels) == len(drawn)


def test_a_label_is_not_wider_than_its_block(browser, opened):
    opened("mig")
    wide = browser.run(
        "[...document.querySelectorAll('.slots g, .placed g')].filter(g => g.querySelector('text') &&"
        " g.querySelector('text').getBBox().width > g.querySelector('rect').getBBox().width + 0.5)"
        ".map(g => g.querySelector('title').textContent)"
    )
    assert wide == []


def test_the_numbers_of_quotas_are_those_of_the_plan_file(browser, opened):
    plan = opened("quota")
    totals = plan["totals"]
    assert texts(browser, "#plan-id") == [plan["id"]]
    assert texts(browser, "#verdict strong") == ["The plan holds."]
    shown = [texts(browser, f"#total-{name}") for name in ("arithmetic", "placeable", "without-biggest", "outside")]
    keys = ("arithmetic", "placeable", "placeableWithoutBiggestNode", "heldOutside")
    assert shown == [[str(totals[key])] for key in keys]
    queues = [row for row in plan["queues"] if row["resource"] == "nvidia.com/gpu"]
    for row, quota in zip(rows(browser, "#quota-table"), queues, strict=True):
        old, new = quota["nominal"]["old"], quota["nominal"]["new"]
        assert row[0] == quota["name"]
        assert row[4] == (str(new) if old == new else f"{old} → {new} {new - old:+d}")
        assert row[9] == quota["why"]


def test_the_pods_that_are_drawn_are_those_of_the_witness(browser, opened):
    plan = opened("quota")
    assert plan["surviveNodes"] == 1
    bar = browser.run("document.querySelector('rect.placeable').getBoundingClientRect().width")
    whole = browser.run("document.querySelector('td.bar svg').getBoundingClientRect().width")
    most = max(int(text) for text in texts(browser, "#total-table td.number"))
    assert bar == pytest.approx(whole * plan["totals"]["placeable"] / most, rel=0.02)
    assert number_of(browser, ".placed g.admitted") > 0
    assert number_of(browser, ".placed g.withdrawn") == plan["totals"]["heldOutside"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_asks_for_nothing_and_complains_of_nothing(browser, opened, folder, kind):
    opened(kind)
    assert [url for url in browser.requests if url not in ((folder / f"{kind}.html").as_uri(), "data:,")] == []
    assert browser.complaints == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_the_ground(browser, opened, kind, dark):
    opened(kind)
    browser.set_view(1280, 900, dark=dark)
    ground, text, soft = browser.run(
        "['backgroundColor', 'color'].map(p => getComputedStyle(document.body)[p])"
        ".concat(getComputedStyle(document.querySelector('.soft')).color)"
    )
    assert contrast(ground, text) >= 7
    assert contrast(ground, soft) >= 4.5
    ARTIFACTS.mkdir(exist_ok=True)
    browser.screenshot(ARTIFACTS / f"report-{kind}-{'dark' if dark else 'light'}.png")


@pytest.mark.parametrize("kind", KINDS)
def test_a_phone_scrolls_in_one_direction_only(browser, opened, kind):
    opened(kind)
    browser.set_view(360, 800, phone=True)
    browser.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert browser.run("[document.documentElement.scrollWidth, window.innerWidth]") == [360, 360]
    ARTIFACTS.mkdir(exist_ok=True)
    browser.screenshot(ARTIFACTS / f"report-{kind}-phone.png")


@pytest.mark.parametrize("kind", KINDS)
def test_paper_is_white_and_shows_all(browser, opened, kind):
    opened(kind)
    browser.set_view(794, 1123, dark=True, media="print")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    cut = browser.run(
        "[...document.querySelectorAll('.scroll, .nodes')].filter(e => e.scrollWidth > e.clientWidth + 1)"
        ".map(e => e.innerText)"
    )
    assert cut == []
    browser.screenshot(ARTIFACTS / f"report-{kind}-print.png")
    assert browser.pdf().startswith(b"%PDF-")
