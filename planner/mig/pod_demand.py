"""What pods want: instances that they ask for or hold, and whole GPUs that they wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from islander.cluster import names
from islander.cluster.mig_devices import INVALID
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.mig import Geometry, profile_of_resource
from islander.hardware.products import parse_product_label
from islander.policy.need import PodNeed, need_of
from islander.policy.settings import PolicySettings
from planner.mig.demand import Demand, WholeNeed, accepting, geometries_in
from planner.mig.fleet import MIXED, SINGLE, Fleet
from planner.mig.gpus import devices_of
from planner.problem import is_waiting

PENDING, RUNNING = "pending pods", "running pods"
_MOST_NAMED = 3


def running_demands(fleet: Fleet, pods: Collection[str]) -> list[Demand]:
    """Return what running pods would ask for if they had to leave their instances."""
    geometries = geometries_in(fleet)
    return _grouped(
        [(pod, asked) for pod, asked in _held(fleet, geometries) if pod.key in pods], geometries, RUNNING, running=True
    )


def pending_demands(
    snapshot: ClusterSnapshot, geometries: Mapping[str, Geometry], settings: PolicySettings, warnings: list[str]
) -> list[Demand]:
    """Return the instances that pending pods wait for, and note what is odd about them."""
    waiting = [pod for pod in snapshot.pods if is_waiting(pod)]
    asking = [(pod, asked) for pod in waiting if (asked := _asked(pod, geometries))]
    gated = [pod.key for pod, _ in asking if pod.spec.gated]
    if gated:
        warnings.append(f"{_some(gated)}: scheduling gates hold the pod: it does not wait for room yet")
    ready = [(pod, asked) for pod, asked in asking if not pod.spec.gated]
    _warn_about(ready, settings, warnings)
    return _grouped(ready, geometries, PENDING, running=False)


def held_demands(
    fleet: Fleet, geometries: Mapping[str, Geometry], settings: PolicySettings, warnings: list[str]
) -> list[Demand]:
    """Return the instances that running pods hold, and note what is odd about them."""
    found = _held(fleet, geometries)
    _warn_about(found, settings, warnings)
    return _grouped(found, geometries, RUNNING, running=True)


Asked = list[tuple[str, int, str]]


def _held(fleet: Fleet, geometries: Mapping[str, Geometry]) -> list[tuple[Pod, Asked]]:
    """Return the instances that pods hold."""
    found = []
    sliced = {node.name: node.sliced_as for node in fleet.nodes}
    for pod in sorted(fleet.pods.values(), key=lambda pod: pod.key):
        if not pod.holds_devices:
            continue
        asked = _asked(pod, geometries)
        profile = sliced.get(pod.node, "")
        count = pod.spec.requests.count(names.NVIDIA_GPU)
        if profile and profile != INVALID and count:
            asked = [(profile, count, SINGLE)]
        if asked:
            found.append((pod, asked))
    return found


def _asked(pod: Pod, geometries: Mapping[str, Geometry]) -> Asked:
    """Return (profile, count, strategy) of the instances that a pod asks for."""
    found: Asked = []
    for name, count in devices_of(pod):
        if name.startswith(names.MIG_RESOURCE_PREFIX):
            found.append((profile_of_resource(name) or name.removeprefix(names.MIG_RESOURCE_PREFIX), count, MIXED))
    gpus = pod.spec.requests.count(names.NVIDIA_GPU)
    wanted = {parse_product_label(v).mig for k, v in pod.spec.node_selector if k == names.GPU_PRODUCT}
    profile = next((p for p in wanted if p and p != INVALID), None)
    # Under strategy `single` pods ask for plain GPUs, and tell by the product label that they mean slices.
    if gpus and profile:
        found.append((profile, gpus, SINGLE))
    return found


def _grouped(
    found: Iterable[tuple[Pod, Asked]], geometries: Mapping[str, Geometry], source: str, *, running: bool
) -> list[Demand]:
    """Put pods together that ask for the same and may run on the same nodes."""
    groups: defaultdict[tuple[str, str, int, object], list[tuple[Pod, int]]] = defaultdict(list)
    for pod, asked in found:
        spec = pod.spec
        for profile, count, strategy in asked:
            where = (spec.node_selector, spec.node_terms, spec.tolerations)
            groups[profile, strategy, spec.priority, where].append((pod, count))
    return [
        Demand(
            profile,
            sum(count for _, count in pods),
            priority,
            source,
            accepts=accepting(profile, geometries),
            strategy=strategy,
            pod=pods[0][0],
            pods=tuple(sorted(pod.key for pod, _ in pods)),
            running=running,
        )
        for (profile, strategy, priority, _), pods in groups.items()
    ]


def _warn_about(found: Sequence[tuple[Pod, Asked]], settings: PolicySettings, warnings: list[str]) -> None:
    split = [pod.key for pod, _ in found if need_of(pod, settings).tensor_parallel > 1]
    if split:
        warnings.append(
            f"{_some(split)}: tensor parallelism over MIG instances: they have no peer-to-peer, by NVLink or PCIe; ask "
            "for whole GPUs"
        )
    several = [pod.key for pod, asked in found if sum(count for _, count, _ in asked) > 1]
    if several:
        warnings.append(f"{_some(several)}: several instances for one pod: that they are on one node is not judged")


def whole_needs(snapshot: ClusterSnapshot, settings: PolicySettings) -> list[WholeNeed]:
    """Return the whole GPUs that pods wait for, pods that ask for the same and may run on the same nodes together."""
    groups: defaultdict[tuple[object, ...], list[Pod]] = defaultdict(list)
    shapes: dict[tuple[object, ...], tuple[tuple[int, ...], int]] = {}
    for pod in snapshot.pods:
        if not waits_for_whole(pod):
            continue
        shape = whole_shape(need_of(pod, settings))
        spec = pod.spec
        key = (shape, spec.priority, spec.node_selector, spec.node_terms, spec.tolerations)
        groups[key].append(pod)
        shapes[key] = shape
    found = [
        WholeNeed(*shapes[key], priority=pods[0].spec.priority, pod=pods[0], pods=tuple(sorted(p.key for p in pods)))
        for key, pods in groups.items()
    ]
    return sorted(found, key=lambda need: (-need.priority, -need.gpus, need.pods))


def waits_for_whole(pod: Pod) -> bool:
    """Return whether the pod waits for whole GPUs, and not for slices that go by their name."""
    asks = bool(pod.spec.requests.count(names.NVIDIA_GPU)) and not _asked(pod, {})
    return asks and is_waiting(pod) and not pod.spec.gated


def whole_shape(need: PodNeed) -> tuple[tuple[int, ...], int]:
    """Return the islands and the loose GPUs that a pod needs on one node."""
    if not need.wants_island:
        return (), need.gpus
    islands = (need.island,) * (need.gpus // need.island)
    return islands, need.gpus - sum(islands)


def _some(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
    return ", ".join(sorted(keys)[:_MOST_NAMED]) + more
