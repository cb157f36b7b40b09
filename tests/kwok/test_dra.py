"""Devices of dynamic resource allocation: kube-scheduler allocates them, the extender lets it."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from islander.cluster import names
from islander.policy.reasons import REASONS, Code
from tests.kwok.controlplane import dra, paths
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.objects import GPU, gpu_node, gpu_pod, plain_node
from tests.kwok.controlplane.recorder import Recorder
from tests.kwok.controlplane.waiting import wait_until

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def printed_entry(url: str, *flags: str) -> dict[str, Any]:
    """The configuration that the extender prints for kube-scheduler, with its address filled in."""
    command = [sys.executable, "-m", "extender", "--print-scheduler-config", *flags]
    printed = yaml.safe_load(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    printed["extenders"][0]["urlPrefix"] = url
    assert ("managedResources" in printed["extenders"][0]) is ("--see-all-pods" not in flags)
    return dict(printed)


@pytest.fixture
def extender(control_plane: ControlPlane, tmp_path: Path) -> Iterator[ExtenderProcess]:
    with ExtenderProcess(tmp_path, control_plane.kubeconfig) as extender:
        yield extender


@pytest.fixture
def recorder(extender: ExtenderProcess) -> Iterator[Recorder]:
    with Recorder(extender.url) as recorder:
        yield recorder


def test_a_pod_with_only_claims_passes_untouched_when_all_pods_are_seen(
    control_plane: ControlPlane, namespace: str, recorder: Recorder
) -> None:
    api = control_plane.api
    api.create_all([gpu_node("plugin"), plain_node("cpu"), plain_node("dra-1"), plain_node("dra-2")])
    api.create_all([dra.device_class(), dra.resource_slice("dra-1", 4), dra.resource_slice("dra-2", 4)])
    api.create(dra.claim_template("four", 4, namespace=namespace))
    control_plane.restart_scheduler(printed_entry(recorder.url, "--see-all-pods"))

    for pod in ("first", "second"):
        api.create(gpu_pod(pod, 0, namespace=namespace, **dra.claim_fields("four")))
        api.wait_running(namespace, pod)

    (asked,) = recorder.about("first", "filter")
    # kube-scheduler has left the nodes with free devices, and we all of them.
    assert sorted(asked.asked["NodeNames"]) == ["dra-1", "dra-2"]
    assert asked.answered["NodeNames"] == asked.asked["NodeNames"]
    (scored,) = recorder.about("first", "prioritize")
    assert {entry["Score"] for entry in scored.answered} == {0}
    placed = {api.get(paths.pod(namespace, pod))["spec"]["nodeName"] for pod in ("first", "second")}
    assert placed == {"dra-1", "dra-2"}
    for claim in api.items(CLAIMS.format(namespace)):
        assert len(claim["status"]["allocation"]["devices"]["results"]) == 4


def test_pods_that_share_a_claim_end_on_its_node(
    control_plane: ControlPlane, namespace: str, recorder: Recorder
) -> None:
    api = control_plane.api
    api.create_all([plain_node("cpu"), plain_node("dra-1"), plain_node("dra-2")])
    api.create_all([dra.device_class(), dra.resource_slice("dra-1", 4), dra.resource_slice("dra-2", 4)])
    template = dra.claim_template("shared", 2, namespace=namespace)
    api.create(template | {"kind": "ResourceClaim", "spec": template["spec"]["spec"]})
    fields = dra.claim_fields("")
    fields["resourceClaims"] = [{"name": "gpus", "resourceClaimName": "shared"}]
    control_plane.restart_scheduler(printed_entry(recorder.url, "--see-all-pods"))

    for pod in ("first", "second"):
        api.create(gpu_pod(pod, 0, namespace=namespace, **fields))
        api.wait_running(namespace, pod)

    assert len({api.get(paths.pod(namespace, pod))["spec"]["nodeName"] for pod in ("first", "second")}) == 1
    reserved = api.get(f"{CLAIMS.format(namespace)}/shared")["status"]["reservedFor"]
    assert sorted(user["name"] for user in reserved) == ["first", "second"]


def test_a_pod_with_only_claims_is_not_sent_when_resources_are_named(
    control_plane: ControlPlane, namespace: str, recorder: Recorder
) -> None:
    api = control_plane.api
    api.create_all([plain_node("dra-1"), dra.device_class(), dra.resource_slice("dra-1", 4)])
    api.create(dra.claim_template("four", 4, namespace=namespace))
    control_plane.restart_scheduler(printed_entry(recorder.url))

    api.create(gpu_pod("replica", 0, namespace=namespace, **dra.claim_fields("four")))

    api.wait_running(namespace, "replica")
    assert recorder.exchanges() == []


@pytest.fixture
def extended_resource(control_plane: ControlPlane, kube_minor: str, recorder: Recorder) -> ControlPlane:
    """A node that names no GPU, has eight in slices, and a class that serves them as the usual resource."""
    if kube_minor == "1.34":
        pytest.skip("extended resources through dynamic resource allocation are off by default before Kubernetes 1.36")
    api = control_plane.api
    api.create_all([plain_node("cpu"), plain_node("dra")])
    api.create_all([dra.device_class(extended_resource=GPU), dra.resource_slice("dra", 8)])
    control_plane.restart_scheduler(printed_entry(recorder.url))
    return control_plane


def test_gpus_are_served_from_slices_on_a_node_that_names_none(
    extended_resource: ControlPlane, namespace: str, recorder: Recorder
) -> None:
    api = extended_resource.api

    args = ["--tensor-parallel-size=2"]
    api.create_all(gpu_pod(name, 2, namespace=namespace, args=args) for name in ("first", "second"))

    for name in ("first", "second"):
        assert api.wait_running(namespace, name)["spec"]["nodeName"] == "dra"
        (filtered,) = recorder.about(name, "filter")
        assert (filtered.asked["NodeNames"], filtered.answered["NodeNames"]) == (["dra"], ["dra"])
        assert api.get(paths.pod(namespace, name))["status"]["extendedResourceClaimStatus"]["resourceClaimName"]


def test_a_node_with_a_device_plugin_is_preferred_to_one_with_slices(
    extended_resource: ControlPlane, namespace: str, recorder: Recorder
) -> None:
    api = extended_resource.api
    api.create(gpu_node("plugin", 4))

    for name in ("first", "second"):
        api.create(gpu_pod(name, 4, namespace=namespace, args=["--tensor-parallel-size=4"]))
        api.wait_running(namespace, name)

    scores = {entry["Host"]: entry["Score"] for entry in recorder.about("first", "prioritize")[0].answered}
    assert scores == {"plugin": 10, "dra": 0}
    assert api.get(paths.pod(namespace, "first"))["spec"]["nodeName"] == "plugin"
    assert api.get(paths.pod(namespace, "second"))["spec"]["nodeName"] == "dra"


def test_a_required_island_is_refused_where_nobody_knows_which_devices_come(
    extended_resource: ControlPlane, namespace: str
) -> None:
    api = extended_resource.api
    required = {names.TOPOLOGY: "required"}

    api.create(gpu_pod("replica", 2, namespace=namespace, annotations=required, args=["--tensor-parallel-size=2"]))

    told = api.wait_unschedulable(namespace, "replica")
    assert f"1 {REASONS[Code.ISLAND_NOT_GUARANTEED].sentence}" in told


def test_slices_are_followed_and_told_of(
    extended_resource: ControlPlane, namespace: str, extender: ExtenderProcess
) -> None:
    api = extended_resource.api
    api.create(gpu_pod("replica", 2, namespace=namespace))
    api.wait_running(namespace, "replica")
    # Someone who waits, so that there is somebody to explain.
    api.create(gpu_pod("waiting", 4, namespace=namespace, scheduler_name="nobody", args=["--tensor-parallel-size=4"]))

    def slices() -> list[Any]:
        return list(extender.get_json("/snapshot").get("resourceSlices", []))

    assert wait_until(slices) == [
        {"name": "dra-gpu.nvidia.com", "driver": "gpu.nvidia.com", "node": "dra", "devices": 8}
    ]
    (node,) = extender.get_json("/status")["nodes"]
    assert (node["name"], node["freeIndexesSource"], node["freeIndexes"]) == ("dra", "unknown", None)

    def explained() -> dict[str, Any]:
        return {node["name"]: node for node in extender.get_json(f"/explain/{namespace}/waiting")["nodes"]}

    answers = wait_until(explained)
    assert (answers["dra"]["accepted"], answers["dra"]["verdict"]) == (True, "possible")
    assert (answers["cpu"]["accepted"], answers["cpu"]["code"]) == (False, "NODE_TOO_SMALL")

    api.delete(f"{SLICES}/dra-gpu.nvidia.com")
    wait_until(lambda: not slices())
    assert explained()["dra"]["code"] == "NODE_TOO_SMALL"


def test_a_bind_whose_answer_comes_too_late_leaves_the_claim_with_its_pod(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """kube-scheduler takes the bind for failed although the pod runs; another pod must not get the devices."""
    api = control_plane.api
    api.create_all([plain_node("dra-1"), dra.device_class(), dra.resource_slice("dra-1", 4)])
    api.create(dra.claim_template("four", 4, namespace=namespace))
    with (
        ExtenderProcess(tmp_path, control_plane.kubeconfig, {"bind": True}, name="binding") as extender,
        Recorder(extender.url) as recorder,
    ):
        late = threading.Event()

        def answer(verb: str, body: bytes) -> tuple[int, bytes]:
            status, answered = extender.post(f"/{verb}", json.loads(body))
            if verb == "bind":
                late.wait(10)
            return status, json.dumps(answered).encode()

        recorder.answer = answer
        config = printed_entry(recorder.url, "--see-all-pods")
        config["extenders"][0] |= {"bindVerb": "bind", "httpTimeout": "500ms"}
        scheduler = control_plane.restart_scheduler(config)

        api.create(gpu_pod("replica", 0, namespace=namespace, **dra.claim_fields("four")))
        api.wait_running(namespace, "replica")
        wait_until(lambda: "Client.Timeout exceeded" in scheduler.log_text(), what="the bind timed out")
        late.set()

        def users() -> list[str]:
            (claim,) = api.items(CLAIMS.format(namespace))
            return [user["name"] for user in claim["status"].get("reservedFor", [])]

        wait_until(lambda: "Abort adding it back to queue" in scheduler.log_text())
        wait_until(lambda: users() == ["replica"], what="the claim is reserved for its pod")
    assert api.get(paths.pod(namespace, "replica"))["spec"]["nodeName"] == "dra-1"
