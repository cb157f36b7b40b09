"""The page of a quota plan: its numbers, the picture of its placement, and that nothing in it can break out."""

import json
import re
from collections import Counter
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec import structs

from islander.cluster import names
from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.settings import PolicySettings
from planner.cli import main
from planner.output import document_of
from planner.plan_file import write_plan
from planner.quota.options import QuotaOptions
from planner.quota.plan import QuotaPlan, WitnessPods
from planner.quota.planning import plan_quota
from planner.quota.policy_file import parse_policy
from planner.render.report.page import report_html
from planner.render.report.witness import held_by_owner
from tests.builders import H100, a_cluster_queue, a_flavor, a_node, a_snapshot, quotas
from tests.html_page import (
    HOSTILE,
    Page,
    check_asks_for_nothing,
    check_nothing_broke_out,
    check_structure,
    hostile,
    hostile_keys,
)
from tests.report_clusters import PRODUCT, quota_cluster

SETTINGS = PolicySettings()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def planned(snapshot=None, *, chat=3, survive=1, reserve=1):
    def team(name, gpus, baseline):
        shape = {"gpus": gpus, "island": True}
        told = {"name": name, "namespaces": [name], "clusterQueue": name, "cohort": "gpu"}
        return {**told, "shape": shape, "baselineReplicas": baseline, "weight": 1}

    policy = {
        "teams": [team("chat", 4, chat), team("search", 2, 2)],
        "surviveNodes": survive,
        "reserve": {"8": reserve},
    }
    parsed = parse_policy(json.dumps(policy), "teams.yaml")
    return plan_quota(snapshot or quota_cluster(), SETTINGS, QuotaOptions(parsed, None), NOW)


@pytest.fixture(scope="module")
def plan():
    """A plan that changes quotas, keeps a reserve and leaves one node of each flavor free."""
    return planned()


def page(plan, snapshot=None, *, alone=False):
    return Page(report_html(plan, None if alone else snapshot or quota_cluster(), SETTINGS))


def gpu_rows(plan):
    return [row for row in plan.queues if row.resource == names.NVIDIA_GPU]


def test_the_totals_are_those_of_the_plan(plan):
    rows = page(plan).rows("total-table")
    totals = plan.totals
    new = sum(row.nominal.new for row in gpu_rows(plan) if row.nominal.new is not None)
    old = sum(row.nominal.old for row in gpu_rows(plan) if row.nominal.old is not None)
    numbers = [
        totals.arithmetic,
        totals.usable,
        totals.placeable,
        totals.placeable_without_biggest_node,
        old,
        new,
    ]
    assert [int(row[1]) for row in rows] == numbers
    assert old == 59
    assert [row[2] for row in rows] == [f"{number} GPUs" for number in numbers]


def test_a_bar_is_as_long_as_its_number(plan):
    found = page(plan)
    numbers = [int(row[1]) for row in found.rows("total-table")]
    shares = [
        float(share) for share in re.findall(r'<rect class="\S+" x="0" y="2" height="14" width="([\d.]+)%"', found.html)
    ]
    assert shares == [pytest.approx(100 * number / max(numbers), abs=0.01) for number in numbers]


def test_every_quota_is_a_row_with_old_new_and_the_reason(plan):
    rows = page(plan).rows("quota-table")
    assert len(rows) == len(gpu_rows(plan))
    for row, quota in zip(rows, gpu_rows(plan), strict=True):
        assert row[:4] == [quota.name, quota.cohort, quota.flavor, quota.resource]
        old, new = quota.nominal.old, quota.nominal.new
        assert row[4] == (str(new) if old == new else f"{old} → {new} {new - old:+d}")
        for cell, change in ((row[5], quota.borrowing), (row[6], quota.lending)):
            told = ["inf" if value is None else str(value) for value in (change.old, change.new)]
            assert cell == " → ".join(dict.fromkeys(told))
        assert row[7:] == [str(quota.baseline), str(quota.island), quota.why]


