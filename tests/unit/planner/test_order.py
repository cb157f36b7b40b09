"""The order of moves: rooms that others free, waves, what each step depends on."""

from __future__ import annotations

from typing import Any

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.workload import DisruptionBudget, Workload
from islander.policy.settings import PolicySettings
from planner.options import PlanOptions
from planner.order import NoOrder, Unit, depends_on, sequence, waves_of
from planner.problem import Problem, problem_of
from planner.world import World
from tests.builders import a_budget, a_node, a_pod, a_snapshot, a_workload, owned_by

Move = tuple[str, str, str]


def setting(*objects: Node | Pod | Workload | DisruptionBudget) -> tuple[Problem, World]:
    """The problem and the world of nodes and replicas; every replica has a twin elsewhere."""
    workloads = [a_workload(o.name, replicas=2) for o in objects if isinstance(o, Pod)]
    given = [o for o in objects if isinstance(o, Workload)]
    kinds = ["PodDisruptionBudget", "ReplicaSet"]
    snapshot = a_snapshot(*objects, *[w for w in workloads if w.name not in {g.name for g in given}], kinds=kinds)
    return problem_of(snapshot, PolicySettings(), PlanOptions()), World.of(snapshot)


def replica(name: str, gpus: int, node: str, **fields: Any) -> Pod:
    return a_pod(name, gpus=gpus, node=node, **{"owner": owned_by(a_workload(name, replicas=2))} | fields)


def ordered(problem: Problem, world: World, **targets: str) -> tuple[Unit, ...]:
    found = sequence(problem, world, {f"default/{name}": node for name, node in targets.items()})
    assert not isinstance(found, NoOrder)
    return found


def names_of(units: tuple[Unit, ...]) -> list[str]:
    return [key.removeprefix("default/") for unit in units for key, _, _ in unit.legs]


def chain() -> tuple[Problem, World]:
    """c is free; x may follow y only, y may follow z only."""
    nodes = [a_node(name, gpus=4) for name in "abcd"]
    return setting(*nodes, replica("x", 4, "a"), replica("y", 4, "b"), replica("z", 4, "c"))


def test_a_move_comes_after_the_one_that_frees_its_room() -> None:
    assert names_of(ordered(*chain(), x="b", y="c", z="d")) == ["z", "y", "x"]


def test_each_move_of_a_chain_has_a_wave_of_its_own_and_names_what_it_waits_for() -> None:
    problem, world = chain()
    waves = waves_of(problem, world, ordered(problem, world, x="b", y="c", z="d"))
    assert [names_of(wave.units) for wave in waves] == [["z"], ["y"], ["x"]]
    assert depends_on(problem, world, waves) == {0: (), 1: (0,), 2: (1,)}


def test_moves_that_share_no_node_go_in_one_wave_and_wait_for_nobody() -> None:
    problem, world = setting(*(a_node(n, gpus=4) for n in "abcd"), replica("x", 4, "a"), replica("y", 4, "b"))
    waves = waves_of(problem, world, ordered(problem, world, x="c", y="d"))
    assert [len(wave.units) for wave in waves] == [2]
    assert depends_on(problem, world, waves) == {0: (), 1: ()}


def test_pods_that_trade_places_on_full_nodes_have_no_order() -> None:
    problem, world = setting(a_node("a", gpus=4), a_node("b", gpus=4), replica("x", 4, "a"), replica("y", 4, "b"))
    found = sequence(problem, world, {"default/x": "b", "default/y": "a"})
    assert found == NoOrder(("default/x", "default/y"))


def test_an_order_is_found_where_taking_the_first_move_that_fits_leads_nowhere() -> None:
    """b has one GPU free for p or r; only r opens the way for q, whose leaving makes room for p."""
    nodes = [a_node("a", gpus=1), a_node("b", gpus=2), a_node("d", gpus=1)]
    problem, world = setting(*nodes, replica("p", 1, "a"), replica("q", 1, "b"), replica("r", 1, "d"))
    assert names_of(ordered(problem, world, p="b", r="b", q="d")) == ["r", "q", "p"]


def test_old_places_are_held_until_the_wave_is_over() -> None:
    """y needs what x leaves: they cannot run beside each other though x moves first in the order."""
    problem, world = setting(*(a_node(n, gpus=4) for n in "abc"), replica("x", 4, "a"), replica("y", 4, "b"))
    waves = waves_of(problem, world, ordered(problem, world, x="c", y="a"))
    assert [names_of(wave.units) for wave in waves] == [["x"], ["y"]]


def two_of_one(**fields: Any) -> list[Pod]:
    owner = owned_by(a_workload("w", replicas=3))
    return [replica("x", 4, "a", owner=owner, **fields), replica("y", 4, "b", owner=owner, **fields)]


def test_two_replicas_of_one_workload_never_move_in_one_wave_g33() -> None:
    nodes = [a_node(n, gpus=4) for n in "abcd"]
    problem, world = setting(*nodes, a_workload("w", replicas=3), *two_of_one())
    waves = waves_of(problem, world, ordered(problem, world, x="c", y="d"))
    assert [len(wave.units) for wave in waves] == [1, 1]


def test_a_wave_draws_no_more_on_a_budget_than_it_allows_g33() -> None:
    nodes = [a_node(n, gpus=4) for n in "abcdef"]
    pods = [replica(name, 4, node, labels={"app": "chat"}) for name, node in zip("xyz", "abc", strict=True)]
    for allowed, sizes in ((1, [1, 1, 1]), (2, [2, 1]), (3, [3])):
        budget = a_budget("chat", labels={"app": "chat"}, allowed=allowed)
        problem, world = setting(*nodes, *pods, budget)
        waves = waves_of(problem, world, ordered(problem, world, x="d", y="e", z="f"))
        assert [len(wave.units) for wave in waves] == sizes
