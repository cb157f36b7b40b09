"""How long filter and prioritize take over HTTP, as the scheduler sees it, beside an endpoint that only echoes.

Extender and echo are processes of their own, on the same server class; calls alternate, so that whatever else the
machine does meets both. `python -m tests.bench.bench_extender` prints the tables.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from flask import Flask, Response, request

from extender import wire
from extender.cache import ClusterCache
from extender.config import parse_config
from extender.server import ExtenderServer
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import encode_snapshot
from tests.bench.large_cluster import ClusterProcess, served_cluster
from tests.builders import a_container, a_node, a_pod, a_snapshot, container_object, pod_object

CALLS = 400
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Shape:
    """A cluster to ask about."""

    title: str
    nodes: int
    gpus: int
    pods: int
    product: str


LARGE = Shape("5,000 nodes x 8 GPUs, 40,000 pods", 5000, 8, 40_000, "NVIDIA-H100-80GB-HBM3")
MIDDLE = Shape("1,000 nodes x 8 GPUs, 8,000 pods", 1000, 8, 8_000, "NVIDIA-H100-80GB-HBM3")
WIDE = Shape("100 nodes x 16 GPUs, 5,000 pods", 100, 16, 5_000, "NVIDIA-A100-SXM4-40GB")


def node_name(number: int) -> str:
    return f"gpu-node-{number:05}.example.internal"


def a_cluster(shape: Shape, seed: int = 1) -> ClusterSnapshot:
    """Nodes that are 70 % used on average by pods of 1, 2 and 4 GPUs; the other pods use no GPU."""
    dice = random.Random(seed)
    nodes = [a_node(node_name(i), gpus=shape.gpus, product=shape.product) for i in range(shape.nodes)]
    pods: list[Pod] = []
    for node in nodes:
        left = round(shape.gpus * min(1.0, dice.triangular(0.0, 1.3, 0.8)))
        while left:
            gpus = dice.choice([size for size in (1, 1, 2, 4) if size <= left])
            pods.append(a_pod(f"vllm-{len(pods)}", gpus=gpus, tp=gpus if gpus > 1 else None, node=node.name))
            left -= gpus
    no_gpu = a_pod("web", containers=[a_container("web")]).spec
    while len(pods) < shape.pods:
        web = a_pod(f"web-{len(pods)}", gpus=0, node=dice.choice(nodes).name)
        pods.append(msgspec.structs.replace(web, spec=no_gpu))
    return a_snapshot(*nodes, *pods[: shape.pods])


def a_request(nodes: int, gpus: int, topology: str = "", seed: int = 2) -> bytes:
    """The body of filter as kube-scheduler sends it: a pod of some kB, names in no order."""
    names = [node_name(i) for i in range(nodes)]
    random.Random(seed).shuffle(names)
    env = [{"name": f"SETTING_{i}", "value": f"value-{i}-of-some-length"} for i in range(40)]
    vllm = container_object(gpus=gpus, args=["serve", "some/model", "--tensor-parallel-size", str(gpus)], env=env)
    annotations = {"islander.dev/topology": topology} if topology else {}
    pod = pod_object("asking", containers=[vllm], annotations=annotations)
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()


class Caller:
    """A connection that is kept, and costs the caller as little as possible."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection((HOST, port))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 20)

    def __call__(self, verb: str, body: bytes) -> tuple[float, bytes]:
        """Return the milliseconds of a POST until the last byte of its answer, and the answer."""
        head = (
            f"POST /{verb} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        message = head.encode() + body
        view = memoryview(self._buffer)
        started = time.perf_counter()
        self._sock.sendall(message)
        have, end = 0, -1
        while end < 0 or have < end:
            got = self._sock.recv_into(view[have:])
            assert got, "the server has closed the connection"
            have += got
            if end < 0 and (split := self._buffer.find(b"\r\n\r\n", 0, have)) >= 0:
                start = split + 4
                lines = bytes(view[:split]).decode().lower().split("\r\n")
                assert lines[0].split()[1] == "200", bytes(view[:have])
                (length,) = [line.partition(": ")[2] for line in lines if line.startswith("content-length: ")]
                end = start + int(length)
        return (time.perf_counter() - started) * 1000, bytes(view[start:end])


@contextmanager
def a_process(*command: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as stderr, subprocess.Popen([sys.executable, "-m", *command], stderr=stderr) as process:
        try:
            yield process
        finally:
            process.terminate()


def wait_for(port: int, path: str, timeout_s: float = 120.0) -> None:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            with socket.create_connection((HOST, port), timeout=5) as sock:
                sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                if b" 200 " in sock.recv(64):
                    return
        except OSError:
            pass
        time.sleep(0.02)
    raise AssertionError(f"{path} is not served on port {port}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def resident_mb(process: subprocess.Popen[bytes]) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def cpu_ms(process: subprocess.Popen[bytes]) -> float:
    """CPU time of all threads so far; unlike the time on the clock it does not count what other programs do."""
    stats = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(stat.read_text().split()[0]) for stat in stats) / 1e6


def at(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def calls_table(shape: Shape, calls: int = CALLS) -> list[str]:
    """Return the rows of one cluster: each verb beside the echo."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "snapshot.json").write_bytes(encode_snapshot(a_cluster(shape)))
        port, echo_port = free_port(), free_port()
        serve = ("extender", "--snapshot-file", str(folder / "snapshot.json"), "--port", str(port))
        with (
            a_process(*serve, log=folder / "log") as ours,
            a_process("tests.bench.bench_extender", "echo", str(echo_port), log=folder / "echo.log") as echo,
        ):
            wait_for(port, "/readyz")
            wait_for(echo_port, "/healthz")
            return measured_rows(shape, (ours, Caller(port)), (echo, Caller(echo_port)), calls)


Served = tuple[subprocess.Popen[bytes], Caller]


def cpu_per_call_ms(served: Served, verb: str, body: bytes, calls: int) -> float:
    process, ask = served
    before = cpu_ms(process)
    for _ in range(calls):
        ask(verb, body)
    return (cpu_ms(process) - before) / calls


def measured_rows(shape: Shape, ours: Served, echo: Served, calls: int) -> list[str]:
    ask, ask_echo = ours[1], echo[1]
    questions = [("filter", 1, ""), ("filter", 4, "required"), ("prioritize", 1, ""), ("prioritize", 4, "")]
    times: dict[int, list[float]] = {i: [] for i in range(-1, len(questions))}
    bodies = [a_request(shape.nodes, gpus, topology) for _, gpus, topology in questions]
    firsts = [ask(verb, body)[0] for (verb, _, _), body in zip(questions, bodies, strict=True)]
    for call in range(calls + 20):
        rows = {-1: ask_echo("echo", bodies[0])[0]}
        for i, (verb, _, _) in enumerate(questions):
            rows[i], answer = ask(verb, bodies[i])
            assert len(answer) > shape.nodes * 10
        if call >= 20:
            for i, taken in rows.items():
                times[i].append(taken)
    base = times.pop(-1)
    base_cpu = cpu_per_call_ms(echo, "echo", bodies[0], calls)
    lines = [row(shape, "echo", base, 1.0, base_cpu, 1.0, "")]
    for i, (verb, gpus, topology) in enumerate(questions):
        ratio = statistics.median(taken / least for taken, least in zip(times[i], base, strict=True))
        cpu = cpu_per_call_ms(ours, verb, bodies[i], calls)
        question = f"{verb}, {gpus} GPU{'s' if gpus > 1 else ''}{', ' + topology if topology else ''}"
        lines.append(row(shape, question, times[i], ratio, cpu, cpu / base_cpu, f"{firsts[i]:.1f}"))
    return lines


def row(
    shape: Shape, question: str, times: Sequence[float], ratio: float, cpu: float, cpu_ratio: float, first: str
) -> str:
    p50, p99 = at(times, 0.5), at(times, 0.99)
    return (
        f"| {shape.title} | {question} | {p50:.2f} | {p99:.2f} | {ratio:.2f} | {cpu:.2f} | {cpu_ratio:.2f} | {first} |"
    )


def event_costs_ms(shape: Shape, events: int = 2000) -> dict[str, list[float]]:
    """Return the CPU milliseconds of events in the cache, with the tables of some needs in use."""
    snapshot = a_cluster(shape)
    cache = ClusterCache(("nvidia.com/gpu", "amd.com/gpu"))
    cache.load(snapshot)
    dice = random.Random(3)
    gpu_pods = [pod for pod in snapshot.pods if pod.spec.requests.extended]
    costs: dict[str, list[float]] = {"pod bound": [], "pod gone": [], "node changed": []}

    def timed(name: str, kind: str, key: str, old: Node | Pod | None, new: Node | Pod | None) -> None:
        started = time.thread_time()
        cache.on_change(kind, key, old, new)
        costs[name].append((time.thread_time() - started) * 1000)

    for i in range(events):
        pod, node = dice.choice(gpu_pods), dice.choice(snapshot.nodes)
        timed("pod gone", "Pod", pod.key, pod, None)
        timed("pod bound", "Pod", pod.key, None, pod)
        timed("node changed", "Node", node.name, node, msgspec.structs.replace(node, unschedulable=i % 2 == 0))
    return costs


def live_table(nodes: int = 5000, pods: int = 40_000, calls: int = CALLS) -> list[str]:
    """Return what the whole program needs for a large cluster behind an API: start, memory, calls under events."""
    with tempfile.TemporaryDirectory() as name, served_cluster(nodes, pods) as cluster:
        folder = Path(name)
        (folder / "kubeconfig").write_text(json.dumps(kubeconfig(cluster.url)))
        port = free_port()
        started = time.perf_counter()
        flags = ("extender", "--kubeconfig", str(folder / "kubeconfig"), "--port", str(port))
        with a_process(*flags, log=folder / "log") as process:
            wait_for(port, "/readyz")
            lines = [f"| start to ready, the API's time included | {time.perf_counter() - started:.1f} s |"]
            lines.append(f"| RSS when ready | {resident_mb(process):.0f} MB |")
            ask = Caller(port)
            body = a_request(nodes, 4)
            ask("filter", body)
            quiet = [ask("filter", body)[0] for _ in range(calls)]
            busy = under_events(cluster, ask, body, calls)
            lines.append(f"| filter, nothing happens | p50 {at(quiet, 0.5):.2f} ms, p99 {at(quiet, 0.99):.2f} ms |")
            lines.append(f"| filter, events of pods arrive | p50 {at(busy, 0.5):.2f} ms, p99 {at(busy, 0.99):.2f} ms |")
            lines.append(f"| RSS at the end | {resident_mb(process):.0f} MB |")
            return lines


def under_events(cluster: ClusterProcess, ask: Caller, body: bytes, calls: int) -> list[float]:
    stop = threading.Event()

    def change_pods() -> None:
        while not stop.is_set():
            cluster.events(20)
            stop.wait(0.1)

    thread = threading.Thread(target=change_pods)
    thread.start()
    try:
        return [ask("filter", body)[0] for _ in range(calls)]
    finally:
        stop.set()
        thread.join()


def kubeconfig(url: str) -> dict[str, Any]:
    return {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        "users": [],
    }


def echo_app() -> Flask:
    """An extender that does nothing: it parses the request and answers with its names."""
    app = Flask("echo", static_folder=None)

    @app.post("/echo")
    def echo() -> Response:
        args = wire.parse_extender_args(request.get_data(cache=False))
        assert not isinstance(args, wire.BadRequest)
        return Response(wire.filter_answer(args, wire.Filtered()), mimetype="application/json")

    @app.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n")

    return app


def serve_echo(port: int) -> None:
    config = parse_config("", "default", {("listen", "port"): port})
    server = ExtenderServer(echo_app(), config.listen)
    server.prepare()
    server.serve()


@pytest.mark.bench
def test_calls_over_http() -> None:
    show(["| cluster | call | p50 ms | p99 ms | to echo | CPU ms | to echo | first ms |", "|---" * 8 + "|"])
    for shape in (LARGE, MIDDLE, WIDE):
        show(calls_table(shape))


@pytest.mark.bench
def test_events_in_the_cache() -> None:
    show(["| event in the cache, CPU | p50 ms | p99 ms |", "|---|---|---|"])
    for name, costs in event_costs_ms(LARGE).items():
        show([f"| {name} | {at(costs, 0.5):.3f} | {at(costs, 0.99):.3f} |"])


@pytest.mark.bench
def test_the_program_with_a_large_cluster() -> None:
    show(["| 5,000 nodes, 40,000 pods behind an API | |", "|---|---|", *live_table()])


def show(lines: Sequence[str]) -> None:
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["echo"]:
        serve_echo(int(sys.argv[2]))
    else:
        test_calls_over_http()
        test_events_in_the_cache()
        test_the_program_with_a_large_cluster()
