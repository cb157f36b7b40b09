"""From demands and nodes to quotas: the case for the model, and what its solution says per queue and flavor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from islander.cluster.queues import Cohort
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings, Shape
from planner.models.quotas import Claim, Holder, QuotaCase, QuotaSolution, solve
from planner.models.solve import OnProgress
from planner.quota.baseline import Demands, demands_of, today_of
from planner.quota.flavors import FlavorPlan, flavor_plan
from planner.quota.fleet import Fleet, most_gpus
from planner.quota.membership import Membership
from planner.quota.options import QuotaOptions
from planner.quota.policy_file import QuotaPolicy
from planner.quota.rooms import Kind, Room
from planner.quota.teams import QueueDemand, ReplicaDemand

QUEUE, COHORT = "ClusterQueue", "Cohort"


@dataclass(frozen=True, slots=True)
class Place:
    """Pods of one shape that a holder's guaranteed replicas have on a node."""

    node: str
    shape: Shape
    pods: int


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What one holder gets in one flavor.

    Attributes
    ----------
    kind
        ClusterQueue, or Cohort for a pool that its members share.
    island
        GPUs that the quota comes in multiples of.
    today
        GPUs of nominal quota now; None when the flavor is new to the holder.
    nominal
        GPUs of nominal quota that are recommended.
    baseline
        GPUs of baselines that are in it.
    replicas
        (demand, replicas) that the quota is for.
    """

    kind: str
    name: str
    flavor: str
    resource: str
    island: int
    today: int | None
    nominal: int
    baseline: int
    replicas: tuple[tuple[ReplicaDemand, int], ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """Replicas of a baseline that no quota can be given for."""

    queue: str
    demand: ReplicaDemand
    replicas: int


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Quotas, and what they stand on.

    Attributes
    ----------
    demands
        As they were solved: islands that no hardware has are no longer asked for.
    kinds
        Kinds of replicas, which the patterns of rooms count.
    rooms, sizes
        Room of each usable node, and the most GPUs that replicas of the kinds asked for take there.
    gone
        The nodes that may fail, on which nothing is placed.
    reserve
        (shape, pods asked for, pods kept) of the reserve.
    """

    demands: tuple[QueueDemand, ...]
    flavors: FlavorPlan
    fleet: Fleet
    kinds: tuple[Kind, ...]
    rooms: Mapping[str, Room]
    sizes: Mapping[str, int]
    gone: frozenset[str]
    guarantees: tuple[Guarantee, ...]
    missing: tuple[Missing, ...]
    reserve: tuple[tuple[Shape, int, int], ...]
    reserved: tuple[Place, ...]
    solution: QuotaSolution
    warnings: tuple[str, ...]

    def placeable(self, flavors: Collection[int], without: Collection[str] = ()) -> int:
        """Return the most GPUs that replicas of the kinds asked for take on the nodes of some flavors."""
        wanted = set(flavors)
        return sum(
            size
            for name, size in self.sizes.items()
            if name not in without and not wanted.isdisjoint(self.fleet.flavors_of[name])
        )

    def biggest_of(self, flavor: int) -> frozenset[str]:
        """Return the one node of a flavor that holds most GPUs of replicas."""
        return self.fleet.biggest(self.sizes, flavor, 1)

    def most_on_one_node(self) -> int:
        """Return the most GPUs of replicas that are lost with one node."""
        return max(self.sizes.values(), default=0)


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
    pools = _pools(snapshot, settings, plan)
    case = _case(snapshot, settings, asked.queues, pools, plan, fleet, kinds, reserve, rooms, gone)
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


def pools_of(snapshot: ClusterSnapshot, settings: PolicySettings) -> dict[str, dict[tuple[str, str], int]]:
    """Return what cohorts share of their own, by name and (flavor, GPU resource)."""
    found: dict[str, dict[tuple[str, str], int]] = {}
    for cohort in snapshot.cohorts:
        own = _today_of_cohort(cohort, settings)
        if own:
            found[cohort.name] = own
    return found


def _today_of_cohort(cohort: Cohort, settings: PolicySettings) -> dict[tuple[str, str], int]:
    return {
        (flavor.flavor, quota.resource): quota.nominal
        for group in cohort.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
        if quota.resource in settings.gpu_resources
    }


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


