"""Exact search over legal sequences of moves, for tangles that are small enough: the fewest moves, buffers included."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from msgspec import structs

from islander.cluster.pod import Pod
from islander.policy.need import PodNeed
from planner.interruption import SearchInterrupted
from planner.models.classes import counts_decide, rank_of, tiers_of
from planner.options import PlanOptions
from planner.order import Unit, orders
from planner.problem import Demand, Problem
from planner.rules import Rules
from planner.world import World

# Sets of more demands than this are too many to compare.
MAX_DEMANDS = 8
# A search that has looked at so many placements gives up.
MAX_PLACEMENTS = 60_000

Rank = tuple[int, ...]
# Who runs on a node, in the order of coming: 2 x number of the pod, plus 1 when it moved; demands are below 0.
Tokens = tuple[int, ...]
# By node. What runs there and is no movable pod of the search is not in it.
Crowd = tuple[Tokens, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The best sequence that was found.

    Attributes
    ----------
    rank
        What sequences are compared by, smaller is better: per tier minus the GPUs admitted, then the moves above the
        next tier; then all moves, then GPU-seconds of reload.
    complete
        True when every sequence was looked at that could have been better.
    """

    units: tuple[Unit, ...]
    admits: tuple[tuple[str, str], ...]
    rank: Rank
    complete: bool


@dataclass(frozen=True, slots=True)
class _Reached:
    """A placement, what its moves cost, and the last of them."""

    crowd: Crowd
    path: Rank
    moves: int
    workloads: tuple[str, ...] = ()
    unit: Unit | None = None
    before: Hashable = None


