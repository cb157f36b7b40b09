"""The order of moves: a move needs room that another one frees, and nothing moves beside its own twin."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from types import MappingProxyType
from typing import TypeVar

from planner.parts import connected_parts
from planner.problem import MovablePod, Problem
from planner.rules import Rules
from planner.world import World

# Orders of so many moves that hang together are searched through; of more, only the greedy one is tried.
MAX_SEARCHED = 16
# A search for an order that looks at more sets of done moves than this gives up.
MAX_SETS = 20_000
MAX_PERMUTED = 4

# Stands for a node that all units share of which rules between pods bind one.
BOUND_BY_RULES = object()

NO_TURNS: Mapping[str, int] = MappingProxyType({})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that move at the same time: one pod, or a whole group; (pod key, node it leaves, node it goes to).

    A pod of a group may come back to the node it leaves.
    """

    legs: tuple[tuple[str, str, str], ...]

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes that the unit touches."""
        return frozenset(node for _, source, target in self.legs for node in (source, target))


@dataclass(frozen=True, slots=True)
class NoOrder:
    """There is no order of these moves in which each has room at its time."""

    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wave:
    """Units that move beside each other."""

    units: tuple[Unit, ...]


def units_of(problem: Problem, moves: Mapping[str, str]) -> tuple[Unit, ...]:
    """Return the moves as units, in order of their first pod."""
    legs: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for key in sorted(moves):
        mover = problem.movable[key]
        legs[mover.unit].append((key, mover.pod.node, moves[key]))
    return tuple(sorted((Unit(tuple(found)) for found in legs.values()), key=lambda unit: unit.legs))


def started(problem: Problem, world: World, unit: Unit) -> World | None:
    """Return the world in which the unit also runs at its targets, its old places still held; None without room."""
    coming: defaultdict[str, list[MovablePod]] = defaultdict(list)
    for key, source, target in unit.legs:
        if source != target:
            coming[target].append(problem.movable[key])
    for node in sorted(coming):
        after = all_started(world, coming[node], node)
        if after is None:
            return None
        world = after
    return world


def all_started(world: World, movers: Sequence[MovablePod], node: str) -> World | None:
    """Return the world in which pods have come to a node; None when some order of their coming is refused."""
    for order in orders(movers):
        placed = world
        for mover in order:
            if placed.refusal(mover.pod, mover.need, node) is not None:
                return None
            placed = placed.arrived(mover.pod, node)
    for mover in movers:
        world = world.arrived(mover.pod, node)
    return world


def orders(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the orders in which things may come; of more than four, each thing is first once."""
    if len(items) <= MAX_PERMUTED:
        yield from permutations(items)
        return
    for first in range(len(items)):
        yield [*items[first:], *items[:first]]


def ended(problem: Problem, world: World, unit: Unit) -> World:
    """Return the world in which the unit has left its old places; who comes back to its own node picks anew."""
    for key, source, target in unit.legs:
        world = world.left(key, source)
        if source == target:
            world = world.arrived(problem.movable[key].pod, target)
    return world


def moved(problem: Problem, world: World, unit: Unit) -> World | None:
    """Return the world after the unit has moved; None when it has no room."""
    arrived = started(problem, world, unit)
    return None if arrived is None else ended(problem, arrived, unit)


def sequence(
    problem: Problem, world: World, moves: Mapping[str, str], turns: Mapping[str, int] = NO_TURNS
) -> tuple[Unit, ...] | NoOrder:
    """Return an order in which every move has room at its time, each pod moving once; or those for which none is found.

    Moves that share no node are ordered by themselves; those of pods that rules bind all hang together.

    Parameters
    ----------
    turns
        Of pods whose order matters to the links of their target: who comes first has the lowest number. It is kept
        where that works.
    """
    units = units_of(problem, moves)
    rules = Rules.of(world)
    ordered: list[Unit] = []
    stuck: list[str] = []
    for component in _components(problem, units, rules):
        found, rest = _greedily(problem, world, component, turns)
        if rest and turns:
            found, rest = _greedily(problem, world, component)
        if rest and len(component) <= MAX_SEARCHED:
            found = _Search(problem, component).order(world) or []
        if len(found) < len(component):
            stuck += [key for unit in component for key, _, _ in unit.legs]
        else:
            ordered += found
    return NoOrder(tuple(sorted(stuck))) if stuck else tuple(ordered)


