"""Spreading ranks over the integers that kube-scheduler accepts."""

import numpy as np
import pytest

from islander.policy.assess import ScoreParts
from islander.policy.score import spread, spread_ranks


def test_first_node_of_the_best_group_gets_ten_and_its_equals_nine() -> None:
    best, worse = ScoreParts(link=1800), ScoreParts(link=20)
    assert spread([worse, best, best, worse]) == [0, 10, 9, 0]


def test_equal_nodes_are_told_apart_only_by_their_fixed_order() -> None:
    assert spread([ScoreParts()] * 3) == [10, 9, 9]


def test_a_node_that_is_unknown_or_does_not_fit_gets_zero_g18() -> None:
    assert spread([None, ScoreParts(), None]) == [0, 10, 0]
    assert spread([None, None]) == [0, 0]
    assert spread([]) == []


def test_order_of_importance_beats_any_amount_of_the_less_important() -> None:
    linked = ScoreParts(link=100, room_kept=-8.0, packing=0)
    packed = ScoreParts(link=50, room_kept=0.0, packing=99)
    assert spread([packed, linked]) == [0, 10]


@pytest.mark.parametrize("groups", [1, 2, 3, 9, 10, 11, 40])
def test_scores_stay_in_range_and_never_turn_the_order_round(groups: int) -> None:
    ranks = np.arange(groups)
    scores = spread_ranks(ranks, ranks)
    assert scores.max() == 10
    assert scores.min() >= 0
    assert (np.diff(scores) >= 0).all()


def test_order_of_the_request_does_not_matter() -> None:
    ranks, order = np.array([1, 3, 3, 0]), np.array([0, 2, 1, 3])
    shuffled = np.array([2, 0, 3, 1])
    assert (spread_ranks(ranks, order)[shuffled] == spread_ranks(ranks[shuffled], order[shuffled])).all()
