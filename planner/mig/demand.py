"""What is wanted: instances that pods ask for or hold, or flags or a file name; and whole GPUs that pods wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from islander.cluster import names
from islander.cluster.mig_devices import INVALID
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.mig import GEOMETRIES, Geometry, geometry_for, parse_profile_name, profile_of_resource
from islander.hardware.products import parse_product_label, product_by_label
from islander.policy.need import PodNeed, need_of
from islander.policy.selectors import unmatched_key, untolerated_taint
from islander.policy.settings import PolicySettings
from planner.errors import PlannerError
from planner.mig.fleet import MIXED, SINGLE, Fleet, FleetNode, devices_of
from planner.mig.memory import gib, usable_mib
from planner.mig.options import MigOptions, WantedModel, WantedProfile
from planner.problem import is_waiting

PENDING, RUNNING = "pending pods", "running pods"
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Demand:
    """Instances that are wanted for one reason.

    Attributes
    ----------
    profile
        As it was asked for; of a model the profiles that can hold it, joined by ` or `.
    accepts
        (product, profile) that serve: a name means another size on another product, so each has its own.
    strategy
        MIG strategy under which the instances are asked for: mixed, single, or empty for either.
    pod
        One of the pods, which all may run on the same nodes; None when no pod is known.
    pods
        Keys of the pods, sorted.
    running
        True when the pods have their instances already; they ask for others only when theirs are taken away.
    """

    profile: str
    count: int
    priority: int
    source: str
    accepts: tuple[tuple[str, str], ...]
    product: str = ""
    strategy: str = ""
    pod: Pod | None = None
    pods: tuple[str, ...] = ()
    running: bool = False

    def profile_on(self, product: str) -> str | None:
        """Return the profile that serves on a product, None when none does."""
        return dict(self.accepts).get(product)


@dataclass(frozen=True, slots=True)
class WholeNeed:
    """Whole GPUs that pods wait for, which must not be cut away from under them.

    Attributes
    ----------
    islands
        Sizes of the islands that one pod needs, all on one node, largest first.
    loose
        GPUs that it needs beside them, joined or not.
    running
        True for pods that have their GPU and would ask for another one when it is taken away.
    """

    islands: tuple[int, ...]
    loose: int
    priority: int
    pod: Pod
    pods: tuple[str, ...]
    running: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of one pod."""
        return sum(self.islands) + self.loose


@dataclass(frozen=True, slots=True)
class Demands:
    """All that is wanted, and what is uncertain about it."""

    instances: tuple[Demand, ...]
    wholes: tuple[WholeNeed, ...]
    warnings: tuple[str, ...] = ()


def demands_of(snapshot: ClusterSnapshot, fleet: Fleet, settings: PolicySettings, options: MigOptions) -> Demands:
    """Return what is wanted of a cluster, by priority, highest first.

    Raises
    ------
    PlannerError
        A profile that is asked for exists on no product at all, or a product is not known.
    """
    geometries = geometries_in(fleet)
    warnings: list[str] = []
    instances = [_of_profile(wanted, geometries) for wanted in options.profiles]
    instances += [_of_model(wanted, geometries) for wanted in options.models]
    running = _running(fleet, geometries, settings, warnings)
    pending = [] if options.asked else _pending(snapshot, geometries, settings, warnings)
    instances += pending + running
    return Demands(
        tuple(sorted(instances, key=lambda d: (-d.priority, d.running, d.profile, d.source, d.pods))),
        tuple(_wholes(snapshot, settings)),
        tuple(warnings),
    )


def geometries_in(fleet: Fleet) -> dict[str, Geometry]:
    """Return the geometry of each product of the fleet whose profiles are known, by product."""
    products = {gpu.product for node in fleet.nodes for gpu in node.gpus}
    products |= {product_of(node.node) for node in fleet.nodes}
    return {product: found for product in sorted(products) if (found := geometry_for(product)) is not None}


def product_of(node: Node) -> str:
    """Return the product that a node's label names, without endings; empty when there is none."""
    return parse_product_label(node.label(names.GPU_PRODUCT) or "").name


def may_run(demand: Demand, node: FleetNode) -> bool:
    """Return whether pods of the demand may use instances of the node, as far as labels and taints tell."""
    # Where labels do not tell, instances are offered under their own names.
    if not node.takes_pods or (demand.strategy and demand.strategy != (node.strategy or MIXED)):
        return False
    return demand.pod is None or tolerates(demand.pod, node.node)


def tolerates(pod: Pod, node: Node) -> bool:
    """Return whether selectors and taints let a pod on a node; what its product label says of MIG does not count."""
    plain = product_of(node)
    if plain:
        spec = pod.spec
        asked = tuple((k, parse_product_label(v).name if k == names.GPU_PRODUCT else v) for k, v in spec.node_selector)
        labels = tuple((k, plain if k == names.GPU_PRODUCT else v) for k, v in node.labels)
        if asked != spec.node_selector or labels != node.labels:
            pod = structs.replace(pod, spec=structs.replace(spec, node_selector=asked))
            node = structs.replace(node, labels=labels)
    return untolerated_taint(pod, node) is None and unmatched_key(pod, node) is None


def _of_profile(wanted: WantedProfile, geometries: Mapping[str, Geometry]) -> Demand:
    if parse_profile_name(wanted.profile) is None:
        raise PlannerError(f"{_where(wanted)}: {wanted.profile!r:.40} is no MIG profile; {_there(geometries)}")
    allowed = _restricted(wanted.product, geometries, _where(wanted))
    accepts = _accepting(wanted.profile, allowed)
    if not accepts:
        table = [g for g in GEOMETRIES if _exact(g, wanted.profile)]
        if not table or wanted.product:
            on = f"product {wanted.product} has no" if wanted.product else "no product has a"
            raise PlannerError(f"{_where(wanted)}: {on} profile {wanted.profile}; {_there(allowed or geometries)}")
    return Demand(wanted.profile, wanted.count, wanted.priority, wanted.source, accepts=accepts, product=wanted.product)


