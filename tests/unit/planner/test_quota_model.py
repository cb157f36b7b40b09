"""The model of quotas: each rule binds, the objectives come in their order, and small cases are what counting says."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from islander.policy.settings import Shape
from planner.models.light_ortools import cp_model
from planner.models.quota_case import Claim, Holder, QuotaCase, steps_of
from planner.models.quota_search import nothing, solve
from planner.models.quotas import BASELINE, GUARANTEED, RULES, build, terms_of
from planner.options import SolveLimits
from planner.quota.rooms import Kind, NodeClass

ONE, TWO, FOUR = (Kind(Shape(gpus, island=gpus > 1)) for gpus in (1, 2, 4))
LIMITS = SolveLimits(10.0)


def a_holder(name: str = "q", island: int = 1, weight: float = 1.0, **fields) -> Holder:
    usual = {"flavors": (0,), "today": {}, "in_use": {}}
    return Holder(name, island, weight, **(usual | fields))


def a_case(holders, claims, *, kinds=(ONE, TWO, FOUR), classes=None, flavors=1, reserve=None) -> QuotaCase:
    """By default one flavor of two nodes of four, each an island."""
    usual = (NodeClass((0,), ("a", "b"), ((4, 0, 0), (2, 1, 0), (0, 2, 0), (0, 0, 1))),)
    return QuotaCase(
        flavors, kinds, usual if classes is None else classes, tuple(holders), tuple(claims), reserve or {}
    )


def test_variables_are_named_once_and_weights_are_whole():
    case = a_case([a_holder(), a_holder("r", 4)], [Claim(0, 0, 1, (0,)), Claim(1, 2, 1, (0,), 1)], reserve={1: 1})
    model, variables = build(case)
    called = [variable.name for variable in variables.all()]
    assert len(called) == len(set(called)) == len(model.proto.variables)
    assert all(isinstance(weight, int) for term in terms_of(case, variables) for _, weight in term.parts)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_says_its_inequality(rule):
    assert rule.__doc__.startswith("For every ")


def test_nothing_for_anybody_is_always_a_solution():
    case = a_case([a_holder(today={0: 3}, in_use={0: 2})], [Claim(0, 0, 1, (0,), 5)], reserve={0: 1})
    model, variables = build(case)
    values = nothing(case, variables)
    for variable in variables.all():
        model.add(variable == values[variable.index])
    assert cp_model.CpSolver().solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def test_baselines_come_before_everything_else():
    """The baseline of the light queue takes an island although the heavy one would use the GPUs."""
    found = solve(
        a_case(
            [a_holder("heavy", 1, 100.0), a_holder("light", 4, 1.0)],
            [Claim(0, 0, 1, (0,)), Claim(1, 2, 1, (0,), baseline=1)],
        ),
        LIMITS,
    )
    assert found.nominal == {(0, 0): 4, (1, 0): 4}


def test_what_has_no_place_is_missing():
    found = solve(a_case([a_holder(island=4)], [Claim(0, 2, 1, (0,), baseline=3)]), LIMITS)
    assert (found.missing, found.nominal) == ({0: 1}, {(0, 0): 8})
    assert found.phases[0].name == BASELINE
    assert (found.phases[0].value, found.phases[0].status) == (4.0, "optimal")


def test_the_reserve_is_kept_before_shares_and_after_baselines():
    found = solve(a_case([a_holder()], [Claim(0, 0, 1, (0,), baseline=2)], reserve={2: 1}), LIMITS)
    assert (found.nominal, found.short) == ({(0, 0): 4}, {2: 0})
    assert sum(pods for _, pods in found.reserved.items()) == 1


def test_shares_follow_weights():
    found = solve(
        a_case([a_holder("one", 1, 3.0), a_holder("two", 1, 1.0)], [Claim(0, 0, 1, (0,)), Claim(1, 0, 1, (0,))]), LIMITS
    )
    assert found.nominal == {(0, 0): 6, (1, 0): 2}


@pytest.mark.parametrize(("limit", "most", "right"), [(3, None, 3), (None, 2, 2), (None, None, 8)])
def test_limits_of_quota_and_replicas_hold(limit, most, right):
    found = solve(a_case([a_holder(limit=limit)], [Claim(0, 0, 1, (0,), most=most)]), LIMITS)
    assert found.nominal == {(0, 0): right}


def test_quota_in_use_is_kept_before_shares():
    """Both would have 4 by weight; one holds 6 within its quota."""
    used = a_holder("used", today={0: 6}, in_use={0: 6})
    found = solve(a_case([used, a_holder("new")], [Claim(0, 0, 1, (0,)), Claim(1, 0, 1, (0,))]), LIMITS)
    assert found.nominal == {(0, 0): 6, (1, 0): 2}


def test_equal_shares_change_least():
    """Two flavors with one node each: whoever has which today keeps it."""
    classes = (NodeClass((0,), ("a",), ((4, 0, 0),)), NodeClass((1,), ("b",), ((4, 0, 0),)))
    holders = [a_holder("one", flavors=(0, 1), today={1: 4}), a_holder("two", flavors=(0, 1), today={0: 4})]
    case = a_case(holders, [Claim(0, 0, 1, (0, 1)), Claim(1, 0, 1, (0, 1))], classes=classes, flavors=2)
    assert solve(case, LIMITS).nominal == {(0, 0): 0, (0, 1): 4, (1, 0): 4, (1, 1): 0}


def test_a_node_in_two_flavors_is_given_once():
    classes = (NodeClass((0, 1), ("a",), ((4, 0, 0),)),)
    holders = [a_holder("one", flavors=(0,)), a_holder("two", flavors=(1,))]
    case = a_case(holders, [Claim(0, 0, 1, (0,)), Claim(1, 0, 1, (1,))], classes=classes, flavors=2)
    found = solve(case, LIMITS)
    assert sum(found.nominal.values()) == 4
    assert sum(found.places.values()) == 4


def test_steps_of_a_share_fall_and_end_at_todays_quota():
    case = a_case([a_holder("q", 1, 2.0, today={0: 5}), a_holder("r")], [Claim(0, 0, 1, (0,)), Claim(1, 0, 1, (0,))])
    steps = steps_of(case, 0)
    values = [step.value for step in steps for _ in range(step.length)]
    assert values == sorted(values, reverse=True)
    assert len(values) == 8
    ends = [sum(step.length for step in steps[: i + 1]) for i in range(len(steps))]
    assert 5 in ends


def test_places_add_up_to_the_replicas_of_their_claim():
    case = a_case([a_holder(island=2)], [Claim(0, 1, 2, (0,), baseline=1)])
    found = solve(case, LIMITS)
    assert sum(found.places.values()) == 2 * sum(found.replicas.values())


@pytest.mark.parametrize("seed", range(25))
def test_small_cases_are_as_good_as_counting_all_of_them(seed):
    """Missing GPUs of baselines and GPUs guaranteed, against every choice of replicas and every layout of the nodes."""
    random = Random(seed)
    kinds = (ONE, TWO, FOUR)
    sizes = [random.choice([2, 4, 4]) for _ in range(random.randint(1, 2))]
    classes = tuple(NodeClass((0,), (f"n{i}",), _patterns(size)) for i, size in enumerate(sizes))
    holders, claims = [], []
    for h in range(random.randint(1, 3)):
        s = random.randrange(3)
        holders.append(a_holder(f"q{h}", kinds[s].shape.gpus, random.choice([1.0, 2.0])))
        claims.append(Claim(h, s, 1, (0,), random.randint(0, 2), random.choice([None, 2, 3])))
        if claims[-1].most is not None and claims[-1].most < claims[-1].baseline:
            claims[-1] = Claim(h, s, 1, (0,), claims[-1].most, claims[-1].most)
    case = a_case(holders, claims, kinds=kinds, classes=classes)
    found = solve(case, LIMITS)
    layouts = {tuple(map(sum, zip(*choice, strict=True))) for choice in product(*(_all(size) for size in sizes))}
    choices = product(*(range(9 if claim.most is None else claim.most + 1) for claim in claims))
    fits = [choice for choice in choices if _placeable(choice, claims, layouts)]

    def missing(choice):
        return sum(max(0, c.baseline - n) * case.gpus(c) for c, n in zip(claims, choice, strict=True))

    least = min(missing(choice) for choice in fits)
    values = {phase.name: phase.value for phase in found.phases}
    assert values.get(BASELINE, 0) == least
    best = [choice for choice in fits if missing(choice) == least]
    worth = max(_worth(case, choice) for choice in best)
    mine = tuple(found.replicas[c, 0] for c in range(len(claims)))
    assert mine in best
    assert _worth(case, mine) == pytest.approx(worth, rel=1e-6)
    assert values[GUARANTEED] == sum(n * case.gpus(c) for c, n in zip(claims, mine, strict=True))


def _all(size: int) -> list[tuple[int, int, int]]:
    return [
        (ones, twos, fours)
        for ones, twos, fours in product(range(size + 1), range(3), range(2))
        if ones + 2 * twos + 4 * fours <= size
    ]


def _patterns(size: int) -> tuple[tuple[int, int, int], ...]:
    return tuple(p for p in _all(size) if p[0] + 2 * p[1] + 4 * p[2] == size)


def _placeable(choice, claims, layouts) -> bool:
    need = [sum(n for c, n in zip(claims, choice, strict=True) if c.kind == s) for s in range(3)]
    return any(all(n <= places for n, places in zip(need, layout, strict=True)) for layout in layouts)


def _worth(case: QuotaCase, choice) -> float:
    """The k-th island of a holder is worth weight / k; a holder has one claim here."""
    return sum(
        case.holders[claim.holder].weight * sum(1 / k for k in range(1, n + 1))
        for claim, n in zip(case.claims, choice, strict=True)
    )
