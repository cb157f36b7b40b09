"""Leave out moves that a plan without proof makes for nothing, or for demand of a lower priority than the pod's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from planner.goal import in_order
from planner.order import Unit, ended, moved
from planner.parts import connected_parts
from planner.problem import Demand, Problem
from planner.world import World

# So many moves are tried to do without; beyond, only those of pods above the lowest demand that is admitted.
MOST_TRIES = 150

Places = tuple[tuple[Demand, str], ...]


def pruned(
    problem: Problem, world: World, units: Sequence[Unit], places: Sequence[tuple[Demand, str]]
) -> tuple[tuple[Unit, ...], Places]:
    """Return the units that are needed, in their order, and the admissions that then have room.

    A unit is needed when without it some demand of the priority of its pods, or of a higher one, is not admitted.
    """
    kept: list[Unit] = []
    admitted: list[tuple[Demand, str]] = []
    lowest = min((demand.priority for demand, _ in places), default=0)
    for own_units, own_places in _parts(world, units, places):
        found = _needed(problem, world, own_units, own_places, lowest)
        kept += found[0]
        admitted += found[1]
    ranks = {id(unit): number for number, unit in enumerate(units)}
    return tuple(sorted(kept, key=lambda unit: ranks[id(unit)])), tuple(admitted)


def _parts(
    world: World, units: Sequence[Unit], places: Sequence[tuple[Demand, str]]
) -> list[tuple[list[Unit], list[tuple[Demand, str]]]]:
    """Return units and admissions that share nodes; all together where rules between pods may join them."""
    if world.has_rules:
        return [(list(units), list(places))]
    bundles = [*(sorted(unit.nodes) for unit in units), *([node] for _, node in places)]
    part_of = {node: number for number, part in enumerate(connected_parts(bundles)) for node in part}
    parts: dict[int, tuple[list[Unit], list[tuple[Demand, str]]]] = {n: ([], []) for n in part_of.values()}
    for unit in units:
        parts[part_of[min(unit.nodes)]][0].append(unit)
    for demand, node in places:
        parts[part_of[node]][1].append((demand, node))
    return list(parts.values())


def _needed(
    problem: Problem, world: World, units: list[Unit], places: list[tuple[Demand, str]], lowest: int
) -> tuple[list[Unit], list[tuple[Demand, str]]]:
    times = Counter(key for unit in units for key, _, _ in unit.legs)
    tries = 0
    dropped = True
    # A move that was needed for another one is not needed any more when that one is left out.
    while dropped:
        dropped = False
        for unit in sorted(units, key=lambda u: (-_priority(problem, u), u.legs)):
            # A pod that moves twice moves through a buffer; without one of its moves the other has no beginning.
            if all(unit is not other for other in units) or any(times[key] > 1 for key, _, _ in unit.legs):
                continue
            if tries >= MOST_TRIES and _priority(problem, unit) <= lowest:
                continue
            tries += 1
            rest = [other for other in units if other is not unit]
            own = [place for place in places if place[0].priority >= _priority(problem, unit)]
            kept, after = _carried(problem, world, rest, unit.nodes)
            if len(with_room(after, own)) == len(own):
                units, places = kept, with_room(after, places)
                dropped = True
    return units, places


def _priority(problem: Problem, unit: Unit) -> int:
    return max(problem.movable[key].pod.spec.priority for key, _, _ in unit.legs)


def _carried(
    problem: Problem, world: World, units: Sequence[Unit], changed: frozenset[str]
) -> tuple[list[Unit], World]:
    """Return the units that have room at their time, and the world after them.

    Parameters
    ----------
    changed
        Nodes that are not as they were when all the units had room. Where no rules reach further, only units that touch
        one of them are judged anew.
    """
    kept: list[Unit] = []
    lost: set[str] = set()
    for unit in units:
        after: World | None
        if any(key in lost for key, _, _ in unit.legs):
            after = None
        elif world.has_rules or unit.nodes & changed:
            after = moved(problem, world, unit)
        else:
            after = _moved_as_before(problem, world, unit)
        if after is None:
            lost.update(key for key, _, _ in unit.legs)
            changed |= unit.nodes
        else:
            kept.append(unit)
            world = after
    return kept, world


def _moved_as_before(problem: Problem, world: World, unit: Unit) -> World:
    for key, source, target in unit.legs:
        if source != target:
            world = world.arrived(problem.movable[key].pod, target)
    return ended(problem, world, unit)


def with_room(world: World, places: Sequence[tuple[Demand, str]]) -> list[tuple[Demand, str]]:
    """Return the admissions that have room, those of higher priority first; groups whole or not at all."""
    left = sorted(places, key=lambda place: (-place[0].priority, -place[0].need.gpus, in_order(place[0].key)))
    while True:
        placed, missing, after = [], set[str](), world
        for demand, node in left:
            if after.refusal(demand.pod, demand.need, node) is None:
                after = after.arrived(demand.pod, node)
                placed.append((demand, node))
            elif demand.group is not None:
                missing.add(demand.group)
        broken = {demand.key for demand, _ in placed if demand.group in missing}
        if not broken:
            return placed
        left = [place for place in placed if place[0].key not in broken]