def flavors_for(demand: ReplicaDemand, flavors: Iterable[int], plan: FlavorPlan) -> tuple[int, ...]:
    """Return those of a queue's flavors that replicas may use."""
    return tuple(f for f in flavors if plan.flavors[f].offers(demand.product))


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


@dataclass(frozen=True, slots=True)
class _Pool:
    """Quota that a cohort shares of its own; `total` also counts what is in a flavor that is replaced."""

    name: str
    flavors: tuple[int, ...]
    today: Mapping[int, int]
    total: int


def _pools(snapshot: ClusterSnapshot, settings: PolicySettings, plan: FlavorPlan) -> tuple[_Pool, ...]:
    index = {(flavor.name, flavor.resource): i for i, flavor in enumerate(plan.flavors)}
    found = []
    for name, today in sorted(pools_of(snapshot, settings).items()):
        own: dict[int, int] = {}
        total = 0
        for (flavor, resource), gpus in today.items():
            becomes = [index[new, resource] for new in plan.replaced.get(flavor, ()) if (new, resource) in index]
            if (flavor, resource) in index:
                own[index[flavor, resource]] = gpus
            else:
                own |= dict.fromkeys(becomes, 0)
            total += gpus if becomes or (flavor, resource) in index else 0
        if own:
            found.append(_Pool(name, tuple(own), own, total))
    return tuple(found)


def _case(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    queues: Sequence[QueueDemand],
    pools: Sequence[_Pool],
    plan: FlavorPlan,
    fleet: Fleet,
    kinds: tuple[Kind, ...],
    reserve: Mapping[Shape, int],
    rooms: Mapping[str, Room],
    gone: Collection[str],
) -> QuotaCase:
    kind_of = {kind.shape: s for s, kind in enumerate(kinds)}
    known = {queue.name: queue for queue in snapshot.cluster_queues}
    holders, claims = [], []
    for h, demand in enumerate(queues):
        flavors = plan.of_queue[demand.queue]
        index = {(plan.flavors[f].name, plan.flavors[f].resource): f for f in flavors}
        today, in_use = dict.fromkeys(flavors, 0), dict.fromkeys(flavors, 0)
        if demand.queue in known:
            queue = known[demand.queue]
            today |= {index[key]: gpus for key, gpus in today_of(queue, settings).items() if key in index}
            for usage in queue.reservation or queue.usage:
                if (usage.flavor, usage.resource) in index:
                    in_use[index[usage.flavor, usage.resource]] = usage.total
        whole = demand.island * -(-sum(today.values()) // demand.island)
        limit = demand.most if demand.most is None or demand.limited else max(whole, demand.most)
        holders.append(
            Holder(
                name=demand.queue,
                island=demand.island,
                weight=demand.weight,
                flavors=flavors,
                today=today,
                in_use=in_use,
                wanted=demand.most,
                limit=limit,
            )
        )
        claims += [
            Claim(
                holder=h,
                kind=kind_of[replicas.shape],
                pods=replicas.pods,
                flavors=flavors_for(replicas, flavors, plan) if replicas.fits else (),
                baseline=replicas.baseline,
                most=replicas.most if demand.limited else None,
            )
            for replicas in demand.replicas
        ]
    for pool in pools:
        island = _island_of_pool(pool, queues, plan)
        shape = next((kind.shape for kind in kinds if kind.shape.gpus == island), Shape(1, island=False))
        total = sum(pool.today.values())
        holders.append(Holder(pool.name, shape.gpus, float(max(1, total)), pool.flavors, pool.today, {}, total, total))
        claims.append(Claim(len(holders) - 1, kind_of[shape], 1, pool.flavors))
    return QuotaCase(
        flavors=len(plan.flavors),
        kinds=kinds,
        classes=fleet.classes(rooms, kinds, gone),
        holders=tuple(holders),
        claims=tuple(claims),
        reserve={kind_of[shape]: pods for shape, pods in reserve.items()},
    )


def _island_of_pool(pool: _Pool, queues: Sequence[QueueDemand], plan: FlavorPlan) -> int:
    """Return the GPUs that a shared pool comes in: what every queue that may use its flavors can cut into replicas."""
    islands = [queue.island for queue in queues if set(plan.of_queue[queue.queue]) & set(pool.flavors)]
    return gcd(*islands) if islands else 1


def _guarantees(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    queues: Sequence[QueueDemand],
    pools: Sequence[_Pool],
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
