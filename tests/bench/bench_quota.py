"""How long `plan quota` takes, as a whole command on a snapshot file, and how much of that the search takes.

`python -m tests.bench.bench_quota` prints the table.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from islander.cluster.snapshot_json import encode_snapshot
from tests.bench.quota_clusters import large_tree

# Seconds of a core that the whole command may take, reading the snapshot and judging the plan included.
TARGET_SECONDS = 10.0


@dataclass(frozen=True)
class Size:
    """A cluster of six flavors, and how many nodes of each may be lost."""

    nodes: int
    queues: int
    survive: int = 0

    def __str__(self) -> str:
        spare = f", {self.survive} may be lost" if self.survive else ""
        return f"{self.nodes:,} nodes, {self.queues} queues, 6 flavors{spare}"


SIZES = (Size(100, 10), Size(1000, 40), Size(5000, 40), Size(5000, 40, survive=2))


@dataclass(frozen=True)
class Measured:
    plan: dict[str, Any]
    seconds: float
    cpu_seconds: float

    @property
    def search_seconds(self) -> float:
        return sum(phase["seconds"] for phase in self.plan["solver"]["phases"])


def measure(size: Size) -> Measured:
    """Run the command in a process of its own."""
    snapshot, policy = large_tree(size.nodes, size.queues)
    with tempfile.TemporaryDirectory() as folder:
        cluster, teams = Path(folder) / "cluster.json", Path(folder) / "policy.json"
        cluster.write_bytes(encode_snapshot(snapshot))
        teams.write_text(json.dumps(policy))
        words = ["plan", "quota", "--snapshot", str(cluster), "--policy", str(teams), "-o", "json"]
        words += ["--survive-nodes", str(size.survive)]
        began, used = time.monotonic(), _cpu_of_children()
        done = subprocess.run([sys.executable, "-m", "planner", *words], capture_output=True, check=True)
        return Measured(json.loads(done.stdout), time.monotonic() - began, _cpu_of_children() - used)


def _cpu_of_children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def line(size: Size, found: Measured) -> str:
    plan, solver = found.plan, found.plan["solver"]
    changed = sum(row["nominal"]["old"] != row["nominal"]["new"] for row in plan["queues"])
    guaranteed = sum(pods["pods"] * pods["gpus"] for row in plan["queues"] for pods in row["witness"])
    return (
        f"| {size} | {plan['totals']['arithmetic']:,} | {guaranteed:,} | {changed} | {solver['status']} "
        f"| {found.search_seconds:.1f} | {found.cpu_seconds:.1f} | {found.seconds:.1f} |"
    )


def show(sizes: tuple[Size, ...]) -> list[Measured]:
    print("\n| cluster | GPUs | guaranteed | quotas changed | status | search s | command CPU s | command s |")
    print("|---|---:|---:|---:|---|---:|---:|---:|")
    found = []
    for size in sizes:
        found.append(measure(size))
        print(line(size, found[-1]), flush=True)
    return found


@pytest.mark.bench
def test_quotas_of_large_clusters_are_proved_in_time() -> None:
    for found in show(SIZES):
        assert found.plan["solver"]["status"] == "optimal"
        # What other work takes of the cores says nothing about the planner.
        assert found.cpu_seconds <= TARGET_SECONDS


if __name__ == "__main__":
    show(SIZES)
