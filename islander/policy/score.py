"""Spread the order of nodes over the integers that kube-scheduler accepts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from islander.policy.assess import ScoreParts

MAX_SCORE = 10  # MaxExtenderPriority, kube-scheduler extender/v1
BEST_EQUALS = 9


def spread(parts: Sequence[ScoreParts | None]) -> list[int]:
    """Return the score of each node, 0..10, from the parts of its assessment; nodes come in a fixed order.

    Nodes with equal parts form a group. The first node of the best group gets 10 and the others of it 9: kube-scheduler
    breaks ties by chance, and chance would break one island after the other where a fixed choice breaks one. The lower
    groups spread evenly from 8 down to 0. None stands for a node that is unknown or does not fit, and gets 0.
    """
    keys = sorted({part for part in parts if part is not None})
    group = {part: index for index, part in enumerate(keys)}
    ranks = np.array([-1 if part is None else group[part] for part in parts], dtype=np.int64)
    scores: list[int] = spread_ranks(ranks, np.arange(len(ranks))).tolist()
    return scores


def spread_ranks(ranks: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the scores of nodes, shape (nodes,).

    Parameters
    ----------
    ranks
        Shape (nodes,); larger is better, -1 for a node that gets 0. Ranks need not be dense.
    order
        Shape (nodes,); a fixed key of each node, the same in every call: the smallest of the best group wins.
    """
    scores = np.zeros(len(ranks), dtype=np.int64)
    present = np.unique(ranks[ranks >= 0])
    if not len(present):
        return scores
    levels = np.zeros(len(present), dtype=np.int64)
    below = len(present) - 1
    if below:
        levels[:below] = np.arange(below) * BEST_EQUALS // below
    levels[below] = BEST_EQUALS
    known = ranks >= 0
    scores[known] = levels[np.searchsorted(present, ranks[known])]
    best = np.flatnonzero(ranks == present[-1])
    scores[best[np.argmin(order[best])]] = MAX_SCORE
    return scores
