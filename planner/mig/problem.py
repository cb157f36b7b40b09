"""The plan's problem in counts: nodes that are alike are one class, and so are GPUs that are alike within them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from islander.cluster import names
from islander.hardware.mig import Geometry
from planner.mig.demand import Demand, WholeNeed, geometries_in
from planner.mig.demands import Demands
from planner.mig.fleet import SINGLE, Fleet, FleetNode, spare_by_product
from planner.mig.gpus import FleetGpu, Use
from planner.mig.islands import is_uniform
from planner.mig.layouts import Counts, layouts_within
from planner.mig.legality import Legality
from planner.mig.patterns import Pattern, Patterns, gives_mib, idle_mask, is_unsure


@dataclass(frozen=True, slots=True)
class SlicedGpus:
    """GPUs of a node class that are cut already, or that run a pod that may leave, and could be cut anew.

    Attributes
    ----------
    positions
        Indexes of these GPUs on each node of the class, in the order of its nodes.
    counts, free
        Instances now, and those of them without a pod.
    released
        (index of a demand, instances) whose pods have to leave first.
    evicted
        (index of a whole need, pods) that have to leave first.
    room_mib
        The largest instance that the GPU can still give as it is: one that is free, or one that still fits.
    """

    node_class: int
    product: str
    positions: tuple[tuple[int, ...], ...]
    counts: Counts
    free: Counts
    released: tuple[tuple[int, int], ...] = ()
    evicted: tuple[tuple[int, int], ...] = ()
    room_mib: int = 0

    @property
    def destroyed(self) -> int:
        """Running instances, or whole GPUs in use, that end when the GPU is cut anew."""
        return sum(n for _, n in self.released) + sum(n for _, n in self.evicted)

    @property
    def size(self) -> int:
        """Such GPUs in all nodes of the class."""
        return sum(len(indexes) for indexes in self.positions)


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes between which a plan makes no difference.

    Attributes
    ----------
    site
        Index in `Problem.sites` of what may run there.
    patterns
        The first one changes nothing.
    """

    nodes: tuple[FleetNode, ...]
    site: int
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """All that the model is made from.

    Attributes
    ----------
    demands, wholes
        Instances and whole GPUs that are wanted; the running ones ask only for what is taken from them.
    sites
        For each kind of node whether each demand may run there, shape (sites, demands).
    may_stay
        For each node class whether each whole need may run there, shape (classes, wholes).
    spare
        Free instances now, by (site, product, profile).
    layouts
        What a GPU of a product can be cut into.
    whole_gpus
        Idle whole GPUs on nodes that take pods.
    """

    demands: tuple[Demand, ...]
    wholes: tuple[WholeNeed, ...]
    geometries: Mapping[str, Geometry]
    sites: tuple[tuple[bool, ...], ...]
    classes: tuple[NodeClass, ...]
    sliced: tuple[SlicedGpus, ...]
    may_stay: tuple[tuple[bool, ...], ...]
    spare: Mapping[tuple[int, str, str], int]
    layouts: Mapping[str, tuple[Counts, ...]]
    whole_gpus: int


def problem_of(fleet: Fleet, demands: Demands, leaving: Collection[str]) -> Problem:
    """Return the problem that a fleet and what is wanted of it pose.

    Parameters
    ----------
    leaving
        Keys of the pods that may be drained.
    """
    return _Builder(fleet, demands, frozenset(leaving)).problem()