class Search:
    """Search among some nodes, movable pods and demands of a problem; everything else stays as it is."""

    def __init__(
        self,
        problem: Problem,
        world: World,
        options: PlanOptions,
        nodes: Sequence[str],
        pods: Sequence[str],
        demands: Sequence[Demand],
    ) -> None:
        self._world, self._options = world, options
        self._nodes = tuple(nodes)
        self._movers = tuple(problem.movable[key] for key in pods)
        self._demands = tuple(demands)
        self._tiers = tiers_of(problem.demands)
        numbers = {key: number for number, key in enumerate(pods)}
        whole = [tuple(numbers[key] for key in keys) for keys in problem.groups.values() if keys[0] in numbers]
        grouped = {number for group in whole for number in group}
        self._units = [(number,) for number in range(len(self._movers)) if number not in grouped] + whole
        self._start: Crowd = tuple(
            tuple(2 * number for number, mover in enumerate(self._movers) if mover.pod.node == name)
            for name in self._nodes
        )
        self._fixed = tuple(tuple(pod for pod in world.pods_at(name) if pod.key not in numbers) for name in self._nodes)
        rules = Rules.of(world)
        taking_part = [mover.pod for mover in self._movers] + [demand.pod for demand in self._demands]
        self._bound = world.has_rules and any(rules.bind(pod) for pod in taking_part)
        self._kinds = self._alike(grouped)
        self._counted = self._counted_nodes()
        self._accepted: dict[Hashable, bool] = {}
        self._node_options: dict[Hashable, dict[int, Tokens]] = {}
        self._whole_masks = self._masks_of_whole_groups()

    def best(self, seconds: float, ceiling: int | None = None) -> Found:
        """Return the best sequence found, also when somebody breaks into the search.

        Parameters
        ----------
        ceiling
            GPUs of the highest tier that no plan can exceed, when somebody has proved it.
        """
        deadline = time.monotonic() + seconds
        most = self._most_per_tier(ceiling)
        start = _Reached(self._start, (0,) * (max(0, len(self._tiers) - 1) + 2), 0)
        key = self._key(start)
        reached: dict[Hashable, _Reached] = {key: start}
        heap: list[tuple[Rank, int, Hashable]] = [(start.path, 0, key)]
        settled: set[Hashable] = set()
        best: tuple[Rank, Hashable, int] | None = None
        complete = True
        try:
            while heap:
                path, _, key = heapq.heappop(heap)
                if key in settled:
                    continue
                if best is not None and self._rank(path, most) >= best[0]:
                    break
                if len(settled) >= MAX_PLACEMENTS or time.monotonic() > deadline:
                    complete = False
                    break
                settled.add(key)
                here = reached[key]
                mask = self._best_mask(here.crowd)
                rank = self._rank(path, self._per_tier(mask))
                if best is None or rank < best[0]:
                    best = rank, key, mask
                for after in self._successors(key, here):
                    further = self._key(after)
                    if further not in reached or after.path < reached[further].path:
                        reached[further] = after
                        heapq.heappush(heap, (after.path, len(reached), further))
        except SearchInterrupted:
            complete = False
        if best is None:
            return Found((), (), (), complete=False)
        rank, key, mask = best
        return Found(_way(reached, key), self._places(reached[key].crowd, mask), rank, complete)

    # Moves ------------------------------------------------------------------------------------------------------

    def _successors(self, key: Hashable, here: _Reached) -> Iterator[_Reached]:
        limit, per_workload = self._options.max_moves, self._options.max_moves_per_workload
        tokens = {token // 2: (node, token) for node, there in enumerate(here.crowd) for token in there}
        seen: set[Hashable] = set()
        for members in self._units:
            node, token = tokens[members[0]]
            at = (node, self._kinds[token & ~1] if node in self._counted else -token - 1)
            if len(members) == 1 and at in seen:
                continue
            seen.add(at)
            moves = here.moves + len(members)
            workloads = here.workloads
            if per_workload is not None:
                workloads = tuple(sorted((*workloads, *(self._movers[number].workload for number in members))))
                if any(workloads.count(workload) > per_workload for workload in set(workloads)):
                    continue
            if limit is not None and moves > limit:
                continue
            sources = [tokens[number] for number in members]
            path = tuple(a + b for a, b in zip(here.path, self._step_cost(members), strict=True))
            for targets in self._targets(members, [node for node, _ in sources], here.crowd):
                crowd, legs = here.crowd, []
                for number, (source, token), target in zip(members, sources, targets, strict=True):
                    crowd = _with(_without(crowd, source, token), target, 2 * number + 1)
                    legs.append((self._movers[number].pod.key, self._nodes[source], self._nodes[target]))
                yield _Reached(crowd, path, moves, workloads, Unit(tuple(sorted(legs))), key)

    def _targets(self, members: Sequence[int], sources: Sequence[int], crowd: Crowd) -> Iterator[tuple[int, ...]]:
        """Yield where the members can start while all of them still hold their old places.

        A pod alone goes to another node; of a group some may come back to their own, not all.
        """
        nodes = range(len(self._nodes))
        if len(members) == 1:
            yield from (
                (node,) for node in nodes if node != sources[0] and self._accepts(crowd, node, 2 * members[0] + 1)
            )
            return
        for targets in product(nodes, repeat=len(members)):
            coming: defaultdict[int, list[int]] = defaultdict(list)
            for number, source, target in zip(members, sources, targets, strict=True):
                if source != target:
                    coming[target].append(2 * number + 1)
            if coming and all(self._accepts_all(crowd, node, tokens) for node, tokens in coming.items()):
                yield targets

    def _step_cost(self, members: Sequence[int]) -> Rank:
        movers = [self._movers[number] for number in members]
        above = tuple(
            sum(rank_of(mover.pod.spec.priority, self._tiers) >= len(self._tiers) - tier for mover in movers)
            for tier in range(1, len(self._tiers))
        )
        return (*above, len(movers), sum(mover.need.gpus * mover.reload_seconds for mover in movers))

    # Placements -------------------------------------------------------------------------------------------------

    def _key(self, reached: _Reached) -> Hashable:
        """Return what placements have in common that lead to the same ends."""
        alike = tuple(self._memo(node, reached.crowd) for node in range(len(self._nodes)))
        return alike, reached.moves if self._options.max_moves is not None else 0, reached.workloads

    def _accepts_all(self, crowd: Crowd, node: int, tokens: Sequence[int]) -> bool:
        """Return whether a node takes pods in whatever order they come."""
        for order in orders(tokens) if node not in self._counted or self._bound else (tokens,):
            held = crowd
            for token in order:
                if not self._accepts(held, node, token):
                    return False
                held = _with(held, node, token)
        return True

    def _accepts(self, crowd: Crowd, node: int, token: int) -> bool:
        counted = node in self._counted
        if self._bound:
            memo: Hashable = (crowd, node, token)
        else:
            memo = (node, self._memo(node, crowd), self._kind(token) if counted else token)
        known = self._accepted.get(memo)
        if known is None:
            pod, need = self._pod(token)
            world = self._world_of(enumerate(crowd) if self._bound else [(node, crowd[node])])
            known = self._accepted[memo] = world.refusal(pod, need, self._nodes[node]) is None
        return known

    def _kind(self, token: int) -> int:
        return self._kinds[token & ~1 if token >= 0 else token]

    def _memo(self, node: int, crowd: Crowd) -> Tokens:
        """Return who is on a node, as far as it matters there."""
        return tuple(sorted(self._kind(token) for token in crowd[node])) if node in self._counted else crowd[node]

    def _world_of(self, crowd: Iterable[tuple[int, Tokens]]) -> World:
        pods_on = dict(self._world.pods_on)
        moved: set[tuple[str, str]] = set()
        for node, tokens in crowd:
            name = self._nodes[node]
            there = list(self._fixed[node])
            for token in tokens:
                pod, _ = self._pod(token)
                if token < 0 or token & 1:
                    pod = structs.replace(pod, node=name, phase="Running")
                    moved.add((pod.key, name))
                there.append(pod)
            pods_on[name] = tuple(there)
        return replace(self._world, pods_on=pods_on, moved=frozenset(moved), _around=[])

    def _pod(self, token: int) -> tuple[Pod, PodNeed]:
        if token < 0:
            demand = self._demands[-token - 1]
            return demand.pod, demand.need
        mover = self._movers[token // 2]
        return mover.pod, mover.need

    # Demand -----------------------------------------------------------------------------------------------------

    def _best_mask(self, crowd: Crowd) -> int:
        """Return the set of demands (a bit mask) to admit: the best by tier."""
        return max(self._masks(crowd), key=lambda mask: (self._per_tier(mask), -mask))

    def _masks(self, crowd: Crowd) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return the sets of demands that can be admitted, with (demand, node) in an order that works."""
        if self._bound:
            return self._masks_in_every_order(crowd)
        found: dict[int, tuple[tuple[int, int], ...]] = {0: ()}
        for node in range(len(self._nodes)):
            here = self._options_of(node, crowd)
            for mask, places in list(found.items()):
                for extra, order in here.items():
                    if extra and not mask & extra and mask | extra not in found:
                        found[mask | extra] = (*places, *((-token - 1, node) for token in order))
        return {mask: places for mask, places in found.items() if mask in self._whole_masks}

    def _options_of(self, node: int, crowd: Crowd) -> dict[int, Tokens]:
        """Return the sets of demands that one node takes, in whatever order they come."""
        memo = (node, self._memo(node, crowd))
        found = self._node_options.get(memo)
        if found is None:
            found = {0: ()}
            queue = [0]
            for mask in queue:
                for number in range(len(self._demands)):
                    grown = mask | 1 << number
                    if grown not in found and self._accepts_all(crowd, node, (*found[mask], -number - 1)):
                        found[grown] = (*found[mask], -number - 1)
                        queue.append(grown)
            self._node_options[memo] = found
        return found

    def _masks_in_every_order(self, crowd: Crowd) -> dict[int, tuple[tuple[int, int], ...]]:
        found: dict[int, tuple[tuple[int, int], ...]] = {0: ()}
        seen: set[frozenset[tuple[int, int]]] = {frozenset()}
        queue: list[tuple[tuple[int, int], ...]] = [()]
        for places in queue:
            held = crowd
            for number, node in places:
                held = _with(held, node, -number - 1)
            done = {number for number, _ in places}
            for number in range(len(self._demands)):
                for node in range(len(self._nodes)) if number not in done else ():
                    grown = (*places, (number, node))
                    if frozenset(grown) in seen or not self._accepts(held, node, -number - 1):
                        continue
                    seen.add(frozenset(grown))
                    queue.append(grown)
                    found.setdefault(sum(1 << n for n, _ in grown), grown)
        return {mask: places for mask, places in found.items() if mask in self._whole_masks}

    def _places(self, crowd: Crowd, mask: int) -> tuple[tuple[str, str], ...]:
        return tuple((self._demands[number].key, self._nodes[node]) for number, node in self._masks(crowd)[mask])

    def _per_tier(self, mask: int) -> Rank:
        chosen = [demand for number, demand in enumerate(self._demands) if mask >> number & 1]
        return tuple(sum(d.need.gpus for d in chosen if d.priority == tier) for tier in self._tiers)

    def _masks_of_whole_groups(self) -> frozenset[int]:
        groups: defaultdict[str, int] = defaultdict(int)
        for number, demand in enumerate(self._demands):
            if demand.group is not None:
                groups[demand.group] |= 1 << number
        masks = range(1 << len(self._demands))
        return frozenset(mask for mask in masks if all(mask & group in (0, group) for group in groups.values()))

    def _most_per_tier(self, ceiling: int | None) -> Rank:
        """Return GPUs per tier that no sequence can exceed: the free GPUs stay as many as they are."""
        free: defaultdict[str, int] = defaultdict(int)
        for resource in {demand.need.resource for demand in self._demands}:
            for node in self._nodes:
                state = self._world.state(node, resource)
                free[resource] += state.allocatable - min(state.used, state.allocatable)
        held = sum(mover.need.gpus for mover in self._movers)
        over = any(self._world.state(node, resource).overallocated for resource in free for node in self._nodes)
        room = sum(free.values()) + (held if over else 0)
        totals = [0] * len(self._tiers)
        for mask in self._whole_masks:
            per_tier = self._per_tier(mask)
            if sum(per_tier) <= room:
                totals = [max(a, b) for a, b in zip(totals, per_tier, strict=True)]
        if ceiling is not None and totals:
            totals[0] = min(totals[0], ceiling)
        return tuple(totals)

    def _rank(self, path: Rank, per_tier: Rank) -> Rank:
        rank: list[int] = []
        for tier, gpus in enumerate(per_tier):
            rank.append(-gpus)
            if tier + 1 < len(per_tier):
                rank.append(path[tier])
        return (*rank, *path[-2:])

    # Symmetry ---------------------------------------------------------------------------------------------------

    def _alike(self, grouped: set[int]) -> dict[int, int]:
        """Return a number per token that pods share which no rule tells apart."""
        indexes: dict[Hashable, int] = {}
        kinds: dict[int, int] = {}
        for number, mover in enumerate(self._movers):
            limited = mover.workload if self._options.max_moves_per_workload is not None else ""
            apart = number if number in grouped else limited
            traits = (self._traits(mover.pod, mover.need), mover.reload_seconds, apart)
            kinds[2 * number] = indexes.setdefault(traits, len(indexes))
        for number, demand in enumerate(self._demands):
            kinds[-number - 1] = indexes.setdefault((self._traits(demand.pod, demand.need), 0, "demand"), len(indexes))
        return kinds

    def _traits(self, pod: Pod, need: PodNeed) -> Hashable:
        spec = pod.spec
        asked = (need, spec.requests, spec.node_selector, spec.node_terms, spec.tolerations, spec.host_ports)
        return (*asked, spec.priority, (pod.namespace, pod.labels, spec) if self._bound else None)

    def _counted_nodes(self) -> frozenset[int]:
        """Return the nodes on which pods of one kind can stand for each other."""
        needs = [mover.need for mover in self._movers] + [demand.need for demand in self._demands]
        resources = sorted({need.resource for need in needs})
        return frozenset(
            number
            for number, name in enumerate(self._nodes)
            if all(counts_decide(self._world.state(name, resource), needs) for resource in resources)
        )


def _with(crowd: Crowd, node: int, *tokens: int) -> Crowd:
    return (*crowd[:node], (*crowd[node], *tokens), *crowd[node + 1 :])


def _without(crowd: Crowd, node: int, token: int) -> Crowd:
    return (*crowd[:node], tuple(other for other in crowd[node] if other != token), *crowd[node + 1 :])


def _way(reached: dict[Hashable, _Reached], key: Hashable) -> tuple[Unit, ...]:
    units: list[Unit] = []
    while (unit := reached[key].unit) is not None:
        units.append(unit)
        key = reached[key].before
    return tuple(reversed(units))
