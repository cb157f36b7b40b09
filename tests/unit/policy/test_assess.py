"""The verdict of one node for one need."""

from collections.abc import Sequence

import pytest

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import ContainerKind, Pod
from islander.hardware.links import Hardware
from islander.hardware.presets import preset
from islander.hardware.topo import cells_of
from islander.policy.assess import Assessment, Verdict, assess
from islander.policy.need import need_of
from islander.policy.occupancy import gpu_state
from islander.policy.reasons import Code
from islander.policy.settings import DEFAULT_MIX, PolicySettings
from tests.builders import a_container, a_node, a_pod, a_report, resources


def known(name: str) -> Hardware:
    hardware = preset(name)
    assert hardware is not None
    return hardware


def a_reporting_node(hardware: str, used: str = "", name: str = "n1", policy: str = "") -> Node:
    """A node that reports its links, and single-GPU pods `p0`, `p3`, ... on the used GPUs."""
    machine = known(hardware)
    return a_node(
        name,
        gpus=machine.gpus,
        report=a_report(
            machine.gpus,
            used={int(gpu): f"default/p{gpu}" for gpu in used},
            links=cells_of(machine.links),
            plugin_links=cells_of(machine.plugin_links),
            numa=machine.numa,
            topology_manager_policy=policy,
        ),
    )


def judge(node: Node, pod: Pod, used: str = "", settings: PolicySettings | None = None) -> Assessment:
    there = [a_pod(f"p{gpu}", gpus=1, node=node.name) for gpu in used]
    need = need_of(pod, settings or PolicySettings())
    return assess(gpu_state(node, there, need.resource), need, DEFAULT_MIX)


def judge_free(hardware: str, free: str, pod: Pod, policy: str = "") -> Assessment:
    used = "".join(str(gpu) for gpu in range(known(hardware).gpus) if str(gpu) not in free)
    return judge(a_reporting_node(hardware, used, policy=policy), pod, used)


TP2 = a_pod("tp2", gpus=2, tp=2)
TP4 = a_pod("tp4", gpus=4, tp=4)
TP4_REQUIRED = a_pod("tp4", gpus=4, tp=4, topology="required")
TP2_REQUIRED = a_pod("tp2", gpus=2, tp=2, topology="required")
SINGLE = a_pod("single", gpus=1)


@pytest.mark.parametrize(
    ("hardware", "free", "pod", "verdict", "code"),
    [
        ("hgx-h100-8", "01234567", TP4, Verdict.GUARANTEED, None),
        ("hgx-h100-8", "0246", TP4, Verdict.GUARANTEED, None),
        ("hgx-h100-8", "024", TP4, Verdict.IMPOSSIBLE, Code.NOT_ENOUGH_FREE_GPUS),
        ("a100-pcie-8", "01234567", TP2, Verdict.GUARANTEED, None),
        ("a100-pcie-8", "0246", TP2, Verdict.IMPOSSIBLE, Code.NO_FREE_ISLAND),
        ("a100-pcie-8", "01234567", TP4, Verdict.IMPOSSIBLE, Code.NO_SUCH_ISLAND),
        ("dgx-1v", "01234567", TP4, Verdict.GUARANTEED, None),
        ("dgx-1v", "0124567", TP4, Verdict.GUARANTEED, None),
        ("dgx-1v", "012456", TP4, Verdict.IMPOSSIBLE, Code.NO_FREE_ISLAND),
        ("l40s-8", "01234567", TP2, Verdict.IMPOSSIBLE, Code.NO_SUCH_ISLAND),
        ("l40s-8", "01234567", SINGLE, Verdict.GUARANTEED, None),
    ],
)
def test_verdicts(hardware: str, free: str, pod: Pod, verdict: Verdict, code: Code | None) -> None:
    answer = judge_free(hardware, free, pod)
    assert (answer.verdict, answer.code) == (verdict, code)