def _of_model(wanted: WantedModel, geometries: Mapping[str, Geometry]) -> Demand:
    allowed = _restricted(wanted.product, geometries, f"{wanted.source}: product")
    accepts = tuple(
        (product, profile)
        for product, geometry in allowed.items()
        if (profile := smallest_profile(geometry, wanted.memory_mib)) is not None
    )
    profiles = sorted({profile for _, profile in accepts}) or [f"{gib(wanted.memory_mib)} GiB"]
    return Demand(
        " or ".join(profiles), wanted.replicas, wanted.priority, wanted.source, accepts=accepts, product=wanted.product
    )


def smallest_profile(geometry: Geometry, memory_mib: int) -> str | None:
    """Return the plain profile with the least memory of which vLLM can use so much, None when none has enough.

    Of two with equal memory the one that takes less of the GPU.
    """
    plain = [p for p in geometry.profiles if not p.media.value and usable_mib(p.memory_mib) >= memory_mib]
    best = min(plain, key=lambda p: (p.memory_mib, p.sm_slices), default=None)
    return best.name if best is not None else None


def _restricted(product: str, geometries: Mapping[str, Geometry], where: str) -> dict[str, Geometry]:
    """Return the products of the fleet that a demand allows."""
    if not product:
        return dict(geometries)
    asked = product_by_label(parse_product_label(product).name)
    if asked is None or geometry_for(product) is None:
        raise PlannerError(f"{where}: no recommendation for product {product!r:.80}: its MIG profiles are not known")
    return {label: geometry for label, geometry in geometries.items() if product_by_label(label) is asked}


def _accepting(profile: str, geometries: Mapping[str, Geometry]) -> tuple[tuple[str, str], ...]:
    """Return the profiles of this very name; where no product has it, those that a driver may have called so."""
    exact = tuple((label, name) for label, g in geometries.items() if (name := _exact(g, profile)))
    if exact:
        return exact
    return tuple((label, found.name) for label, g in geometries.items() if (found := g.profile(profile)) is not None)


def _exact(geometry: Geometry, profile: str) -> str:
    asked = parse_profile_name(profile)
    return next((p.name for p in geometry.profiles if parse_profile_name(p.name) == asked), "")


def _where(wanted: WantedProfile) -> str:
    return wanted.source if wanted.source != "demand file" else "demand file: profile"


def _there(geometries: Mapping[str, Geometry]) -> str:
    if not geometries:
        return "the cluster has no GPU whose MIG profiles are known"
    each = (f"{product} has {', '.join(p.name for p in g.profiles)}" for product, g in geometries.items())
    return "; ".join(each)


def _pending(
    snapshot: ClusterSnapshot, geometries: Mapping[str, Geometry], settings: PolicySettings, warnings: list[str]
) -> list[Demand]:
    waiting = [pod for pod in snapshot.pods if is_waiting(pod)]
    asking = [(pod, asked) for pod in waiting if (asked := _asked(pod, geometries))]
    gated = [pod.key for pod, _ in asking if pod.spec.gated]
    if gated:
        warnings.append(f"{_some(gated)}: scheduling gates hold the pod: it does not wait for room yet")
    ready = [(pod, asked) for pod, asked in asking if not pod.spec.gated]
    _warn_about(ready, settings, warnings)
    return _grouped(ready, geometries, PENDING, running=False)


def running_demands(fleet: Fleet, pods: Collection[str]) -> list[Demand]:
    """Return what running pods would ask for if they had to leave their instances."""
    geometries = geometries_in(fleet)
    return _grouped(
        [(pod, asked) for pod, asked in _held(fleet, geometries) if pod.key in pods], geometries, RUNNING, running=True
    )


def _running(
    fleet: Fleet, geometries: Mapping[str, Geometry], settings: PolicySettings, warnings: list[str]
) -> list[Demand]:
    found = _held(fleet, geometries)
    _warn_about(found, settings, warnings)
    return _grouped(found, geometries, RUNNING, running=True)


_Asked = list[tuple[str, int, str]]


def _held(fleet: Fleet, geometries: Mapping[str, Geometry]) -> list[tuple[Pod, _Asked]]:
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


def _asked(pod: Pod, geometries: Mapping[str, Geometry]) -> _Asked:
    """Return (profile, count, strategy) of the instances that a pod asks for."""
    found: _Asked = []
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
    found: Iterable[tuple[Pod, _Asked]], geometries: Mapping[str, Geometry], source: str, *, running: bool
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
            accepts=_accepting(profile, geometries),
            strategy=strategy,
            pod=pods[0][0],
            pods=tuple(sorted(pod.key for pod, _ in pods)),
            running=running,
        )
        for (profile, strategy, priority, _), pods in groups.items()
    ]


def _warn_about(found: Sequence[tuple[Pod, _Asked]], settings: PolicySettings, warnings: list[str]) -> None:
    split = [pod.key for pod, _ in found if need_of(pod, settings).tensor_parallel > 1]
    if split:
        warnings.append(
            f"{_some(split)}: tensor parallelism over MIG instances: they have no peer-to-peer, by NVLink or PCIe; ask "
            "for whole GPUs"
        )
    several = [pod.key for pod, asked in found if sum(count for _, count, _ in asked) > 1]
    if several:
        warnings.append(f"{_some(several)}: several instances for one pod: that they are on one node is not judged")


def _wholes(snapshot: ClusterSnapshot, settings: PolicySettings) -> list[WholeNeed]:
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
