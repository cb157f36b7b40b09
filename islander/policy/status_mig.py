"""The MIG instances of a cluster, beside its whole GPUs: by node and profile, and what else could be cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from islander.cluster import names
from islander.cluster.mig_devices import cut_gpus, mig_change, mig_resources, more_instances, sliced_as
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.policy.occupancy import gpu_state


class MigInstances(Struct, frozen=True, rename="camel"):
    """The instances of one profile on one node, as kube-scheduler counts them, and the pods that hold some."""

    profile: str
    resource: str
    allocatable: int
    used: int
    free: int
    pods: list[str]


class NodeMig(Struct, frozen=True, rename="camel"):
    """What one node offers as MIG.

    Attributes
    ----------
    strategy
        `mixed` or `single` by the node's label, else by the resources that it names; empty when neither tells.
    config, change
        What the MIG manager was last asked for, and how far it is: settled, changing or failed.
    more
        Instances that could still be made beside those that the node reports, each profile by itself; empty where the
        node does not report how its GPUs are cut.
    """

    strategy: str
    config: str
    change: str
    instances: list[MigInstances]
    more: dict[str, int]


class MigTotals(Struct, frozen=True, rename="camel"):
    """The instances of one profile on all nodes; `usable_free` counts only nodes that accept new pods."""

    allocatable: int
    used: int
    free: int
    usable_free: int


def node_mig(node: Node, pods: Sequence[Pod]) -> NodeMig | None:
    """Return what a node offers as MIG; None for a node that has nothing to do with it."""
    resources, cut = mig_resources(node), cut_gpus(node)
    strategy = node.label(names.MIG_STRATEGY) or ""
    if not resources and not cut and not node.label(names.MIG_CONFIG_STATE):
        return None
    if strategy not in ("mixed", "single"):
        strategy = "single" if sliced_as(node) else "mixed" if resources else ""
    return NodeMig(
        strategy=strategy,
        config=node.label(names.MIG_CONFIG) or "",
        change=mig_change(node).value,
        instances=[_instances(node, pods, resource) for resource in resources],
        more=dict(sorted(more_instances(cut).items())),
    )


def _instances(node: Node, pods: Sequence[Pod], resource: str) -> MigInstances:
    state = gpu_state(node, pods, resource)
    holders = [pod.key for pod in pods if pod.spec.requests.count(resource) and not pod.finished]
    return MigInstances(
        profile=sliced_as(node, resource) or resource.removeprefix(names.MIG_RESOURCE_PREFIX),
        resource=resource,
        allocatable=state.allocatable,
        used=state.used,
        free=state.free,
        pods=sorted(holders),
    )


def mig_totals(nodes: Iterable[tuple[NodeMig, bool]]) -> dict[str, MigTotals]:
    """Return the sums over nodes by profile; each node comes with whether it accepts new pods."""
    totals: dict[str, MigTotals] = {}
    for mig, usable in nodes:
        for found in mig.instances:
            sums = totals.get(found.profile, MigTotals(0, 0, 0, 0))
            totals[found.profile] = MigTotals(
                sums.allocatable + found.allocatable,
                sums.used + found.used,
                sums.free + found.free,
                sums.usable_free + found.free * usable,
            )
    return dict(sorted(totals.items()))
