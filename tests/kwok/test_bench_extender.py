"""The bench runs our extender as a process beside a real kube-scheduler, and can take it away."""

from pathlib import Path

from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.objects import gpu_node, gpu_pod
from tests.kwok.controlplane.recorder import Recorder
from tests.kwok.controlplane.scheduler import extender_entry
from tests.kwok.controlplane.waiting import wait_until


def test_pod_passes_through_the_extender(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    api = control_plane.api
    api.create_all([gpu_node("gpu-1"), gpu_node("gpu-2")])

    with ExtenderProcess(tmp_path, control_plane.kubeconfig) as extender, Recorder(extender.url) as recorder:
        control_plane.restart_scheduler({"extenders": [extender_entry(recorder.url)]})
        api.create(gpu_pod("replica", 4, namespace=namespace))

        api.wait_running(namespace, "replica")
        (filtered,) = recorder.about("replica", "filter")
        assert filtered.status == 200
        assert sorted(filtered.answered["NodeNames"]) == ["gpu-1", "gpu-2"]
        assert recorder.about("replica", "prioritize")[0].status == 200


def test_extender_comes_back_on_the_same_port(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    api = control_plane.api
    api.create(gpu_node("gpu-1"))

    with ExtenderProcess(tmp_path, control_plane.kubeconfig) as extender:
        control_plane.restart_scheduler({"extenders": [extender_entry(extender.url)]})
        extender.kill()
        api.create(gpu_pod("replica", namespace=namespace))
        wait_until(lambda: api.events(namespace, "replica", "FailedScheduling"))

        extender.restart()

        api.wait_bound(namespace, "replica")
