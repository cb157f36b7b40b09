"""What goes over the wire between a real kube-scheduler and the extender, and what the scheduler makes of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from islander.cluster import names
from islander.policy.reasons import REASONS, Code
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Api
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.objects import gpu_node, gpu_pod
from tests.kwok.controlplane.recorder import Recorder
from tests.kwok.controlplane.relay import Relay
from tests.kwok.controlplane.scheduler import extender_entry
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.wire_recording import MODES, VERBS, golden_file, record, shape_of


@pytest.mark.parametrize("mode", MODES)
def test_requests_still_have_the_shape_of_the_golden_files(
    control_plane: ControlPlane, kube_minor: str, tmp_path: Path, mode: str
) -> None:
    """A difference is a change of Kubernetes: look at it, then record anew (see wire_recording.py)."""
    recorded = record(control_plane, tmp_path, mode)

    assert tuple(recorded) == VERBS
    for verb, body in recorded.items():
        golden = json.loads(golden_file(kube_minor, verb, mode).read_text())
        assert shape_of(body) == shape_of(golden), f"{verb}, {mode}"


def test_refusals_of_both_kinds_are_told_in_the_event_and_preemption_heeds_them(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The extender serves a file in which the nodes are less than the API says, so that it alone refuses."""
    api = control_plane.api
    api.create_all([gpu_node("full"), gpu_node("small"), gpu_node("unheard-of")])
    holder = gpu_pod("holder", 8, node_name="full") | {"status": {"phase": "Running"}}
    snapshot = {"apiVersion": "v1", "kind": "List", "items": [gpu_node("full"), gpu_node("small", 2), holder]}
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(snapshot))

    with ExtenderProcess(tmp_path, settings={"snapshotFile": str(file)}) as extender:
        control_plane.restart_scheduler({"extenders": [extender_entry(extender.url)]})
        api.create(gpu_pod("refused", 4, namespace=namespace))
        event = _failed_scheduling(api, namespace, "refused")

    for code in (Code.NOT_ENOUGH_FREE_GPUS, Code.NODE_TOO_SMALL, Code.UNKNOWN_NODE):
        assert f"1 {REASONS[code].sentence}" in event
    assert event.startswith("0/3 nodes are available: ")
    # FailedNodes are candidates, FailedAndUnresolvableNodes are not.
    assert "2 No preemption victims found for incoming pod" in event
    assert "1 Preemption is not helpful for scheduling" in event


