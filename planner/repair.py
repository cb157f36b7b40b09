"""A proposal whose moves have no order: each tangle is untied by itself, with buffers, or left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from planner.carried import Solution, carry_out, gpu_nodes, phases_reached, solution_of
from planner.models.solve import (
    Proposal,
    SolveStatus,
)
from planner.options import PlanOptions
from planner.order import NoOrder, Unit, as_far_as_possible, sequence
from planner.parts import connected_parts
from planner.problem import Demand, Problem
from planner.search import MAX_DEMANDS, Found, Search
from planner.world import World

# A tangle that is repaired inside a large problem may use so many nodes with free GPUs as buffers.
BUFFERS = 3
# One tangle is not searched longer than this.
MOST_LOCAL_SECONDS = 3.0


def repaired(
    problem: Problem,
    world: World,
    options: PlanOptions,
    proposal: Proposal,
    began: float,
    left: Callable[[], float],
) -> Solution:
    """Return the proposal with each tangle untied by itself, buffers included, or left out where that fails."""
    moves, admits = dict(proposal.moves), dict(proposal.admits)
    ordered = sequence(problem, world, moves, proposal.turns)
    stuck = tuple(ordered.pods) if isinstance(ordered, NoOrder) else ()
    tangles = _tangles(problem, moves, stuck)
    untied: list[Unit] = []
    extra, tangled = 0, set[str]()
    for number, pods in enumerate(tangles):
        own_nodes = {problem.movable[key].pod.node for key in pods} | {moves[key] for key in pods}
        own_demands = [demand for demand in problem.demands if admits.get(demand.key) in own_nodes]
        knot = {key: moves.pop(key) for key in pods}
        found = None
        if not problem.groups.keys() & {problem.movable[key].unit for key in pods}:
            touched = set(admits.values()) | set(moves.values()) | {problem.movable[key].pod.node for key in moves}
            nodes = sorted(own_nodes) + _buffers(problem, world, options, touched | own_nodes, own_demands)
            seconds = left() / (len(tangles) - number)
            found = _search_locally(problem, world, options, nodes, own_demands, seconds)
        if found is None or len(found.admits) < len(own_demands):
            untied += as_far_as_possible(problem, world, knot)
            continue
        for demand in own_demands:
            del admits[demand.key]
        untied += found.units
        admits |= dict(found.admits)
        extra += sum(len(unit.legs) for unit in found.units) - len(pods)
    rest = sequence(problem, world, moves, proposal.turns)
    units = [*untied, *(rest if not isinstance(rest, NoOrder) else ())]
    carried = carry_out(problem, world, units, admits) or carry_out(problem, world, (), admits)
    if carried is None:
        raise RuntimeError("doing nothing cannot be carried out")
    placed = {key for key, _ in carried[1]}
    tangled |= set(admits) - placed
    limit = options.max_moves
    within = limit is None or sum(len(unit.legs) for unit in units) <= limit
    if not within:
        return nothing_moved(problem, world, proposal, began)
    proved = not tangled and extra == 0 and proposal.exact and proposal.status is SolveStatus.OPTIMAL
    status = SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE
    phases = phases_reached(problem, proposal.phases, units, placed)
    return solution_of(units, carried, replace(proposal, phases=phases), status, began, frozenset(tangled))


def _tangles(problem: Problem, moves: Mapping[str, str], stuck: Sequence[str]) -> list[list[str]]:
    bundles = [(f"pod {key}", f"node {problem.movable[key].pod.node}", f"node {moves[key]}") for key in stuck]
    return sorted(sorted(name[4:] for name in part if name.startswith("pod ")) for part in connected_parts(bundles))


def _buffers(
    problem: Problem, world: World, options: PlanOptions, taken: set[str], demands: Sequence[Demand]
) -> list[str]:
    resource = next((demand.need.resource for demand in demands), "")
    free = (
        (-world.state(name, resource).free, name)
        for name in gpu_nodes(problem, world)
        if resource and name not in taken and not world.nodes[name].unschedulable and world.nodes[name].ready
    )
    return [name for gpus, name in sorted(free)[:BUFFERS] if gpus]


def _search_locally(
    problem: Problem,
    world: World,
    options: PlanOptions,
    nodes: Sequence[str],
    demands: Sequence[Demand],
    seconds: float,
) -> Found | None:
    if len(demands) > MAX_DEMANDS or options.max_moves_per_workload is not None:
        return None
    pods = [key for key, mover in problem.movable.items() if mover.pod.node in nodes and mover.group is None]
    return Search(problem, world, options, nodes, pods, demands).best(min(seconds, MOST_LOCAL_SECONDS))


def nothing_moved(problem: Problem, world: World, proposal: Proposal, began: float) -> Solution:
    """Return the solution that only admits what has room as things are."""
    carried = carry_out(problem, world, (), {})
    if carried is None:
        raise RuntimeError("doing nothing cannot be carried out")
    phases = phases_reached(problem, proposal.phases, (), set())
    found = replace(proposal, phases=phases)
    return solution_of((), carried, found, SolveStatus.FEASIBLE, began, frozenset(proposal.admits))
