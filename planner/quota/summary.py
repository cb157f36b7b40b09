"""The parts of a quota plan beside its rows: teams, flavors, totals, baselines without a place, new objects."""

from __future__ import annotations

from collections import defaultdict

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.plan_words import amount
from planner.quota.baseline import today_of
from planner.quota.case import pools_of
from planner.quota.finding_codes import FindingCode
from planner.quota.plan import Change, FlavorRow, Reserve, TeamRow, Totals, Unmet, WitnessPods
from planner.quota.recommendation import Missing, Recommendation
from planner.quota.target import Target
from planner.quota.teams import ReplicaDemand


def teams_of(found: Recommendation) -> list[TeamRow]:
    """Return the replicas that each team asks for, and how many of them are guaranteed."""
    guaranteed: defaultdict[tuple[str, ReplicaDemand], int] = defaultdict(int)
    for guarantee in found.guarantees:
        for replicas, number in guarantee.replicas:
            guaranteed[guarantee.name, replicas] += number
    return [
        TeamRow(
            team=replicas.team,
            queue=demand.queue,
            gpus=replicas.shape.gpus,
            island=replicas.shape.island,
            product=replicas.product,
            pods=replicas.pods,
            baseline=replicas.baseline,
            most=replicas.most,
            guaranteed=guaranteed[demand.queue, replicas],
            weight=demand.weight,
            may_borrow=demand.may_borrow,
            source=replicas.source,
            cpu_milli=replicas.cpu_milli,
            memory_bytes=replicas.memory_bytes,
            fits=replicas.fits,
        )
        for demand in found.demands
        for replicas in demand.replicas
    ]


def unmet_of(missing: Missing, found: Recommendation) -> Unmet:
    """Return a baseline without a place, with what is missing."""
    demand, plan = missing.demand, found.flavors
    gpus = missing.replicas * demand.gpus
    island = f"an island of {demand.shape.gpus}" if demand.shape.island else amount(demand.shape.gpus, "GPU")
    flavors = [f for f in plan.of_queue[missing.queue] if plan.flavors[f].offers(demand.product)]
    gone = [name for name in found.gone if set(flavors) & set(found.fleet.flavors_of[name])]
    if not flavors:
        cure = f"no flavor has nodes of product {demand.product}" if demand.product else "no flavor has GPU nodes"
    else:
        names = ", ".join(plan.flavors[f].name for f in flavors)
        lost = f" with {amount(len(gone), 'node')} lost" if gone else ""
        cure = f"{names} has no room for {amount(gpus, 'GPU')} more in such replicas{lost}"
    return Unmet(
        team=demand.team,
        queue=missing.queue,
        gpus=demand.gpus,
        missing=missing.replicas,
        code=FindingCode.BASELINE_NOT_PLACEABLE.value,
        message=f"{missing.replicas} of {amount(demand.baseline, 'replica')} with {island} "
        f"{'has' if missing.replicas == 1 else 'have'} no place: {cure}",
    )


def reserve_of(found: Recommendation) -> list[Reserve]:
    """Return the room that no quota hands out, and where it is."""
    return [
        Reserve(
            gpus=shape.gpus,
            island=shape.island,
            asked=asked,
            kept=kept,
            witness=[
                WitnessPods(place.node, shape.gpus, shape.island, place.pods)
                for place in found.reserved
                if place.shape == shape
            ],
        )
        for shape, asked, kept in found.reserve
    ]


def flavors_of(found: Recommendation, snapshot: ClusterSnapshot, settings: PolicySettings) -> list[FlavorRow]:
    """Return what each flavor offers, and the sum of its quotas before and after."""
    before: defaultdict[tuple[str, str], int] = defaultdict(int)
    after: defaultdict[tuple[str, str], int] = defaultdict(int)
    for queue in snapshot.cluster_queues:
        for key, gpus in today_of(queue, settings).items():
            before[key] += gpus
    for own in pools_of(snapshot, settings).values():
        for key, gpus in own.items():
            before[key] += gpus
    for guarantee in found.guarantees:
        after[guarantee.flavor, guarantee.resource] += guarantee.nominal
    rows = []
    used = {index for indices in found.flavors.of_queue.values() for index in indices}
    for i, flavor in enumerate(found.flavors.flavors):
        capacity = found.fleet.capacities[i]
        biggest = sorted(name for name in found.gone if i in found.fleet.flavors_of[name])
        rows.append(
            FlavorRow(
                name=flavor.name,
                resource=flavor.resource,
                products=list(flavor.products),
                new=flavor.new and i in used,
                arithmetic=capacity.arithmetic,
                usable=capacity.usable,
                placeable=found.placeable({i}),
                placeable_without_biggest=found.placeable({i}, found.gone or found.biggest_of(i)),
                nominal=Change(before[flavor.name, flavor.resource], after[flavor.name, flavor.resource]),
                held_outside=dict(capacity.held_outside),
                unusable=dict(capacity.unusable),
                biggest=biggest or sorted(found.biggest_of(i)),
            )
        )
    return rows


def totals_of(found: Recommendation) -> Totals:
    """Return the GPUs of all flavors together; a node of several flavors counts once."""
    everywhere = range(len(found.flavors.flavors))
    nodes = {room.name: room for capacity in found.fleet.capacities for room in capacity.nodes}
    placeable = found.placeable(everywhere)
    return Totals(
        arithmetic=sum(found.flavors.allocatable.values()),
        placeable=placeable,
        placeable_without_biggest_node=placeable - found.most_on_one_node(),
        usable=sum(room.usable for room in nodes.values()),
        held_outside=sum(room.held_outside for room in nodes.values()),
    )


def created_of(target: Target, snapshot: ClusterSnapshot) -> list[str]:
    """Return the objects that are not there yet."""
    flavors = {flavor.name for flavor in snapshot.resource_flavors}
    queues = {queue.name for queue in snapshot.cluster_queues}
    doors = {(local.namespace, local.name) for local in snapshot.local_queues}
    cohorts = {cohort.name for cohort in snapshot.cohorts}
    found = [f"ResourceFlavor/{flavor.name}" for flavor in target.flavors if flavor.name not in flavors]
    found += [f"Cohort/{cohort.name}" for cohort in target.cohorts if cohort.name not in cohorts]
    found += [f"ClusterQueue/{queue.name}" for queue in target.queues if queue.name not in queues]
    return found + [
        f"LocalQueue/{door.namespace}/{door.name}"
        for door in target.local_queues
        if (door.namespace, door.name) not in doors
    ]


def edited_of(target: Target, snapshot: ClusterSnapshot) -> list[str]:
    """Return what changes in objects of today beside quotas."""
    before = {queue.name: queue for queue in snapshot.cluster_queues}
    told = []
    for queue in target.queues:
        old = before.get(queue.name)
        if old is not None and old.cohort != queue.cohort:
            told.append(f"ClusterQueue/{queue.name} spec.cohortName: {old.cohort or 'none'} -> {queue.cohort}")
        if old is not None and old.namespace_selector is None:
            told.append(f"ClusterQueue/{queue.name} spec.namespaceSelector: it let nobody in, and says now who may")
    return told
