"""From counts to names: which node of a class, which pod of a type. The smallest names come first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from islander.cluster import names
from islander.cluster.pod import Pod
from islander.policy.selectors import selects
from planner.models.variables import Case, MoveVars
from planner.parts import one_after_the_other
from planner.rules import Rules


@dataclass(frozen=True, slots=True)
class Named:
    """Where pods go.

    Attributes
    ----------
    moves, admits
        Target node by pod key (its own node when it restarts with its group), and by demand key.
    turns
        Of pods that come to nodes on which links count: who comes first to the same node has the lowest number.
    """

    moves: Mapping[str, str]
    admits: Mapping[str, str]
    turns: Mapping[str, int]


@dataclass(slots=True)
class _Slot:
    """Room on a node for one pod; `turn` counts those who come to the node where their order matters."""

    node: str
    frees: bool
    turn: int | None = None


# By site, and by what the site tells pods apart by.
_Slots = dict[tuple[int, int], list[_Slot]]


def named(case: Case, v: MoveVars, values: Mapping[int, int]) -> Named:
    """Return the moves and admissions that a solution stands for.

    Parameters
    ----------
    values
        Value of each variable, by its index.
    """
    leavers, freed, rooms = _leavers(case, v, values)
    slots = _counted_slots(case, v, values, freed, rooms)
    of_moves, of_demands = _linked_slots(case, v, values, freed, rooms)
    moves: dict[str, str] = {}
    admits: dict[str, str] = {}
    turns: dict[str, int] = {}
    guests = _Guests(case, [key for keys in leavers.values() for key in keys])
    for (t, s), variable in sorted(v.go.items()):
        size = case.size(s, case.classes.types[t])
        free = (of_moves if s in case.islands else slots)[s, size] if values[variable.index] else []
        for _ in range(values[variable.index]):
            key, slot = _pair(case, leavers[t], free, guests)
            moves[key] = slot.node
            if slot.turn is not None:
                turns[key] = slot.turn
            guests.add(slot.node, case.problem.movable[key].pod)
    waiting = {d: list(kind.pods) for d, kind in enumerate(case.classes.demands)}
    pods = {demand.key: demand.pod for demand in case.problem.demands}
    for (d, s), variable in sorted(v.admit.items()):
        size = case.size(s, case.classes.demands[d])
        free = (of_demands if s in case.islands else slots)[s, size] if values[variable.index] else []
        for _ in range(values[variable.index]):
            key = waiting[d].pop(0)
            # The last rooms are those that somebody leaves.
            fits = (n for n in reversed(range(len(free))) if guests.welcome(free[n].node, pods[key]))
            slot = free.pop(next(fits, len(free) - 1))
            admits[key] = slot.node
            guests.add(slot.node, pods[key])
    moves = _without_round_trips(case, moves)
    for group, keys in case.problem.groups.items():
        if values[v.whole[group].index]:
            # Who restarts with its group without leaving comes back where it was.
            moves = {key: case.problem.movable[key].pod.node for key in keys} | moves
    return Named(moves, admits, turns)


def _leavers(
    case: Case, v: MoveVars, values: Mapping[int, int]
) -> tuple[dict[int, list[str]], set[str], dict[tuple[int, int], list[str]]]:
    """Return who leaves by type, the nodes that somebody leaves, and the nodes by (site, free GPUs) after that."""
    leavers: defaultdict[int, list[str]] = defaultdict(list)
    rooms: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    freed: set[str] = set()
    on: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for key, t in sorted(case.classes.type_of.items()):
        on[case.problem.movable[key].pod.node, t].append(key)

    def leave(node: str, types: tuple[tuple[int, int], ...]) -> None:
        for t, count in types:
            leavers[t] += on[node, t][:count]
            if count:
                freed.add(node)

    def leave_at(c: int, node: str, positions: tuple[int, ...]) -> None:
        node_class = case.classes.classes[c]
        for position in positions:
            key = node_class.pods[node_class.nodes.index(node)][position]
            leavers[case.classes.type_of[key]].append(key)
            freed.add(node)

    for c, node_class in enumerate(case.classes.classes):
        listed = case.leavings[c]
        if listed is None:
            node = node_class.nodes[0]
            leave(node, tuple((t, values[v.out[c, t].index]) for t, _ in node_class.holds))
            if case.classes.sites[node_class.site].single:
                continue
            room = next(r for (index, r), variable in v.room.items() if index == c and values[variable.index])
            rooms[node_class.site, room].append(node)
            continue
        nodes = list(node_class.nodes)
        for number in reversed(range(len(listed))):
            for _ in range(values[v.leave[c, number].index]):
                node = nodes.pop(0)
                if node_class.site in case.islands:
                    leave_at(c, node, listed[number].positions)
                else:
                    leave(node, listed[number].types)
                rooms[node_class.site, listed[number].room].append(node)
    return leavers, freed, rooms


def _counted_slots(
    case: Case,
    v: MoveVars,
    values: Mapping[int, int],
    freed: set[str],
    rooms: dict[tuple[int, int], list[str]],
) -> _Slots:
    """Return the rooms cut on counted sites by (site, GPUs), those on nodes that nobody leaves first."""
    slots: defaultdict[tuple[int, int], list[_Slot]] = defaultdict(list)
    for site in case.classes.sites:
        if not site.counted or site.single:
            continue
        for r in range(site.gpus, 0, -1):
            there = sorted(rooms.get((site.index, r), ()), key=lambda node: (node in freed, node))
            for g in range(r, 0, -1):
                variable = v.cut.get((site.index, r, g))
                for _ in range(values[variable.index] if variable is not None else 0):
                    # Large pods go where somebody leaves, small ones where nobody has to be waited for.
                    node = there.pop()
                    slots[site.index, g].append(_Slot(node, node in freed))
                    rooms.setdefault((site.index, r - g), []).append(node)
    for kinds, family in ((case.classes.types, v.go), (case.classes.demands, v.admit)):
        for (index, s), variable in family.items():
            if case.classes.sites[s].single:
                node = case.classes.sites[s].nodes[0]
                slots[s, kinds[index].gpus] += [_Slot(node, node in freed)] * values[variable.index]
    for found in slots.values():
        found.sort(key=lambda slot: (slot.frees, slot.node))
    return slots


def _linked_slots(
    case: Case,
    v: MoveVars,
    values: Mapping[int, int],
    freed: set[str],
    rooms: Mapping[tuple[int, int], list[str]],
) -> tuple[_Slots, _Slots]:
    """Return the rooms on nodes where links count by (site, kind): for pods that move, and for demands."""
    of_moves: defaultdict[tuple[int, int], list[_Slot]] = defaultdict(list)
    of_demands: defaultdict[tuple[int, int], list[_Slot]] = defaultdict(list)
    for s, islands in case.islands.items():
        flows = {(r, g): values[v.cut[s, r, g].index] for r, g in islands.steps}
        flows = {key: nodes for key, nodes in flows.items() if nodes}
        states = [r for site, r in rooms if site == s]
        steps = [(r, case.after(s, r, g)) for r, g in flows]
        # (node, how many have come), by the state that the node is in.
        there: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        for r in one_after_the_other(states, steps):
            there[r] += [(node, 0) for node in rooms.get((s, r), ())]
            # Who moves goes where nobody has to be waited for, demand where somebody leaves.
            there[r].sort(key=lambda item: (item[0] in freed, item))
            for g in sorted(kind for state, kind in flows if state == r):
                for node, turn in there[r][: flows[r, g]]:
                    of_moves[s, g].append(_Slot(node, node in freed, turn))
                    there[case.after(s, r, g)].append((node, turn + 1))
                del there[r][: flows[r, g]]
            for f, fill in enumerate(islands.fills.get(r, ())):
                for _ in range(values[v.fill[s, r, f].index]):
                    node, _ = there[r].pop()
                    for g, count in fill.comes:
                        of_demands[s, g] += [_Slot(node, node in freed) for _ in range(count)]
    for found in of_moves.values():
        found.sort(key=lambda slot: (slot.frees, slot.node, slot.turn))
    return of_moves, of_demands


def _pair(case: Case, leavers: list[str], free: list[_Slot], guests: _Guests) -> tuple[str, _Slot]:
    """Take a pod and a room out of the lists: on another node than the pod's own, and on one that welcomes it."""
    for welcome in (True, False):
        for number, slot in enumerate(free):
            for position, key in enumerate(leavers):
                pod = case.problem.movable[key].pod
                if pod.node != slot.node and not (welcome and not guests.welcome(slot.node, pod)):
                    return leavers.pop(position), free.pop(number)
    return leavers.pop(0), free.pop(0)


