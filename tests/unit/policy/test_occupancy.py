"""Counting free GPUs as kube-scheduler does, and knowing which they are."""

import pytest

from islander.cluster import names
from islander.cluster.node import GpuReport, MigDevice, ReportedGpu
from islander.cluster.pod import Container, ContainerKind
from islander.hardware.links import mask_of
from islander.hardware.presets import preset
from islander.hardware.topo import cells_of
from islander.policy.occupancy import GpuState, Source, gpu_state
from tests.builders import a_container, a_node, a_pod, a_report, resources

BRIDGED = preset("a100-pcie-8")


def masks(*sets: str) -> tuple[int, ...]:
    return tuple(sorted(mask_of(map(int, free)) for free in sets))


def counts(state: GpuState) -> tuple[int, int, int, int]:
    return state.used, state.free, state.withdrawn, state.overallocated


def test_terminating_pod_still_holds_its_gpus_g04() -> None:
    leaving = a_pod("a", gpus=8, node="n1", deleted="2026-01-01T00:10:00Z")
    assert gpu_state(a_node(), [leaving]).free == 0
    assert gpu_state(a_node(), []).free == 8


def test_finished_pods_hold_no_gpus_g05() -> None:
    pods = [
        a_pod("done", gpus=4, node="n1", phase="Succeeded"),
        a_pod("refused", gpus=2, node="n1", phase="Failed"),
        a_pod("runs", gpus=2, node="n1"),
    ]
    assert counts(gpu_state(a_node(), pods)) == (2, 6, 0, 0)


def test_free_is_counted_per_node_and_never_negative_g07() -> None:
    sick = gpu_state(a_node("a", allocatable=2), [a_pod(gpus=6, node="a")])
    empty = gpu_state(a_node("b"), [])
    part = gpu_state(a_node("c", allocatable=5), [])
    assert counts(sick) == (6, 0, 6, 4)
    assert counts(empty) == (0, 8, 0, 0)
    assert counts(part) == (0, 5, 3, 0)
    assert sick.free + empty.free + part.free == 13


def test_gpu_node_without_registered_gpus_has_none_free_g09() -> None:
    fresh = a_node(gpus=0, labels={names.GPU_PRESENT: "true", names.GPU_PRODUCT: "NVIDIA-H100-80GB-HBM3"})
    state = gpu_state(fresh, [])
    assert (state.free, state.offered, state.gpu_node) == (0, False, True)


def test_node_whose_plugin_restarts_is_overallocated_and_not_free_g09() -> None:
    state = gpu_state(a_node(allocatable=0), [a_pod(gpus=8, node="n1")])
    assert counts(state) == (8, 0, 8, 8)


def test_cpu_node_is_no_gpu_node() -> None:
    assert not gpu_state(a_node(gpus=0), []).gpu_node


def test_empty_node_has_all_its_gpus_free_without_anybody_reporting() -> None:
    state = gpu_state(a_node(), [])
    assert (state.free_sets, state.source) == ((0xFF,), Source.PREDICTED)


def test_without_a_report_any_gpus_may_be_the_free_ones() -> None:
    state = gpu_state(a_node(), [a_pod(gpus=6, node="n1")])
    assert len(state.free_sets) == 28
    assert state.source is Source.UNKNOWN


def test_report_of_the_node_names_the_free_gpus() -> None:
    report = a_report(used={0: "default/p1", 3: "default/p1"})
    state = gpu_state(a_node(report=report), [a_pod(gpus=2, node="n1")])
    assert (state.free_sets, state.source) == (masks("124567"), Source.AGENT)


def test_gpus_of_a_deleted_pod_are_free_although_the_report_still_names_it_g06() -> None:
    used = {g: f"default/p{g // 2}" for g in range(8)}
    alive = [a_pod(f"p{i}", gpus=2, node="n1") for i in (0, 1, 3)]
    state = gpu_state(a_node(report=a_report(used=used)), alive)
    assert (state.free, state.free_sets, state.source) == (2, masks("45"), Source.AGENT)


def test_pod_that_the_report_does_not_know_yet_takes_any_of_its_possible_picks() -> None:
    assert BRIDGED is not None
    report = a_report(used={1: "default/old"}, links=cells_of(BRIDGED.links), numa=(0, 0, 0, 0, 1, 1, 1, 1))
    pods = [a_pod("old", gpus=1, node="n1"), a_pod("new", gpus=2, tp=2, node="n1")]
    state = gpu_state(a_node(report=report), pods)
    # 0 has lost its partner; the plugin prefers one of the three whole pairs.
    assert state.free_sets == masks("04567", "02367", "02345")
    assert state.source is Source.AGENT


def test_sick_gpu_is_not_among_the_free_ones() -> None:
    state = gpu_state(a_node(allocatable=7, report=a_report(sick=[2])), [])
    assert (state.free, state.free_sets) == (7, masks("0134567"))


def test_report_that_contradicts_the_counts_is_not_believed() -> None:
    # The report says all are free, the API says that only 6 are offered: which two are withdrawn is not known.
    state = gpu_state(a_node(allocatable=6, report=a_report()), [])
    assert state.source is Source.UNKNOWN
    assert len(state.free_sets) == 28


def test_gpus_cut_into_mig_are_not_whole_gpus() -> None:
    whole = a_report().gpus[1:]
    report = GpuReport(gpus=(ReportedGpu(index=0, mig=(MigDevice("1g.10gb"),)), *whole))
    state = gpu_state(a_node(allocatable=7, report=report), [])
    assert state.free_sets == masks("1234567")


def test_replicas_of_shared_gpus_are_not_gpus_g28() -> None:
    shared = {names.GPU_SHARING_STRATEGY: "time-slicing"}
    two, one = {names.GPU_COUNT: "2", names.GPU_REPLICAS: "2"}, {names.GPU_COUNT: "1", names.GPU_REPLICAS: "12"}
    n1 = a_node("n1", gpus=4, product="NVIDIA-L4-SHARED", labels=two | shared)
    n2 = a_node("n2", gpus=12, product="NVIDIA-L4-SHARED", labels=one | shared)
    n3 = a_node("n3", gpus=2, product="NVIDIA-L4")
    states = [gpu_state(node, []) for node in (n1, n2, n3)]
    assert [state.physical for state in states] == [2, 1, 2]
    assert [state.whole for state in states] == [False, False, True]


def test_more_than_a_hundred_possible_sets_are_not_listed() -> None:
    node = a_node(gpus=16, product="Tesla-V100-SXM3-32GB")
    state = gpu_state(node, [a_pod(gpus=8, node="n1")])
    assert (state.free, state.free_sets, state.source) == (8, (), Source.UNKNOWN)


def test_effective_request_of_a_sidecar_counts_on_top_g02() -> None:
    containers: tuple[Container, ...] = (
        a_container("proxy", gpus=1, kind=ContainerKind.SIDECAR),
        a_container("vllm", gpus=1),
    )
    pod = a_pod(node="n1", containers=containers, requests=resources(gpus=2))
    assert gpu_state(a_node(), [pod]).used == 2


@pytest.mark.parametrize("resource", [names.AMD_GPU, "example.com/gpu"])
def test_other_resource_names_are_counted_alike(resource: str) -> None:
    node = a_node(gpus=8, gpu_resource=resource, product=None)
    pod = a_pod(gpus=3, node="n1", gpu_resource=resource)
    assert gpu_state(node, [pod], resource).free == 5
