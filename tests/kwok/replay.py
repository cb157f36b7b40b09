"""Replays a stream of arrivals and departures on a real control plane, step by step: no clock decides what happens."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from types import TracebackType
from typing import Any, Self, TypeVar

import urllib3

from islander.cluster.snapshot_json import decode_snapshot
from tests.bench.churn import GPUS_PER_NODE, Arrival, Tally
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Api, condition_of
from tests.kwok.controlplane.objects import READY_DELAY, gpu_pod

Json = dict[str, Any]
Known = TypeVar("Known")

_TIMEOUT_SECONDS = 120.0
_POLL_SECONDS = 0.002
# Of a node with 192 cores and 2 TiB: GPUs run out first, and the shares of CPU, memory and GPUs grow alike.
_CPU_PER_GPU = 20
_GIB_PER_GPU = 200


class PodFates:
    """What becomes of the pods of one namespace, by a watch of its own, as long as the `with` block lasts."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = paths.pods(namespace)
        self._node_of: dict[str, str] = {}
        self._gone: set[str] = set()
        self._bound_at: list[float] = []
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._stream: urllib3.BaseHTTPResponse | None = None
        self._thread = threading.Thread(target=self._follow, name="pod-fates", daemon=True)

    def __enter__(self) -> Self:
        self._version = self._api.get(self._path)["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        while self._thread.is_alive():
            if (stream := self._stream) is not None:
                stream.shutdown()
            self._thread.join(0.05)

    @property
    def seconds(self) -> float:
        """Time from the first bind that was seen to the last."""
        return self._bound_at[-1] - self._bound_at[0]

    def node_of(self, name: str) -> str:
        """Wait until the scheduler has decided, and return the node; empty when it has found none."""
        return self._wait_for(name, lambda: self._node_of.get(name))

    def wait_gone(self, name: str) -> None:
        """Wait until a pod is deleted, and forget it."""
        self._wait_for(name, lambda: name in self._gone or None)
        self._gone.discard(name)
        self._node_of.pop(name, None)

    def _wait_for(self, name: str, known: Callable[[], Known | None]) -> Known:
        with self._news:
            told = self._news.wait_for(lambda: known() is not None or not self._thread.is_alive(), _TIMEOUT_SECONDS)
            answer = known()
        if answer is None:
            raise TimeoutError(f"{name}: " + ("the watch has ended" if told else "nothing was decided"))
        return answer

    def _follow(self) -> None:
        try:
            with self._api.watch(self._path, self._version) as self._stream:
                rest = b""
                for part in self._stream.stream(65536):
                    *lines, rest = (rest + part).split(b"\n")
                    with self._news:
                        for line in lines:
                            self._take_in(json.loads(line))
                        self._news.notify_all()
        except (urllib3.exceptions.HTTPError, ValueError):
            # A stream that is shut down may end in bytes that were never meant to be read.
            if not self._stop.is_set():
                raise

    def _take_in(self, event: Json) -> None:
        pod = event["object"]
        name = pod["metadata"]["name"]
        if event["type"] == "DELETED":
            self._gone.add(name)
        elif pod["spec"].get("nodeName"):
            if not self._node_of.get(name):
                self._bound_at.append(time.monotonic())
            self._node_of[name] = pod["spec"]["nodeName"]
        elif condition_of(pod, "PodScheduled").get("reason") == "Unschedulable":
            self._node_of[name] = ""


class ExtenderView:
    """What a running extender has seen of a namespace; its connection is kept."""

    def __init__(self, url: str, namespace: str) -> None:
        self._url = f"{url}/snapshot"
        self._prefix = f"{namespace}/"
        self._http = urllib3.PoolManager(maxsize=1, retries=False)

    def wait_for(self, held: Mapping[str, tuple[int, ...] | None]) -> None:
        """Wait until the extender knows exactly these pods on nodes; with their GPUs where those are given."""
        soon(lambda: self._seen(held), f"the extender's view of {len(held)} pods")

    def _seen(self, held: Mapping[str, tuple[int, ...] | None]) -> bool:
        snapshot = decode_snapshot(self._http.request("GET", self._url).data)
        pods = {pod.name for pod in snapshot.pods if pod.node and pod.key.startswith(self._prefix)}
        if pods != held.keys():
            return False
        reported: defaultdict[str, list[int]] = defaultdict(list)
        for node in snapshot.nodes:
            for gpu in node.gpu_report.gpus if node.gpu_report else ():
                if gpu.pod is not None:
                    reported[gpu.pod.removeprefix(self._prefix)].append(gpu.index)
        return all(gpus is None or gpus == tuple(reported[name]) for name, gpus in held.items())


def soon(condition: Callable[[], Known], what: str) -> Known:
    """Return the first true answer of a condition that takes a moment; `wait_until` looks too rarely for that."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {_TIMEOUT_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
    return answer


def serving_pod(name: str, gpus: int, *, namespace: str, args: Sequence[str] = ()) -> Json:
    """Return a pod of the stream. It stays Pending once it is bound: what it holds it holds from then on."""
    per_pod = {"cpu": str(gpus * _CPU_PER_GPU), "memory": f"{gpus * _GIB_PER_GPU}Gi"}
    return gpu_pod(name, gpus, namespace=namespace, args=args, requests=per_pod, annotations={READY_DELAY: "24h"})


class Replay:
    """Plays streams through the kube-scheduler that runs.

    Parameters
    ----------
    args_of
        vLLM's arguments in a pod with so many GPUs.
    settle
        Called before each arrival with the pods that hold GPUs; returns when everybody who counts has seen them come
        and others go. The scheduler itself needs no waiting: its watch tells departures before the arrival.
    admitted
        Called with the name and the GPUs of each pod that is admitted after the warm-up.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        args_of: Callable[[int], Sequence[str]],
        *,
        settle: Callable[[Iterable[str]], None] = lambda _alive: None,
        admitted: Callable[[str, int], None] = lambda _name, _gpus: None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._args_of = args_of
        self._settle = settle
        self._admitted = admitted
        # The next to leave comes first: step, name, GPUs.
        self._running: list[tuple[int, str, int]] = []

    def run(self, arrivals: Sequence[Arrival], *, nodes: int, warm_up: int) -> Tally:
        """Play one stream on an empty cluster, and leave it empty."""
        tally = Tally()
        with PodFates(self._api, self._namespace) as fates:
            for arrival in arrivals:
                self._depart(fates, arrival.step)
                self._settle(name for _, name, _ in self._running)
                free = nodes * GPUS_PER_NODE - sum(gpus for *_, gpus in self._running)
                name, gpus = f"pod-{arrival.step}", arrival.gpus
                self._api.create(serving_pod(name, gpus, namespace=self._namespace, args=self._args_of(gpus)))
                node = fates.node_of(name)
                if node:
                    heappush(self._running, (arrival.leaves, name, gpus))
                else:
                    self._delete(fates, [name])
                if arrival.step >= warm_up:
                    tally.note(gpus, admitted=bool(node), free=free)
                    if node:
                        self._admitted(name, gpus)
            self._delete(fates, [name for _, name, _ in self._running])
            self._running.clear()
        return tally

    def _depart(self, fates: PodFates, step: int) -> None:
        gone = []
        while self._running and self._running[0][0] <= step:
            gone.append(heappop(self._running)[1])
        self._delete(fates, gone)

    def _delete(self, fates: PodFates, names: Sequence[str]) -> None:
        def delete(name: str) -> None:
            self._api.delete(paths.pod(self._namespace, name), grace_seconds=0)

        self._api.each(delete, names)  # Without a grace period the API forgets a pod at once.
        for name in names:
            fates.wait_gone(name)