def test_quotas_beside_gpus_have_a_table_of_their_own():
    snapshot = a_snapshot(
        a_node("h0"),
        a_flavor("h100", labels={PRODUCT: H100}),
        a_cluster_queue("chat", quotas("h100", 8)),
    )
    told = planned(snapshot, chat=1, survive=0, reserve=0)
    beside = [row for row in told.queues if row.resource != names.NVIDIA_GPU]
    assert {row.resource for row in beside} == {"cpu", "memory"}
    found = page(told, snapshot)
    for cells, row in zip(found.rows("beside-table"), beside, strict=True):
        assert cells[3:5] == [row.resource, f"- → {row.nominal.new}"]
    assert len(found.rows("quota-table")) == len(gpu_rows(told))


def test_teams_flavors_and_reserve_are_those_of_the_plan(plan):
    found = page(plan)
    for row, team in zip(found.rows("team-table"), plan.teams, strict=True):
        assert row[:2] == [team.team, team.queue]
        assert row[3:5] == [str(team.baseline), str(team.guaranteed)]
    for row, flavor in zip(found.rows("flavor-table"), plan.flavors, strict=True):
        numbers = [flavor.arithmetic, flavor.usable, flavor.placeable, flavor.placeable_without_biggest]
        assert row[2:7] == [str(number) for number in (*numbers, sum(flavor.held_outside.values()))]
    assert [row[1:] for row in found.rows("reserve-table")] == [[str(r.asked), str(r.kept)] for r in plan.reserve]


def pictures(found):
    """(nodes, words) of every strip."""
    return [
        (row[0], row[2])
        for name, rows in found.tables.items()
        if name.startswith("table")
        for row in rows[1:]
        if len(row) == 3
    ]


def nodes_of(row):
    return int(row.split(" x ")[0]) if re.match(r"\d+ x ", row) else 1


def test_the_pictures_hold_every_replica_of_the_witness(plan):
    drawn = Counter()
    for nodes, words in pictures(page(plan)):
        for owner, pods, gpus in re.findall(r"([a-z ]+?) (\d+) x (\d+)", words.replace(", ", " ")):
            drawn[owner.strip()] += nodes_of(nodes) * int(pods) * int(gpus)
    assert drawn == held_by_owner(plan)
    assert sum(drawn.values()) > 0


def test_a_block_is_a_pod_and_hovering_tells_whose(plan):
    titles = page(plan).titles("admitted")
    assert "chat: a pod of 4 GPUs, an island" in titles
    assert "kept in reserve: a pod of 8 GPUs, an island" in titles


def test_a_node_that_may_be_lost_is_drawn_empty(plan):
    lost = [node for flavor in plan.flavors for node in flavor.biggest]
    told = {words for nodes, words in pictures(page(plan)) for node in lost if node in nodes.split()}
    assert told
    assert all(words.endswith("left out, may be lost") for words in told)


def test_gpus_that_are_held_outside_are_crossed_out_and_listed(plan):
    found = page(plan)
    assert found.titles("withdrawn") == ["held by a pod that no quota counts"] * 3
    assert found.rows("outside-table") == [["data/db-0", "h100", "3"]]
    assert '<span id="total-outside">3</span>' in found.html
    assert [row[0] for row in found.rows("unusable-table")] == ["cordoned"]


def test_many_nodes_that_are_filled_alike_are_one_strip():
    snapshot = a_snapshot(
        *[a_node(f"n{number:02}") for number in range(12)],
        a_flavor("h100", labels={PRODUCT: H100}),
        a_cluster_queue("chat", quotas("h100", 0)),
    )
    told = planned(snapshot, chat=24, survive=0, reserve=0)
    strips = {nodes.split(" …")[0]: words for nodes, words in pictures(page(told, snapshot))}
    assert sum(nodes_of(nodes) for nodes in strips) == 12
    assert len(strips) < 5


def test_a_node_of_many_devices_is_not_wider_than_the_page(plan):
    row = structs.replace(gpu_rows(plan)[0], witness=[WitnessPods("wide", 1, False, 112)])
    found = page(structs.replace(plan, queues=[row]), alone=True)
    assert max(int(width) for width in re.findall(r'<svg width="(\d+)"', found.html)) <= 640


def test_findings_stand_by_severity_with_their_cure(plan):
    found = page(plan)
    assert plan.findings
    told = [row for name, rows in found.tables.items() if name.startswith("table") for row in rows[1:] if len(row) == 4]
    assert Counter(row[0] for row in told) == Counter(finding.code.value for finding in plan.findings)
    for finding in plan.findings:
        row = next(row for row in told if row[0] == finding.code.value and finding.object in row[1])
        assert row[2].replace(" ", "").startswith(finding.message.replace("`", "").replace(" ", "")[:20])
        assert row[3]
    headings = [severity for severity in ("error", "warning", "info") if f'id="findings-{severity}"' in found.html]
    assert set(headings) == {finding.severity.value for finding in plan.findings}


