"""Quotas that are planned: capacity (G43 to G46), baselines, whole islands, shares, limits, nodes that may be lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from islander.cluster import names
from islander.cluster.queues import Autoscaler, Cohort, FlavorQuotas, FlavorUsage, LocalQueue, Quota
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.quota.options import QuotaOptions
from planner.quota.plan import Change, QueueRow, QuotaPlan
from planner.quota.planning import plan_quota
from planner.quota.policy_file import parse_policy
from planner.render.quota import headline
from tests.builders import (
    H100,
    a_cluster_queue,
    a_flavor,
    a_node,
    a_pod,
    a_report,
    a_resource_slice,
    a_snapshot,
    a_workload,
    owned_by,
    quotas,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GPU = names.NVIDIA_GPU
PRODUCT = names.GPU_PRODUCT
RTX, A100, H200 = "NVIDIA-GeForce-RTX-3090", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H200"


def planned(snapshot: ClusterSnapshot, *teams: dict[str, Any], survive: int | None = None, **policy: Any) -> QuotaPlan:
    """The plan for a cluster; teams make it one by a policy."""
    parsed = parse_policy(json.dumps({"teams": list(teams), **policy}), "p.yaml") if teams or policy else None
    return plan_quota(snapshot, PolicySettings(), QuotaOptions(parsed, survive), NOW)


def gpu_rows(plan: QuotaPlan) -> dict[tuple[str, str], QueueRow]:
    return {(row.name, row.flavor): row for row in plan.queues if row.resource == GPU}


def nominal(plan: QuotaPlan) -> dict[tuple[str, str], object]:
    return {key: row.nominal.new for key, row in gpu_rows(plan).items()}


def in_queue(queue: str) -> dict[str, str]:
    return {names.KUEUE_QUEUE: queue}


def two_nodes(*objects: Any) -> ClusterSnapshot:
    """Two NVSwitch nodes of eight, one flavor."""
    return a_snapshot(a_node("a"), a_node("b"), a_flavor("h100", labels={PRODUCT: H100}), *objects)


# Capacity


def test_g43_quota_is_the_sum_over_the_nodes_of_a_flavor():
    plan = planned(
        a_snapshot(
            a_node("a", product=RTX),
            a_node("b", product=RTX),
            a_node("c", product=A100, gpus=4),
            a_flavor("rtx", labels={PRODUCT: RTX}),
            a_flavor("a100", labels={PRODUCT: A100}),
            a_cluster_queue("team", quotas("rtx", 8), quotas("a100", 8)),
        )
    )
    assert nominal(plan) == {("team", "rtx"): 16, ("team", "a100"): 4}


def test_g43_a_flavor_without_labels_over_two_products_becomes_two():
    plan = planned(
        a_snapshot(
            a_node("a", product=H200),
            a_node("b", product=H200),
            a_node("c", product=H100),
            a_flavor("default"),
            a_cluster_queue("team", quotas("default", 24)),
        )
    )
    assert nominal(plan) == {("team", "default"): None, ("team", "h200"): 16, ("team", "h100-80gb-hbm3"): 8}
    assert f"{PRODUCT}: {H200}" in plan.files["flavors.yaml"]
    assert any(finding.code == "FLAVOR_WITHOUT_LABELS" for finding in plan.findings)
    assert any("flavor default mixes GPU products" in warning for warning in plan.warnings)


def test_g43_without_any_kueue_object_flavors_are_made_by_product():
    plan = planned(
        a_snapshot(a_node("a", product=RTX), a_node("b", product=RTX), a_node("c", product=A100, gpus=4)),
        {"name": "team", "namespaces": ["team"], "shape": {"gpus": 1}},
    )
    assert nominal(plan) == {("team", "geforce-rtx-3090"): 16, ("team", "a100-sxm4-80gb"): 4}
    assert [flavor.new for flavor in plan.flavors] == [True, True]


def test_g44_quota_above_what_exists_comes_down_to_it():
    plan = planned(
        a_snapshot(a_node("a", gpus=4), a_flavor("f", labels={PRODUCT: H100}), a_cluster_queue("team", quotas("f", 8)))
    )
    row = gpu_rows(plan)["team", "f"]
    assert row.nominal == Change(8, 4)
    assert "quotas add up to 8, 4 can be placed" in row.why


def test_g44_a_request_larger_than_any_node_is_reported_and_the_sum_stays():
    plan = planned(
        a_snapshot(
            a_node("a", gpus=4),
            a_node("b", gpus=4),
            a_flavor("f", labels={PRODUCT: H100}),
            a_cluster_queue("team", quotas("f", 8)),
            LocalQueue("team", "team", cluster_queue="team"),
            a_pod("big", gpus=8, namespace="team", labels=in_queue("team")),
        )
    )
    assert nominal(plan) == {("team", "f"): 8}
    assert any(finding.code == "REQUEST_LARGER_THAN_NODE" for finding in plan.findings)


def test_g45_gpus_held_outside_kueue_and_cordoned_nodes_are_in_no_quota():
    usable = [a_node(f"n{i:02}") for i in range(21)]
    cordoned = [a_node(f"x{i}", unschedulable=True) for i in range(3)]
    plan = planned(
        a_snapshot(
            *usable,
            *cordoned,
            a_flavor("h100", labels={PRODUCT: H100}),
            a_cluster_queue("team", quotas("h100", 168)),
            a_pod("db-0", gpus=8, node="n00", namespace="data"),
        )
    )
    assert nominal(plan) == {("team", "h100"): 160}
    assert plan.flavors[0].held_outside == {"data/db-0": 8}
    assert set(plan.flavors[0].unusable) == {"x0", "x1", "x2"}
    assert any("8 GPUs are held outside Kueue, in no quota: data/db-0 (8)" in warning for warning in plan.warnings)


def test_g46_devices_that_two_allocators_show_count_once():
    plan = planned(
        a_snapshot(
            a_node("a"),
            a_resource_slice("a"),
            a_flavor("h100", labels={PRODUCT: H100}),
            a_cluster_queue("team", quotas("h100", 16)),
        )
    )
    assert nominal(plan) == {("team", "h100"): 8}


# Baselines and islands


def test_the_whole_of_the_usual_case():
    """14 GPUs are left of 16: 2 x 4 for chat first, then both share; 10 is no multiple of 4."""
    plan = planned(
        two_nodes(
            a_cluster_queue("chat", quotas("h100", 10), cohort="gpu"),
            a_cluster_queue("lab", quotas("h100", 10), cohort="gpu"),
            a_pod("outside", gpus=2, node="a", namespace="lab"),
        ),
        {"name": "chat", "shape": {"gpus": 4}, "baselineReplicas": 2, "maxReplicas": 3, "weight": 2},
        {"name": "lab", "shape": {"gpus": 1}},
    )
    rows = gpu_rows(plan)
    chat, lab = rows["chat", "h100"], rows["lab", "h100"]
    assert (chat.nominal, chat.baseline, chat.island) == (Change(10, 8), 8, 4)
    assert (lab.nominal, lab.baseline, lab.island) == (Change(10, 6), 0, 1)
    assert (chat.borrowing.new, chat.lending.new) == (4, 0)
    assert plan.outcome == "plan"
    assert (plan.totals.arithmetic, plan.totals.placeable, plan.totals.placeable_without_biggest_node) == (16, 14, 6)


def test_the_witness_places_every_guaranteed_replica_on_a_node_that_holds_it():
    plan = planned(
        two_nodes(),
        {"name": "chat", "namespaces": ["chat"], "shape": {"gpus": 4}, "baselineReplicas": 3},
        {"name": "lab", "namespaces": ["lab"], "shape": {"gpus": 2}, "baselineReplicas": 2},
    )
    on_node: dict[str, int] = {}
    for row in gpu_rows(plan).values():
        assert sum(entry.pods * entry.gpus for entry in row.witness) == row.nominal.new
        for entry in row.witness:
            on_node[entry.node] = on_node.get(entry.node, 0) + entry.pods * entry.gpus
    assert on_node == {"a": 8, "b": 8}


def test_a_baseline_without_a_place_is_named_with_what_is_missing():
    """Three islands of eight on two nodes; the second team's two fit nowhere then."""
    plan = planned(
        two_nodes(),
        {"name": "big", "namespaces": ["big"], "shape": {"gpus": 8, "island": True}, "baselineReplicas": 3},
    )
    assert plan.outcome == "infeasible"
    (unmet,) = plan.unmet
    assert (unmet.team, unmet.queue, unmet.gpus, unmet.missing, unmet.code) == (
        "big",
        "big",
        8,
        1,
        "BASELINE_NOT_PLACEABLE",
    )
    assert "1 of 3 replicas with an island of 8 has no place" in unmet.message
    assert nominal(plan) == {("big", "h100"): 16}