def test_required_is_refused_where_preferred_is_only_scored_lower() -> None:
    preferred, required = judge_free("a100-pcie-8", "0246", TP2), judge_free("a100-pcie-8", "0246", TP2_REQUIRED)
    assert preferred.accepted
    assert not required.accepted
    assert preferred.code is required.code is Code.NO_FREE_ISLAND


def test_counts_refuse_whatever_the_topology_is() -> None:
    assert not judge_free("hgx-h100-8", "024", TP4).accepted
    assert judge_free("hgx-h100-8", "01234567", a_pod(gpus=9)).code is Code.NODE_TOO_SMALL


def test_linked_pair_that_the_plugin_prefers_is_guaranteed_g22() -> None:
    answer = judge_free("a100-pcie-8-crossed", "012", TP2)
    assert answer.picks == ((0, 2),)
    assert answer.verdict is Verdict.GUARANTEED
    assert judge_free("a100-pcie-8-crossed", "134", TP2).picks == ((1, 3),)


def test_node_with_a_linked_pair_outranks_one_without_at_equal_fill_g22() -> None:
    linked = judge_free("a100-pcie-8-crossed", "02", TP2)
    apart = judge_free("a100-pcie-8-crossed", "01", TP2)
    assert linked.parts > apart.parts
    assert (linked.worst_link, apart.worst_link) == ("NV12", "SYS")


def test_without_nvlink_one_numa_node_beats_two_g26() -> None:
    same, across = judge_free("l40s-8", "45", TP2), judge_free("l40s-8", "34", TP2)
    assert judge_free("l40s-8", "345", TP2).picks == ((4, 5),)
    assert same.parts > across.parts
    assert across.accepted
    assert (same.worst_link, across.worst_link) == ("NODE", "SYS")


def test_numa_decides_even_where_every_link_is_the_same_g26() -> None:
    all_sys = [["X" if i == j else "SYS" for j in range(8)] for i in range(8)]

    def free(gpus: str) -> Assessment:
        used = {g: f"default/p{g}" for g in range(8) if str(g) not in gpus}
        node = a_node(report=a_report(used=used, links=all_sys, numa=(0, 0, 0, 0, 1, 1, 1, 1)))
        return judge(node, TP2, "".join(map(str, used)))

    assert free("45").parts > free("345").parts > free("34").parts, "a chance of one NUMA node beats none"
    assert free("34").accepted
    assert free("34").parts.numa_nodes == -2


def test_links_are_judged_per_container_g03() -> None:
    pod = a_pod(containers=(a_container("a", gpus=2, tp=2), a_container("b", gpus=1)), requests=resources(gpus=3))
    linked = judge_free("a100-pcie-8", "015", pod)
    unlinked = judge_free("a100-pcie-8", "035", pod)
    assert (linked.verdict, unlinked.verdict) == (Verdict.GUARANTEED, Verdict.IMPOSSIBLE)
    assert linked.parts > unlinked.parts
    assert need_of(pod, PolicySettings()).gpus == 3


def test_init_container_hands_its_gpus_on() -> None:
    containers = (a_container("warm", gpus=2, kind=ContainerKind.INIT), a_container("vllm", gpus=2, tp=2))
    pod = a_pod(containers=containers, requests=resources(gpus=2))
    answer = judge_free("a100-pcie-8", "0123", pod)
    assert answer.picks == ((0, 1), (2, 3))
    assert answer.verdict is Verdict.GUARANTEED


def test_tensor_parallel_groups_inside_a_container_are_the_islands() -> None:
    # TP 2 x PP 2: ranks 0,1 and 2,3 are the groups; the whole four need not be linked.
    pod = a_pod(containers=(a_container(gpus=4, argv=("vllm", "serve", "m", "-tp", "2", "-pp", "2")),))
    assert judge_free("a100-pcie-8", "0123", pod).verdict is Verdict.GUARANTEED
    assert judge_free("a100-pcie-8", "0124", pod).verdict is Verdict.IMPOSSIBLE


