"""What pods want: instances that they ask for or hold, and whole GPUs that they wait for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from islander.cluster import names
from islander.cluster.mig_devices import INVALID
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.mig import Geometry, geometry_for, profile_of_resource
from islander.policy.need import PodNeed, need_of
from islander.policy.settings import PolicySettings
from planner.mig.demand import Demand, WholeNeed, accepting, geometries_in
from planner.mig.fleet import MIXED, SINGLE, Fleet
from planner.mig.gpus import canonical, devices_of
from planner.mig.layouts import whole_layout
from planner.mig.tolerance import product_of, sliced_profile
from planner.problem import is_waiting

PENDING, RUNNING = "pending pods", "running pods"
_MOST_NAMED = 3


def running_demands(fleet: Fleet, pods: Collection[str]) -> list[Demand]:
    """Return what running pods would ask for if they had to leave their instances."""
    geometries = geometries_in(fleet)
    return _grouped([(pod, asked) for pod, asked in _held(fleet) if pod.key in pods], geometries, RUNNING, running=True)


def pending_demands(
    snapshot: ClusterSnapshot,
    fleet: Fleet,
    geometries: Mapping[str, Geometry],
    settings: PolicySettings,
    warnings: list[str],
) -> list[Demand]:
    """Return the instances that pending pods wait for, and note what is odd about them."""
    waiting = [pod for pod in snapshot.pods if is_waiting(pod)]
    asking = [(pod, asked) for pod in waiting if (asked := _asked(pod))]
    gated = [pod.key for pod, _ in asking if pod.spec.gated]
    if gated:
        warnings.append(f"{_some(gated)}: scheduling gates hold the pod: it does not wait for room yet")
    ready = [(pod, asked) for pod, asked in asking if not pod.spec.gated]
    _warn_about(ready, settings, warnings)
    return _grouped(ready, geometries, PENDING, running=False, most=_most_on_a_node(fleet))


def _most_on_a_node(fleet: Fleet) -> dict[tuple[str, str], int]:
    """Return how many instances one node can have at the most, by (product, profile)."""
    most: defaultdict[tuple[str, str], int] = defaultdict(int)
    for node in fleet.nodes:
        # Of a node without a report the counts may be all that is known.
        plain = product_of(node.node)
        for name, count in node.node.capacity.extended:
            if (offered := profile_of_resource(name)) is not None:
                key = plain, canonical(geometry_for(plain), offered)
                most[key] = max(most[key], count)
        for product, gpus in Counter(gpu.product for gpu in node.gpus).items():
            geometry = geometry_for(product)
            for profile in geometry.profiles if geometry is not None else ():
                each = sum(count for _, count in whole_layout(geometry, profile.name)) if geometry is not None else 0
                most[product, profile.name] = max(most[product, profile.name], gpus * each)
    return most


def held_demands(
    fleet: Fleet, geometries: Mapping[str, Geometry], settings: PolicySettings, warnings: list[str]
) -> list[Demand]:
    """Return the instances that running pods hold, and note what is odd about them."""
    found = _held(fleet)
    _warn_about(found, settings, warnings)
    return _grouped(found, geometries, RUNNING, running=True)


Asked = list[tuple[str, int, str]]


def _held(fleet: Fleet) -> list[tuple[Pod, Asked]]:
    """Return the instances that pods hold."""
    found = []
    sliced = {node.name: node.sliced_as for node in fleet.nodes}
    for pod in sorted(fleet.pods.values(), key=lambda pod: pod.key):
        if not pod.holds_devices:
            continue
        asked = _asked(pod)
        profile = sliced.get(pod.node, "")
        count = pod.spec.requests.count(names.NVIDIA_GPU)
        if profile and profile != INVALID and count:
            asked = [(profile, count, SINGLE)]
        if asked:
            found.append((pod, asked))
    return found


def _asked(pod: Pod) -> Asked:
    """Return (profile, count, strategy) of the instances that a pod asks for."""
    found: Asked = []
    for name, count in devices_of(pod):
        if name.startswith(names.MIG_RESOURCE_PREFIX):
            found.append((profile_of_resource(name) or name.removeprefix(names.MIG_RESOURCE_PREFIX), count, MIXED))
    gpus = pod.spec.requests.count(names.NVIDIA_GPU)
    if gpus and (profile := sliced_profile(pod)):
        found.append((profile, gpus, SINGLE))
    return found


def _grouped(
    found: Iterable[tuple[Pod, Asked]],
    geometries: Mapping[str, Geometry],
    source: str,
    *,
    running: bool,
    most: Mapping[tuple[str, str], int] | None = None,
) -> list[Demand]:
    """Put pods together that ask for the same and may run on the same nodes.

    Parameters
    ----------
    most
        Instances that one node can have, by (product, profile): a pod that asks for more is not served there.
    """
    groups: defaultdict[tuple[object, ...], list[tuple[Pod, int]]] = defaultdict(list)
    kinds: dict[tuple[object, ...], Demand] = {}
    for pod, asked in found:
        spec = pod.spec
        for profile, count, strategy in asked:
            every = accepting(profile, geometries)
            accepts = tuple(on for on in every if most is None or count <= most[on])
            beyond = count if accepts != every else 0
            key = (profile, strategy, spec.priority, beyond, spec.node_selector, spec.node_terms, spec.tolerations)
            groups[key].append((pod, count))
            kinds[key] = Demand(
                profile,
                0,
                spec.priority,
                source,
                accepts=accepts,
                strategy=strategy,
                pod=pod,
                running=running,
                beyond=beyond,
            )
    return [
        replace(kind, count=sum(n for _, n in groups[key]), pods=tuple(sorted(pod.key for pod, _ in groups[key])))
        for key, kind in kinds.items()
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
    asks = bool(pod.spec.requests.count(names.NVIDIA_GPU)) and not _asked(pod)
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
