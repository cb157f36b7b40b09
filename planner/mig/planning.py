"""Plan MIG layouts: which GPUs to cut, how, and who has to leave first; judged before anyone sees it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.reasons import MoveCode
from islander.policy.settings import PolicySettings
from planner.interruption import Interruption
from planner.making import VALID_MINUTES, must_hold, rfc3339, solver_facts
from planner.mig.cautions import cautions
from planner.mig.check import check_mig_plan
from planner.mig.demands import Demands, demands_of
from planner.mig.drains import Drainable, DrainPlan, drain_plan, drainable
from planner.mig.emit import configs_of, files_of, kept_configs, labels_of
from planner.mig.fleet import Fleet, FleetNode
from planner.mig.gpus import FleetGpu
from planner.mig.layouts import Counts, needs_reset, placed
from planner.mig.naming import Named, named
from planner.mig.options import MigOptions
from planner.mig.plan import (
    DemandLine,
    GpuLayout,
    KeptInstance,
    MigCost,
    MigPlan,
    MigRoom,
    NotTarget,
    PlacedInstance,
    UnmetDemand,
    Waiting,
)
from planner.mig.problem import Problem, problem_of
from planner.mig.suggest import suggestions
from planner.mig.unmet import unmet_demand
from planner.models.mig_choice import Chosen, nothing_cut, propose
from planner.models.solve import OnProgress, SolveStatus
from planner.plan import SnapshotFacts

# So many times a pod that finds no other GPU is taken for one that must stay, before drains are given up.
MOST_TRIES = 20


@dataclass(frozen=True, slots=True)
class _Solution:
    """A choice with names, and its drains."""

    problem: Problem
    chosen: Chosen
    names: Named
    drains: DrainPlan
    seconds: float


def plan_mig(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: MigOptions,
    now: datetime,
    progress: OnProgress | None = None,
    stop: Interruption | None = None,
) -> MigPlan:
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
        What is asked for does not exist.
    InvariantError
        The plan does not pass `check_mig_plan`.
    """
    stop = stop or Interruption()
    fleet = Fleet.of(snapshot, options)
    demands = demands_of(snapshot, fleet, settings, options)
    reach = max((demand.priority for demand in demands.instances if not demand.running), default=None)
    may_leave = drainable(snapshot, fleet, settings, reach, allowed=options.allow_drain)
    solution = _solve(snapshot, settings, options, fleet, demands, may_leave, stop, progress)
    looser = None if options.allow_drain else _with_drains(snapshot, fleet, settings, demands, reach)

    def planned(found: _Solution) -> MigPlan:
        unmet = unmet_demand(fleet, found.problem, found.chosen, options.limits, stop, looser)
        return _plan(snapshot, settings, options, now, fleet, demands, found, unmet)

    plan = planned(solution)
    verdict = check_mig_plan(plan, snapshot, settings, options)
    if not verdict.valid and solution.chosen.reached.status is not SolveStatus.OPTIMAL:
        # Without proof of which pods fit today their GPUs may be cut; then none is.
        chosen = nothing_cut(solution.problem)
        plan = planned(replace(solution, chosen=chosen, names=named(solution.problem, chosen), drains=DrainPlan()))
        verdict = check_mig_plan(plan, snapshot, settings, options)
    must_hold(verdict)
    return plan


def _with_drains(
    snapshot: ClusterSnapshot, fleet: Fleet, settings: PolicySettings, demands: Demands, reach: int | None
) -> Callable[[], Problem]:
    def make() -> Problem:
        return problem_of(fleet, demands, drainable(snapshot, fleet, settings, reach, allowed=True).leaving)

    return make


def _solve(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: MigOptions,
    fleet: Fleet,
    demands: Demands,
    may_leave: Drainable,
    stop: Interruption,
    progress: OnProgress | None,
) -> _Solution:
    """Choose, and choose again without the drains of pods for which there is no other GPU."""
    began = time.monotonic()
    leaving = set(may_leave.leaving)
    for attempt in range(MOST_TRIES):
        left = options.limits.time_limit_seconds - (time.monotonic() - began)
        limits = replace(options.limits, time_limit_seconds=max(1.0, left) if attempt else left)
        problem = problem_of(fleet, demands, leaving)
        chosen = propose(problem, limits, stop, progress)
        names = named(problem, chosen)
        waiting = {node for _, node in names.waiting}
        drains = drain_plan(snapshot, fleet, settings, may_leave.judge, names.layouts, waiting)
        if not drains.homeless or chosen.reached.interrupted:
            break
        leaving = leaving - drains.homeless if attempt + 2 < MOST_TRIES else set()
    return _Solution(problem, chosen, names, drains, time.monotonic() - began)