def test_of_two_baselines_that_do_not_both_fit_the_heavier_team_has_its_own():
    def got(weight: float) -> dict[str, int]:
        plan = planned(
            a_snapshot(a_node("a")),
            {"name": "one", "namespaces": ["one"], "shape": {"gpus": 8}, "baselineReplicas": 1, "weight": weight},
            {"name": "two", "namespaces": ["two"], "shape": {"gpus": 8}, "baselineReplicas": 1},
        )
        return {unmet.team: unmet.missing for unmet in plan.unmet}

    assert got(2.0) == {"two": 1}
    assert got(0.5) == {"one": 1}


def test_a_product_that_no_node_has_is_said():
    plan = planned(
        two_nodes(),
        {"name": "new", "namespaces": ["new"], "shape": {"gpus": 1, "product": "NVIDIA-B200"}, "baselineReplicas": 1},
    )
    assert "no flavor has nodes of product NVIDIA-B200" in plan.unmet[0].message


def test_bridged_pairs_give_no_island_of_four_however_many_gpus_are_there():
    pairs = (("X", "NV12", "SYS", "SYS"), ("NV12", "X", "SYS", "SYS"), ("SYS", "SYS", "X", "NV12"))
    report = a_report(4, links=(*pairs, ("SYS", "SYS", "NV12", "X")))
    node = a_node("a", gpus=4, product="NVIDIA-A100-80GB-PCIe", report=report)
    strict = {"name": "t", "namespaces": ["t"], "shape": {"gpus": 4, "island": True}, "baselineReplicas": 1}
    assert planned(a_snapshot(node), strict).unmet[0].missing == 1
    content = {"name": "t", "namespaces": ["t"], "shape": {"gpus": 4}, "baselineReplicas": 1}
    plan = planned(a_snapshot(node), content)
    assert plan.unmet == []
    assert any("no node has an island of 4" in warning for warning in plan.warnings)
    pairs_wanted = {"name": "t", "namespaces": ["t"], "shape": {"gpus": 2, "island": True}, "baselineReplicas": 2}
    assert planned(a_snapshot(node), pairs_wanted).unmet == []


