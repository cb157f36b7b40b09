"""Which flavors quota is planned in: those there are, one per product where a flavor mixes them, new ones if none."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.queues import ResourceFlavor
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from islander.policy.status import gpu_resource_of
from planner.quota.baseline import today_of
from planner.quota.teams import QueueDemand

API_VERSION = "kueue.x-k8s.io/v1beta2"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class PlannedFlavor:
    """A flavor that quota is planned in.

    Attributes
    ----------
    resource
        The GPU resource that its nodes offer.
    nodes
        Its GPU nodes, whatever state they are in, by name.
    products
        GPU products of these nodes, sorted; an empty word for a node that does not say.
    new
        True when the plan makes it.
    """

    flavor: ResourceFlavor
    resource: str
    nodes: tuple[str, ...]
    products: tuple[str, ...]
    new: bool = False

    @property
    def name(self) -> str:
        """Name of the flavor."""
        return self.flavor.name

    def offers(self, product: str) -> bool:
        """Return whether pods that need a product find it here; every flavor offers any product."""
        return not product or any(same_product(product, own) for own in self.products)


@dataclass(frozen=True, slots=True)
class FlavorPlan:
    """All flavors, and which a queue may use.

    Attributes
    ----------
    flavors
        In the order of their names.
    of_queue
        Indices of the flavors of each queue, in its order of preference.
    replaced
        Names of the flavors that stand in the place of one that mixes products.
    allocatable
        GPUs that each node of the flavors says it has.
    uncovered
        GPU nodes that are in no flavor.
    """

    flavors: tuple[PlannedFlavor, ...]
    of_queue: Mapping[str, tuple[int, ...]]
    replaced: Mapping[str, tuple[str, ...]]
    allocatable: Mapping[str, int]
    uncovered: tuple[str, ...]


def same_product(one: str, other: str) -> bool:
    """Return whether two labels name one product; `NVIDIA-` in front may be left out."""
    return one.removeprefix("NVIDIA-") == other.removeprefix("NVIDIA-")


def flavor_plan(snapshot: ClusterSnapshot, settings: PolicySettings, demands: Sequence[QueueDemand]) -> FlavorPlan:
    """Return the flavors that the queues of `demands` get quota in."""
    gpu_nodes = [(node, gpu_resource_of(node, settings)) for node in snapshot.nodes]
    gpu_nodes = [(node, resource) for node, resource in gpu_nodes if node.capacity.count(resource)]
    known = {queue.name: queue for queue in snapshot.cluster_queues}
    listed = {
        queue.name: tuple(dict.fromkeys(flavor for flavor, _ in today_of(queue, settings)))
        for queue in snapshot.cluster_queues
    }
    wanted = {name for names_ in listed.values() for name in names_}
    wanted |= {
        flavor.flavor
        for cohort in snapshot.cohorts
        for group in cohort.resource_groups
        for flavor in group.flavors
        if any(quota.resource in settings.gpu_resources for quota in flavor.resources)
    }
    planned = {f.name: _planned(f, gpu_nodes) for f in snapshot.resource_flavors}
    by_product = _flavors_by_product(snapshot, gpu_nodes, [planned[n] for n in sorted(wanted & planned.keys())])
    replaced: dict[str, tuple[str, ...]] = {}
    for name in sorted(wanted & planned.keys()):
        products = planned[name].products
        if not planned[name].flavor.node_labels and len(products) > 1 and "" not in products:
            replaced[name] = tuple(by_product[product].name for product in products)
    made = {flavor.name: flavor for flavor in by_product.values()}
    of_queue: dict[str, list[str]] = {}
    for demand in demands:
        mine = [new for old in listed.get(demand.queue, ()) for new in replaced.get(old, (old,))]
        mine = list(dict.fromkeys(mine))
        needed = {replicas.product for replicas in demand.replicas}
        if demand.queue not in known or not mine:
            mine += [f.name for f in by_product.values() if any(f.offers(product) for product in needed or {""})]
        for product in sorted(needed - {""}):
            here = [(planned | made)[name] for name in mine if name in planned or name in made]
            if not any(flavor.offers(product) for flavor in here):
                mine += [f.name for f in by_product.values() if f.offers(product)]
        of_queue[demand.queue] = list(dict.fromkeys(mine))
    used = {name for names_ in of_queue.values() for name in names_}
    used |= {new for old in wanted for new in replaced.get(old, (old,))}
    flavors = tuple((planned | made)[name] for name in sorted(used) if name in planned or name in made)
    index = {flavor.name: i for i, flavor in enumerate(flavors)}
    covered = {node for flavor in flavors for node in flavor.nodes}
    return FlavorPlan(
        flavors=flavors,
        of_queue={queue: tuple(index[n] for n in names_ if n in index) for queue, names_ in of_queue.items()},
        replaced={old: new for old, new in replaced.items() if old in wanted},
        allocatable={node.name: node.allocatable.count(r) for node, r in gpu_nodes if node.name in covered},
        uncovered=tuple(sorted(node.name for node, _ in gpu_nodes if node.name not in covered)),
    )


def _planned(flavor: ResourceFlavor, gpu_nodes: Iterable[tuple[Node, str]]) -> PlannedFlavor:
    nodes = [(node, resource) for node, resource in gpu_nodes if set(flavor.node_labels) <= set(node.labels)]
    resources = sorted({resource for _, resource in nodes})
    # Of a flavor over GPUs of two makers, which is rare, one resource is planned: the last, so nvidia.com/gpu.
    resource = resources[-1] if resources else names.NVIDIA_GPU
    here = [node for node, own in nodes if own == resource]
    products = sorted({_product(node, resource) for node in here})
    return PlannedFlavor(flavor, resource, tuple(sorted(node.name for node in here)), tuple(products))


def _flavors_by_product(
    snapshot: ClusterSnapshot, gpu_nodes: Sequence[tuple[Node, str]], in_use: Sequence[PlannedFlavor]
) -> dict[str, PlannedFlavor]:
    """Return a flavor per product label: the one that selects just this label where there is one, else a new one.

    A flavor in use over all nodes of the product, whatever it knows them by, is better than a new one beside it.
    """
    over = {(flavor.nodes, flavor.resource): flavor for flavor in reversed(in_use) if flavor.flavor.node_labels}
    nodes: defaultdict[tuple[str, str], list[Node]] = defaultdict(list)
    for node, resource in gpu_nodes:
        if product := _product(node, resource):
            nodes[product, resource].append(node)
    own = {flavor.node_labels: flavor for flavor in reversed(snapshot.resource_flavors)}
    taken = {flavor.name for flavor in snapshot.resource_flavors}
    found: dict[str, PlannedFlavor] = {}
    for (product, resource), members in sorted(nodes.items()):
        labels = ((product_key(resource), product),)
        existing = own.get(labels)
        here = tuple(sorted(node.name for node in members))
        if existing is None and (here, resource) in over:
            found[product] = over[here, resource]
            continue
        name = existing.name if existing is not None else _free_name(product, taken)
        taken.add(name)
        flavor = existing or ResourceFlavor(name=name, api_version=API_VERSION, node_labels=labels)
        found[product] = PlannedFlavor(flavor, resource, here, (product,), new=existing is None)
    return found


def product_key(resource: str) -> str:
    """Return the node label that tells the product of a GPU resource."""
    return names.AMD_PRODUCT if resource == names.AMD_GPU else names.GPU_PRODUCT


def _product(node: Node, resource: str) -> str:
    return node.label(product_key(resource)) or ""


def _free_name(product: str, taken: Iterable[str]) -> str:
    base = (
        _NOT_IN_NAMES.sub("-", product.removeprefix("NVIDIA-").lower()).strip("-")[:_LONGEST_NAME].strip("-") or "gpu"
    )
    name, number, used = base, 2, set(taken)
    while name in used:
        name, number = f"{base}-{number}", number + 1
    return name
