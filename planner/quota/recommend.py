"""Quotas for a cluster: what is asked for, what the hardware has, and what the solution says per queue and flavor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings, Shape
from planner.models.outcome import OnProgress
from planner.models.quota_case import QuotaCase
from planner.models.quota_search import QuotaSolution, solve
from planner.quota.baseline import Demands, demands_of, today_of
from planner.quota.case import Pool, case_of, flavors_for, pools_of, shared_pools
from planner.quota.flavors import FlavorPlan, flavor_plan
from planner.quota.fleet import Fleet, most_gpus
from planner.quota.membership import Membership
from planner.quota.options import QuotaOptions
from planner.quota.policy_file import QuotaPolicy
from planner.quota.recommendation import COHORT, QUEUE, Guarantee, Missing, Place, Recommendation
from planner.quota.rooms import Kind
from planner.quota.teams import QueueDemand, ReplicaDemand


def recommend(
    snapshot: ClusterSnapshot, settings: PolicySettings, options: QuotaOptions, on_progress: OnProgress | None = None
) -> Recommendation:
    """Return the quotas that a snapshot, and a policy where there is one, ask for."""
    membership = membership_of(snapshot, options.policy)
    asked = demands_of(snapshot, settings, options.policy, membership)
    plan = flavor_plan(snapshot, settings, asked.queues)
    shapes = {replicas.shape for demand in asked.queues for replicas in demand.replicas}
    fleet = Fleet.of(snapshot, settings, plan, membership, options.spare, shapes)
    known = {queue.name for queue in snapshot.cluster_queues}
    asked, plan, reserve = _with_what_exists(asked, options.policy, known, plan, fleet)
    kinds = _kinds(asked.queues, reserve)
    rooms = fleet.rooms(kinds)
    sizes = {name: most_gpus(room, kinds) for name, room in rooms.items()}
    gone = frozenset(n for f in range(len(plan.flavors)) for n in fleet.biggest(sizes, f, options.spare))
    pools = shared_pools(snapshot, settings, plan)
    case = case_of(snapshot, settings, asked.queues, pools, plan, fleet, kinds, reserve, rooms, gone)
    solution = solve(case, options.limits, on_progress)
    return Recommendation(
        demands=asked.queues,
        flavors=plan,
        fleet=fleet,
        kinds=kinds,
        rooms=rooms,
        sizes=sizes,
        gone=gone,
        guarantees=_guarantees(snapshot, settings, asked.queues, pools, plan, case, solution),
        missing=_missing(asked.queues, case, solution),
        reserve=tuple(
            (case.kinds[s].shape, pods, pods - solution.short[s]) for s, pods in sorted(case.reserve.items())
        ),
        reserved=tuple(
            Place(node, case.kinds[s].shape, pods) for (s, _, node), pods in sorted(solution.reserved.items())
        ),
        solution=solution,
        warnings=asked.warnings,
    )


def membership_of(snapshot: ClusterSnapshot, policy: QuotaPolicy | None) -> Membership:
    """Return whose pods quota counts once the plan is done.

    Where Kueue is not in use yet, the pods of the teams. Where it is, a pod that names no queue stays outside, whoever
    runs it; one that names a queue which the plan makes is counted.
    """
    teams = policy.teams if policy is not None else []
    if snapshot.cluster_queues:
        doors = {(name, team.queue): team.queue for team in teams for name in team.namespaces}
        return Membership.of(snapshot, {}, doors)
    if policy is None:
        return Membership.of(snapshot, {pod.namespace: pod.namespace for pod in snapshot.pods})
    return Membership.of(snapshot, {name: team.queue for team in teams for name in team.namespaces})


def _with_what_exists(
    asked: Demands, policy: QuotaPolicy | None, known: Collection[str], plan: FlavorPlan, fleet: Fleet
) -> tuple[Demands, FlavorPlan, dict[Shape, int]]:
    """Return demands, flavors and reserve with what the hardware does not have left out.

    Replicas are content without an island where no node of theirs has one of that size, and say so if they insist; a
    new queue lists only flavors that hold a replica of it.
    """
    warnings = list(asked.warnings)
    holding: dict[Shape, frozenset[int]] = {}

    def held(shape: Shape) -> frozenset[int]:
        if shape not in holding:
            holding[shape] = fleet.flavors_that_hold(shape)
        return holding[shape]

    queues, of_queue = [], dict(plan.of_queue)
    for queue in asked.queues:
        replicas = []
        useful: set[int] = set()
        for demand in queue.replicas:
            flavors = set(flavors_for(demand, plan.of_queue[queue.queue], plan))
            without = Shape(demand.shape.gpus, island=False)
            if demand.island_if_any and not flavors & held(demand.shape) and flavors & held(without):
                warnings.append(
                    f"queue {queue.queue}: no node has an island of {demand.shape.gpus}; replicas of team "
                    f"{demand.team} are counted without one"
                )
                demand = replace(demand, shape=without)
            useful |= flavors & held(demand.shape)
            replicas.append(replace(demand, fits=bool(flavors & held(demand.shape))))
        if not queue.limited and not any(demand.fits for demand in replicas):
            # A queue of today keeps its quota as far as there are GPUs, although its pods of today do not fit.
            replicas.append(ReplicaDemand(queue.queue, Shape(1, island=False), source="no pods that fit"))
        queues.append(replace(queue, replicas=tuple(replicas)))
        if queue.queue not in known and useful:
            of_queue[queue.queue] = tuple(f for f in of_queue[queue.queue] if f in useful)
    reserve = {
        Shape(gpus, island=gpus > 1 and bool(held(Shape(gpus, island=True)))): pods
        for gpus, pods in sorted((policy.reserve if policy is not None else {}).items())
        if pods
    }
    return Demands(tuple(queues), tuple(warnings)), replace(plan, of_queue=of_queue), reserve


def _kinds(queues: Sequence[QueueDemand], reserve: Mapping[Shape, int]) -> tuple[Kind, ...]:
    """Return a kind per shape; its CPU and memory are those of the hungriest replica of that shape."""
    cpu: defaultdict[Shape, int] = defaultdict(int)
    memory: defaultdict[Shape, int] = defaultdict(int)
    for demand in (demand for queue in queues for demand in queue.replicas):
        cpu[demand.shape] = max(cpu[demand.shape], demand.cpu_milli)
        memory[demand.shape] = max(memory[demand.shape], demand.memory_bytes)
    for shape in (*reserve, Shape(1, island=False)):
        cpu[shape] += 0
    return tuple(Kind(shape, cpu[shape], memory[shape]) for shape in sorted(cpu))


def _guarantees(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    queues: Sequence[QueueDemand],
    pools: Sequence[Pool],
    plan: FlavorPlan,
    case: QuotaCase,
    solution: QuotaSolution,
) -> tuple[Guarantee, ...]:
    known = {queue.name: today_of(queue, settings) for queue in snapshot.cluster_queues}
    shared = pools_of(snapshot, settings)
    demand_of = [replicas for queue in queues for replicas in queue.replicas]
    places: defaultdict[tuple[int, int], defaultdict[tuple[str, Shape], int]] = defaultdict(lambda: defaultdict(int))
    for (c, f, node), pods in solution.places.items():
        places[case.claims[c].holder, f][node, case.kinds[case.claims[c].kind].shape] += pods
    # The baseline of a claim is counted in its flavors in their order.
    left = [claim.baseline for claim in case.claims]
    found = []
    for h, holder in enumerate(case.holders):
        is_queue = h < len(queues)
        listed = known.get(holder.name, {}) if is_queue else shared[holder.name]
        for f in holder.flavors:
            flavor = plan.flavors[f]
            baseline, inside = 0, []
            for c, claim in case.claims_of(h):
                replicas = solution.replicas.get((c, f), 0)
                covered = min(left[c], replicas)
                left[c] -= covered
                baseline += covered * case.gpus(claim)
                if replicas and is_queue:
                    inside.append((demand_of[c], replicas))
            found.append(
                Guarantee(
                    kind=QUEUE if is_queue else COHORT,
                    name=holder.name,
                    flavor=flavor.name,
                    resource=flavor.resource,
                    island=holder.island,
                    today=listed.get((flavor.name, flavor.resource)),
                    nominal=solution.nominal[h, f],
                    baseline=baseline,
                    replicas=tuple(inside),
                    places=tuple(Place(node, shape, pods) for (node, shape), pods in sorted(places[h, f].items())),
                )
            )
    return tuple(found)


def _missing(queues: Sequence[QueueDemand], case: QuotaCase, solution: QuotaSolution) -> tuple[Missing, ...]:
    owners = [(queue.queue, replicas) for queue in queues for replicas in queue.replicas]
    return tuple(
        Missing(queue, demand, solution.missing[c]) for c, (queue, demand) in enumerate(owners) if solution.missing[c]
    )
