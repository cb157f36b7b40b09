"""Whether a plan holds: its waves replayed on a snapshot by the policy itself, without a solver."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.need import need_of
from islander.policy.reasons import Code, MoveCode
from islander.policy.settings import PolicySettings
from planner.arrivals import Arrival, after, refusal, refused
from planner.findings import Findings
from planner.options import PlanOptions
from planner.parts import connected_parts
from planner.plan import Admission, MovePlan, PlanVerdict, SnapshotFacts, Step
from planner.plan_figures import check_figures, check_groups_of_demands, check_limits
from planner.problem import Demand, Method, Problem, is_waiting, problem_of
from planner.world import World


def check_plan(
    plan: MovePlan, snapshot: ClusterSnapshot, settings: PolicySettings, options: PlanOptions | None = None
) -> PlanVerdict:
    """Return whether a plan may be carried out on a snapshot, and everything that speaks against it.

    Each wave is judged as a whole: while it runs, every replica in it holds its GPUs in both places, and the arrivals
    must fit whatever order they come in. A plan that was made for another snapshot is judged like any other.

    Parameters
    ----------
    options
        What to allow; by default what the plan says it was made with.

    Raises
    ------
    PlannerError
        The options of the plan cannot be understood.
    """
    allowed = PlanOptions.from_flags(plan.options) if options is None else options
    waiting = {pod.key for pod in snapshot.pods if is_waiting(pod)}
    # A pod that waits no more is a finding about its admission.
    pods = tuple(key for key in allowed.pods if key in waiting)
    problem = problem_of(snapshot, settings, replace(allowed, pods=pods))
    findings = Findings()
    replay = _Replay(plan, snapshot, settings, problem, findings)
    check_figures(plan, findings)
    check_limits(plan, problem, allowed, findings)
    check_groups_of_demands(plan, problem, findings)
    replay.run()
    if not allowed.empty_nodes:
        replay.check_priorities()
    warnings = list(problem.warnings)
    if plan.snapshot.hash != SnapshotFacts.of(snapshot, settings).hash:
        warnings.insert(0, "the plan was made for another snapshot; it is judged step by step against this one")
    return PlanVerdict(valid=not findings.found, violations=findings.found, warnings=warnings)


class _Replay:
    """Carries a plan out in a world, wave by wave."""

    def __init__(
        self,
        plan: MovePlan,
        snapshot: ClusterSnapshot,
        settings: PolicySettings,
        problem: Problem,
        findings: Findings,
    ) -> None:
        self._problem = problem
        self._settings = settings
        self._findings = findings
        self._running = {pod.key: pod for pod in snapshot.pods if pod.holds_devices}
        self._demands = {demand.key: demand for demand in problem.demands}
        self._waves: defaultdict[int, list[Step]] = defaultdict(list)
        for step in plan.steps:
            self._waves[step.wave].append(step)
        self._admits: defaultdict[int, list[Admission]] = defaultdict(list)
        for admission in plan.admits:
            self._admits[admission.after_wave].append(admission)
        self._start = World.of(snapshot)
        self._arrivals: dict[int, list[Arrival]] = {}
        self._admitted: dict[int, list[tuple[Demand, Arrival]]] = {}
        self._together: Mapping[str, frozenset[str]] = {}

    def run(self) -> None:
        """Carry out every wave and admission, and note what does not hold."""
        where: dict[str, str] = {}
        admitted: set[str] = set()
        last = max(self._waves, default=0)
        world = self._start
        for wave in sorted({0, *self._waves, *self._admits}):
            steps = self._waves.get(wave, [])
            arrivals = [arrival for step in steps if (arrival := self._arrival(step, where)) is not None]
            self._check_disruptions(steps)
            world = self._moved(world, arrivals)
            self._arrivals[wave] = arrivals
            found = []
            for admission in self._admits.get(wave, ()):
                if wave < 0 or wave > last:
                    message = f"{admission.pod} is admitted after wave {wave}, which the plan does not have"
                    self._findings.add("", MoveCode.PLAN_INCONSISTENT, message)
                if (judged := self._admission(admission, admitted)) is not None:
                    found.append(judged)
            world = self._moved(world, [arrival for _, arrival in found])
            self._admitted[wave] = found

    def check_priorities(self) -> None:
        """Note the steps that disturb a pod for others of lower priority only.

        A step is needed by a priority when, without it and the steps that then find no room, some pod of that priority
        or above is not admitted.
        """
        served = [demand.priority for wave in self._admitted.values() for demand, _ in wave]
        self._together = self._nodes_that_depend()
        for arrivals in self._arrivals.values():
            for arrival in arrivals:
                priority = arrival.pod.spec.priority
                known = arrival.pod.key in self._problem.movable
                if known and served and priority > min(served) and self._all_admitted_without(arrival, priority):
                    message = f"{arrival.pod.key} is disturbed for nothing of its priority ({priority}) or above"
                    self._findings.add(arrival.step, MoveCode.PRIORITY_HIGHER, message)

    def _arrival(self, step: Step, where: dict[str, str]) -> Arrival | None:
        """Return what a step does in the world; None when nothing can be said of it."""
        pod = self._running.get(step.pod)
        if pod is None:
            self._findings.add(step.id, MoveCode.STALE_POD, f"{step.pod} does not run any more")
            return None
        first = step.pod not in where
        if step.uid != pod.uid and (first or step.uid):
            self._findings.add(step.id, MoveCode.STALE_POD, f"{step.pod} was replaced by another pod of that name")
            return None
        origin = where.get(step.pod, pod.node)
        if step.from_node != origin:
            code = MoveCode.STALE_POD if first else MoveCode.PLAN_INCONSISTENT
            self._findings.add(step.id, code, f"{step.pod} is on {origin}, not on {step.from_node}")
            return None
        where[step.pod] = step.to_node
        if step.to_node not in self._start.nodes:
            self._findings.add(step.id, Code.UNKNOWN_NODE, f"{step.pod} should move to {step.to_node}")
            return None
        self._check_step(step)
        movable = self._problem.movable.get(step.pod)
        if movable is None:
            return Arrival(step.id, pod, need_of(pod, self._settings), step.to_node, origin)
        return Arrival(step.id, movable.pod, movable.need, step.to_node, origin)

    def _check_step(self, step: Step) -> None:
        """Note what speaks against moving the pod of a step at all."""
        movable = self._problem.movable.get(step.pod)
        if movable is None:
            code = self._problem.immovable.get(step.pod)
            if code is None:
                self._findings.add(
                    step.id, MoveCode.PLAN_INCONSISTENT, f"{step.pod} holds no GPU that a plan could use"
                )
            else:
                self._findings.add(step.id, code, f"{step.pod} does not move")
            return
        if step.gpus != movable.need.gpus:
            message = f"{step.pod} holds {movable.need.gpus} GPUs, not {step.gpus}"
            self._findings.add(step.id, MoveCode.PLAN_INCONSISTENT, message)
        if step.method not in tuple(Method):
            self._findings.add(step.id, MoveCode.PLAN_INCONSISTENT, f"method {step.method!r:.20} is not known")
        elif movable.method is Method.SURGE and step.method != Method.SURGE:
            self._findings.add(step.id, MoveCode.SINGLE_REPLICA, f"{step.pod} may move by surge only")
        if step.from_node == step.to_node and movable.group is None:
            self._findings.add(step.id, MoveCode.PLAN_INCONSISTENT, f"{step.pod} moves to the node where it is")

    def _admission(self, admission: Admission, admitted: set[str]) -> tuple[Demand, Arrival] | None:
        demand = self._demands.get(admission.pod)
        if demand is None:
            self._findings.add("", MoveCode.STALE_POD, f"{admission.pod} does not wait for room")
            return None
        if admission.pod in admitted:
            self._findings.add("", MoveCode.PLAN_INCONSISTENT, f"{admission.pod} is admitted twice")
            return None
        admitted.add(admission.pod)
        if admission.gpus != demand.need.gpus:
            message = f"{admission.pod} asks for {demand.need.gpus} GPUs, not {admission.gpus}"
            self._findings.add("", MoveCode.PLAN_INCONSISTENT, message)
        if admission.node not in self._start.nodes:
            self._findings.add("", Code.UNKNOWN_NODE, f"{admission.pod} should run on {admission.node}")
            return None
        return demand, Arrival("", demand.pod, demand.need, admission.node)

    def _check_disruptions(self, steps: Sequence[Step]) -> None:
        """Note what one wave disturbs too much of: a budget, a workload, a part of a group, one pod twice."""
        moving: Counter[str] = Counter(step.pod for step in steps)
        units: defaultdict[str, set[str]] = defaultdict(set)
        drawn: defaultdict[str, set[str]] = defaultdict(set)
        for step in steps:
            if moving[step.pod] > 1:
                self._findings.add(step.id, MoveCode.PLAN_INCONSISTENT, f"{step.pod} moves twice in wave {step.wave}")
            pod = self._problem.movable.get(step.pod)
            if pod is None:
                continue
            if pod.group is not None and not moving.keys() >= set(self._problem.groups[pod.group]):
                message = f"{step.pod} moves without all of its group {pod.group}"
                self._findings.add(step.id, MoveCode.GROUP_MUST_MOVE_WHOLE, message)
            units[pod.workload].add(pod.unit)
            if len(units[pod.workload]) > 1:
                message = f"wave {step.wave} moves {len(units[pod.workload])} replicas of {pod.workload}"
                self._findings.add(step.id, MoveCode.TWO_OF_ONE_WORKLOAD, message)
            if pod.budget is not None:
                drawn[pod.budget].add(pod.unit)
                if len(drawn[pod.budget]) > self._problem.budgets[pod.budget]:
                    message = f"wave {step.wave} draws {len(drawn[pod.budget])} disruptions on {pod.budget}"
                    self._findings.add(step.id, MoveCode.OVER_BUDGET, message)

    def _moved(self, world: World, arrivals: Sequence[Arrival]) -> World:
        """Return the world after all arrivals, whether they were right or not, and note those that were not."""
        coming = [arrival for arrival in arrivals if not arrival.stays]
        for arrival, why in refused(world, coming):
            start = "move to" if arrival.origin else "start on"
            message = f"{arrival.pod.key} cannot {start} {arrival.node}"
            detail = f" ({why.detail})" if why.detail else ""
            self._findings.add(arrival.step, why.code, message + detail)
        return after(world, arrivals)

    def _nodes_that_depend(self) -> dict[str, frozenset[str]]:
        """Return for each node of the plan those whose room has to do with its own, through steps and groups.

        Rules between pods reach everywhere; where there are any, all nodes of the plan belong together.
        """
        bundles: list[tuple[str, ...]] = []
        for arrival in (arrival for wave in self._arrivals.values() for arrival in wave):
            bundles.append((arrival.origin, arrival.node))
            movable = self._problem.movable.get(arrival.pod.key)
            if movable is not None and movable.group is not None:
                bundles.append((f"group {movable.group}", arrival.node))
        bundles += [(arrival.node,) for wave in self._admitted.values() for _, arrival in wave]
        parts = [set(chain.from_iterable(bundles))] if self._start.has_rules else connected_parts(bundles)
        return {node: frozenset(part) for part in parts for node in part}

    def _all_admitted_without(self, dropped: Arrival, priority: int) -> bool:
        """Return whether all admissions of a priority or above still fit when one pod, or its group, does not move."""
        movable = self._problem.movable.get(dropped.pod.key)
        stays = {dropped.pod.key}
        if movable is not None and movable.group is not None:
            stays.update(self._problem.groups[movable.group])
        world = self._start
        nodes = self._together[dropped.node]
        for wave in sorted({*self._arrivals, *self._admitted}):
            before = world
            moved = []
            for arrival in self._arrivals.get(wave, ()):
                if arrival.node not in nodes:
                    continue
                if arrival.pod.key in stays or (not arrival.stays and refusal(before, arrival) is not None):
                    stays.add(arrival.pod.key)
                else:
                    moved.append(arrival)
                    before = before if arrival.stays else before.arrived(arrival.pod, arrival.node)
            world = after(world, moved)
            for demand, arrival in self._admitted.get(wave, ()):
                if demand.priority >= priority and arrival.node in nodes:
                    if refusal(world, arrival) is not None:
                        return False
                    world = world.arrived(arrival.pod, arrival.node)
        return True
