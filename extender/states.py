"""The state of every node, by its name, as the id of one of few distinct states; each is judged once for each need."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from extender.judgement import NeedTable
from islander.policy.need import PodNeed
from islander.policy.occupancy import GpuState
from islander.policy.settings import DemandMix

Ints = npt.NDArray[np.int64]

UNKNOWN = -1
# Judgements are kept for so many needs at a time; a cluster has a handful of shapes.
MOST_NEEDS = 64
# So many states may be left over before everything is numbered anew.
SPARE = 4096


class ResourceStates:
    """The states of all nodes for one resource name; changed by one thread at a time, read by many.

    Attributes
    ----------
    states
        By id; only ever appended to.
    of_node
        Id of the state by name of the node. Ids are small and few: looking up thousands of names in one request
        touches little memory, which is where its time goes.
    """

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.states: list[GpuState] = []
        self.of_node: dict[str, int] = {}
        self._ids: dict[GpuState, int] = {}
        self._tables: OrderedDict[tuple[PodNeed, DemandMix], NeedTable] = OrderedDict()
        self._judged = 0
        self._lock = threading.Lock()

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

    def put(self, name: str, state: GpuState) -> None:
        """Make `state` the state of a node."""
        if name not in self.of_node:
            # A copy, beside those of the other nodes: the name that came with a node lies among the node's own data,
            # and a request that compares thousands of such names waits for memory at every one (twice the time).
            name = name.encode().decode()
        self.of_node[name] = self.id_of(state)

    def forget(self, name: str) -> None:
        """Take a node out."""
        self.of_node.pop(name, None)

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
        self.table(need, mix).warm(np.array(sorted(set(self.of_node.copy().values())), dtype=np.int64))

    def is_wasteful(self) -> bool:
        """Return whether far more states are kept than there are nodes, from states that are past."""
        return len(self.states) > 4 * len(self.of_node) + SPARE


@dataclass(frozen=True, slots=True)
class Sight:
    """The nodes of one request at one moment."""

    resource: ResourceStates
    names: Sequence[str]

    def ids(self, instead: Mapping[str, int]) -> Ints:
        """Return the id of each node's state, shape (names,); `UNKNOWN` for a node that is not known.

        Parameters
        ----------
        instead
            Ids by which some nodes are to be seen instead of their own.
        """
        of_node = {**self.resource.of_node, **instead} if instead else self.resource.of_node
        return np.fromiter(map(of_node.get, self.names, repeat(UNKNOWN)), dtype=np.int64, count=len(self.names))
