"""The command line against a real API server, and the story on a real kube-scheduler."""

import json

import pytest

from planner.cli import main as islander
from tests.kwok import demo
from tests.kwok.controlplane.api import Api
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.objects import gpu_node, gpu_pod


def test_a_live_cluster_is_read_and_a_pending_pod_is_explained(
    control_plane: ControlPlane, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    api.create_all([gpu_node("gpu-1"), gpu_node("gpu-2")])
    for name, node in (("a", "gpu-1"), ("b", "gpu-2")):
        api.create(gpu_pod(name, 6, namespace=namespace, node_name=node))
    api.create(gpu_pod("waits", 4, namespace=namespace, args=["--tensor-parallel-size=4"]))
    api.wait_unschedulable(namespace, "waits")
    where = ["--kubeconfig", str(control_plane.kubeconfig), "-o", "json"]

    assert islander(["status", *where]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["totals"]["free"], status["placeable"]["4"]) == (4, 0)
    assert [(pod["pod"], pod["stuck"]) for pod in status["pending"]] == [(f"{namespace}/waits", True)]

    assert islander(["explain", f"{namespace}/waits", *where]) == 0
    explanation = json.loads(capsys.readouterr().out)
    assert explanation["summary"] == {"NOT_ENOUGH_FREE_GPUS": 2}


def test_the_story_ends_as_the_readme_says(kube_minor: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(kube_minor) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("chat/")]
    # Pod, GPUs, three choices of the stock scheduler, three of Islander's.
    ours = {row[1]: set(row[5:]) for row in rows if len(row) == 8}
    stock = {row[1]: set(row[2:5]) for row in rows if len(row) == 8}
    assert ours == {"4": {"hgx-2"}, "2": {"pairs-2"}, "1": {"hgx-3"}}
    assert stock == {"4": {"hgx-1"}, "2": {"pairs-1"}, "1": {"hgx-1"}}
