"""From demands, flavors and nodes to the case that the model solves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from islander.cluster.queues import Cohort
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings, Shape
from planner.models.quota_case import Claim, Holder, QuotaCase
from planner.quota.baseline import today_of
from planner.quota.flavors import FlavorPlan
from planner.quota.fleet import Fleet
from planner.quota.rooms import Kind, Room
from planner.quota.teams import QueueDemand, ReplicaDemand

# Quotas that stand for "no limit" are written as huge numbers; beyond this it makes no difference how huge.
_MOST_GPUS = 10**9


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


def flavors_for(demand: ReplicaDemand, flavors: Iterable[int], plan: FlavorPlan) -> tuple[int, ...]:
    """Return those of a queue's flavors that replicas may use."""
    return tuple(f for f in flavors if plan.flavors[f].offers(demand.product))


@dataclass(frozen=True, slots=True)
class Pool:
    """Quota that a cohort shares of its own; `total` also counts what is in a flavor that is replaced."""

    name: str
    flavors: tuple[int, ...]
    today: Mapping[int, int]
    total: int


def shared_pools(snapshot: ClusterSnapshot, settings: PolicySettings, plan: FlavorPlan) -> tuple[Pool, ...]:
    """Return what cohorts share of their own in the planned flavors; a replaced flavor's share goes to the new ones."""
    index = {(flavor.name, flavor.resource): i for i, flavor in enumerate(plan.flavors)}
    found = []
    for name, today in sorted(pools_of(snapshot, settings).items()):
        own: dict[int, int] = {}
        total = 0
        for (flavor, resource), listed in today.items():
            gpus = min(listed, _MOST_GPUS)
            becomes = [index[new, resource] for new in plan.replaced.get(flavor, ()) if (new, resource) in index]
            if (flavor, resource) in index:
                own[index[flavor, resource]] = gpus
            else:
                own |= dict.fromkeys(becomes, 0)
            total += gpus if becomes or (flavor, resource) in index else 0
        if own:
            found.append(Pool(name, tuple(own), own, total))
    return tuple(found)


def case_of(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    queues: Sequence[QueueDemand],
    pools: Sequence[Pool],
    plan: FlavorPlan,
    fleet: Fleet,
    kinds: tuple[Kind, ...],
    reserve: Mapping[Shape, int],
    rooms: Mapping[str, Room],
    gone: Collection[str],
) -> QuotaCase:
    """Return the case: queues first, in their order, then the pools of cohorts; nodes that may fail are left out."""
    kind_of = {kind.shape: s for s, kind in enumerate(kinds)}
    known = {queue.name: queue for queue in snapshot.cluster_queues}
    holders, claims = [], []
    for h, demand in enumerate(queues):
        flavors = plan.of_queue[demand.queue]
        index = {(plan.flavors[f].name, plan.flavors[f].resource): f for f in flavors}
        today, in_use = dict.fromkeys(flavors, 0), dict.fromkeys(flavors, 0)
        if demand.queue in known:
            queue = known[demand.queue]
            today |= {
                index[key]: min(gpus, _MOST_GPUS) for key, gpus in today_of(queue, settings).items() if key in index
            }
            for usage in queue.reservation or queue.usage:
                if (usage.flavor, usage.resource) in index:
                    in_use[index[usage.flavor, usage.resource]] = min(usage.total, _MOST_GPUS)
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


def _island_of_pool(pool: Pool, queues: Sequence[QueueDemand], plan: FlavorPlan) -> int:
    """Return the GPUs that a shared pool comes in: what every queue that may use its flavors can cut into replicas."""
    islands = [queue.island for queue in queues if set(plan.of_queue[queue.queue]) & set(pool.flavors)]
    return gcd(*islands) if islands else 1
