"""What teams ask for: read from the policy, and where it is silent from autoscalers, owners and pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from islander.cluster.queues import ClusterQueue
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings, Shape, Topology
from planner.quota.membership import Membership
from planner.quota.policy_file import QuotaPolicy, TeamPolicy
from planner.quota.services import Service, owner_key, services_of
from planner.quota.teams import QueueDemand, ReplicaDemand


@dataclass(frozen=True, slots=True)
class Demands:
    """Who asks for what, by name of the queue, and what was not clear about it."""

    queues: tuple[QueueDemand, ...]
    warnings: tuple[str, ...] = ()


def demands_of(
    snapshot: ClusterSnapshot, settings: PolicySettings, policy: QuotaPolicy | None, membership: Membership
) -> Demands:
    """Return what the queues are asked for: the teams of the policy, and every queue with GPUs that no team is behind.

    Without Kueue objects and without a policy every namespace whose pods ask for GPUs is a team.
    """
    found, warnings = services_of(snapshot, settings, membership)
    by_namespace: defaultdict[str, list[Service]] = defaultdict(list)
    for service in found.values():
        by_namespace[service.namespace].append(service)
    queues = _of_policy(policy, by_namespace) if policy is not None else []
    named = {queue.queue for queue in queues}
    by_queue = _by_queue(snapshot, found, membership)
    gpu_queues = [q for q in snapshot.cluster_queues if _gpu_nominal(q, settings) is not None and q.name not in named]
    queues += [_of_queue(q, snapshot, by_queue[q.name], settings, fixed=bool(named)) for q in gpu_queues]
    if policy is None and not snapshot.cluster_queues:
        queues += [_of_namespace(name, services) for name, services in sorted(by_namespace.items())]
    return Demands(tuple(sorted(queues, key=lambda queue: queue.queue)), tuple(warnings))


def today_of(queue: ClusterQueue, settings: PolicySettings) -> dict[tuple[str, str], int]:
    """Return the nominal quota of a queue by (flavor, GPU resource)."""
    return {
        (flavor.flavor, quota.resource): quota.nominal
        for group in queue.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
        if quota.resource in settings.gpu_resources
    }


def _by_queue(
    snapshot: ClusterSnapshot, services: Mapping[str, Service], membership: Membership
) -> defaultdict[str, list[Service]]:
    found: defaultdict[str, list[Service]] = defaultdict(list)
    seen: set[str] = set()
    for pod in snapshot.pods:
        key = owner_key(pod, snapshot)
        if key in services and key not in seen and (queue := membership.queue_of(pod)):
            seen.add(key)
            found[queue].append(services[key])
    return found


def _of_policy(policy: QuotaPolicy, services: Mapping[str, Sequence[Service]]) -> list[QueueDemand]:
    by_queue: defaultdict[str, list[TeamPolicy]] = defaultdict(list)
    for team in policy.teams:
        by_queue[team.queue].append(team)
    return [
        QueueDemand(
            queue=queue,
            replicas=tuple(demand for team in teams for demand in _replicas_of_team(team, services)),
            cohort=next((team.cohort for team in teams if team.cohort is not None), None),
            namespaces=tuple(sorted({name for team in teams for name in team.namespaces})),
            weight=sum(team.weight for team in teams),
            may_borrow=any(team.may_borrow for team in teams),
        )
        for queue, teams in sorted(by_queue.items())
    ]


def _replicas_of_team(team: TeamPolicy, services: Mapping[str, Sequence[Service]]) -> list[ReplicaDemand]:
    own = [service for name in team.namespaces for service in services.get(name, ())]
    if team.shape is None:
        demands = _replicas_of(team.name, own, cap=None)
        if not demands:
            return [
                ReplicaDemand(
                    team.name,
                    Shape(1, island=False),
                    baseline=team.baseline_replicas or 0,
                    most=team.max_replicas,
                    source="policy",
                )
            ]
        return _with_policy_numbers(team, demands)
    shape, like = team.shape, [service for service in own if service.need.gpus == team.shape.gpus]
    gpus = sum((service.floor if service.floor is not None else service.running) * service.need.gpus for service in own)
    baseline = team.baseline_replicas if team.baseline_replicas is not None else -(-gpus // shape.gpus)
    most = team.max_replicas
    return [
        ReplicaDemand(
            team=team.name,
            shape=Shape(shape.gpus, island=shape.gpus > 1 and shape.island is not False),
            island_if_any=shape.island is None,
            product=shape.product or "",
            baseline=baseline if most is None else min(baseline, most),
            most=most,
            cpu_milli=max((service.cpu_milli for service in like), default=0),
            memory_bytes=max((service.memory_bytes for service in like), default=0),
            source="policy" if team.baseline_replicas is not None else _sources(own),
        )
    ]


def _with_policy_numbers(team: TeamPolicy, demands: list[ReplicaDemand]) -> list[ReplicaDemand]:
    """Return the replicas of a team whose shape the policy leaves out, with the numbers that it gives.

    They are replicas of the shape that most of the team's pods have; other shapes keep what was read.
    """
    most_seen = max(demands, key=lambda demand: (demand.baseline * demand.gpus, demand.gpus))
    place = demands.index(most_seen)
    if team.baseline_replicas is not None:
        demands = [replace(demand, baseline=0) for demand in demands]
        demands[place] = replace(demands[place], baseline=team.baseline_replicas, source="policy")
    if team.max_replicas is not None:
        demands = [replace(demand, most=demand.baseline) for demand in demands]
        demands[place] = replace(demands[place], most=max(team.max_replicas, demands[place].baseline))
    return demands


def _replicas_of(team: str, services: Sequence[Service], cap: int | None) -> list[ReplicaDemand]:
    """Return the replicas of services, one entry per shape, product and group size.

    Parameters
    ----------
    cap
        GPUs up to which replicas that end by themselves count as baseline; None for all that run.
    """
    groups: defaultdict[tuple[Shape, str, int], list[Service]] = defaultdict(list)
    for service in services:
        product = service.need.products[0] if service.need.products and len(service.need.products) == 1 else ""
        groups[service.need.shape, product, service.pods].append(service)
    served = sum((s.floor or 0) * s.need.gpus * s.pods for s in services if s.floor is not None)
    left = None if cap is None else max(0, cap - served)
    demands = []
    for (shape, product, pods), members in sorted(groups.items(), key=lambda item: item[0]):
        baseline = sum(service.floor for service in members if service.floor is not None)
        ending = sum(service.running for service in members if service.floor is None)
        if left is not None:
            ending = min(ending, left // (shape.gpus * pods))
            left -= ending * shape.gpus * pods
        known = all(service.most is not None for service in members)
        required = all(service.need.topology is Topology.REQUIRED for service in members)
        demands.append(
            ReplicaDemand(
                team=team,
                shape=shape,
                island_if_any=not required,
                product=product,
                pods=pods,
                baseline=baseline + ending,
                most=max(baseline, sum(service.most or 0 for service in members)) if known else None,
                cpu_milli=max(service.cpu_milli for service in members),
                memory_bytes=max(service.memory_bytes for service in members),
                source=_sources(members),
            )
        )
    return demands


def _of_queue(
    queue: ClusterQueue,
    snapshot: ClusterSnapshot,
    services: Sequence[Service],
    settings: PolicySettings,
    *,
    fixed: bool,
) -> QueueDemand:
    """Return the demand of a queue that no team of the policy is behind: what its pods need, its quota as its share.

    Parameters
    ----------
    fixed
        Whether there are teams in the policy: what they do not own then stays, or shrinks when it must.
    """
    today = _gpu_nominal(queue, settings) or 0
    demands = _replicas_of(queue.name, services, cap=today)
    if not demands:
        demands = [ReplicaDemand(queue.name, Shape(1, island=False), source="no pods")]
    if fixed:
        demands = [replace(demand, most=-(-today // demand.gpus)) for demand in demands]
    doors = {local.namespace for local in snapshot.local_queues if local.cluster_queue == queue.name}
    return QueueDemand(
        queue=queue.name,
        replicas=tuple(demands),
        namespaces=tuple(sorted(doors)),
        weight=float(max(1, today)) if not fixed else 1.0,
        may_borrow=True,
        limited=False,
    )


def _of_namespace(name: str, services: Sequence[Service]) -> QueueDemand:
    demands = _replicas_of(name, services, cap=None)
    return QueueDemand(queue=name, replicas=tuple(demands), namespaces=(name,), limited=False)


def _gpu_nominal(queue: ClusterQueue, settings: PolicySettings) -> int | None:
    """Return the GPUs of a queue's nominal quota, None when it has none of any GPU resource."""
    today = today_of(queue, settings)
    return sum(today.values()) if today else None


def _sources(services: Sequence[Service]) -> str:
    told = [service.source for service in services]
    return "; ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "") if told else "no pods"
