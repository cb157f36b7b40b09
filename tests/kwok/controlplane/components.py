"""How each program of the control plane, except the scheduler, is started."""

from collections.abc import Sequence
from pathlib import Path

from tests.kwok.controlplane.credentials import Credentials
from tests.kwok.controlplane.fetch import fetch
from tests.kwok.controlplane.processes import LocalProcess, Ports, start_process

_KWOK_CONFIG = Path(__file__).with_name("kwok.yaml")
_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "job-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "resourceclaim-controller",
)


def start_etcd(binary: Path, folder: Path) -> LocalProcess:
    """Start etcd; its first port is the one clients use."""

    def command(ports: Ports) -> Sequence[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in ports)
        return [
            str(binary),
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            "--unsafe-no-fsync=true",
            "--log-level=warn",
            f"--quota-backend-bytes={8 * 2**30}",
        ]

    def ready(ports: Ports) -> bool:
        return '"true"' in fetch(f"http://127.0.0.1:{ports[0]}/health")

    return start_process("etcd", command, log=folder / "etcd.log", ready=ready, port_count=2)


def start_apiserver(
    binary: Path, folder: Path, etcd: LocalProcess, credentials: Credentials, *, rbac: bool, extra_args: Sequence[str]
) -> LocalProcess:
    """Start kube-apiserver; it writes the certificate that it serves with to `folder`/apiserver.crt.

    The admission plugins ServiceAccount and TaintNodesByCondition are off: they wait for controllers that do not run.
    """

    def command(ports: Ports) -> Sequence[str]:
        return [
            str(binary),
            f"--etcd-servers=http://127.0.0.1:{etcd.ports[0]}",
            f"--cert-dir={folder}",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports[0]}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--authorization-mode={'RBAC' if rbac else 'AlwaysAllow'}",
            f"--token-auth-file={credentials.token_file}",
            "--service-account-issuer=https://127.0.0.1",
            f"--service-account-key-file={credentials.public_key}",
            f"--service-account-signing-key-file={credentials.private_key}",
            "--endpoint-reconciler-type=none",
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
            "--profiling=false",
            "--delete-collection-workers=16",
            *extra_args,
        ]

    def ready(ports: Ports) -> bool:
        url = f"https://127.0.0.1:{ports[0]}/readyz"
        return fetch(url, ca_file=folder / "apiserver.crt", token=credentials.admin_token) == "ok"

    return start_process("kube-apiserver", command, log=folder / "apiserver.log", ready=ready)


def start_kwok(binary: Path, folder: Path, kubeconfig: Path) -> LocalProcess:
    """Start kwok, which plays the kubelets of all nodes."""

    def command(ports: Ports) -> Sequence[str]:
        return [
            str(binary),
            "--manage-all-nodes=true",
            f"--kubeconfig={kubeconfig}",
            f"--config={_KWOK_CONFIG}",
            "--node-lease-duration-seconds=0",
            "--cidr=10.64.0.1/10",
            f"--server-address=127.0.0.1:{ports[0]}",
        ]

    def ready(ports: Ports) -> bool:
        return bool(fetch(f"http://127.0.0.1:{ports[0]}/healthz"))

    return start_process("kwok", command, log=folder / "kwok.log", ready=ready)


def start_controller_manager(
    binary: Path,
    folder: Path,
    kubeconfig: Path,
    credentials: Credentials,
    *,
    controllers: Sequence[str],
    extra_args: Sequence[str],
) -> LocalProcess:
    """Start kube-controller-manager with the controllers that tests need, and with `controllers` on top."""

    def command(ports: Ports) -> Sequence[str]:
        return [
            str(binary),
            f"--kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports[0]}",
            f"--tls-cert-file={folder / 'apiserver.crt'}",
            f"--tls-private-key-file={folder / 'apiserver.key'}",
            "--authorization-always-allow-paths=/healthz",
            "--leader-elect=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            f"--service-account-private-key-file={credentials.private_key}",
            f"--controllers={','.join((*_CONTROLLERS, *controllers))}",
            *extra_args,
        ]

    def ready(ports: Ports) -> bool:
        return fetch(f"https://127.0.0.1:{ports[0]}/healthz", ca_file=folder / "apiserver.crt") == "ok"

    return start_process("kube-controller-manager", command, log=folder / "controller-manager.log", ready=ready)
