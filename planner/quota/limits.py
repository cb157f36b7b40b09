"""Borrowing and lending in whole islands: what a cohort may take from a queue, and a queue from its cohort."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from islander.cluster.queues import Quota
from islander.cluster.snapshot import ClusterSnapshot
from planner.quota.flavors import FlavorPlan
from planner.quota.recommendation import COHORT, QUEUE, Guarantee, Recommendation
from planner.quota.teams import QueueDemand

# The cohort of new queues whose flavors no queue has yet, with the name of the flavor behind it.
_COHORT_PREFIX = "gpu-"
_COHORT_OF_SEVERAL = "gpu"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one queue in one flavor, in GPUs; None for no limit."""

    borrowing: int | None
    lending: int | None


def cohorts_of(snapshot: ClusterSnapshot, demands: Sequence[QueueDemand], plan: FlavorPlan) -> dict[str, str]:
    """Return the cohort of each queue once the plan is done; empty for a queue that is in none.

    The policy's word counts first, then what a queue is in. A new queue joins those that share a flavor with it: an
    existing one's cohort, or else one named after the flavor.
    """
    known = {queue.name: queue for queue in snapshot.cluster_queues}
    found: dict[str, str] = {}
    for demand in demands:
        if demand.cohort is not None:
            found[demand.queue] = demand.cohort
        elif demand.queue in known:
            found[demand.queue] = known[demand.queue].cohort
    beside = {f: found[d.queue] for d in reversed(demands) if found.get(d.queue) for f in plan.of_queue[d.queue]}
    new = [demand.queue for demand in demands if demand.queue not in found]
    for queue in new:
        joined = next((beside[f] for f in plan.of_queue[queue] if f in beside), None)
        if joined is not None:
            found[queue] = joined
    for flavors, queues in _sharing([queue for queue in new if queue not in found], plan):
        one = len(flavors) == 1
        name = f"{_COHORT_PREFIX}{plan.flavors[flavors[0]].name}" if one else _COHORT_OF_SEVERAL
        found |= dict.fromkeys(queues, name if flavors else "")
    return found


def _sharing(queues: Sequence[str], plan: FlavorPlan) -> list[tuple[tuple[int, ...], list[str]]]:
    """Return (flavors, queues) in groups that share no flavor with each other."""
    groups: list[tuple[set[int], list[str]]] = []
    for queue in queues:
        mine: tuple[set[int], list[str]] = (set(plan.of_queue[queue]), [queue])
        for other in [group for group in groups if group[0] & mine[0]]:
            groups.remove(other)
            mine = (mine[0] | other[0], other[1] + mine[1])
        groups.append(mine)
    return [(tuple(sorted(flavors)), names) for flavors, names in groups]


def root_of(cohort: str, parents: Mapping[str, str]) -> str:
    """Return the root of the tree that a cohort is in; of a cycle, the first name of it in order."""
    seen = [cohort]
    while parents.get(seen[-1]) and parents[seen[-1]] not in seen:
        seen.append(parents[seen[-1]])
    return min(seen) if parents.get(seen[-1]) else seen[-1]


def limits_of(
    recommendation: Recommendation, snapshot: ClusterSnapshot, cohorts: Mapping[str, str]
) -> dict[tuple[str, str], Limits]:
    """Return the limits by (queue, flavor).

    Lending keeps the baseline out of the cohort's hands: at most nominal less the islands of the baseline. Borrowing
    ends at what the others lend, and at what the team ever runs. Both are whole islands, so that what is taken back is
    a place for a replica. A limit of today that does all this stays, and so does the lack of one where it does no harm.
    """
    parents = {cohort.name: cohort.parent for cohort in snapshot.cohorts}
    today = {
        (queue.name, flavor.flavor, quota.resource): quota
        for queue in snapshot.cluster_queues
        for group in queue.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    }
    roots = {queue: root_of(cohort, parents) for queue, cohort in cohorts.items() if cohort}
    members: defaultdict[tuple[str, str], list[Guarantee]] = defaultdict(list)
    pools: defaultdict[tuple[str, str], int] = defaultdict(int)
    for guarantee in recommendation.guarantees:
        if guarantee.kind == COHORT:
            pools[root_of(guarantee.name, parents), guarantee.flavor] += guarantee.nominal
        elif guarantee.name in roots:
            members[roots[guarantee.name], guarantee.flavor].append(guarantee)
    demands = {demand.queue: demand for demand in recommendation.demands}
    totals: defaultdict[str, int] = defaultdict(int)
    for guarantee in recommendation.guarantees:
        totals[guarantee.name] += guarantee.nominal if guarantee.kind == QUEUE else 0
    found: dict[tuple[str, str], Limits] = {}
    for (root, flavor), group in members.items():
        quotas = {g.name: today.get((g.name, flavor, g.resource)) for g in group}
        lending = {g.name: _lending(g, quotas[g.name], alone=len(group) == 1) for g in group}
        alone = len(group) == 1 and not pools[root, flavor]
        for g in group:
            others = sum(_lent(other, lending[other.name]) for other in group if other is not g) + pools[root, flavor]
            # Without limit is fine where nobody beside needs its own back in a hurry.
            open_today = quotas[g.name] is not None and not any(o.baseline for o in group if o is not g)
            borrowing = _borrowing(
                g, quotas[g.name], demands[g.name], totals[g.name], others, alone=alone, open_today=open_today
            )
            found[g.name, flavor] = Limits(borrowing, lending[g.name])
    return found


def _lent(guarantee: Guarantee, lending: int | None) -> int:
    return guarantee.nominal if lending is None else lending


def _lending(guarantee: Guarantee, today: Quota | None, *, alone: bool) -> int | None:
    island = guarantee.island
    kept = island * -(-guarantee.baseline // island)
    most = max(0, guarantee.nominal - kept)
    old = today.lending_limit if today is not None else None
    if old is not None:
        # Who lends less than could be lent has a reason for it.
        return min(old - old % island, most)
    if alone or not guarantee.baseline:
        return None
    return most


def _borrowing(
    guarantee: Guarantee,
    today: Quota | None,
    demand: QueueDemand,
    total: int,
    lendable: int,
    *,
    alone: bool,
    open_today: bool,
) -> int | None:
    """Return the limit; `open_today` where today's lack of one may stay if the team has no end."""
    island = guarantee.island
    old = today.borrowing_limit if today is not None else None
    ends = demand.limited and demand.most is not None
    if not demand.may_borrow:
        return 0
    if old is None and (alone or (open_today and not ends)):
        return None
    most = lendable if demand.most is None else min(lendable, max(0, demand.most - total))
    if old is not None and not ends:
        return old - old % island
    return most - most % island
