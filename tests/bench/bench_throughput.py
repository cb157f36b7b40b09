"""Pods per second of a real kube-scheduler over 1,000 nodes: alone, with an extender that does nothing, with Islander.

Rounds alternate, so that whatever else the machine does meets all three; what counts is the ratio inside a round.
`python -m tests.bench.bench_throughput ROUNDS PODS` plays other numbers than the usual.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from flask import Flask, Response, request

from extender.config import parse_config
from extender.server import ExtenderServer
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import is_ready
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.fetch import fetch
from tests.kwok.controlplane.objects import gpu_node, namespace
from tests.kwok.controlplane.ports import free_ports
from tests.kwok.controlplane.processes import start_process
from tests.kwok.controlplane.scheduler import Config, extender_entry
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.replay import PodFates, serving_pod

NODES, PODS, ROUNDS = 1000, 400, 5
GOAL = 0.85  # of the extender that does nothing
SPACE = "throughput"
ALONE, NOTHING, ISLANDER = "no extender", "extender that does nothing", "Islander"


def nothing_app() -> Flask:
    """An extender that keeps every node and prefers none."""
    app = Flask("nothing", static_folder=None)
    request_of, names_of = msgspec.json.Decoder(dict[str, msgspec.Raw]), msgspec.json.Decoder(list[str])
    encoder = msgspec.json.Encoder()

    def names() -> list[str]:
        return names_of.decode(request_of.decode(request.get_data(cache=False))["NodeNames"])

    @app.post("/filter")
    def keep() -> Response:
        return Response(encoder.encode({"NodeNames": names()}), mimetype="application/json")

    @app.post("/prioritize")
    def prefer() -> Response:
        scores = [{"Host": name, "Score": 0} for name in names()]
        return Response(encoder.encode(scores), mimetype="application/json")

    @app.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n")

    return app


@contextmanager
def extender_for(what: str, plane: ControlPlane, folder: Path) -> Iterator[Config]:
    """Run an extender, and give the scheduler's configuration with it."""
    if what == ISLANDER:
        with ExtenderProcess(folder, plane.kubeconfig) as extender:
            yield {"extenders": [extender_entry(extender.url)]}
    elif what == NOTHING:
        port = free_ports(1)[0]
        url = f"http://127.0.0.1:{port}"
        process = start_process(
            "nothing",
            lambda _: [sys.executable, "-m", "tests.bench.bench_throughput", "serve", str(port)],
            log=folder / "nothing.log",
            ready=lambda _: bool(fetch(f"{url}/healthz")),
            fixed_ports=(port,),
            env={"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        try:
            yield {"extenders": [extender_entry(url)]}
        finally:
            process.stop()
    else:
        yield {}


def pods_per_second(plane: ControlPlane, config: Config, pods: int) -> float:
    """Let a fresh scheduler find a full queue, and return its rate between the first and the last bind that is seen."""
    api = plane.api
    plane.stop_scheduler()
    sizes = (1, 1, 2, 4)
    queue = [f"pod-{number}" for number in range(pods)]
    try:
        api.create_all(
            serving_pod(name, sizes[number % 4], namespace=SPACE, args=[f"--tensor-parallel-size={sizes[number % 4]}"])
            for number, name in enumerate(queue)
        )
        with PodFates(api, SPACE) as fates:
            plane.start_scheduler(config)
            for name in queue:
                if not fates.node_of(name):
                    raise AssertionError(f"{name} found no node")
            return (pods - 1) / fates.seconds
    finally:
        plane.stop_scheduler()
        api.delete(paths.pods(SPACE), grace_seconds=0)
        wait_until(lambda: not api.items(paths.pods(SPACE)), timeout_seconds=60)


def measure(rounds: int = ROUNDS, pods: int = PODS) -> dict[str, list[float]]:
    """Return the rate of each round, by what the scheduler works with."""
    rates: dict[str, list[float]] = {ALONE: [], NOTHING: [], ISLANDER: []}
    with tempfile.TemporaryDirectory() as name, ControlPlane(scheduler=None) as plane:
        api = plane.api
        api.create(namespace(SPACE))
        api.create_all(gpu_node(f"gpu-node-{number:04}.example.internal") for number in range(NODES))
        wait_until(lambda: all(is_ready(node) for node in api.items(paths.NODES)), timeout_seconds=120)
        for _ in range(rounds):
            for what, measured in rates.items():
                with extender_for(what, plane, Path(name)) as config:
                    measured.append(pods_per_second(plane, config, pods))
    return rates


def show(rates: dict[str, list[float]]) -> None:
    print(f"\n{NODES} nodes, {len(rates[ALONE])} rounds")
    print("| kube-scheduler with | pods/s, median | each round | to the one that does nothing, median of rounds |")
    print("|---|---|---|---|")
    for what, measured in rates.items():
        ratio = statistics.median(ours / base for ours, base in zip(measured, rates[NOTHING], strict=True))
        each = ", ".join(f"{rate:.0f}" for rate in measured)
        print(f"| {what} | {statistics.median(measured):.0f} | {each} | {ratio:.2f} |", flush=True)


@pytest.mark.bench
def test_pods_per_second_of_a_real_scheduler() -> None:
    rates = measure()
    show(rates)
    ratio = statistics.median(ours / base for ours, base in zip(rates[ISLANDER], rates[NOTHING], strict=True))
    assert ratio >= GOAL


def serve(port: int) -> None:
    server = ExtenderServer(nothing_app(), parse_config("", "default", {("listen", "port"): port}).listen)
    server.prepare()
    server.serve()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]))
    else:
        begun = time.monotonic()
        show(measure(*(int(number) for number in sys.argv[1:3])))
        print(f"{time.monotonic() - begun:.0f} s")
