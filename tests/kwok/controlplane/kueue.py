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
from tests.kwok.controlplane.ports import free_ports
from tests.kwok.controlplane.processes import LocalProcess, start_process
from tests.kwok.controlplane.programs import KUEUE
from tests.kwok.controlplane.queues import API, resource_flavor
from tests.kwok.controlplane.waiting import wait_until

NAMESPACE = "kueue-system"
LOG = "kueue.log"
_SERVICE = "kueue-webhook-service"
_SECRET = "kueue-webhook-server-cert"
_SECRET_PATH = f"/api/v1/namespaces/{NAMESPACE}/secrets/{_SECRET}"
# A webhook or its certificate is not known yet; a kind's storage starts.
_NOT_YET = {429, 500}
_FRAMEWORKS = ("batch/job", "pod", "deployment", "statefulset")
# Queues before what they refer to: Kueue lets go of a flavor when no queue names it any more.
_KINDS = ("Workload", "LocalQueue", "ClusterQueue", "Cohort", "ResourceFlavor", "Topology", "WorkloadPriorityClass")


class Kueue:
    """One Kueue, on ports that are chosen before its control plane starts.

    `ControlPlane(prepare=kueue.install)`: controllers that look only now and then which kinds there are, such as the
    garbage collector, know Kueue's from the start.

    Parameters
    ----------
    settings
        More of its Configuration, over what is said here (`{"waitForPodsReady": {...}}`).
    """

    def __init__(self, settings: Mapping[str, Any] | None = None):
        self._binary = ready_binary(KUEUE)
        self._settings = dict(settings or {})
        self._ports = self._health_port, self._webhook_port = free_ports(2)
        self._process: LocalProcess | None = None

    def install(self, api: Api) -> None:
        """Create what Kueue's installation creates, its Deployment and roles left out."""
        folder = self._binary.parent
        service = {"name": _SERVICE, "namespace": NAMESPACE, "port": self._webhook_port}
        here = {"namespace": NAMESPACE}
        api.create(namespace(NAMESPACE))
        api.create({"apiVersion": "v1", "kind": "Secret", "metadata": here | {"name": _SECRET}})
        spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
        api.create({"apiVersion": "v1", "kind": "Service", "metadata": here | {"name": _SERVICE}, "spec": spec})
        crds = definitions(folder, service)
        api.create_all([*crds, *webhooks(folder, service)])
        wait_until(lambda: all(_is_served(api, crd) for crd in crds), what="Kueue's kinds are served")

    @contextmanager
    def running(self, plane: ControlPlane) -> Iterator[LocalProcess]:
        """Run as long as the `with` block, in which the webhooks answer."""
        config_file, certificates = plane.folder / "kueue.json", plane.folder / "kueue-certificates"
        certificates.mkdir()
        config_file.write_text(json.dumps(self._configuration(certificates) | self._settings, indent=2))
        process = self._process = start_process(
            "kueue",
            lambda _: [str(self._binary), f"--config={config_file}"],
            log=plane.folder / LOG,
            ready=lambda _: _is_mounted(plane.api, certificates) and self._is_ready(),
            fixed_ports=self._ports,
            env={"KUBECONFIG": str(plane.kubeconfig)},
        )
        try:
            wait_until(lambda: _is_answered(plane.api), what=lambda: f"Kueue's webhooks answer; {process.log_text()}")
            yield process
        finally:
            # SIGTERM would make it wait for the API server to close its connections; nothing of it is to be kept.
            process.kill()

    def check_alive(self) -> None:
        """Raise ProcessError when it has ended: nothing would be admitted, and every webhook refuse."""
        if self._process is not None:
            self._process.wait_until_ready(lambda: True, 0)

    def _is_ready(self) -> bool:
        return fetch(f"http://127.0.0.1:{self._health_port}/readyz") == "ok"

    def _configuration(self, certificates: Path) -> Json:
        """Return a Configuration that listens on loopback alone and reacts at once."""
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._webhook_port, "certDir": str(certificates)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": True, "webhookServiceName": _SERVICE, "webhookSecretName": _SECRET},
            "clientConnection": {"qps": 1000, "burst": 2000},
            "integrations": {"frameworks": list(_FRAMEWORKS)},
            # Another server, on all addresses.
            "featureGates": {"VisibilityOnDemand": False},
        }


def remove_queues(api: Api) -> None:
    """Delete what tests have created of Kueue's kinds, and wait until Kueue has let go of it."""

    def left() -> list[str]:
        found = [(kind, obj) for kind in _KINDS for obj in api.items(paths.collection(API, kind))]
        for kind, obj in found:
            if "deletionTimestamp" not in obj["metadata"]:
                api.delete(paths.path_of({"apiVersion": API, "kind": kind, **obj}))
        return [f"{kind} {obj['metadata']['name']}" for kind, obj in found]

    wait_until(lambda: not left(), timeout_seconds=60, what=lambda: f"queues are gone; there are {left()}")


def _is_served(api: Api, definition: Json) -> bool:
    return condition_of(api.get(paths.path_of(definition)), "Established").get("status") == "True"


def _is_mounted(api: Api, folder: Path) -> bool:
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
    in_the_old_version = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": "probe", "namespace": NAMESPACE},
        "spec": {"clusterQueue": "probe"},
    }
    try:
        for kind in _KINDS:
            api.items(paths.collection(API, kind))
        for obj in (resource_flavor("probe"), in_the_old_version):
            api.create(obj, dry_run=True)
    except ApiError as problem:
        if problem.code in _NOT_YET:
            return False
        raise
    return True
