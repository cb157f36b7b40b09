"""What the model of quotas knows: who holds quota, for which replicas, and which nodes there are.

Nodes that are alike are one class; a solution says how many nodes of a class hold which pattern of replicas, so that
its size does not grow with the nodes. Amounts are GPUs, replicas and nodes; all are whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from planner.quota.rooms import Kind, NodeClass, gpus_of_pattern

# A share of the heaviest queue's first island; fine enough that no two steps of a share are rounded into one.
SHARE_SCALE = 10**9
# So many islands of a queue are valued one by one, and then in steps that grow by a quarter.
SINGLE_STEPS = 8
# What an island within today's quota is worth beyond its share, so that nothing moves between equal shares.
TODAY_BONUS = SHARE_SCALE // 10**6


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds quota: a ClusterQueue, or a Cohort with a pool of its own.

    Attributes
    ----------
    island
        GPUs that its quota comes in multiples of.
    weight
        Share of what is left after baselines, against the other holders; above 0.
    flavors
        Flavors that it may use, by index, in order of preference.
    today, in_use
        GPUs of its quota now, and GPUs that it holds, by flavor.
    wanted
        GPUs beyond which more are of no use to it; None for no end.
    limit
        GPUs that its quota may have in all; None for no limit.
    """

    name: str
    island: int
    weight: float
    flavors: tuple[int, ...]
    today: Mapping[int, int]
    in_use: Mapping[int, int]
    wanted: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Replicas of one kind that a holder's quota is for.

    Attributes
    ----------
    holder, kind
        Indices into the case.
    pods
        Pods of one replica; each is placed on a node of its own or beside others.
    flavors
        Flavors that the replicas may use, by index; those of the holder or fewer.
    baseline
        Replicas that must be there.
    most
        Replicas that the quota may be for; None for no limit.
    """

    holder: int
    kind: int
    pods: int
    flavors: tuple[int, ...]
    baseline: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class QuotaCase:
    """All that the model knows.

    Attributes
    ----------
    reserve
        Pods by kind that no quota may be for.
    """

    flavors: int
    kinds: tuple[Kind, ...]
    classes: tuple[NodeClass, ...]
    holders: tuple[Holder, ...]
    claims: tuple[Claim, ...]
    reserve: Mapping[int, int]

    def gpus(self, claim: Claim) -> int:
        """Return the GPUs of one replica of a claim."""
        return claim.pods * self.kinds[claim.kind].shape.gpus

    def room(self, flavor: int) -> int:
        """Return the most GPUs that replicas can take on the nodes of a flavor."""
        return sum(
            len(c.nodes) * max(gpus_of_pattern(pattern, self.kinds) for pattern in c.patterns)
            for c in self.classes
            if flavor in c.flavors
        )

    def claims_of(self, holder: int) -> Iterator[tuple[int, Claim]]:
        """Yield the claims of a holder with their indices."""
        return ((i, claim) for i, claim in enumerate(self.claims) if claim.holder == holder)


@dataclass(frozen=True, slots=True)
class Step:
    """Islands of a holder that are worth the same each: up to `length` of them, `value` each."""

    length: int
    value: int


def most_islands(case: QuotaCase, h: int) -> dict[int, int]:
    """Return by flavor how many islands of a holder could fit at best."""
    holder = case.holders[h]
    return {
        f: min(case.room(f), holder.limit if holder.limit is not None else case.room(f)) // holder.island
        for f in holder.flavors
    }


def steps_of(case: QuotaCase, h: int) -> tuple[Step, ...]:
    """Return the share of a holder in steps of falling worth.

    The k-th island of a holder with weight w is worth w / k, so that GPUs are shared like the weights: of two holders,
    the next GPU goes to the one that has less in relation to its weight. One step ends at today's quota and islands
    before it are worth a trifle more, so that quotas which are shared like the weights already stay.
    """
    holder = case.holders[h]
    end = sum(most_islands(case, h).values())
    if holder.wanted is not None:
        end = min(end, -(-holder.wanted // holder.island))
    heaviest = max(other.weight for other in case.holders)
    today = sum(holder.today.values()) // holder.island
    stops = {end, today, *range(1, SINGLE_STEPS + 1)}
    reached = float(SINGLE_STEPS)
    while reached < end:
        reached *= 1.25
        stops.add(int(reached))
    steps, start = [], 0
    for stop in sorted(stop for stop in stops if 0 < stop <= end):
        worth = sum(1 / k for k in range(start + 1, stop + 1)) / (stop - start)
        value = max(1, round(SHARE_SCALE * holder.weight / heaviest * worth))
        steps.append(Step(stop - start, value + (TODAY_BONUS if stop <= today else 0)))
        start = stop
    return tuple(steps)
