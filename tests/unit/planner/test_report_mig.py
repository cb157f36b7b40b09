"""The page of a plan of MIG layouts: its numbers, its drawings, its commands, and that nothing in it can break out."""

import json
import re
import shlex
from datetime import UTC, datetime
from itertools import pairwise

import msgspec
import pytest
from msgspec import structs

from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.settings import PolicySettings
from planner.cli import main
from planner.mig.options import MigOptions, wanted_profile
from planner.mig.plan import Drain, MigPlan, NotTarget, PlacedInstance, Suggestion
from planner.mig.planning import plan_mig
from planner.output import document_of
from planner.plan_file import write_plan
from planner.render.report.mig_by_hand import mig_by_hand
from planner.render.report.mig_strips import short_profile
from planner.render.report.page import report_html
from tests.builders import a_pod, a_snapshot
from tests.html_page import (
    HOSTILE,
    Page,
    check_asks_for_nothing,
    check_nothing_broke_out,
    check_structure,
    hostile,
    hostile_keys,
)
from tests.mig_builders import A30, a_mig_node, a_mig_pod
from tests.report_clusters import mig_cluster

SETTINGS = PolicySettings()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def planned(*wanted, snapshot=None, **options):
    profiles = tuple(wanted_profile(text) for text in wanted or ("1g.10gb=30", "7g.80gb=3", "3g.40gb=1"))
    chosen = MigOptions(profiles=profiles, asked=True, allow_drain=True, **options)
    return plan_mig(snapshot or mig_cluster(), SETTINGS, chosen, NOW)


@pytest.fixture(scope="module")
def plan():
    """A plan that cuts all it may, drains one pod and leaves something unmet."""
    return planned()


def page(plan, snapshot=None, *, alone=False):
    return Page(report_html(plan, None if alone else snapshot or mig_cluster(), SETTINGS))


def fuller(plan):
    """The plan with every part of a page that the small cluster does not bring about."""
    return structs.replace(
        plan,
        drains=[*plan.drains, Drain("labs/stuck", "two", 1, code="DRAIN_WITHOUT_TARGET")],
        suggestions=[Suggestion("chat/tiny", 2, "tiny-1b", {"H100": "1g.10gb"}, "2 GiB of 9.5 GiB")],
        warnings=["look twice"],
    ).with_id()


def test_the_numbers_are_those_of_the_plan(plan):
    html = page(plan).html
    for name, value in (
        ("cost-gpus", plan.cost.gpus_changed),
        ("cost-nodes", plan.cost.nodes_changed),
        ("cost-drained", plan.cost.pods_drained),
        ("cost-destroyed", plan.cost.instances_destroyed),
        ("met", f"{sum(d.met for d in plan.demand)} of {sum(d.count for d in plan.demand)}"),
    ):
        assert f'<dd id="{name}">{value}</dd>' in html


def test_the_demand_is_that_of_the_plan_with_the_codes_of_what_is_missing(plan):
    assert plan.unmet
    missing = {unmet.profile: unmet for unmet in plan.unmet}
    rows = page(plan).rows("demand-table")
    assert len(rows) == len(plan.demand)
    for row, line in zip(rows, plan.demand, strict=True):
        lacks = missing.get(line.profile)
        numbers = [line.count, line.met, lacks.count if lacks else 0, line.priority]
        assert row[:5] == [line.profile, *(str(number) for number in numbers)]
        assert line.source in row[5]
        assert row[6].startswith(f"{lacks.code} : {lacks.message}" if lacks else "")
        assert bool(row[6]) is (lacks is not None)


def test_the_room_is_that_of_the_plan(plan):
    rows = {name: (int(before), int(after)) for name, before, after in page(plan).rows("outlook")}
    assert rows.pop("whole GPUs that are idle") == (plan.before.whole_gpus, plan.after.whole_gpus)
    for name, numbers in rows.items():
        profile = name.removeprefix("free instances of ")
        there = (plan.before.free_instances.get(profile, 0), plan.after.free_instances.get(profile, 0))
        assert numbers == there


