"""From a problem to an ordered solution: propose, put in order, and where that fails search exactly."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from msgspec import structs

from islander.policy.settings import DemandMix
from planner.goal import in_order
from planner.interruption import Interruption, SearchInterrupted
from planner.models.solve import (
    OnProgress,
    Proposal,
    SolveStatus,
    classes_for,
    is_large,
    propose,
    propose_roughly,
    propose_thinly,
)
from planner.options import PlanOptions
from planner.order import NoOrder, Unit, as_far_as_possible, moved, sequence
from planner.parts import connected_parts
from planner.plan import Phase
from planner.problem import Demand, Problem
from planner.pruning import pruned, with_room
from planner.search import MAX_DEMANDS, Found, Search
from planner.stepwise import Stepwise
from planner.world import World

# A problem of this size is searched wholly when the first proposal has no order.
MAX_PODS, MAX_NODES = 16, 10
# A tangle that is repaired inside a large problem may use so many nodes with free GPUs as buffers.
BUFFERS = 3
# One tangle is not searched longer than this.
MOST_LOCAL_SECONDS = 3.0
TOLERANCE = 1e-6
# So the objectives begin that say what is admitted.
ADMITTED = "GPUs admitted"
# A large problem is proposed for so many times without regard to scarce CPU and memory.
ROUGH_TRIES = 3
# Each time takes at most this share of the time that is left, and is given at least that share of all.
SHARE_OF_ROUGH = 0.7
LEAST_SHARE = 0.1


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


def solve(
    problem: Problem,
    world: World,
    options: PlanOptions,
    mix: DemandMix,
    on_progress: OnProgress | None = None,
    stop: Interruption | None = None,
) -> Solution:
    """Return the best solution that the time allows; its status says whether that is proved.

    Once `stop` is asked it is what was found by then, at worst what fits without moves.
    """
    stop = stop or Interruption()
    began = time.monotonic()
    # What was proposed before, and did not fit as a whole, comes first.
    proposals: list[Proposal] = []
    try:
        with stop.searching():
            _propose(problem, world, options, mix, on_progress, proposals)
            if not proposals[-1].interrupted:
                found = _in_order(problem, world, options, proposals[-1], began, stop)
                if found.status is not SolveStatus.OPTIMAL and not options.empty_nodes:
                    found = _pruned(problem, world, _best_way(problem, world, options, proposals, found, began))
                return replace(found, interrupted=stop.asked and found.status is not SolveStatus.OPTIMAL)
    except SearchInterrupted:
        pass
    if not proposals:
        spent = time.monotonic() - began
        return _filled(problem, Solution((), (), world, (), SolveStatus.FEASIBLE, spent, interrupted=True))
    found = replace(_as_far_as_it_goes(problem, world, proposals[-1], began), interrupted=True)
    return found if options.empty_nodes else _pruned(problem, world, found)


def _best_way(
    problem: Problem,
    world: World,
    options: PlanOptions,
    proposals: Sequence[Proposal],
    found: Solution,
    began: float,
) -> Solution:
    """Return the solution that admits most, of the one found, what the proposals give by themselves, and none of them.

    Where it is proved that no more is admitted there is nothing to look for.
    """
    is_open = any(phase.name.startswith(ADMITTED) and phase.value < phase.bound - TOLERANCE for phase in found.phases)
    if not (is_open or not found.phases) or len(found.admits) == len(problem.demands):
        return found
    ways = [found]
    if options.max_moves is None and options.max_moves_per_workload is None:
        made = Stepwise.of(problem, world)
        phases = _phases_reached(problem, found.phases, made.units, {key for key, _ in made.admits})
        ways.append(replace(found, units=tuple(made.units), admits=tuple(made.admits), world=made.world, phases=phases))
        ways.extend(
            _as_far_as_it_goes(problem, world, proposal, began)
            for proposal in proposals
            if time.monotonic() - began < options.limits.time_limit_seconds
        )
    return max(ways, key=lambda way: _admitted_gpus(problem, way))


def _admitted_gpus(problem: Problem, found: Solution) -> tuple[int, ...]:
    """Return the GPUs that are admitted, by tier."""
    gpus = Counter({demand.priority: 0 for demand in problem.demands})
    by_key = {demand.key: demand for demand in problem.demands}
    for key, _ in found.admits:
        gpus[by_key[key].priority] += by_key[key].need.gpus
    return tuple(gpus[tier] for tier in sorted(gpus, reverse=True))


def _as_far_as_it_goes(problem: Problem, world: World, proposal: Proposal, began: float) -> Solution:
    """Return the moves of a proposal that find room one after the other, and what then is admitted."""
    units = as_far_as_possible(problem, world, proposal.moves, proposal.turns)
    by_key = {demand.key: demand for demand in problem.demands}
    carried = carry_out(problem, world, units, {})
    if carried is None:
        raise RuntimeError("moves that found room cannot be carried out")
    places = with_room(carried[0], [(by_key[key], node) for key, node in sorted(proposal.admits.items())])
    carried = carry_out(problem, world, units, {demand.key: node for demand, node in places}) or carried
    spent = time.monotonic() - began
    return _filled(problem, Solution(units, carried[1], carried[0], proposal.phases, SolveStatus.FEASIBLE, spent))


def _pruned(problem: Problem, world: World, found: Solution) -> Solution:
    """Return the solution without the moves that nothing needs."""
    by_key = {demand.key: demand for demand in problem.demands}
    units, places = pruned(problem, world, found.units, [(by_key[key], node) for key, node in found.admits])
    carried = carry_out(problem, world, units, {demand.key: node for demand, node in places})
    if carried is None:
        raise RuntimeError("the moves that are needed cannot be carried out")
    placed = {key for key, _ in carried[1]}
    phases = _phases_reached(problem, found.phases, units, placed)
    return replace(found, units=units, admits=carried[1], world=carried[0], phases=phases)


def _in_order(
    problem: Problem, world: World, options: PlanOptions, proposal: Proposal, began: float, stop: Interruption
) -> Solution:
    """Return the proposal in an order that works, or what an exact search or a repair makes of it."""

    def left() -> float:
        return 0.0 if stop.asked else max(0.2, options.limits.time_limit_seconds - (time.monotonic() - began))

    ordered = sequence(problem, world, proposal.moves, proposal.turns)
    carried = None if isinstance(ordered, NoOrder) else carry_out(problem, world, ordered, proposal.admits)
    if not isinstance(ordered, NoOrder) and carried is not None and len(carried[1]) == len(proposal.admits):
        proved = proposal.status is SolveStatus.OPTIMAL and proposal.exact
        if proved or not _small(problem, world, options):
            status = SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE
            return _solution(ordered, carried, proposal, status, began)
    if _small(problem, world, options):
        found = _searched(problem, world, options, proposal, left())
        if found is not None:
            return _of_found(problem, world, found, proposal, began)
    return _repaired(problem, world, options, proposal, began, left)


def _propose(
    problem: Problem,
    world: World,
    options: PlanOptions,
    mix: DemandMix,
    on_progress: OnProgress | None,
    proposals: list[Proposal],
) -> None:
    """Add proposals, the one to be carried out last.

    Of a large problem with scarce CPU or memory one without these is tried first, if it fits all the same.
    """
    classes = classes_for(problem, world, options)
    if not is_large(classes):
        proposals.append(propose(problem, world, options, mix, classes, on_progress))
        return
    whole = options.limits.time_limit_seconds
    began = time.monotonic()
    for number in range(ROUGH_TRIES):
        # Another seed finds another of the many equally good proposals, which may fit.
        seconds = max(LEAST_SHARE * whole, SHARE_OF_ROUGH * (whole - (time.monotonic() - began)))
        limits = replace(options.limits, seed=options.limits.seed + number, time_limit_seconds=seconds)
        rough = propose_roughly(problem, world, options, mix, limits, on_progress)
        proposals.append(rough)
        ordered = sequence(problem, world, rough.moves, rough.turns)
        carried = None if isinstance(ordered, NoOrder) else carry_out(problem, world, ordered, rough.admits)
        if rough.interrupted or (carried is not None and len(carried[1]) == len(rough.admits)):
            return
        if rough.status is not SolveStatus.OPTIMAL:
            break
    left = max(LEAST_SHARE * whole, whole - (time.monotonic() - began))
    rest = replace(options.limits, time_limit_seconds=left)
    proposals.append(propose_thinly(problem, world, options, mix, classes, rest, proposals[-1], on_progress))


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


def _solution(
    ordered: Sequence[Unit],
    carried: tuple[World, tuple[tuple[str, str], ...]],
    proposal: Proposal,
    status: SolveStatus,
    began: float,
    tangled: frozenset[str] = frozenset(),
) -> Solution:
    world, placed = carried
    spent = time.monotonic() - began
    return Solution(tuple(ordered), placed, world, proposal.phases, status, spent, tangled)


def _small(problem: Problem, world: World, options: PlanOptions) -> bool:
    nodes = _gpu_nodes(problem, world)
    return (
        len(problem.movable) <= MAX_PODS
        and len(nodes) <= MAX_NODES
        and len(problem.demands) <= MAX_DEMANDS
        and not options.empty_nodes
    )


def _gpu_nodes(problem: Problem, world: World) -> list[str]:
    resources = {mover.need.resource for mover in problem.movable.values()}
    resources |= {demand.need.resource for demand in problem.demands}
    return sorted(
        name for name, node in world.nodes.items() if any(node.allocatable.count(resource) for resource in resources)
    )


def _searched(problem: Problem, world: World, options: PlanOptions, proposal: Proposal, seconds: float) -> Found | None:
    nodes = _gpu_nodes(problem, world)
    ceiling = int(proposal.phases[0].bound + 1e-6) if proposal.exact and proposal.phases and problem.demands else None
    pods = [key for key, mover in problem.movable.items() if mover.pod.node in nodes]
    found = Search(problem, world, options, nodes, pods, problem.demands).best(seconds, ceiling)
    return found if found.complete or found.rank else None


def _of_found(problem: Problem, world: World, found: Found, proposal: Proposal, began: float) -> Solution:
    carried = carry_out(problem, world, found.units, {})
    if carried is None:
        raise RuntimeError("a sequence of the exact search cannot be carried out")
    after = carried[0]
    by_key = {demand.key: demand for demand in problem.demands}
    for key, node in found.admits:
        after = after.arrived(by_key[key].pod, node)
    status = SolveStatus.OPTIMAL if found.complete else SolveStatus.FEASIBLE
    tangled = frozenset(proposal.admits) - {key for key, _ in found.admits}
    better = replace(proposal, phases=_phases_of(problem, found, proposal))
    return _solution(found.units, (after, found.admits), better, status, began, tangled)


def _phases_of(problem: Problem, found: Found, proposal: Proposal) -> tuple[Phase, ...]:
    """Return the phases with what the search reached; what it does not look at is as good as it came out."""
    status = SolveStatus.OPTIMAL if found.complete else SolveStatus.FEASIBLE
    tiers = sorted({demand.priority for demand in problem.demands}, reverse=True)
    names: list[str] = []
    for tier, priority in enumerate(tiers):
        names.append(f"GPUs admitted at priority {priority}")
        if tier + 1 < len(tiers):
            names.append(f"replicas moved above priority {tiers[tier + 1]}")
    names += ["replicas moved", "reload"]
    bounds = {phase.name: phase.bound for phase in proposal.phases}
    phases = []
    for name, reached in zip(names, found.rank, strict=True):
        value = float(abs(reached))
        bound = value if found.complete else bounds.get(name, value)
        phases.append(Phase(name, value, bound, status.value, 0.0))
    return tuple(phases)


def _repaired(
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
        return _nothing(problem, world, proposal, began)
    proved = not tangled and extra == 0 and proposal.exact and proposal.status is SolveStatus.OPTIMAL
    status = SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE
    phases = _phases_reached(problem, proposal.phases, units, placed)
    return _solution(units, carried, replace(proposal, phases=phases), status, began, frozenset(tangled))


def _tangles(problem: Problem, moves: Mapping[str, str], stuck: Sequence[str]) -> list[list[str]]:
    bundles = [(f"pod {key}", f"node {problem.movable[key].pod.node}", f"node {moves[key]}") for key in stuck]
    return sorted(sorted(name[4:] for name in part if name.startswith("pod ")) for part in connected_parts(bundles))


def _buffers(
    problem: Problem, world: World, options: PlanOptions, taken: set[str], demands: Sequence[Demand]
) -> list[str]:
    resource = next((demand.need.resource for demand in demands), "")
    free = (
        (-world.state(name, resource).free, name)
        for name in _gpu_nodes(problem, world)
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


def without_moves(problem: Problem, world: World, found: Solution) -> Solution:
    """Return the solution that admits what has room as things are."""
    nothing = replace(found, units=(), admits=(), world=world, status=SolveStatus.FEASIBLE)
    return _filled(problem, nothing)


def _filled(problem: Problem, found: Solution) -> Solution:
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
    phases = _phases_reached(problem, found.phases, found.units, placed.keys())
    return replace(found, admits=tuple(placed.items()), world=after, phases=phases)


def _nothing(problem: Problem, world: World, proposal: Proposal, began: float) -> Solution:
    """Return the solution that only admits what has room as things are."""
    carried = carry_out(problem, world, (), {})
    if carried is None:
        raise RuntimeError("doing nothing cannot be carried out")
    phases = _phases_reached(problem, proposal.phases, (), set())
    found = replace(proposal, phases=phases)
    return _solution((), carried, found, SolveStatus.FEASIBLE, began, frozenset(proposal.admits))


def _phases_reached(
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
