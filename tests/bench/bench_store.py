"""How long the first full list takes, what an event costs, and how much memory the live store needs.

The API server is a process of its own; its time is part of the list's. `python -m tests.bench.bench_store` prints the
table, for another size with `NODES PODS`.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from islander.cluster.pod import Pod
from islander.kube.client import KubeClient, connect
from islander.kube.kinds import NODES, PODS
from islander.kube.reading import read_event, read_list
from islander.kube.state import KindState, apply_event, apply_list
from islander.kube.store import ClusterStore
from islander.kube.watch import WatchSettings
from tests.bench.large_cluster import item, node, pod, served_cluster

EVENTS = 2000


def memory_mb(field: str) -> float:
    """`VmRSS` or `VmHWM` of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return float("nan")


def client_for(url: str) -> KubeClient:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        "current-context": "c",
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        return connect(kubeconfig=file.name)


def event_cost_ms(client: KubeClient, nodes: int, pods: int) -> list[float]:
    """Milliseconds of CPU from the line of an event to the changed state, one by one, sorted."""
    state = KindState()
    listing = read_list(client, PODS, state)
    if listing is None:
        raise AssertionError("the list was stopped")
    apply_list(state, listing.items, listing.resource_version)
    base = int(listing.resource_version)
    costs = []
    for i in range(EVENTS):
        obj: dict[str, Any] = pod(i * 17 % pods, nodes)
        obj["metadata"]["resourceVersion"] = str(base + 1 + i)
        obj["metadata"]["labels"]["round"] = str(i)
        line = json.dumps({"type": "MODIFIED", "object": obj}).encode()
        started = time.thread_time()
        event = read_event(PODS, line, state)
        change = apply_event(state, event) if event is not None else None
        costs.append((time.thread_time() - started) * 1000)
        if change is None:
            raise AssertionError("the event changed nothing")
    return sorted(costs)


def pods_heard(store: ClusterStore) -> float | None:
    """When pods were listed or an event of them arrived last."""
    return next(s.last_event_monotonic for s in store.status() if s.kind == "Pod")


def measure(nodes: int, pods: int) -> dict[str, str]:
    """Run the benchmark and return its table."""
    table = {
        "cluster": f"{nodes} nodes, {pods} pods",
        "bytes per node, pod": f"{len(item(node(7))[1])}, {len(item(pod(7, nodes))[1])}",
        "RSS, started": f"{memory_mb('VmRSS'):.0f} MB",
    }
    with served_cluster(nodes, pods) as server, client_for(server.url) as client:
        store = ClusterStore(
            client,
            kinds=(NODES, PODS),
            settings=WatchSettings(),
            monotonic=time.monotonic,
            jitter=random.Random(1),
        )
        changed = threading.Event()

        def on_change(_kind: str, _key: str, _old: object, new: object) -> None:
            if isinstance(new, Pod) and new.phase == "Failed":
                changed.set()

        store.add_listener(on_change)
        started, cpu = time.perf_counter(), time.process_time()
        store.start()
        if not store.wait_ready(120):
            raise AssertionError(f"not ready: {store.missing()}")
        table["first list to ready"] = f"{time.perf_counter() - started:.2f} s ({time.process_time() - cpu:.2f} s CPU)"
        table["RSS, ready"] = f"{memory_mb('VmRSS'):.0f} MB (peak {memory_mb('VmHWM'):.0f} MB)"

        started = time.perf_counter()
        snapshot = store.snapshot("2026-01-01T00:00:00Z")
        table["snapshot, first"] = f"{(time.perf_counter() - started) * 1000:.0f} ms"
        if (len(snapshot.nodes), len(snapshot.pods)) != (nodes, pods):
            raise AssertionError("the snapshot is not complete")
        started = time.perf_counter()
        store.snapshot("2026-01-01T00:00:00Z")
        table["snapshot, nothing changed"] = f"{(time.perf_counter() - started) * 1000:.1f} ms"

        cpu = time.process_time()
        server.events(EVENTS)
        if not changed.wait(60):
            raise AssertionError("events did not arrive")
        table["event over HTTP"] = f"{(time.process_time() - cpu) * 1000 / EVENTS:.3f} ms CPU each"

        before = pods_heard(store)
        started = time.perf_counter()
        server.expire()
        while pods_heard(store) == before:
            time.sleep(0.01)
        table["list again after 410"] = f"{time.perf_counter() - started:.2f} s"
        table["RSS, listed again"] = f"{memory_mb('VmRSS'):.0f} MB (peak {memory_mb('VmHWM'):.0f} MB)"
        store.stop()

        costs = event_cost_ms(client, nodes, pods)
        median, late = statistics.median(costs), costs[int(len(costs) * 0.99)]
        table["event in the store, CPU"] = f"p50 {median:.3f} ms, p99 {late:.3f} ms, max {costs[-1]:.2f} ms"
    return table


@pytest.mark.bench
def test_the_live_store_of_a_large_cluster() -> None:
    show(measure(5000, 40_000))


def show(table: dict[str, str]) -> None:
    print()
    for name, value in table.items():
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    size = [int(a) for a in sys.argv[1:3]] or [5000, 40_000]
    show(measure(*size))
