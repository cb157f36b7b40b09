"""A control plane whose kube-scheduler asks the real extender, and whose nodes hand out and report GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from islander.cluster import names
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Api, Json
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.objects import GPU, gpu_node, gpu_pod
from tests.kwok.controlplane.recorder import Recorder
from tests.kwok.controlplane.scheduler import Scheduler, extender_entry
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.fake_kubelet import PICKED, FakeKubelet

# Every common shape counts the same: what a test sees does not depend on the pods of the tests before it.
EXTENDER_SETTINGS: Mapping[str, Any] = {"demandMix": [{"gpus": gpus, "weight": 1} for gpus in (1, 2, 4, 8)]}


@dataclass(frozen=True, slots=True)
class IslanderBench:
    """What a test works with.

    Attributes
    ----------
    recorder
        Stands between scheduler and extender, and has kept what passed since the test began.
    namespace
        A fresh one for the test's pods.
    """

    plane: ControlPlane
    extender: ExtenderProcess
    recorder: Recorder
    kubelet: FakeKubelet
    namespace: str

    @property
    def api(self) -> Api:
        """The administrator's client."""
        return self.plane.api

    def use_extender(self, **fields: Any) -> Scheduler:
        """Have the scheduler ask the extender; `fields` go to `extender_entry`. Restarts it only when needed."""
        config = {"extenders": [extender_entry(self.recorder.url, **({"preemptVerb": "preempt"} | fields))]}
        running = {scheduler.name: scheduler for scheduler in self.plane.schedulers()}.get("default")
        if running is not None and running.config == config and running.process.alive:
            return running
        return self.plane.restart_scheduler(config)

    def set_up(self, nodes: Sequence[Json], held: Mapping[str, Sequence[int]] | None = None) -> None:
        """Create nodes, on which pods of one GPU each hold the given GPUs, and wait until the extender knows."""
        self.api.create_all(nodes)
        holders = [self.holder(node, (gpu,)) for node, gpus in (held or {}).items() for gpu in gpus]
        self.api.create_all(holders)
        for holder in holders:
            self.kubelet.wait_picked(self.namespace, holder["metadata"]["name"])
        self.wait_seen()

    def holder(self, node: str, gpus: Sequence[int], **pod: Any) -> Json:
        """Return a pod that holds exactly these GPUs of a node, past the scheduler."""
        name = "-".join(["held", node, *map(str, gpus)])
        picked = ",".join(map(str, gpus))
        return gpu_pod(name, len(gpus), namespace=self.namespace, annotations={PICKED: picked}, node_name=node, **pod)

    def replica(
        self, name: str, gpus: int = 1, *, topology: str = "", labels: Mapping[str, str] | None = None, **spec: Any
    ) -> Json:
        """Return a vLLM pod whose tensor parallel size is its number of GPUs."""
        args = [f"--tensor-parallel-size={gpus}"] if gpus > 1 else []
        annotations = {names.TOPOLOGY: topology} if topology else {}
        return gpu_pod(name, gpus, namespace=self.namespace, labels=labels, annotations=annotations, args=args, **spec)

    def place(self, pod: Json) -> str:
        """Create a pod, wait until it is bound, has its GPUs and the extender knows; return the node."""
        self.api.create(pod)
        return self.wait_placed(pod["metadata"]["name"])

    def wait_placed(self, name: str) -> str:
        """Wait until a pod is bound, has its GPUs and the extender knows; return the node."""
        node = self.api.wait_bound(self.namespace, name)
        self.kubelet.wait_picked(self.namespace, name)
        self.wait_seen()
        return node

    def wait_all_bound(self, pods: Sequence[Json], timeout_seconds: float = 30.0) -> dict[str, str]:
        """Wait until all of these pods are bound; return the node of each."""
        wanted = {pod["metadata"]["name"] for pod in pods}

        def bound() -> dict[str, str] | None:
            node_of = self.node_of()
            return node_of if wanted <= node_of.keys() else None

        def told() -> str:
            return f"{len(wanted)} pods bound; pending are {sorted(wanted - self.node_of().keys())}"

        found = wait_until(bound, timeout_seconds=timeout_seconds, what=told)
        assert found is not None
        return {name: node for name, node in found.items() if name in wanted}

    def node_of(self) -> dict[str, str]:
        """Return the node of each bound pod of the test's namespace."""
        pods = self.api.items(paths.pods(self.namespace))
        return {pod["metadata"]["name"]: node for pod in pods if (node := pod["spec"].get("nodeName"))}

    def wait_seen(self) -> None:
        """Wait until the extender knows which GPUs are free, on every node."""

        def seen() -> bool:
            status = self.extender.get_json("/status")["nodes"]
            return {node["name"]: node["freeIndexes"] for node in status} == self._free_gpus()

        wait_until(seen, what=lambda: f"extender sees {self._free_gpus()}; {self.extender.get('/status')}")

    def _free_gpus(self) -> dict[str, list[int]]:
        nodes = [node for node in self.api.items(paths.NODES) if node["status"]["allocatable"].get(GPU, "0") != "0"]
        return {node["metadata"]["name"]: list(self.kubelet.free(node["metadata"]["name"])) for node in nodes}

    def wait_event(self, pod: str, text: str, reason: str = "FailedScheduling") -> str:
        """Wait for an event of a pod whose message holds `text`, and return the message."""

        def told() -> str:
            messages = [event["message"] for event in self.api.events(self.namespace, pod, reason)]
            return next((message for message in messages if text in message), "")

        return wait_until(told, what=lambda: f"event of {pod} with {text!r}; {self.api.events(self.namespace, pod)}")

    def overfilled(self) -> list[str]:
        """Return the nodes whose bound pods hold more GPUs than they have, by count and by kubelet's refusals."""
        used: dict[str, int] = {}
        for pod in self.api.items(paths.ALL_PODS):
            node = pod["spec"].get("nodeName", "")
            for container in pod["spec"]["containers"]:
                used[node] = used.get(node, 0) + int(container["resources"].get("limits", {}).get(GPU, 0))
        room = {
            node["metadata"]["name"]: int(node["status"]["allocatable"][GPU]) for node in self.api.items(paths.NODES)
        }
        return [*sorted(node for node, gpus in room.items() if used.get(node, 0) > gpus), *self.kubelet.refused]


def bridged_node(name: str, **fields: Any) -> Json:
    """Return a node with eight A100 PCIe, bridged in pairs (0,1), (2,3), (4,5), (6,7)."""
    return _node(name, "a100-pcie-8", "NVIDIA-A100-PCIE-40GB", 40960, **fields)


def dgx_1v_node(name: str, **fields: Any) -> Json:
    """Return a DGX-1 with V100: the only islands of four are 0 to 3 and 4 to 7."""
    return _node(name, "dgx-1v", "Tesla-V100-SXM2-32GB", 32768, **fields)


def nvswitch_node(name: str, **fields: Any) -> Json:
    """Return a node with eight H100 behind NVSwitch: any of its GPUs are an island."""
    return gpu_node(name, **fields)


def _node(name: str, hardware: str, product: str, memory_mib: int, **fields: Any) -> Json:
    annotations = {names.HARDWARE: hardware}
    return gpu_node(name, product=product, gpu_memory_mib=memory_mib, annotations=annotations, **fields)
