"""What a node offers as MIG."""

from __future__ import annotations

import pytest

from islander.cluster import names
from islander.cluster.machine import gpu_memory
from islander.cluster.mig_devices import (
    INVALID,
    CutGpu,
    MigChange,
    cut_gpus,
    instance_memory_mib,
    mig_change,
    mig_resources,
    more_instances,
    sliced_as,
)
from islander.cluster.node import GpuReport, MigDevice, ReportedGpu
from islander.hardware.mig import GEOMETRY_BY_NAME, Placement
from tests.builders import H100, a_node

A100 = "NVIDIA-A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("state", "change"),
    [
        ("pending", MigChange.CHANGING),
        ("rebooting", MigChange.CHANGING),
        ("failed", MigChange.FAILED),
        ("success", MigChange.SETTLED),
        ("", MigChange.SETTLED),
        ("whatever-comes-next", MigChange.SETTLED),
    ],
)
def test_the_label_of_the_manager_tells_how_far_a_change_is(state: str, change: MigChange) -> None:
    assert mig_change(a_node(labels={names.MIG_CONFIG_STATE: state})) is change
    assert mig_change(a_node()) is MigChange.SETTLED


@pytest.mark.parametrize(
    ("product", "profile"),
    [
        (A100, ""),
        (f"{A100}-MIG-1g.10gb", "1g.10gb"),
        (f"{A100}-MIG-1g.10gb.me", "1g.10gb+me"),
        (f"{A100}-MIG-1g.10gb-SHARED", "1g.10gb"),
        (f"{A100}-MIG-INVALID", INVALID),
        (f"{A100}-MIG-something-new", "something-new"),
    ],
)
def test_the_product_label_tells_what_goes_by_the_name_of_gpus(product: str, profile: str) -> None:
    node = a_node(product=product)
    assert sliced_as(node) == profile
    assert sliced_as(node, "nvidia.com/mig-3g.40gb") == "3g.40gb"
    assert mig_resources(node) == ((names.NVIDIA_GPU,) if profile else ())


def test_resources_of_the_mixed_strategy() -> None:
    node = a_node(gpus=6, mig={"2g.20gb": 3, "1g.10gb+me": 1})
    assert mig_resources(node) == ("nvidia.com/mig-1g.10gb.me", "nvidia.com/mig-2g.20gb")


class TestMemoryOfAnInstance:
    def test_the_label_of_the_profile_wins(self) -> None:
        node = a_node(mig={"1g.10gb": 7}, labels={"nvidia.com/mig-1g.10gb.memory": "9856"})
        assert instance_memory_mib(node, "nvidia.com/mig-1g.10gb") == 9856

    def test_without_it_the_table_tells(self) -> None:
        assert instance_memory_mib(a_node(mig={"3g.40gb": 1}), "nvidia.com/mig-3g.40gb") == 40448
        assert instance_memory_mib(a_node(mig={"3g.20gb": 1}), "nvidia.com/mig-3g.20gb") == 0
        assert instance_memory_mib(a_node(product="Falcon"), "nvidia.com/mig-3g.40gb") == 0

    def test_slices_that_go_by_the_name_of_gpus_have_their_own_memory_and_not_the_gpu_s(self) -> None:
        node = a_node(gpus=56, product=None, labels={names.GPU_PRODUCT: f"{H100}-MIG-1g.10gb"})
        assert gpu_memory(node).per_rank_mib == 9984
        labelled = a_node(gpus=56, product=f"{H100}-MIG-1g.10gb", memory_mib=9728)
        assert gpu_memory(labelled).per_rank_mib == 9728


class TestCutGpus:
    def test_the_report_tells_layouts_in_the_table_s_names(self) -> None:
        devices = (MigDevice("3g.39gb", 4), MigDevice("1g.10gb+me", 0), MigDevice("1g.99gb", 1))
        gpus = (
            ReportedGpu(0),
            ReportedGpu(1, mig=devices),
            ReportedGpu(2, product="NVIDIA A30", mig=(MigDevice("1g.6gb"),)),
        )
        first, second = cut_gpus(a_node(report=GpuReport(gpus)))
        assert first == CutGpu(
            1,
            GEOMETRY_BY_NAME["h100-80gb"],
            (Placement("1g.10gb+me", 0), Placement("1g.99gb", 1), Placement("3g.40gb", 4)),
        )
        assert second.geometry is GEOMETRY_BY_NAME["a30"]

    def test_without_a_report_no_layout_is_known(self) -> None:
        assert cut_gpus(a_node(mig={"1g.10gb": 7})) == ()

    def test_more_instances_are_counted_each_profile_by_itself(self) -> None:
        geometry = GEOMETRY_BY_NAME["h100-80gb"]
        gpus = [
            CutGpu(0, geometry, (Placement("3g.40gb", 4),)),
            CutGpu(1, geometry, (Placement("1g.10gb", 0),)),
            CutGpu(2, None, (Placement("1g.10gb", 0),)),
        ]
        more = more_instances(gpus)
        assert more == {"4g.40gb": 1, "3g.40gb": 2, "2g.20gb": 4, "1g.20gb": 5, "1g.10gb": 10, "1g.10gb+me": 2}
