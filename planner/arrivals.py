"""Pods that come to nodes in a plan, and who of them is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from islander.cluster.pod import Pod
from islander.policy.fit import Unfit
from islander.policy.need import PodNeed
from planner.world import World

# All orders of so many arrivals on one node are tried; of more, each one is first once.
_MOST_PERMUTED = 4


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that comes to a node; `origin` is where it still holds its GPUs, empty for a pod that waited."""

    step: str
    pod: Pod
    need: PodNeed
    node: str
    origin: str = ""

    @property
    def stays(self) -> bool:
        """True for a pod that restarts where it is."""
        return self.node == self.origin


def after(world: World, arrivals: Iterable[Arrival]) -> World:
    """Return the world in which all arrivals run and none of them holds its former place."""
    for arrival in arrivals:
        if arrival.origin:
            world = world.left(arrival.pod.key, arrival.origin)
        world = world.arrived(arrival.pod, arrival.node)
    return world


def refusal(world: World, arrival: Arrival) -> Unfit | None:
    """Return why a node refuses who comes; None when it does not."""
    return world.refusal(arrival.pod, arrival.need, arrival.node)


def refused(world: World, coming: Sequence[Arrival]) -> Iterator[tuple[Arrival, Unfit]]:
    """Yield the arrivals that are refused in some order of coming, while every former place is still held."""
    by_node: defaultdict[str, list[Arrival]] = defaultdict(list)
    for arrival in coming:
        by_node[arrival.node].append(arrival)
    for here in by_node.values():
        for order in _orders(here):
            placed = world
            for arrival in order:
                if (why := refusal(placed, arrival)) is not None:
                    yield arrival, why
                else:
                    placed = placed.arrived(arrival.pod, arrival.node)
    if len(coming) > 1 and any(_has_rules(arrival.pod) for arrival in coming):
        yield from _refused_by_rules(world, coming)


def _refused_by_rules(world: World, coming: Sequence[Arrival]) -> Iterator[tuple[Arrival, Unfit]]:
    """Yield the arrivals that are refused when all others have come, with their former places held or left."""
    held = world
    for arrival in coming:
        held = held.arrived(arrival.pod, arrival.node)
    for arrival in coming:
        others = held.left(arrival.pod.key, arrival.node)
        left = others
        for other in coming:
            if other is not arrival and other.origin:
                left = left.left(other.pod.key, other.origin)
        for around in (others, left):
            if (why := refusal(around, arrival)) is not None:
                yield arrival, why


def _has_rules(pod: Pod) -> bool:
    return bool(pod.spec.pod_affinity or pod.spec.pod_anti_affinity or pod.spec.spread)


def _orders(arrivals: Sequence[Arrival]) -> Iterator[Sequence[Arrival]]:
    if len(arrivals) <= _MOST_PERMUTED:
        yield from permutations(arrivals)
        return
    for first in range(len(arrivals)):
        yield [*arrivals[first:], *arrivals[:first]]
