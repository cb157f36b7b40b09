"""Why pending replicas stay pending, and the smallest change that would help."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from msgspec import structs

from islander.cluster import names
from islander.cluster.node import GpuReport, Node
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.assess import assess
from islander.policy.demand import mix_of
from islander.policy.fit import unfit
from islander.policy.occupancy import is_gpu_node
from islander.policy.reasons import MOVE_REASONS, REASONS, Code, MoveCode
from islander.policy.settings import DEFAULT_MIX, PolicySettings
from planner.interruption import Interruption
from planner.models.classes import NOBODY, without_rules
from planner.models.solve import SolveStatus
from planner.movability import Movability
from planner.options import PlanOptions
from planner.plan import Unadmitted
from planner.problem import Demand, Problem, problem_of
from planner.solution import Solution, solve
from planner.world import World

# Looking for what would help takes no longer than this share of the time limit, nor than so many seconds.
SHARE_OF_LIMIT = 0.5
MOST_SECONDS = 5.0
# One try gets this long.
SECONDS_PER_TRY = 2.0
# Budgets are tried one by one up to so many; beyond, only all at once.
MAX_BUDGETS = 8
# What the words for a change that helps begin with.
HELPS = "it would fit with "
# Nodes that are closed for a while come before what is wrong for good.
_PASSING = (Code.NODE_CORDONED, Code.NODE_NOT_READY)


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One thing that could be different: in words, the snapshot and options with it, and the code it explains.

    `certain` when it needs no solver to see that it helps.
    """

    words: str
    snapshot: ClusterSnapshot
    options: PlanOptions
    code: MoveCode = MoveCode.NO_ROOM_EVEN_IF_REPACKED
    certain: bool = False


def refusals(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: PlanOptions,
    problem: Problem,
    world: World,
    solution: Solution,
    stop: Interruption,
) -> list[Unadmitted]:
    """Return why each demand that is not admitted stays pending; equal replicas get one answer.

    Once `stop` is asked nothing is tried any more; what needs no search is still told.
    """
    seconds = min(MOST_SECONDS, SHARE_OF_LIMIT * options.limits.time_limit_seconds)
    search = _WhatHelps(snapshot, settings, options, problem, solution, time.monotonic() + seconds, stop)
    admitted = {key for key, _ in solution.admits}
    answers: dict[Hashable, tuple[str, str]] = {}
    found = []
    for demand in problem.demands:
        if demand.key in admitted:
            continue
        spec = demand.pod.spec
        alike = (demand.need, spec.node_selector, spec.node_terms, spec.tolerations, demand.priority)
        memo = (alike, demand.key in solution.tangled, demand.group)
        if memo not in answers:
            answers[memo] = _answer(world, demand, search)
        found.append(Unadmitted(demand.key, *answers[memo]))
    return found


def _answer(world: World, demand: Demand, search: _WhatHelps) -> tuple[str, str]:
    never = never_placeable(world, demand)
    if never is not None:
        code, count, of = never
        if not of:
            return code.value, f"{REASONS[code].sentence}: the cluster has no node with GPUs"
        return code.value, f"{REASONS[code].sentence} ({count} of {of} GPU nodes)"
    move_code, helps = search.answer(demand)
    return move_code.value, f"{MOVE_REASONS[move_code].sentence}; {helps}"


def never_placeable(world: World, demand: Demand) -> tuple[Code, int, int] | None:
    """Return why no node would take the demand even if it were empty, with the number of such nodes and of all.

    None when some node would. Only GPU nodes are counted.
    """
    codes: Counter[Code] = Counter()
    for node in world.nodes.values():
        if not (is_gpu_node(node) or node.capacity.count(demand.need.resource)):
            continue
        code = _empty_node_refuses(world, demand, node)
        if code is None:
            return None
        codes[code] += 1
    if not codes:
        return Code.NODE_TOO_SMALL, 0, 0
    passing = next((code for code in _PASSING if codes[code]), None)
    chosen = passing or max(sorted(codes), key=lambda code: codes[code])
    return chosen, codes[chosen], codes.total()