def test_a_pick_that_may_or_may_not_be_an_island_is_only_possible() -> None:
    # Four of eight GPUs free without a report: some choices hold a pair, others none.
    pods = [a_pod(f"p{i}", gpus=1, node="n1") for i in range(4)]
    node = a_node(hardware="a100-pcie-8", product="NVIDIA-A100-80GB-PCIe")
    need = need_of(TP2_REQUIRED, PolicySettings())
    answer = assess(gpu_state(node, pods), need, DEFAULT_MIX)
    assert (answer.verdict, answer.code, answer.accepted) == (Verdict.POSSIBLE, Code.ISLAND_NOT_GUARANTEED, False)
    assert 0 < answer.parts.island_likelihood < 1


def test_five_of_eight_bridged_gpus_always_hold_a_whole_pair() -> None:
    pods = [a_pod(f"p{i}", gpus=1, node="n1") for i in range(3)]
    node = a_node(hardware="a100-pcie-8", product="NVIDIA-A100-80GB-PCIe")
    answer = assess(gpu_state(node, pods), need_of(TP2_REQUIRED, PolicySettings()), DEFAULT_MIX)
    assert answer.verdict is Verdict.GUARANTEED


def test_unknown_links_are_accepted_unless_they_are_required() -> None:
    node = a_node(product="Some-Future-GPU")
    assert judge(node, TP4).accepted
    refused = judge(node, TP4_REQUIRED)
    assert (refused.accepted, refused.verdict, refused.code) == (False, Verdict.POSSIBLE, Code.ISLAND_NOT_GUARANTEED)


def test_degraded_nvswitch_node_is_an_island_of_seven_and_a_lone_gpu() -> None:
    seven = judge_free("hgx-b200-8-without-2", "0134567", TP4)
    eight = judge_free("hgx-b200-8-without-2", "01234567", a_pod(gpus=8, tp=8, topology="required"))
    assert seven.verdict is Verdict.GUARANTEED
    assert (eight.accepted, eight.code) == (False, Code.NO_SUCH_ISLAND)


def test_plugin_that_never_picks_the_free_island_leaves_it_unguaranteed() -> None:
    # The plugin is blind to the switch and keeps to a NUMA node: with 0,1,2,3 free it takes them, the lone 2 with them.
    answer = judge_free("hgx-b200-8-without-2", "0123", a_pod(gpus=3, tp=3, topology="required"))
    assert answer.code is Code.ISLAND_NOT_GUARANTEED
    assert answer.verdict is Verdict.POSSIBLE


def test_single_gpu_costs_least_where_the_island_is_already_broken() -> None:
    for hardware, broken, whole in (
        ("hgx-h100-8", "012", "01234567"),
        ("a100-pcie-8", "0", "01"),
        ("dgx-1v", "0", "0123"),
    ):
        assert judge_free(hardware, broken, SINGLE).parts > judge_free(hardware, whole, SINGLE).parts, hardware


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_kubelet_that_would_refuse_is_a_refusal(policy: str) -> None:
    answer = judge_free("l40s-8", "0145", a_pod(gpus=4, tp=4), policy=policy)
    assert (answer.accepted, answer.code) == (False, Code.NUMA_SPLIT)


def test_replicas_of_shared_gpus_are_refused_to_tensor_parallelism_g28() -> None:
    labels = {names.GPU_COUNT: "2", names.GPU_REPLICAS: "2", names.GPU_SHARING_STRATEGY: "time-slicing"}
    shared = a_node(gpus=4, product="NVIDIA-L4-SHARED", labels=labels)
    assert judge(shared, TP2).code is Code.SHARED_GPUS
    assert not judge(shared, TP2).accepted
    assert judge(shared, SINGLE).accepted
    assert judge(shared, a_pod(gpus=2, tp=2, topology="ignored")).accepted
    assert judge(a_node(gpus=2, product="NVIDIA-L4"), TP2).accepted