def _components(problem: Problem, units: Sequence[Unit], rules: Rules) -> list[list[Unit]]:
    bundles: list[list[object]] = []
    for number, unit in enumerate(units):
        bundles.append([number, *unit.nodes])
        if _bound(problem, unit, rules):
            bundles[-1].append(BOUND_BY_RULES)
    parts = ([units[n] for n in part if isinstance(n, int)] for part in connected_parts(bundles))
    return sorted((sorted(part, key=lambda unit: unit.legs) for part in parts), key=lambda part: part[0].legs)


def _bound(problem: Problem, unit: Unit, rules: Rules) -> bool:
    return any(rules.bind(problem.movable[key].pod) for key, _, _ in unit.legs)


def as_far_as_possible(
    problem: Problem, world: World, moves: Mapping[str, str], turns: Mapping[str, int] = NO_TURNS
) -> tuple[Unit, ...]:
    """Return an order of those moves that find room one after the other; the others are left out."""
    units = units_of(problem, moves)
    found, rest = _greedily(problem, world, units, turns)
    if rest and turns:
        # One whose turn never comes holds up those behind it.
        found = max(found, _greedily(problem, world, units)[0], key=len)
    return tuple(found)


def _greedily(
    problem: Problem, world: World, units: Sequence[Unit], turns: Mapping[str, int] = NO_TURNS
) -> tuple[list[Unit], list[Unit]]:
    """Return an order made by always taking the first unit that has room, and the units that then find none.

    Those that free room for others come first; nobody comes to a node before all whose turn it is.
    """
    queues: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for unit in units:
        for node, turn in _turns_of(unit, turns):
            queues[node][turn] += 1
    wanted = Counter(target for unit in units for _, _, target in unit.legs)
    left = sorted(units, key=lambda unit: (-sum(wanted[source] for _, source, _ in unit.legs), unit.legs))
    ordered: list[Unit] = []
    while left:
        for unit in left:
            waits = any(turn > min(queues[node]) for node, turn in _turns_of(unit, turns))
            after = None if waits else moved(problem, world, unit)
            if after is not None:
                world = after
                ordered.append(unit)
                left.remove(unit)
                for node, turn in _turns_of(unit, turns):
                    queues[node][turn] -= 1
                    queues[node] += Counter()
                break
        else:
            break
    return ordered, left


def _turns_of(unit: Unit, turns: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(target, turns[key]) for key, _, target in unit.legs if key in turns]


class _Search:
    """Depth-first search for an order; a set of done moves that led nowhere is not looked at again."""

    def __init__(self, problem: Problem, units: Sequence[Unit]) -> None:
        self._problem = problem
        self._units = tuple(units)
        self._dead: set[frozenset[int]] = set()

    def order(self, world: World) -> list[Unit] | None:
        """Return an order, None when there is none or the search gave up."""
        found = self._rest(world, frozenset())
        return None if found is None else [self._units[number] for number in found]

    def _rest(self, world: World, done: frozenset[int]) -> list[int] | None:
        if len(done) == len(self._units):
            return []
        if done in self._dead or len(self._dead) > MAX_SETS:
            return None
        for number, unit in enumerate(self._units):
            if number not in done:
                after = moved(self._problem, world, unit)
                rest = None if after is None else self._rest(after, done | {number})
                if rest is not None:
                    return [number, *rest]
        self._dead.add(done)
        return None


def waves_of(problem: Problem, world: World, ordered: Sequence[Unit]) -> tuple[Wave, ...]:
    """Return the units in waves.

    In a wave every old place is held until all have moved; a workload is disrupted once, a budget as it allows.
    A unit overtakes another one only when they share no node.
    """
    left = list(ordered)
    waves: list[Wave] = []
    rules = Rules.of(world)
    while left:
        chosen, world = _next_wave(problem, world, rules, left)
        waves.append(Wave(tuple(chosen)))
        taken = {id(unit) for unit in chosen}
        left = [unit for unit in left if id(unit) not in taken]
    return tuple(waves)