def instances(plan, side):
    """(profile, first slot) of every instance of a side, once for GPUs of a node that look alike."""
    return {(gpu.node, i.profile, i.start) for gpu in plan.gpus for i in getattr(gpu, side)}


def test_every_new_instance_is_a_block_that_tells_profile_and_slots(plan):
    told = {tuple(re.findall(r": (\S+), memory slots? (\d+)", title)[0]) for title in page(plan).titles("arrives")}
    assert told == {(profile, str(start)) for _, profile, start in instances(plan, "created")}


def test_an_instance_that_stays_tells_who_uses_it():
    snapshot = mostly_used()
    titles = page(planned("1g.10gb=14", snapshot=snapshot), snapshot).titles("stays")
    assert "GPU 0: 3g.40gb, memory slots 0 to 3 of 8, used by search/embed, stays" in titles


def mostly_used():
    """One node: a GPU that is cut and used, and two that can be cut."""
    return a_snapshot(
        a_mig_node("one", gpus=4, cut={0: [("3g.40gb", 0, "search/embed")]}, used={1: "chat/llama"}),
        a_mig_pod("embed", "3g.40gb", node="one", namespace="search"),
        a_pod("llama", gpus=1, node="one", namespace="chat"),
    )


def test_what_keeps_running_is_named():
    snapshot = mostly_used()
    found = page(planned("1g.10gb=14", snapshot=snapshot), snapshot).text
    assert "GPU 0: search/embed on 3g.40gb" in found
    assert "GPU 1: chat/llama on the whole GPU" in found
    assert "2 keep running" in found


def test_nodes_that_change_alike_are_drawn_once():
    snapshot = a_snapshot(*[a_mig_node(f"n{i:02}", gpus=8) for i in range(12)])
    plan = planned("1g.10gb=672", snapshot=snapshot)
    found = page(plan, snapshot)
    assert plan.cost.gpus_changed == 96
    (row,) = found.rows("gpu-table")
    assert row[0].startswith("12 x n00")
    assert all(f"n{i:02}" in row[0] for i in range(12))
    assert len(found.titles("arrives")) == 7
    assert "GPU 0-7: each whole → 7 x 1g.10gb" in row[3]


def test_a_block_is_as_wide_as_its_memory():
    snapshot = a_snapshot(a_mig_node("n", gpus=1))
    found = page(planned("3g.40gb=1", "1g.10gb=4", snapshot=snapshot), snapshot)
    pattern = r'<g class="arrives"><title>GPU 0: (\S+),[^<]*</title><rect x="(\d+)" y="\d+" width="(\d+)"'
    widths = {profile: int(width) for profile, _, width in re.findall(pattern, found.html)}
    places = sorted((int(x), int(width)) for _, x, width in re.findall(pattern, found.html))
    assert widths["3g.40gb"] == 4 * (widths["1g.10gb"] + 2) - 2
    assert all(x + width <= after for (x, width), (after, _) in pairwise(places))


def test_a_product_with_four_slots_is_drawn_as_wide_as_one_with_eight():
    snapshot = a_snapshot(a_mig_node("n", gpus=1, product=A30))
    found = page(planned("2g.12gb=2", snapshot=snapshot), snapshot)
    assert found.rows("gpu-table")[0][3].endswith("with a reset of 1 GPU")
    assert [t.partition(", ")[2] for t in found.titles("arrives")] == [
        "memory slots 0 to 1 of 4, free, is new",
        "memory slots 2 to 3 of 4, free, is new",
    ]


def test_a_layout_that_cannot_be_drawn_is_written_out(plan):
    gpus = [
        structs.replace(gpu, after=[PlacedInstance("9g.99gb", 4000)], created=[PlacedInstance("9g.99gb", 4000)])
        for gpu in plan.gpus
    ]
    found = page(structs.replace(plan, gpus=gpus).with_id(), alone=True)
    assert "9g.99gb" in " ".join(found.titles("arrives"))
    assert max(int(x) for x in re.findall(r'<rect x="(\d+)"', found.html)) < 400


