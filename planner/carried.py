"""Moves in an order that works, carried out: what is admitted then, and what was reached of each objective."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from msgspec import structs

from planner.goal import in_order
from planner.models.solve import (
    Proposal,
    SolveStatus,
)
from planner.order import Unit, moved
from planner.plan import Phase
from planner.problem import Problem
from planner.world import World

TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Solution:
    """Moves in an order that works, and who is admitted after them.

    Attributes
    ----------
    admits
        (demand key, node) in an order that works.
    world
        The cluster after all of it.
    tangled
        Demands that would have had room, if only the moves for it could be put into an order.
    interrupted
        True when somebody broke off the search for better.
    """

    units: tuple[Unit, ...]
    admits: tuple[tuple[str, str], ...]
    world: World
    phases: tuple[Phase, ...]
    status: SolveStatus
    seconds: float
    tangled: frozenset[str] = frozenset()
    interrupted: bool = False


def carry_out(
    problem: Problem, world: World, ordered: Sequence[Unit], admits: Mapping[str, str]
) -> tuple[World, tuple[tuple[str, str], ...]] | None:
    """Return the world after the moves and the admissions that then have room; None when a move has none."""
    for unit in ordered:
        after = moved(problem, world, unit)
        if after is None:
            return None
        world = after
    by_key = {demand.key: demand for demand in problem.demands}
    waiting = sorted((by_key[key] for key in admits), key=lambda d: (-d.need.gpus, in_order(d.key)))
    placed: list[tuple[str, str]] = []
    while waiting:
        fits = next((d for d in waiting if world.refusal(d.pod, d.need, admits[d.key]) is None), None)
        if fits is None:
            break
        world = world.arrived(fits.pod, admits[fits.key])
        placed.append((fits.key, admits[fits.key]))
        waiting.remove(fits)
    return world, tuple(placed)


def solution_of(
    ordered: Sequence[Unit],
    carried: tuple[World, tuple[tuple[str, str], ...]],
    proposal: Proposal,
    status: SolveStatus,
    began: float,
    tangled: frozenset[str] = frozenset(),
) -> Solution:
    """Return moves that were carried out as a solution; `carried` is what `carry_out` returned."""
    world, placed = carried
    spent = time.monotonic() - began
    return Solution(tuple(ordered), placed, world, proposal.phases, status, spent, tangled)


def gpu_nodes(problem: Problem, world: World) -> list[str]:
    """Return the nodes that offer GPUs which somebody of the problem holds or wants."""
    resources = {mover.need.resource for mover in problem.movable.values()}
    resources |= {demand.need.resource for demand in problem.demands}
    return sorted(
        name for name, node in world.nodes.items() if any(node.allocatable.count(resource) for resource in resources)
    )


def filled(problem: Problem, found: Solution) -> Solution:
    """Return the solution that also admits, after its moves, what still has room then."""
    placed, after = dict(found.admits), found.world
    for demand in problem.demands:
        if demand.key in placed or demand.group is not None:
            continue
        need = demand.need
        roomy = (n for n in sorted(after.nodes) if after.state(n, need.resource).free >= need.gpus)
        node = next((n for n in roomy if after.refusal(demand.pod, need, n) is None), None)
        if node is not None:
            after = after.arrived(demand.pod, node)
            placed[demand.key] = node
    phases = phases_reached(problem, found.phases, found.units, placed.keys())
    return replace(found, admits=tuple(placed.items()), world=after, phases=phases)


def phases_reached(
    problem: Problem, before: Sequence[Phase], units: Sequence[Unit], placed: Set[str]
) -> tuple[Phase, ...]:
    """Return the phases with what the moves and admissions in fact reach, and the bounds that were proved."""
    keys = [key for unit in units for key, _, _ in unit.legs]
    values: dict[str, float] = {"replicas moved": len(keys)}
    movers = [problem.movable[key] for key in keys]
    values["reload"] = sum(mover.need.gpus * mover.reload_seconds for mover in movers)
    for priority in {demand.priority for demand in problem.demands}:
        there = [d.need.gpus for d in problem.demands if d.priority == priority and d.key in placed]
        values[f"GPUs admitted at priority {priority}"] = sum(there)
        above = sum(mover.pod.spec.priority > priority for mover in movers)
        values[f"replicas moved above priority {priority}"] = above
    phases = []
    for phase in before:
        value = values.get(phase.name, phase.value)
        same = abs(value - phase.value) < TOLERANCE
        phases.append(phase if same else structs.replace(phase, value=float(value), status=SolveStatus.FEASIBLE.value))
    return tuple(phases)
