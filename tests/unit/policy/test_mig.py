"""MIG in the policy: counts, nodes that are being cut, engines that cannot be split over instances."""

from __future__ import annotations

from typing import Any

import pytest

from islander.cluster import names
from islander.cluster.node import GpuReport, MigDevice, Node, ReportedGpu
from islander.cluster.pod import Pod
from islander.hardware.mig import resource_name
from islander.policy.assess import Assessment, Verdict, assess
from islander.policy.demand import observed_mix
from islander.policy.explain import explain_pod
from islander.policy.need import need_of
from islander.policy.occupancy import gpu_state
from islander.policy.reasons import REASONS, Code
from islander.policy.settings import DEFAULT_MIX, PolicySettings
from islander.policy.status import cluster_status
from tests.builders import H100, a_node, a_pod, a_snapshot

A100 = "NVIDIA-A100-SXM4-80GB"
STATE = names.MIG_CONFIG_STATE


def asking_mig(profile: str, count: int = 1, name: str = "asking", **fields: Any) -> Pod:
    return a_pod(name, gpus=count, gpu_resource=resource_name(profile), **fields)


def judge(node: Node, pod: Pod, *there: Pod) -> Assessment:
    need = need_of(pod, PolicySettings())
    return assess(gpu_state(node, there, need.resource), need, DEFAULT_MIX)


def invalid(gpus: int = 0) -> Node:
    """G41 a: strategy single over GPUs that are cut differently."""
    labels = {names.GPU_PRODUCT: f"{A100}-MIG-INVALID", names.GPU_COUNT: "0", names.MIG_STRATEGY: "single"}
    return a_node("invalid", gpus=gpus, product=None, labels=labels)


def mixed(**fields: Any) -> Node:
    """G41 b: eight GPUs, GPU 0 as 2g x 3 + 1g, GPU 1 as 4g + 3g, six whole."""
    return a_node(
        "mixed",
        gpus=6,
        product=A100,
        labels={names.GPU_COUNT: "8", names.MIG_STRATEGY: "mixed"},
        mig={"2g.20gb": 3, "1g.10gb": 1, "4g.40gb": 1, "3g.40gb": 1},
        **fields,
    )


def single(name: str = "single") -> Node:
    return a_node(name, gpus=56, product=f"{H100}-MIG-1g.10gb", memory_mib=9728, labels={names.MIG_STRATEGY: "single"})


class TestMixedStrategy:
    """G41 b."""

    @pytest.mark.parametrize("profile", ["2g.20gb", "1g.10gb", "4g.40gb", "3g.40gb"])
    def test_each_profile_is_counted_by_its_own_name(self, profile: str) -> None:
        offered = mixed().allocatable.count(resource_name(profile))
        assert judge(mixed(), asking_mig(profile, offered)).verdict is Verdict.GUARANTEED
        assert judge(mixed(), asking_mig(profile, offered + 1)).code is Code.MIG_NOT_PLACEABLE
        holder = asking_mig(profile, offered, "holder", node="mixed")
        assert judge(mixed(), asking_mig(profile), holder).code is Code.MIG_NOT_PLACEABLE

    def test_whole_gpus_are_counted_by_allocatable_and_not_by_the_label(self) -> None:
        assert judge(mixed(), a_pod(gpus=6)).accepted
        assert judge(mixed(), a_pod(gpus=7)).code is Code.NODE_TOO_SMALL
        assert gpu_state(mixed(), []).physical == 8

    def test_instances_of_others_do_not_take_whole_gpus(self) -> None:
        holder = asking_mig("2g.20gb", 3, "holder", node="mixed")
        assert judge(mixed(), a_pod(gpus=6), holder).accepted
        assert judge(mixed(), asking_mig("3g.40gb"), a_pod("whole", gpus=6, node="mixed")).accepted

    def test_a_profile_that_the_node_does_not_have_is_refused_even_where_drivers_may_bring_devices(self) -> None:
        need = need_of(asking_mig("7g.80gb"), PolicySettings())
        state = gpu_state(mixed(), [], need.resource, dra=True)
        assert assess(state, need, DEFAULT_MIX).code is Code.MIG_NOT_PLACEABLE

    def test_gpus_that_the_report_shows_as_cut_are_never_in_a_pick(self) -> None:
        cut = (MigDevice("3g.40gb", 0),)
        gpus = tuple(ReportedGpu(i, mig=cut if i < 2 else ()) for i in range(8))
        state = gpu_state(mixed(report=GpuReport(gpus)), [])
        assert state.free_sets == (0b11111100,)
        # One of the six is held by nobody knows whom: still none of the cut ones.
        held = gpu_state(mixed(report=GpuReport(gpus)), [a_pod("x", gpus=1, node="mixed")])
        assert {mask & 0b11 for mask in held.free_sets} == {0}

    def test_a_node_that_is_cut_up_altogether_is_a_node_for_instances(self) -> None:
        node = a_node(gpus=0, product=None, mig={"1g.10gb": 7}, labels={names.GPU_PRODUCT: H100})
        (told,) = cluster_status(a_snapshot(node)).nodes
        assert (told.schedulable, told.not_schedulable_reason, told.free) == (True, "", 0)


