"""From counts to names: which node holds which guaranteed pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

from planner.models.quota_case import QuotaCase
from planner.models.quotas import QuotaVars

# (claim or kind, flavor, node) -> pods.
Places = dict[tuple[int, int, str], int]


def named(case: QuotaCase, v: QuotaVars, values: Mapping[int, int]) -> tuple[Places, Places]:
    """Return which pods are on which node: the patterns are laid out over the nodes of a class in their order."""
    free = _places(case, v, values)
    places: defaultdict[tuple[int, int, str], int] = defaultdict(int)
    reserved: defaultdict[tuple[int, int, str], int] = defaultdict(int)
    for c, claim in enumerate(case.claims):
        for f in claim.flavors:
            for node, pods in _taken(free[f, claim.kind], claim.pods * values[v.replicas[c, f].index]):
                places[c, f, node] += pods
    for (s, f), kept in v.kept.items():
        for node, pods in _taken(free[f, s], values[kept.index]):
            reserved[s, f, node] += pods
    return dict(places), dict(reserved)


def _places(
    case: QuotaCase, v: QuotaVars, values: Mapping[int, int]
) -> defaultdict[tuple[int, int], list[list[str | int]]]:
    """Return [node, pods] of every place, by flavor and kind."""
    free: defaultdict[tuple[int, int], list[list[str | int]]] = defaultdict(list)
    for k, node_class in enumerate(case.classes):
        nodes = iter(node_class.nodes)
        laid = [
            (next(nodes), pattern)
            for p, pattern in enumerate(node_class.patterns)
            for _ in range(values[v.nodes[k, p].index])
        ]
        for s in range(len(case.kinds)):
            here: list[list[str | int]] = [[node, pattern[s]] for node, pattern in laid if pattern[s]]
            if len(node_class.flavors) == 1:
                free[node_class.flavors[0], s] += here
                continue
            for f in node_class.flavors:
                lots = _taken(here, values[v.lots[k, s, f].index])
                free[f, s] += [[node, pods] for node, pods in lots]
    return free


def _taken(places: list[list[str | int]], pods: int) -> Sequence[tuple[str, int]]:
    """Take places for pods from the front, and return (node, pods)."""
    taken: list[tuple[str, int]] = []
    while pods:
        node, free = cast("tuple[str, int]", places[0])
        here = min(free, pods)
        taken.append((node, here))
        pods -= here
        if here == free:
            places.pop(0)
        else:
            places[0][1] = free - here
    return taken
