"""Findings about quota and the nodes behind it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.queues import ClusterQueue, ResourceFlavor
from planner.quota.capacity import FlavorCapacity, Unit
from planner.quota.finding_codes import FINDINGS, FindingCode, QuotaFinding, Severity
from planner.quota.inspection import Inspection, called, listed
from planner.quota.usable import nodes_of


def quota_above_capacity(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield flavors whose quotas add up to more than is usable (G44 a, G45)."""
    for key, total in _nominal(case).items():
        capacity = case.by_flavor.get(key)
        if capacity is None or total <= capacity.usable:
            continue
        message = (
            f"quotas add up to {total} of {key[1]}, of which {capacity.usable} are usable: "
            f"{total - capacity.usable} too many"
        )
        if capacity.held_outside:
            held = sum(count for _, count in capacity.held_outside)
            message += f"; {held} are held outside Kueue by {listed([pod for pod, _ in capacity.held_outside])}"
        if capacity.unusable:
            message += f"; nodes that do not count: {listed([name for name, _ in capacity.unusable])}"
        yield finding(
            FindingCode.QUOTA_ABOVE_CAPACITY,
            Severity.ERROR,
            f"ResourceFlavor/{key[0]}",
            "",
            message,
            f"Lower the quotas of {listed([called(holder) for holder in case.used_flavors.get(key, ())])} "
            f"to {capacity.usable} in total; `islander plan quota` writes files that fit.",
        )


