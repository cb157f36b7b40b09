"""What is alike: pods of one type, nodes of one site. Only counts of them enter the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from islander.cluster.pod import Pod
from islander.hardware.islands import is_island
from islander.policy.kubelet import ALIGNING_POLICIES
from islander.policy.need import PodNeed
from islander.policy.neighbours import Neighbourhood
from islander.policy.occupancy import GpuState
from islander.policy.settings import Topology
from planner.problem import Demand

NOBODY = Neighbourhood({}, {}, {}, ())


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a pod takes from a node; pods with equal footprints can take each other's place."""

    need: PodNeed
    cpu_milli: int
    memory_bytes: int
    host_ports: tuple[Hashable, ...] = ()

    @classmethod
    def of(cls, pod: Pod, need: PodNeed, *, scarce: bool) -> Footprint:
        """Return the footprint of a pod; CPU and memory are part of it only where they are `scarce`."""
        if not scarce:
            return cls(need, 0, 0, pod.spec.host_ports)
        return cls(need, pod.spec.requests.cpu_milli, pod.spec.requests.memory_bytes, pod.spec.host_ports)

    @property
    def gpus(self) -> int:
        """GPUs that the pod holds."""
        return self.need.gpus


@dataclass(frozen=True, slots=True)
class PodType:
    """Pods that no rule of the problem tells apart.

    Attributes
    ----------
    name
        Short and unique, for the names of variables.
    pods
        Keys, sorted: of running pods, or of demands.
    rank
        Of running pods: how many tiers of demand have a lower priority than the pods. Of demands: the tier, 0 first.
    sites
        Indexes of the sites whose nodes may take such a pod.
    linkless
        The counted sites among them where the pod's tensor parallel group is never joined by NVLink.
    """

    name: str
    footprint: Footprint
    pods: tuple[str, ...]
    rank: int
    reload_seconds: int
    sites: frozenset[int]
    linkless: frozenset[int] = frozenset()

    @property
    def gpus(self) -> int:
        """GPUs of one pod."""
        return self.footprint.gpus


@dataclass(frozen=True, slots=True)
class Site:
    """Nodes that take the same types of pods.

    Attributes
    ----------
    counted
        True where of the GPUs only the number of free ones counts; False where links between them count, too.
    left_over
        (milli CPU, bytes of memory, pods) that the node's pods leave over, where these may be too little for what comes
        onto its GPUs; such a node is a site of its own. None where they always suffice.
    """

    index: int
    nodes: tuple[str, ...]
    gpus: int
    counted: bool
    left_over: tuple[int, int, int] | None = None

    @property
    def single(self) -> bool:
        """True for a site of one node whose GPUs are counted: sums over its pods then say all."""
        return self.counted and len(self.nodes) == 1


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes of a site with the same number of free GPUs and the same types of movable pods.

    Attributes
    ----------
    spare
        Allocatable minus used GPUs; negative where pods hold more than the node offers.
    holds
        (type index, pods of it on one node), sorted.
    pods
        Where links count: keys of the movable pods of each node, alike ones at the same position. Empty elsewhere.
    """

    site: int
    nodes: tuple[str, ...]
    spare: int
    holds: tuple[tuple[int, int], ...]
    pods: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Classes:
    """The problem in counts.

    Attributes
    ----------
    types, demands
        Types of running pods that may move, and of pending ones.
    type_of
        Index into `types` by pod key.
    exact
        False where rules between pods were judged by the present placement, which moves may change. Where they are not
        judged at all, no legal plan is left out.
    """

    tiers: tuple[int, ...]
    types: tuple[PodType, ...]
    demands: tuple[PodType, ...]
    sites: tuple[Site, ...]
    classes: tuple[NodeClass, ...]
    type_of: Mapping[str, int]
    exact: bool


def pairs_of(classes: Classes) -> int:
    """Return how many (type, site) pairs there are: about as many variables as the model has."""
    return sum(len(kind.sites) for kind in (*classes.types, *classes.demands))


def thinned(classes: Classes, most: int) -> Classes:
    """Return the problem with fewer sites per type of running pods: those with most room, about `most` pairs in all.

    Its solutions fit; that there is none better it cannot tell.
    """
    room: Counter[int] = Counter()
    for node_class in classes.classes:
        room[node_class.site] += max(0, node_class.spare) * len(node_class.nodes)
    own = {site.index for site in classes.sites if not site.counted}
    per_type = max(3, most // max(1, len(classes.types)))

    def fewer(kind: PodType) -> PodType:
        ranked = sorted(kind.sites, key=lambda s: (-room[s], s))
        kept = [s for s in ranked if room[s] >= kind.gpus or s in own][:per_type]
        return replace(kind, sites=frozenset(kept), linkless=kind.linkless & frozenset(kept))

    return replace(classes, types=tuple(fewer(kind) for kind in classes.types), exact=False)


def tiers_of(demands: Iterable[Demand]) -> tuple[int, ...]:
    """Return the priorities of the demand, highest first."""
    return tuple(sorted({demand.priority for demand in demands}, reverse=True))


def rank_of(priority: int, tiers: tuple[int, ...]) -> int:
    """Return how many tiers have a lower priority."""
    return sum(tier < priority for tier in tiers)


def is_ruled(pod: Pod) -> bool:
    """Return whether the pod has rules about other pods."""
    return bool(pod.spec.pod_affinity or pod.spec.pod_anti_affinity or pod.spec.spread or pod.spec.host_ports)


def counts_decide(state: GpuState, needs: Iterable[PodNeed]) -> bool:
    """Return whether only the number of free GPUs decides if the node takes a pod with one of these needs."""
    numa_known = all(node is not None for node in state.hardware.numa)
    if state.topology_manager_policy in ALIGNING_POLICIES and numa_known:
        return False
    links = state.hardware.links
    if not state.whole or is_island(links, state.hardware.all_gpus) or not any(map(any, links.nvlinks)):
        # Either any GPUs are an island, or none are.
        return True
    return not any(need.wants_island and need.topology is Topology.REQUIRED for need in needs)


def without_rules(pod: Pod) -> Pod:
    """Return the pod without its rules about other pods."""
    if not is_ruled(pod):
        return pod
    spec = structs.replace(pod.spec, pod_affinity=(), pod_anti_affinity=(), spread=())
    return structs.replace(pod, spec=spec)