class TestSingleStrategy:
    """G41 a."""

    @pytest.mark.parametrize("gpus", [0, 4])
    def test_layouts_that_differ_leave_no_gpu_to_use(self, gpus: int) -> None:
        answer = judge(invalid(gpus), a_pod(gpus=1))
        assert (answer.verdict, answer.code, answer.accepted) == (Verdict.IMPOSSIBLE, Code.MIG_INVALID, False)

    def test_it_is_no_matter_of_drivers_that_may_bring_devices(self) -> None:
        need = need_of(a_pod(gpus=1), PolicySettings())
        assert not assess(gpu_state(invalid(), [], dra=True), need, DEFAULT_MIX).accepted

    def test_the_cure_is_one_layout_or_the_other_strategy(self) -> None:
        cure = REASONS[Code.MIG_INVALID].cure
        assert "alike" in cure
        assert "mixed" in cure

    def test_status_counts_no_gpu_and_says_why(self) -> None:
        status = cluster_status(a_snapshot(invalid(4), a_node("n1")))
        assert (status.totals.allocatable, status.totals.usable_free) == (8, 8)
        told = {node.name: node.not_schedulable_reason for node in status.nodes}
        assert told == {"invalid": REASONS[Code.MIG_INVALID].sentence, "n1": ""}

    def test_a_single_device_may_be_a_slice(self) -> None:
        assert judge(single(), a_pod(gpus=1)).verdict is Verdict.GUARANTEED

    @pytest.mark.parametrize("topology", [None, "preferred", "required"])
    def test_slices_are_not_for_tensor_parallelism(self, topology: str | None) -> None:
        answer = judge(single(), a_pod(gpus=2, tp=2, topology=topology))
        assert (answer.code, answer.accepted) == (Code.MIG_NO_PEER, False)

    def test_who_ignores_topology_gets_slices_last_and_a_warning(self) -> None:
        pod = a_pod("stubborn", gpus=2, tp=2, topology="ignored")
        # The slices are the tighter fit, and smaller.
        nodes = (single("a"), a_node("b"), a_node("c", product="NVIDIA-L40S"))
        explanation = explain_pod(a_snapshot(*nodes), pod)
        scores = {node.name: node.score for node in explanation.nodes}
        assert all(node.accepted for node in explanation.nodes)
        assert min(scores.values()) == scores["a"] < min(scores["b"], scores["c"])
        assert any("devices of a are MIG instances" in warning for warning in explanation.warnings)

    def test_slices_are_instances_in_the_status_and_never_gpus(self) -> None:
        holder = a_pod("holder", gpus=3, node="single")
        status = cluster_status(a_snapshot(single(), holder, a_node("n1")))
        assert (status.totals.allocatable, status.totals.used, status.totals.free) == (8, 0, 8)
        assert status.placeable["1"] == 8
        told = next(node for node in status.nodes if node.name == "single")
        assert (told.gpus, told.allocatable, told.free, told.pods) == (0, 0, 0, [])
        assert told.mig is not None
        (slices,) = told.mig.instances
        assert (slices.profile, slices.resource, slices.allocatable, slices.used, slices.free, slices.pods) == (
            "1g.10gb",
            names.NVIDIA_GPU,
            56,
            3,
            53,
            ["default/holder"],
        )


