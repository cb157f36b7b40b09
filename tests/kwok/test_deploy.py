"""deploy/ on a real API server under RBAC, with real kube-schedulers; the extender has only what deploy/ grants it.

Instead of the Service's cluster IP, an address on loopback stands in each scheduler configuration; kwok plays the
kubelets, so no image is pulled and no probe is asked.
"""

import base64
import random
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from islander.kube.kinds import WATCHED_KINDS
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Api, ApiError, is_ready
from tests.kwok.controlplane.build import ready_binary
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.fetch import fetch
from tests.kwok.controlplane.objects import gpu_node, gpu_pod, plain_node, service_account
from tests.kwok.controlplane.processes import LocalProcess, Ports, start_process
from tests.kwok.controlplane.programs import kube_program
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.kustomization import objects_of
from tests.unit.kube.certificates import Certificates, make_certificates

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NAMESPACE = "islander"
SERVER_NAME = "islander-extender.islander.svc"
PORT = 8880
_DELEGATED = ("authentication", "authorization")
KUSTOMIZATIONS = ("base", "components/bind", "scheduler/second")


def named(objects: Sequence[Json], kind: str, name: str) -> Json:
    return next(obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name))


def apply(api: Api, obj: Json, *, dry_run: bool = False) -> Json:
    """Server-side apply, as `kubectl apply --server-side` does it; an unknown field is an error."""
    return api.patch(
        paths.path_of(obj), obj, kind="apply", dry_run=dry_run, fieldManager="kubectl", fieldValidation="Strict"
    )


@pytest.fixture(scope="module")
def plane(kube_minor: str) -> Iterator[ControlPlane]:
    """A control plane of its own: what deploy/ puts there stays for all tests of this module."""
    with ControlPlane(kube_minor, rbac=True, controllers=["resourcequota-controller"], scheduler=None) as plane:
        plane.api.create(lws_definition())
        yield plane


def lws_definition() -> Json:
    """The definition of LeaderWorkerSets, as far as an API server must know them to serve a list."""
    names = {"kind": "LeaderWorkerSet", "plural": "leaderworkersets", "singular": "leaderworkerset"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    group = "leaderworkerset.x-k8s.io"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"leaderworkersets.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"), SERVER_NAME)


@pytest.fixture(scope="module")
def deployed(plane: ControlPlane, certificates: Certificates) -> list[Json]:
    """Everything under deploy/ applied, in the order of docs/install.md; the objects as they are in the files."""
    api = plane.api
    objects = [obj for folder in KUSTOMIZATIONS if folder != "components/bind" for obj in objects_of(DEPLOY / folder)]
    apply(api, named(objects, "Namespace", NAMESPACE))
    files = {
        "tls.crt": certificates.server_certificate,
        "tls.key": certificates.server_key,
        "ca.crt": certificates.authority,
    }
    api.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": "islander-extender-tls", "namespace": NAMESPACE},
            "data": {key: _base64(path) for key, path in files.items()},
        }
    )
    for obj in objects:
        apply(api, obj)
    return objects


# The manifests ----------------------------------------------------------------------------------------------------


def test_every_object_is_accepted_and_a_second_time_changes_nothing(plane: ControlPlane, deployed: list[Json]) -> None:
    for obj in deployed:
        before = plane.api.get(paths.path_of(obj))["metadata"]
        again = apply(plane.api, obj)["metadata"]
        assert again.get("generation") == before.get("generation"), paths.path_of(obj)
    for obj in objects_of(DEPLOY / "components/bind"):
        assert apply(plane.api, obj, dry_run=True)["metadata"]["uid"]


def test_every_manifest_of_the_folder_is_one_of_those(deployed: list[Json]) -> None:
    """What is not part of a kustomization are the two files for the cluster's own scheduler, tested below."""
    listed = {DEPLOY / folder / name for folder in KUSTOMIZATIONS for name in _resources(DEPLOY / folder)}
    others = {path for path in DEPLOY.rglob("*.yaml") if path.name != "kustomization.yaml"} - listed
    assert {path.parent for path in others} == {DEPLOY / "scheduler/cluster"}
    assert len(others) == 2