def test_drains_are_steps_with_their_risks_and_budgets(plan):
    found = page(plan)
    rows = found.rows("step-table")
    assert [row[0] for row in rows] == [step.id for step in plan.steps]
    for row, step in zip(rows, plan.steps, strict=True):
        assert row[1:4] == [str(step.wave), step.pod, str(step.gpus)]
        assert row[4].startswith(step.from_node)
        assert row[5] == step.to_node
        assert [row[8], row[9]] == [f"{step.drain_seconds} s", f"{step.reload_seconds} s"]


def test_who_leaves_without_another_place_is_named_with_the_code(plan):
    ((pod, node, index, code, why),) = [
        row for row in page(fuller(plan)).rows("stranded-table") if row[0] == "labs/stuck"
    ]
    assert (pod, node, index, code) == ("labs/stuck", "two", "1", "DRAIN_WITHOUT_TARGET")
    assert why


def test_nodes_that_are_no_targets_are_named_with_the_reason(plan):
    found = page(plan)
    told = {row[0]: row for row in found.rows("closed-table")}
    assert set(told) == {node.code for node in plan.not_targets}
    assert "closed" in told["NODE_CORDONED"][2]
    assert "small" in told["NO_MIG_TABLE"][2]
    assert sum(int(row[1]) for row in told.values()) == len(plan.not_targets)


def test_labels_files_and_suggestions_are_there(plan):
    told = fuller(plan)
    found = page(told)
    assert found.rows("label-table") == [[node, value] for node, value in sorted(plan.node_labels.items())]
    for name, text in plan.files.items():
        assert f"{name} ({len(text.splitlines())} lines)" in found.text
        assert " ".join(text.split()) in found.text
    assert "2 GiB of 9.5 GiB" in found.text
    assert "look twice" in found.text


def test_the_proof_is_that_of_the_plan(plan):
    rows = page(plan).rows("phase-table")
    assert rows == [[p.name, f"{p.value:g}", f"{p.bound:g}", p.status] for p in plan.solver.phases]


def test_the_page_says_whether_the_plan_holds(plan):
    assert "The plan holds. It was judged GPU by GPU on the snapshot it was made for." in page(plan).text
    text = page(plan, a_snapshot(a_mig_node("one", gpus=2))).text
    assert "The plan does not hold on another snapshot" in text
    assert "Not judged here." in page(plan, alone=True).text


def test_a_file_that_was_changed_is_told(plan):
    assert "The file was changed" not in page(plan).text
    assert "The file was changed" in page(structs.replace(plan, goal="something else")).text


def test_without_a_snapshot_the_gpus_are_drawn_all_the_same(plan):
    found = page(plan, alone=True)
    assert len(found.titles("arrives")) >= len({(p, s) for _, p, s in instances(plan, "created")})
    assert "made without a snapshot" in found.text


def commands(plan):
    return [line for part in mig_by_hand(plan, {}) for line in part.commands]


def test_the_commands_come_in_the_order_that_loses_nothing(plan):
    lines = commands(plan)
    order = [
        "islander check",
        "mkdir -p layouts",
        "kubectl cordon",
        "echo ",
        "kubectl patch clusterpolicy",
        "kubectl diff -k layouts",
        "kubectl apply -k layouts",
        "kubectl wait node",
        "kubectl uncordon",
    ]
    places = [next(at for at, line in enumerate(lines) if line.startswith(words)) for words in order]
    assert places == sorted(places)
    nodes = sorted(plan.node_labels)
    assert shlex.split(lines[places[2]])[2:] == nodes
    assert shlex.split(lines[places[-1]])[2:] == nodes
    wait = shlex.split(lines[places[-2]])
    assert r"--for=jsonpath={.metadata.labels.nvidia\.com/mig\.config\.state}=success" in wait


