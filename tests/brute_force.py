"""The best sequence of moves by trying all of them: slow, plain, and without any code of the planner.

What is legal is asked of the policy (`gpu_state`, `assess`, `unfit`); everything else is counted here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product

from msgspec import structs

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.policy.assess import assess
from islander.policy.fit import unfit
from islander.policy.need import need_of
from islander.policy.neighbours import Neighbourhood
from islander.policy.occupancy import gpu_state
from islander.policy.settings import DEFAULT_MIX, PolicySettings

SETTINGS = PolicySettings()
GPU = names.NVIDIA_GPU

# Who runs on a node: (number of the pod, has it moved), in order of coming.
Here = tuple[tuple[int, bool], ...]
State = tuple[Here, ...]


@dataclass(frozen=True)
class Instance:
    """Nodes, running pods (which of them may move, and which restart together), and pending ones."""

    nodes: Sequence[Node]
    running: Sequence[Pod]
    movable: frozenset[str]
    groups: Sequence[frozenset[str]]
    pending: Sequence[Pod]
    max_moves: int | None = None


@dataclass(frozen=True)
class Best:
    """GPUs admitted by priority, highest first, and moves: of priority above the next tier, and in all."""

    admitted: tuple[int, ...]
    moved_above: tuple[int, ...]
    moves: int


def best(instance: Instance) -> Best:
    """Walk over every placement that legal moves reach, cheapest first, and return the best end."""
    trial = _Trial(instance)
    tiers = sorted({pod.spec.priority for pod in instance.pending}, reverse=True)
    start = trial.start()
    zero = (0,) * len(tiers)
    queue: list[tuple[tuple[int, ...], State]] = [(zero, start)]
    cost_of: dict[tuple[State, int], tuple[int, ...]] = {(start, 0): zero}
    done: set[tuple[State, int]] = set()
    ends: list[tuple[tuple[int, ...], Best]] = []
    most = trial.most_admitted(tiers)
    while queue:
        cost, state = heapq.heappop(queue)
        mark = (state, cost[-1] if instance.max_moves is not None else 0)
        if mark in done:
            continue
        done.add(mark)
        if ends and ends[0][0] <= _rank(most, cost):
            break
        reached = [(_rank(admitted, cost), admitted) for admitted in trial.admissions(state, tiers)]
        ends = [min([*ends, *((rank, Best(admitted, cost[:-1], cost[-1])) for rank, admitted in reached)], key=_first)]
        for movers, after in trial.moves(state):
            priorities = [pod.spec.priority for pod in movers]
            above = [sum(p > tier for p in priorities) for tier in tiers[1:]]
            further = tuple(a + b for a, b in zip(cost, (*above, len(movers)), strict=True))
            if instance.max_moves is not None and further[-1] > instance.max_moves:
                continue
            mark = (after, further[-1] if instance.max_moves is not None else 0)
            if mark not in cost_of or further < cost_of[mark]:
                cost_of[mark] = further
                heapq.heappush(queue, (further, after))
    return ends[0][1]


def _first(end: tuple[tuple[int, ...], Best]) -> tuple[int, ...]:
    return end[0]


def _rank(admitted: Sequence[int], cost: Sequence[int]) -> tuple[int, ...]:
    return tuple(number for pair in zip((-gpus for gpus in admitted), cost, strict=True) for number in pair)


class _Trial:
    def __init__(self, instance: Instance) -> None:
        self._nodes = list(instance.nodes)
        self._pods = [*instance.running, *instance.pending]
        self._pending = range(len(instance.running), len(self._pods))
        self._around = Neighbourhood({node.name: node for node in self._nodes}, {}, {}, ())
        numbers = {pod.key: number for number, pod in enumerate(self._pods)}
        grouped = frozenset().union(*instance.groups)
        alone = [(numbers[key],) for key in sorted(instance.movable - grouped)]
        whole = [tuple(sorted(numbers[key] for key in group)) for group in instance.groups if group <= instance.movable]
        self._units = alone + whole
        self._fits = cache(self._fits_uncached)
        self._admitted = cache(self._admitted_uncached)

    def start(self) -> State:
        by_node: list[list[tuple[int, bool]]] = [[] for _ in self._nodes]
        names = [node.name for node in self._nodes]
        for number, pod in enumerate(self._pods):
            if pod.node:
                by_node[names.index(pod.node)].append((number, False))
        return tuple(tuple(here) for here in by_node)

    def _fits_uncached(self, node: int, here: Here, number: int) -> bool:
        there = []
        for position, (other, moved) in enumerate(here):
            pod = self._pods[other]
            if moved:
                # The node's report does not know replacements; they picked after all that it knows.
                pod = structs.replace(pod, name=f"{pod.name}-new", phase="Running", started=f"9{position:03}")
            there.append(pod)
        pod = self._pods[number]
        need = need_of(pod, SETTINGS)
        if unfit(pod, self._nodes[node], self._around, there) is not None:
            return False
        return assess(gpu_state(self._nodes[node], there, need.resource), need, DEFAULT_MIX).accepted

    def _fit_in_any_order(self, node: int, here: Here, numbers: Sequence[int]) -> bool:
        for order in permutations(numbers):
            held = here
            for number in order:
                if not self._fits(node, held, number):
                    return False
                held = (*held, (number, True))
        return True

    def moves(self, state: State) -> Iterator[tuple[list[Pod], State]]:
        where = {number: node for node, here in enumerate(state) for number, _ in here}
        for unit in self._units:
            for targets in product(range(len(self._nodes)), repeat=len(unit)):
                leaving = [number for number, node in zip(unit, targets, strict=True) if where[number] != node]
                if not leaving:
                    continue
                coming: dict[int, list[int]] = {}
                for number, node in zip(unit, targets, strict=True):
                    if number in leaving:
                        coming.setdefault(node, []).append(number)
                if not all(self._fit_in_any_order(node, state[node], numbers) for node, numbers in coming.items()):
                    continue
                after = [tuple(one for one in here if one[0] not in unit) for here in state]
                for number, node in zip(unit, targets, strict=True):
                    after[node] = (*after[node], (number, True))
                yield [self._pods[number] for number in unit], self._plain(after)

    def _plain(self, state: Sequence[Here]) -> State:
        """Return the state without what does not matter: on a node without a report nobody knows who has which GPU."""
        return tuple(
            here if node.gpu_report is not None else tuple(sorted((number, False) for number, _ in here))
            for node, here in zip(self._nodes, state, strict=True)
        )

    def admissions(self, state: State, tiers: Sequence[int]) -> set[tuple[int, ...]]:
        """Return GPUs admitted by tier for every way to put pending pods on nodes."""
        ways: set[frozenset[int]] = {frozenset()}
        for node, here in enumerate(state):
            ways |= {way | more for way in ways for more in self._admitted(node, here) if not way & more}
        return {self._by_tier(way, tiers) for way in ways}

    def most_admitted(self, tiers: Sequence[int]) -> tuple[int, ...]:
        """Return GPUs by tier that no end exceeds: moves leave as many GPUs free in all as there are."""
        free = sum(node.allocatable.count(GPU) for node in self._nodes)
        free -= sum(need_of(pod, SETTINGS).gpus for pod in self._pods if pod.node)
        sets = (chosen for size in range(len(self._pending) + 1) for chosen in combinations(self._pending, size))
        within = [
            self._by_tier(s, tiers) for s in sets if sum(need_of(self._pods[n], SETTINGS).gpus for n in s) <= free
        ]
        return tuple(max(column) for column in zip(*within, strict=True))

    def _admitted_uncached(self, node: int, here: Here) -> tuple[frozenset[int], ...]:
        sets = (chosen for size in range(1, len(self._pending) + 1) for chosen in combinations(self._pending, size))
        return tuple(frozenset(chosen) for chosen in sets if self._fit_in_any_order(node, here, chosen))

    def _by_tier(self, numbers: Iterable[int], tiers: Sequence[int]) -> tuple[int, ...]:
        pods = [self._pods[number] for number in numbers]
        return tuple(sum(need_of(p, SETTINGS).gpus for p in pods if p.spec.priority == tier) for tier in tiers)
