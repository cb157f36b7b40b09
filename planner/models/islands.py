"""Nodes on which links count: what their free GPUs may be, who can come there, and what is free afterwards.

A state is what the policy knows of the free GPUs of a node, whatever the GPUs are called. Moves come first, one after
the other, each into the state that the one before it leaves. Then comes demand, in any order: who starts first is
chance.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from msgspec import structs

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.policy.assess import Verdict, assess
from islander.policy.need import ContainerNeed, PodNeed
from islander.policy.occupancy import GpuState, Source, gpu_state
from islander.policy.settings import DEFAULT_MIX
from planner.models.alike import out_of_order, symmetries_at
from planner.models.classes import Classes, NodeClass, PodType, Site
from planner.models.kinder import bare, kinder_with_more
from planner.models.patterns import Leaving
from planner.problem import Problem
from planner.world import World

# All nodes with links together get about so many states; beyond, who comes is not followed any further.
MAX_STATES = 8_000
LEAST_STATES = 60
# And so many sets of pods that leave (of one node no more than so many are looked at), and sets of demands that come.
MAX_LEAVINGS = 40_000
LEAST_LEAVINGS = 16
MAX_LOOKED_AT = 5_000
MAX_FILLS = 20_000
LEAST_FILLS = 40


@dataclass(frozen=True, slots=True)
class Step:
    """One pod has come: the state afterwards; `linkless` when it prefers an island and may not get one."""

    state: int
    linkless: bool = False


@dataclass(frozen=True, slots=True)
class Fill:
    """Demands that come to a node, whatever their order.

    Attributes
    ----------
    comes
        (kind, demands), sorted.
    state
        One of the states that they may leave.
    linkless
        How many of them prefer an island and may not get one.
    """

    comes: tuple[tuple[int, int], ...]
    state: int
    linkless: int

    def count(self, kind: int) -> int:
        """Return how many demands of a kind come."""
        return next((count for index, count in self.comes if index == kind), 0)


@dataclass(frozen=True, slots=True)
class Islands:
    """The states of the nodes of one site.

    Attributes
    ----------
    states
        A node in each state: its GPUs of the first resource that it offers.
    steps
        Where a moving pod of a kind may come: by (state, kind).
    fills
        Sets of demands that may come then, by state.
    comes_back
        The (state, kind) where a pod of the kind has left that very node: another one has to come.
    empty
        States in which no pod holds a GPU.
    complete
        False when pods may come in more ways than these.
    """

    states: tuple[GpuState, ...]
    steps: Mapping[tuple[int, int], Step]
    fills: Mapping[int, tuple[Fill, ...]]
    comes_back: frozenset[tuple[int, int]]
    empty: frozenset[int]
    complete: bool


def kind_of(need: PodNeed) -> PodNeed:
    """Return what of a need decides which GPUs it takes, and whether a node of the right product accepts it."""
    if need.wants_island:
        return PodNeed(need.resource, need.gpus, need.containers, need.topology)
    return PodNeed(need.resource, need.gpus, tuple(ContainerNeed(c.gpus, 1, c.kind) for c in need.containers))


def kinds_of(classes: Classes) -> dict[PodNeed, int]:
    """Return the index of every kind of pod."""
    indexes: dict[PodNeed, int] = {}
    for kind in (*classes.types, *classes.demands):
        indexes.setdefault(kind_of(kind.footprint.need), len(indexes))
    return indexes


def islands_of(
    problem: Problem, world: World, classes: Classes
) -> tuple[dict[int, Islands], dict[int, tuple[Leaving, ...]]]:
    """Return the states of each site on which links count, and the leavings of each class of it, by their indexes.

    The room of such a leaving is the state that it leads to.
    """
    by_site: defaultdict[int, list[int]] = defaultdict(list)
    for c, node_class in enumerate(classes.classes):
        if not classes.sites[node_class.site].counted:
            by_site[node_class.site].append(c)
    share = _Share.among(sites=len(by_site), classes=sum(map(len, by_site.values())))
    islands: dict[int, Islands] = {}
    leavings: dict[int, tuple[Leaving, ...]] = {}
    for s, members in by_site.items():
        graph = _Graph(problem, world, classes, classes.sites[s])
        for c in members:
            leavings[c] = graph.leavings(classes.classes[c], share.leavings)
        islands[s] = graph.islands(share)
    return islands, leavings


@dataclass(frozen=True, slots=True)
class _Share:
    """How much of everything one site, or one class, may have."""

    states: int
    leavings: int
    fills: int

    @classmethod
    def among(cls, sites: int, classes: int) -> _Share:
        sites, classes = max(1, sites), max(1, classes)
        return cls(
            states=max(LEAST_STATES, MAX_STATES // sites),
            leavings=max(LEAST_LEAVINGS, MAX_LEAVINGS // classes),
            fills=max(LEAST_FILLS, MAX_FILLS // sites),
        )


@dataclass(frozen=True, slots=True)
class _Witness:
    """A node that is in a state, and its GPUs by resource."""

    node: Node
    pods: tuple[Pod, ...]
    gpus: tuple[GpuState, ...]
    left: frozenset[int]


class _Graph:
    """The states of one site, found one from the other by asking the policy."""

    def __init__(self, problem: Problem, world: World, classes: Classes, site: Site) -> None:
        self._world, self._classes, self._site = world, classes, site
        self._nodes = {name: world.nodes[name] for name in site.nodes}
        self._kinds = kinds_of(classes)
        self._needs = {index: need for need, index in self._kinds.items()}
        self._movers, self._samples = Counter[int](), dict[int, Pod]()
        self._demands = Counter[int]()
        waiting = {demand.key: demand.pod for demand in problem.demands}
        for kind in classes.types:
            if site.index in kind.sites:
                self._movers[self._index(kind)] += len(kind.pods)
            self._samples.setdefault(self._index(kind), problem.movable[kind.pods[0]].pod)
        for kind in classes.demands:
            if site.index in kind.sites:
                self._demands[self._index(kind)] += len(kind.pods)
            self._samples.setdefault(self._index(kind), waiting[kind.pods[0]])
        # A pod of a group may come back to its own node; of single GPUs nothing is won by it.
        self._told_apart = frozenset(
            self._index(kind) for kind in classes.types if kind.gpus > 1 and problem.movable[kind.pods[0]].group is None
        )
        resources = {need.resource for need in self._needs.values()}
        first = self._nodes[site.nodes[0]]
        self._resources = sorted(resource for resource in resources if first.allocatable.count(resource))
        self._symmetries = symmetries_at(first, world, self._resources, self._needs.values())
        self._witnesses: list[_Witness] = []
        self._indexes: dict[Hashable, int] = {}
        self._steps: dict[tuple[int, int], Step | None] = {}
        self._starts: dict[int, None] = {}
        self._known_by_report: dict[tuple[frozenset[int], int], int] = {}
        self._complete = True

    def _index(self, kind: PodType) -> int:
        return self._kinds[kind_of(kind.footprint.need)]

    def leavings(self, node_class: NodeClass, most: int) -> tuple[Leaving, ...]:
        """Return every set of pods that may leave a node of the class, the empty one first; of equal ones only one."""
        name, movable = node_class.nodes[0], node_class.pods[0]
        node = self._nodes[name]
        there = [pod for pod in self._world.pods_at(name) if any(map(pod.spec.requests.count, self._resources))]
        reported = self._reported(node, there)
        found: dict[Hashable, Leaving] = {}
        chosen = chain.from_iterable(combinations(range(len(movable)), size) for size in range(len(movable)))
        for number, positions in enumerate(chain(chosen, [tuple(range(len(movable)))])):
            last = len(positions) == len(movable)
            if (len(found) >= most or number >= MAX_LOOKED_AT) and not last:
                self._complete = False
                continue
            gone = {movable[position] for position in positions}
            types = tuple(sorted(Counter(self._classes.type_of[key] for key in gone).items()))
            left = frozenset(self._index(self._classes.types[t]) for t, _ in types) & self._told_apart
            free = None if reported is None else reported[""] | sum(reported[key] for key in gone)
            state = self._known_by_report.get((left, free)) if free is not None else None
            if state is None:
                state = self._state(node, tuple(pod for pod in there if pod.key not in gone), left)
                if free is not None:
                    self._known_by_report[left, free] = state
            self._starts[state] = None
            found.setdefault((types, state), Leaving(types, state, positions))
        sources = {state.source for leaving in found.values() for state in self._witnesses[leaving.room].gpus}
        # Where a report that was wrong becomes right as pods leave, less may be known while they are still there.
        self._complete = self._complete and len(sources) <= len(self._resources)
        return tuple(found.values())

    def _reported(self, node: Node, there: Sequence[Pod]) -> dict[str, int] | None:
        """Return which GPUs each pod holds, and under "" the free ones; None where the report does not tell for sure.

        Where it does, nodes of the site with the same free GPUs are in the same state.
        """
        if node.gpu_report is None or len(self._resources) > 1:
            return None
        state = self._world.state(node.name, self._resources[0])
        if state.source is not Source.AGENT:
            return None
        gpus = dict.fromkeys(("", *(pod.key for pod in there)), 0)
        out = out_of_order(node, state.hardware.gpus)
        for gpu in node.gpu_report.gpus:
            if gpu.index < state.hardware.gpus and not out >> gpu.index & 1:
                gpus[gpu.pod if gpu.pod in gpus else ""] |= 1 << gpu.index
        held = (gpus[pod.key].bit_count() == pod.spec.requests.count(self._resources[0]) for pod in there)
        return gpus if all(held) else None

    def islands(self, share: _Share) -> Islands:
        """Return all that can be reached from where leavings lead."""
        queue, seen = deque(self._starts), dict(self._starts)
        steps: dict[tuple[int, int], Step] = {}
        while queue:
            state = queue.popleft()
            for kind in sorted(self._movers):
                step = self._step(state, kind)
                if step is None:
                    continue
                if step.state not in seen:
                    if len(seen) >= share.states:
                        self._complete = False
                        continue
                    seen[step.state] = None
                    queue.append(step.state)
                steps[state, kind] = step
        fills = self._fills(seen, share.fills)
        kinder = self._is_kinder_with_more()
        return Islands(
            states=tuple(witness.gpus[0] for witness in self._witnesses),
            steps=steps,
            fills=fills,
            comes_back=frozenset(key for key in steps if key[1] in self._witnesses[key[0]].left),
            empty=frozenset(s for s, w in enumerate(self._witnesses) if not any(gpus.used for gpus in w.gpus)),
            complete=self._complete and kinder,
        )

    def _state(self, node: Node, pods: tuple[Pod, ...], left: frozenset[int]) -> int:
        gpus = tuple(gpu_state(node, pods, resource) for resource in self._resources)
        known = tuple((s.allocatable - s.used, s.source, self._symmetries.sets_like(s.free_sets)) for s in gpus)
        index = self._indexes.setdefault((left, known), len(self._witnesses))
        if index == len(self._witnesses):
            self._witnesses.append(_Witness(node, pods, gpus, left))
        return index

    def _step(self, state: int, kind: int) -> Step | None:
        """Return what follows when a pod comes; None when the policy says no."""
        if (state, kind) not in self._steps:
            self._steps[state, kind] = self._step_judged(self._witnesses[state], kind)
        return self._steps[state, kind]

    def _step_judged(self, here: _Witness, kind: int) -> Step | None:
        need = self._needs[kind]
        if need.resource not in self._resources:
            return None
        found = assess(here.gpus[self._resources.index(need.resource)], need, DEFAULT_MIX)
        if not found.accepted:
            return None
        number = len(here.pods)
        # Who comes has picked after all who are there.
        pod = structs.replace(self._samples[kind], name=f"~{number}", phase="Running", started=f"~{number:04}")
        state = self._state(here.node, (*here.pods, pod), here.left)
        return Step(state, linkless=need.wants_island and found.verdict is not Verdict.GUARANTEED)

    def _fills(self, states: Iterable[int], most: int) -> dict[int, tuple[Fill, ...]]:
        found: dict[int, tuple[Fill, ...]] = {}
        number = 0
        for state in states:
            found[state] = fills = tuple(self._fills_of(state)) if number < most else ()
            self._complete = self._complete and number < most
            number += len(fills)
        return {state: fills for state, fills in found.items() if fills}

    def _fills_of(self, state: int) -> Iterable[Fill]:
        """Yield the sets of demands that a node takes in every order, small sets first."""
        # By set of kinds: the states that some order leads to, and the demands that may get no island.
        reached: dict[tuple[int, ...], tuple[frozenset[int], int]] = {(): (frozenset((state,)), 0)}
        queue: deque[tuple[int, ...]] = deque([()])
        while queue:
            before = queue.popleft()
            for kind in sorted(self._demands):
                comes = tuple(sorted((*before, kind)))
                if comes in reached or comes.count(kind) > self._demands[kind]:
                    continue
                ends = self._in_every_order(comes, reached)
                if ends is not None:
                    reached[comes] = ends
                    queue.append(comes)
                    yield Fill(tuple(sorted(Counter(comes).items())), min(ends[0]), ends[1])

    def _in_every_order(
        self, comes: tuple[int, ...], reached: Mapping[tuple[int, ...], tuple[frozenset[int], int]]
    ) -> tuple[frozenset[int], int] | None:
        ends: set[int] = set()
        linkless = 0
        for last in set(comes):
            position = comes.index(last)
            before = reached.get((*comes[:position], *comes[position + 1 :]))
            if before is None:
                return None
            for state in before[0]:
                step = self._step(state, last)
                if step is None:
                    return None
                ends.add(step.state)
                linkless = max(linkless, before[1] + step.linkless)
        return frozenset(ends), linkless

    def _is_kinder_with_more(self) -> bool:
        kinds = frozenset(self._needs[kind] for kind in self._movers + self._demands)
        states = {w.gpus for w in self._witnesses}
        models = {gpus[n] for gpus in states for n in range(len(gpus))}
        seen: set[Hashable] = set()
        for model in models:
            key = (model.hardware, model.resource)
            if key not in seen:
                seen.add(key)
                wanted = frozenset(need for need in kinds if need.resource == model.resource)
                if not kinder_with_more(bare(model), wanted, self._symmetries):
                    return False
        return True
