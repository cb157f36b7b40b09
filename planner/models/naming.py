"""From counts to names: which node of a class, which pod of a type. The smallest names come first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from islander.cluster import names
from islander.cluster.pod import Pod
from islander.policy.selectors import selects
from planner.models.assignment import Case, MoveVars
from planner.models.patterns import footprints_of
from planner.rules import Rules


@dataclass(frozen=True, slots=True)
class Named:
    """Where pods go: by pod key (its own node when it restarts with its group), and by demand key."""

    moves: Mapping[str, str]
    admits: Mapping[str, str]


@dataclass(slots=True)
class _Slot:
    """Room on a node for one pod."""

    node: str
    frees: bool


def named(case: Case, v: MoveVars, values: Mapping[int, int]) -> Named:
    """Return the moves and admissions that a solution stands for.

    Parameters
    ----------
    values
        Value of each variable, by its index.
    """
    leavers, freed, rooms = _leavers(case, v, values)
    slots = _counted_slots(case, v, values, freed, rooms) | _own_slots(case, v, values)
    moves: dict[str, str] = {}
    admits: dict[str, str] = {}
    neighbours = _Neighbours(case)
    footprints = footprints_of(case.classes)

    def slots_of(site: int, kind_gpus: int, footprint: int) -> list[_Slot]:
        counted = case.classes.sites[site].counted
        return slots[site, kind_gpus if counted else footprint]

    for (t, s), variable in sorted(v.go.items()):
        kind = case.classes.types[t]
        for _ in range(values[variable.index]):
            free = slots_of(s, kind.gpus, footprints[kind.footprint])
            key, slot = _pair(case, leavers[t], free, neighbours)
            moves[key] = slot.node
            neighbours.add(slot.node, case.problem.movable[key].pod)
    waiting = {d: list(kind.pods) for d, kind in enumerate(case.classes.demands)}
    pods = {demand.key: demand.pod for demand in case.problem.demands}
    for (d, s), variable in sorted(v.admit.items()):
        kind = case.classes.demands[d]
        for _ in range(values[variable.index]):
            free = slots_of(s, kind.gpus, footprints[kind.footprint])
            key = waiting[d].pop(0)
            # The last rooms are those that somebody leaves.
            fits = (n for n in reversed(range(len(free))) if not neighbours.clash(free[n].node, pods[key]))
            slot = free.pop(next(fits, len(free) - 1))
            admits[key] = slot.node
            neighbours.add(slot.node, pods[key])
    moves = _without_round_trips(case, moves)
    for group, keys in case.problem.groups.items():
        if values[v.whole[group].index]:
            # Who restarts with its group without leaving comes back where it was.
            moves = {key: case.problem.movable[key].pod.node for key in keys} | moves
    return Named(moves, admits)


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
                leave(node, listed[number].types)
                rooms[node_class.site, listed[number].room].append(node)
    for n, patterns in enumerate(case.own):
        for p, pattern in enumerate(patterns.patterns):
            if values[v.own[n, p].index]:
                for key in pattern.leaves:
                    leavers[case.classes.type_of[key]].append(key)
    return leavers, freed, rooms


def _counted_slots(
    case: Case,
    v: MoveVars,
    values: Mapping[int, int],
    freed: set[str],
    rooms: dict[tuple[int, int], list[str]],
) -> dict[tuple[int, int], list[_Slot]]:
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


def _own_slots(case: Case, v: MoveVars, values: Mapping[int, int]) -> dict[tuple[int, int], list[_Slot]]:
    """Return the rooms on the other nodes by (site, footprint)."""
    slots: defaultdict[tuple[int, int], list[_Slot]] = defaultdict(list)
    for n, patterns in enumerate(case.own):
        for p, pattern in enumerate(patterns.patterns):
            if values[v.own[n, p].index]:
                for f, count in pattern.comes:
                    slots[patterns.site, f] += [_Slot(patterns.node, bool(pattern.leaves))] * count
    return slots


def _pair(case: Case, leavers: list[str], free: list[_Slot], neighbours: _Neighbours) -> tuple[str, _Slot]:
    """Take a pod and a room out of the lists: on another node than the pod's own, and beside nobody it repels."""
    for peaceful in (True, False):
        for number, slot in enumerate(free):
            for position, key in enumerate(leavers):
                pod = case.problem.movable[key].pod
                if pod.node != slot.node and not (peaceful and neighbours.clash(slot.node, pod)):
                    return leavers.pop(position), free.pop(number)
    return leavers.pop(0), free.pop(0)


class _Neighbours:
    """Who will be on which node, as far as pods that repel each other node by node are concerned."""

    def __init__(self, case: Case) -> None:
        self._world = case.world
        self._rules = Rules.of(case.world)
        self._coming: defaultdict[str, list[Pod]] = defaultdict(list)

    def add(self, node: str, pod: Pod) -> None:
        """Note that a pod comes to a node."""
        self._coming[node].append(pod)

    def clash(self, node: str, pod: Pod) -> bool:
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