def test_quota_is_a_multiple_of_all_shapes_of_a_queue():
    """Shapes of 2 and 8 share a queue: quota comes in eights, so that either of them fills it."""
    plan = planned(
        two_nodes(),
        {"name": "a", "clusterQueue": "q", "namespaces": ["a"], "shape": {"gpus": 8}, "baselineReplicas": 1},
        {"name": "b", "clusterQueue": "q", "namespaces": ["b"], "shape": {"gpus": 2}, "baselineReplicas": 1},
    )
    row = gpu_rows(plan)["q", "h100"]
    assert (row.island, row.nominal.new, row.baseline) == (8, 16, 10)


def test_replicas_that_need_much_cpu_are_not_placed_where_there_is_little():
    """Each pod of the team asks for 8 cores; the node has 16."""
    pod = a_pod("p", gpus=1, cpu=8, namespace="t", node="a")
    plan = planned(a_snapshot(a_node("a", cpu=16), pod), {"name": "t", "namespaces": ["t"], "shape": {"gpus": 1}})
    assert nominal(plan) == {("t", "h100-80gb-hbm3"): 2}


# Shares and smallest change


def test_what_is_left_is_shared_by_weight():
    plan = planned(
        two_nodes(),
        {"name": "one", "namespaces": ["one"], "shape": {"gpus": 1}, "weight": 3},
        {"name": "two", "namespaces": ["two"], "shape": {"gpus": 1}, "weight": 1},
    )
    assert nominal(plan) == {("one", "h100"): 12, ("two", "h100"): 4}