def _next_wave(problem: Problem, world: World, rules: Rules, left: Sequence[Unit]) -> tuple[list[Unit], World]:
    chosen: list[Unit] = []
    one_is_bound = False
    disrupted: set[str] = set()
    drawn: Counter[str] = Counter()
    passed: set[str] = set()
    coming: defaultdict[str, list[MovablePod]] = defaultdict(list)
    for unit in left:
        movers = [problem.movable[key] for key, _, _ in unit.legs]
        workloads = {mover.workload for mover in movers}
        budgets = {mover.budget for mover in movers if mover.budget is not None}
        # Of pods that rules bind it matters who came first, so they move one after the other, in their order.
        bound = world.has_rules and _bound(problem, unit, rules)
        free = not (unit.nodes & passed) and not (workloads & disrupted) and not (bound and one_is_bound)
        one_is_bound |= bound
        if free and _headroom(problem, drawn, budgets) and _has_room_beside(problem, world, unit, coming):
            chosen.append(unit)
            drawn.update(budgets)
            for mover, (_, source, target) in zip(movers, unit.legs, strict=True):
                if source != target:
                    coming[target].append(mover)
        else:
            passed |= unit.nodes
        # A replica that moves twice keeps its order through its workload.
        disrupted |= workloads
    if not chosen:
        raise RuntimeError(f"no move has room at its time, first {left[0].legs}")
    for unit in chosen:
        for key, source, target in unit.legs:
            world = world.left(key, source).arrived(problem.movable[key].pod, target)
    return chosen, world


def _has_room_beside(problem: Problem, world: World, unit: Unit, coming: Mapping[str, Sequence[MovablePod]]) -> bool:
    """Return whether the unit has room at its targets, in whatever order it and all others of the wave come."""
    here: defaultdict[str, list[MovablePod]] = defaultdict(list)
    for key, source, target in unit.legs:
        if source != target:
            here[target].append(problem.movable[key])
    return all(
        all_started(world, [*coming.get(node, ()), *movers], node) is not None for node, movers in sorted(here.items())
    )


def _headroom(problem: Problem, drawn: Mapping[str, int], budgets: Iterable[str]) -> bool:
    return all(drawn.get(budget, 0) < problem.budgets.get(budget, 1) for budget in budgets)


def depends_on(problem: Problem, world: World, waves: Sequence[Wave]) -> dict[int, tuple[int, ...]]:
    """Return, by number of the unit (counted through the waves), the units whose room it needs, or that it follows.

    A unit depends on the earlier units that leave its targets when without their leaving it would have no room.
    """
    before: list[tuple[int, Unit]] = []
    needs: dict[int, tuple[int, ...]] = {}
    number = 0
    for wave in waves:
        for offset, unit in enumerate(wave.units):
            targets = {target for _, _, target in unit.legs}
            keys = {key for key, _, _ in unit.legs}
            leaving = [n for n, other in before if targets & {source for _, source, _ in other.legs}]
            twice = [n for n, other in before if keys & {key for key, _, _ in other.legs}]
            needed = leaving if leaving and not _fits_without(problem, world, unit, targets, before) else []
            needs[number + offset] = tuple(sorted({*needed, *twice}))
        for unit in wave.units:
            before.append((number, unit))
            number += 1
        for unit in wave.units:
            for key, source, target in unit.legs:
                world = world.left(key, source).arrived(problem.movable[key].pod, target)
    return needs


def _fits_without(
    problem: Problem, world: World, unit: Unit, targets: set[str], before: Sequence[tuple[int, Unit]]
) -> bool:
    """Return whether the unit had room if those who left its targets were still there."""
    for _, other in before:
        for key, source, _ in other.legs:
            if source in targets and all(pod.key != key for pod in world.pods_at(source)):
                pod = problem.movable[key].pod
                world = replace(world, pods_on={**world.pods_on, source: (*world.pods_at(source), pod)})
    return started(problem, world, unit) is not None
