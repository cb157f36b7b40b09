"""Random clusters of CPU and memory pods, filled by an emulation of kube-scheduler, in which some pods find no room.

They are drawn as those of arXiv 2511.08373 (constraint-based pod packing) are described: equal nodes, ReplicaSets of 1
to 4 pods, requests drawn uniformly, and nodes just so large that all pods together ask for a given share of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

import numpy as np

from planner.packing import PackedNode, PackedPod, Packing

NODES = (4, 8, 16, 32)
PODS_PER_NODE = (4, 8)
PRIORITIES = (1, 2, 4)
USAGES = (90, 95, 100, 105)
# Below this share of the nodes all pods may fit; only draws in which the scheduler leaves one pending are taken.
FULL = 100
MOST_REPLICAS = 4
CPU_MILLI = (100, 1000)
MEMORY_BYTES = (100 * 10**6, 1000 * 10**6)


@dataclass(frozen=True, order=True, slots=True)
class Setting:
    """What instances are drawn for; usage is what all pods ask for, in percent of all nodes."""

    usage: int
    nodes: int
    pods_per_node: int
    priorities: int

    @property
    def pods(self) -> int:
        return self.nodes * self.pods_per_node


# At 90 % the scheduler places every pod on 32 nodes of 8; the published shares leave these settings out.
SETTINGS = tuple(
    Setting(usage, nodes, pods, priorities)
    for usage in USAGES
    for pods in PODS_PER_NODE
    for nodes in NODES
    if (usage, nodes, pods) != (90, 32, 8)
    for priorities in PRIORITIES
)


def drawn(setting: Setting, seed: int) -> Packing:
    """Return equal nodes and pods, none of which is placed."""
    random = Random(f"{setting} {seed}")
    pods: list[PackedPod] = []
    for number in count():
        left = setting.pods - len(pods)
        if not left:
            break
        replicas = random.randint(1, min(MOST_REPLICAS, left))
        cpu, memory = random.randint(*CPU_MILLI), random.randint(*MEMORY_BYTES)
        priority = random.randint(1, setting.priorities)
        pods += [PackedPod(f"rs{number:03}-{replica}", cpu, memory, priority) for replica in range(replicas)]
    cpu = _size([pod.cpu_milli for pod in pods], setting)
    memory = _size([pod.memory_bytes for pod in pods], setting)
    return Packing(tuple(PackedNode(f"n{number:02}", cpu, memory) for number in range(setting.nodes)), tuple(pods), {})


def _size(requests: Sequence[int], setting: Setting) -> int:
    total = -(-100 * sum(requests) // setting.usage)
    return max(*requests, -(-total // setting.nodes))


def scheduled(packing: Packing) -> Packing:
    """Return the packing as the default scheduler fills it: pods of high priority first, none is preempted.

    A node scores what NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation give it, each rounded down;
    the first node with the highest score is taken.
    """
    nodes = packing.nodes
    cpu = np.array([node.cpu_milli for node in nodes], dtype=np.int64)
    memory = np.array([node.memory_bytes for node in nodes], dtype=np.int64)
    cpu_used, memory_used = np.zeros_like(cpu), np.zeros_like(memory)
    places: dict[str, str] = {}
    for pod in sorted(packing.pods, key=lambda pod: -pod.priority):
        cpu_then, memory_then = cpu_used + pod.cpu_milli, memory_used + pod.memory_bytes
        fits = (cpu_then <= cpu) & (memory_then <= memory)
        if not fits.any():
            continue
        least = ((cpu - cpu_then) * 100 // cpu + (memory - memory_then) * 100 // memory) // 2
        # The standard deviation of two shares is half their distance.
        balanced = ((1 - np.abs(cpu_then / cpu - memory_then / memory) / 2) * 100).astype(np.int64)
        node = int(np.where(fits, least + balanced, -1).argmax())
        cpu_used[node] += pod.cpu_milli
        memory_used[node] += pod.memory_bytes
        places[pod.key] = nodes[node].name
    return Packing(nodes, packing.pods, places)


def instances(setting: Setting) -> Iterator[Packing]:
    """Yield instances of a setting without end, always the same ones; below full usage, those with a pending pod."""
    for seed in count():
        packing = scheduled(drawn(setting, seed))
        if setting.usage >= FULL or packing.pending:
            yield packing
