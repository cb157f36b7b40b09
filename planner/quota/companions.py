"""Quota of what GPUs come with: CPU, memory, pods and other devices follow the GPUs, or stay where they suffice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from islander.cluster.queues import Quota
from planner.quota.fleet import Fleet
from planner.quota.recommendation import Guarantee

CPU, MEMORY, PODS = "cpu", "memory", "pods"
_CORE_MILLI = 1000
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class PerGpu:
    """What comes with one GPU of a flavor, by resource: its share of the usable nodes, as a plain number."""

    amounts: Mapping[str, int]

    @classmethod
    def of(cls, fleet: Fleet, flavor: int, resources: Collection[str]) -> PerGpu:
        """Return what is left on the nodes of a flavor beside pods that quota does not count, per usable GPU."""
        capacity = fleet.capacities[flavor]
        totals = dict.fromkeys(resources, 0)
        for room in capacity.nodes:
            node, remains = fleet.nodes[room.name], fleet.remains[room.name]
            for resource in totals:
                known = {CPU: remains.cpu_milli, MEMORY: remains.memory_bytes, PODS: remains.pods}
                totals[resource] += known.get(resource, node.allocatable.count(resource))
        gpus = max(1, capacity.usable)
        return cls({resource: _plain(resource, total // gpus) for resource, total in totals.items()})

    def amount(self, resource: str, gpus: int) -> int:
        """Return what comes with so many GPUs."""
        return self.amounts.get(resource, 0) * gpus


def _plain(resource: str, amount: int) -> int:
    unit = {CPU: _CORE_MILLI, MEMORY: _GIB}.get(resource, 1)
    return amount - amount % unit if amount >= unit else amount


def asked(guarantee: Guarantee, resource: str) -> int:
    """Return what the guaranteed replicas ask for of a resource, as far as their pods tell."""
    total = 0
    for demand, replicas in guarantee.replicas:
        pods = replicas * demand.pods
        total += pods * {CPU: demand.cpu_milli, MEMORY: demand.memory_bytes, PODS: 1}.get(resource, 0)
    return total


def companion(
    today: Quota | None, resource: str, guarantee: Guarantee, per_gpu: PerGpu, lent_gpus: int | None
) -> Quota:
    """Return the quota of a resource beside GPUs.

    Today's quota stays when it suffices: for the guaranteed replicas where their pods tell what they ask for, else for
    the share of the GPUs. Otherwise it becomes that share.

    Parameters
    ----------
    lent_gpus
        GPUs of the quota that may be lent; None for all.
    """
    share = per_gpu.amount(resource, guarantee.nominal)
    need = asked(guarantee, resource)
    if today is not None and today.nominal >= (need or share):
        return today
    nominal = max(share, need)
    lending = None if lent_gpus is None else min(nominal, per_gpu.amount(resource, lent_gpus))
    if today is None:
        return Quota(resource, nominal, None, lending)
    if today.lending_limit is None:
        return Quota(resource, nominal, today.borrowing_limit, None)
    return Quota(resource, nominal, today.borrowing_limit, min(nominal, max(today.lending_limit, lending or 0)))
