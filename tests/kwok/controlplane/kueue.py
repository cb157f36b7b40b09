"""Kueue beside a control plane: installed from its own manifests and started as a local process.

Its certificates come from its own rotator (`internalCertManagement`), which fills an empty Secret and tells the API
server what to trust. Two things of a cluster are missing, and played here: the kubelet, which would mount the Secret,
and the Service's cluster IP, instead of which an ExternalName leads the API server to loopback.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Api, ApiError, Json, condition_of
from tests.kwok.controlplane.build import ready_binary
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.fetch import fetch
from tests.kwok.controlplane.kueue_manifests import definitions, webhooks
from tests.kwok.controlplane.objects import namespace
from tests.kwok.controlplane.processes import LocalProcess, Ports, start_process
from tests.kwok.controlplane.programs import KUEUE
from tests.kwok.controlplane.waiting import wait_until

NAMESPACE = "kueue-system"
SERVICE = "kueue-webhook-service"
_SECRET = "kueue-webhook-server-cert"
_SECRET_PATH = f"/api/v1/namespaces/{NAMESPACE}/secrets/{_SECRET}"
# A webhook or its certificate is not known yet; a kind's storage starts.
_NOT_YET = {429, 500}
_FRAMEWORKS = ("batch/job", "pod", "deployment", "statefulset")
_API = "kueue.x-k8s.io/v1beta2"
# Queues before what they refer to: Kueue lets go of a flavor when no queue names it any more.
_KINDS = ("Workload", "LocalQueue", "ClusterQueue", "Cohort", "ResourceFlavor", "Topology", "WorkloadPriorityClass")


@contextmanager
def running_kueue(plane: ControlPlane, settings: Mapping[str, Any] | None = None) -> Iterator[LocalProcess]:
    """Install Kueue on a fresh control plane and run it as long as the `with` block, in which its webhooks answer.

    Parameters
    ----------
    settings
        More of its Configuration, over what is said here (`{"waitForPodsReady": {...}}`).
    """
    binary = ready_binary(KUEUE)
    config_file, certificates = plane.folder / "kueue.json", plane.folder / "kueue-certificates"
    certificates.mkdir()

    def command(ports: Ports) -> list[str]:
        health, webhook = ports
        config = _configuration(health, webhook, certificates) | dict(settings or {})
        config_file.write_text(json.dumps(config, indent=2))
        _install(plane.api, binary.parent, webhook)
        return [str(binary), f"--config={config_file}"]

    def ready(ports: Ports) -> bool:
        return _mounted(plane.api, certificates) and fetch(f"http://127.0.0.1:{ports[0]}/readyz") == "ok"

    process = start_process(
        "kueue",
        command,
        log=plane.folder / "kueue.log",
        ready=ready,
        port_count=2,
        env={"KUBECONFIG": str(plane.kubeconfig)},
    )
    try:
        wait_until(lambda: _is_answered(plane.api), what=lambda: f"Kueue's webhooks answer; {process.log_text()}")
        yield process
    finally:
        process.stop()


def remove_queues(api: Api) -> None:
    """Delete what tests have created of Kueue's kinds, and wait until Kueue has let go of it."""

    def left() -> list[str]:
        found = [(kind, obj) for kind in _KINDS for obj in api.items(paths.collection(_API, kind))]
        for kind, obj in found:
            if "deletionTimestamp" not in obj["metadata"]:
                api.delete(paths.path_of({"apiVersion": _API, "kind": kind, **obj}))
        return [f"{kind} {obj['metadata']['name']}" for kind, obj in found]

    wait_until(lambda: not left(), timeout_seconds=60, what=lambda: f"queues are gone; there are {left()}")


def _configuration(health_port: int, webhook_port: int, certificates: Path) -> Json:
    """Return a Configuration that listens on loopback alone and reacts at once."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": _SECRET},
        "clientConnection": {"qps": 1000, "burst": 2000},
        "integrations": {"frameworks": list(_FRAMEWORKS)},
        # Another server, on all addresses.
        "featureGates": {"VisibilityOnDemand": False},
    }


def _install(api: Api, folder: Path, webhook_port: int) -> None:
    """Create what Kueue's installation creates, its Deployment and roles left out; lead its webhooks to a port."""
    if api.find(f"{paths.NAMESPACES}/{NAMESPACE}") is None:
        api.create(namespace(NAMESPACE))
        metadata = {"namespace": NAMESPACE}
        api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata | {"name": _SECRET}})
        spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
        api.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata | {"name": SERVICE}, "spec": spec})
    service = {"name": SERVICE, "namespace": NAMESPACE, "port": webhook_port}
    crds = definitions(folder, service)
    api.each(lambda obj: _apply(api, obj), [*crds, *webhooks(folder, service)])
    wait_until(lambda: all(_is_served(api, crd) for crd in crds), what="Kueue's kinds are served")


def _is_served(api: Api, definition: Json) -> bool:
    return condition_of(api.get(paths.path_of(definition)), "Established").get("status") == "True"


def _apply(api: Api, obj: Json) -> None:
    api.patch(paths.path_of(obj), obj, kind="apply", fieldManager="testbench", force="true")


def _mounted(api: Api, folder: Path) -> bool:
    """Write the certificates into Kueue's folder once the rotator has put them into the Secret, as kubelet would."""
    files = api.get(_SECRET_PATH).get("data") or {}
    for name, content in sorted(files.items(), reverse=True):
        if not (folder / name).exists():
            (folder / name).write_bytes(base64.b64decode(content))
    return bool(files)


def _is_answered(api: Api) -> bool:
    """Whether the API server lists all kinds and reaches admission and conversion.

    It hears of services and certificates with a delay, and starts a kind's storage anew when the definition changes.
    """
    flavor = {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": "probe"}, "spec": {}}
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": "probe", "namespace": NAMESPACE},
        "spec": {"clusterQueue": "probe"},
    }
    try:
        for kind in _KINDS:
            api.items(paths.collection(_API, kind))
        for obj in (flavor, queue):
            api.create(obj, dry_run=True)
    except ApiError as problem:
        if problem.code in _NOT_YET:
            return False
        raise
    return True