class TestNodesThatAreBeingCut:
    """G40 and G42: pending and rebooting are no targets, failed needs a person."""

    @pytest.mark.parametrize(
        ("state", "code"),
        [
            ("pending", Code.MIG_CHANGING),
            ("rebooting", Code.MIG_CHANGING),
            ("failed", Code.MIG_FAILED),
            ("success", None),
            ("unheard-of", None),
        ],
    )
    @pytest.mark.parametrize("pod", [a_pod(gpus=1), asking_mig("1g.10gb")], ids=["gpu", "mig"])
    def test_no_target_for_gpus_and_instances(self, state: str, code: Code | None, pod: Pod) -> None:
        node = a_node(mig={"1g.10gb": 7}, labels={STATE: state})
        answer = judge(node, pod)
        assert (answer.accepted, answer.code) == (code is None, code)

    def test_gpus_of_another_vendor_are_none_of_its_business(self) -> None:
        node = a_node(product=None, gpu_resource=names.AMD_GPU, labels={STATE: "pending"})
        assert judge(node, a_pod(gpus=1, gpu_resource=names.AMD_GPU)).accepted

    def test_a_pod_without_gpus_may_run_there(self) -> None:
        explanation = explain_pod(a_snapshot(a_node(labels={STATE: "pending"})), a_pod(gpus=0))
        assert [node.accepted for node in explanation.nodes] == [True]

    def test_status_closes_the_node_with_the_reason(self) -> None:
        snapshot = a_snapshot(a_node("n1", labels={STATE: "pending"}), a_node("n2", labels={STATE: "failed"}))
        status = cluster_status(snapshot)
        assert (status.totals.free, status.totals.usable_free) == (16, 0)
        assert [node.not_schedulable_reason for node in status.nodes] == [
            REASONS[Code.MIG_CHANGING].sentence,
            REASONS[Code.MIG_FAILED].sentence,
        ]
        assert [(node.mig.change, node.mig.strategy) for node in status.nodes if node.mig] == [
            ("changing", ""),
            ("failed", ""),
        ]


class TestEnginesSplitOverInstances:
    def test_who_asks_for_several_by_name_is_warned_and_scored_last(self) -> None:
        pod = asking_mig("1g.10gb", 2, tp=2)
        answer = judge(a_node(mig={"1g.10gb": 7}), pod)
        assert (answer.verdict, answer.code, answer.accepted) == (Verdict.IMPOSSIBLE, Code.MIG_NO_PEER, True)
        assert answer.parts is not None
        assert (answer.parts.link, answer.parts.island_likelihood) == (0, 0.0)
        explanation = explain_pod(a_snapshot(a_node(mig={"1g.10gb": 7})), pod)
        assert any("cannot be split over MIG devices" in warning for warning in explanation.warnings)

    def test_a_required_topology_refuses(self) -> None:
        answer = judge(a_node(mig={"1g.10gb": 7}), asking_mig("1g.10gb", 2, tp=2, topology="required"))
        assert (answer.code, answer.accepted) == (Code.MIG_NO_PEER, False)

    def test_one_instance_is_no_split(self) -> None:
        answer = judge(a_node(mig={"3g.40gb": 2}), asking_mig("3g.40gb", tp=1))
        assert (answer.verdict, answer.code) == (Verdict.GUARANTEED, None)


