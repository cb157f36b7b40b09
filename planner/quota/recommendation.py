"""Recommended quotas, and what they stand on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from islander.policy.settings import Shape
from planner.models.quota_search import QuotaSolution
from planner.quota.flavors import FlavorPlan
from planner.quota.fleet import Fleet
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
