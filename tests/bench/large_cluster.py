"""A large cluster as the API returns it, and a server of it in a process of its own.

`python -m tests.bench.large_cluster NODES PODS` prints the server's address and then obeys lines on its input:
`events N` changes N pods as kubelet does, `expire` answers the next watch of pods with 410, the end of input ends the
server.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from islander.cluster import names
from tests.fake_api import FakeApi, error_event

PODS_PER_TEMPLATE = 40
GPUS_PER_NODE = 8
_OWNED_FIELDS = {f"f:field-{i}": {".": {}, f'k:{{"name":"value-{i}"}}': {"f:value": {}}} for i in range(12)}


def node(number: int) -> dict[str, Any]:
    """A GPU node of 8 to 12 kB: labels of feature discovery, images, conditions, managed fields."""
    name = f"gpu-node-{number:05}.example.internal"
    amounts = {
        "cpu": "192",
        "memory": "2113396Mi",
        "pods": "110",
        "ephemeral-storage": "1843269236Ki",
        "hugepages-2Mi": "0",
        names.NVIDIA_GPU: str(GPUS_PER_NODE),
    }
    labels = {
        names.HOSTNAME: name,
        names.ZONE: f"zone-{number % 3}",
        names.GPU_PRESENT: "true",
        names.GPU_PRODUCT: "NVIDIA-H100-80GB-HBM3",
        names.GPU_COUNT: str(GPUS_PER_NODE),
        names.GPU_MEMORY: "81559",
    } | {f"feature.node.kubernetes.io/cpu-cpuid.FLAG{i}": "true" for i in range(40)}
    digest = f"sha256:{number:064x}"
    images = [
        {"names": [f"registry/team/image-{i}@{digest}", f"registry/team/image-{i}:v{i}"], "sizeBytes": 123456789}
        for i in range(20)
    ]
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "reason": f"Kubelet{kind}",
            "message": f"kubelet reports {kind} as usual",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "resourceVersion": "900",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": _OWNED_FIELDS}],
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud://{name}"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images},
    }


def pod(number: int, nodes: int, *, restarts: int = 0) -> dict[str, Any]:
    """A running vLLM replica of one GPU, 4 to 6 kB, of one of many templates."""
    template, copy = divmod(number, PODS_PER_TEMPLATE)
    name = f"vllm-{template:04}-6c9f7d5b8-{copy:05}"
    model = f"model-{template}"
    host = f"gpu-node-{number % nodes:05}.example.internal"
    amounts = {"cpu": "8", "memory": "64Gi", names.NVIDIA_GPU: "1"}
    env = [{"name": f"SETTING_{i}", "value": f"value-{template}-{i}"} for i in range(30)]
    mounts = [{"name": f"kube-api-access-{number:05}", "mountPath": "/var/run/secrets", "readOnly": True}]
    started = "2026-01-01T00:00:00Z"
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": f"team-{template % 50}",
            "uid": f"00000000-0000-4000-9000-{number:012}",
            "resourceVersion": "900",
            "creationTimestamp": started,
            "labels": {"app": model, "pod-template-hash": "6c9f7d5b8", "team": f"team-{template % 50}"},
            "annotations": {"kubectl.kubernetes.io/restartedAt": started, "prometheus.io/scrape": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"vllm-{template:04}-6c9f7d5b8",
                    "uid": f"00000000-0000-4000-a000-{template:012}",
                    "controller": True,
                }
            ],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": _OWNED_FIELDS}],
        },
        "spec": {
            "nodeName": host,
            "containers": [
                {
                    "name": "vllm",
                    "image": f"registry/vllm:{template}",
                    "args": ["serve", model, "--tensor-parallel-size", "1", "--max-model-len", "8192"],
                    "env": env,
                    "resources": {"requests": amounts, "limits": amounts},
                    "volumeMounts": mounts,
                    "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10},
                }
            ],
            "volumes": [{"name": mounts[0]["name"], "projected": {"sources": [{"serviceAccountToken": {}}]}}],
            "nodeSelector": {names.GPU_PRODUCT: "NVIDIA-H100-80GB-HBM3"},
            "tolerations": [
                {"key": names.NVIDIA_GPU, "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            ],
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "priority": 0,
        },
        "status": {
            "phase": "Running",
            "startTime": started,
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": started}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": "vllm",
                    "ready": restarts % 2 == 0,
                    "restartCount": restarts,
                    "imageID": f"registry/vllm@sha256:{template:064x}",
                    "containerID": f"containerd://{number:064x}",
                    "state": {"running": {"startedAt": started}},
                }
            ],
        },
    }


def item(obj: dict[str, Any]) -> tuple[str, bytes]:
    """Key and encoding of an object as the item of a list."""
    metadata = obj["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
    return key, json.dumps({k: v for k, v in obj.items() if k != "kind"}).encode()


class ClusterProcess:
    """A server of a large cluster in another process."""

    def __init__(self, process: subprocess.Popen[str], commands: IO[str], answers: IO[str]) -> None:
        self._process = process
        self._commands = commands
        self._answers = answers
        self.url = self._answers.readline().strip()

    def events(self, count: int) -> None:
        """Change `count` pods; the last one gets the phase Failed."""
        self._tell(f"events {count}")

    def expire(self) -> None:
        """Make the watch of pods list again."""
        self._tell("expire")

    def _tell(self, command: str) -> None:
        self._commands.write(command + "\n")
        self._commands.flush()
        self._answers.readline()


@contextmanager
def served_cluster(nodes: int, pods: int) -> Iterator[ClusterProcess]:
    command = [sys.executable, "-m", "tests.bench.large_cluster", str(nodes), str(pods)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the process has no pipes")
        yield ClusterProcess(process, process.stdin, process.stdout)
        process.stdin.close()


def main() -> None:
    nodes, pods = int(sys.argv[1]), int(sys.argv[2])
    with FakeApi() as api:
        api.seed("Node", (item(node(i)) for i in range(nodes)))
        api.seed("Pod", (item(pod(i, nodes)) for i in range(pods)))
        print(api.url, flush=True)
        for command in sys.stdin:
            match command.split():
                case ["events", count]:
                    changed = [pod(i % pods, nodes, restarts=1 + i) for i in range(int(count))]
                    changed[-1]["status"]["phase"] = "Failed"
                    api.put(*changed)
                case ["expire"]:
                    api.script_watch("Pod", error_event(410, "Expired"))
                    api.end_watches("Pod")
            print("done", flush=True)


if __name__ == "__main__":
    main()
