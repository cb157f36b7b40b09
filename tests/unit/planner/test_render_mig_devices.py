"""MIG instances in what `status` and `explain` show to people."""

from __future__ import annotations

import pytest

from islander.cluster import names
from islander.cluster.node import GpuReport, MigDevice, ReportedGpu
from islander.policy.explain import explain_pod
from islander.policy.status import cluster_status
from planner.render.explain import need_line
from planner.render.status import mig_table
from tests.builders import H100, a_node, a_pod, a_snapshot


def test_instances_have_a_table_of_their_own() -> None:
    cut = ReportedGpu(0, mig=(MigDevice("3g.40gb", 4),))
    reporting = GpuReport((cut, *(ReportedGpu(i) for i in range(1, 8))))
    snapshot = a_snapshot(
        a_node("mixed", gpus=7, mig={"3g.40gb": 1}, report=reporting),
        a_node("single", gpus=56, product=f"{H100}-MIG-1g.10gb", labels={names.MIG_STRATEGY: "single"}),
        a_node("whole"),
        a_pod("holder", gpus=3, node="single"),
    )
    assert [list(map(str, row)) for row in mig_table(cluster_status(snapshot)).rows] == [
        ["mixed", "3g.40gb", "1", "0", "1", "1", "mixed"],
        ["single", "1g.10gb", "56", "3", "53", "-", "single"],
    ]


def test_without_instances_there_is_no_table() -> None:
    assert mig_table(cluster_status(a_snapshot(a_node()))).rows == ()


@pytest.mark.parametrize(
    ("gpus", "resource", "said"),
    [
        (1, "nvidia.com/mig-3g.40gb", "needs 1 MIG device 3g.40gb on one node"),
        (2, "nvidia.com/mig-1g.10gb.me", "needs 2 MIG devices 1g.10gb+me on one node"),
        (2, names.NVIDIA_GPU, "needs 2 GPUs on one node"),
    ],
)
def test_the_need_says_which_devices(gpus: int, resource: str, said: str) -> None:
    explanation = explain_pod(a_snapshot(a_node()), a_pod(gpus=gpus, gpu_resource=resource))
    assert said in need_line(explanation).plain
