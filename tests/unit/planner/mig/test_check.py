"""The judge of MIG plans: what was changed by hand, or does not hold any more, is found; no solver is asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from islander.cluster import names
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.mig.check import check_mig_plan
from planner.mig.options import MigOptions, WantedProfile, wanted_profile
from planner.mig.plan import Drain, GpuLayout, KeptInstance, MigPlan, PlacedInstance, Waiting
from planner.mig.planning import plan_mig
from tests.builders import a_node, a_pod, a_snapshot
from tests.mig_builders import A100, a_mig_node, a_mig_pod, owner_of

SETTINGS = PolicySettings()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def planned(snapshot: ClusterSnapshot, *wanted: str, **options: Any) -> MigPlan:
    profiles = tuple(wanted_profile(text) for text in wanted)
    return plan_mig(snapshot, SETTINGS, MigOptions(profiles=profiles, asked=bool(wanted), **options), NOW)


def codes(plan: MigPlan, snapshot: ClusterSnapshot) -> set[str]:
    verdict = check_mig_plan(plan, snapshot, SETTINGS)
    assert verdict.valid is (not verdict.violations)
    return {violation.code for violation in verdict.violations}


NODE = a_mig_node(gpus=3, cut={0: [("1g.10gb", 0, "default/runs")]})
RUNS = a_mig_pod("runs", node="n1")
CLUSTER = a_snapshot(NODE, RUNS)
PLAN = planned(CLUSTER, "3g.40gb=2", "1g.10gb=1")


def with_gpu(plan: MigPlan, index: int, change: Callable[[GpuLayout], GpuLayout]) -> MigPlan:
    return structs.replace(plan, gpus=[change(gpu) if gpu.index == index else gpu for gpu in plan.gpus])


def changed(plan: MigPlan = PLAN) -> GpuLayout:
    return next(gpu for gpu in plan.gpus if gpu.created)


def test_a_plan_holds_where_it_was_made():
    assert codes(PLAN, CLUSTER) == set()


def test_a_gpu_that_is_used_meanwhile_is_found():
    node = a_mig_node(gpus=3, cut={0: [("1g.10gb", 0, "default/runs")]}, used={1: "default/new", 2: "default/newer"})
    now = a_snapshot(node, RUNS, a_pod("new", node="n1"), a_pod("newer", node="n1"))
    assert codes(PLAN, now) >= {"BARE_POD"}


def test_a_gpu_that_is_cut_meanwhile_is_found():
    node = a_mig_node(gpus=3, cut={0: [("1g.10gb", 0, "default/runs")], 1: [("7g.80gb", 0)], 2: [("7g.80gb", 0)]})
    assert codes(PLAN, a_snapshot(node, RUNS)) == {"STALE_GPU"}


def test_a_node_that_is_gone_is_found():
    assert codes(PLAN, a_snapshot(a_mig_node("other"))) >= {"UNKNOWN_NODE"}


def test_a_node_that_is_being_changed_is_found():
    now = a_snapshot(
        a_mig_node(
            gpus=3,
            cut={0: [("1g.10gb", 0, "default/runs")]},
            labels={names.MIG_CONFIG_STATE: "pending"},
        ),
        RUNS,
    )
    assert codes(PLAN, now) == {"MIG_CHANGING"}


def test_a_plan_for_another_snapshot_is_judged_and_says_so():
    verdict = check_mig_plan(PLAN, a_snapshot(NODE, RUNS, a_node("more")), SETTINGS)
    assert verdict.valid
    assert verdict.warnings[0].startswith("the plan was made for another snapshot")


def test_a_layout_that_no_gpu_can_have_is_found():
    worse = [PlacedInstance("3g.40gb", 0), PlacedInstance("3g.40gb", 4), PlacedInstance("1g.10gb", 0)]
    told = with_gpu(PLAN, changed().index, lambda g: structs.replace(g, after=worse, created=worse))
    assert "LAYOUT_NOT_LEGAL" in codes(told, CLUSTER)


def test_a_running_instance_that_the_plan_forgets_is_found():
    told = with_gpu(
        PLAN,
        0,
        lambda g: structs.replace(
            g, keeps=[], after=[PlacedInstance("7g.80gb", 0)], created=[PlacedInstance("7g.80gb", 0)]
        ),
    )
    assert codes(told, CLUSTER) >= {"BARE_POD"}


def test_keeping_a_part_of_a_gpu_is_found():
    # mig-parted replaces the whole layout.
    kept = [KeptInstance("1g.10gb", 0, "default/runs")]
    more = [PlacedInstance("1g.10gb", 0), PlacedInstance("3g.40gb", 4)]
    told = with_gpu(
        PLAN, 0, lambda g: structs.replace(g, keeps=kept, after=more, created=[PlacedInstance("3g.40gb", 4)])
    )
    assert codes(told, CLUSTER) >= {"PLAN_INCONSISTENT"}


@pytest.mark.parametrize(
    "change",
    [
        lambda p: structs.replace(p, gpus=p.gpus[1:]),
        lambda p: structs.replace(p, gpus=[*p.gpus, p.gpus[0]]),
        lambda p: structs.replace(p, node_labels={}),
        lambda p: structs.replace(p, node_labels={**p.node_labels, "nobody": "islander-x"}),
        lambda p: structs.replace(p, outcome="nothing-to-do"),
        lambda p: structs.replace(p, cost=structs.replace(p.cost, gpus_changed=7)),
        lambda p: structs.replace(p, demand=[structs.replace(d, met=d.met + 9, count=d.count + 9) for d in p.demand]),
        lambda p: structs.replace(p, demand=[structs.replace(d, met=d.met - 1) for d in p.demand]),
        lambda p: structs.replace(p, drains=[Drain("default/runs", "n1", 0)]),
        lambda p: with_gpu(p, changed().index, lambda g: structs.replace(g, created=[])),
        lambda p: with_gpu(p, 0, lambda g: structs.replace(g, drains=["default/runs"])),
    ],
)
def test_a_plan_that_contradicts_itself_is_found(change):
    assert codes(change(PLAN), CLUSTER) & {"PLAN_INCONSISTENT", "UNKNOWN_NODE", "STALE_GPU"}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mig-parted.yaml", lambda t: t.replace("devices: [", "devices: [7, ")),
        ("mig-parted.yaml", lambda t: t.replace("3g.40gb: 1", "3g.40gb: 2")),
        ("mig-parted.yaml", lambda t: t.replace("islander-", "other-")),
        ("mig-parted.yaml", lambda t: t.replace("mig-enabled: true", "mig-enabled: yes please")),
        ("mig-parted.yaml", lambda t: t.replace("version: v1", "version: v2")),
        ("mig-parted.yaml", lambda _: ""),
        ("mig-parted.yaml", lambda t: t + "more: " + "[" * 5000),
        ("node-labels.yaml", lambda t: t.replace("n1", "n2")),
        ("node-labels.yaml", lambda _: "kind: ["),
        ("node-labels.yaml", lambda t: f"{t}spec:\n  unschedulable: true\n"),
        ("node-labels.yaml", lambda t: f"{t}---\n{t}"),
        ("kustomization.yaml", lambda t: t.replace("resources:", "resources:\n- more.yaml")),
        ("clusterpolicy-patch.yaml", lambda _: ""),
    ],
)
def test_a_file_that_says_something_else_than_the_plan_is_found(name, change):
    text = change(PLAN.files[name])
    assert text != PLAN.files[name]
    assert codes(structs.replace(PLAN, files={**PLAN.files, name: text}), CLUSTER) == {"FILE_NOT_VALID"}


def test_a_file_that_no_plan_writes_is_found():
    assert codes(structs.replace(PLAN, files={**PLAN.files, "../more.yaml": ""}), CLUSTER) == {"FILE_NOT_VALID"}
    fewer = {name: text for name, text in PLAN.files.items() if name != "kustomization.yaml"}
    assert codes(structs.replace(PLAN, files=fewer), CLUSTER) == {"FILE_NOT_VALID"}


def test_a_configuration_that_would_cut_a_node_which_stays_as_it_is_is_found():
    labelled = a_mig_node("n2", gpus=1, cut={0: [("7g.80gb", 0, "default/r2")]}, labels={names.MIG_CONFIG: "custom"})
    cluster = a_snapshot(NODE, RUNS, labelled, a_mig_pod("r2", "7g.80gb", node="n2"))
    plan = planned(cluster, "3g.40gb=2", nodes="!nvidia.com/mig.config")
    text = plan.files["mig-parted.yaml"]
    assert "7g.80gb: 1" in text
    files = {**plan.files, "mig-parted.yaml": text.replace("7g.80gb: 1", "1g.10gb: 7")}
    assert codes(structs.replace(plan, files=files), cluster) == {"FILE_NOT_VALID"}


def test_a_profile_that_the_driver_does_not_know_is_found():
    plan = planned(a_snapshot(a_mig_node(product=A100)), "1g.20gb=1")
    old = a_mig_node(product=A100, labels={names.DRIVER_MAJOR[0]: "470"})
    assert codes(plan, a_snapshot(old)) == {"DRIVER_TOO_OLD"}


def test_a_filter_that_passes_over_a_gpu_of_the_node_is_found():
    node = a_mig_node()
    assert node.gpu_report is not None
    other = (structs.replace(gpu, product=A100 if gpu.index < 4 else "") for gpu in node.gpu_report.gpus)
    cluster = a_snapshot(structs.replace(node, gpu_report=structs.replace(node.gpu_report, gpus=tuple(other))))
    plan = planned(cluster, "3g.40gb=1")
    assert codes(plan, cluster) == set()
    text = plan.files["mig-parted.yaml"].replace('"0x233010DE", ', "")
    assert codes(structs.replace(plan, files={**plan.files, "mig-parted.yaml": text}), cluster) == {"FILE_NOT_VALID"}


def test_a_pod_above_all_that_is_wanted_is_not_drained_whatever_runs_elsewhere():
    pods = [a_mig_pod("m", node="n1", movable=True, priority=50), a_mig_pod("high", node="n2", priority=100)]
    busy = a_mig_node("n1", gpus=1, cut={0: [("1g.10gb", 0, "default/m")]})
    spare = a_mig_node("n2", gpus=1, cut={0: [("1g.10gb", 0, "default/high"), ("1g.10gb", 1)]})
    nodes = a_snapshot(busy, spare, *pods, owner_of(pods[0]))
    asks = MigOptions(profiles=(WantedProfile("7g.80gb", 1, 60),), asked=True, allow_drain=True)
    made = plan_mig(nodes, SETTINGS, asks, NOW)
    assert codes(made, nodes) == set()
    lowered = structs.replace(made, demand=[structs.replace(d, priority=0) for d in made.demand])
    running = structs.replace(made.demand[0], source="running pods", priority=100, count=1, met=1)
    assert codes(structs.replace(lowered, demand=[*lowered.demand, running]), nodes) == {"PRIORITY_HIGHER"}


def test_a_reset_that_is_kept_quiet_is_found():
    cluster = a_snapshot(a_mig_node(product=A100))
    plan = planned(cluster, "3g.40gb=1")
    quiet = with_gpu(plan, changed(plan).index, lambda g: structs.replace(g, reset=False))
    assert codes(quiet, cluster) == {"PLAN_INCONSISTENT"}


def test_a_waiting_pod_whose_gpus_are_cut_away_is_found():
    waits = a_pod("tp2", gpus=2, tp=2)
    now = a_snapshot(NODE, RUNS, waits)
    assert codes(PLAN, now) == {"ISLAND_NEEDED"}


def test_a_waiting_pod_that_is_promised_room_that_is_not_there_is_found():
    waits = a_pod("tp2", gpus=2, tp=2)
    now = a_snapshot(NODE, RUNS, waits)
    told = structs.replace(PLAN, waiting=[Waiting("default/tp2", "n1", 2)])
    assert codes(told, now) == {"ISLAND_NEEDED"}


def test_a_pod_that_waits_no_more_is_found():
    made = planned(a_snapshot(a_mig_node(gpus=1), a_mig_pod("m", "1g.10gb")))
    assert codes(made, a_snapshot(a_mig_node(gpus=1))) == {"STALE_POD"}


def drained() -> tuple[ClusterSnapshot, MigPlan]:
    pod = a_mig_pod("m", node="n1", movable=True)
    busy = a_mig_node("n1", gpus=1, cut={0: [("1g.10gb", 0, "default/m")]})
    spare = a_mig_node("n2", gpus=1, cut={0: [("1g.10gb", 0)]}, labels={"pool": "other"})
    snapshot = a_snapshot(busy, spare, pod, owner_of(pod))
    return snapshot, planned(snapshot, "7g.80gb=1", allow_drain=True, nodes="pool!=other")


def test_drains_with_steps_hold():
    snapshot, made = drained()
    assert [step.to_node for step in made.steps] == ["n2"]
    assert codes(made, snapshot) == set()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda p: structs.replace(p, options=[]), "NEEDS_DRAIN"),
        (lambda p: structs.replace(p, steps=[structs.replace(s, to_node="n1") for s in p.steps]), "PLAN_INCONSISTENT"),
        (lambda p: structs.replace(p, steps=[structs.replace(s, uid="else") for s in p.steps]), "STALE_POD"),
        (lambda p: structs.replace(p, steps=[]), "PLAN_INCONSISTENT"),
        (lambda p: structs.replace(p, steps=[structs.replace(s, wave=0) for s in p.steps]), "PLAN_INCONSISTENT"),
        (lambda p: structs.replace(p, steps=[*p.steps, structs.replace(p.steps[0], wave=2)]), "PLAN_INCONSISTENT"),
    ],
)
def test_drains_that_cannot_happen_so_are_found(change, code):
    snapshot, made = drained()
    assert code in codes(change(made), snapshot)


def test_a_target_that_was_taken_meanwhile_is_found():
    snapshot, made = drained()
    taken = a_mig_node("n2", gpus=1, cut={0: [("1g.10gb", 0, "default/other")]}, labels={"pool": "other"})
    others = [node for node in snapshot.nodes if node.name != "n2"]
    now = a_snapshot(*others, taken, *snapshot.pods, *snapshot.workloads, a_mig_pod("other", node="n2"))
    assert codes(made, now) & {"MIG_NOT_PLACEABLE", "PLAN_INCONSISTENT"}


def test_a_single_strategy_node_that_is_not_cut_alike_is_found():
    snapshot = a_snapshot(a_mig_node(gpus=2, strategy="single"))
    made = planned(snapshot, "1g.10gb=1")
    one = [PlacedInstance("7g.80gb", 0)]
    told = with_gpu(made, 0, lambda g: structs.replace(g, after=one, created=one))
    assert "LAYOUT_NOT_LEGAL" in codes(told, snapshot)