def test_the_labels_of_the_commands_are_those_of_the_plan(plan):
    labelled = {}
    for line in commands(plan):
        words = shlex.split(line, comments=True)
        if words[:3] == ["kubectl", "label", "node"] and "--overwrite" in words:
            *nodes, label, _ = words[3:]
            labelled |= dict.fromkeys(nodes, label.removeprefix("nvidia.com/mig.config="))
    assert labelled == plan.node_labels


def test_a_state_of_the_change_before_is_taken_away_before_it_is_waited_for(plan):
    lines = commands(plan)
    away = next(at for at, line in enumerate(lines) if line.endswith(" nvidia.com/mig.config.state-"))
    assert away < next(at for at, line in enumerate(lines) if "kubectl apply -k" in line)


def test_who_has_no_other_place_is_evicted_by_its_uid_where_it_is_known(plan):
    (part,) = [
        part
        for part in mig_by_hand(fuller(plan), {"labs/stuck": "u1"})
        if "wait" in part.title and "Drain" in part.title
    ]
    line = next(line for line in part.commands if "stuck" in line)
    body = json.loads(shlex.split(line)[1])
    assert body["deleteOptions"] == {"preconditions": {"uid": "u1"}}


def test_a_name_of_a_file_that_leads_elsewhere_gets_no_command(plan):
    sly = structs.replace(plan, files={"../../x": "a", "; rm -rf x": "b", "good.yaml": "c"})
    written = [line for line in commands(sly) if line.startswith("jq")]
    assert written == ["""jq -j '.files["good.yaml"]' PLAN > layouts/good.yaml"""]


@pytest.mark.parametrize("outcome", ["nothing-to-do", "infeasible", "no-answer-in-time"])
def test_a_plan_that_cuts_nothing_is_a_page_too(plan, outcome):
    empty = structs.replace(
        plan, outcome=outcome, gpus=[], node_labels={}, files={}, steps=[], drains=[], demand=[], unmet=[]
    )
    found = page(empty.with_id())
    check_structure(found)
    assert "Carrying it out" not in found.text


@pytest.mark.parametrize("alone", [False, True])
def test_structure_can_be_read_aloud_and_nothing_is_fetched(plan, alone):
    found = page(fuller(plan), alone=alone)
    check_structure(found)
    check_asks_for_nothing(found)


def test_the_verb_writes_the_page(plan, tmp_path, capsys):
    write_plan(plan, tmp_path / "plan.yaml")
    (tmp_path / "cluster.json").write_bytes(encode_snapshot(mig_cluster()))
    assert main(["report", str(tmp_path / "plan.yaml"), "--snapshot", str(tmp_path / "cluster.json")]) == 0
    assert "The plan holds." in Page(capsys.readouterr().out).text


def test_every_text_of_the_plan_is_text_and_nothing_else(plan):
    told = structs.replace(fuller(plan), not_targets=[*plan.not_targets, NotTarget("x", "Y", "z")])
    body = hostile(msgspec.json.decode(msgspec.json.encode(document_of(told))), keep=("kind", "apiVersion", "options"))
    for key in ("nodeLabels", "files"):
        body[key] = hostile_keys(body[key])
    body["gpus"] = [gpu | {"node": HOSTILE} for gpu in body["gpus"]]
    found = page(msgspec.convert(body, MigPlan), alone=True)
    check_nothing_broke_out(page(told), found)
    check_structure(found)


def test_hostile_names_stay_words_of_the_shell(plan):
    bad = "x'; rm -rf / #"
    drains = [Drain(f"{bad}/{bad}", bad, 0, code="DRAIN_WITHOUT_TARGET")]
    sly = structs.replace(plan, node_labels={bad: bad}, drains=drains, files={bad: bad})
    for line in commands(sly):
        assert line.startswith("#") or "; rm" not in re.sub(r"'(?:[^']|'\"'\"')*'", "", line)


def test_short_names_leave_out_the_memory_alone():
    names = ["1g.10gb", "1g.10gb+me", "2g.48gb+me.all", "1g.24gb-me"]
    assert [short_profile(name) for name in names] == ["1g", "1g+me", "2g+me.all", "1g-me"]
