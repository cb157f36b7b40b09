"""Plans of small random clusters against the brute force, and what holds for every plan.

`ISLANDER_EXACT_CASES=1000` tries more clusters than a usual test run does.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime

import pytest

from islander.cluster import names
from islander.policy.settings import DEFAULT_MIX, PolicySettings
from planner.models.solve import classes_for, propose
from planner.moves import plan_moves
from planner.options import PlanOptions
from planner.order import NoOrder, sequence
from planner.outlook import after
from planner.plan import MovePlan
from planner.problem import problem_of
from planner.solution import carry_out
from planner.world import World
from tests.brute_force import best
from tests.random_instances import RandomCase, random_case

SETTINGS, OPTIONS = PolicySettings(), PlanOptions()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CASES = int(os.environ.get("ISLANDER_EXACT_CASES", "150"))
BATCH = 25


def is_bridged(seed: int) -> bool:
    """Every third cluster is one of bridged pairs."""
    return seed % 3 == 2


def planned(case: RandomCase) -> MovePlan:
    return plan_moves(case.snapshot, SETTINGS, OPTIONS, NOW)


def admitted_by_tier(case: RandomCase, made: MovePlan) -> tuple[int, ...]:
    priority = {pod.key: pod.spec.priority for pod in case.instance.pending}
    tiers = sorted(set(priority.values()), reverse=True)
    return tuple(sum(a.gpus for a in made.admits if priority[a.pod] == tier) for tier in tiers)


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_a_plan_is_as_good_as_the_best_of_all_legal_sequences(first: int) -> None:
    """Admitted GPUs by priority, and the number of moves: not one case differs, and each one is proved."""
    for seed in range(first, first + BATCH):
        case = random_case(seed, bridged=is_bridged(seed))
        made, right = planned(case), best(case.instance)
        assert (admitted_by_tier(case, made), len(made.steps)) == (right.admitted, right.moves), f"seed {seed}"
        assert made.solver.status == "optimal", f"seed {seed}"


def test_the_random_cases_are_not_all_easy() -> None:
    """Many need moves, several of them some; links, groups, budgets and priorities all occur."""
    cases = [random_case(seed, bridged=is_bridged(seed)) for seed in range(60)]
    moves = Counter(best(case.instance).moves for case in cases)
    assert sum(count for number, count in moves.items() if number) >= 15
    assert sum(count for number, count in moves.items() if number > 1) >= 4
    assert any(case.instance.groups for case in cases)
    assert any(len({pod.spec.priority for pod in case.instance.pending}) > 1 for case in cases)
    assert any(pod.label(names.LWS_NAME) for case in cases for pod in case.snapshot.pods)
    assert any(node.gpu_report for case in cases for node in case.snapshot.nodes)


@pytest.mark.parametrize("bridged", [False, True])
def test_the_model_alone_never_calls_less_than_the_best_proved(bridged: bool) -> None:
    """No search beside the model: its proposal is never worse than the best, and where it can be carried out, equal."""
    compared = 0
    for seed in range(60):
        case = random_case(seed, bridged=bridged)
        problem, world = problem_of(case.snapshot, SETTINGS, OPTIONS), World.of(case.snapshot)
        found = propose(problem, world, OPTIONS, DEFAULT_MIX, classes_for(problem, world, OPTIONS))
        tiers = sorted({demand.priority for demand in problem.demands}, reverse=True)
        admitted = [
            sum(d.need.gpus for d in problem.demands if d.priority == tier and d.key in found.admits) for tier in tiers
        ]
        ordered = sequence(problem, world, found.moves, found.turns)
        carried = None if isinstance(ordered, NoOrder) else carry_out(problem, world, ordered, found.admits)
        right = best(case.instance)
        if carried is not None and len(carried[1]) == len(found.admits):
            assert (tuple(admitted), len(found.moves)) == (right.admitted, right.moves), f"seed {seed}"
            compared += found.exact
        elif len(tiers) == 1:
            assert (-admitted[0], len(found.moves)) < (-right.admitted[0], right.moves), f"seed {seed}"
    assert compared > 40


@pytest.mark.parametrize("first", range(0, 50, BATCH))
def test_no_node_is_overfilled_at_any_moment_and_nobody_moves_who_may_not(first: int) -> None:
    for seed in range(first, first + BATCH):
        case = random_case(seed)
        made, problem = planned(case), problem_of(case.snapshot, SETTINGS, OPTIONS)
        assert {step.pod for step in made.steps} <= set(problem.movable)
        held: Counter[str] = Counter()
        for pod in case.instance.running:
            held[pod.node] += pod.spec.requests.count(names.NVIDIA_GPU)
        room = {node.name: node.allocatable.count(names.NVIDIA_GPU) for node in case.snapshot.nodes}
        for wave in sorted({step.wave for step in made.steps}):
            steps = [step for step in made.steps if step.wave == wave and step.from_node != step.to_node]
            held.update({node: sum(s.gpus for s in steps if s.to_node == node) for node in room})
            assert all(held[node] <= room[node] for node in room), f"seed {seed}"
            held.subtract({node: sum(s.gpus for s in steps if s.from_node == node) for node in room})
        held.update({node: sum(a.gpus for a in made.admits if a.node == node) for node in room})
        assert all(held[node] <= room[node] for node in room), f"seed {seed}"


@pytest.mark.parametrize("first", range(0, 50, BATCH))
def test_planning_again_after_a_plan_changes_nothing(first: int) -> None:
    for seed in range(first, first + BATCH):
        case = random_case(seed)
        made = planned(case)
        world = World.of(case.snapshot)
        pods = {pod.key: pod for pod in case.snapshot.pods}
        for step in made.steps:
            world = world.left(step.pod, step.from_node).arrived(pods[step.pod], step.to_node)
        for admission in made.admits:
            world = world.arrived(pods[admission.pod], admission.node)
        again = plan_moves(after(case.snapshot, world), SETTINGS, OPTIONS, NOW)
        # A replacement picks its GPUs anew, which may open an island that nobody could plan with before.
        if not any(node.gpu_report for node in case.snapshot.nodes):
            assert again.outcome in {"nothing-to-do", "infeasible"}, f"seed {seed}"
            assert (again.steps, again.admits) == ([], []), f"seed {seed}"
