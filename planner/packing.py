"""Pods and nodes as amounts of CPU and memory, for the question what fits when every pod may move or stop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from planner.errors import PlannerError


@dataclass(frozen=True, slots=True)
class PackedNode:
    """A node, and what all its pods together may ask for."""

    name: str
    cpu_milli: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class PackedPod:
    """A pod, and what it asks for."""

    key: str
    cpu_milli: int
    memory_bytes: int
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Packing:
    """Nodes, pods, and where the running ones are: node name by pod key; the other pods are pending.

    Raises
    ------
    PlannerError
        Two nodes or two pods have one name, a pod runs on no such node, or a node holds more than it has.
    """

    nodes: tuple[PackedNode, ...]
    pods: tuple[PackedPod, ...]
    places: Mapping[str, str]

    def __post_init__(self) -> None:
        nodes = {node.name: node for node in self.nodes}
        pods = {pod.key: pod for pod in self.pods}
        if len(nodes) < len(self.nodes) or len(pods) < len(self.pods):
            raise PlannerError("two nodes or two pods of a packing have one name")
        cpu_milli: defaultdict[str, int] = defaultdict(int)
        memory_bytes: defaultdict[str, int] = defaultdict(int)
        for key, name in self.places.items():
            if key not in pods or name not in nodes:
                raise PlannerError(f"pod {key} runs on node {name}: one of them is not in the packing")
            cpu_milli[name] += pods[key].cpu_milli
            memory_bytes[name] += pods[key].memory_bytes
        for name, node in nodes.items():
            if cpu_milli[name] > node.cpu_milli or memory_bytes[name] > node.memory_bytes:
                raise PlannerError(f"node {name} holds more than it has")

    @property
    def pending(self) -> tuple[PackedPod, ...]:
        """The pods that run nowhere."""
        return tuple(pod for pod in self.pods if pod.key not in self.places)

    @property
    def tiers(self) -> tuple[int, ...]:
        """The priorities of the pods, the highest first."""
        return tuple(sorted({pod.priority for pod in self.pods}, reverse=True))
