"""How long the largest dump takes to load, and its memory: plain, packed, from a pipe, and as an Islander snapshot.

`python -m tests.bench.bench_load` prints the table; `python -m tests.bench.bench_load FILE` loads one file, as each row
does in a process of its own.
"""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from planner.load import load_files
from tests.bench.large_cluster import node, pod

NODES, PODS = 5_000, 40_000
MOST_SECONDS, MOST_MB = 20, 2_000


@dataclass(frozen=True)
class Loaded:
    nodes: int
    pods: int
    seconds: float
    peak_mb: float


def write_dump(file: BinaryIO, nodes: int, pods: int) -> None:
    """Write what `kubectl get nodes,pods -A -o json --show-managed-fields` prints: one list, four spaces deep."""
    file.write(b'{\n    "apiVersion": "v1",\n    "items": [\n')
    for number, item in enumerate(_items(nodes, pods)):
        text = json.dumps({"apiVersion": "v1", **item}, indent=4).replace("\n", "\n        ")
        file.write(f"{',' if number else ''}\n        {text}".encode())
    file.write(b'\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')


def _items(nodes: int, pods: int) -> Iterator[dict[str, Any]]:
    yield from (node(number) for number in range(nodes))
    yield from (pod(number, nodes) for number in range(pods))


def load(path: str) -> Loaded:
    """Load a file in this process; the peak is that of the process so far."""
    began = time.monotonic()
    snapshot = load_files([path])
    seconds = time.monotonic() - began
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Loaded(len(snapshot.nodes), len(snapshot.pods), seconds, peak_kb / 1000)


def measure(path: Path, *, from_pipe: bool = False) -> Loaded:
    """Load a file in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.bench_load", "-" if from_pipe else str(path)]
    if from_pipe:
        with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as source:
            done = subprocess.run(command, stdin=source.stdout, capture_output=True, check=True)
    else:
        done = subprocess.run(command, capture_output=True, check=True)
    return Loaded(**json.loads(done.stdout))


def show() -> list[Loaded]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        plain, packed, snapshot = (Path(folder) / name for name in ("dump.json", "dump.json.gz", "snapshot.json"))
        with plain.open("wb") as file:
            write_dump(file, NODES, PODS)
        with plain.open("rb") as file, gzip.open(packed, "wb", compresslevel=1) as target:
            while chunk := file.read(1 << 20):
                target.write(chunk)
        verb = ["snapshot", "--snapshot", str(plain), "--output-file", str(snapshot), "-q"]
        subprocess.run([sys.executable, "-m", "planner", *verb], check=True)
        print("\n| file | MB | load s | peak RSS MB |")
        print("|---|---|---|---|")
        for name, path, from_pipe in (
            ("dump", plain, False),
            ("dump from a pipe", plain, True),
            ("dump, .gz", packed, False),
            ("Islander snapshot", snapshot, False),
        ):
            loaded = measure(path, from_pipe=from_pipe)
            assert (loaded.nodes, loaded.pods) == (NODES, PODS)
            found.append(loaded)
            megabytes = path.stat().st_size / 1e6
            print(f"| {name} | {megabytes:.0f} | {loaded.seconds:.1f} | {loaded.peak_mb:.0f} |", flush=True)
    return found


@pytest.mark.bench
def test_the_largest_dump_is_loaded_in_time_and_within_its_memory() -> None:
    for loaded in show():
        assert loaded.seconds <= MOST_SECONDS
        assert loaded.peak_mb <= MOST_MB


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(vars(load(sys.argv[1]))))
    else:
        show()