class _Guests:
    """Who will be on which node, as far as it matters that counts do not tell: what is left, and who repels whom."""

    def __init__(self, case: Case, leaving: Iterable[str]) -> None:
        self._world = case.world
        self._rules = Rules.of(case.world)
        self._coming: defaultdict[str, list[Pod]] = defaultdict(list)
        self._leaving = frozenset(leaving)
        # (milli CPU, bytes of memory, pods) by node.
        self._left: dict[str, tuple[int, int, int]] = {}

    def add(self, node: str, pod: Pod) -> None:
        """Note that a pod comes to a node."""
        left, requests = self._left_on(node), pod.spec.requests
        self._left[node] = (left[0] - requests.cpu_milli, left[1] - requests.memory_bytes, left[2] - 1)
        self._coming[node].append(pod)

    def welcome(self, node: str, pod: Pod) -> bool:
        """Return whether CPU, memory and pod slots suffice, and nobody there must not share the node with the pod."""
        left, requests = self._left_on(node), pod.spec.requests
        enough = left[0] >= requests.cpu_milli and left[1] >= requests.memory_bytes and left[2] > 0
        return enough and not self._clash(node, pod)

    def _left_on(self, node: str) -> tuple[int, int, int]:
        """Return what a node has left once all who leave have left and those who came so far have come."""
        if node not in self._left:
            offers = self._world.nodes[node]
            staying = [pod for pod in self._world.pods_at(node) if pod.key not in self._leaving]
            self._left[node] = (
                offers.allocatable.cpu_milli - sum(pod.spec.requests.cpu_milli for pod in staying),
                offers.allocatable.memory_bytes - sum(pod.spec.requests.memory_bytes for pod in staying),
                offers.max_pods - len(staying),
            )
        return self._left[node]

    def _clash(self, node: str, pod: Pod) -> bool:
        """Return whether the pod and one that is on the node, or comes there, must not share a node."""
        if not pod.spec.pod_anti_affinity and not self._rules.repel(pod) and not self._coming[node]:
            return False
        others = (other for other in (*self._world.pods_at(node), *self._coming[node]) if other.key != pod.key)
        return any(_repels(pod, other) or _repels(other, pod) for other in others)


def _repels(pod: Pod, other: Pod) -> bool:
    return any(
        term.topology_key == names.HOSTNAME and selects(term.selector, dict(other.labels))
        for term in pod.spec.pod_anti_affinity
    )


def _without_round_trips(case: Case, moves: dict[str, str]) -> dict[str, str]:
    """Drop moves that end where they start, after trading targets with an equal pod where that helps."""
    stuck = [key for key, node in moves.items() if case.problem.movable[key].pod.node == node]
    for key in stuck:
        home = moves[key]
        for other, target in sorted(moves.items()):
            same_type = case.classes.type_of[other] == case.classes.type_of[key]
            if same_type and target != home and case.problem.movable[other].pod.node != home:
                moves[key], moves[other] = target, home
                break
    return {key: node for key, node in moves.items() if case.problem.movable[key].pod.node != node}
