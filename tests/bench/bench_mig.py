"""How long `plan mig` takes for a thousand GPUs, as a whole command on a snapshot file, and how much the solver takes.

`python -m tests.bench.bench_mig` prints the table.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import encode_snapshot
from islander.cluster.workload import Workload
from islander.hardware.mig import Placement, geometry_for
from tests.builders import H100, a_pod, a_snapshot
from tests.mig_builders import A100, a_mig_node, a_mig_pod, owner_of

GPUS = 8


@dataclass(frozen=True)
class Target:
    """A cluster with the flags of a plan for it, and the CPU seconds that the whole command may take."""

    name: str
    make: Callable[[], ClusterSnapshot]
    flags: tuple[str, ...]
    seconds: float


def fleet(nodes: int, seed: int = 1, *, products: tuple[str, ...] = (H100, A100)) -> ClusterSnapshot:
    """Nodes of eight: whole GPUs in use by one and by several, cut ones half in use, idle ones; pods that wait."""
    random = Random(seed)
    found: list[Node] = []
    pods: list[Pod] = []
    owners: list[Workload] = []
    for number in range(nodes):
        node, here, theirs = _node(random, f"n{number:04}", random.choice(products))
        found.append(node)
        pods += here
        owners += theirs
    for number in range(nodes // 5):
        profile = random.choice(["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"])
        pods.append(a_mig_pod(f"slice-{number}", profile, priority=random.choice([0, 10])))
    pods += [a_pod(f"tp-{number}", gpus=size, tp=size) for number, size in enumerate([8, 8, 4, 4, 2, 2])]
    return a_snapshot(*found, *pods, *owners)


def _node(random: Random, name: str, product: str) -> tuple[Node, list[Pod], list[Workload]]:
    used: dict[int, str] = {}
    cut: dict[int, list[tuple[str, int, str]]] = {}
    pods: list[Pod] = []
    owners: list[Workload] = []
    index = 0
    while index < GPUS:
        kind = random.choice(["idle", "idle", "one", "several", "cut"])
        if kind == "cut":
            cut[index], own = _cut(random, f"{name}-{index}", name, product)
            pods += own
            owners += [owner_of(pod) for pod in own]
        elif kind != "idle":
            size = 1 if kind == "one" else min(random.choice([2, 4]), GPUS - index)
            pod = a_pod(f"{name}-{index}", gpus=size, tp=size if size > 1 else None, node=name)
            pods.append(pod)
            used |= dict.fromkeys(range(index, index + size), pod.key)
            index += size - 1
        index += 1
    return a_mig_node(name, gpus=GPUS, cut=cut, used=used, product=product), pods, owners


def _cut(random: Random, prefix: str, node: str, product: str) -> tuple[list[tuple[str, int, str]], list[Pod]]:
    geometry = geometry_for(product)
    assert geometry is not None
    layout: list[tuple[str, int, str]] = []
    pods = []
    for profile in random.sample(["1g.10gb", "2g.20gb", "3g.40gb", "1g.20gb"], 2):
        for start in geometry.fits([Placement(p, s) for p, s, _ in layout], profile):
            if geometry.is_legal([*(Placement(p, s) for p, s, _ in layout), Placement(profile, start)]):
                busy = random.random() < 0.3
                pod = a_mig_pod(f"{prefix}-{len(layout)}", profile, node=node, movable=True)
                layout.append((profile, start, pod.key if busy else ""))
                pods += [pod] if busy else []
    return sorted(layout, key=lambda one: one[1]), pods


TARGETS = (
    Target("125 nodes, 1,000 GPUs, what pods ask for", lambda: fleet(125), (), 5),
    Target(
        "125 nodes, 1,000 GPUs, 1,500 wanted",
        lambda: fleet(125),
        ("--profile", "1g.10gb=1200", "--profile", "3g.40gb=200", "--profile", "2g.20gb=100"),
        5,
    ),
    Target(
        "125 nodes, 1,000 GPUs, 1,500 wanted, drains",
        lambda: fleet(125),
        ("--profile", "1g.10gb=1200", "--profile", "3g.40gb=200", "--profile", "2g.20gb=100", "--allow-drain"),
        15,
    ),
    Target(
        "1,250 nodes, 10,000 GPUs, 10,000 wanted",
        lambda: fleet(1250),
        ("--profile", "1g.10gb=8000", "--profile", "3g.40gb=2000"),
        60,
    ),
)


@dataclass(frozen=True)
class Measured:
    plan: dict[str, Any]
    seconds: float
    cpu_seconds: float


def measure(target: Target) -> Measured:
    """Run the command of the target in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        file.write_bytes(encode_snapshot(target.make()))
        words = ["plan", "mig", "--snapshot", str(file), "-o", "json", "--time-limit", "30s", *target.flags]
        began, spent = time.monotonic(), _cpu_seconds()
        done = subprocess.run([sys.executable, "-m", "planner", *words], capture_output=True, check=True)
        return Measured(json.loads(done.stdout), time.monotonic() - began, _cpu_seconds() - spent)


def _cpu_seconds() -> float:
    """CPU of the programs that were started and have ended: what a machine without other work would take."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def line(target: Target, found: Measured) -> str:
    plan = found.plan
    wanted, met = (sum(d[key] for d in plan["demand"]) for key in ("count", "met"))
    return (
        f"| {target.name} | {met} of {wanted} | {plan['cost']['gpusChanged']} | {plan['solver']['status']} "
        f"| {found.cpu_seconds:.1f} | {found.seconds:.1f} | {target.seconds:g} |"
    )


def show(targets: tuple[Target, ...]) -> list[Measured]:
    print("\n| cluster | instances | GPUs cut | status | command CPU s | command s | target s |")
    print("|---|---|---|---|---|---|---|")
    found = []
    for target in targets:
        found.append(measure(target))
        print(line(target, found[-1]), flush=True)
    return found


@pytest.mark.bench
def test_layouts_of_a_thousand_gpus_are_planned_in_time() -> None:
    for target, found in zip(TARGETS, show(TARGETS), strict=True):
        assert found.cpu_seconds <= target.seconds


if __name__ == "__main__":
    show(TARGETS)
