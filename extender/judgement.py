"""The judgements of one need: of each state of a node once, then looked up by the id of the state."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from islander.policy.assess import ScoreParts, assess
from islander.policy.need import PodNeed
from islander.policy.occupancy import GpuState
from islander.policy.reasons import Code
from islander.policy.settings import DemandMix

CODES = tuple(Code)
ACCEPTED = -1
_NOT_JUDGED = -2
_UNRANKED = -1
_INDEX = {code: index for index, code in enumerate(CODES)}


@dataclass(frozen=True, slots=True)
class Judgements:
    """What a need finds on some nodes.

    Attributes
    ----------
    codes
        Shape (nodes,); index into `CODES` of the reason to refuse the node, `ACCEPTED` when there is none.
    ranks
        Shape (nodes,); place of the node's score parts among all that were seen, larger is better; -1 for a node
        that is refused, or accepted without anything to judge by.
    """

    codes: npt.NDArray[np.int64]
    ranks: npt.NDArray[np.int64]


def judge(state: GpuState, need: PodNeed, mix: DemandMix) -> tuple[Code | None, ScoreParts | None]:
    """Return why a node is refused (None when it is not), and what it is ranked by (None for nothing)."""
    found = assess(state, need, mix)
    return (None, found.parts) if found.accepted else (found.code or Code.INVALID_REQUEST, None)


class NeedTable:
    """Judgements of one need by the id of a node's state; thread-safe.

    Parameters
    ----------
    states
        By id; may grow while the table is in use.
    """

    def __init__(self, need: PodNeed, mix: DemandMix, states: Sequence[GpuState]) -> None:
        self._need = need
        self._mix = mix
        self._states = states
        self._codes = np.full(0, _NOT_JUDGED, dtype=np.int64)
        self._groups = np.full(0, _UNRANKED, dtype=np.int64)
        self._group_of: dict[ScoreParts, int] = {}
        self._rank_of_group = np.full(1, _UNRANKED, dtype=np.int64)
        self._filling = threading.Lock()

    def judgements(self, ids: npt.NDArray[np.int64]) -> Judgements:
        """Return the judgements of nodes by the ids of their states, all of which are known."""
        with self._filling:
            if len(self._codes) < len(self._states):
                self._grow(len(self._states))
            codes = self._codes[ids]
            if len(ids) and codes.min() == _NOT_JUDGED:
                self._fill(np.unique(ids[codes == _NOT_JUDGED]))
                codes = self._codes[ids]
            # The last entry stands for group -1.
            return Judgements(codes, self._rank_of_group[self._groups[ids]])

    def warm(self, ids: npt.NDArray[np.int64]) -> None:
        """Judge what is not judged yet; for a need that is new, this is the part that takes time."""
        self.judgements(ids)

    def _grow(self, size: int) -> None:
        more = max(size, 2 * len(self._codes)) - len(self._codes)
        self._codes = np.concatenate([self._codes, np.full(more, _NOT_JUDGED, dtype=np.int64)])
        self._groups = np.concatenate([self._groups, np.full(more, _UNRANKED, dtype=np.int64)])

    def _fill(self, ids: npt.NDArray[np.int64]) -> None:
        groups = len(self._group_of)
        for i in ids.tolist():
            code, parts = judge(self._states[i], self._need, self._mix)
            if parts is not None:
                self._groups[i] = self._group_of.setdefault(parts, len(self._group_of))
            self._codes[i] = ACCEPTED if code is None else _INDEX[code]
        if len(self._group_of) > groups:
            ranks = np.full(len(self._group_of) + 1, _UNRANKED, dtype=np.int64)
            for rank, parts in enumerate(sorted(self._group_of)):
                ranks[self._group_of[parts]] = rank
            self._rank_of_group = ranks
