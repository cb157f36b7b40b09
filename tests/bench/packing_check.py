"""What an answer to a packing is worth, found without any of the code that makes answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from enum import Enum

from planner.packing import Packing


class Outcome(Enum):
    """What came of an instance, in the words of the published tables; "default" is what the scheduler left."""

    FAILURE = "Failures"
    NO_CALL = "No Calls"
    DEFAULT_OPTIMAL = "Default Optimal"
    BETTER = "Better"
    BETTER_AND_OPTIMAL = "Better&Optimal"


def faults(packing: Packing, places: Mapping[str, str]) -> list[str]:
    """Return what is wrong with places: unknown pods and nodes, and nodes that hold more than they have."""
    pods = {pod.key: pod for pod in packing.pods}
    nodes = {node.name: node for node in packing.nodes}
    found = [f"{key} on {node}: unknown" for key, node in places.items() if key not in pods or node not in nodes]
    used: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for key, name in places.items():
        if key in pods:
            used[name][0] += pods[key].cpu_milli
            used[name][1] += pods[key].memory_bytes
    return found + [
        f"{name} is overfull"
        for name, node in nodes.items()
        if used[name][0] > node.cpu_milli or used[name][1] > node.memory_bytes
    ]


def worth(packing: Packing, places: Mapping[str, str]) -> tuple[int, ...]:
    """Return the goals in their order: for each priority from the highest, pods of it and above placed, then kept."""
    values: list[int] = []
    for priority in sorted({pod.priority for pod in packing.pods}, reverse=True):
        counted = [pod.key for pod in packing.pods if pod.priority >= priority]
        values.append(sum(key in places for key in counted))
        values.append(sum(key in places and places[key] == packing.places.get(key) for key in counted))
    return tuple(values)


def placed(packing: Packing, places: Mapping[str, str]) -> tuple[int, ...]:
    """Return how many pods run of each priority, the highest first."""
    priorities = sorted({pod.priority for pod in packing.pods}, reverse=True)
    return tuple(sum(pod.priority == p and pod.key in places for pod in packing.pods) for p in priorities)


def outcome(packing: Packing, places: Mapping[str, str], *, proved: bool) -> Outcome:
    """Return the class of an answer: better is who runs more pods of the highest priority in which they differ."""
    if len(packing.places) == len(packing.pods):
        return Outcome.NO_CALL
    before, after = placed(packing, packing.places), placed(packing, places)
    if after > before:
        return Outcome.BETTER_AND_OPTIMAL if proved else Outcome.BETTER
    return Outcome.DEFAULT_OPTIMAL if proved and after == before else Outcome.FAILURE
