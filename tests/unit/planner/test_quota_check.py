"""The judge of quota plans finds what is wrong with a plan that was changed, and nothing in one that was not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from islander.cluster import names
from islander.cluster.queues import FlavorUsage
from islander.policy.settings import PolicySettings
from planner.quota.check import check_quota
from planner.quota.options import QuotaOptions
from planner.quota.plan import Change, QueueRow, QuotaPlan, WitnessPods
from planner.quota.planning import plan_quota
from planner.quota.policy_file import parse_policy
from tests.builders import H100, a_cluster_queue, a_flavor, a_node, a_pod, a_snapshot, quotas

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = {
    "teams": [
        {"name": "chat", "namespaces": ["chat"], "shape": {"gpus": 4}, "baselineReplicas": 2, "maxReplicas": 3},
        {"name": "lab", "namespaces": ["lab"], "shape": {"gpus": 1}, "baselineReplicas": 1},
    ],
    "reserve": {2: 1},
}
SNAPSHOT = a_snapshot(
    *(a_node(name) for name in "abc"),
    a_flavor("h100", labels={names.GPU_PRODUCT: H100}),
    a_cluster_queue("chat", quotas("h100", 16), cohort="gpu", reservation=(FlavorUsage("h100", "nvidia.com/gpu", 4),)),
    a_cluster_queue("lab", quotas("h100", 16), cohort="gpu"),
    kinds=["ClusterQueue", "Cohort", "LocalQueue", "Node", "Pod", "ResourceFlavor", "Topology"],
)


def planned(snapshot=SNAPSHOT, survive: int = 0) -> QuotaPlan:
    options = QuotaOptions(parse_policy(json.dumps(POLICY), "p.yaml"), survive)
    return plan_quota(snapshot, PolicySettings(), options, NOW)


PLAN = planned()


def codes(plan: QuotaPlan, snapshot=SNAPSHOT) -> set[str]:
    verdict = check_quota(plan, snapshot, PolicySettings())
    assert verdict.valid == (not verdict.violations)
    return {violation.code for violation in verdict.violations}


def with_row(queue: str, **fields: Any) -> QuotaPlan:
    """The plan with something else in the row of one queue."""

    def changed(row: QueueRow) -> QueueRow:
        return structs.replace(row, **fields) if row.name == queue else row

    return structs.replace(PLAN, queues=[changed(row) for row in PLAN.queues])


def row(queue: str) -> QueueRow:
    return next(row for row in PLAN.queues if row.name == queue)


def test_a_plan_holds_on_its_own_snapshot():
    verdict = check_quota(PLAN, SNAPSHOT, PolicySettings())
    assert (verdict.valid, verdict.violations, verdict.warnings) == (True, [], [])


def test_a_plan_for_another_snapshot_is_judged_and_says_so():
    other = structs.replace(SNAPSHOT, pods=(a_pod("p", gpus=0),))
    assert check_quota(PLAN, other, PolicySettings()).warnings == ["the plan was made for another snapshot"]


def test_i1_quotas_above_what_is_usable():
    fewer = structs.replace(SNAPSHOT, nodes=SNAPSHOT.nodes[:2])
    assert {"I1", "I2"} <= codes(PLAN, fewer)


def test_i2_a_witness_that_places_less_than_the_quota():
    assert "I2" in codes(with_row("chat", witness=row("chat").witness[:-1]))


def test_i2_a_witness_on_a_node_that_is_not_there():
    moved = [structs.replace(entry, node="gone") for entry in row("chat").witness]
    assert "I2" in codes(with_row("chat", witness=moved))


def test_i2_a_node_that_does_not_hold_all_of_it_at_once():
    heap = [structs.replace(entry, node="a") for entry in row("lab").witness]
    assert "I2" in codes(with_row("lab", witness=heap))


def test_i2_replicas_that_no_team_has():
    total = row("lab").nominal.new
    assert isinstance(total, int)
    assert "I2" in codes(with_row("lab", witness=[WitnessPods("c", total, False, 1)]))


def test_i2_a_pod_outside_kueue_that_takes_the_room_of_the_witness():
    taken = structs.replace(SNAPSHOT, pods=(a_pod("out", gpus=8, node="a"),))
    assert {"I1", "I2"} <= codes(PLAN, taken)


def test_i2_a_reserve_that_is_not_placed():
    assert "I2" in codes(structs.replace(PLAN, reserve=[structs.replace(PLAN.reserve[0], witness=[])]))


@pytest.mark.parametrize("field", ["nominal", "borrowing", "lending"])
def test_i3_amounts_that_are_no_whole_islands(field):
    assert "I3" in codes(with_row("chat", **{field: Change(0, 6)}))


def test_i4_a_baseline_that_is_neither_guaranteed_nor_named():
    teams = [structs.replace(team, baseline=9) if team.team == "chat" else team for team in PLAN.teams]
    assert "I4" in codes(structs.replace(PLAN, teams=teams))


def test_i4_replicas_that_do_not_fill_the_quota():
    teams = [structs.replace(team, guaranteed=team.guaranteed + 1) for team in PLAN.teams]
    assert "I4" in codes(structs.replace(PLAN, teams=teams))


def test_i5_a_baseline_that_may_be_lent():
    assert "I5" in codes(with_row("chat", lending=Change(None, None)))
    assert "I5" in codes(with_row("chat", lending=Change(None, row("chat").nominal.new)))


def test_i7_cpu_that_does_not_suffice_for_the_replicas():
    beside = structs.replace(
        row("chat"), resource="cpu", nominal=Change("1", "1"), borrowing=Change(None, None), witness=[], island=0
    )
    teams = [structs.replace(team, cpu_milli=4000) for team in PLAN.teams]
    assert "I7" in codes(structs.replace(PLAN, teams=teams, queues=[*PLAN.queues, beside]))


def test_i8_a_queue_that_shrinks_below_what_it_holds_without_a_word():
    held = structs.replace(SNAPSHOT.cluster_queues[1], reservation=(FlavorUsage("h100", "nvidia.com/gpu", 16),))
    shrunk = structs.replace(SNAPSHOT, cluster_queues=(SNAPSHOT.cluster_queues[0], held))
    assert "I8" in codes(PLAN, shrunk)
    assert codes(planned(shrunk), shrunk) == set()


def test_i10_files_that_say_something_else_than_the_rows():
    files = PLAN.files | {"queues.yaml": PLAN.files["queues.yaml"].replace('nominalQuota: "', 'nominalQuota: "1')}
    assert "I10" in codes(structs.replace(PLAN, files=files))


@pytest.mark.parametrize("text", ["a: [", "kind: ClusterQueue\napiVersion: kueue.x-k8s.io/v1beta2\n"])
def test_i10_files_that_cannot_be_read(text):
    assert "I10" in codes(structs.replace(PLAN, files=PLAN.files | {"queues.yaml": text}))


EVIL = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: more}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 100}]}]
"""


