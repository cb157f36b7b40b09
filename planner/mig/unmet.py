"""Why instances that are wanted will not be there, found by asking again under looser conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from islander.policy.reasons import MOVE_REASONS, MoveCode
from planner.interruption import Interruption
from planner.mig.demand import Demand, geometries_in, too_new
from planner.mig.fleet import MIXED, SINGLE, Fleet, FleetNode
from planner.mig.gpus import Use
from planner.mig.plan import UnmetDemand
from planner.mig.problem import Problem
from planner.mig.tolerance import product_of
from planner.models.mig_choice import Chosen, most_met
from planner.models.mig_objectives import MET
from planner.models.solve import SolveStatus
from planner.options import SolveLimits

# Of the time of the plan, what each question may take.
SHARE_OF_QUESTION = 0.2

_USES: Mapping[Use, str] = {
    Use.IDLE: "idle",
    Use.SLICED: "cut and in use",
    Use.WHOLE: "in use",
    Use.UNSURE: "perhaps in use",
    Use.SICK: "not healthy",
}


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
            code = MoveCode.NO_GPU_TO_CUT if demand.beyond else MoveCode.NO_SUCH_PROFILE
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
    if not demand.accepts:
        return f"{sentence}: one pod asks for {demand.beyond} instances, more than any node can have"
    products = {product for product, _ in demand.accepts}
    there = [node for node in fleet.nodes if product_of(node.node) in products]
    taking = [node for node in there if node.takes_pods]
    if taking and not any(runs[d] for runs in problem.sites):
        return f"{sentence}: {_why_none_serves(demand, taking)}"
    told = [_listed("nodes of its product that are no targets", (n.closed.code.value for n in there if n.closed))]
    told.append(_listed("GPUs of its product on nodes that may change, before the plan", _uses(there)))
    if any(node.closed is None and node.strategy == SINGLE for node in there):
        told.append("with strategy single only a node whose GPUs are all idle is cut")
    return "; ".join((sentence, *filter(None, told)))


def _why_none_serves(demand: Demand, nodes: Sequence[FleetNode]) -> str:
    """Return why no node of the product that takes pods may serve a demand."""
    if all(demand.strategy and demand.strategy != (node.strategy or MIXED) for node in nodes):
        return f"no node of its product has MIG strategy {demand.strategy}"
    if all(any(too_new(product, profile, node) for product, profile in demand.accepts) for node in nodes):
        return MOVE_REASONS[MoveCode.DRIVER_TOO_OLD].sentence
    return "no node that takes pods fits its selectors, tolerations, MIG strategy and driver together"


def _uses(nodes: Iterable[FleetNode]) -> Iterator[str]:
    """Yield for each GPU of the nodes that may change who uses it."""
    for node in nodes:
        for gpu in node.gpus if node.closed is None else ():
            yield _USES[Use.SLICED if gpu.pods and gpu.instances else gpu.use]


def _listed(what: str, kinds: Iterable[str]) -> str:
    told = ", ".join(f"{kind} {number}" for kind, number in sorted(Counter(kinds).items()))
    return f"{what}: {told}" if told else ""


def _profiles(fleet: Fleet) -> str:
    there: Mapping[str, list[str]] = {
        product: [profile.name for profile in geometry.profiles] for product, geometry in geometries_in(fleet).items()
    }
    return "; ".join(f"{product} has {', '.join(profiles)}" for product, profiles in there.items())


def _unknown_products(fleet: Fleet) -> str:
    products = sorted({product_of(node.node) or "unknown" for node in fleet.nodes})
    return f"no recommendation for {', '.join(products)}" if products else "the cluster has no NVIDIA GPU"
