"""The hardware of a node: report before annotation before labels, and labels that lie (G11, G28, G41)."""

from __future__ import annotations

import msgspec
import pytest

from islander.cluster import names
from islander.cluster.machine import gpu_memory, hardware_of, is_shared, physical_gpus, whole_gpus
from islander.cluster.node import GpuReport, Node, ReportedGpu
from islander.hardware.presets import preset
from tests.builders import a_node, a_report, resources

PAIR = (("X", "NV4"), ("NV4", "X"))


def test_links_that_the_node_reports_win_over_annotation_and_labels() -> None:
    node = a_node(gpus=2, hardware="hgx-h100-8", report=a_report(2, links=PAIR, numa=(0, 0)))
    hardware, warnings = hardware_of(node)
    assert hardware.links.nvlinks == ((0, 4), (4, 0))
    assert hardware.numa == (0, 0)
    assert hardware.topology_known
    assert warnings == ()


def test_links_for_the_device_plugin_are_taken_when_reported() -> None:
    blind = (("X", "NODE"), ("NODE", "X"))
    hardware, _ = hardware_of(a_node(gpus=2, report=a_report(2, links=PAIR, plugin_links=blind)))
    assert hardware.links.nvlinks[0][1] == 4
    assert hardware.plugin_links.nvlinks[0][1] == 0


def test_broken_links_are_a_warning_and_the_annotation_counts() -> None:
    broken = (("X", "what"), ("NV4", "X"))
    hardware, warnings = hardware_of(a_node(gpus=2, hardware="hgx-h100-8", report=a_report(2, links=broken)))
    assert hardware is preset("hgx-h100-8")
    assert warnings[0].startswith("annotation islander.dev/gpus: links are ignored")


def test_links_of_fewer_gpus_than_the_node_has_are_not_believed() -> None:
    hardware, warnings = hardware_of(a_node(report=GpuReport(links=PAIR)))
    assert hardware is preset("hgx-h100-8")
    assert warnings == ("annotation islander.dev/gpus: links are ignored: 2 rows for the node's 8 GPUs",)


def test_the_annotation_wins_over_labels() -> None:
    hardware, warnings = hardware_of(a_node(product="NVIDIA-L4", hardware="hgx-h100-8"))
    assert (hardware.name, warnings) == ("hgx-h100-8", ())


def test_an_annotation_that_names_no_preset_is_a_warning_and_labels_count() -> None:
    hardware, warnings = hardware_of(a_node(hardware="hgx-h1000"))
    assert hardware is preset("hgx-h100-8")
    assert warnings == ("annotation islander.dev/hardware: 'hgx-h1000' is not a known preset; it is ignored",)


def test_an_annotation_with_fewer_gpus_than_the_node_is_not_believed() -> None:
    hardware, warnings = hardware_of(a_node(gpus=16, product=None, hardware="hgx-h100-8"))
    assert (hardware.gpus, hardware.topology_known) == (16, False)
    assert "has 8 GPUs, the node 16" in warnings[0]


def test_an_annotation_counts_before_the_device_plugin_has_registered() -> None:
    """G09, the hardware part."""
    assert hardware_of(a_node(gpus=0, hardware="hgx-h100-8"))[0].gpus == 8


def test_product_and_count_name_the_usual_node() -> None:
    assert hardware_of(a_node())[0] is preset("hgx-h100-8")


def test_old_drivers_without_vendor_in_the_label_are_known() -> None:
    assert hardware_of(a_node(product="H100-80GB-HBM3"))[0] is preset("hgx-h100-8")


@pytest.mark.parametrize("product", [None, "NVIDIA-From-The-Future"])
def test_a_node_that_says_nothing_known_is_unknown_hardware_of_its_size(product: str | None) -> None:
    hardware, warnings = hardware_of(a_node(product=product))
    assert (hardware.gpus, hardware.topology_known) == (8, False)
    assert len(warnings) == (product is not None)


def test_a_node_without_gpus_has_no_hardware_and_no_warning() -> None:
    hardware, warnings = hardware_of(a_node(gpus=0))
    assert (hardware.gpus, warnings) == (0, ())


def test_withdrawn_gpus_are_still_part_of_the_machine() -> None:
    """G07, the hardware part."""
    assert hardware_of(a_node(allocatable=2))[0].gpus == 8


def test_more_devices_than_any_machine_has_do_no_harm() -> None:
    hardware, warnings = hardware_of(a_node(gpus=5000))
    assert not hardware.topology_known
    assert "5000 GPUs" in warnings[0]


def test_equal_nodes_share_one_hardware() -> None:
    report = a_report(2, links=PAIR)
    assert hardware_of(a_node("a", gpus=2, report=report))[0] is hardware_of(a_node("b", gpus=2, report=report))[0]


