"""From a problem to an ordered solution: propose, put in order, and where that fails search exactly."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from islander.policy.settings import DemandMix
from planner.carried import TOLERANCE, Solution, carry_out, filled, gpu_nodes, phases_reached, solution_of
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
from planner.order import NoOrder, as_far_as_possible, sequence
from planner.plan import Phase
from planner.problem import Problem
from planner.pruning import pruned, with_room
from planner.repair import repaired
from planner.search import MAX_DEMANDS, Found, Search
from planner.stepwise import Stepwise
from planner.world import World

__all__ = ["Solution", "carry_out", "solve", "without_moves"]

# A problem of this size is searched wholly when the first proposal has no order.
MAX_PODS, MAX_NODES = 16, 10
# So the objectives begin that say what is admitted.
ADMITTED = "GPUs admitted"
# A large problem is proposed for so many times without regard to scarce CPU and memory.
ROUGH_TRIES = 3
# Each time takes at most this share of the time that is left, and is given at least that share of all.
SHARE_OF_ROUGH = 0.7
LEAST_SHARE = 0.1


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
        return filled(problem, Solution((), (), world, (), SolveStatus.FEASIBLE, spent, interrupted=True))
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
        phases = phases_reached(problem, found.phases, made.units, {key for key, _ in made.admits})
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
    return filled(problem, Solution(units, carried[1], carried[0], proposal.phases, SolveStatus.FEASIBLE, spent))


def _pruned(problem: Problem, world: World, found: Solution) -> Solution:
    """Return the solution without the moves that nothing needs."""
    by_key = {demand.key: demand for demand in problem.demands}
    units, places = pruned(problem, world, found.units, [(by_key[key], node) for key, node in found.admits])
    carried = carry_out(problem, world, units, {demand.key: node for demand, node in places})
    if carried is None:
        raise RuntimeError("the moves that are needed cannot be carried out")
    placed = {key for key, _ in carried[1]}
    phases = phases_reached(problem, found.phases, units, placed)
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
            return solution_of(ordered, carried, proposal, status, began)
    if _small(problem, world, options):
        found = _searched(problem, world, options, proposal, left())
        if found is not None:
            return _of_found(problem, world, found, proposal, began)
    return repaired(problem, world, options, proposal, began, left)


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


def _small(problem: Problem, world: World, options: PlanOptions) -> bool:
    nodes = gpu_nodes(problem, world)
    return (
        len(problem.movable) <= MAX_PODS
        and len(nodes) <= MAX_NODES
        and len(problem.demands) <= MAX_DEMANDS
        and not options.empty_nodes
    )


def _searched(problem: Problem, world: World, options: PlanOptions, proposal: Proposal, seconds: float) -> Found | None:
    nodes = gpu_nodes(problem, world)
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
    return solution_of(found.units, (after, found.admits), better, status, began, tangled)


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


def without_moves(problem: Problem, world: World, found: Solution) -> Solution:
    """Return the solution that admits what has room as things are."""
    nothing = replace(found, units=(), admits=(), world=world, status=SolveStatus.FEASIBLE)
    return filled(problem, nothing)
