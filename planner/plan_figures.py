"""What a plan of moves says of itself that cannot be so."""

from __future__ import annotations

from collections import Counter, defaultdict

from islander.policy.reasons import MoveCode
from planner.findings import Findings
from planner.options import PlanOptions
from planner.plan import Cost, MovePlan
from planner.problem import Problem

_MINUTES_OFF = 0.1


def check_figures(plan: MovePlan, findings: Findings) -> None:
    """Note where the plan does not agree with itself: ids, waves, dependencies, sums."""
    waves = {step.id: step.wave for step in plan.steps}
    for step_id, count in Counter(step.id for step in plan.steps).items():
        if count > 1:
            findings.add(step_id, MoveCode.PLAN_INCONSISTENT, f"{count} steps have the id {step_id!r:.40}")
    for step in plan.steps:
        if step.wave < 1:
            findings.add(step.id, MoveCode.PLAN_INCONSISTENT, f"step {step.id} is in wave {step.wave}")
        for needed in step.depends_on:
            if needed not in waves or waves[needed] >= step.wave:
                message = f"step {step.id} needs step {needed!r:.40}, which is not in an earlier wave"
                findings.add(step.id, MoveCode.PLAN_INCONSISTENT, message)
    cost = Cost.of(plan.steps)
    told = plan.cost
    same = told.steps == cost.steps and told.replicas_interrupted == cost.replicas_interrupted
    if not same or abs(told.gpu_minutes - cost.gpu_minutes) > _MINUTES_OFF:
        message = (
            f"the steps cost {cost.steps} moves, {cost.replicas_interrupted} interruptions and {cost.gpu_minutes} "
            "GPU-minutes, the plan says otherwise"
        )
        findings.add("", MoveCode.PLAN_INCONSISTENT, message)
    if plan.steps and plan.outcome == "nothing-to-do":
        findings.add("", MoveCode.PLAN_INCONSISTENT, "the plan has steps, and says that there is nothing to do")


def check_limits(plan: MovePlan, problem: Problem, options: PlanOptions, findings: Findings) -> None:
    """Note where a plan moves more than the options allow."""
    if options.max_moves is not None and len(plan.steps) > options.max_moves:
        findings.add("", MoveCode.OVER_MOVE_LIMIT, f"{len(plan.steps)} moves, {options.max_moves} are allowed")
    if options.max_moves_per_workload is None:
        return
    moves: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    for step in plan.steps:
        if (pod := problem.movable.get(step.pod)) is not None:
            moves[pod.workload].add((pod.unit, step.wave))
    for workload, found in sorted(moves.items()):
        if len(found) > options.max_moves_per_workload:
            message = f"{len(found)} moves of {workload}, {options.max_moves_per_workload} are allowed"
            findings.add("", MoveCode.OVER_MOVE_LIMIT, message)


def check_groups_of_demands(plan: MovePlan, problem: Problem, findings: Findings) -> None:
    """Note the groups of pending pods of which a part is admitted: it would hold GPUs and serve nobody (G31)."""
    admitted = {admission.pod for admission in plan.admits}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for demand in problem.demands:
        if demand.group is not None:
            groups[demand.group].append(demand.key)
    for group, keys in sorted(groups.items()):
        inside = admitted.intersection(keys)
        if inside and len(inside) < len(keys):
            message = f"only {len(inside)} of {len(keys)} pending pods of group {group} are admitted"
            findings.add("", MoveCode.GROUP_MUST_MOVE_WHOLE, message)