def test_no_team_gets_more_than_it_ever_runs():
    plan = planned(
        two_nodes(),
        {"name": "one", "namespaces": ["one"], "shape": {"gpus": 2}, "maxReplicas": 2, "weight": 9},
        {"name": "two", "namespaces": ["two"], "shape": {"gpus": 1}, "weight": 1},
    )
    assert nominal(plan) == {("one", "h100"): 4, ("two", "h100"): 12}


def test_quotas_that_can_be_placed_stay_as_they_are_without_a_policy():
    plan = planned(
        two_nodes(
            a_cluster_queue("one", quotas("h100", 12), cohort="gpu"),
            a_cluster_queue("two", quotas("h100", 4), cohort="gpu"),
        )
    )
    assert plan.outcome == "nothing-to-do"
    assert plan.changed == []


@pytest.mark.parametrize("endless", [10**12, 9 * 10**18])
def test_quota_that_stands_for_no_limit_comes_down_to_what_there_is(endless):
    queue = a_cluster_queue("chat", quotas("h100", endless), cohort="all")
    plan = planned(two_nodes(queue, Cohort("all", resource_groups=queue.resource_groups)))
    changes = [row.nominal for row in plan.queues if row.resource == GPU]
    assert [change.old for change in changes] == [endless, endless]
    assert sum(change.new for change in changes) == 16


def test_quotas_above_capacity_shrink_in_proportion_without_a_policy():
    plan = planned(
        two_nodes(
            a_cluster_queue("one", quotas("h100", 24), cohort="gpu"),
            a_cluster_queue("two", quotas("h100", 8), cohort="gpu"),
        )
    )
    assert nominal(plan) == {("one", "h100"): 12, ("two", "h100"): 4}


def test_a_queue_that_no_team_is_behind_keeps_its_quota_where_baselines_leave_room():
    snapshot = two_nodes(a_cluster_queue("other", quotas("h100", 4), cohort="gpu"))
    plan = planned(snapshot, {"name": "chat", "namespaces": ["chat"], "shape": {"gpus": 4}, "baselineReplicas": 2})
    assert nominal(plan) == {("other", "h100"): 4, ("chat", "h100"): 12}
    full = {"name": "chat", "namespaces": ["chat"], "shape": {"gpus": 8}, "baselineReplicas": 2}
    assert nominal(planned(snapshot, full)) == {("other", "h100"): 0, ("chat", "h100"): 16}


def test_a_queue_that_shrinks_below_what_it_holds_is_named():
    usage = (FlavorUsage("h100", GPU, 16),)
    plan = planned(
        two_nodes(a_cluster_queue("lab", quotas("h100", 16), reservation=usage)),
        {"name": "chat", "namespaces": ["chat"], "shape": {"gpus": 8}, "baselineReplicas": 1},
        {"name": "lab", "shape": {"gpus": 1}},
    )
    assert gpu_rows(plan)["lab", "h100"].nominal == Change(16, 8)
    assert any("queue lab: holds 16 of h100 now and gets 8" in warning for warning in plan.warnings)


# From the cluster alone


def test_baselines_are_read_from_autoscalers_owners_and_what_runs():
    served = a_workload("llm", kind="Deployment", namespace="chat", replicas=3)
    fixed = a_workload("embed", kind="Deployment", namespace="chat", replicas=2)
    plan = planned(
        two_nodes(
            a_cluster_queue("chat", quotas("h100", 16), cohort="gpu"),
            a_cluster_queue("lab", quotas("h100", 0), cohort="gpu"),
            LocalQueue("chat", "q", cluster_queue="chat"),
            LocalQueue("lab", "q", cluster_queue="lab"),
            served,
            fixed,
            Autoscaler("HorizontalPodAutoscaler", "chat", "llm", "Deployment", "llm", 1, 3),
            Autoscaler("ScaledObject", "chat", "llm", "Deployment", "llm", 2, 4),
            a_pod("llm-1", gpus=4, tp=4, namespace="chat", owner=owned_by(served), labels=in_queue("q"), node="a"),
            a_pod("embed-1", gpus=1, namespace="chat", owner=owned_by(fixed), labels=in_queue("q"), node="a"),
            a_pod("job", gpus=1, namespace="lab", labels=in_queue("q"), node="a"),
        )
    )
    by_team = {(team.team, team.gpus): team for team in plan.teams}
    # The ScaledObject counts before the autoscaler that it makes: 2 to 4 replicas of 4.
    assert (by_team["chat", 4].baseline, by_team["chat", 4].most, by_team["chat", 4].island) == (2, 4, True)
    assert (by_team["chat", 1].baseline, by_team["chat", 1].most) == (2, None)
    assert by_team["chat", 4].source == "ScaledObject chat/llm"
    # A job runs on borrowed GPUs; that makes no right of it.
    assert by_team["lab", 1].baseline == 0
    assert gpu_rows(plan)["chat", "h100"].baseline == 10


