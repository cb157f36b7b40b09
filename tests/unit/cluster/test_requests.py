"""The effective request of a pod counts what runs at the same time (G02, G03)."""

from __future__ import annotations

from islander.cluster import names
from islander.cluster.pod import ContainerKind
from islander.cluster.requests import effective_requests
from islander.cluster.resources import Resources
from tests.builders import a_container, resources

INIT, SIDECAR = ContainerKind.INIT, ContainerKind.SIDECAR


def gpus(total: Resources) -> int:
    return total.count(names.NVIDIA_GPU)


def test_an_ordinary_init_container_and_the_app_reuse_the_same_gpus() -> None:
    """G02 a."""
    assert gpus(effective_requests([a_container("i", gpus=8, kind=INIT), a_container(gpus=8)])) == 8


def test_a_sidecar_keeps_its_gpus_beside_the_app() -> None:
    """G02 b."""
    assert gpus(effective_requests([a_container("s", gpus=8, kind=SIDECAR), a_container(gpus=8)])) == 16


def test_an_init_container_without_gpus_changes_nothing() -> None:
    """G02 c."""
    pod = [a_container("i", kind=INIT), a_container("a", gpus=2), a_container("b", gpus=2)]
    assert gpus(effective_requests(pod)) == 4


def test_a_small_sidecar_adds_to_the_app() -> None:
    """G02 d."""
    assert gpus(effective_requests([a_container("s", gpus=1, kind=SIDECAR), a_container(gpus=1)])) == 2


def test_only_sidecars_listed_before_an_init_container_run_beside_it() -> None:
    before = [a_container("s", gpus=2, kind=SIDECAR), a_container("i", gpus=8, kind=INIT), a_container(gpus=1)]
    after = [a_container("i", gpus=8, kind=INIT), a_container("s", gpus=2, kind=SIDECAR), a_container(gpus=1)]
    assert gpus(effective_requests(before)) == 10
    assert gpus(effective_requests(after)) == 8


def test_all_gpu_containers_of_a_pod_are_summed() -> None:
    """G03."""
    assert gpus(effective_requests([a_container("a", gpus=2), a_container("b", gpus=1)])) == 3


def test_overhead_comes_on_top_of_the_larger_side() -> None:
    pod = [a_container("i", cpu=4, kind=INIT), a_container(cpu=1, memory_gib=2)]
    assert effective_requests(pod, resources(cpu=0.25, memory_gib=1)) == resources(cpu=4.25, memory_gib=3)


def test_requests_of_the_pod_as_a_whole_replace_those_of_its_containers() -> None:
    pod = [a_container(cpu=1, memory_gib=2, gpus=2)]
    total = effective_requests(pod, resources(cpu=0.5), pod_cpu_milli=3000)
    assert total == resources(cpu=3.5, memory_gib=2, gpus=2)


def test_a_pod_without_containers_asks_for_nothing() -> None:
    assert effective_requests([]) == Resources()
