"""Plays kubelet, the device plugin and the node's agent on KWOK nodes: who gets which GPUs, and the report of it.

This stands for hardware only. For each pod that the real scheduler has bound it draws one of the picks that the device
plugin may make, and writes the node's annotation `islander.dev/gpus` as an agent would.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any, Self

import urllib3

from islander.cluster import names
from islander.cluster.machine import hardware_of
from islander.hardware.links import Hardware, gpus_of, mask_of
from islander.hardware.presets import preset
from islander.kube.parse import parse_node
from islander.policy.kubelet import kubelet_picks
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Api, ApiError
from tests.kwok.controlplane.objects import GPU
from tests.kwok.controlplane.waiting import wait_until

Json = dict[str, Any]

# On a pod: the GPUs it has got, such as "0,2", where a test needs one history out of those that chance may bring.
PICKED = "testbench.islander.dev/gpus"

_FINISHED = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Machine:
    """One node: its hardware, and which pods hold which of its GPUs (bit masks)."""

    hardware: Hardware
    chance: Random
    held: dict[str, int]

    @property
    def free(self) -> int:
        return self.hardware.all_gpus & ~sum(self.held.values())


class FakeKubelet:
    """The kubelets of all nodes, as long as the `with` block lasts.

    Parameters
    ----------
    seed
        Decides, together with a node's name and the order of its pods, what chance decides on that node.
    hardware
        Preset of each node whose own labels and annotations do not tell what it is.
    reports
        False leaves the nodes silent, as without an agent.

    Attributes
    ----------
    refused
        Pods (`namespace/name`) bound to a node that had too few GPUs for them: an overfilled node.
    """

    def __init__(self, api: Api, *, seed: int = 0, hardware: Mapping[str, str] | None = None, reports: bool = True):
        self.refused: list[str] = []
        self._api = api
        self._seed = seed
        self._presets = dict(hardware or {})
        self._reports = reports
        self._machines: dict[str, _Machine] = {}
        self._node_of: dict[str, str] = {}
        self._reported: set[str] = set()
        self._silent: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._stream: urllib3.BaseHTTPResponse | None = None
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._follow, name="fake-kubelet", daemon=True)

    def __enter__(self) -> Self:
        for node in self._api.items(paths.NODES):
            if self._machine(node["metadata"]["name"]).hardware.gpus:
                self._report(node["metadata"]["name"])
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        while self._thread.is_alive():
            # A watch that is just being opened is not there yet to be ended; one that is just ending is gone already.
            if (stream := self._stream) is not None:
                with suppress(ValueError, RuntimeError, OSError):
                    stream.shutdown()
            self._thread.join(0.05)
        if kind is None and self._problem is not None:
            raise self._problem

    def wait_picked(self, namespace: str, name: str) -> tuple[int, ...]:
        """Wait until a pod has its GPUs and its node has reported it; return their indexes."""
        wait_until(lambda: f"{namespace}/{name}" in self._reported, what=f"GPUs of {namespace}/{name}")
        return self.gpus_of_pod(namespace, name)

    def gpus_of_pod(self, namespace: str, name: str) -> tuple[int, ...]:
        """Return the GPUs that a pod holds, ascending; none when it holds none (yet)."""
        key = f"{namespace}/{name}"
        with self._lock:
            node = self._node_of.get(key)
            return tuple(gpus_of(self._machines[node].held[key])) if node is not None else ()

    def free(self, node: str) -> tuple[int, ...]:
        """Return the free GPUs of a node, ascending."""
        with self._lock:
            return tuple(gpus_of(self._machine(node).free))

    def free_masks(self) -> dict[str, tuple[Hardware, int]]:
        """Return hardware and free GPUs (bit mask) of every node that was seen, by name."""
        with self._lock:
            return {name: (machine.hardware, machine.free) for name, machine in self._machines.items()}

    def silence(self, node: str) -> None:
        """Let a node pick, but not report, from now on."""
        self._silent.add(node)

    def report(self, node: str) -> None:
        """Let a node report now and from now on."""
        self._silent.discard(node)
        self._report(node)

    # Following the API ------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        try:
            while not self._stop.is_set():
                self._list_and_watch()
        except Exception as problem:  # Told when the block ends; a thread has nobody to raise to.
            # A stream that is shut down may end in bytes that were never meant to be read.
            if not self._stop.is_set():
                self._problem = problem

    def _list_and_watch(self) -> None:
        listing = self._api.get(paths.ALL_PODS)
        pods = listing.get("items") or []
        alive = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods}
        for gone in set(self._node_of) - alive:
            self._free(gone)
        for pod in pods:
            self._take_in("MODIFIED", pod)
        try:
            with self._api.watch(paths.ALL_PODS, listing["metadata"]["resourceVersion"]) as self._stream:
                for event in _events(self._stream):
                    if event["type"] == "ERROR" or self._stop.is_set():
                        return
                    self._take_in(event["type"], event["object"])
        except (ApiError, urllib3.exceptions.HTTPError):
            return  # A watch ends now and then; the next one begins with a list.
        finally:
            self._stream = None

    def _take_in(self, what: str, pod: Json) -> None:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if what == "DELETED" or pod["status"].get("phase") in _FINISHED:
            self._free(key)
        elif pod["spec"].get("nodeName") and key not in self._node_of and key not in self.refused:
            self._admit(key, pod)

    def _admit(self, key: str, pod: Json) -> None:
        counts = [_gpus_asked(container) for container in pod["spec"]["containers"]]
        if not any(counts):
            return
        node = pod["spec"]["nodeName"]
        with self._lock:
            machine = self._machine(node)
            free = machine.free
            chosen = 0
            for pick in self._picks(machine, pod, counts):
                if not pick or pick & ~(free & ~chosen):
                    self.refused.append(key)
                    return
                chosen |= pick
            machine.held[key] = chosen
            self._node_of[key] = node
        self._report(node)
        self._reported.add(key)

    @staticmethod
    def _picks(machine: _Machine, pod: Json, counts: list[int]) -> Iterator[int]:
        """Yield what each container gets; 0 where nothing can be had."""
        told = pod["metadata"].get("annotations", {}).get(PICKED)
        if told is not None:
            yield mask_of(int(index) for index in told.split(","))
            return
        free = machine.free
        for count in filter(None, counts):
            sets = kubelet_picks(machine.hardware, "", free, count).sets
            pick = machine.chance.choice(sets) if sets else 0
            free &= ~pick
            yield pick

    def _free(self, key: str) -> None:
        with self._lock:
            node = self._node_of.pop(key, None)
            if node is None:
                return
            del self._machines[node].held[key]
        self._report(node)
        self._reported.discard(key)

    def _machine(self, name: str) -> _Machine:
        machine = self._machines.get(name)
        if machine is None:
            told = preset(self._presets.get(name, ""))
            hardware = told or hardware_of(parse_node(json.dumps(self._api.get(paths.node(name))).encode()))[0]
            machine = self._machines[name] = _Machine(hardware, Random(f"{self._seed}/{name}"), {})
        return machine

    def _report(self, name: str) -> None:
        if self._reports and name not in self._silent:
            self._write_report(name)

    def _write_report(self, name: str) -> None:
        with self._lock:
            machine = self._machines[name]
            owners = {gpu: key for key, held in machine.held.items() for gpu in gpus_of(held)}
        gpus = [
            {"index": gpu, "uuid": f"GPU-{name}-{gpu}", "healthy": True, "pod": owners.get(gpu)}
            for gpu in range(machine.hardware.gpus)
        ]
        annotations = {names.GPUS: json.dumps({"v": 1, "gpus": gpus}, separators=(",", ":"))}
        try:
            self._api.patch(paths.node(name), {"metadata": {"annotations": annotations}})
        except ApiError as problem:
            if problem.code != 404:
                raise


def _gpus_asked(container: Json) -> int:
    return int(container.get("resources", {}).get("limits", {}).get(GPU, 0))


def _events(stream: urllib3.BaseHTTPResponse) -> Iterator[Json]:
    rest = b""
    for part in stream.stream(65536):
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield json.loads(line)