def test_an_autoscaler_whose_pods_are_not_there_is_named():
    idle = a_workload("llm", kind="Deployment", namespace="chat", replicas=0)
    plan = planned(
        two_nodes(
            a_cluster_queue("chat", quotas("h100", 16)),
            idle,
            Autoscaler("ScaledObject", "chat", "llm", "Deployment", "llm", 2, 4),
        )
    )
    assert any("ScaledObject chat/llm: no pod of Deployment/llm" in warning for warning in plan.warnings)


def test_without_kueue_and_without_a_policy_namespaces_are_teams():
    plan = planned(
        a_snapshot(
            a_node("a"),
            a_pod("c-1", gpus=4, tp=4, namespace="chat", node="a"),
            a_pod("l-1", gpus=1, namespace="lab", node="a"),
        )
    )
    rows = gpu_rows(plan)
    assert {name: row.baseline for (name, _), row in rows.items()} == {"chat": 4, "lab": 1}
    assert "ClusterQueue/chat" in plan.created
    assert "LocalQueue/lab/lab" in plan.created


def test_a_cluster_in_which_nobody_asks_for_gpus_has_nothing_to_plan():
    plan = planned(a_snapshot(a_node("a")))
    assert (plan.outcome, plan.queues, plan.files) == ("nothing-to-do", [], {})


def test_a_headline_without_quotas_says_what_is_so_nevertheless():
    assert headline(planned(two_nodes())) == "Nothing to do: no queue and no team asks for GPUs."
    dead = planned(two_nodes(a_cluster_queue("team", quotas("gone", 8))))
    assert headline(dead) == "Nothing to do: no queue and no team asks for GPUs in a flavor that has nodes."
    closed = planned(two_nodes(a_cluster_queue("team", namespaces=None)))
    assert headline(closed).startswith("No quotas to plan, no queue and no team asks for GPUs; the objects change")


def test_a_group_of_pods_is_guaranteed_as_a_whole():
    """Two groups of two pods of 8 GPUs: 32 GPUs, of which 24 are there: one group, not three pods."""
    group = a_workload("wide", kind="LeaderWorkerSet", namespace="t", replicas=2, group_size=2)
    pods = [
        a_pod(
            f"wide-{i}",
            gpus=8,
            tp=8,
            namespace="t",
            owner=owned_by(group),
            labels={names.LWS_NAME: "wide"},
            node=f"n{i}",
        )
        for i in range(2)
    ]
    nodes = [a_node(f"n{i}") for i in range(3)]
    plan = planned(a_snapshot(*nodes, group, *pods), {"name": "t", "namespaces": ["t"]})
    assert nominal(plan) == {("t", "h100-80gb-hbm3"): 16}
    assert (plan.teams[0].pods, plan.teams[0].guaranteed, plan.unmet[0].missing) == (2, 1, 1)


# Limits


def test_baselines_are_never_lent_and_limits_are_whole_islands():
    plan = planned(
        a_snapshot(*(a_node(f"n{i}") for i in range(4))),
        {"name": "chat", "namespaces": ["chat"], "shape": {"gpus": 4}, "baselineReplicas": 2, "maxReplicas": 6},
        {"name": "lab", "namespaces": ["lab"], "shape": {"gpus": 1}, "baselineReplicas": 3},
        {"name": "shy", "namespaces": ["shy"], "shape": {"gpus": 1}, "mayBorrow": False, "maxReplicas": 1},
    )
    rows = gpu_rows(plan)
    chat, lab, shy = (rows[name, "h100-80gb-hbm3"] for name in ("chat", "lab", "shy"))
    assert chat.nominal.new - chat.lending.new == 8
    assert lab.nominal.new - lab.lending.new == 3
    assert chat.borrowing.new == 24 - chat.nominal.new
    assert shy.borrowing.new == 0
    assert all(row.borrowing.new % row.island == 0 for row in rows.values())