def test_equal_refusals_are_one_line_of_the_event(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    api = control_plane.api
    api.create_all(gpu_node(f"pcie-{number}", 4, product="NVIDIA-L40S", gpu_memory_mib=46068) for number in range(5))

    with ExtenderProcess(tmp_path, control_plane.kubeconfig) as extender:
        control_plane.restart_scheduler({"extenders": [extender_entry(extender.url)]})
        required = {names.TOPOLOGY: "required"}
        args = ["--tensor-parallel-size=4"]
        api.create(gpu_pod("refused", 4, namespace=namespace, annotations=required, args=args))
        event = _failed_scheduling(api, namespace, "refused")

    assert event.startswith(f"0/5 nodes are available: 5 {REASONS[Code.NO_SUCH_ISLAND].sentence}.")


@pytest.fixture
def binding_extender(control_plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[ExtenderProcess, Recorder]]:
    with (
        ExtenderProcess(tmp_path, control_plane.kubeconfig, {"bind": True}) as extender,
        Recorder(extender.url) as recorder,
    ):
        control_plane.restart_scheduler({"extenders": [extender_entry(recorder.url, bindVerb="bind")]})
        yield extender, recorder


def test_with_the_bind_verb_it_is_the_extender_that_binds(
    control_plane: ControlPlane, namespace: str, binding_extender: tuple[ExtenderProcess, Recorder]
) -> None:
    api = control_plane.api
    extender, recorder = binding_extender
    api.create_all([gpu_node("gpu-1"), gpu_node("gpu-2")])
    api.create(gpu_pod("replica", 4, namespace=namespace))
    node = api.wait_bound(namespace, "replica")
    (bound,) = recorder.exchanges("bind")
    assert (bound.asked["PodName"], bound.asked["Node"], bound.answered) == ("replica", node, {"Error": ""})
    assert not api.events(namespace, "replica", "FailedScheduling")

    # A success that nobody carried out: the scheduler leaves it at that, and does not bind by itself.
    recorder.answer = lambda verb, body: (200, b'{"Error": ""}') if verb == "bind" else _passed_on(extender, verb, body)
    api.create(gpu_pod("left-hanging", 4, namespace=namespace))
    wait_until(lambda: len(recorder.exchanges("bind")) == 2)
    request = recorder.exchanges("bind")[1].asked
    assert "nodeName" not in api.get(paths.pod(namespace, "left-hanging"))["spec"]

    assert extender.post("/bind", request) == (200, {"Error": ""})

    assert api.wait_bound(namespace, "left-hanging") == request["Node"]
    assert not api.events(namespace, "left-hanging", "FailedScheduling")


def test_a_bind_that_is_asked_again_does_no_harm(
    control_plane: ControlPlane, namespace: str, binding_extender: tuple[ExtenderProcess, Recorder]
) -> None:
    """G14: the scheduler lost the first answer; before and after the watch, and after a restart of the extender."""
    api = control_plane.api
    extender, recorder = binding_extender
    api.create_all([gpu_node("gpu-1"), gpu_node("gpu-2")])
    api.create(gpu_pod("replica", 8, namespace=namespace))
    node = api.wait_bound(namespace, "replica")
    # The API shows the node before the answer has passed the recorder.
    request = wait_until(lambda: recorder.exchanges("bind"))[0].asked
    other = {"gpu-1": "gpu-2", "gpu-2": "gpu-1"}[node]

    assert extender.post("/bind", request) == (200, {"Error": ""})
    assert extender.post("/bind", request | {"Node": other}) == (200, {"Error": "pod is bound to another node"})
    extender.restart()
    assert extender.post("/bind", request) == (200, {"Error": ""})

    # The name lives on, the pod does not.
    api.delete(paths.pod(namespace, "replica"))
    api.wait_gone(paths.pod(namespace, "replica"))
    api.create(gpu_pod("replica", 8, namespace=namespace, scheduler_name="nobody"))
    # Until the watch has shown that the pod is gone, the answer is that it is where it should be.
    refused = wait_until(lambda: extender.post("/bind", request)[1]["Error"])
    assert "409" in refused
    assert "nodeName" not in api.get(paths.pod(namespace, "replica"))["spec"]


def test_two_hundred_pods_need_a_handful_of_connections_and_no_call_fails(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    api = control_plane.api
    api.create_all(gpu_node(f"gpu-{number:02}") for number in range(25))
    with ExtenderProcess(tmp_path, control_plane.kubeconfig) as extender:
        with Relay(extender.url) as relay:
            scheduler = control_plane.restart_scheduler({"extenders": [extender_entry(relay.url)]})
            api.create_all(gpu_pod(f"single-{number:03}", 1, namespace=namespace) for number in range(200))

            def placed() -> bool:
                return scheduler.metric("scheduler_schedule_attempts_total", result="scheduled") == 200

            wait_until(placed, timeout_seconds=120, what="200 pods scheduled")
        filtered = extender.metric("islander_requests_total", verb="filter", code="200")
        scored = extender.metric("islander_requests_total", verb="prioritize", code="200")

    assert filtered >= 200
    # The last pod finds a single node with room, which nobody scores.
    assert scored >= 190
    # One after the other on one connection; a second one when the scheduler asks before the first is back in its pool.
    assert relay.connections <= 4
    assert scheduler.metric("scheduler_schedule_attempts_total", result="error") == 0
    events = api.items(f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=FailedScheduling")
    assert [event["message"] for event in events] == []


def _failed_scheduling(api: Api, namespace: str, name: str) -> str:
    events = wait_until(lambda: api.events(namespace, name, "FailedScheduling"), what=f"an event about {name}")
    return str(events[0]["message"])


def _passed_on(extender: ExtenderProcess, verb: str, body: bytes) -> tuple[int, bytes]:
    status, answer = extender.post(f"/{verb}", json.loads(body))
    return status, json.dumps(answer).encode()