def mixed_models() -> Node:
    return a_node(
        gpus=2,
        product="X",
        labels={names.GPU_MEMORY: "12288", names.GPU_COUNT: "two"},
        report=GpuReport(
            gpus=(
                ReportedGpu(0, product="X", memory_mib=12 * 1024),
                ReportedGpu(1, product="Y", memory_mib=16 * 1024),
            )
        ),
    )


def test_different_gpus_in_one_node_are_counted_each_by_its_own_memory() -> None:
    """G11: 12 + 16 GiB, and each of two ranks can count on 12."""
    memory = gpu_memory(mixed_models())
    assert (memory.total_mib, memory.per_rank_mib, memory.heterogeneous) == (28 * 1024, 12 * 1024, True)


def test_a_count_that_is_no_number_is_a_warning() -> None:
    """G11."""
    hardware, warnings = hardware_of(mixed_models())
    assert (hardware.gpus, hardware.topology_known) == (2, False)
    assert "label nvidia.com/gpu.count: 'two' is not a number; it is ignored" in warnings
    assert any("different kinds" in warning for warning in warnings)


def test_memory_comes_from_the_label_and_then_from_the_catalogue() -> None:
    labelled = gpu_memory(a_node(memory_mib=1000))
    assert (labelled.total_mib, labelled.per_rank_mib, labelled.heterogeneous) == (8000, 1000, False)
    catalogue = gpu_memory(a_node(labels={names.GPU_MEMORY: "many"}))
    assert catalogue.per_rank_mib > 80_000
    assert gpu_memory(a_node(product=None)).total_mib == 0


def shared(count: int, replicas: int, product: str = "NVIDIA-L4-SHARED") -> Node:
    labels = {names.GPU_COUNT: str(count), names.GPU_REPLICAS: str(replicas)}
    return a_node(gpus=count * replicas, product=product, labels=labels)


def test_replicas_of_shared_gpus_are_not_gpus() -> None:
    """G28: physical totals 2, 1, 2."""
    n1, n2, n3 = shared(2, 2), shared(1, 12, "NVIDIA-L4"), a_node(gpus=2, product="NVIDIA-L4")
    assert [physical_gpus(n) for n in (n1, n2, n3)] == [2, 1, 2]
    assert [is_shared(n) for n in (n1, n2, n3)] == [True, True, False]
    assert [whole_gpus(n) for n in (n1, n2, n3)] == [False, False, True]
    assert hardware_of(n1)[0].gpus == 2


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({names.GPU_SHARING_STRATEGY: "mps"}, True),
        ({names.GPU_SHARING_STRATEGY: "time-slicing"}, True),
        ({names.GPU_SHARING_STRATEGY: "none", names.GPU_REPLICAS: "1"}, False),
        ({names.GPU_REPLICAS: "many"}, False),
        ({names.GPU_PRODUCT: "NVIDIA-L4-SHARED"}, True),
    ],
)
def test_each_label_of_sharing_is_enough(labels: dict[str, str], expected: bool) -> None:
    """G28."""
    assert is_shared(a_node(labels=labels)) is expected


def test_replicas_without_a_count_label_are_divided() -> None:
    """G28."""
    node = a_node(gpus=12, product=None, labels={names.GPU_REPLICAS: "4"})
    assert physical_gpus(node) == 3


def test_slices_of_the_single_strategy_are_no_whole_gpus() -> None:
    """G41 a and its uniform neighbour."""
    node = a_node(gpus=56, product="NVIDIA-A100-SXM4-80GB-MIG-1g.10gb")
    assert not whole_gpus(node)
    assert physical_gpus(node) == 0
    assert hardware_of(node)[0].gpus == 0
    assert not whole_gpus(a_node(gpus=0, labels={names.GPU_PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-INVALID"}))


def test_whole_gpus_of_the_mixed_strategy_are_counted_with_those_that_are_cut_up() -> None:
    """G41 b: six whole GPUs are offered by a machine of eight."""
    node = msgspec.structs.replace(
        a_node(product="NVIDIA-A100-SXM4-80GB"),
        capacity=resources(gpus=6, others={"nvidia.com/mig-2g.20gb": 3}),
        allocatable=resources(gpus=6, others={"nvidia.com/mig-2g.20gb": 3}),
    )
    assert whole_gpus(node)
    assert not whole_gpus(node, "nvidia.com/mig-2g.20gb")
    assert physical_gpus(node) == 8


def test_gpus_of_another_vendor_are_read_from_their_own_label() -> None:
    labels = {names.AMD_PRODUCT: "AMD_Instinct_MI300X_OAM"}
    node = a_node(product=None, labels=labels, gpu_resource=names.AMD_GPU)
    hardware, _ = hardware_of(node, names.AMD_GPU)
    assert hardware.gpus == 8
    assert physical_gpus(node, names.AMD_GPU) == 8
    assert hardware_of(node)[0].gpus == 0
