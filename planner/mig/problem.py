"""The plan's problem in counts: nodes that are alike are one class, and so are GPUs that are alike within them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from islander.cluster import names
from islander.cluster.pod import Pod
from islander.hardware.links import gpus_of, mask_of
from islander.hardware.mig import Geometry
from planner.mig.demand import Demand, Demands, WholeNeed, geometries_in, may_run, product_of, tolerates
from planner.mig.fleet import SINGLE, Fleet, FleetGpu, FleetNode, Use
from planner.mig.islands import choices, fitting, gpus_in_islands, is_uniform
from planner.mig.layouts import Counts, layouts_within, placed, room_mib, whole_layout


@dataclass(frozen=True, slots=True)
class Pattern:
    """What may become of the idle whole GPUs of a node.

    Attributes
    ----------
    given
        GPUs that are cut, as a mask over the class's first node; of uniform nodes only their number matters.
    taken
        (product, GPUs) that are cut into layouts to be chosen.
    broken
        GPUs in islands, over the sizes that count, that are in none any more.
    fits
        Pods of each whole need that fit in what stays, at the same time.
    uniform
        Profile that every GPU of the node is cut into, under strategy `single`; empty for none.
    supply
        (product, profile, instances) that a uniform node has more (or less) of free afterwards.
    changed
        GPUs of a uniform node whose layout changes.
    room_mib
        Of a uniform node: sum over its GPUs of the largest instance that still fits.
    whole_lost
        Idle whole GPUs that are whole no more.
    """

    given: int
    taken: tuple[tuple[str, int], ...]
    broken: int
    fits: tuple[int, ...]
    uniform: str = ""
    supply: tuple[tuple[str, str, int], ...] = ()
    changed: int = 0
    room_mib: int = 0
    whole_lost: int = 0


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


def idle_mask(node: FleetNode) -> int:
    """Return the idle whole GPUs of a node, as a bit mask; none where nobody knows which are idle."""
    return mask_of(gpu.index for gpu in node.gpus if gpu.use is Use.IDLE and not gpu.instances)


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
            for profile, count in node.spare:
                spare[site, _product_with(node, profile), profile] += count
        classes: list[NodeClass] = []
        sliced: list[SlicedGpus] = []
        for nodes in groups.values():
            sliced += self._sliced(len(classes), nodes)
            site = sites[self._runs[nodes[0].name]]
            classes.append(NodeClass(tuple(nodes), site, tuple(self._patterns(nodes[0]))))
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
                room_mib=_gives_mib(geometry, gpu) if gpu.use is not Use.WHOLE else 0,
            )

    def _patterns(self, node: FleetNode) -> Iterator[Pattern]:
        idle = idle_mask(node)
        if is_unsure(node):
            yield from self._fitting(node, self._unsure_vectors(node))
            return
        single = node.strategy == SINGLE
        room = sum(_gives_mib(self._geometries[g.product], g) for g in node.gpus if g.instances and g.geometry)
        yield from self._fitting(node, self._vectors(node, idle), room_mib=room if single and _all_idle(node) else 0)
        if node.closed is not None:
            return
        if single:
            yield from self._uniform(node, idle)
            return
        kinds = tuple(
            mask_of(g.index for g in node.gpus if idle >> g.index & 1 and g.product == product)
            for product in sorted({gpu.product for gpu in node.gpus})
            if self._layouts.get(product)
        )
        best: defaultdict[tuple[tuple[str, int], ...], list[Pattern]] = defaultdict(list)
        for given in choices(node.hardware, mask_of(g for kind in kinds for g in gpus_of(kind)), kinds):
            if not given:
                continue
            taken = Counter(node.gpus[at].product for at in _positions(node, given))
            broken = gpus_in_islands(node.hardware, idle) - gpus_in_islands(node.hardware, idle & ~given)
            for fits in self._vectors(node, idle & ~given):
                pattern = Pattern(given, tuple(sorted(taken.items())), broken, fits, whole_lost=given.bit_count())
                rivals = best[pattern.taken]
                if not any(_no_worse(rival, pattern) for rival in rivals):
                    best[pattern.taken] = [*(rival for rival in rivals if not _no_worse(pattern, rival)), pattern]
        for patterns in best.values():
            yield from patterns

    def _fitting(self, node: FleetNode, vectors: tuple[tuple[int, ...], ...], room_mib: int = 0) -> Iterator[Pattern]:
        for fits in vectors:
            yield Pattern(0, (), 0, fits, room_mib=room_mib)

    def _uniform(self, node: FleetNode, idle: int) -> Iterator[Pattern]:
        """Yield the ways to cut all GPUs of a node alike, which strategy `single` demands."""
        products = {gpu.product for gpu in node.gpus}
        if not _all_idle(node) or len(products) != 1:
            return
        (product,) = products
        geometry = self._geometries.get(product)
        if geometry is None:
            return
        broken = gpus_in_islands(node.hardware, idle)
        for profile in sorted({profile for counts in self._layouts[product] for profile, _ in counts}):
            counts = whole_layout(geometry, profile)
            changed = sum(gpu.counts != counts for gpu in node.gpus)
            layout = placed(geometry, counts)
            if not changed or layout is None:
                continue
            supply: Counter[tuple[str, str]] = Counter()
            for name, number in counts:
                supply[product, name] += number * len(node.gpus)
            for name, number in node.spare:
                supply[product, name] -= number
            yield Pattern(
                given=mask_of(gpu.index for gpu in node.gpus),
                taken=(),
                broken=broken,
                fits=self._vectors(node, 0)[0],
                uniform=profile,
                supply=tuple((*key, number) for key, number in sorted(supply.items()) if number),
                changed=changed,
                room_mib=len(node.gpus) * room_mib(geometry, layout),
                whole_lost=idle.bit_count(),
            )

    def _vectors(self, node: FleetNode, mask: int) -> tuple[tuple[int, ...], ...]:
        """Return how many pods of each whole need fit in a set of GPUs of the node at the same time."""
        stays = self._stays[node.name]
        needs = tuple(
            (need.islands, need.loose, min(len(need.pods), mask.bit_count() // max(1, need.gpus)) if allowed else 0)
            for need, allowed in zip(self._wholes, stays, strict=True)
        )
        return fitting(node.hardware, mask, needs)

    def _unsure_vectors(self, node: FleetNode) -> tuple[tuple[int, ...], ...]:
        """Return the same where it is not known which GPUs are free, only how many: islands only where all are one."""
        free = node.state.free if node.state.whole and node.state.offered and not node.state.shared else 0
        free = min(free, node.hardware.gpus)
        hardware = node.hardware
        if is_uniform(hardware) and hardware.topology_known:
            return self._vectors(node, (1 << free) - 1)
        stays = self._stays[node.name]
        needs = tuple(
            ((), need.loose, min(len(need.pods), free // need.loose) if allowed and not need.islands else 0)
            for need, allowed in zip(self._wholes, stays, strict=True)
        )
        return fitting(hardware, (1 << free) - 1, needs)


class Legality:
    """Which demands and whole needs may use which node, as far as labels and taints tell.

    Attributes
    ----------
    runs, stays
        By node name, for each demand and each whole need.
    wholes
        The needs, with those put together that ask for the same and may run on the same nodes.
    """

    def __init__(self, nodes: Sequence[FleetNode], demands: Sequence[Demand], wholes: Sequence[WholeNeed]) -> None:
        """Judge every kind of node once."""
        pods = [d.pod for d in demands if d.pod is not None] + [w.pod for w in wholes]
        self._keys = sorted({key for pod in pods for key in _mentioned(pod)})
        self._named = any(term.fields for pod in pods for term in pod.spec.node_terms or ())
        memo: dict[tuple[object, ...], tuple[tuple[bool, ...], tuple[bool, ...]]] = {}
        self.runs: dict[str, tuple[bool, ...]] = {}
        judged: dict[str, tuple[bool, ...]] = {}
        for node in nodes:
            key = self._signature(node)
            if key not in memo:
                runs = tuple(may_run(demand, node) for demand in demands)
                memo[key] = runs, tuple(node.takes_pods and tolerates(need.pod, node.node) for need in wholes)
            self.runs[node.name], judged[node.name] = memo[key]
        columns = [tuple(stays[i] for _, stays in memo.values()) for i in range(len(wholes))]
        groups: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for i, need in enumerate(wholes):
            groups[need.islands, need.loose, need.priority, need.running, columns[i]].append(i)
        self.wholes = tuple(
            replace(wholes[members[0]], pods=tuple(sorted(pod for i in members for pod in wholes[i].pods)))
            for members in groups.values()
        )
        self.stays = {name: tuple(stays[members[0]] for members in groups.values()) for name, stays in judged.items()}

    def _signature(self, node: FleetNode) -> tuple[object, ...]:
        labels = dict(node.node.labels)
        values = tuple(labels.get(key) for key in self._keys)
        name = node.name if self._named else ""
        return values, node.node.taints, node.strategy, node.takes_pods, product_of(node.node), name


def _mentioned(pod: Pod) -> Iterator[str]:
    yield from (key for key, _ in pod.spec.node_selector)
    for term in pod.spec.node_terms or ():
        yield from (requirement.key for requirement in term.labels)


def _evictable(fleet: Fleet, leaving: Collection[str]) -> Iterator[WholeNeed]:
    """Yield for each pod that may leave its one GPU what it would ask for then."""
    for node in fleet.nodes:
        for gpu in node.gpus:
            if gpu.use is Use.WHOLE and len(gpu.pods) == 1 and gpu.pods[0] in leaving:
                pod = fleet.pods[gpu.pods[0]]
                if pod.spec.requests.count(names.NVIDIA_GPU) == 1:
                    yield WholeNeed((), 1, pod.spec.priority, pod, (pod.key,), running=True)


def is_unsure(node: FleetNode) -> bool:
    """Return whether only the number of the node's free GPUs is known."""
    return not any(gpu.use in (Use.IDLE, Use.WHOLE, Use.SLICED) for gpu in node.gpus)


def _all_idle(node: FleetNode) -> bool:
    return bool(node.gpus) and all(gpu.use is Use.IDLE for gpu in node.gpus)


def _positions(node: FleetNode, mask: int) -> Iterator[int]:
    return (at for at, gpu in enumerate(node.gpus) if mask >> gpu.index & 1)


def _product_with(node: FleetNode, profile: str) -> str:
    """Return the product whose GPUs are cut into a profile on a node."""
    return next((g.product for g in node.gpus if any(i.profile == profile for i in g.instances)), product_of(node.node))


def _gives_mib(geometry: Geometry, gpu: FleetGpu) -> int:
    """Return the largest instance that a GPU can still give as it is cut: one that is free, or one that still fits."""
    free = (found.memory_mib for name, _ in gpu.free if (found := geometry.profile(name)) is not None)
    return max(room_mib(geometry, gpu.layout), *free, 0)


def _no_worse(one: Pattern, other: Pattern) -> bool:
    """Return whether a pattern breaks no more islands than another one and leaves no fewer pods of any kind room."""
    return one.broken <= other.broken and all(a >= b for a, b in zip(one.fits, other.fits, strict=True))