def test_a_queue_outside_cohorts_has_no_limits():
    plan = planned(two_nodes(a_cluster_queue("team", quotas("h100", 10))))
    row = gpu_rows(plan)["team", "h100"]
    assert (row.borrowing.new, row.lending.new) == (None, None)


def test_limits_of_today_stay_when_they_keep_islands_and_baselines_whole():
    snapshot = two_nodes(
        a_cluster_queue("one", quotas("h100", 8, borrow=4, lend=2), cohort="gpu"),
        a_cluster_queue("two", quotas("h100", 8, borrow=3), cohort="gpu"),
    )
    rows = gpu_rows(planned(snapshot))
    assert (rows["one", "h100"].borrowing, rows["one", "h100"].lending) == (Change(4, 4), Change(2, 2))


def test_the_pool_of_a_cohort_is_planned_with_its_queues():
    pool = FlavorQuotas("h100", (Quota(GPU, 8),))
    queue = a_cluster_queue("one", quotas("h100", 16), cohort="gpu")
    cohort = Cohort("gpu", resource_groups=(structs.replace(queue.resource_groups[0], flavors=(pool,)),))
    rows = gpu_rows(planned(two_nodes(queue, cohort)))
    assert rows["one", "h100"].nominal.new + rows["gpu", "h100"].nominal.new == 16
    assert rows["gpu", "h100"].kind == "Cohort"
    # In proportion: 16 and 8 of 24 become 11 and 5 of 16.
    assert rows["gpu", "h100"].nominal.new == 5


# Nodes that may be lost


def test_guarantees_hold_without_the_biggest_nodes():
    team = {"name": "t", "namespaces": ["t"], "shape": {"gpus": 4}, "baselineReplicas": 2}
    snapshot = a_snapshot(a_node("a"), a_node("b"), a_node("small", gpus=4))
    plan = planned(snapshot, team, survive=1)
    (row,) = gpu_rows(plan).values()
    assert row.nominal.new == 12
    assert {entry.node for entry in row.witness} == {"b", "small"}
    assert plan.flavors[0].biggest == ["a"]
    assert planned(snapshot, team, survive=2).unmet[0].missing == 1


def test_a_flavor_whose_nodes_may_all_fail_is_named():
    told = "flavor h100: all of its 2 usable nodes may fail, so nothing is guaranteed there"
    queue = a_cluster_queue("team", quotas("h100", 8))
    assert told in planned(two_nodes(queue), survive=50).warnings
    assert not any("may fail" in warning for warning in planned(two_nodes(queue), survive=1).warnings)


def test_the_flag_wins_over_the_policy():
    team = {"name": "t", "namespaces": ["t"], "shape": {"gpus": 4}}
    assert planned(two_nodes(), team, surviveNodes=1).survive_nodes == 1
    assert planned(two_nodes(), team, surviveNodes=1, survive=0).survive_nodes == 0


def test_reserved_room_is_in_no_quota():
    team = {"name": "t", "namespaces": ["t"], "shape": {"gpus": 1}}
    plan = planned(two_nodes(), team, reserve={8: 1})
    assert nominal(plan) == {("t", "h100"): 8}
    assert (plan.reserve[0].gpus, plan.reserve[0].kept) == (8, 1)
    short = planned(two_nodes(), team, reserve={8: 3})
    assert short.reserve[0].kept == 2
    assert any("reserve: 1 of 3 x 8 GPUs have no room" in warning for warning in short.warnings)


# What comes with GPUs


def test_cpu_and_memory_follow_the_gpus_where_they_do_not_suffice():
    quotas_today = FlavorQuotas("h100", (Quota("cpu", 10_000), Quota("memory", 2**50), Quota(GPU, 8)))
    plan = planned(two_nodes(a_cluster_queue("team", quotas_today)))
    rows = {row.resource: row for row in plan.queues}
    # 16 GPUs on two nodes of 192 cores: 24 cores each.
    assert rows["cpu"].nominal == Change("10", "384")
    assert rows["memory"].nominal == Change("1024Ti", "1024Ti")
    assert [row.resource for row in plan.queues] == ["cpu", "memory", GPU]


