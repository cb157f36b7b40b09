"""What a pod asks of one node."""

import pytest

from islander.cluster import names
from islander.cluster.pod import NodeTerm, Requirement
from islander.policy.need import NO_GPUS, need_of
from islander.policy.settings import PolicySettings, Shape, Topology
from tests.builders import a_pod

SETTINGS = PolicySettings()


def term(*requirements: tuple[str, str, str]) -> NodeTerm:
    return NodeTerm(labels=tuple(Requirement(key, operator, (value,)) for key, operator, value in requirements))


@pytest.mark.parametrize(
    ("bound", "memory_mib"), [("40000", 40_001), ("-1", 0), ("²", 0), ("9" * 5000, 0), ("many", 0), ("", 0)]
)
def test_least_memory_is_read_from_a_bound_that_is_a_number(bound: str, memory_mib: int) -> None:
    assert need_of(a_pod(node_terms=(term((names.GPU_MEMORY, "Gt", bound)),)), SETTINGS).memory_mib == memory_mib


def test_products_are_those_that_every_condition_allows() -> None:
    either = NodeTerm(labels=(Requirement(names.GPU_PRODUCT, "In", ("B", "A")),))
    assert need_of(a_pod(node_terms=(either,)), SETTINGS).products == ("A", "B")
    assert need_of(a_pod(node_terms=(either,), node_selector={names.GPU_PRODUCT: "A"}), SETTINGS).products == ("A",)
    assert need_of(a_pod(node_terms=(either,), node_selector={names.GPU_PRODUCT: "C"}), SETTINGS).products == ()


def test_what_only_one_of_several_alternatives_asks_for_is_no_condition() -> None:
    terms = (term((names.GPU_PRODUCT, "In", "A")), term(("zone", "In", "z1")))
    assert need_of(a_pod(node_terms=terms), SETTINGS).products is None


def test_who_asks_for_a_topology_without_a_size_means_all_gpus_of_the_container() -> None:
    need = need_of(a_pod(gpus=4, topology="required"), SETTINGS)
    assert need.wants_island
    assert need.shape == Shape(4, island=True)


def test_an_unknown_topology_counts_as_absent() -> None:
    assert need_of(a_pod(gpus=4, tp=4, topology="always"), SETTINGS).topology is Topology.PREFERRED
    assert need_of(a_pod(gpus=1, topology="always"), SETTINGS).topology is Topology.IGNORED


def test_a_default_of_the_settings_holds_for_tensor_parallelism_alone() -> None:
    strict = PolicySettings(topology_default=Topology.REQUIRED)
    assert need_of(a_pod(gpus=4, tp=4), strict).topology is Topology.REQUIRED
    assert need_of(a_pod(gpus=4), strict).topology is Topology.IGNORED


def test_a_pod_without_gpus_needs_nothing() -> None:
    assert need_of(a_pod(gpus=0), SETTINGS) is NO_GPUS


def test_gpus_under_another_name_count_when_the_settings_name_it() -> None:
    pod = a_pod(gpus=2, tp=2, gpu_resource="example.com/gpu")
    assert need_of(pod, SETTINGS) is NO_GPUS
    need = need_of(pod, PolicySettings(gpu_resources=("example.com/gpu",)))
    assert (need.resource, need.gpus, need.wants_island) == ("example.com/gpu", 2, True)
