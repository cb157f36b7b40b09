"""Why instances that are wanted will not be there, found by asking again under looser conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from islander.policy.reasons import MOVE_REASONS, MoveCode
from planner.interruption import Interruption
from planner.mig.demand import Demand, geometries_in, product_of
from planner.mig.fleet import Fleet
from planner.mig.plan import UnmetDemand
from planner.mig.problem import Problem
from planner.models.mig_choice import Chosen, most_met
from planner.models.mig_objectives import MET
from planner.models.solve import SolveStatus
from planner.options import SolveLimits

# Of the time of the plan, what each question may take.
SHARE_OF_QUESTION = 0.2


def unmet_demand(
    fleet: Fleet,
    problem: Problem,
    chosen: Chosen,
    limits: SolveLimits,
    stop: Interruption,
    with_drains: Callable[[], Problem] | None,
) -> list[UnmetDemand]:
    """Return what is missing of each demand, and the first looser condition that would bring more of it.

    Parameters
    ----------
    with_drains
        Makes the problem in which every pod that may move may be drained; None when that is allowed already.
    """
    short = SolveLimits(limits.time_limit_seconds * SHARE_OF_QUESTION, limits.workers, limits.seed)
    missing = [
        (d, demand, demand.count - chosen.met(d))
        for d, demand in enumerate(problem.demands)
        if not demand.running and demand.count > chosen.met(d)
    ]
    if not missing:
        return []
    ignoring = most_met(problem, short, stop) if problem.wholes else None
    looser = with_drains() if with_drains is not None else None
    drained = most_met(looser, short, stop) if looser is not None and looser.sliced != problem.sliced else None
    status = {phase.name: phase.status for phase in chosen.reached.phases}
    found = []
    for d, demand, count in missing:
        if not demand.accepts:
            code = MoveCode.NO_SUCH_PROFILE
        elif status.get(f"{MET} {demand.priority}") != SolveStatus.OPTIMAL:
            code = MoveCode.NO_ANSWER_IN_TIME
        elif drained is not None and drained.met(d) > chosen.met(d) and _more(drained, ignoring, d):
            code = MoveCode.NEEDS_DRAIN
        elif ignoring is not None and ignoring.met(d) > chosen.met(d):
            code = MoveCode.ISLAND_NEEDED
        else:
            code = MoveCode.NO_GPU_TO_CUT
        message = _message(fleet, problem, d, demand, code)
        found.append(UnmetDemand(demand.profile, count, code.value, message, demand.source, demand.priority))
    return found


def _more(drained: Chosen, ignoring: Chosen | None, demand: int) -> bool:
    """Return whether drains bring what sparing nobody's islands alone does not."""
    return ignoring is None or drained.met(demand) > ignoring.met(demand)


def _message(fleet: Fleet, problem: Problem, d: int, demand: Demand, code: MoveCode) -> str:
    sentence = MOVE_REASONS[code].sentence
    if code is MoveCode.NO_SUCH_PROFILE:
        return f"{sentence}; {_profiles(fleet) or _unknown_products(fleet)}"
    if code is not MoveCode.NO_GPU_TO_CUT:
        return sentence
    products = {product for product, _ in demand.accepts}
    there = [node for node in fleet.nodes if product_of(node.node) in products]
    if any(node.takes_pods for node in there) and not any(runs[d] for runs in problem.sites):
        how = f" and MIG strategy {demand.strategy}" if demand.strategy else ""
        return f"{sentence}: no node that takes pods fits the selectors and tolerations{how} of the demand"
    reasons = Counter(
        node.closed.code.value for node in fleet.nodes if node.closed is not None and product_of(node.node) in products
    )
    told = ", ".join(f"{name} {number}" for name, number in sorted(reasons.items()))
    return f"{sentence}; nodes of its product that are no targets: {told}" if told else sentence


def _profiles(fleet: Fleet) -> str:
    there: Mapping[str, list[str]] = {
        product: [profile.name for profile in geometry.profiles] for product, geometry in geometries_in(fleet).items()
    }
    return "; ".join(f"{product} has {', '.join(profiles)}" for product, profiles in there.items())


def _unknown_products(fleet: Fleet) -> str:
    products = sorted({product_of(node.node) or "unknown" for node in fleet.nodes})
    return f"no recommendation for {', '.join(products)}" if products else "the cluster has no NVIDIA GPU"
