"""Who asks for GPUs by quota: queues, and the replicas that each must have and may have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd, lcm

from islander.policy.settings import Shape

# Weights enter the model as whole numbers.
WEIGHT_SCALE = 1000


@dataclass(frozen=True, slots=True)
class ReplicaDemand:
    """Replicas of one shape that a team runs.

    Attributes
    ----------
    team
        Name of the team, for people.
    shape
        What one pod asks of its node.
    island_if_any
        True when the pod is content without an island where the hardware has none.
    product
        GPU product that the pods need; empty for any.
    pods
        Pods of one replica, which are admitted together; above 1 for groups (LeaderWorkerSet).
    baseline
        Replicas that must always fit into the nominal quota.
    most
        Replicas that are ever wanted; None for no limit.
    cpu_milli, memory_bytes
        What one pod asks beside GPUs; 0 when not known.
    source
        Where the numbers come from, for people.
    fits
        False where no node of its flavors holds one: then it only says which baseline is missing.
    """

    team: str
    shape: Shape
    island_if_any: bool = False
    product: str = ""
    pods: int = 1
    baseline: int = 0
    most: int | None = None
    cpu_milli: int = 0
    memory_bytes: int = 0
    source: str = ""
    fits: bool = True

    @property
    def gpus(self) -> int:
        """GPUs of one replica, all its pods together."""
        return self.shape.gpus * self.pods


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """What the teams behind one ClusterQueue ask for.

    Attributes
    ----------
    queue
        Name of the ClusterQueue.
    cohort
        Cohort that it shall be in; None to leave it in the one it has.
    namespaces
        Namespaces whose pods may use it, sorted.
    weight
        Share of what is left after the baselines.
    limited
        True when `most` of its replicas is a limit for the nominal quota, not only for what is wanted.
    """

    queue: str
    replicas: tuple[ReplicaDemand, ...]
    cohort: str | None = None
    namespaces: tuple[str, ...] = ()
    weight: float = 1.0
    may_borrow: bool = True
    limited: bool = True

    @property
    def island(self) -> int:
        """GPUs that nominal quota and limits come in multiples of: whole replicas of every shape that fits."""
        return island_of(demand for demand in self.replicas if demand.fits)

    @property
    def baseline(self) -> int:
        """GPUs of all baselines."""
        return sum(demand.baseline * demand.gpus for demand in self.replicas)

    @property
    def most(self) -> int | None:
        """GPUs that are ever wanted; None for no limit."""
        if any(demand.most is None for demand in self.replicas):
            return None
        return sum((demand.most or 0) * demand.gpus for demand in self.replicas)


def island_of(replicas: Iterable[ReplicaDemand]) -> int:
    """Return the GPUs that quota comes in multiples of; 1 for no replicas.

    The least common multiple where it is one of the replicas (2, 4, 8), so that any of them fills the quota without a
    rest. Sizes that do not divide each other (6, 8) have a multiple that no node may hold; there the quota is a sum of
    whole replicas, which is a multiple of the greatest common divisor.
    """
    sizes = {demand.gpus for demand in replicas}
    whole = lcm(*sizes)
    return whole if whole in sizes or not sizes else gcd(*sizes)
