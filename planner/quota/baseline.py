"""What teams ask for: read from the policy, and where it is silent from autoscalers, owners and pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from islander.cluster.pod import Pod
from islander.cluster.queues import Autoscaler, ClusterQueue
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import Workload
from islander.policy.need import PodNeed, need_of
from islander.policy.settings import PolicySettings, Shape, Topology
from planner.quota.membership import Membership
from planner.quota.policy_file import QuotaPolicy, TeamPolicy
from planner.quota.teams import QueueDemand, ReplicaDemand

# Kinds whose replicas serve until somebody says otherwise; what else runs (Jobs) ends by itself.
_SERVING = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "LeaderWorkerSet"})


@dataclass(frozen=True, slots=True)
class Service:
    """Pods of one owner that ask for GPUs, as replicas.

    Attributes
    ----------
    name
        `namespace/Kind/name`.
    running
        Replicas that hold GPUs now.
    floor
        Replicas that must always be there, by autoscaler or owner; None for pods that end by themselves.
    most
        Largest number of replicas of its autoscaler; None when nothing limits them.
    """

    name: str
    namespace: str
    need: PodNeed
    pods: int
    running: int
    floor: int | None
    most: int | None
    cpu_milli: int
    memory_bytes: int
    source: str


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


def services_of(
    snapshot: ClusterSnapshot, settings: PolicySettings, membership: Membership
) -> tuple[dict[str, Service], list[str]]:
    """Return the owners of GPU pods by `namespace/Kind/name`, and what is missing to know their replicas.

    Pods that no quota counts, now or later, are nobody's demand: their GPUs are not there for quotas either.
    """
    pods: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if not pod.finished and _whole(need_of(pod, settings), settings) and membership.queue_of(pod):
            pods[_owner_key(pod, snapshot)].append(pod)
    workloads = {f"{w.namespace}/{w.kind}/{w.name}": w for w in snapshot.workloads}
    scalers = _scalers(snapshot.autoscalers)
    found = {key: _service(key, members, workloads, scalers, settings) for key, members in sorted(pods.items())}
    warnings = [
        f"{scaler.kind} {scaler.namespace}/{scaler.name}: no pod of {scaler.target_kind}/{scaler.target_name} is in "
        f"the snapshot, so the GPUs of its {scaler.min_replicas} replicas are not known"
        for key, scaler in sorted(scalers.items())
        if key not in found and key in workloads and scaler.min_replicas and not workloads[key].replicas
    ]
    return found, warnings


def today_of(queue: ClusterQueue, settings: PolicySettings) -> dict[tuple[str, str], int]:
    """Return the nominal quota of a queue by (flavor, GPU resource)."""
    return {
        (flavor.flavor, quota.resource): quota.nominal
        for group in queue.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
        if quota.resource in settings.gpu_resources
    }


def _whole(need: PodNeed, settings: PolicySettings) -> bool:
    return bool(need.gpus) and need.resource in settings.gpu_resources


def _owner_key(pod: Pod, snapshot: ClusterSnapshot) -> str:
    owner = snapshot.owners.workload_of(pod)
    return f"{pod.namespace}/{owner}" if owner else f"{pod.namespace}/Pod/{pod.name}"


def _scalers(scalers: Sequence[Autoscaler]) -> dict[str, Autoscaler]:
    """Return the autoscaler of each target; a ScaledObject counts before the autoscaler that KEDA makes for it."""
    by_target: dict[str, Autoscaler] = {}
    for scaler in sorted(scalers, key=lambda s: (s.kind == "ScaledObject", s.namespace, s.name)):
        by_target[f"{scaler.namespace}/{scaler.target_kind}/{scaler.target_name}"] = scaler
    return by_target


def _service(
    key: str,
    pods: Sequence[Pod],
    workloads: Mapping[str, Workload],
    scalers: Mapping[str, Autoscaler],
    settings: PolicySettings,
) -> Service:
    largest = max(pods, key=lambda pod: (need_of(pod, settings).gpus, pod.key))
    workload, scaler = workloads.get(key), scalers.get(key)
    group = workload.group_size if workload is not None else 1
    running = -(-sum(pod.holds_devices for pod in pods) // group)
    kind = key.split("/")[1]
    floor, most, source = None, None, f"{running} running"
    if scaler is not None:
        floor, most = scaler.min_replicas, scaler.max_replicas
        source = f"{scaler.kind} {scaler.namespace}/{scaler.name}"
    elif kind in _SERVING:
        known = workload is not None and workload.replicas is not None
        floor = (workload.replicas or 0) if workload is not None and known else running
        source = f"replicas of {key}" if known else f"{running} running of {key}"
    return Service(
        name=key,
        namespace=pods[0].namespace,
        need=need_of(largest, settings),
        pods=group,
        running=running,
        floor=floor,
        most=most,
        cpu_milli=max(pod.spec.requests.cpu_milli for pod in pods),
        memory_bytes=max(pod.spec.requests.memory_bytes for pod in pods),
        source=source,
    )


def _by_queue(
    snapshot: ClusterSnapshot, services: Mapping[str, Service], membership: Membership
) -> defaultdict[str, list[Service]]:
    found: defaultdict[str, list[Service]] = defaultdict(list)
    seen: set[str] = set()
    for pod in snapshot.pods:
        key = _owner_key(pod, snapshot)
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