def test_a_baseline_without_a_place_is_named_with_code_and_cure():
    told = planned(chat=20)
    assert told.unmet
    rows = page(told).rows("unmet-table")
    for row, unmet in zip(rows, told.unmet, strict=True):
        assert row[:4] == [unmet.team, unmet.queue, str(unmet.missing), str(unmet.gpus)]
        assert row[4].startswith(f"{unmet.code} : ")
        assert "Add nodes, lower a baseline" in row[4]


def test_the_files_and_the_commands_for_them_are_there(plan):
    found = page(plan)
    for name, text in plan.files.items():
        assert f"{name} ({len(text.splitlines())} lines)" in found.text
        assert " ".join(text.split()) in found.text
        assert f"""jq -j '.files["{name}"]' PLAN > quota/{name}""" in found.text
    assert "kubectl diff -k quota kubectl apply -k quota" in found.text


def test_the_proof_and_the_warnings_are_those_of_the_plan(plan):
    found = page(structs.replace(plan, warnings=["look twice"]))
    assert found.rows("phase-table") == [[p.name, f"{p.value:g}", f"{p.bound:g}", p.status] for p in plan.solver.phases]
    assert "look twice" in found.text


def test_the_page_says_whether_the_plan_holds(plan):
    assert "The plan holds." in page(plan).text
    assert "on the snapshot it was made for." in page(plan).text
    text = page(plan, a_snapshot(a_node("h0"), a_flavor("h100", labels={PRODUCT: H100}))).text
    assert "The plan does not hold on another snapshot" in text
    assert "Not judged here." in page(plan, alone=True).text


def test_without_a_snapshot_the_placement_is_drawn_and_free_gpus_are_not(plan):
    found = page(plan, alone=True)
    assert found.titles("admitted")
    assert found.titles("free") == []
    assert "Free GPUs are not drawn" in found.text


def test_a_cluster_without_queues_is_a_page_too():
    snapshot = a_snapshot(a_node("h0"))
    told = plan_quota(snapshot, SETTINGS, QuotaOptions(None, None), NOW)
    found = page(told, snapshot)
    check_structure(found)
    assert "Carrying it out" not in found.text


def test_a_plan_that_must_not_be_applied_offers_no_commands(plan):
    text = page(structs.replace(plan, outcome="no-answer-in-time"), alone=True).text
    assert "do not apply these quotas" in text
    assert "kubectl apply" not in text


@pytest.mark.parametrize("alone", [False, True])
def test_structure_can_be_read_aloud_and_nothing_is_fetched(plan, alone):
    found = page(plan, alone=alone)
    check_structure(found)
    check_asks_for_nothing(found)


def test_the_verb_writes_the_page(plan, tmp_path, capsys):
    files = {name: str(tmp_path / name) for name in ("plan.json", "cluster.json", "page.html")}
    write_plan(plan, tmp_path / "plan.json")
    (tmp_path / "cluster.json").write_bytes(encode_snapshot(quota_cluster()))
    source = ["--snapshot", files["cluster.json"]]
    assert main(["report", files["plan.json"], *source, "--output-file", files["page.html"]]) == 0
    assert capsys.readouterr().out == ""
    assert "The plan holds." in Page((tmp_path / "page.html").read_text()).text


def test_every_text_of_the_plan_is_text_and_nothing_else():
    told = planned(chat=20)
    kept = ("kind", "apiVersion", "code", "severity")
    body = hostile(msgspec.json.decode(msgspec.json.encode(document_of(told))), keep=kept)
    body["files"] = hostile_keys(body["files"])
    body["flavors"] = [
        flavor | {key: hostile_keys(flavor[key]) for key in ("heldOutside", "unusable")} for flavor in body["flavors"]
    ]
    body["unmet"] = [unmet | {"code": HOSTILE} for unmet in body["unmet"]]
    usual, found = page(told), page(msgspec.convert(body, QuotaPlan), alone=True)
    check_nothing_broke_out(usual, found)
    check_structure(found)
