"""Plans of MIG layouts: which GPUs are cut, which are left alone, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from islander.cluster import names
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.anonymize import anonymized
from planner.errors import PlannerError
from planner.interruption import Interruption
from planner.mig.check import check_mig_plan
from planner.mig.options import MigOptions, WantedModel, WantedProfile, wanted_profile
from planner.mig.parted import read_parted
from planner.mig.plan import GpuLayout, MigPlan
from planner.mig.planning import plan_mig
from planner.models.stoppable import until_stopped
from tests.builders import H100, a_budget, a_container, a_node, a_pod, a_snapshot, a_workload, owned_by
from tests.mig_builders import A30, A100, a_mig_node, a_mig_pod, owner_of

SETTINGS = PolicySettings()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAIRS = [["X" if i == j else "NV12" if i // 2 == j // 2 else "SYS" for j in range(4)] for i in range(4)]


def planned(snapshot: ClusterSnapshot, *wanted: str, **options: Any) -> MigPlan:
    profiles = tuple(wanted_profile(text) for text in wanted)
    asked = bool(wanted) or options.pop("asked", False)
    return plan_mig(snapshot, SETTINGS, MigOptions(profiles=profiles, asked=asked, **options), NOW)


def cut(plan: MigPlan) -> dict[tuple[str, int], list[str]]:
    """The GPUs that change, with their instances afterwards."""
    return {(g.node, g.index): sorted(i.profile for i in g.after) for g in plan.gpus if g.created}


def told(plan: MigPlan, words: str) -> bool:
    return any(words in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("wanted", "gpus"),
    [
        (("3g.40gb=2",), 1),
        (("4g.40gb=1", "3g.40gb=1"), 1),
        (("2g.20gb=3", "1g.10gb=1"), 1),
        (("3g.40gb=1", "2g.20gb=1", "1g.10gb=2"), 1),
        (("3g.40gb=1", "2g.20gb=2"), 1),
        (("3g.40gb=1", "1g.10gb=4"), 1),
        (("4g.40gb=1", "2g.20gb=1", "1g.10gb=1"), 1),
        (("4g.40gb=1", "1g.10gb=3"), 1),
        (("1g.20gb=4",), 1),
        (("1g.10gb=7",), 1),
        (("3g.40gb=2", "1g.10gb=1"), 2),
        (("4g.40gb=2",), 2),
        (("2g.20gb=3", "1g.10gb=2"), 2),
        (("3g.40gb=1", "1g.10gb=5"), 2),
        (("1g.10gb=8",), 2),
        (("7g.80gb=1", "1g.10gb=1"), 2),
        (("1g.10gb+me=2",), 2),
    ],
)
def test_g39_a_plan_takes_as_many_gpus_as_the_geometry_demands(wanted, gpus):
    plan = planned(a_snapshot(a_mig_node(gpus=4)), *wanted)
    assert plan.cost.gpus_changed == gpus
    assert plan.unmet == []


def test_g39_the_large_instance_lies_where_the_small_ones_leave_it_room():
    (gpu,) = [g for g in planned(a_snapshot(a_mig_node(gpus=1)), "3g.40gb=1", "1g.10gb=4").gpus if g.created]
    assert {i.start for i in gpu.after if i.profile == "3g.40gb"} == {4}


def test_g40_mig_on_one_gpu_names_every_index_of_the_node_once():
    used = {index: f"default/p{index}" for index in range(7)}
    pods = [a_pod(f"p{index}", node="n1") for index in range(7)]
    plan = planned(a_snapshot(a_mig_node(used=used), *pods), "1g.10gb=7")
    assert cut(plan) == {("n1", 7): ["1g.10gb"] * 7}
    text = plan.files["mig-parted.yaml"]
    assert "devices: [7]" in text
    assert "devices: [0, 1, 2, 3, 4, 5, 6]\n      mig-enabled: false" in text
    assert plan.node_labels["n1"] in text


def test_g40_an_unknown_product_gets_no_recommendation():
    plan = planned(a_snapshot(a_node("odd", product="NVIDIA-Z9000")), "1g.10gb=2")
    assert (plan.outcome, plan.gpus, plan.files) == ("infeasible", [], {})
    (unmet,) = plan.unmet
    assert (unmet.code, unmet.count) == ("NO_SUCH_PROFILE", 2)
    assert "no recommendation for NVIDIA-Z9000" in unmet.message
    assert [(n.node, n.code) for n in plan.not_targets] == [("odd", "NO_MIG_TABLE")]


@pytest.mark.parametrize(
    ("state", "code"), [("failed", "MIG_FAILED"), ("pending", "MIG_CHANGING"), ("rebooting", "MIG_CHANGING")]
)
def test_g40_a_node_that_is_being_changed_or_has_failed_is_no_target(state, code):
    plan = planned(a_snapshot(a_mig_node(labels={names.MIG_CONFIG_STATE: state})), "1g.10gb=1")
    assert plan.gpus == []
    assert [(n.node, n.code) for n in plan.not_targets] == [("n1", code)]
    assert plan.unmet[0].code == "NO_GPU_TO_CUT"
    assert f"{code} 1" in plan.unmet[0].message


def test_a_node_whose_last_change_succeeded_is_a_target():
    plan = planned(a_snapshot(a_mig_node(labels={names.MIG_CONFIG_STATE: "success"})), "1g.10gb=1")
    assert plan.outcome == "plan"


def test_g41_a_single_strategy_node_is_cut_alike_as_a_whole_or_not_at_all():
    plan = planned(a_snapshot(a_mig_node(gpus=4, strategy="single")), "2g.20gb=1")
    assert cut(plan) == {("n1", index): ["2g.20gb"] * 3 for index in range(4)}
    assert plan.node_labels == {"n1": "islander-all-3x2g.20gb"}
    assert "devices: all" in plan.files["mig-parted.yaml"]
    assert told(plan, "strategy single turns the whole node")


def test_g41_a_single_strategy_node_with_one_busy_gpu_is_left_alone():
    node = a_mig_node(gpus=4, strategy="single", used={0: "default/x"})
    plan = planned(a_snapshot(node, a_pod("x", node="n1")), "2g.20gb=1")
    assert (plan.gpus, plan.unmet[0].code) == ([], "NO_GPU_TO_CUT")


def test_g41_a_pod_that_asks_for_an_instance_by_name_finds_none_on_a_single_strategy_node():
    plan = planned(a_snapshot(a_mig_node("s", strategy="single"), a_mig_pod("m", "1g.10gb")))
    assert plan.gpus == []
    assert "MIG strategy mixed" in plan.unmet[0].message


def test_g41_a_broken_single_layout_offers_nothing_and_the_cure_is_named():
    node = a_node("broken", gpus=0, labels={names.GPU_PRODUCT: f"{A100}-MIG-INVALID", names.MIG_STRATEGY: "single"})
    plan = planned(a_snapshot(node), "1g.10gb=1")
    assert told(plan, "cut all its GPUs alike, or set the device plugin's strategy to mixed")
    assert plan.before.free_instances == {}


def test_g41_a_mixed_node_counts_what_each_resource_offers():
    layouts = {0: [("2g.20gb", 0), ("2g.20gb", 2), ("2g.20gb", 4), ("1g.10gb", 6)], 1: [("4g.40gb", 0), ("3g.40gb", 4)]}
    plan = planned(a_snapshot(a_mig_node(product=A100, cut=layouts)), "2g.20gb=3", "1g.10gb=1")
    assert plan.before.whole_gpus == 6
    assert plan.before.free_instances == {"1g.10gb": 1, "2g.20gb": 3, "3g.40gb": 1, "4g.40gb": 1}
    assert plan.outcome == "nothing-to-do"


def busy_beside_idle() -> tuple[Any, ...]:
    """GPU 0 has two instances in use and four free slices; GPU 1 is idle."""
    pods = [a_mig_pod(f"m{n}", "1g.10gb", node="n1", movable=True) for n in range(2)]
    node = a_mig_node(gpus=2, cut={0: [("1g.10gb", 0, "default/m0"), ("1g.10gb", 1, "default/m1")]})
    return node, *pods, *map(owner_of, pods)


def test_g42_the_idle_gpu_is_cut_and_the_busy_one_keeps_running():
    plan = planned(a_snapshot(*busy_beside_idle()), "3g.40gb=1")
    assert cut(plan) == {("n1", 1): ["3g.40gb"]}
    kept = next(g for g in plan.gpus if g.index == 0)
    assert [(i.profile, i.start, i.pod) for i in kept.keeps] == [
        ("1g.10gb", 0, "default/m0"),
        ("1g.10gb", 1, "default/m1"),
    ]
    assert told(plan, "pods go on running")


def test_g42_without_an_idle_gpu_the_demand_is_unmet_and_says_that_drains_would_help():
    node, *pods = busy_beside_idle()
    taken = a_pod("w", node="n1")
    node = a_mig_node(
        gpus=2, cut={0: [("1g.10gb", 0, "default/m0"), ("1g.10gb", 1, "default/m1")]}, used={1: "default/w"}
    )
    plan = planned(a_snapshot(node, taken, *pods), "3g.40gb=1")
    assert (plan.gpus, [u.code for u in plan.unmet]) == ([], ["NEEDS_DRAIN"])
    drained = planned(a_snapshot(node, taken, *pods), "3g.40gb=1", allow_drain=True)
    assert cut(drained) == {("n1", 0): ["1g.10gb", "1g.10gb", "3g.40gb"]}
    assert [d.pod for d in drained.drains] == ["default/m0", "default/m1"]
    assert {d.code for d in drained.drains} == {"DRAIN_WITHOUT_TARGET"}


def test_g42_switching_mig_on_names_the_reset_on_ampere_only():
    ampere = planned(a_snapshot(a_mig_node(product=A100)), "1g.10gb=1")
    hopper = planned(a_snapshot(a_mig_node(product=H100)), "1g.10gb=1")
    assert [g.reset for g in ampere.gpus if g.created] == [True]
    assert told(ampere, "needs a reset of the GPU")
    assert told(ampere, "NVLinks of a GPU in MIG mode are trained down")
    assert not told(hopper, "reset of the GPU")


def test_instances_that_are_free_already_serve_first():
    node = a_mig_node(gpus=2, cut={0: [("1g.10gb", 0), ("1g.10gb", 1)]})
    plan = planned(a_snapshot(node), "1g.10gb=2")
    assert (plan.outcome, plan.gpus) == ("nothing-to-do", [])


def test_an_idle_gpu_that_is_cut_already_is_cut_anew_before_a_whole_one_is():
    node = a_mig_node(gpus=2, cut={0: [("1g.10gb", 0), ("1g.10gb", 1)]})
    plan = planned(a_snapshot(node), "3g.40gb=1")
    assert cut(plan) == {("n1", 0): ["3g.40gb"]}
    assert plan.after.whole_gpus == 1


def test_pending_and_running_pods_are_the_demand_when_nothing_is_asked_for():
    node = a_mig_node(gpus=2, cut={0: [("1g.10gb", 0, "default/runs")]})
    snapshot = a_snapshot(node, a_mig_pod("runs", node="n1"), a_mig_pod("waits", "2g.20gb", priority=7))
    plan = planned(snapshot)
    assert [(d.profile, d.source, d.met, d.priority) for d in plan.demand] == [
        ("2g.20gb", "pending pods", 1, 7),
        ("1g.10gb", "running pods", 1, 0),
    ]
    assert cut(plan) == {("n1", 1): ["2g.20gb"]}


def test_higher_priority_is_met_first():
    pods = [a_mig_pod("low", "7g.80gb", priority=0), a_mig_pod("high", "3g.40gb", priority=9)]
    plan = planned(a_snapshot(a_mig_node(gpus=1), *pods))
    assert cut(plan) == {("n1", 0): ["3g.40gb"]}
    assert [(u.profile, u.priority) for u in plan.unmet] == [("7g.80gb", 0)]


def test_a_profile_name_means_what_it_means_on_each_product():
    # 1g.12gb is a seventh of an H100 NVL; H100 with 80 GB has no such profile, though 1g.10gb is close.
    nodes = [a_mig_node("nvl", gpus=2, product="NVIDIA-H100-NVL"), a_mig_node("sxm", gpus=2)]
    plan = planned(a_snapshot(*nodes), "1g.12gb=1")
    assert [node for node, _ in cut(plan)] == ["nvl"]
    assert plan.demand[0].accepts == {"NVIDIA-H100-NVL": "1g.12gb"}


def test_any_product_serves_that_has_the_profile_unless_one_is_named():
    nodes = [a_mig_node("a", gpus=1, product=A100), a_mig_node("h", gpus=1)]
    both = planned(a_snapshot(*nodes), "1g.10gb=14")
    assert set(cut(both)) == {("a", 0), ("h", 0)}
    named = MigOptions(profiles=(WantedProfile("1g.10gb", 14, product=A100),), asked=True)
    one = plan_mig(a_snapshot(*nodes), SETTINGS, named, NOW)
    assert set(cut(one)) == {("a", 0)}
    assert one.unmet[0].count == 7


def test_a_profile_of_no_product_is_an_error_that_names_what_exists():
    with pytest.raises(PlannerError, match=r"no product has a profile 9g\.10gb; NVIDIA-A30 has 4g\.24gb, 2g\.12gb"):
        planned(a_snapshot(a_mig_node(product=A30)), "9g.10gb=1")


def test_a_profile_of_a_product_that_the_cluster_lacks_is_unmet():
    plan = planned(a_snapshot(a_mig_node(product=A30)), "1g.10gb=1")
    assert plan.unmet[0].code == "NO_SUCH_PROFILE"
    assert "NVIDIA-A30 has 4g.24gb" in plan.unmet[0].message


def test_a_gpu_whose_island_is_broken_is_cut_before_one_of_a_whole_island():
    # Pair 0-1 is whole; of pair 2-3, GPU 2 is in use.
    node = a_mig_node(gpus=4, links=PAIRS, used={2: "default/x"})
    plan = planned(a_snapshot(node, a_pod("x", node="n1")), "1g.10gb=1")
    assert set(cut(plan)) == {("n1", 3)}


def test_a_gpu_without_links_is_cut_before_one_of_an_nvswitch_node():
    nodes = [a_mig_node("a-island"), a_mig_node("z-alone", gpus=1, product="NVIDIA-H100-PCIe")]
    assert set(cut(planned(a_snapshot(*nodes), "1g.10gb=1"))) == {("z-alone", 0)}


def test_the_island_that_a_pending_replica_needs_is_never_cut():
    snapshot = a_snapshot(a_mig_node(), a_pod("tp8", gpus=8, tp=8))
    plan = planned(snapshot, "1g.10gb=1")
    assert (plan.gpus, [u.code for u in plan.unmet]) == ([], ["ISLAND_NEEDED"])
    assert [(w.pod, w.node, w.gpus) for w in plan.waiting] == [("default/tp8", "n1", 8)]


def test_a_pending_replica_that_fits_nowhere_holds_nothing_back():
    node = a_mig_node(used={0: "default/x"})
    plan = planned(a_snapshot(node, a_pod("x", node="n1"), a_pod("tp8", gpus=8, tp=8)), "1g.10gb=1")
    assert plan.outcome == "plan"
    assert plan.waiting == []


def test_of_two_free_nodes_the_pending_replica_keeps_one():
    snapshot = a_snapshot(a_mig_node("a"), a_mig_node("b"), a_pod("tp8", gpus=8, tp=8))
    plan = planned(snapshot, "1g.10gb=57")
    assert len({node for node, _ in cut(plan)}) == 1
    assert plan.unmet[0].count == 1


def test_running_replicas_with_an_island_are_never_drained():
    owner = a_workload("tp", replicas=2)
    pod = a_pod("tp", gpus=2, tp=2, node="n1", owner=owned_by(owner))
    node = a_mig_node(gpus=2, used={0: "default/tp", 1: "default/tp"})
    plan = planned(a_snapshot(node, a_node("other"), owner, pod), "1g.10gb=100", allow_drain=True)
    assert not any(node == "n1" for node, _ in cut(plan))


def one_gpu_replica(**fields: Any) -> tuple[Any, ...]:
    owner = a_workload("web", replicas=2)
    pod = a_pod("web", node="n1", owner=owned_by(owner), labels={"app": "web"}, **fields)
    return owner, pod


def test_a_replica_with_one_gpu_is_drained_to_a_node_that_stays_as_it_is():
    small = a_node("target", gpus=1, product="Tesla-V100-SXM2-16GB")
    node = a_mig_node(gpus=1, used={0: "default/web"})
    budget = a_budget("web", labels={"app": "web"})
    snapshot = a_snapshot(node, small, budget, *one_gpu_replica())
    assert planned(snapshot, "1g.10gb=1").unmet[0].code == "NEEDS_DRAIN"
    plan = planned(snapshot, "1g.10gb=1", allow_drain=True)
    (step,) = plan.steps
    assert (step.pod, step.from_node, step.to_node, step.pdb) == ("default/web", "n1", "target", "default/web")
    assert [(d.pod, d.step) for d in plan.drains] == [("default/web", step.id)]


def test_a_replica_for_which_there_is_no_other_gpu_is_not_drained():
    plan = planned(
        a_snapshot(a_mig_node(gpus=1, used={0: "default/web"}), *one_gpu_replica()), "1g.10gb=1", allow_drain=True
    )
    assert (plan.gpus, plan.drains) == ([], [])


def test_a_pod_that_cannot_move_keeps_its_gpu():
    node = a_mig_node(gpus=1, cut={0: [("1g.10gb", 0, "default/bare")]})
    snapshot = a_snapshot(node, a_mig_pod("bare", node="n1"))
    plan = planned(snapshot, "3g.40gb=1", allow_drain=True)
    assert (plan.gpus, plan.unmet[0].code) == ([], "NO_GPU_TO_CUT")


def test_nobody_is_disturbed_for_a_lower_priority():
    pod = a_mig_pod("important", node="n1", movable=True, priority=50)
    node = a_mig_node(gpus=1, cut={0: [("1g.10gb", 0, pod.key)]})
    plan = planned(a_snapshot(node, pod, owner_of(pod)), "7g.80gb=1", allow_drain=True)
    assert plan.drains == []
    wanted = (WantedProfile("3g.40gb", 1, priority=60),)
    higher = plan_mig(
        a_snapshot(node, pod, owner_of(pod)), SETTINGS, MigOptions(profiles=wanted, asked=True, allow_drain=True), NOW
    )
    assert [d.pod for d in higher.drains] == ["default/important"]


def test_nobody_is_disturbed_for_a_lower_priority_that_rides_along_with_a_higher_one():
    pod = a_mig_pod("middle", node="n1", movable=True, priority=50)
    nodes = [a_mig_node("n1", gpus=1, cut={0: [("1g.10gb", 0, pod.key)]}), a_mig_node("n2", gpus=1)]
    wanted = (WantedProfile("7g.80gb", 1, priority=60), WantedProfile("3g.40gb", 1, priority=0))
    plan = plan_mig(
        a_snapshot(*nodes, pod, owner_of(pod)),
        SETTINGS,
        MigOptions(profiles=wanted, asked=True, allow_drain=True),
        NOW,
    )
    assert cut(plan) == {("n2", 0): ["7g.80gb"]}
    assert [(u.profile, u.code) for u in plan.unmet] == [("3g.40gb", "NO_GPU_TO_CUT")]


def test_without_a_report_a_node_with_gpu_pods_is_no_target():
    snapshot = a_snapshot(a_node("dark"), a_pod("x", node="dark"))
    plan = planned(snapshot, "1g.10gb=1")
    assert plan.gpus == []
    assert [(n.node, n.code) for n in plan.not_targets] == [("dark", "GPUS_NOT_KNOWN")]
    assert "no report of the node" in plan.not_targets[0].message


def test_without_a_report_a_node_with_no_gpu_pods_is_idle():
    assert set(cut(planned(a_snapshot(a_node("dark", gpus=2)), "1g.10gb=1"))) == {("dark", 1)}


def test_a_gpu_that_a_pod_may_have_got_since_the_report_is_not_idle():
    # The report knows nothing of the pod: it may have any of the two.
    node = a_mig_node(gpus=2)
    plan = planned(a_snapshot(node, a_pod("new", node="n1")), "1g.10gb=1")
    assert plan.gpus == []


def test_an_instance_that_a_pod_may_have_got_since_the_report_is_not_idle():
    node = a_mig_node(gpus=2, cut={0: [("1g.10gb", 0)], 1: [("1g.10gb", 0)]})
    plan = planned(a_snapshot(node, a_mig_pod("new", node="n1")), "3g.40gb=1")
    assert plan.gpus == []


def test_a_sick_gpu_is_not_cut():
    plan = planned(a_snapshot(a_mig_node(gpus=2, sick=[1])), "1g.10gb=8")
    assert set(cut(plan)) == {("n1", 0)}


def test_a_cordoned_node_is_no_target():
    plan = planned(a_snapshot(a_mig_node(unschedulable=True)), "1g.10gb=1")
    assert [(n.node, n.code) for n in plan.not_targets] == [("n1", "NODE_CORDONED")]


def test_an_old_driver_is_no_target():
    plan = planned(a_snapshot(a_mig_node(labels={names.DRIVER_MAJOR[0]: "470"})), "1g.10gb=1")
    assert [(n.node, n.code) for n in plan.not_targets] == [("n1", "DRIVER_TOO_OLD")]
    assert plan.not_targets[0].message == "driver 470 is there, 525 is needed"


def test_a_profile_that_the_driver_does_not_know_yet_is_cut_on_another_node():
    old, new = (a_mig_node(f"r{r}", product=A100, labels={names.DRIVER_MAJOR[0]: str(r)}) for r in (470, 525))
    assert set(cut(planned(a_snapshot(old, new), "1g.20gb=9"))) == {("r525", 5), ("r525", 6), ("r525", 7)}
    plan = planned(a_snapshot(old), "1g.20gb=1", "1g.10gb=1")
    assert cut(plan) == {("r470", 7): ["1g.10gb"]}
    assert [(u.profile, u.count, u.code) for u in plan.unmet] == [("1g.20gb", 1, "NO_GPU_TO_CUT")]


def test_nodes_that_the_selector_leaves_out_do_not_change():
    nodes = [a_mig_node("a", gpus=1), a_mig_node("b", gpus=1, labels={"pool": "slices"})]
    assert set(cut(planned(a_snapshot(*nodes), "1g.10gb=9", nodes="pool=slices"))) == {("b", 0)}


def test_a_pod_that_may_not_run_on_a_node_is_not_served_there():
    nodes = [a_mig_node("a", gpus=1), a_mig_node("b", gpus=1, labels={"pool": "slices"})]
    plan = planned(a_snapshot(*nodes, a_mig_pod(node_selector={"pool": "slices"})))
    assert set(cut(plan)) == {("b", 0)}


def test_nodes_of_mixed_products_get_a_device_filter():
    node = a_mig_node(gpus=2)
    assert node.gpu_report is not None
    gpus = tuple(
        type(gpu)(gpu.index, gpu.uuid, product=product)
        for gpu, product in zip(node.gpu_report.gpus, [H100, A100], strict=True)
    )
    node = structs.replace(node, gpu_report=structs.replace(node.gpu_report, gpus=gpus))
    plan = planned(a_snapshot(node), "1g.10gb=14")
    text = plan.files["mig-parted.yaml"]
    assert 'device-filter: ["0x233010DE"' in text
    assert "0x20B210DE" in text


def test_tensor_parallelism_over_instances_is_warned_about():
    pod = a_mig_pod("split", count=2, containers=[a_container(gpus=2, tp=2, gpu_resource="nvidia.com/mig-1g.10gb")])
    assert told(planned(a_snapshot(a_mig_node(), pod)), "they have no peer-to-peer")


def test_a_model_gets_the_smallest_profile_with_memory_enough_on_each_product():
    nodes = [a_mig_node("a", gpus=1, product=A30), a_mig_node("h", gpus=1)]
    options = MigOptions(models=(WantedModel("embed", 8 * 1024, 2),), asked=True)
    plan = plan_mig(a_snapshot(*nodes), SETTINGS, options, NOW)
    # 8 GiB: of 1g.10gb 92 % are 9185 MiB; A30's 1g.6gb is too small, its 2g.12gb is not.
    assert plan.demand[0].accepts == {A30: "2g.12gb", H100: "1g.10gb"}
    assert plan.demand[0].met == 2


def test_two_entries_of_one_model_are_each_told_with_their_own_arithmetic():
    models = tuple(WantedModel("m", mib, 1, source="model m", why=f"{mib} MiB") for mib in (6000, 30000))
    plan = planned(a_snapshot(a_mig_node()), models=models, asked=True)
    assert {line.profile: line.why for line in plan.demand} == {"1g.10gb": "6000 MiB", "3g.40gb": "30000 MiB"}


def test_a_model_that_no_instance_holds_is_unmet():
    options = MigOptions(models=(WantedModel("huge", 200 * 1024, 1),), asked=True)
    plan = plan_mig(a_snapshot(a_mig_node()), SETTINGS, options, NOW)
    assert plan.unmet[0].code == "NO_SUCH_PROFILE"


def test_a_workload_with_whole_gpus_that_an_instance_would_hold_is_suggested_with_the_arithmetic():
    words = ("vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "16384")
    pod = a_pod("qwen", node="n1", containers=[a_container(gpus=1, argv=words)])
    plan = planned(a_snapshot(a_mig_node(used={0: "default/qwen"}), pod))
    (found,) = plan.suggestions
    assert found.profiles == {H100: "3g.40gb"}
    # 8.19 G parameters x 2 bytes = 15.3 GiB; 16384 x 144 KiB = 2.25 GiB; 4 GiB beside.
    assert "weights 15.3 GiB (bf16)" in found.arithmetic
    assert "= 2.2 GiB + 4.0 GiB for the process = 21.5 GiB" in found.arithmetic
    assert plan.demand == []


@pytest.mark.parametrize(
    "words",
    [
        ("vllm", "serve", "someone/unknown-model"),
        ("vllm", "serve", "meta-llama/Llama-3.1-70B"),
        ("python", "train.py", "--model", "Qwen/Qwen3-8B"),
        ("vllm", "serve", "Qwen/Qwen3-8B", "--pipeline-parallel-size", "2"),
    ],
)
def test_what_cannot_be_reckoned_is_not_suggested(words):
    pod = a_pod("p", node="n1", containers=[a_container(gpus=1, argv=words)])
    assert planned(a_snapshot(a_mig_node(used={0: "default/p"}), pod)).suggestions == []


def test_a_quantised_model_needs_less():
    words = ("sh", "-c", "exec vllm serve Qwen/Qwen3-8B-AWQ --max-model-len=4096")
    pod = a_pod("p", node="n1", containers=[a_container(gpus=1, argv=words)])
    (found,) = planned(a_snapshot(a_mig_node(used={0: "default/p"}), pod)).suggestions
    # 4.3 + 0.6 + 4.0 = 8.9 GiB of the 9.0 that vLLM uses of 1g.10gb.
    assert found.profiles == {H100: "1g.10gb"}


def labelled(name: str, config: str, **fields: Any) -> Any:
    return a_mig_node(name, gpus=1, labels={names.MIG_CONFIG: config}, **fields)


def test_what_other_nodes_are_labelled_with_stays_in_the_file():
    sliced = {0: [("7g.80gb", 0)]}
    nodes = [a_mig_node("a", gpus=1), labelled("b", "custom-x", cut=sliced), labelled("c", "custom-x", cut=sliced)]
    plan = planned(a_snapshot(*nodes), "1g.10gb=1", nodes="!nvidia.com/mig.config")
    configs, errors = read_parted(plan.files["mig-parted.yaml"])
    assert errors == []
    assert configs["custom-x"] == [{"devices": "all", "mig-enabled": True, "mig-devices": {"7g.80gb": 1}}]
    assert not told(plan, "custom-x")


def test_a_label_that_the_file_cannot_hold_is_warned_about():
    other = [labelled("b", "custom-x"), labelled("c", "custom-x", cut={0: [("7g.80gb", 0)]})]
    plan = planned(a_snapshot(a_mig_node("a", gpus=1), *other), "1g.10gb=1", nodes="!nvidia.com/mig.config")
    assert set(plan.node_labels) == {"a"}
    assert told(plan, "b, c: labelled nvidia.com/mig.config=custom-x, which is not in the file")


def test_one_configuration_serves_nodes_of_any_number_of_gpus_that_are_all_cut_alike():
    other = [a_mig_node(f"n{size}", gpus=size, labels={names.MIG_CONFIG: "plain"}) for size in (4, 8)]
    plan = planned(a_snapshot(a_mig_node("a", gpus=1), *other), "1g.10gb=1", nodes="!nvidia.com/mig.config")
    configs, _ = read_parted(plan.files["mig-parted.yaml"])
    assert configs["plain"] == [{"devices": "all", "mig-enabled": False}]
    assert not told(plan, "plain")


def test_the_operators_own_label_stays_in_the_file_though_a_node_reports_nothing():
    silent = a_node("b", labels={names.MIG_CONFIG: "all-disabled", names.MIG_STRATEGY: "mixed"})
    plan = planned(a_snapshot(a_mig_node("a", gpus=1), silent), "1g.10gb=1", nodes="!nvidia.com/mig.config")
    configs, _ = read_parted(plan.files["mig-parted.yaml"])
    assert configs["all-disabled"] == [{"devices": "all", "mig-enabled": False}]
    assert not told(plan, "all-disabled")


def test_a_selector_of_no_node_is_an_error():
    with pytest.raises(PlannerError, match="selects none of 1 nodes"):
        planned(a_snapshot(a_mig_node()), "1g.10gb=1", nodes="pool=none")


def test_a_node_that_does_not_offer_all_its_gpus_is_no_target_without_a_report():
    plan = planned(a_snapshot(a_node("n", gpus=8, allocatable=7)), "1g.10gb=1")
    assert [(n.node, n.code) for n in plan.not_targets] == [("n", "GPUS_NOT_KNOWN")]


def a_sliced_node(profile: str, cut: Any, gpus: int, used: int = 0) -> Any:
    """A node of strategy `single`: its `nvidia.com/gpu` are instances of one profile."""
    node = a_mig_node("s", gpus=gpus, cut=cut, product=f"{H100}-MIG-{profile}", strategy="single")
    counts = ((names.NVIDIA_GPU, sum(map(len, cut.values()))),)
    return structs.replace(
        node,
        capacity=structs.replace(node.capacity, extended=counts),
        allocatable=structs.replace(node.allocatable, extended=counts),
    )


def test_g41_slices_of_a_single_strategy_node_serve_under_their_profile():
    node = a_sliced_node("1g.10gb", {index: [("1g.10gb", n) for n in range(7)] for index in range(2)}, gpus=2)
    plan = planned(a_snapshot(node), "1g.10gb=14")
    assert plan.before.free_instances == {"1g.10gb": 14}
    assert (plan.outcome, plan.before.whole_gpus) == ("nothing-to-do", 0)


def test_g41_an_idle_single_strategy_node_is_cut_anew_as_a_whole():
    node = a_sliced_node("1g.10gb", {index: [("1g.10gb", n) for n in range(7)] for index in range(2)}, gpus=2)
    plan = planned(a_snapshot(node), "3g.40gb=3")
    assert cut(plan) == {("s", index): ["3g.40gb"] * 2 for index in range(2)}


def test_g41_pods_on_slices_are_running_demand_and_keep_the_node_as_it_is():
    layouts = {index: [("1g.10gb", n, "default/p" if not n + index else "") for n in range(7)] for index in range(2)}
    node = a_sliced_node("1g.10gb", layouts, gpus=2)
    snapshot = a_snapshot(node, a_pod("p", node="s"))
    plan = planned(snapshot)
    assert [(d.profile, d.count, d.source, d.strategy) for d in plan.demand] == [
        ("1g.10gb", 1, "running pods", "single")
    ]
    assert planned(snapshot, "3g.40gb=3").gpus == []


def test_g41_a_pod_that_names_the_slices_by_product_waits_for_them():
    pod = a_pod("p", node_selector={names.GPU_PRODUCT: f"{H100}-MIG-1g.10gb"})
    plan = planned(a_snapshot(a_mig_node("s", gpus=1, strategy="single"), a_mig_node("m", gpus=1), pod))
    assert cut(plan) == {("s", 0): ["1g.10gb"] * 7}


def test_a_node_without_a_strategy_label_is_taken_for_mixed_and_says_so():
    plan = planned(a_snapshot(a_mig_node(strategy="")), "1g.10gb=1")
    assert told(plan, "no label tells the MIG strategy")


def test_a_plan_can_be_made_for_another_strategy_than_the_labels_tell():
    plan = planned(a_snapshot(a_mig_node(gpus=2, strategy="single")), "1g.10gb=1", strategy="mixed")
    assert len(cut(plan)) == 1
    assert told(plan, "another MIG strategy than the plan is for")
    assert plan.options == ["--strategy=mixed"]


def test_gates_keep_a_pod_out_of_the_demand():
    plan = planned(a_snapshot(a_mig_node(), a_mig_pod("gated", gated=True)))
    assert plan.demand == []
    assert told(plan, "scheduling gates hold the pod")


def test_a_cluster_without_gpus_is_told_so():
    plan = planned(a_snapshot(a_node("cpu", gpus=0, product=None)), "1g.10gb=1")
    assert plan.unmet[0].code == "NO_SUCH_PROFILE"
    assert "no NVIDIA GPU" in plan.unmet[0].message


def test_alike_nodes_share_one_configuration():
    plan = planned(a_snapshot(a_mig_node("a", gpus=1), a_mig_node("b", gpus=1)), "1g.10gb=14")
    assert len(set(plan.node_labels.values())) == 1
    assert set(plan.node_labels) == {"a", "b"}


def test_every_plan_is_valid_where_it_was_made():
    snapshot = a_snapshot(*busy_beside_idle())
    plan = planned(snapshot, "3g.40gb=1")
    assert check_mig_plan(plan, snapshot, SETTINGS).valid


def test_phases_report_value_bound_and_status():
    phases = planned(a_snapshot(a_mig_node(gpus=1)), "1g.10gb=8").solver.phases
    first = phases[0]
    assert (first.name, first.value, first.bound, first.status) == ("instances at priority 0", 7, 7, "optimal")


def test_drains_of_one_workload_are_in_different_waves():
    owner = a_workload("web", replicas=3)
    pods = [a_mig_pod(f"w{n}", node="n1", owner=owned_by(owner)) for n in range(2)]
    busy = a_mig_node("n1", gpus=1, cut={0: [("1g.10gb", n, f"default/w{n}") for n in range(2)]})
    spare = a_mig_node("n2", gpus=1, cut={0: [("1g.10gb", n) for n in range(7)]}, labels={"pool": "other"})
    plan = planned(a_snapshot(busy, spare, owner, *pods), "7g.80gb=1", allow_drain=True, nodes="pool!=other")
    assert [(s.wave, s.to_node) for s in plan.steps] == [(1, "n2"), (2, "n2")]


def gpu(plan: MigPlan, node: str, index: int) -> GpuLayout:
    return next(g for g in plan.gpus if (g.node, g.index) == (node, index))


def test_what_a_gpu_keeps_and_what_is_created_make_up_what_it_has_afterwards():
    plan = planned(a_snapshot(*busy_beside_idle()), "3g.40gb=1")
    for one in plan.gpus:
        placed = [(i.profile, i.start) for i in (*one.keeps, *one.created)]
        assert sorted(placed) == sorted((i.profile, i.start) for i in one.after)
    assert gpu(plan, "n1", 1).before == []


def test_options_survive_their_flags():
    options = MigOptions(allow_drain=True, nodes="pool=a", strategy="single")
    assert MigOptions.from_flags(options.flags()) == replace(options)
    with pytest.raises(PlannerError, match="not known"):
        MigOptions.from_flags(["--surprise"])


def test_an_anonymised_cluster_is_planned_like_the_original():
    broken = a_node("x", gpus=0, labels={names.GPU_PRODUCT: f"{A100}-MIG-INVALID", names.MIG_STRATEGY: "single"})
    failed = a_mig_node("f", labels={names.MIG_CONFIG_STATE: "failed"})
    snapshot = a_snapshot(*busy_beside_idle(), broken, failed, a_mig_pod("waits", "3g.40gb"))
    plan, hidden = planned(snapshot), planned(anonymized(snapshot))
    assert hidden.cost == plan.cost
    assert [(g.index, g.after) for g in hidden.gpus] == [(g.index, g.after) for g in plan.gpus]
    assert sorted(n.code for n in hidden.not_targets) == sorted(n.code for n in plan.not_targets)


@pytest.mark.parametrize("searches", range(12))
def test_a_search_that_is_broken_off_gives_what_was_found_and_says_so(monkeypatch, searches):
    """Wherever it is broken off, what comes out passes the judge, and pods that wait keep their GPUs."""
    snapshot = a_snapshot(a_mig_node("a"), a_mig_node("b", gpus=4), a_pod("tp8", gpus=8, tp=8), *busy_beside_idle())
    stop = Interruption()
    done = 0

    def broken_off(*arguments: Any) -> Any:
        nonlocal done
        done += 1
        if done > searches and not stop.asked:
            stop.ask()
        return until_stopped(*arguments)

    monkeypatch.setattr("planner.models.phases.until_stopped", broken_off)
    wanted = MigOptions(profiles=(wanted_profile("1g.10gb=40"), wanted_profile("3g.40gb=1")), asked=True)
    plan = plan_mig(snapshot, SETTINGS, wanted, NOW, stop=stop)
    assert check_mig_plan(plan, snapshot, SETTINGS).valid
    assert "a" not in plan.node_labels
    if stop.asked:
        assert told(plan, "the search was interrupted") or plan.solver.status == "optimal"
        assert {unmet.code for unmet in plan.unmet} <= {"NO_ANSWER_IN_TIME", "ISLAND_NEEDED", "NO_GPU_TO_CUT"}