@pytest.mark.parametrize("added", [EVIL, "apiVersion: v1\nkind: ClusterRole\nmetadata: {name: a}\n", "twice"])
def test_i10_files_that_hold_more_than_the_rows(added):
    text = PLAN.files["queues.yaml"]
    files = PLAN.files | {"queues.yaml": f"{text}---\n{text if added == 'twice' else added}"}
    assert codes(structs.replace(PLAN, files=files)) == {"I10"}


@pytest.mark.parametrize("gpus", [0, -4])
def test_i2_pods_without_gpus(gpus):
    witness = [structs.replace(row("chat").witness[0], gpus=gpus)]
    assert codes(with_row("chat", witness=witness)) == {"I2"}
    teams = [structs.replace(team, gpus=gpus) for team in PLAN.teams]
    assert codes(structs.replace(PLAN, teams=teams)) == {"I2"}


def test_v_rules_are_asked_of_every_object_in_the_files():
    files = PLAN.files | {"queues.yaml": PLAN.files["queues.yaml"].replace("cohortName: gpu", "cohortName: GPU")}
    assert "V1" in codes(structs.replace(PLAN, files=files))
    without = PLAN.files["queues.yaml"].replace("  cohortName: gpu\n", "")
    assert "V6" in codes(structs.replace(PLAN, files=PLAN.files | {"queues.yaml": without}))


def test_guarantees_that_stand_on_a_node_that_may_be_lost():
    plan = planned(survive=1)
    assert codes(plan) == set()
    (gone,) = plan.flavors[0].biggest
    rows = [
        structs.replace(row, witness=[structs.replace(entry, node=gone) for entry in row.witness])
        if row.name == "lab"
        else row
        for row in plan.queues
    ]
    assert "I2" in codes(structs.replace(plan, queues=rows))
    nobody = [structs.replace(plan.flavors[0], biggest=[])]
    assert "I2" in codes(structs.replace(plan, flavors=nobody))


def test_leaving_out_a_small_node_is_not_surviving_a_large_one():
    larger = a_snapshot(
        a_node("large", gpus=8),
        *(a_node(f"n{i}", gpus=4) for i in range(6)),
        *SNAPSHOT.resource_flavors,
        *SNAPSHOT.cluster_queues,
        kinds=SNAPSHOT.kinds,
    )
    plan = planned(larger, survive=1)
    assert codes(plan, larger) == set()
    small = [structs.replace(plan.flavors[0], biggest=["n5"])]
    assert "I2" in codes(structs.replace(plan, flavors=small), larger)