def _resources(folder: Path) -> list[str]:
    return list(yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"])


def test_a_field_with_a_typing_error_would_be_refused(plane: ControlPlane, deployed: list[Json]) -> None:
    service = named(deployed, "Service", "islander-extender")
    with pytest.raises(ApiError) as refusal:
        apply(plane.api, service | {"spec": service["spec"] | {"sessionAfinity": "ClientIP"}})
    assert refusal.value.code in (400, 422, 500)
    assert "sessionAfinity" in refusal.value.message


def test_pods_of_both_deployments_are_admitted_and_run(plane: ControlPlane, deployed: list[Json]) -> None:
    """Past pod security `restricted`, the quota for the priority class, and the stock scheduler."""
    api = plane.api
    nodes = [plain_node("cpu-1"), plain_node("cpu-2")]
    api.create_all(nodes)
    plane.start_scheduler()
    try:
        for name in ("islander-extender", "islander-scheduler"):
            selector = named(deployed, "Deployment", name)["spec"]["selector"]["matchLabels"]
            pods = _running_pods(api, selector)
            assert {pod["spec"]["nodeName"] for pod in pods} == {"cpu-1", "cpu-2"}
            assert {pod["spec"]["priority"] for pod in pods} == {2_000_000_000}
    finally:
        plane.stop_scheduler()


def _running_pods(api: Api, labels: Mapping[str, str]) -> list[Json]:
    selector = ",".join(f"{key}={value}" for key, value in labels.items())

    def running() -> list[Json]:
        pods = api.items(paths.pods(NAMESPACE), labelSelector=selector)
        return pods if len(pods) == 2 and all(map(is_ready, pods)) else []

    def told() -> str:
        events = api.items(f"/api/v1/namespaces/{NAMESPACE}/events")
        return f"two pods {selector}; events {[event['message'] for event in events][-5:]}"

    return wait_until(running, timeout_seconds=60, what=told)


def test_the_patch_makes_a_static_pod_that_the_api_accepts(plane: ControlPlane) -> None:
    pod = kubeadm_scheduler_pod()
    for operation in yaml.safe_load((DEPLOY / "scheduler/cluster/kube-scheduler+json.yaml").read_text()):
        *parents, last = operation["path"].strip("/").split("/")
        target: Any = pod
        for key in parents:
            target = target[int(key) if key.isdigit() else key]
        assert (operation["op"], last, type(target)) == ("add", "-", list)
        target.append(operation["value"])

    accepted = plane.api.create(pod, dry_run=True)

    container = accepted["spec"]["containers"][0]
    assert container["command"][-1] == "--config=/etc/kubernetes/islander/scheduler.yaml"
    assert container["volumeMounts"][-1]["mountPath"] == "/etc/kubernetes/islander"


def kubeadm_scheduler_pod() -> Json:
    """The static pod of kube-scheduler as kubeadm writes it, without probes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system", "labels": {"component": "kube-scheduler"}},
        "spec": {
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "containers": [
                {
                    "name": "kube-scheduler",
                    "image": "kube-scheduler:v1.36.3",
                    "command": ["kube-scheduler", "--kubeconfig=/etc/kubernetes/scheduler.conf", "--leader-elect=true"],
                    "volumeMounts": [
                        {"name": "kubeconfig", "mountPath": "/etc/kubernetes/scheduler.conf", "readOnly": True}
                    ],
                }
            ],
            "volumes": [
                {"name": "kubeconfig", "hostPath": {"path": "/etc/kubernetes/scheduler.conf", "type": "FileOrCreate"}}
            ],
        },
    }


def test_the_certificate_of_the_documented_commands_holds(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed here")
    page = (ROOT / "docs/install.md").read_text()
    (commands,) = re.findall(r"^```sh\n(openssl.*?)\n\n", page, re.DOTALL | re.MULTILINE)
    subprocess.run(["bash", "-euc", commands], cwd=tmp_path, check=True, capture_output=True)

    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    verify = ["openssl", "verify", "-purpose", "sslserver", "-verify_hostname", SERVER_NAME]
    subprocess.run([*verify, "-CAfile", "ca.crt", "tls.crt"], cwd=tmp_path, check=True, capture_output=True)


# The extender with its rights -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunningExtender:
    """The extender as the ConfigMap configures it, with the ServiceAccount's token and the Secret's certificate."""

    address: str
    certificates: Certificates

    @property
    def url(self) -> str:
        return f"https://{self.address}:{PORT}"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        with urllib3.PoolManager(
            ca_certs=str(self.certificates.authority), assert_hostname=SERVER_NAME, server_hostname=SERVER_NAME
        ) as http:
            try:
                answer = http.request(method, f"{self.url}{path}", json=body, retries=False, timeout=10.0)
            except urllib3.exceptions.HTTPError as problem:
                raise ConnectionError(f"{path}: {problem}") from problem
        if answer.status != 200:
            raise ConnectionError(f"{path}: {answer.status} {answer.data.decode()[:200]}")
        return answer.json() if "json" in answer.headers["Content-Type"] else answer.data.decode()


@pytest.fixture(scope="module")
def extender(
    plane: ControlPlane, deployed: list[Json], certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningExtender]:
    folder = tmp_path_factory.mktemp("extender")
    # The whole of 127.0.0.0/8 is loopback: an address of its own leaves the port as it is shipped.
    running = RunningExtender(
        f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}", certificates
    )
    config = yaml.safe_load(named(deployed, "ConfigMap", "islander-extender")["data"]["config.yaml"])
    config["listen"]["address"] = running.address
    config["tls"] = {"certFile": str(certificates.server_certificate), "keyFile": str(certificates.server_key)}
    config["kubeconfig"] = str(plane.kubeconfig_of(NAMESPACE, "islander-extender"))
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    process = start_process(
        "extender",
        lambda _: [sys.executable, "-m", "extender", "--config", str(file)],
        log=folder / "extender.log",
        ready=lambda _: bool(running.ask("GET", "/readyz")),
        fixed_ports=(PORT,),
        env={"PYTHONPATH": str(ROOT)},
    )
    try:
        yield running
    finally:
        process.stop()


@pytest.fixture
def nodes(plane: ControlPlane, deployed: list[Json]) -> Iterator[list[str]]:
    """Two GPU nodes, ready, and no pod on them."""
    names = ["gpu-1", "gpu-2"]
    plane.api.create_all(gpu_node(name) for name in names)
    wait_until(lambda: all(is_ready(plane.api.get(paths.node(name))) for name in names))
    yield names
    plane.api.delete(paths.pods("default"), grace_seconds=0)
    wait_until(lambda: not plane.api.items(paths.pods("default")))
    for name in names:
        plane.api.delete(paths.node(name))


def test_the_rights_suffice_to_see_every_kind_and_to_answer(extender: RunningExtender, nodes: list[str]) -> None:
    pod = gpu_pod("replica", 4, args=["--tensor-parallel-size=4"])
    request = {"Pod": pod, "Nodes": None, "NodeNames": nodes}

    def known() -> Json:
        answer: Json = extender.ask("POST", "/filter", request)
        return answer if answer["NodeNames"] == nodes else {}

    assert wait_until(known)["Error"] == ""
    assert [entry["Score"] for entry in extender.ask("POST", "/prioritize", request)] == [10, 9]
    # None was denied.
    snapshot = extender.ask("GET", "/snapshot")
    assert snapshot["kinds"] == sorted(kind.kind for kind in WATCHED_KINDS)


def test_the_extender_may_read_what_it_watches_and_nothing_else(plane: ControlPlane, deployed: list[Json]) -> None:
    token = plane.api.service_account_token(NAMESPACE, "islander-extender")
    with plane.api_as(token) as extender:
        plane.api.create(gpu_pod("bystander", 1, scheduler_name="nobody"))
        refused: list[tuple[str, Callable[[], object]]] = [
            ("delete a pod", lambda: extender.delete(paths.pod("default", "bystander"), dry_run=True)),
            ("evict a pod", lambda: extender.evict("default", "bystander", dry_run=True)),
            ("bind a pod", lambda: extender.create(binding("bystander"), path=binding_path("bystander"))),
            ("create a pod", lambda: extender.create(gpu_pod("mine", 1), dry_run=True)),
            ("get one pod", lambda: extender.get(paths.pod("default", "bystander"))),
            ("list secrets", lambda: extender.items("/api/v1/secrets")),
            (
                "read its own secret",
                lambda: extender.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/islander-extender-tls"),
            ),
            ("list events", lambda: extender.items("/api/v1/events")),
        ]
        try:
            for what, action in refused:
                with pytest.raises(ApiError) as refusal:
                    action()
                assert refusal.value.code == 403, what
        finally:
            plane.api.delete(paths.pod("default", "bystander"), grace_seconds=0)
        granted = _rules(extender)
    # The API server's own list, less what every service account may do.
    plane.api.create(service_account("nobody", namespace=NAMESPACE))
    with plane.api_as(plane.api.service_account_token(NAMESPACE, "nobody")) as nobody:
        granted -= _rules(nobody)
    assert {verb for _, _, verb in granted} == {"list", "watch"}
    watched = {kind.path.rsplit("/", 1)[1] for kind in WATCHED_KINDS}
    assert {resource for _, resource, _ in granted} == watched


def test_the_bind_component_adds_binding_and_nothing_else(plane: ControlPlane, deployed: list[Json]) -> None:
    token = plane.api.service_account_token(NAMESPACE, "islander-extender")
    objects = objects_of(DEPLOY / "components/bind")
    with plane.api_as(token) as extender:
        before = _rules(extender)
        for obj in objects:
            apply(plane.api, obj)
        try:
            wait_until(lambda: _rules(extender) != before)
            assert _rules(extender) - before == {("", "pods/binding", "create")}
        finally:
            for obj in objects:
                plane.api.delete(paths.path_of(obj))


def binding(pod: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": "default"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-1"},
    }


def binding_path(pod: str) -> str:
    return f"{paths.pod('default', pod)}/binding"


def _rules(api: Api) -> set[tuple[str, str, str]]:
    """Return what the API server says its user may do: (API group, resource, verb)."""
    review = api.create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "metadata": {},
            "spec": {"namespace": "default"},
        },
        path="/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    )
    return {
        (group, resource, verb)
        for rule in review["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


# The schedulers ---------------------------------------------------------------------------------------------------


@contextmanager
def scheduler(plane: ControlPlane, config: str, folder: Path, *flags: str) -> Iterator[LocalProcess]:
    """Run kube-scheduler with a configuration file as it is; only its own listener is moved to loopback."""
    file = folder / "scheduler.yaml"
    file.write_text(config)

    def command(ports: Ports) -> Sequence[str]:
        return [
            str(ready_binary(kube_program("kube-scheduler", plane.minor))),
            f"--config={file}",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports[0]}",
            f"--tls-cert-file={plane.folder / 'apiserver.crt'}",
            f"--tls-private-key-file={plane.folder / 'apiserver.key'}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez",
            *flags,
        ]

    def ready(ports: Ports) -> bool:
        return fetch(f"https://127.0.0.1:{ports[0]}/readyz", ca_file=plane.folder / "apiserver.crt") == "ok"

    process = start_process("kube-scheduler", command, log=folder / "scheduler.log", ready=ready)
    try:
        yield process
    finally:
        process.stop()


def second_config(plane: ControlPlane, deployed: list[Json], extender: RunningExtender) -> Json:
    """The second scheduler's configuration; in its pod it finds the API and the certificate by itself."""
    config: Json = yaml.safe_load(named(deployed, "ConfigMap", "islander-scheduler")["data"]["scheduler.yaml"])
    (entry,) = config["extenders"]
    assert entry["urlPrefix"] == f"https://{SERVER_NAME}:{PORT}"
    # No cluster DNS here.
    entry["urlPrefix"] = extender.url
    entry["tlsConfig"]["caFile"] = str(extender.certificates.authority)
    config["clientConnection"] = {"kubeconfig": str(plane.kubeconfig_of(NAMESPACE, "islander-scheduler"))}
    return config


def test_the_second_scheduler_runs_with_its_own_rights_and_asks_the_extender(
    plane: ControlPlane, deployed: list[Json], extender: RunningExtender, nodes: list[str], tmp_path: Path
) -> None:
    api = plane.api
    asked = _filter_calls(extender)
    config = second_config(plane, deployed, extender)
    # In its pod it also asks the API by itself who calls its own port.
    asking = [f"--{what}-kubeconfig={config['clientConnection']['kubeconfig']}" for what in _DELEGATED]

    with scheduler(plane, yaml.safe_dump(config), tmp_path, *asking) as process:
        api.create(gpu_pod("replica", 4, scheduler_name="islander", args=["--tensor-parallel-size=4"]))
        # Only the leader schedules, and only with the lease's role it becomes leader.
        assert api.wait_running("default", "replica", timeout_seconds=60)["spec"]["nodeName"] in nodes
        log = process.log_text()

    assert api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/islander-scheduler")
    assert _filter_calls(extender) > asked
    assert api.events("default", "replica", "Scheduled")
    for line in log.splitlines():
        assert "forbidden" not in line, line


def test_the_clusters_own_scheduler_takes_the_file_with_the_address_filled_in(
    plane: ControlPlane, extender: RunningExtender, nodes: list[str], tmp_path: Path
) -> None:
    """As docs/install.md 4b: `sed` writes the address; ca.crt and scheduler.conf are found in their places."""
    api = plane.api
    asked = _filter_calls(extender)
    text = (DEPLOY / "scheduler/cluster/scheduler.yaml").read_text()
    replaced = {
        "CLUSTER_IP": extender.address,
        "/etc/kubernetes/islander/ca.crt": str(extender.certificates.authority),
        "/etc/kubernetes/scheduler.conf": str(_as_kube_scheduler(plane, tmp_path)),
    }
    head, _, body = text.partition("apiVersion:")
    for old, new in replaced.items():
        assert body.count(old) == 1
        body = body.replace(old, new)

    # kubeadm's flags stay; beside --config they have no effect.
    with scheduler(plane, f"{head}apiVersion:{body}", tmp_path, "--kubeconfig=/nowhere", "--leader-elect=true"):
        api.create(gpu_pod("replica", 4, args=["--tensor-parallel-size=4"]))
        api.wait_running("default", "replica", timeout_seconds=60)

    assert _filter_calls(extender) > asked
    assert api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")


def _as_kube_scheduler(plane: ControlPlane, folder: Path) -> Path:
    """A kubeconfig of the user that kubeadm's scheduler.conf is for."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "system:kube-scheduler"
    file = folder / "scheduler.conf"
    file.write_text(yaml.safe_dump(config))
    return file


def test_the_authority_may_stand_in_the_configuration_itself(
    plane: ControlPlane, deployed: list[Json], extender: RunningExtender, nodes: list[str], tmp_path: Path
) -> None:
    api = plane.api
    config = second_config(plane, deployed, extender)
    (entry,) = config["extenders"]
    del entry["tlsConfig"]["caFile"]
    entry["tlsConfig"]["caData"] = _base64(extender.certificates.authority)

    with scheduler(plane, yaml.safe_dump(config), tmp_path):
        api.create(gpu_pod("trusting", 4, scheduler_name="islander"))
        assert api.wait_running("default", "trusting", timeout_seconds=60)["spec"]["nodeName"] in nodes


@pytest.mark.parametrize(
    ("mistake", "complaint"),
    [
        ("authority-data", "x509: certificate signed by unknown authority"),
        ("authority-file", "x509: certificate signed by unknown authority"),
        ("server-name", f"x509: certificate is valid for {SERVER_NAME}, not elsewhere.svc"),
        ("scheme", "EOF|connection reset|malformed HTTP response"),
    ],
    ids=["authority-data", "authority-file", "server-name", "scheme"],
)
def test_a_scheduler_that_cannot_trust_the_extender_says_so_in_the_event(
    plane: ControlPlane,
    deployed: list[Json],
    extender: RunningExtender,
    nodes: list[str],
    tmp_path: Path,
    mistake: str,
    complaint: str,
) -> None:
    api = plane.api
    config = second_config(plane, deployed, extender)
    (entry,) = config["extenders"]
    stranger = make_certificates(tmp_path).authority
    match mistake:
        case "authority-data":
            entry["tlsConfig"]["caData"] = _base64(stranger)
        case "authority-file":
            entry["tlsConfig"]["caFile"] = str(stranger)
        case "server-name":
            entry["tlsConfig"]["serverName"] = "elsewhere.svc"
        case "scheme":
            entry["urlPrefix"] = extender.url.replace("https://", "http://")
    pod = f"mistaken-{mistake}"

    with scheduler(plane, yaml.safe_dump(config), tmp_path):
        api.create(gpu_pod(pod, 4, scheduler_name="islander"))
        events = wait_until(lambda: api.events("default", pod, "FailedScheduling"), timeout_seconds=60)

    assert re.search(complaint, events[0]["message"])
    assert "nodeName" not in api.get(paths.pod("default", pod))["spec"]


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _filter_calls(extender: RunningExtender) -> float:
    samples = re.findall(
        r'^islander_requests_total\{code="200",verb="filter"\} (\S+)$', extender.ask("GET", "/metrics"), re.MULTILINE
    )
    return sum(map(float, samples))
