"""Pods that have to leave GPUs before these are cut: who may, where they go, in which wave."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from islander.cluster import names
from islander.cluster.mig_devices import sliced_as
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.mig import geometry_for, profile_of_resource
from islander.policy.need import need_of
from islander.policy.reasons import MoveCode
from islander.policy.settings import PolicySettings
from planner.mig.fleet import Fleet, FleetNode
from planner.mig.gpus import Use, canonical, devices_of
from planner.mig.plan import Drain
from planner.mig.tolerance import product_of
from planner.movability import Movability, group_of, reload_seconds_of
from planner.options import PlanOptions
from planner.plan import Step
from planner.problem import DEFAULT_RELOAD_SECONDS
from planner.world import World

Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Drainable:
    """Which pods may leave the GPU that they are on, and why the others stay.

    Attributes
    ----------
    leaving
        Keys of the pods that may.
    held
        Code of every other pod that uses a GPU or an instance.
    """

    leaving: frozenset[str]
    held: Mapping[str, MoveCode]
    judge: Movability


def drainable(
    snapshot: ClusterSnapshot, fleet: Fleet, settings: PolicySettings, reach: int | None, *, allowed: bool
) -> Drainable:
    """Return who may be drained.

    A pod with an island of its own is never drained: MIG does not break what tensor parallelism needs. Nor is one that
    restarts together with others, or that has a higher priority than all that is wanted.

    Parameters
    ----------
    reach
        The highest priority that is wanted; None when nothing is.
    allowed
        Whether anybody may be drained at all.
    """
    judge = Movability(snapshot, PlanOptions(), reach=reach)
    leaving: set[str] = set()
    held: dict[str, MoveCode] = {}
    for key in sorted({pod for node in fleet.nodes for gpu in node.gpus for pod in gpu.pods}):
        pod = fleet.pods[key]
        code = judge.code(pod)
        if code is None and group_of(pod) is not None:
            code = MoveCode.GROUP_MUST_MOVE_WHOLE
        if code is None and need_of(pod, settings).wants_island:
            code = MoveCode.ISLAND_NEEDED
        if code is not None:
            held[key] = code
        elif allowed:
            leaving.add(key)
    return Drainable(frozenset(leaving), held, judge)


@dataclass(slots=True)
class DrainPlan:
    """The drains of a plan, and the steps of those that have a target.

    Attributes
    ----------
    homeless
        Keys of pods with a whole GPU for which there is no other one: they must not be drained.
    """

    steps: list[Step] = field(default_factory=list)
    drains: list[Drain] = field(default_factory=list)
    homeless: set[str] = field(default_factory=set)


def drain_plan(
    snapshot: ClusterSnapshot,
    fleet: Fleet,
    settings: PolicySettings,
    judge: Movability,
    changed: Collection[Where],
    waiting: Collection[str],
) -> DrainPlan:
    """Return where the pods of the GPUs that are cut go first.

    Targets are nodes that the plan leaves as they are: on others kubelet could hand out a GPU that is about to be cut.

    Parameters
    ----------
    waiting
        Nodes that keep whole GPUs for pods that wait for them.
    """
    return _Drainer(snapshot, fleet, settings, judge, changed, waiting).plan()


class _Drainer:
    def __init__(
        self,
        snapshot: ClusterSnapshot,
        fleet: Fleet,
        settings: PolicySettings,
        judge: Movability,
        changed: Collection[Where],
        waiting: Collection[str],
    ) -> None:
        self._fleet, self._settings, self._judge = fleet, settings, judge
        self._changed = set(changed)
        self._waiting = set(waiting)
        touched = {node for node, _ in changed}
        self._targets = [node for node in fleet.nodes if node.takes_pods and node.name not in touched]
        self._spare = {node.name: Counter(dict(node.spare)) for node in self._targets}
        self._world = World.of(snapshot)
        self._waves: defaultdict[str, set[int]] = defaultdict(set)
        self._drawn: defaultdict[tuple[str, int], int] = defaultdict(int)

    def plan(self) -> DrainPlan:
        found = DrainPlan()
        for node, index, pod in self._leaving():
            target = self._target(pod)
            if target is None:
                if any(name == names.NVIDIA_GPU for name, _ in devices_of(pod)) and not sliced_as(node.node):
                    found.homeless.add(pod.key)
                found.drains.append(Drain(pod.key, node.name, index, code=MoveCode.DRAIN_WITHOUT_TARGET.value))
                continue
            step = self._step(pod, target, f"s{len(found.steps) + 1}")
            found.steps.append(step)
            found.drains.append(Drain(pod.key, node.name, index, step=step.id))
        found.steps.sort(key=lambda step: (step.wave, int(step.id[1:])))
        return found

    def _leaving(self) -> Iterator[tuple[FleetNode, int, Pod]]:
        seen = set()
        for node in self._fleet.nodes:
            for gpu in node.gpus:
                for key in gpu.pods if (node.name, gpu.index) in self._changed and gpu.use is not Use.IDLE else ():
                    if key not in seen:
                        seen.add(key)
                        yield node, gpu.index, self._fleet.pods[key]

    def _target(self, pod: Pod) -> FleetNode | None:
        """Return the node with the least to spare that may take the pod now, and note that it does."""
        fitting = [node for node in self._targets if self._fits(pod, node)]
        if not fitting:
            return None
        best = min(fitting, key=lambda node: (self._spare[node.name].total(), node.state.free, node.name))
        for profile, count in _profiles(pod, best):
            self._spare[best.name][profile] -= count
        self._world = self._world.arrived(pod, best.name)
        return best

    def _fits(self, pod: Pod, node: FleetNode) -> bool:
        whole = any(name == names.NVIDIA_GPU for name, _ in devices_of(pod)) and not node.sliced_as
        if pod.node == node.name or (whole and node.name in self._waiting):
            return False
        if any(self._spare[node.name][profile] < count for profile, count in _profiles(pod, node)):
            return False
        return self._world.refusal(pod, need_of(pod, self._settings), node.name) is None

    def _step(self, pod: Pod, target: FleetNode, step_id: str) -> Step:
        workload, budget = self._judge.workload_of(pod), self._judge.budget_of(pod)
        key = f"{budget.namespace}/{budget.name}" if budget is not None else ""
        wave = 1
        while wave in self._waves[workload] or (
            budget is not None and self._drawn[key, wave] >= budget.disruptions_allowed
        ):
            wave += 1
        self._waves[workload].add(wave)
        self._drawn[key, wave] += 1
        count = sum(number for _, number in devices_of(pod))
        preconditions: dict[str, object] = {"node": pod.node, "uid": pod.uid}
        if budget is not None:
            preconditions["disruptionsAllowed"] = 1
        return Step(
            id=step_id,
            wave=wave,
            depends_on=[],
            pod=pod.key,
            uid=pod.uid,
            workload=workload,
            gpus=count,
            from_node=pod.node,
            to_node=target.name,
            method=self._judge.method(pod).value,
            pdb=key,
            drain_seconds=pod.spec.grace_seconds,
            reload_seconds=reload_seconds_of(pod, DEFAULT_RELOAD_SECONDS),
            preconditions=preconditions,
            risks=[] if budget is not None else ["no disruption budget guards the workload"],
        )


def _profiles(pod: Pod, node: FleetNode) -> Sequence[tuple[str, int]]:
    """Return the instances that a pod takes on a node, by profile."""
    geometry = geometry_for(product_of(node.node))
    found = []
    for name, count in devices_of(pod):
        profile = profile_of_resource(name) or node.sliced_as
        if profile:
            found.append((canonical(geometry, profile), count))
    return found