class TestCluster:
    def test_instances_are_no_demand_for_gpus(self) -> None:
        settings = PolicySettings()
        pods = [asking_mig("1g.10gb", name=f"p{i}") for i in range(5)]
        assert observed_mix(need_of(pod, settings) for pod in pods) == observed_mix(())

    def test_totals_by_profile(self) -> None:
        closed = a_node("closed", mig={"2g.20gb": 2}, unschedulable=True)
        holder = asking_mig("2g.20gb", 1, "holder", node="mixed")
        status = cluster_status(a_snapshot(mixed(), closed, holder))
        totals = status.mig["2g.20gb"]
        assert (totals.allocatable, totals.used, totals.free, totals.usable_free) == (5, 1, 4, 2)
        assert set(status.mig) == {"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb"}

    def test_pending_instances_are_told_by_profile_and_stuck_by_their_own_count(self) -> None:
        # Two nodes with one free half each: a pod that wants two finds none, though two are free.
        nodes = [a_node(name, gpus=6, mig={"3g.40gb": 1}) for name in ("n1", "n2")]
        pods = [asking_mig("3g.40gb", 2, "two"), asking_mig("4g.40gb", 1, "none"), asking_mig("3g.40gb", 1, "one")]
        told = {p.pod: (p.shape, p.reason, p.stuck) for p in cluster_status(a_snapshot(*nodes, *pods)).pending}
        assert told == {
            "default/two": ("2x3g.40gb", "MIG_NOT_PLACEABLE", True),
            "default/none": ("4g.40gb", "MIG_NOT_PLACEABLE", False),
            "default/one": ("3g.40gb", "", False),
        }

    def test_what_could_still_be_made_is_told_where_layouts_are_reported(self) -> None:
        cut = ReportedGpu(0, mig=(MigDevice("3g.40gb", 4),))
        node = a_node(gpus=7, mig={"3g.40gb": 1}, report=GpuReport((cut, *(ReportedGpu(i) for i in range(1, 8)))))
        (told,) = cluster_status(a_snapshot(node)).nodes
        assert told.mig is not None
        assert (told.mig.strategy, told.mig.more["4g.40gb"], told.mig.more["1g.10gb"]) == ("mixed", 1, 4)
        assert "7g.80gb" not in told.mig.more

    @pytest.mark.parametrize(
        ("gpus", "mig", "cut", "silent"),
        [(7, {}, 0, 1), (8, {}, 0, 0), (6, {"3g.40gb": 1}, 1, 1), (7, {"3g.40gb": 1}, 1, 0), (5, {"3g.40gb": 1}, 0, 0)],
    )
    def test_a_gpu_with_mig_on_and_no_instances_offers_nothing(
        self, gpus: int, mig: dict[str, int], cut: int, silent: int
    ) -> None:
        """The last: without a report nobody knows how many GPUs stand behind the instances."""
        devices = (MigDevice("3g.40gb", 0),)
        report = GpuReport(tuple(ReportedGpu(i, mig=devices if i < cut else ()) for i in range(8))) if cut else None
        labels = {names.GPU_COUNT: "8", names.MIG_STRATEGY: "mixed"}
        node = a_node(gpus=gpus, mig=mig, labels=labels, report=report)
        told = [warning for warning in cluster_status(a_snapshot(node)).warnings if "offer nothing" in warning]
        assert told == (
            [f"node n1: {silent} of its GPUs offer nothing: MIG is on without instances, or they are not registered"]
            if silent
            else []
        )

    def test_a_node_without_mig_says_nothing_of_it(self) -> None:
        assert [node.mig for node in cluster_status(a_snapshot(a_node())).nodes] == [None]

    def test_the_need_names_its_resource(self) -> None:
        explanation = explain_pod(a_snapshot(mixed()), asking_mig("3g.40gb"))
        assert (explanation.need.resource, explanation.need.gpus) == ("nvidia.com/mig-3g.40gb", 1)
        assert [(node.verdict, node.free) for node in explanation.nodes] == [("guaranteed", 1)]