def test_quota_of_mig_instances_is_left_alone():
    mig = "nvidia.com/mig-1g.10gb"
    today = FlavorQuotas("h100", (Quota(mig, 3), Quota(GPU, 16)))
    plan = planned(two_nodes(a_cluster_queue("team", today)))
    rows = {row.resource: row for row in plan.queues}
    assert rows[mig].nominal.same
    assert rows[mig].why == f"stays; the plan is about {GPU}"


def test_a_new_queue_names_what_kueue_counts_beside_gpus():
    pod = a_pod("p", gpus=1, namespace="t", node="a")
    container = structs.replace(
        pod.spec.containers[0],
        requests=structs.replace(pod.spec.requests, extended=((GPU, 1), ("rdma/hca", 1))),
    )
    spec = structs.replace(pod.spec, containers=(container,), requests=container.requests)
    plan = planned(two_nodes(structs.replace(pod, spec=spec)), {"name": "t", "namespaces": ["t"]})
    assert {row.resource for row in plan.queues} == {"cpu", "memory", "rdma/hca", GPU}


# What else a plan says


def test_a_queue_that_moves_to_another_cohort_is_a_change_and_said():
    snapshot = two_nodes(a_cluster_queue("chat", quotas("h100", 16), cohort="old"))
    plan = planned(snapshot, {"name": "chat", "cohort": "new", "shape": {"gpus": 1}})
    assert plan.edited == ["ClusterQueue/chat spec.cohortName: old -> new"]
    assert plan.created == ["Cohort/new"]
    assert plan.outcome == "plan"
    assert "cohortName: new" in plan.files["queues.yaml"]


def test_a_queue_that_let_nobody_in_says_who_may():
    """V16: a missing selector is nobody."""
    snapshot = two_nodes(
        a_cluster_queue("chat", quotas("h100", 16), namespaces=None),
        LocalQueue("chat", "q", cluster_queue="chat"),
    )
    plan = planned(snapshot)
    assert plan.edited == ["ClusterQueue/chat spec.namespaceSelector: it let nobody in, and says now who may"]


def test_a_cohort_that_works_without_an_object_gets_none():
    plan = planned(two_nodes(a_cluster_queue("chat", quotas("h100", 16), cohort="gpu")))
    assert "cohorts.yaml" not in plan.files
    assert plan.created == []


def test_what_nobody_looked_for_is_said():
    pod = a_pod("p", gpus=1, namespace="t", node="a")
    warnings = planned(a_snapshot(a_node("a"), pod)).warnings
    assert any("taken without clusterqueues" in warning for warning in warnings)
    assert any("taken without autoscalers" in warning for warning in warnings)
    assert any("baselines of 1 GPU count from the day that their pods name a queue" in w for w in warnings)
    seen = a_snapshot(a_node("a"), pod, kinds=["Node", "Pod", "ClusterQueue", "HorizontalPodAutoscaler"])
    assert not any("taken without" in warning for warning in planned(seen).warnings)


def test_a_new_queue_uses_the_flavor_that_others_know_the_nodes_by():
    labels = {"pool": "gpu"}
    there = a_snapshot(
        a_node("a", labels=labels),
        a_node("b", labels=labels),
        a_node("c", product=A100),
        a_flavor("pool", labels=labels),
        a_cluster_queue("old", quotas("pool", 8)),
    )
    plan = planned(there, {"name": "new", "shape": {"gpus": 4, "product": H100}, "baselineReplicas": 2})
    assert nominal(plan) == {("old", "pool"): 8, ("new", "pool"): 8}
    assert not any(name.startswith("ResourceFlavor") for name in plan.created)


def test_a_new_queue_joins_the_cohort_of_the_queues_that_share_its_flavor():
    snapshot = two_nodes(a_cluster_queue("old", quotas("h100", 8), cohort="gpus"))
    plan = planned(snapshot, {"name": "new", "namespaces": ["new"], "shape": {"gpus": 1}})
    assert {row.cohort for row in plan.queues} == {"gpus"}


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_cluster_and_policy_give_the_same_plan(seed):
    snapshot = two_nodes(a_cluster_queue("one", quotas("h100", 10)), a_cluster_queue("two", quotas("h100", 9)))
    first, second = planned(snapshot), planned(snapshot)
    assert first.id == second.id
    assert first.files == second.files