@pytest.mark.parametrize(
    ("selector", "code"),
    [({names.GPU_PRODUCT: "NVIDIA-L40S"}, Code.WRONG_PRODUCT), ({names.GPU_PRODUCT: "NVIDIA-H100-80GB-HBM3"}, None)],
)
def test_product_of_the_selector_is_judged_g17(selector: dict[str, str], code: Code | None) -> None:
    assert judge(a_node(), a_pod(gpus=8, node_selector=selector)).code is code


def test_mig_devices_are_counted_by_their_own_name() -> None:
    resource = f"{names.MIG_RESOURCE_PREFIX}3g.40gb"
    node = a_node(gpus=2, gpu_resource=resource)
    pod = a_pod(gpus=1, gpu_resource=resource)
    full = [a_pod(f"x{i}", gpus=1, node="n1", gpu_resource=resource) for i in range(2)]
    need = need_of(pod, PolicySettings())
    assert assess(gpu_state(node, [], resource), need, DEFAULT_MIX).accepted
    assert assess(gpu_state(node, full, resource), need, DEFAULT_MIX).code is Code.MIG_NOT_PLACEABLE


def test_sixteen_switched_gpus_are_judged_without_knowing_which_are_free() -> None:
    node = a_node(gpus=16, product="Tesla-V100-SXM3-32GB")
    pods: Sequence[Pod] = [a_pod(gpus=5, node="n1")]
    answer = assess(gpu_state(node, pods), need_of(TP4_REQUIRED, PolicySettings()), DEFAULT_MIX)
    assert (answer.verdict, answer.complete) == (Verdict.GUARANTEED, False)


def test_replica_of_two_takes_a_bridged_pair_before_it_breaks_an_nvswitch_island() -> None:
    pair, island = judge_free("a100-pcie-8", "01", TP2), judge_free("hgx-h100-8", "01234567", TP2)
    assert (pair.worst_link, island.worst_link) == ("NV12", "NV18")
    assert pair.parts > island.parts


def test_few_links_are_still_told_apart() -> None:
    # DGX-1V: 0-3 is NV2, 0-1 is NV1.
    assert judge_free("dgx-1v", "03", TP2).parts.link > judge_free("dgx-1v", "01", TP2).parts.link


def test_plugin_that_may_return_a_blank_device_guarantees_nothing() -> None:
    # Pair 0-1 with NV6, the rest of five GPUs on one NUMA node: the best split pads {0,1} with a blank and picks it.
    cells = [["SYS"] * 5 for _ in range(5)]
    for i in range(5):
        cells[i][i] = "X"
        for j in range(5):
            if i != j and min(i, j) >= 2:
                cells[i][j] = "NODE"
    cells[0][1] = cells[1][0] = "NV6"
    node = a_node(gpus=5, report=a_report(5, links=cells))
    answer = judge(node, a_pod(gpus=3, tp=3))
    assert (answer.accepted, answer.verdict, answer.complete) == (True, Verdict.IMPOSSIBLE, False)
    assert answer.code is Code.NO_SUCH_ISLAND


def test_sixteen_gpus_without_links_and_without_a_report_are_judged_by_what_they_can_never_be() -> None:
    node = a_node(gpus=16, product="NVIDIA-L40S")
    answer = assess(gpu_state(node, [a_pod(gpus=2, node="n1")]), need_of(TP4_REQUIRED, PolicySettings()), DEFAULT_MIX)
    assert (answer.verdict, answer.code) == (Verdict.IMPOSSIBLE, Code.NO_SUCH_ISLAND)


def test_smaller_gpus_are_preferred_when_all_else_is_equal() -> None:
    small, large = a_node(memory_mib=40_000), a_node(memory_mib=80_000)
    assert judge(small, SINGLE).parts > judge(large, SINGLE).parts
