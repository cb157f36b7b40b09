"""Plan moves: the fewest, safest, ordered moves that admit pending replicas, judged before anyone sees them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.demand import mix_of
from islander.policy.settings import PolicySettings
from planner.check import check_plan
from planner.interruption import Interruption
from planner.making import VALID_MINUTES, must_hold, rfc3339, solver_facts
from planner.models.solve import OnProgress, SolveStatus
from planner.options import PlanOptions
from planner.order import Wave, depends_on, waves_of
from planner.outlook import outlooks
from planner.plan import (
    Admission,
    Cost,
    Immovable,
    MovePlan,
    Outlook,
    SnapshotFacts,
    Step,
    Unadmitted,
)
from planner.problem import Problem, problem_of
from planner.refusals import refusals
from planner.rules import Rules
from planner.solution import Solution, solve, without_moves
from planner.world import World

# Below this many seconds of grace a streaming answer is often cut off.
SHORT_GRACE_SECONDS = 30


def plan_moves(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: PlanOptions,
    now: datetime,
    progress: OnProgress | None = None,
    stop: Interruption | None = None,
) -> MovePlan:
    """Return the plan for a snapshot.

    Parameters
    ----------
    now
        When the plan is made; the plan carries it and does not depend on it.
    progress
        Called with every better solution while the solver runs.
    stop
        Ends the search when it is asked; then the best plan found so far is returned, and its warnings say so.

    Raises
    ------
    PlannerError
        The options ask for something that the snapshot does not have.
    InvariantError
        The plan does not pass `check_plan`.
    """
    stop = stop or Interruption()
    problem, world = problem_of(snapshot, settings, options), World.of(snapshot)
    solution = solve(problem, world, options, mix_of(snapshot, settings), progress, stop)
    plan = _plan(snapshot, settings, options, now, problem, world, solution, stop)
    verdict = check_plan(plan, snapshot, settings, options)
    if not verdict.valid and solution.status is not SolveStatus.OPTIMAL:
        # A search that had to stop early may leave moves that nobody needs; then only what fits as it is is offered.
        plan = _plan(snapshot, settings, options, now, problem, world, without_moves(problem, world, solution), stop)
        verdict = check_plan(plan, snapshot, settings, options)
    must_hold(verdict)
    return plan


def _plan(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: PlanOptions,
    now: datetime,
    problem: Problem,
    world: World,
    solution: Solution,
    stop: Interruption,
) -> MovePlan:
    waves = waves_of(problem, world, solution.units)
    steps, wave_of_node = _steps(problem, world, waves)
    admits = _admissions(problem, world, solution, wave_of_node, len(waves))
    unadmitted = _unadmitted(snapshot, settings, options, problem, world, solution, stop)
    before, after = outlooks(snapshot, solution.world, problem, settings)
    return MovePlan(
        id="",
        created_at=rfc3339(now),
        expires_at=rfc3339(now + timedelta(minutes=VALID_MINUTES)),
        snapshot=SnapshotFacts.of(snapshot, settings),
        goal=goal_text(options),
        outcome=_outcome(problem, options, solution, steps),
        solver=solver_facts(solution.status.value, solution.phases, solution.seconds, options.limits),
        steps=steps,
        admits=admits,
        unadmitted=unadmitted,
        immovable=[Immovable(key, code.value) for key, code in sorted(problem.immovable.items())],
        before=before,
        after=after,
        cost=Cost.of(steps),
        warnings=[
            *snapshot.warnings,
            *problem.warnings,
            *_doubts(solution, unadmitted, stop),
            *_not_emptied(options, before, after),
        ],
        options=options.flags(),
    ).with_id()


def goal_text(options: PlanOptions) -> str:
    """Return in words what is planned for."""
    parts = []
    if options.goal is not None:
        parts.append(f"make room for {options.goal}")
    if options.pods:
        parts.append(f"admit {', '.join(options.pods)}")
    if options.empty_nodes:
        parts.append(f"empty {options.empty_nodes} nodes")
    return "; ".join(parts) or "admit all pending GPU pods"


def _steps(problem: Problem, world: World, waves: Sequence[Wave]) -> tuple[list[Step], dict[str, int]]:
    """Return the steps, and by node the last wave that touches it."""
    needs = depends_on(problem, world, waves)
    steps: list[Step] = []
    ids: dict[int, list[str]] = {}
    last: dict[str, int] = {}
    number = 0
    for wave_number, wave in enumerate(waves, start=1):
        for unit in wave.units:
            ids[number] = []
            depends = sorted((name for other in needs[number] for name in ids[other]), key=_step_number)
            for leg in unit.legs:
                steps.append(_step(problem, f"s{len(steps) + 1}", wave_number, depends, leg))
                ids[number].append(steps[-1].id)
            number += 1
            last |= dict.fromkeys(unit.nodes, wave_number)
    return steps, last


def _step_number(step_id: str) -> int:
    return int(step_id[1:])


def _step(problem: Problem, step_id: str, wave: int, depends: list[str], leg: tuple[str, str, str]) -> Step:
    key, source, target = leg
    mover = problem.movable[key]
    first = mover.pod.node == source
    preconditions: dict[str, object] = {"node": source, "freeGpus": mover.need.gpus}
    if first:
        preconditions["uid"] = mover.pod.uid
    if mover.budget is not None:
        preconditions["disruptionsAllowed"] = 1
    return Step(
        id=step_id,
        wave=wave,
        depends_on=depends,
        pod=key,
        uid=mover.pod.uid if first else "",
        workload=mover.workload,
        gpus=mover.need.gpus,
        from_node=source,
        to_node=target,
        method=mover.method.value,
        pdb=mover.budget or "",
        drain_seconds=mover.grace_seconds,
        reload_seconds=mover.reload_seconds,
        preconditions=preconditions,
        risks=_risks(problem, key),
    )


def _risks(problem: Problem, key: str) -> list[str]:
    mover = problem.movable[key]
    risks = []
    if mover.budget is None:
        risks.append("no disruption budget guards the workload")
    elif problem.budgets.get(mover.budget, 0) == 1:
        risks.append("the budget allows no second disruption meanwhile")
    if mover.method.value == "surge":
        risks.append("the only replica of its workload")
    if mover.grace_seconds <= SHORT_GRACE_SECONDS:
        risks.append(f"requests longer than {mover.grace_seconds} s may be cut off")
    if mover.group is not None:
        risks.append(f"the whole group {mover.group} restarts")
    return risks


def _admissions(
    problem: Problem, world: World, solution: Solution, last: dict[str, int], waves: int
) -> list[Admission]:
    """Return the admissions, each when nothing touches its node any more; where rules bind the pod, at the end."""
    demands = {demand.key: demand for demand in problem.demands}
    rules = Rules.of(world)
    return [
        Admission(
            key,
            node,
            demands[key].need.gpus,
            waves if world.has_rules and rules.bind(demands[key].pod) else last.get(node, 0),
        )
        for key, node in solution.admits
    ]


def _outcome(problem: Problem, options: PlanOptions, solution: Solution, steps: Sequence[Step]) -> str:
    if steps or solution.admits:
        return "plan"
    if not problem.demands:
        return "nothing-to-do"
    return "infeasible" if solution.status is SolveStatus.OPTIMAL else "no-answer-in-time"


def _unadmitted(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: PlanOptions,
    problem: Problem,
    world: World,
    solution: Solution,
    stop: Interruption,
) -> list[Unadmitted]:
    admitted = {key for key, _ in solution.admits}
    return (
        refusals(snapshot, settings, options, problem, world, solution, stop)
        if admitted != {demand.key for demand in problem.demands}
        else []
    )


def _doubts(solution: Solution, unadmitted: Sequence[Unadmitted], stop: Interruption) -> list[str]:
    found = []
    if solution.interrupted:
        found.append("the search was interrupted: this is the best plan found so far")
    elif stop.asked and unadmitted:
        found.append("interrupted after the search for the plan: what would help the rest may not be told")
    if solution.status is not SolveStatus.OPTIMAL and not solution.interrupted:
        open_phases = [phase.name for phase in solution.phases if abs(phase.value - phase.bound) > 1e-6]
        what = f" ({', '.join(open_phases)})" if open_phases else ""
        found.append(f"it is not proved that no better plan exists{what}")
    return found


def _not_emptied(options: PlanOptions, before: Outlook, after: Outlook) -> list[str]:
    emptied = max(0, after.empty_nodes - before.empty_nodes)
    if emptied >= options.empty_nodes:
        return []
    return [f"--empty-nodes {options.empty_nodes}: {emptied} more nodes are empty after the plan than before it"]
