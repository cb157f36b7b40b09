"""A packing in counts of equal pods, some of its nodes as a part of their own, and back to names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortools.graph.python.linear_sum_assignment import SimpleLinearSumAssignment

from planner.models.packing import Counts, Part, PodKind
from planner.packing import Packing


def in_counts(packing: Packing) -> tuple[Part, tuple[tuple[str, ...], ...]]:
    """Return the whole packing in counts, and the keys of the pods of each kind."""
    tiers = {priority: tier for tier, priority in enumerate(packing.tiers)}
    keys: defaultdict[PodKind, list[str]] = defaultdict(list)
    for pod in packing.pods:
        keys[PodKind(pod.cpu_milli, pod.memory_bytes, tiers[pod.priority])].append(pod.key)
    nodes = {node.name: n for n, node in enumerate(packing.nodes)}
    running = Counter(
        (k, nodes[packing.places[key]])
        for k, of_kind in enumerate(keys.values())
        for key in of_kind
        if key in packing.places
    )
    part = Part(packing.nodes, tuple(keys), tuple(map(len, keys.values())), dict(running))
    return part, tuple(map(tuple, keys.values()))


def named(packing: Packing, keys: Sequence[Sequence[str]], counts: Counts) -> dict[str, str]:
    """Return which pod runs where; of equal pods, those stay that can."""
    left: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for (k, n), pods in sorted(counts.items()):
        left[k][packing.nodes[n].name] += pods
    places: dict[str, str] = {}
    for k, of_kind in enumerate(keys):
        for key in of_kind:
            node = packing.places.get(key)
            if node is not None and left[k][node]:
                left[k][node] -= 1
                places[key] = node
        moving = (key for key in of_kind if key not in places)
        places.update(zip(moving, left[k].elements(), strict=False))
    return places


def waiting(part: Part, counts: Counts) -> dict[int, int]:
    """Return how many pods of each kind run nowhere."""
    placed: Counter[int] = Counter()
    for (k, _), pods in counts.items():
        placed[k] += pods
    return {k: pods - placed[k] for k, pods in enumerate(part.pods) if pods > placed[k]}


@dataclass(frozen=True, slots=True)
class FewNodes:
    """Some nodes as a part of their own: its kind and node of number i are `kinds[i]` and `nodes[i]` of the whole."""

    part: Part
    kinds: tuple[int, ...]
    nodes: tuple[int, ...]

    @classmethod
    def of(cls, whole: Part, counts: Counts, nodes: Sequence[int], candidates: Mapping[int, int]) -> FewNodes:
        """Return some nodes with the pods on them, and pods that run nowhere: how many of each kind."""
        pods = Counter(candidates)
        for (k, n), here in counts.items():
            if n in nodes:
                pods[k] += here
        kinds = tuple(sorted(pods))
        small = cls(
            Part(
                tuple(whole.nodes[n] for n in nodes),
                tuple(whole.kinds[k] for k in kinds),
                tuple(pods[k] for k in kinds),
                {},
            ),
            kinds,
            tuple(nodes),
        )
        part = Part(small.part.nodes, small.part.kinds, small.part.pods, small.inside(whole.running))
        return cls(part, small.kinds, small.nodes)

    def inside(self, counts: Counts) -> Counts:
        """Return the counts of the whole that concern the part, in its numbers."""
        kinds = {k: number for number, k in enumerate(self.kinds)}
        nodes = {n: number for number, n in enumerate(self.nodes)}
        return {(kinds[k], nodes[n]): pods for (k, n), pods in counts.items() if k in kinds and n in nodes}

    def replaced(self, counts: Counts, found: Counts) -> Counts:
        """Return the counts of the whole with what was found for the part."""
        others = {key: pods for key, pods in counts.items() if key[1] not in self.nodes}
        return others | {(self.kinds[k], self.nodes[n]): pods for (k, n), pods in found.items() if pods}


def exchanged(whole: Part, counts: Counts) -> Counts:
    """Return the counts after equal nodes exchanged all that they hold, so that most of it is what ran there before.

    Pods of higher priority come first.
    """
    alike: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for n, node in enumerate(whole.nodes):
        alike[node.cpu_milli, node.memory_bytes].append(n)
    held: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for (k, n), pods in counts.items():
        held[k].append((n, pods))
    lowest = max((kind.tier for kind in whole.kinds), default=0)
    shared: Counter[tuple[int, int]] = Counter()
    for (k, home), ran in whole.running.items():
        weight = (sum(whole.pods) + 1) ** (lowest - whole.kinds[k].tier)
        for n, pods in held[k]:
            shared[n, home] += weight * min(ran, pods)
    target: dict[int, int] = {}
    for nodes in alike.values():
        matching = SimpleLinearSumAssignment()
        for i, n in enumerate(nodes):
            for j, home in enumerate(nodes):
                matching.add_arc_with_cost(i, j, -shared[n, home])
        matching.solve()
        target.update((n, nodes[matching.right_mate(i)]) for i, n in enumerate(nodes))
    return {(k, target[n]): pods for (k, n), pods in counts.items()}
