"""From counts to names: which GPU of which node gets which layout."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

from islander.hardware.links import gpus_of, mask_of
from planner.mig.fleet import FleetNode
from planner.mig.layouts import Counts, whole_layout
from planner.mig.patterns import Pattern, idle_mask
from planner.mig.problem import Problem
from planner.models.mig_choice import Chosen

Where = tuple[str, int]
"""Name of a node, and index of one of its GPUs."""


@dataclass(slots=True)
class Named:
    """What becomes of which GPU, and where pods that wait for whole GPUs find them.

    Attributes
    ----------
    layouts
        New instances by (node, index), of the GPUs that change only.
    waiting
        (key of the pod, node).
    """

    layouts: dict[Where, Counts] = field(default_factory=dict)
    waiting: list[tuple[str, str]] = field(default_factory=list)


def named(problem: Problem, chosen: Chosen) -> Named:
    """Return the names; nodes that change anyway take as much of the change as they can."""
    found = Named()
    given: defaultdict[tuple[int, str], list[Where]] = defaultdict(list)
    touched: dict[int, list[str]] = {}
    pods = {i: deque(need.pods) for i, need in enumerate(problem.wholes) if not need.running}
    for c, node_class in enumerate(problem.classes):
        patterns = _patterns_of(problem, chosen, c)
        stays = {i: n for i, at, n in chosen.stay if at == c}
        touched[c] = [node.name for node, pattern in zip(node_class.nodes, patterns, strict=True) if pattern.given]
        for node, pattern in zip(node_class.nodes, patterns, strict=True):
            _give(problem, node, pattern, node_class.site, given, found)
            for i, fits in enumerate(pattern.fits):
                while fits and stays.get(i) and pods.get(i):
                    fits, stays[i] = fits - 1, stays[i] - 1
                    found.waiting.append((pods[i].popleft(), node.name))
    for (site, product), wheres in given.items():
        layouts = [counts for s, k, counts, n in chosen.cut if (s, k) == (site, product) for _ in range(n)]
        found.layouts |= dict(zip(sorted(wheres), layouts, strict=True))
    _recut(problem, chosen, touched, found)
    found.waiting.sort()
    return found


def _patterns_of(problem: Problem, chosen: Chosen, number: int) -> list[Pattern]:
    """Return one pattern per node of a class, those that change something first."""
    patterns = problem.classes[number].patterns
    picked = [patterns[p] for c, p, n in chosen.patterns if c == number for _ in range(n)]
    return sorted(picked, key=lambda pattern: (not pattern.given, -pattern.given.bit_count(), pattern.given))


def _give(
    problem: Problem,
    node: FleetNode,
    pattern: Pattern,
    site: int,
    given: defaultdict[tuple[int, str], list[Where]],
    found: Named,
) -> None:
    if pattern.uniform:
        for gpu in node.gpus:
            counts = whole_layout(problem.geometries[gpu.product], pattern.uniform)
            if counts != gpu.counts:
                found.layouts[node.name, gpu.index] = counts
        return
    product_at = {gpu.index: gpu.product for gpu in node.gpus}
    for index in gpus_of(_given_on(node, pattern)):
        given[site, product_at[index]].append((node.name, index))


def _given_on(node: FleetNode, pattern: Pattern) -> int:
    """Return the pattern's GPUs on a node; on a uniform node that has others idle, as many of those, the last ones."""
    idle = idle_mask(node)
    products = {gpu.index: gpu.product for gpu in node.gpus}
    taken = dict(pattern.taken)
    own: defaultdict[str, int] = defaultdict(int)
    for index in gpus_of(pattern.given & idle):
        own[products[index]] += 1
    if pattern.given & ~idle == 0 and own == taken:
        return pattern.given
    picked: list[int] = []
    for product, number in taken.items():
        picked += [index for index in gpus_of(idle) if products[index] == product][-number:]
    return mask_of(picked)


def _recut(problem: Problem, chosen: Chosen, touched: dict[int, list[str]], found: Named) -> None:
    for g, group in enumerate(problem.sliced):
        layouts = deque(counts for at, counts, n in chosen.recut if at == g for _ in range(n))
        if not layouts:
            continue
        nodes = problem.classes[group.node_class].nodes
        first = touched[group.node_class]
        order = sorted(range(len(nodes)), key=lambda at: nodes[at].name not in first)
        for at in order:
            for index in group.positions[at]:
                if layouts:
                    found.layouts[nodes[at].name, index] = layouts.popleft()
                    if nodes[at].name not in first:
                        first.append(nodes[at].name)
