"""The test bench works: what these tests promise is what every other test here relies on."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kwok.controlplane import dra, paths
from tests.kwok.controlplane.api import Api, ApiError, condition_of, is_ready
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.metrics import metric_sum
from tests.kwok.controlplane.objects import (
    DELETE_DELAY,
    GPU,
    READY_DELAY,
    cluster_role,
    cluster_role_binding,
    deployment,
    gpu_node,
    gpu_pod,
    plain_node,
    pod_disruption_budget,
    priority_class,
    service_account,
)
from tests.kwok.controlplane.recorder import Recorder
from tests.kwok.controlplane.scheduler import extender_entry
from tests.kwok.controlplane.waiting import wait_until

_ROOT = Path(__file__).parents[2]


def test_control_plane_reports_the_minor_that_was_asked_for(control_plane: ControlPlane, kube_minor: str) -> None:
    version = control_plane.api.get("/version")

    assert version["gitVersion"].startswith(f"v{kube_minor}.")
    assert f"{version['major']}.{version['minor']}" == kube_minor


def test_node_becomes_ready_and_keeps_its_allocatable(api: Api) -> None:
    api.create(gpu_node("gpu-1", 8, allocatable={GPU: "6", "nvidia.com/mig-1g.10gb": "7"}, capacity={GPU: "8"}))

    node = wait_until(lambda: [node for node in api.items(paths.NODES) if is_ready(node)])[0]

    assert node["status"]["allocatable"][GPU] == "6"
    assert node["status"]["capacity"][GPU] == "8"
    assert node["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] == "7"


def test_node_that_shall_not_be_ready_stays_so(api: Api) -> None:
    api.create_all([gpu_node("broken", ready=False), gpu_node("sound")])

    wait_until(lambda: is_ready(api.get(paths.node("sound"))))

    assert condition_of(api.get(paths.node("broken")), "Ready")["status"] == "False"


def test_stock_scheduler_places_a_gpu_pod_and_it_runs(api: Api, namespace: str) -> None:
    api.create_all([plain_node("cpu-1"), gpu_node("gpu-1")])

    api.create(gpu_pod("replica", 4, namespace=namespace))

    pod = api.wait_running(namespace, "replica")
    assert pod["spec"]["nodeName"] == "gpu-1"
    assert pod["status"]["podIP"]


def test_pod_that_is_too_big_stays_pending_with_an_event(api: Api, namespace: str) -> None:
    api.create(gpu_node("gpu-1", 8))

    api.create(gpu_pod("giant", 9, namespace=namespace))

    assert "Insufficient nvidia.com/gpu" in api.wait_unschedulable(namespace, "giant")
    events = wait_until(lambda: api.events(namespace, "giant", "FailedScheduling"))
    assert "Insufficient nvidia.com/gpu" in events[0]["message"]
    assert api.get(paths.pod(namespace, "giant"))["status"]["phase"] == "Pending"


def test_restarted_scheduler_follows_its_new_configuration(control_plane: ControlPlane, namespace: str) -> None:
    api = control_plane.api
    api.create(gpu_node("gpu-1"))
    api.create(gpu_pod("before", namespace=namespace))
    api.wait_bound(namespace, "before")

    with Recorder(answer=lambda verb, _: (200, b"{}" if verb == "filter" else b"[]")) as recorder:
        control_plane.restart_scheduler({"extenders": [extender_entry(recorder.url)]})
        api.create(gpu_pod("after", namespace=namespace))

        # An empty filter answer keeps no node.
        api.wait_unschedulable(namespace, "after")
        request = recorder.about("after", "filter")[0].asked
        assert request["NodeNames"] == ["gpu-1"]
        assert request["Pod"]["spec"]["containers"][0]["resources"]["limits"] == {GPU: "1"}


def test_scheduler_tells_how_many_pods_it_has_placed(control_plane: ControlPlane, namespace: str) -> None:
    api = control_plane.api
    api.create(gpu_node("gpu-1"))
    scheduler = control_plane.restart_scheduler()
    assert scheduler.metric("scheduler_schedule_attempts_total", result="scheduled") == 0

    pods = [gpu_pod(f"replica-{number}", namespace=namespace) for number in range(3)]
    api.create_all(pods)
    api.each(lambda pod: api.wait_bound(namespace, pod["metadata"]["name"]), pods)

    wait_until(lambda: scheduler.metric("scheduler_schedule_attempts_total", result="scheduled") == 3)
    assert "Starting Kubernetes Scheduler" in scheduler.log_text()


def test_second_scheduler_takes_only_the_pods_that_name_it(control_plane: ControlPlane, namespace: str) -> None:
    api = control_plane.api
    api.create(gpu_node("gpu-1"))
    control_plane.start_scheduler({"profiles": [{"schedulerName": "second"}]}, name="second")

    api.create(gpu_pod("first", namespace=namespace))
    api.create(gpu_pod("second", namespace=namespace, scheduler_name="second"))

    api.wait_running(namespace, "first")
    api.wait_running(namespace, "second")
    second = control_plane.scheduler("second")
    wait_until(lambda: second.metric("scheduler_schedule_attempts_total", result="scheduled") == 1)


def test_eviction_waits_for_the_disruption_budget(api: Api, namespace: str) -> None:
    api.create(gpu_node("gpu-1"))
    api.create(pod_disruption_budget("llm", {"app": "llm"}, namespace=namespace, min_available=2))
    api.create(deployment("llm", 2, namespace=namespace))
    selector = {"labelSelector": "app=llm"}

    def ready_pods() -> list[str]:
        pods = api.items(paths.pods(namespace), **selector)
        return [pod["metadata"]["name"] for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]

    def allowed_disruptions() -> int:
        budget = api.get(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/llm")
        return int(budget["status"].get("disruptionsAllowed", -1))

    wait_until(lambda: len(ready_pods()) == 2)
    victim = ready_pods()[0]

    with pytest.raises(ApiError) as refusal:
        api.evict(namespace, victim)
    assert refusal.value.code == 429

    api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/llm", {"spec": {"replicas": 3}})
    wait_until(lambda: allowed_disruptions() == 1)
    api.evict(namespace, victim, dry_run=True)
    assert victim in ready_pods()
    api.evict(namespace, victim)
    api.wait_gone(paths.pod(namespace, victim))
    # The Deployment makes up for it.
    wait_until(lambda: len(ready_pods()) == 3)


def test_important_pod_preempts_a_lesser_one(api: Api, namespace: str) -> None:
    api.create(gpu_node("gpu-1", 8))
    api.create(priority_class("important", 1000))
    api.create(gpu_pod("lesser", 8, namespace=namespace))
    api.wait_running(namespace, "lesser")

    api.create(gpu_pod("greater", 8, namespace=namespace, priority_class="important"))

    api.wait_running(namespace, "greater")
    assert api.find(paths.pod(namespace, "lesser")) is None


def test_a_pod_may_load_and_drain_slowly(api: Api, namespace: str) -> None:
    api.create(gpu_node("gpu-1"))
    api.create(gpu_pod("slow", namespace=namespace, annotations={READY_DELAY: "1h", DELETE_DELAY: "1h"}))

    api.wait_bound(namespace, "slow")
    api.create(gpu_pod("quick", namespace=namespace))
    api.wait_running(namespace, "quick")
    assert api.get(paths.pod(namespace, "slow"))["status"]["phase"] == "Pending"

    api.delete(paths.pod(namespace, "slow"))
    api.delete(paths.pod(namespace, "quick"))
    api.wait_gone(paths.pod(namespace, "quick"))
    assert "deletionTimestamp" in api.get(paths.pod(namespace, "slow"))["metadata"]


def test_devices_are_claimed_and_allocated(api: Api, namespace: str) -> None:
    api.create_all([gpu_node("gpu-1", 0), gpu_node("gpu-2", 0), dra.device_class(), dra.resource_slice("gpu-2", 4)])
    api.create(dra.claim_template("four", 4, namespace=namespace))

    api.create(gpu_pod("replica", 0, namespace=namespace, **dra.claim_fields("four")))

    assert api.wait_running(namespace, "replica")["spec"]["nodeName"] == "gpu-2"
    claim = api.items(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims")[0]
    devices = [result["device"] for result in claim["status"]["allocation"]["devices"]["results"]]
    assert sorted(devices) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]


def test_feature_gates_and_api_versions_reach_the_programs(kube_minor: str) -> None:
    gates = {"SchedulerAsyncAPICalls": True}
    with ControlPlane(kube_minor, feature_gates=gates, runtime_config={"resource.k8s.io/v1beta1": "true"}) as plane:
        assert plane.api.get("/apis/resource.k8s.io/v1beta1")["groupVersion"] == "resource.k8s.io/v1beta1"
        for text in (plane.api.text("GET", "/metrics"), plane.scheduler().metrics_text()):
            assert metric_sum(text, "kubernetes_feature_enabled", name="SchedulerAsyncAPICalls") == 1


def test_dry_run_leaves_nothing_behind(api: Api, namespace: str) -> None:
    answer = api.create(gpu_pod("ghost", namespace=namespace), dry_run=True)

    assert answer["metadata"]["uid"]
    assert api.items(paths.pods(namespace)) == []


def test_rbac_refuses_a_token_without_rights(rbac_control_plane: ControlPlane, rbac_namespace: str) -> None:
    admin = rbac_control_plane.api
    admin.create(service_account("reader", namespace=rbac_namespace))
    token = admin.service_account_token(rbac_namespace, "reader")

    with rbac_control_plane.api_as(token) as reader:
        with pytest.raises(ApiError) as refusal:
            reader.items(paths.NODES)
        assert refusal.value.code == 403

        admin.create(cluster_role("node-reader", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]))
        admin.create(cluster_role_binding("node-reader", "node-reader", rbac_namespace, "reader"))
        admin.create(gpu_node("gpu-1"))

        def visible_nodes() -> list[str]:
            try:
                return [node["metadata"]["name"] for node in reader.items(paths.NODES)]
            except ApiError:
                return []

        assert wait_until(visible_nodes) == ["gpu-1"]

    with rbac_control_plane.api_as("") as nobody, pytest.raises(ApiError) as refusal:
        nobody.items(paths.NODES)
    assert refusal.value.code == 403


def test_kubeconfig_of_a_service_account_names_server_certificate_and_token(
    rbac_control_plane: ControlPlane, rbac_namespace: str
) -> None:
    rbac_control_plane.api.create(service_account("extender", namespace=rbac_namespace))

    config = json.loads(rbac_control_plane.kubeconfig_of(rbac_namespace, "extender").read_text())

    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == rbac_control_plane.server
    assert Path(cluster["certificate-authority"]).read_text().startswith("-----BEGIN CERTIFICATE-----")
    with rbac_control_plane.api_as(config["users"][0]["user"]["token"]) as extender:
        review = extender.create(
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}},
            path="/apis/authentication.k8s.io/v1/selfsubjectreviews",
        )
    assert review["status"]["userInfo"]["username"] == f"system:serviceaccount:{rbac_namespace}:extender"


def test_recorder_misbehaves_as_told(control_plane: ControlPlane, namespace: str) -> None:
    api = control_plane.api
    api.create(gpu_node("gpu-1"))

    def keep_all(verb: str, body: bytes) -> tuple[int, bytes]:
        names = json.loads(body)["NodeNames"]
        answer = {"NodeNames": names} if verb == "filter" else [{"Host": name, "Score": 1} for name in names]
        return 200, json.dumps(answer).encode()

    def wait_for_error(pod: str, text: str) -> None:
        def said() -> bool:
            events = api.events(namespace, pod, "FailedScheduling")
            return any(text in event["message"] for event in events)

        wait_until(said, what=f"an event of {pod} with {text!r}")

    with Recorder(answer=keep_all) as recorder:
        recorder.status = 500
        control_plane.restart_scheduler({"extenders": [extender_entry(recorder.url, httpTimeout="300ms")]})
        api.create(gpu_pod("answered-500", namespace=namespace))
        wait_for_error("answered-500", "500")
        recorder.status = None
        api.wait_bound(namespace, "answered-500")

        recorder.delay_seconds = 1.0
        api.create(gpu_pod("kept-waiting", namespace=namespace))
        wait_for_error("kept-waiting", "Timeout")
        recorder.delay_seconds = 0.0
        api.wait_bound(namespace, "kept-waiting")

        recorder.refuse()
        api.create(gpu_pod("refused", namespace=namespace))
        wait_for_error("refused", "connection refused")
        recorder.accept()
        api.wait_bound(namespace, "refused")


def test_killed_test_run_leaves_no_process_behind(tmp_path: Path) -> None:
    story = f"""
import time
from pathlib import Path
from tests.kwok.controlplane.processes import LocalProcess
process = LocalProcess("sleeper", ["sleep", "600"], Path({str(tmp_path)!r}) / "log", ())
print(process.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", story], cwd=_ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        sleeper = int(run.stdout.readline())
        wait_until(lambda: Path(f"/proc/{sleeper}/cmdline").read_bytes().startswith(b"sleep"))
        run.send_signal(signal.SIGKILL)

    def gone() -> bool:
        # Where nobody reaps orphans, a dead process stays as a zombie.
        try:
            return Path(f"/proc/{sleeper}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    wait_until(gone)


def test_hundreds_of_nodes_are_made_at_once_and_become_ready(api: Api) -> None:
    api.create_all(gpu_node(f"gpu-{number:03}") for number in range(300))

    wait_until(lambda: sum(is_ready(node) for node in api.items(paths.NODES)) == 300, timeout_seconds=60)
