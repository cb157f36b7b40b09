"""The state of every node in arrays: a slot for each node, an id for each distinct state of a node's GPUs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
import numpy.typing as npt

from extender.judgement import NeedTable
from extender.wire import priority_fragments
from islander.policy.need import PodNeed
from islander.policy.occupancy import GpuState
from islander.policy.score import MAX_SCORE
from islander.policy.settings import DemandMix

Ints = npt.NDArray[np.int64]

UNKNOWN = -1
SCORES = MAX_SCORE + 1
# Judgements are kept for so many needs at a time; a cluster has a handful of shapes.
MOST_NEEDS = 64
# So many slots and states may be left over before everything is numbered anew.
SPARE = 4096


class Places:
    """Which node is in which slot. No slot is used twice, so a request that goes on never mixes up nodes.

    Attributes
    ----------
    slot_of
        By name of the node.
    fragments
        The entry of a node in the answer of prioritize, at `slot * SCORES + score`.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.slot_of: dict[str, int] = {}
        self.fragments: list[bytes] = []
        self._names: list[str] = []
        self._order: Ints = np.empty(0, dtype=np.int64)
        for name in names:
            self.add(name)

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str) -> None:
        """Give a node a slot, unless it has one."""
        if name not in self.slot_of:
            self.fragments.extend(priority_fragments(name, range(SCORES)))
            self._names.append(name)
            self.slot_of[name] = len(self._names) - 1

    def slots(self, names: Sequence[str]) -> Ints:
        """Return the slot of each node, `UNKNOWN` for one that has none."""
        return np.fromiter(map(self.slot_of.get, names, repeat(UNKNOWN)), dtype=np.int64, count=len(names))

    def order(self) -> Ints:
        """Return the place of each slot in the order of names, shape (slots,)."""
        order = self._order
        if len(order) < len(self._names):
            names = list(self._names)
            order = np.empty(len(names), dtype=np.int64)
            order[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
            self._order = order
        return order


class ResourceStates:
    """The states of all nodes for one resource name; each distinct state is judged once for each need.

    Attributes
    ----------
    states
        By id; only ever appended to.
    """

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.states: list[GpuState] = []
        self._of_slot: Ints = np.empty(0, dtype=np.int64)
        self._ids: dict[GpuState, int] = {}
        self._tables: OrderedDict[tuple[PodNeed, DemandMix], NeedTable] = OrderedDict()
        self._lock = threading.Lock()
        self._judged = 0

    def id_of(self, state: GpuState) -> int:
        """Return the id of a state, a new one when it has not been seen."""
        found = self._ids.get(state)
        if found is None:
            with self._lock:
                found = self._ids.get(state)
                if found is None:
                    found = len(self.states)
                    self.states.append(state)
                    self._ids[state] = found
        return found

    def put(self, slot: int, state: GpuState) -> None:
        """Make `state` the state of the node in a slot; only one thread at a time may do so."""
        if slot >= len(self._of_slot):
            wider = np.full(max(slot + 1, 2 * len(self._of_slot)), UNKNOWN, dtype=np.int64)
            wider[: len(self._of_slot)] = self._of_slot
            self._of_slot = wider
        self._of_slot[slot] = self.id_of(state)

    def ids(self, slots: Ints) -> Ints:
        """Return the id of the state in each slot, `UNKNOWN` where nothing is known."""
        of_slot = self._of_slot
        if not len(of_slot):
            return np.full(len(slots), UNKNOWN, dtype=np.int64)
        known = (slots >= 0) & (slots < len(of_slot))
        return np.where(known, of_slot[np.where(known, slots, 0)], UNKNOWN)

    def table(self, need: PodNeed, mix: DemandMix) -> NeedTable:
        """Return the judgements for a need; the one that was not asked for longest gives way."""
        with self._lock:
            table = self._tables.get((need, mix))
            if table is None:
                table = self._tables[need, mix] = NeedTable(need, mix, self.states)
                if len(self._tables) > MOST_NEEDS:
                    self._tables.popitem(last=False)
            else:
                self._tables.move_to_end((need, mix))
            return table

    def judge_new_states(self) -> None:
        """Judge what has come up since the last call, for every need that is asked for: off the way of requests."""
        new = np.arange(self._judged, len(self.states))
        if len(new):
            self._judged += len(new)
            with self._lock:
                tables = list(self._tables.values())
            for table in tables:
                table.warm(new)

    def judge_all(self, need: PodNeed, mix: DemandMix) -> None:
        """Judge the states that nodes are in now, for a need that will be asked for."""
        present = np.unique(self._of_slot)
        self.table(need, mix).warm(present[present != UNKNOWN])


@dataclass(frozen=True, slots=True)
class Index:
    """Places and states that belong together."""

    places: Places
    resources: dict[str, ResourceStates] = field(default_factory=dict)

    def is_wasteful(self, nodes: int) -> bool:
        """Return whether far more slots or states are kept than nodes need, from nodes and states that are gone."""
        limit = 4 * nodes + SPARE
        return len(self.places) > limit or any(len(r.states) > limit for r in self.resources.values())


@dataclass(frozen=True, slots=True)
class Sight:
    """The nodes of one request at one moment.

    Attributes
    ----------
    slots, states
        Shape (names,); `UNKNOWN` for a node that is not known.
    resource
        What `states` points into.
    """

    places: Places
    resource: ResourceStates
    slots: Ints
    states: Ints