class _Builder:
    def __init__(self, fleet: Fleet, demands: Demands, leaving: frozenset[str]) -> None:
        self._nodes = [node for node in fleet.nodes if node.takes_pods]
        self._leaving = leaving
        self._demands = demands.instances
        self._geometries = geometries_in(fleet)
        self._demand_of = {pod: i for i, d in enumerate(self._demands) if d.running for pod in d.pods}
        legality = Legality(self._nodes, self._demands, (*demands.wholes, *_evictable(fleet, leaving)))
        self._runs, self._wholes = legality.runs, legality.wholes
        self._stays = legality.stays
        self._whole_of = {pod: i for i, w in enumerate(self._wholes) if w.running for pod in w.pods}
        self._gpus_of_pod = Counter(pod for node in fleet.nodes for gpu in node.gpus for pod in gpu.pods)
        self._layouts = {
            product: layouts_within(geometry, self._most(product, geometry))
            for product, geometry in self._geometries.items()
        }

    def problem(self) -> Problem:
        sites: dict[tuple[bool, ...], int] = {}
        groups: defaultdict[tuple[object, ...], list[FleetNode]] = defaultdict(list)
        spare: Counter[tuple[int, str, str]] = Counter()
        for node in self._nodes:
            site = sites.setdefault(self._runs[node.name], len(sites))
            groups[site, self._stays[node.name], *self._alike(node)].append(node)
            for (product, profile), count in spare_by_product(node).items():
                spare[site, product, profile] += count
        patterns = Patterns(self._geometries, self._layouts, self._wholes, self._stays)
        classes: list[NodeClass] = []
        sliced: list[SlicedGpus] = []
        for nodes in groups.values():
            sliced += self._sliced(len(classes), nodes)
            site = sites[self._runs[nodes[0].name]]
            classes.append(NodeClass(tuple(nodes), site, tuple(patterns.of(nodes[0]))))
        return Problem(
            demands=self._demands,
            wholes=self._wholes,
            geometries=self._geometries,
            sites=tuple(sites),
            classes=tuple(classes),
            sliced=tuple(sliced),
            may_stay=tuple(self._stays[c.nodes[0].name] for c in classes),
            spare=dict(spare),
            layouts=self._layouts,
            whole_gpus=sum(idle_mask(node).bit_count() for node in self._nodes),
        )

    def _most(self, product: str, geometry: Geometry) -> Counts:
        """Return how many instances of each profile can be asked of one GPU."""
        most: Counter[str] = Counter()
        for demand in self._demands:
            profile = demand.profile_on(product)
            if profile is not None and (not demand.running or self._leaving):
                most[profile] += demand.count
        return tuple((p.name, min(most[p.name], p.max_count)) for p in geometry.profiles if most[p.name])

    def _alike(self, node: FleetNode) -> tuple[object, ...]:
        """Return what makes two nodes interchangeable, beside what may run there."""
        each = [(gpu.product, gpu.use, gpu.counts, gpu.free, self._leaves(gpu)) for gpu in node.gpus]
        gpus = tuple(sorted(each, key=repr)) if is_uniform(node.hardware) else tuple(each)
        unsure = node.state.free if is_unsure(node) else -1
        return node.closed is None, node.strategy, node.sliced_as, node.hardware, gpus, unsure, node.spare

    def _leaves(self, gpu: FleetGpu) -> tuple[tuple[int, int], ...] | None:
        """Return how many instances of which demands, or pods of which whole needs, leave the GPU; None if some stay.

        Whole needs are counted from -1 downwards.
        """
        if not gpu.pods or not set(gpu.pods) <= self._leaving or any(self._gpus_of_pod[pod] > 1 for pod in gpu.pods):
            return None
        if gpu.use is Use.WHOLE:
            return ((-1 - self._whole_of[gpu.pods[0]], 1),) if gpu.pods[0] in self._whole_of else None
        if gpu.use is not Use.SLICED or any(pod not in self._demand_of for pod in gpu.pods):
            return None
        return tuple(sorted(Counter(self._demand_of[i.pod] for i in gpu.instances if i.pod).items()))

    def _sliced(self, number: int, nodes: list[FleetNode]) -> Iterator[SlicedGpus]:
        """Yield the GPUs of a class that can be cut anew, those that are alike together."""
        if nodes[0].closed is not None or nodes[0].strategy == SINGLE:
            return
        groups: dict[tuple[object, ...], list[list[FleetGpu]]] = {}
        for at, node in enumerate(nodes):
            for gpu in node.gpus:
                leaves = self._leaves(gpu)
                if not self._layouts.get(gpu.product) or not ((gpu.use is Use.IDLE and gpu.instances) or leaves):
                    continue
                key = (gpu.product, gpu.counts, gpu.free, leaves)
                groups.setdefault(key, [[] for _ in nodes])[at].append(gpu)
        for members in groups.values():
            gpu = next(gpu for here in members for gpu in here)
            leaves = self._leaves(gpu) or ()
            geometry = self._geometries[gpu.product]
            yield SlicedGpus(
                node_class=number,
                product=gpu.product,
                positions=tuple(tuple(one.index for one in here) for here in members),
                counts=gpu.counts,
                free=gpu.free,
                released=tuple((index, n) for index, n in leaves if index >= 0),
                evicted=tuple((-1 - index, n) for index, n in leaves if index < 0),
                room_mib=gives_mib(geometry, gpu) if gpu.use is not Use.WHOLE else 0,
            )


def _evictable(fleet: Fleet, leaving: Collection[str]) -> Iterator[WholeNeed]:
    """Yield for each pod that may leave its one GPU what it would ask for then."""
    for node in fleet.nodes:
        for gpu in node.gpus:
            if gpu.use is Use.WHOLE and len(gpu.pods) == 1 and gpu.pods[0] in leaving:
                pod = fleet.pods[gpu.pods[0]]
                if pod.spec.requests.count(names.NVIDIA_GPU) == 1:
                    yield WholeNeed((), 1, pod.spec.priority, pod, (pod.key,), running=True)