def _plan(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: MigOptions,
    now: datetime,
    fleet: Fleet,
    demands: Demands,
    solution: _Solution,
    unmet: list[UnmetDemand],
) -> MigPlan:
    nodes = {node.name: node for node in fleet.nodes}
    layouts = solution.names.layouts
    configs = configs_of(nodes, layouts)
    labels = labels_of(configs)
    kept = kept_configs(fleet, labels)
    gpus = [
        _gpu_layout(nodes[name], gpu, layouts.get((name, gpu.index))) for name in labels for gpu in nodes[name].gpus
    ]
    reached = solution.chosen.reached
    return MigPlan(
        id="",
        created_at=rfc3339(now),
        expires_at=rfc3339(now + timedelta(minutes=VALID_MINUTES)),
        snapshot=SnapshotFacts.of(snapshot, settings),
        goal=goal_text(options),
        outcome=_outcome(layouts, unmet, reached.status),
        solver=solver_facts(reached.status.value, reached.phases, solution.seconds, options.limits),
        demand=_demand_lines(options, solution),
        gpus=gpus,
        unmet=unmet,
        node_labels=labels,
        files=files_of(configs, kept),
        steps=solution.drains.steps,
        drains=solution.drains.drains,
        not_targets=_not_targets(fleet),
        waiting=_waiting(solution),
        suggestions=suggestions(snapshot, fleet, settings, solution.problem.geometries),
        before=_room(solution.problem.whole_gpus, fleet, ()),
        after=_room(_whole_left(solution), fleet, gpus),
        cost=MigCost(
            gpus_changed=len(layouts),
            nodes_changed=len(labels),
            instances_destroyed=sum(bool(i.pod) for g in _changed(nodes, layouts) for i in g.instances),
            pods_drained=len(solution.drains.drains),
        ),
        warnings=[
            *snapshot.warnings,
            *fleet.warnings,
            *demands.warnings,
            *cautions(fleet, gpus, labels, kept),
            *_doubts(solution),
        ],
        options=options.flags(),
    ).with_id()


def goal_text(options: MigOptions) -> str:
    """Return in words what is planned for."""
    parts = [f"{wanted.count} x {wanted.profile}" for wanted in options.profiles]
    parts += [f"{wanted.replicas} x model {wanted.name}" for wanted in options.models]
    if options.asked:
        return ", ".join(parts) or "nothing"
    return "what pending and running pods ask for"


def _demand_lines(options: MigOptions, solution: _Solution) -> list[DemandLine]:
    found = []
    for d, demand in enumerate(solution.problem.demands):
        if demand.running and options.asked:
            continue
        found.append(
            DemandLine(
                profile=demand.profile,
                count=demand.count,
                source=demand.source,
                priority=demand.priority,
                product=demand.product,
                accepts=dict(demand.accepts),
                met=demand.count if demand.running else solution.chosen.met(d),
                strategy=demand.strategy,
                pods=list(demand.pods),
                why=demand.why,
            )
        )
    return found


def _gpu_layout(node: FleetNode, gpu: FleetGpu, counts: Counts | None) -> GpuLayout:
    before = gpu.layout
    if counts is None or gpu.geometry is None:
        kept = [KeptInstance(i.profile, i.start, i.pod or None) for i in gpu.instances]
        placements = [PlacedInstance(*p) for p in before]
        return GpuLayout(node.name, gpu.index, gpu.product, placements, placements, kept, [], [])
    after = placed(gpu.geometry, counts) or ()
    created = [PlacedInstance(*placement) for placement in after]
    return GpuLayout(
        node=node.name,
        index=gpu.index,
        product=gpu.product,
        before=[PlacedInstance(*p) for p in before],
        after=created,
        keeps=[],
        drains=list(gpu.pods),
        created=created,
        reset=needs_reset(gpu.geometry, before, after),
    )


def _changed(nodes: Mapping[str, FleetNode], layouts: Collection[tuple[str, int]]) -> list[FleetGpu]:
    return [gpu for name, index in sorted(layouts) for gpu in nodes[name].gpus if gpu.index == index]


def _whole_left(solution: _Solution) -> int:
    problem = solution.problem
    lost = sum(problem.classes[c].patterns[p].whole_lost * n for c, p, n in solution.chosen.patterns)
    return problem.whole_gpus - lost


def _room(whole_gpus: int, fleet: Fleet, gpus: Sequence[GpuLayout]) -> MigRoom:
    """Return the room of the fleet after GPUs have got another layout; new instances are free at first."""
    free: Counter[str] = Counter()
    for node in fleet.nodes:
        free.update(dict(node.spare))
    known = {(node.name, gpu.index): gpu for node in fleet.nodes for gpu in node.gpus}
    for gpu in gpus:
        if gpu.created:
            free.subtract(dict(known[gpu.node, gpu.index].free))
            free.update(instance.profile for instance in gpu.created)
    return MigRoom(whole_gpus, {profile: count for profile, count in sorted(free.items()) if count > 0})


def _waiting(solution: _Solution) -> list[Waiting]:
    gpus = {pod: need.gpus for need in solution.problem.wholes for pod in need.pods}
    return [Waiting(pod, node, gpus[pod]) for pod, node in solution.names.waiting]


def _not_targets(fleet: Fleet) -> list[NotTarget]:
    return [
        NotTarget(node.name, node.closed.code.value, node.closed.message)
        for node in fleet.nodes
        if node.closed is not None and node.closed.code is not MoveCode.NOT_SELECTED
    ]


def _outcome(layouts: Collection[tuple[str, int]], unmet: Sequence[UnmetDemand], status: SolveStatus) -> str:
    if layouts:
        return "plan"
    if not unmet:
        return "nothing-to-do"
    return "infeasible" if status is SolveStatus.OPTIMAL else "no-answer-in-time"


def _doubts(solution: _Solution) -> list[str]:
    reached = solution.chosen.reached
    if reached.interrupted:
        return ["the search was interrupted: this is the best plan found so far"]
    if reached.status is SolveStatus.OPTIMAL:
        return []
    open_phases = [phase.name for phase in reached.phases if phase.status != SolveStatus.OPTIMAL]
    return [f"it is not proved that no better plan exists ({', '.join(open_phases)})"]
