"""The cluster before and after a plan, in the units of `islander status`."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.demand import mix_of
from islander.policy.settings import PolicySettings
from islander.policy.status import cluster_status
from planner.plan import Outlook
from planner.problem import Demand, Problem
from planner.world import World


def after(snapshot: ClusterSnapshot, world: World, demands: tuple[Demand, ...] = ()) -> ClusterSnapshot:
    """Return the snapshot with its pods where they are in `world`; demands that are no pods of the snapshot join it."""
    where = {pod.key: node for node, pods in world.pods_on.items() for pod in pods}
    known = {pod.key for pod in snapshot.pods}
    pods = [
        structs.replace(pod, node=where[pod.key], phase="Running") if where.get(pod.key, pod.node) != pod.node else pod
        for pod in snapshot.pods
    ]
    pods += [
        structs.replace(demand.pod, node=where[demand.key], phase="Running")
        for demand in demands
        if demand.key in where and demand.key not in known
    ]
    return structs.replace(snapshot, pods=tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name))))


def outlooks(
    snapshot: ClusterSnapshot, world: World, problem: Problem, settings: PolicySettings
) -> tuple[Outlook, Outlook]:
    """Return the outlook of a snapshot as it is, and as it is in `world`, both by the demand mix of the snapshot."""
    by_one_mix = replace(settings, mix=mix_of(snapshot, settings))
    return _outlook(snapshot, by_one_mix), _outlook(after(snapshot, world, problem.demands), by_one_mix)


def _outlook(snapshot: ClusterSnapshot, settings: PolicySettings) -> Outlook:
    found = cluster_status(snapshot, settings)
    return Outlook(
        placeable=found.placeable,
        largest_free_island=found.largest_free_island,
        fragmentation=found.fragmentation.ratio,
        empty_nodes=sum(not node.used for node in found.nodes if node.allocatable),
    )
