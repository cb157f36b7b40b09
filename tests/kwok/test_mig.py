"""Pods that ask for MIG devices, placed by the real kube-scheduler with the extender."""

import subprocess
import sys
from io import StringIO
from pathlib import Path

from ruamel.yaml import YAML

from islander.cluster import names
from islander.hardware.mig import resource_name
from islander.policy.reasons import REASONS, Code
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Json
from tests.kwok.controlplane.objects import gpu_node, gpu_pod
from tests.kwok.islander_bench import IslanderBench

_ROOT = Path(__file__).parents[2]


def test_pods_of_instances_are_sent_and_wait_for_a_node_that_is_being_cut(bench: IslanderBench) -> None:
    """G40 and G41 b; the scheduler has the printed configuration, which must name the profile."""
    api = bench.api
    command = [
        sys.executable,
        "-m",
        "extender",
        "--config",
        str(bench.extender.config_file),
        "--print-scheduler-config",
    ]
    printed = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    bench.plane.restart_scheduler(YAML(typ="safe", pure=True).load(StringIO(printed)))
    api.create_all([_mixed_node("a-changing", **{names.MIG_CONFIG_STATE: "pending"}), _mixed_node("b-ready")])
    for node in ("a-changing", "b-ready"):
        bench.kubelet.silence(node)
    filtered = bench.extender.metric("islander_requests_total", verb="filter", code="200")

    api.create(_pod(bench, "first"))
    assert api.wait_bound(bench.namespace, "first") == "b-ready"
    assert bench.extender.metric("islander_requests_total", verb="filter", code="200") == filtered + 1

    # The only other instance is on the node that is being cut.
    api.create(_pod(bench, "second"))
    told = bench.wait_event("second", REASONS[Code.MIG_CHANGING].sentence)
    assert "0/2 nodes are available" in told

    api.patch(f"{paths.NODES}/a-changing", {"metadata": {"labels": {names.MIG_CONFIG_STATE: "success"}}})
    assert api.wait_bound(bench.namespace, "second") == "a-changing"

    # Whole GPUs are counted apart: six of the eight are left, as before.
    api.create(gpu_pod("six", 6, namespace=bench.namespace, args=["--tensor-parallel-size=6"]))
    assert api.wait_bound(bench.namespace, "six") in {"a-changing", "b-ready"}
    api.create(gpu_pod("seven", 7, namespace=bench.namespace))
    assert "Insufficient nvidia.com/gpu" in bench.wait_event("seven", "Insufficient nvidia.com/gpu")


def _mixed_node(name: str, **labels: str) -> Json:
    """Return a node with six whole GPUs and two that are cut."""
    layout = {"2g.20gb": 3, "1g.10gb": 1, "4g.40gb": 1, "3g.40gb": 1}
    return gpu_node(
        name,
        6,
        allocatable={resource_name(profile): str(count) for profile, count in layout.items()},
        labels={names.GPU_COUNT: "8", names.MIG_STRATEGY: "mixed"} | labels,
    )


def _pod(bench: IslanderBench, name: str) -> Json:
    return gpu_pod(name, namespace=bench.namespace, resource=resource_name("3g.40gb"))