def quota_in_small_pieces(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield queues whose pods need more than any node has, and quotas that whole replicas cannot fill (G44 b)."""
    for queue in case.snapshot.cluster_queues:
        largest: dict[str, tuple[int, str]] = {}
        for resource, gpus, who in _requests(case, queue):
            largest[resource] = max(largest.get(resource, (0, "")), (gpus, who))
        room: Counter[str] = Counter()
        for at in case.gpu_quotas(queue):
            capacity = case.by_flavor.get((at.flavor, at.quota.resource))
            room[at.quota.resource] = max(room[at.quota.resource], capacity.largest_request if capacity else 0)
        for resource, (gpus, who) in sorted(largest.items()):
            if 0 < room[resource] < gpus:
                yield finding(
                    FindingCode.REQUEST_LARGER_THAN_NODE,
                    Severity.WARNING,
                    called(queue),
                    "",
                    f"{who} asks for {gpus} {resource} in one pod; the largest single-node request is {room[resource]}",
                )
        yield from _unfillable(case, queue)


def _unfillable(case: Inspection, queue: ClusterQueue) -> Iterator[QuotaFinding]:
    demand = case.demand_of.get(queue.name)
    shapes = {replicas.shape for replicas in demand.replicas if not replicas.island_if_any} if demand else set()
    for at in case.gpu_quotas(queue):
        capacity = case.by_flavor.get((at.flavor, at.quota.resource))
        if capacity is None or capacity.unit is not Unit.GPU or at.quota.nominal > capacity.usable:
            continue
        for shape in sorted(shapes):
            wanted, placeable = at.quota.nominal // shape.gpus, capacity.placeable.get(shape, 0)
            if wanted > placeable and shape.gpus <= capacity.largest_request:
                yield finding(
                    FindingCode.QUOTA_NOT_PLACEABLE,
                    Severity.WARNING,
                    called(queue),
                    f"{at.path}.nominalQuota",
                    f"{at.quota.nominal} are {wanted} replicas of {shape.gpus}; {placeable} of them fit",
                )


def baselines_without_the_biggest_node(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield queues whose baselines do not fit into what the loss of nodes leaves."""
    if not case.survive_nodes:
        return
    for queue in case.snapshot.cluster_queues:
        demand = case.demand_of.get(queue.name)
        flavors = {(at.flavor, at.quota.resource) for at in case.gpu_quotas(queue)}
        found = [case.by_flavor[key] for key in sorted(flavors & case.by_flavor.keys())]
        for replicas in demand.replicas if demand and found else ():
            pods = replicas.baseline * replicas.pods
            left = sum(_left(capacity, replicas.shape.gpus, island=replicas.shape.island) for capacity in found)
            if not replicas.island_if_any and pods > left:
                yield finding(
                    FindingCode.NOT_SURVIVABLE,
                    Severity.WARNING,
                    called(queue),
                    "",
                    f"{replicas.team} needs {pods} pods of {replicas.shape.gpus} GPUs at least; without the "
                    f"{case.survive_nodes} biggest nodes of each flavor {left} fit",
                )


def _left(capacity: FlavorCapacity, gpus: int, *, island: bool) -> int:
    shapes = capacity.placeable_without_biggest
    return next((count for shape, count in shapes.items() if (shape.gpus, shape.island) == (gpus, island)), 0)


def gpus_held_outside(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield flavors whose GPUs pods hold that no queue counts (G45)."""
    for capacity in case.capacities:
        if capacity.held_outside and (capacity.flavor, capacity.resource) in case.used_flavors:
            total = sum(count for _, count in capacity.held_outside)
            holders = [f"{pod} ({count})" for pod, count in capacity.held_outside]
            message = f"{total} of {capacity.resource} are held outside Kueue: {listed(holders)}"
            code = FindingCode.GPUS_HELD_OUTSIDE
            yield finding(code, Severity.INFO, f"ResourceFlavor/{capacity.flavor}", "", message)


def flavors_that_say_too_little(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield flavors without labels, and flavors over nodes of different products (G43)."""
    for flavor in case.snapshot.resource_flavors:
        found = [c for c in case.capacities if c.flavor == flavor.name and (c.flavor, c.resource) in case.used_flavors]
        products: Counter[str] = Counter()
        for capacity in found:
            for room in capacity.nodes:
                products[room.product or "(no product label)"] += room.usable
        parts = ", ".join(f"{product} {gpus}" for product, gpus in sorted(products.items()))
        if found and not flavor.node_labels:
            severity = Severity.WARNING if len(products) > 1 else Severity.INFO
            code = FindingCode.FLAVOR_WITHOUT_LABELS
            message = f"has no nodeLabels, so it names every node: {parts or 'none with GPUs'}"
            cure = f"Make {'flavors' if len(products) > 1 else 'a flavor'} with the label {names.GPU_PRODUCT}: {parts}."
            yield finding(code, severity, _flavor(flavor), "spec.nodeLabels", message, cure if parts else "")
        elif len(products) > 1:
            code = FindingCode.FLAVOR_MIXES_PRODUCTS
            yield finding(code, Severity.WARNING, _flavor(flavor), "spec.nodeLabels", f"its nodes are mixed: {parts}")


def flavors_that_overlap(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield pairs of flavors that name the same node, both with quota of the same resource."""
    shared: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    by_node: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    flavors = {flavor.name: flavor for flavor in case.snapshot.resource_flavors}
    for flavor, resource in case.used_flavors:
        if flavor in flavors:
            for node in nodes_of(flavors[flavor], case.snapshot.nodes):
                if node.capacity.count(resource):
                    by_node[node.name, resource].append(flavor)
    for (node_name, resource), found in by_node.items():
        for one, other in combinations(sorted(found), 2):
            shared[one, other, resource].append(node_name)
    for (one, other, resource), nodes in sorted(shared.items()):
        message = f"{_number(len(nodes), 'node')} with {resource} in {one} and in {other}: {listed(sorted(nodes))}"
        yield finding(
            FindingCode.FLAVORS_OVERLAP, Severity.WARNING, f"ResourceFlavor/{one}", "spec.nodeLabels", message
        )


def units_that_do_not_mix(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield cohorts, and queues without one, that count devices of different kinds under one name."""
    alone = {q.name: (q,) for q in case.snapshot.cluster_queues if not q.cohort}
    groups = [(f"Cohort/{root}", holders) for root, holders in case.trees.items()]
    groups += [(f"ClusterQueue/{name}", holders) for name, holders in alone.items()]
    for name, holders in sorted(groups, key=lambda group: group[0]):
        units: defaultdict[str, dict[Unit, str]] = defaultdict(dict)
        for holder in holders:
            for at in case.gpu_quotas(holder):
                capacity = case.by_flavor.get((at.flavor, at.quota.resource))
                if capacity is not None and capacity.nodes:
                    units[at.quota.resource].setdefault(capacity.unit, at.flavor)
        for resource, found in sorted(units.items()):
            if len(found) > 1:
                parts = ", ".join(f"{unit} in {flavor}" for unit, flavor in sorted(found.items()))
                yield finding(FindingCode.MIXED_UNITS, Severity.WARNING, name, "", f"{resource} is {parts}")


def nodes_with_two_allocators(case: Inspection) -> Iterator[QuotaFinding]:
    """Yield nodes whose GPUs the device plugin and dynamic resource allocation both offer (G46)."""
    found: dict[str, list[Node]] = {}
    for node in case.snapshot.nodes:
        for resource in names.DRA_DRIVERS:
            offered = node.capacity.count(resource) or node.allocatable.count(resource)
            if offered and case.snapshot.has_devices(node.name, resource):
                found.setdefault(resource, []).append(node)
    for resource, nodes in sorted(found.items()):
        called_nodes = [node.name for node in nodes]
        message = (
            f"{resource} of {listed(called_nodes)} may be given by the device plugin and by driver "
            f"{names.DRA_DRIVERS[resource]}; they are counted once"
        )
        yield finding(FindingCode.TWO_ALLOCATORS, Severity.WARNING, f"Node/{called_nodes[0]}", "", message)


def finding(
    code: FindingCode, severity: Severity, about: str, field: str, message: str, cure: str = ""
) -> QuotaFinding:
    """Return a finding; without a cure of its own, with that of its code."""
    return QuotaFinding(code, severity, about, field, message, cure or FINDINGS[code].cure)


def _nominal(case: Inspection) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for holder in case.holders:
        for at in case.gpu_quotas(holder):
            found[at.flavor, at.quota.resource] += at.quota.nominal
    return Counter(dict(sorted(found.items())))


def _requests(case: Inspection, queue: ClusterQueue) -> Iterator[tuple[str, int, str]]:
    """Yield (resource, devices of one pod, who asks) of everything that is known to use a queue."""
    resources = {at.quota.resource for at in case.gpu_quotas(queue)}
    for workload in case.workloads_of.get(queue.name, ()):
        for pods in workload.pod_sets:
            for resource, count in pods.requests:
                if resource in resources:
                    yield resource, count, f"Workload {workload.namespace}/{workload.name}"
    demand = case.demand_of.get(queue.name)
    whole = sorted(resources.intersection(case.settings.gpu_resources))
    for replicas in demand.replicas if demand and whole else ():
        yield whole[0], replicas.shape.gpus, f"a replica of {replicas.team}"


def _flavor(flavor: ResourceFlavor) -> str:
    return f"ResourceFlavor/{flavor.name}"


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
