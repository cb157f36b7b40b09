"""The model: each rule with a fixing that it allows and one that it forbids; names, weights, the first hint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ortools.sat.python import cp_model

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.workload import Workload
from islander.policy.settings import DEFAULT_MIX, PolicySettings
from planner.models import assignment
from planner.models.assignment import RULES, Rule
from planner.models.objectives import terms_of
from planner.models.sites import classes_of
from planner.models.solve import build, stay
from planner.models.variables import Case, MoveVars, variables_of
from planner.options import PlanOptions
from planner.problem import problem_of
from planner.world import World
from tests.builders import a_node, a_pod, a_report, a_snapshot, a_workload, owned_by

PAIRS = (
    ("X", "NV12", "SYS", "SYS"),
    ("NV12", "X", "SYS", "SYS"),
    ("SYS", "SYS", "X", "NV12"),
    ("SYS", "SYS", "NV12", "X"),
)


def case_of(*objects: Node | Pod | Workload, **options: Any) -> Case:
    pods = [o for o in objects if isinstance(o, Pod)]
    given = {o.name for o in objects if isinstance(o, Workload)}
    others = [a_workload(pod.name, replicas=2) for pod in pods if pod.name not in given]
    snapshot = a_snapshot(*objects, *others, kinds=["PodDisruptionBudget", "ReplicaSet"])
    chosen = PlanOptions(**options)
    problem, world = problem_of(snapshot, PolicySettings(), chosen), World.of(snapshot)
    per_workload = chosen.max_moves_per_workload is not None
    return Case.of(problem, world, chosen, classes_of(problem, world, per_workload=per_workload), DEFAULT_MIX)


def replica(name: str, gpus: int, node: str, **fields: Any) -> Pod:
    return a_pod(name, gpus=gpus, node=node, **{"owner": owned_by(a_workload(name, replicas=2))} | fields)


def twins(**options: Any) -> Case:
    """Two equal nodes of 4 with one replica of 2 each, a full third one of 4, and a pod of 4 that waits."""
    nodes = [a_node(name, gpus=4) for name in "abc"]
    pods = [replica("x", 2, "a"), replica("y", 2, "b"), replica("z", 4, "c")]
    return case_of(*nodes, *pods, a_pod("p", gpus=4), **options)


def lone(*, cpu_taken: int = 0) -> Case:
    """Two nodes that a selector tells apart, so that each is a site of its own; one has 7 CPUs."""
    nodes = [a_node("a", gpus=4, labels={"side": "left"}), a_node("b", gpus=4, cpu=7)]
    nodes_and_pods = [*nodes, a_pod("other", gpus=0, node="b", cpu=cpu_taken)]
    return case_of(*nodes_and_pods, replica("x", 2, "a", cpu=4), a_pod("p", gpus=4, node_selector={"side": "left"}))


def linked() -> Case:
    """A node of bridged pairs on which a pair has to come free."""
    report = a_report(4, links=PAIRS, used={0: "default/x", 2: "default/y"})
    node = a_node("a", gpus=4, product="NVIDIA-A100-80GB-PCIe", report=report)
    pods = [replica("x", 1, "a"), replica("y", 1, "a")]
    return case_of(node, a_node("b", gpus=1), *pods, a_pod("p", gpus=2, tp=2, topology="required"))


def possible(case: Case, rule: Rule, fixed: Mapping[str, int]) -> bool:
    """Whether one rule alone allows the variables with these names to have these values."""
    model = cp_model.CpModel()
    variables = variables_of(case, model)
    rule(case, variables, model)
    by_name = {variable.name: variable for variable in variables.all()}
    for name, value in fixed.items():
        model.add(by_name[name] == value)
    return cp_model.CpSolver().solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def leaving(case: Case, gpus: int, count: int) -> dict[str, int]:
    """Fix that `count` nodes of the class with a replica of `gpus` are left by it, and no others by anybody."""
    fixed = {}
    for c, node_class in enumerate(case.classes.classes):
        for number, found in enumerate(case.leavings[c] or ()):
            left = sum(case.classes.types[t].gpus * n for t, n in found.types)
            value = count if left == gpus else len(node_class.nodes) - count if len(node_class.nodes) > 1 else 0
            fixed[f"leave[{c},{number}]"] = max(0, value) if left in (0, gpus) else 0
    return fixed


def test_equal_nodes_and_equal_pods_are_counted_together() -> None:
    case = twins()
    assert [site.nodes for site in case.classes.sites] == [("a", "b", "c")]
    assert [node_class.nodes for node_class in case.classes.classes] == [("c",), ("a", "b")]
    assert [kind.pods for kind in case.classes.types] == [("default/x", "default/y"), ("default/z",)]


def test_every_node_of_a_class_is_left_in_one_way() -> None:
    rule = assignment.one_leaving_per_node
    assert possible(twins(), rule, {"leave[1,0]": 1, "leave[1,1]": 1})
    assert not possible(twins(), rule, {"leave[1,0]": 2, "leave[1,1]": 1})


def test_rooms_are_cut_where_gpus_are_free() -> None:
    rule = assignment.cuts_find_room
    assert possible(twins(), rule, {"leave[1,1]": 1, "cut[0,4,4]": 1})
    assert not possible(twins(), rule, {"leave[0,1]": 0, "leave[1,1]": 1, "cut[0,4,4]": 2})


def test_a_room_that_was_cut_once_may_be_cut_again() -> None:
    rule = assignment.cuts_find_room
    fixed = {"leave[0,1]": 0, "leave[1,0]": 1, "leave[1,1]": 1}
    assert possible(twins(), rule, fixed | {"cut[0,4,2]": 1, "cut[0,2,2]": 2})
    assert not possible(twins(), rule, fixed | {"cut[0,4,2]": 1, "cut[0,2,2]": 3})


def test_every_cut_is_filled_by_one_pod_of_its_size() -> None:
    rule = assignment.every_cut_is_filled
    none = {"cut[0,3,2]": 0, "cut[0,2,2]": 0}
    assert possible(twins(), rule, none | {"cut[0,4,2]": 1, "go[0,0]": 1})
    assert not possible(twins(), rule, none | {"cut[0,4,2]": 1, "go[0,0]": 2})


def test_who_leaves_comes_somewhere() -> None:
    rule = assignment.who_leaves_comes
    assert possible(twins(), rule, {"leave[1,1]": 1, "go[0,0]": 1})
    assert not possible(twins(), rule, {"leave[1,1]": 1, "go[0,0]": 0})


def test_a_demand_is_admitted_once() -> None:
    rule = assignment.demand_is_admitted_once
    case = case_of(
        a_node("a", labels={"side": "left"}),
        a_node("b"),
        a_pod("p", gpus=4),
        a_pod("q", gpus=1, node_selector={"side": "left"}),
    )
    assert possible(case, rule, {"admit[0,0]": 1, "admit[0,1]": 0})
    assert not possible(case, rule, {"admit[0,0]": 1, "admit[0,1]": 1})


def test_the_only_node_of_a_site_is_not_left_to_come_back() -> None:
    rule = assignment.nobody_stays_by_moving
    case = lone()
    home = next(s for s in case.classes.sites if s.nodes == ("a",)).index
    assert possible(case, rule, {f"go[0,{home}]": 0})
    assert not possible(case, rule, {f"go[0,{home}]": 1})


def test_the_room_of_a_node_is_what_leaves_less_what_comes() -> None:
    rule = assignment.room_is_what_leaves
    case = lone()
    site = next(s.index for s in case.classes.sites if s.nodes == ("a",))
    c = next(c for c, k in enumerate(case.classes.classes) if k.site == site)
    assert possible(case, rule, {f"out[{c},0]": 1, f"admit[0,{site}]": 1, f"room[{c},0]": 1})
    assert not possible(case, rule, {f"out[{c},0]": 0, f"admit[0,{site}]": 1})


def test_scarce_cpu_bounds_what_comes() -> None:
    rule = assignment.scarce_resources_suffice
    for cpu_taken, fits in ((3, True), (4, False)):
        case = lone(cpu_taken=cpu_taken)
        site = next(s.index for s in case.classes.sites if s.nodes == ("b",))
        assert case.classes.sites[site].left_over is not None
        assert possible(case, rule, {f"go[0,{site}]": 1}) is fits


def class_with_links(case: Case) -> int:
    return next(c for c, node_class in enumerate(case.classes.classes) if node_class.site in case.islands)


def pair_comes(case: Case) -> tuple[str, str]:
    """The fill by which a pair comes when one pod has left the node with links, and the admission of that pair."""
    ((s, islands),) = case.islands.items()
    d = next(d for d, kind in enumerate(case.classes.demands) if kind.gpus == 2)
    r = (case.leavings[class_with_links(case)] or ())[1].room
    assert [fill.comes for fill in islands.fills[r]] == [((case.size(s, case.classes.demands[d]), 1),)]
    return f"fill[{s},{r},0]", f"admit[{d},{s}]"


def test_an_island_is_there_only_when_somebody_has_left() -> None:
    case, rule = linked(), assignment.cuts_find_room
    fill, _ = pair_comes(case)
    c = class_with_links(case)
    # That x leaves, and that y does, is the same but for the names of the GPUs.
    assert [leaving.types for leaving in case.leavings[c] or ()] == [(), ((0, 1),), ((0, 2),)]
    stays, one_leaves = ({f"leave[{c},{n}]": int(n == chosen) for n in range(3)} for chosen in range(2))
    assert not possible(case, rule, stays | {fill: 1})
    assert possible(case, rule, one_leaves | {fill: 1})


def test_an_island_is_filled_by_one_demand_of_its_kind() -> None:
    case, rule = linked(), assignment.every_fill_is_admitted
    fill, admission = pair_comes(case)
    assert possible(case, rule, {fill: 1, admission: 1})
    assert not possible(case, rule, {fill: 2, admission: 1})


def test_a_pair_comes_where_one_has_left_only_when_another_one_leaves_elsewhere() -> None:
    rule = assignment.who_comes_back_is_another
    nodes = [
        a_node(n, gpus=4, product="NVIDIA-A100-80GB-PCIe", report=a_report(4, links=PAIRS, used={0: p, 2: p}))
        for n, p in (("a", "default/x"), ("b", "default/y"))
    ]
    pods = [replica("x", 2, "a", tp=2), replica("y", 2, "b", tp=2), a_pod("p", gpus=2, tp=2, topology="required")]
    case = case_of(*nodes, *pods)
    ((s, islands),) = case.islands.items()
    r, g = min(islands.comes_back)
    assert possible(case, rule, {f"cut[{s},{r},{g}]": 1, "leave[0,1]": 2})
    assert not possible(case, rule, {f"cut[{s},{r},{g}]": 1, "leave[0,1]": 1})


def grouped() -> Case:
    workload = a_workload("lws", kind="LeaderWorkerSet", replicas=2, group_size=2)
    labels = {"leaderworkerset.sigs.k8s.io/name": "lws", "leaderworkerset.sigs.k8s.io/group-index": "0"}
    fields: dict[str, Any] = {"owner": owned_by(workload), "labels": labels}
    members = [a_pod("m0", gpus=1, node="a", **fields), a_pod("m1", gpus=1, node="b", **fields)]
    return case_of(*(a_node(n, gpus=2) for n in "abc"), workload, *members, a_pod("p", gpus=2))


def test_a_group_restarts_when_a_member_leaves_and_only_then() -> None:
    case, rule = grouped(), assignment.groups_restart_whole
    group = "whole[default/lws/0]"
    out = [f"leave[{c},1]" for c, listed in enumerate(case.leavings) if listed is not None and len(listed) > 1]
    assert possible(case, rule, {group: 1, out[0]: 1, out[1]: 0})
    assert not possible(case, rule, {group: 0, out[0]: 1})
    assert not possible(case, rule, {group: 1, out[0]: 0, out[1]: 0})


def test_a_group_of_demands_is_admitted_whole() -> None:
    workload = a_workload("lws", kind="LeaderWorkerSet", replicas=1, group_size=2)
    labels = {"leaderworkerset.sigs.k8s.io/name": "lws", "leaderworkerset.sigs.k8s.io/group-index": "0"}
    members = [a_pod(f"m{n}", gpus=n + 1, owner=owned_by(workload), labels=labels) for n in range(2)]
    case, rule = case_of(a_node("a"), a_node("b"), workload, *members), assignment.demand_groups_are_admitted_whole
    assert possible(case, rule, {"admit[0,0]": 1, "admit[1,0]": 1})
    assert not possible(case, rule, {"admit[0,0]": 1, "admit[1,0]": 0})


def test_moves_are_limited_in_all_and_by_workload() -> None:
    rule = assignment.moves_are_limited
    assert possible(twins(max_moves=1), rule, {"leave[1,1]": 1})
    assert not possible(twins(max_moves=1), rule, {"leave[1,1]": 2})
    owner = owned_by(a_workload("w", replicas=3))
    pods = [replica("x", 2, "a", owner=owner), replica("y", 2, "b", owner=owner)]
    case = case_of(*(a_node(n, gpus=4) for n in "abc"), a_workload("w", replicas=3), *pods, max_moves_per_workload=1)
    c = next(c for c, node_class in enumerate(case.classes.classes) if node_class.holds)
    assert possible(case, rule, {f"leave[{c},1]": 1})
    assert not possible(case, rule, {f"leave[{c},1]": 2})


def test_every_rule_is_tested_above() -> None:
    text = Path(__file__).read_text()
    assert [rule.__name__ for rule in RULES if f"assignment.{rule.__name__}" not in text] == []


CASES = [twins, lone, linked, grouped]


@pytest.mark.parametrize("make", CASES)
def test_variables_have_names_of_their_own(make: Any) -> None:
    model, _ = build(make())
    names = [variable.name for variable in model.proto.variables]
    assert len(names) == len(set(names))
    assert all(names)


@pytest.mark.parametrize("make", CASES)
def test_moving_nothing_is_a_solution(make: Any) -> None:
    case: Case = make()
    model, variables = build(case)
    values = stay(case, variables)
    for variable in variables.all():
        model.add(variable == values[variable.index])
    assert cp_model.CpSolver().solve(model) == cp_model.OPTIMAL


@pytest.mark.parametrize("make", CASES)
def test_objectives_have_whole_weights(make: Any) -> None:
    case: Case = make()
    terms = terms_of(case, variables_of(case, cp_model.CpModel()))
    assert [term.name for term in terms][:2] == ["GPUs admitted at priority 0", "replicas moved"]
    assert all(isinstance(weight, int) for term in terms for _, weight in term.parts)


def test_variables_know_all_their_families() -> None:
    _, variables = build(twins())
    families = [getattr(variables, name) for name in MoveVars.__slots__]
    assert len(variables.all()) == sum(len(family) for family in families)
