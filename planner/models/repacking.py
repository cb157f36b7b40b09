"""Search for the best packing: a few nodes at a time, then all of them at once, one goal after the other.

What was reached of one goal is kept while the next one is looked at. Packing few nodes anew takes the same model as
packing all of them, and what a few nodes gain is gained for all: every goal is a sum over nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from planner.models.light_ortools import cp_model
from planner.models.outcome import SolveStatus
from planner.models.packing import Counts, Goal, Measure, PackingVars, Part, build, goals_of
from planner.models.packing_parts import FewNodes, exchanged, in_counts, named, waiting
from planner.options import SolveLimits
from planner.packing import PackedNode, Packing
from planner.plan import Phase

T = TypeVar("T")

# No goal but the last takes more than this share of the time that is left.
SHARE_OF_GOAL = 0.6
# The search among few nodes takes this share of a goal's time where a model of all nodes can follow it.
SHARE_OF_FEW = 0.5
# How many nodes are packed anew at a time, and how many kinds of waiting pods are tried on them.
FEW = (2, 3, 4)
MOST_WAITING = 14
# Few nodes are packed in milliseconds, or without a proof.
FEW_SECONDS = 0.1
# Packed in vain so many times for each node, few nodes make way for all.
PATIENCE = 6
# A model of all nodes needs a second for so many variables before it does anything useful.
VARIABLES_PER_SECOND = 10_000
# What is needed at the end to leave the solver and to name the pods.
RESERVE_SECONDS = 0.05
TOLERANCE = 1e-6
_ANSWERED = (cp_model.OPTIMAL, cp_model.FEASIBLE)


@dataclass(frozen=True, slots=True)
class Repacking:
    """Where pods run afterwards: node name by pod key; the phases are the goals in their order."""

    places: dict[str, str]
    phases: tuple[Phase, ...]
    status: SolveStatus


def repack(packing: Packing, limits: SolveLimits) -> Repacking:
    """Return the best packing that the time allows; it is never worse than the present one.

    For each priority from the highest down: the most pods of this priority and above that run, then the most running
    pods of these that stay where they are. Pods may move, and those of lower priority may stop.
    """
    started = time.monotonic()
    whole, keys = in_counts(packing)
    goals = goals_of(len(packing.tiers))
    with ThreadPoolExecutor(limits.workers) as pool:
        search = _Search(whole, goals, limits, started, pool)
        for goal in goals:
            search.reach(goal)
    phases = search.phases(packing.tiers)
    proved = all(phase.status == SolveStatus.OPTIMAL for phase in phases)
    status = SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE
    return Repacking(named(packing, keys, search.best), phases, status)


def _solver(seconds: float, workers: int, seed: int) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.0, seconds)
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    return solver


@dataclass(frozen=True, slots=True)
class _Done:
    """A goal that was worked on: it may not get worse any more. Its bound holds, and so many seconds were spent."""

    goal: Goal
    bound: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Task:
    """Few nodes to pack anew, what runs on them now, and the seed of the solver."""

    few: FewNodes
    now: Counts
    seed: int


class _Search:
    """The best packing so far, and the goals that are done."""

    def __init__(
        self, whole: Part, goals: tuple[Goal, ...], limits: SolveLimits, started: float, pool: Executor
    ) -> None:
        self.whole = whole
        self.best: Counts = whole.running
        self._goals = goals
        self._done: list[_Done] = []
        self._limits = limits
        self._deadline = started + limits.time_limit_seconds - RESERVE_SECONDS
        self._pool = pool
        self._chance = np.random.default_rng(limits.seed)
        self._model: tuple[cp_model.CpModel, PackingVars] | None = None

    def reach(self, goal: Goal) -> None:
        """Come as near to a goal as the time allows."""
        before = self.best
        began = time.monotonic()
        ends = began + max(0.0, self._deadline - began) * (1 if goal == self._goals[-1] else SHARE_OF_GOAL)
        if goal.measure is Measure.KEPT:
            self._exchange_nodes(goal)
        bound = self._bound(goal, ends)
        if self._value(goal) < bound:
            self._pack_few(goal, bound, ends)
        if self._value(goal) < bound:
            bound = self._pack_all(goal, bound, ends)
        # Few nodes wander among packings that are equal by this goal, not by those that follow.
        self.best = max(before, self.best, key=self._worth)
        self._done.append(_Done(goal, bound, round(time.monotonic() - began, 3)))

    def phases(self, tiers: Sequence[int]) -> tuple[Phase, ...]:
        """Return the goals as they were reached in the end: work on one may have brought those before it forward."""
        phases: list[Phase] = []
        for done in self._done:
            value = self._value(done.goal)
            words = "pods placed" if done.goal.measure is Measure.PLACED else "running pods kept"
            name = f"{words} of priority {tiers[done.goal.tier]} and above"
            status = SolveStatus.OPTIMAL if value == done.bound else SolveStatus.FEASIBLE
            phases.append(Phase(name, value, done.bound, status.value, done.seconds))
        return tuple(phases)

    def _value(self, goal: Goal) -> int:
        return goal.reached(self.whole, self.best)

    def _worth(self, counts: Counts) -> tuple[int, ...]:
        return tuple(goal.reached(self.whole, counts) for goal in self._goals)

    def _bound(self, goal: Goal, ends: float) -> int:
        """Return a bound: all pods, and not more than one node would hold that is as large as all together."""
        ceiling = goal.ceiling(self.whole)
        if goal.measure is Measure.KEPT or self._value(goal) == ceiling:
            return ceiling
        nodes = self.whole.nodes
        one = PackedNode("all", sum(node.cpu_milli for node in nodes), sum(node.memory_bytes for node in nodes))
        part = Part((one,), self.whole.kinds, self.whole.pods, {})
        model, v = build(part)
        for known in self._goals_done():
            if known.measure is Measure.PLACED:
                model.add(known.expression(part, v) >= self._value(known))
        model.maximize(goal.expression(part, v))
        solver = _solver(min(ends - time.monotonic(), FEW_SECONDS), 1, self._limits.seed)
        answered = solver.solve(model) in _ANSWERED
        return min(ceiling, int(solver.best_objective_bound + TOLERANCE)) if answered else ceiling

    def _exchange_nodes(self, goal: Goal) -> None:
        """Let equal nodes exchange what they hold, where that is no loss for this goal, nor for one that is done."""
        found = exchanged(self.whole, self.best)
        if all(known.reached(self.whole, found) >= self._value(known) for known in (*self._goals_done(), goal)):
            self.best = found

    def _goals_done(self) -> list[Goal]:
        return [done.goal for done in self._done]

    def _pack_all(self, goal: Goal, bound: int, ends: float) -> int:
        """Improve the packing by the model of all nodes, and return the bound that it proves."""
        if not self._is_small(ends - time.monotonic()):
            return bound
        if self._model is None:
            self._model = build(self.whole)
        model, v = self._model
        for known in self._goals_done():
            model.add(known.expression(self.whole, v) >= self._value(known))
        objective = goal.expression(self.whole, v)
        model.add(objective <= bound)
        # The method has no types of its own.
        cast("Callable[[], None]", model.clear_hints)()
        for key, variable in v.put.items():
            model.add_hint(variable, self.best.get(key, 0))
        for key, variable in v.keep.items():
            model.add_hint(variable, min(self.whole.running[key], self.best.get(key, 0)))
        model.maximize(objective)
        solver = _solver(ends - time.monotonic(), self._limits.workers, self._limits.seed)
        # Trying out what follows from single variables costs more than it saves here.
        solver.parameters.cp_model_probing_level = 0
        if solver.solve(model) not in _ANSWERED:
            return bound
        if round(solver.objective_value) > self._value(goal):
            found = {key: solver.value(variable) for key, variable in v.put.items()}
            self.best = {key: pods for key, pods in found.items() if pods}
        return min(bound, int(solver.best_objective_bound + TOLERANCE))

    def _is_small(self, seconds: float) -> bool:
        return len(self.whole.kinds) * len(self.whole.nodes) < seconds * VARIABLES_PER_SECOND

    def _pack_few(self, goal: Goal, bound: int, ends: float) -> None:
        """Pack few nodes at a time until the bound is reached, the time is over, or nothing is found for long."""
        if len(self.whole.nodes) <= min(FEW):
            return
        left = ends - time.monotonic()
        followed = self._is_small(left * (1 - SHARE_OF_FEW))
        stop = time.monotonic() + left * (SHARE_OF_FEW if followed else 1)
        value, in_vain = self._value(goal), 0
        while value < bound and time.monotonic() < stop:
            if followed and in_vain > PATIENCE * len(self.whole.nodes):
                break
            tasks = self._tasks(goal)
            found = self._pool.map(lambda task: self._packed(goal, task, stop), tasks)
            for task, counts in zip(tasks, found, strict=True):
                self.best = task.few.replaced(self.best, counts)
            in_vain += len(tasks)
            if self._value(goal) > value:
                value, in_vain = self._value(goal), 0

    def _tasks(self, goal: Goal) -> list[_Task]:
        """Return a task for each worker; no two have a node or a waiting pod in common."""
        unplaced = waiting(self.whole, self.best)
        kinds = self._some(sorted(unplaced), len(unplaced))
        tasks: list[_Task] = []
        taken: set[int] = set()
        for worker in range(self._limits.workers):
            size = min(FEW[self._chance.integers(len(FEW))], len(self.whole.nodes) - 1)
            nodes = self._nodes(goal, size, taken)
            if len(nodes) < size:
                break
            taken.update(nodes)
            candidates = {k: unplaced[k] for k in kinds[worker :: self._limits.workers][:MOST_WAITING]}
            few = FewNodes.of(self.whole, self.best, nodes, candidates)
            tasks.append(_Task(few, few.inside(self.best), int(self._chance.integers(2**31))))
        return tasks

    def _some(self, things: Sequence[T], most: int) -> list[T]:
        """Return up to so many of the things, drawn by chance."""
        return [things[i] for i in self._chance.permutation(len(things))[:most]]

    def _nodes(self, goal: Goal, size: int, taken: set[int]) -> tuple[int, ...]:
        """Return nodes to pack anew; to keep pods in place, one that a pod left, and some that such pods went to."""
        chosen: list[int] = []
        running, best = self.whole.running, self.best
        if goal.measure is Measure.KEPT:
            left = [
                (k, n)
                for (k, n), pods in running.items()
                if self.whole.kinds[k].tier <= goal.tier and best.get((k, n), 0) < pods and n not in taken
            ]
            for k, home in self._some(left, 1):
                guests = [
                    n
                    for (kind, n), pods in best.items()
                    if kind == k and pods > running.get((k, n), 0) and n not in taken
                ]
                chosen = [home, *self._some(guests, size - 1)]
        others = [n for n in range(len(self.whole.nodes)) if n not in taken and n not in chosen]
        return tuple(sorted(chosen + self._some(others, size - len(chosen))))

    def _packed(self, goal: Goal, task: _Task, stop: float) -> Counts:
        """Return what runs on the nodes of a task when they are packed anew."""
        part = task.few.part
        model, v = build(part)
        for known in self._goals_done():
            model.add(known.expression(part, v) >= known.reached(part, task.now))
        objective = goal.expression(part, v)
        model.add(objective >= goal.reached(part, task.now))
        model.maximize(objective)
        solver = _solver(min(stop - time.monotonic(), FEW_SECONDS), 1, task.seed)
        # No hint: an equal packing that is another one leads out of where the search is stuck.
        solver.parameters.cp_model_presolve = False
        if solver.solve(model) not in _ANSWERED:
            return task.now
        return {key: solver.value(variable) for key, variable in v.put.items()}
