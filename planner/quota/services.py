"""Who runs pods with GPUs, as replicas: how many there must be, how many there may be, what each asks for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from islander.cluster.pod import Pod
from islander.cluster.queues import Autoscaler
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import Workload
from islander.policy.need import PodNeed, need_of
from islander.policy.settings import PolicySettings
from planner.quota.membership import Membership

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


def services_of(
    snapshot: ClusterSnapshot, settings: PolicySettings, membership: Membership
) -> tuple[dict[str, Service], list[str]]:
    """Return the owners of GPU pods by `namespace/Kind/name`, and what is missing to know their replicas.

    Pods that no quota counts, now or later, are nobody's demand: their GPUs are not there for quotas either.
    """
    pods: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if not pod.finished and _whole(need_of(pod, settings), settings) and membership.queue_of(pod):
            pods[owner_key(pod, snapshot)].append(pod)
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


def _whole(need: PodNeed, settings: PolicySettings) -> bool:
    return bool(need.gpus) and need.resource in settings.gpu_resources


def owner_key(pod: Pod, snapshot: ClusterSnapshot) -> str:
    """Return the outermost known owner of a pod as `namespace/Kind/name`; the pod itself when nobody owns it."""
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