def _empty_node_refuses(world: World, demand: Demand, node: Node) -> Code | None:
    """Return why the node, without any pod, would refuse; what is wrong for good comes before what passes."""
    pod = without_rules(demand.pod)
    opened = structs.replace(node, ready=True, unschedulable=False)
    blocked = unfit(pod, opened, NOBODY, ())
    if blocked is not None:
        return blocked.code
    found = assess(world.emptied(node.name, demand.need.resource), demand.need, DEFAULT_MIX)
    if not found.accepted:
        return found.code
    closed = unfit(pod, node, NOBODY, ())
    return None if closed is None else closed.code


class _WhatHelps:
    """Solves again with one thing different at a time, the smallest change first."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        settings: PolicySettings,
        options: PlanOptions,
        problem: Problem,
        solution: Solution,
        deadline: float,
        stop: Interruption,
    ) -> None:
        self._stop = stop
        self._snapshot, self._settings, self._options = snapshot, settings, options
        self._problem, self._solution, self._deadline = problem, solution, deadline
        self._mix = mix_of(snapshot, settings)
        self._admitted = {key for key, _ in solution.admits}

    def answer(self, demand: Demand) -> tuple[MoveCode, str]:
        """Return the code of a demand, and what would help."""
        code = self._code(demand)
        tried_all = True
        for relaxation in self._relaxations(demand):
            if relaxation.certain:
                return code, f"{HELPS}{relaxation.words}"
            if self._stop.asked or time.monotonic() > self._deadline:
                # What needs no search is still told.
                tried_all = False
                continue
            if self._admits(relaxation, demand):
                if relaxation.code is MoveCode.OVER_MOVE_LIMIT:
                    code = relaxation.code
                return code, f"{HELPS}{relaxation.words}"
        held = Counter(self._problem.immovable.values())
        told = ", ".join(f"{held[reason]} {reason.value}" for reason in sorted(held))
        nothing = "no single change helps" if tried_all else "what would help was not searched for to the end"
        return code, f"{nothing}; pods that do not move: {told or 'none'}"

    def _code(self, demand: Demand) -> MoveCode:
        if demand.key in self._solution.tangled:
            return MoveCode.CYCLE_WITHOUT_BUFFER
        # When the admissions down to its priority are proved, so is that there is no room.
        status = {phase.name: phase.status for phase in self._solution.phases}
        tiers = {other.priority for other in self._problem.demands if other.priority >= demand.priority}
        proved = self._solution.status is SolveStatus.OPTIMAL or all(
            status.get(f"GPUs admitted at priority {tier}") == SolveStatus.OPTIMAL.value for tier in tiers
        )
        return MoveCode.NO_ROOM_EVEN_IF_REPACKED if proved else MoveCode.NO_ANSWER_IN_TIME

    def _relaxations(self, demand: Demand) -> Iterator[Relaxation]:
        snapshot, options = self._snapshot, self._options
        if options.max_moves is not None or options.max_moves_per_workload is not None:
            free = replace(options, max_moves=None, max_moves_per_workload=None)
            words = "more moves than --max-moves or --max-moves-per-workload allow"
            yield Relaxation(words, snapshot, free, MoveCode.OVER_MOVE_LIMIT)
        yield from self._with_budgets()
        held = set(self._problem.immovable.values())
        if MoveCode.SINGLE_REPLICA in held:
            yield Relaxation("--allow-single-replica", snapshot, replace(options, allow_single_replica=True))
        if MoveCode.UNKNOWN_OWNER in held:
            yield Relaxation("--allow-unknown-owners", snapshot, replace(options, allow_unknown_owners=True))
        if options.protect:
            yield Relaxation("less under --protect", snapshot, replace(options, protect=""))
        yield from self._with_open_nodes(demand)
        if MoveCode.PRIORITY_HIGHER in held:
            yield Relaxation("pods of higher priority disturbed, which no plan does", self._raised(demand), options)
        yield from self._with_one_more_node(demand)

    def _with_budgets(self) -> Iterator[Relaxation]:
        judge = Movability(self._snapshot, self._options, reach=None)
        pods = {pod.key: pod for pod in self._snapshot.pods}
        held = [pods[key] for key, code in self._problem.immovable.items() if code is MoveCode.PDB_ZERO]
        budgets = sorted({(b.namespace, b.name) for pod in held for b in judge.budgets_of(pod)})
        for budget in budgets if len(budgets) <= MAX_BUDGETS else ():
            yield Relaxation(f"1 PDB: {'/'.join(budget)}", self._allowing([budget]), self._options)
        if len(budgets) > 1:
            yield Relaxation(f"{len(budgets)} PDBs that allow no disruption", self._allowing(budgets), self._options)

    def _allowing(self, budgets: list[tuple[str, str]]) -> ClusterSnapshot:
        allowed = tuple(
            structs.replace(b, disruptions_allowed=1) if (b.namespace, b.name) in budgets else b
            for b in self._snapshot.budgets
        )
        return structs.replace(self._snapshot, budgets=allowed)

    def _with_open_nodes(self, demand: Demand) -> Iterator[Relaxation]:
        resource = demand.need.resource
        closed = [node for node in self._snapshot.nodes if node.unschedulable and node.allocatable.count(resource)]
        if closed:
            gpus = sum(node.allocatable.count(resource) for node in closed)
            names_of = {node.name for node in closed}
            nodes = tuple(
                structs.replace(node, unschedulable=False) if node.name in names_of else node
                for node in self._snapshot.nodes
            )
            words = f"the nodes that are cordoned: {gpus} GPUs are on them"
            yield Relaxation(words, structs.replace(self._snapshot, nodes=nodes), self._options)

    def _raised(self, demand: Demand) -> ClusterSnapshot:
        highest = max(pod.spec.priority for pod in self._snapshot.pods)
        pods = tuple(
            structs.replace(pod, spec=structs.replace(pod.spec, priority=highest)) if pod.key == demand.key else pod
            for pod in self._snapshot.pods
        )
        return structs.replace(self._snapshot, pods=pods)

    def _with_one_more_node(self, demand: Demand) -> Iterator[Relaxation]:
        world, pod = World.of(self._snapshot), without_rules(demand.pod)
        grown = [(node, _one_more(node)) for node in self._snapshot.nodes]
        # Who names a node by its name is not helped by another one.
        fitting = [
            (node.allocatable.count(demand.need.resource), node.name, more)
            for node, more in grown
            if unfit(pod, more, NOBODY, ()) is None and _empty_node_refuses(world, demand, node) is None
        ]
        if fitting:
            _, _, more = max(fitting, key=lambda found: found[:2])
            product = more.label(names.GPU_PRODUCT) or more.label(names.AMD_PRODUCT) or "its kind"
            snapshot = structs.replace(self._snapshot, nodes=(*self._snapshot.nodes, more))
            # On the new node it is alone; a group may need several.
            words = f"one more node of {product}"
            yield Relaxation(words, snapshot, self._options, certain=demand.group is None)

    def _admits(self, relaxation: Relaxation, demand: Demand) -> bool:
        """Return whether the demand fits beside all that are admitted now."""
        seconds = min(SECONDS_PER_TRY, max(0.2, self._deadline - time.monotonic()))
        options = replace(
            relaxation.options, limits=replace(relaxation.options.limits, time_limit_seconds=seconds), empty_nodes=0
        )
        problem = problem_of(relaxation.snapshot, self._settings, options)
        together = {other.key for other in self._problem.demands if demand.group and other.group == demand.group}
        wanted = self._admitted | together | {demand.key}
        problem = replace(problem, demands=tuple(other for other in problem.demands if other.key in wanted))
        solution = solve(problem, World.of(relaxation.snapshot), options, self._mix, stop=self._stop)
        return {key for key, _ in solution.admits} >= wanted


def _one_more(model: Node) -> Node:
    """Return another node of the same kind, with nobody on it."""
    labels = tuple((key, f"{value}-more" if key == names.HOSTNAME else value) for key, value in model.labels)
    report = None if model.gpu_report is None else _nobody(model.gpu_report)
    return structs.replace(model, name=f"{model.name}-more", uid="", labels=labels, gpu_report=report)


def _nobody(report: GpuReport) -> GpuReport:
    """Return the report of the same hardware with no GPU in use."""
    return structs.replace(report, gpus=tuple(structs.replace(gpu, pod=None) for gpu in report.gpus))
