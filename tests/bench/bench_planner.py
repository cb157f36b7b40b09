"""How long `plan moves` takes, as a whole command on a snapshot file, and how much of that the solver takes.

`python -m tests.bench.bench_planner` prints the table.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import encode_snapshot
from tests.bench.planned_clusters import bridged, fleet, irregular, story


@dataclass(frozen=True)
class Target:
    """A cluster, and the seconds that the solver and the whole command may take on two cores."""

    name: str
    make: Callable[[], ClusterSnapshot]
    solver_seconds: float
    command_seconds: float


TARGETS = (
    Target("8 nodes, the story", story, 1, 1),
    Target("500 nodes, 25 wait for 8", lambda: fleet(500, 25), 3, 3),
    Target("5,000 nodes, 250 wait for 8", lambda: fleet(5000, 250), 5, 30),
    Target("300 nodes, no two alike, 40 wait", lambda: irregular(300, 40), 30, 45),
    Target("300 nodes, no two alike, 90 wait", lambda: irregular(300, 90), 30, 45),
    Target("60 nodes of bridged pairs, 60 wait for a pair", lambda: bridged(60, 60), 5, 10),
    Target("500 nodes of bridged pairs, 400 wait for a pair", lambda: bridged(500, 400), 30, 45),
)


@dataclass(frozen=True)
class Measured:
    plan: dict[str, Any]
    seconds: float

    @property
    def gap(self) -> float:
        """The widest gap of what is admitted and what moves, as a share; ties between such plans are left out."""
        phases = [p for p in self.plan["solver"]["phases"] if p["name"].startswith(("GPUs admitted", "replicas moved"))]
        return max(abs(p["bound"] - p["value"]) / max(1.0, abs(p["value"]), abs(p["bound"])) for p in phases)


def measure(target: Target) -> Measured:
    """Run the command of the target in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        file.write_bytes(encode_snapshot(target.make()))
        words = ["plan", "moves", "--snapshot", str(file), "-o", "json", "--time-limit", "30s", "--workers", "2"]
        began = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "planner", *words], capture_output=True, check=True)
        return Measured(json.loads(done.stdout), time.monotonic() - began)


def line(target: Target, found: Measured) -> str:
    solver, plan = found.plan["solver"], found.plan
    pods = f"{len(plan['admits'])} of {len(plan['admits']) + len(plan['unadmitted'])}"
    return (
        f"| {target.name} | {pods} | {len(plan['steps'])} | {solver['status']} | {found.gap:.1%} "
        f"| {solver['seconds']:.1f} | {found.seconds:.1f} | {target.solver_seconds:g} / {target.command_seconds:g} |"
    )


def show(targets: tuple[Target, ...]) -> list[Measured]:
    print("\n| cluster | admitted | moves | status | widest gap | solver s | command s | target s |")
    print("|---|---|---|---|---|---|---|---|")
    found = []
    for target in targets:
        found.append(measure(target))
        print(line(target, found[-1]), flush=True)
    return found


@pytest.mark.bench
def test_plans_of_large_clusters_are_proved_in_time() -> None:
    for target, found in zip(TARGETS, show(TARGETS), strict=True):
        assert found.gap <= 0.05
        assert found.seconds <= target.command_seconds


if __name__ == "__main__":
    show(TARGETS)
