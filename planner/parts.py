"""What hangs together, and what comes after what: two small questions about graphs.

networkx answers them as well, but loading it takes longer than a plan of a small cluster.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def connected_parts(bundles: Iterable[Iterable[T]]) -> list[set[T]]:
    """Return the things of all bundles in parts; bundles that share a thing are in one part.

    The parts come in the order of their first things.
    """
    parent: dict[T, T] = {}

    def root(thing: T) -> T:
        while parent[thing] != thing:
            parent[thing] = parent[parent[thing]]
            thing = parent[thing]
        return thing

    for bundle in bundles:
        things = list(bundle)
        for thing in things:
            parent.setdefault(thing, thing)
        for thing in things[1:]:
            parent[root(thing)] = root(things[0])
    parts: dict[T, set[T]] = {}
    for thing in parent:
        parts.setdefault(root(thing), set()).add(thing)
    return list(parts.values())


def one_after_the_other(numbers: Iterable[int], steps: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Yield numbers so that no step (from, to) leads back; of those whose turn it could be, the smallest first.

    Raises
    ------
    graphlib.CycleError
        The steps lead round in a circle.
    """
    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(numbers, ()))
    for before, after in steps:
        sorter.add(after, before)
    sorter.prepare()
    ready: list[int] = []
    while sorter.is_active():
        for number in sorter.get_ready():
            heappush(ready, number)
        smallest = heappop(ready)
        yield smallest
        sorter.done(smallest)
