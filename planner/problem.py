"""What a plan has to solve: the demand, the pods that may move, and the rules that bind them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from islander.cluster import names
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.need import PodNeed, need_of
from islander.policy.reasons import MoveCode
from islander.policy.settings import PolicySettings
from planner.errors import PlannerError
from planner.goal import goal_replicas, in_order
from planner.movability import Method, Movability, group_of, reload_seconds_of, unreadable_annotations
from planner.options import PlanOptions
from planner.volumes import NEEDED_KINDS, Volumes

__all__ = ["Demand", "Method", "MovablePod", "Problem", "is_waiting", "problem_of"]

# How long a replica takes until it serves when nothing says it: pulling, loading weights, warming up.
DEFAULT_RELOAD_SECONDS = 300
OWNER_KINDS = frozenset({"ReplicaSet", "Deployment", "StatefulSet", "LeaderWorkerSet"})
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Demand:
    """A replica that waits for room.

    Attributes
    ----------
    key
        `namespace/name` of a pending pod; `goal/1`, `goal/2`, ... of replicas that do not exist yet.
    pod
        The pod as the policy sees it; where its volumes can be reached is part of its node terms.
    priority
        Higher ones are admitted first.
    group
        Key that the demands share which are admitted all or none, since they are of use together only (one replica of
        a LeaderWorkerSet); None for a replica that stands alone.
    """

    key: str
    pod: Pod
    need: PodNeed
    priority: int
    group: str | None = None


@dataclass(frozen=True, slots=True)
class MovablePod:
    """A running pod that may move.

    Attributes
    ----------
    pod
        The pod on its node; where its volumes can be reached is part of its node terms.
    workload
        `namespace/Kind/name` of its outermost owner: one replica of it moves at a time.
    budget
        Key (`namespace/name`) of the disruption budget that its eviction draws on; None when none selects it.
    group
        Key in `Problem.groups` of the pods that restart with it; None for a pod that stands alone.
    reload_seconds
        Time until its replacement serves again, as far as it is known.
    grace_seconds
        Time that it may take to end, during which it holds its GPUs.
    """

    pod: Pod
    need: PodNeed
    workload: str
    budget: str | None = None
    group: str | None = None
    reload_seconds: int = 0
    grace_seconds: int = 30
    method: Method = Method.EVICT

    @property
    def unit(self) -> str:
        """What restarts as one: the group, or the pod's own key."""
        return self.group or self.pod.key


@dataclass(frozen=True, slots=True)
class Problem:
    """All that a plan has to respect, beside the room on the nodes, which `World` tells.

    Attributes
    ----------
    demands
        By priority, highest first, then by key.
    movable
        Pods with GPUs that may move, by key, in order of their keys.
    immovable
        The other running pods with GPUs, by key, and why.
    groups
        Keys of the movable pods that restart together, by group; a group moves whole, in one wave.
    budgets
        Disruptions allowed at a time, by key of the budget; a group draws one.
    warnings
        What the snapshot lacks or holds against planning, one sentence each.
    """

    demands: tuple[Demand, ...]
    movable: Mapping[str, MovablePod]
    immovable: Mapping[str, MoveCode]
    groups: Mapping[str, tuple[str, ...]]
    budgets: Mapping[str, int]
    warnings: tuple[str, ...] = ()


def problem_of(snapshot: ClusterSnapshot, settings: PolicySettings, options: PlanOptions) -> Problem:
    """Return the problem that a snapshot and the options of a plan pose.

    Raises
    ------
    PlannerError
        A pod that is asked for is not there, does not wait, or asks for no GPU; an option cannot be understood.
    """
    needs = {pod.key: need for pod in snapshot.pods if (need := need_of(pod, settings)).gpus}
    volumes = Volumes(snapshot)
    demands, warnings = _demands(snapshot, settings, options, needs, volumes)
    # Whole nodes may be freed at the cost of anybody; without any demand nothing is disturbed anyway.
    reach = None if options.empty_nodes or not demands else max(demand.priority for demand in demands)
    judge = Movability(snapshot, options, reach=reach)
    nodes = {node.name for node in snapshot.nodes}
    running = [pod for pod in snapshot.pods if pod.holds_devices and pod.node in nodes]
    codes = _codes(judge, snapshot, running, needs)
    movable: dict[str, MovablePod] = {}
    budgets: dict[str, int] = {}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for pod in running:
        if pod.key not in needs or codes[pod.key] is not None:
            continue
        budget = judge.budget_of(pod)
        group = group_of(pod)
        if budget is not None:
            budgets[f"{budget.namespace}/{budget.name}"] = budget.disruptions_allowed
        if group is not None:
            groups[group].append(pod.key)
        movable[pod.key] = MovablePod(
            pod=volumes.bound(pod),
            need=needs[pod.key],
            workload=judge.workload_of(pod),
            budget=None if budget is None else f"{budget.namespace}/{budget.name}",
            group=group,
            reload_seconds=reload_seconds_of(pod, DEFAULT_RELOAD_SECONDS),
            grace_seconds=pod.spec.grace_seconds,
            method=judge.method(pod),
        )
    immovable = {key: code for key, code in codes.items() if code is not None and key in needs}
    gpu_pods = [pod for pod in snapshot.pods if pod.key in needs and not pod.finished]
    return Problem(
        demands=demands,
        movable=movable,
        immovable=immovable,
        groups={key: tuple(members) for key, members in sorted(groups.items())},
        budgets=dict(sorted(budgets.items())),
        warnings=(*warnings, *unreadable_annotations(gpu_pods), *_lacks(snapshot, settings, gpu_pods, nodes)),
    )


def _codes(
    judge: Movability, snapshot: ClusterSnapshot, running: Sequence[Pod], needs: Mapping[str, PodNeed]
) -> dict[str, MoveCode | None]:
    """Return why each running pod with GPUs, and each member of a group, stays; None when it may move.

    A group of which one pod is held, waits, or is not in the snapshot, is held whole.
    """
    alive = [pod for pod in snapshot.pods if not pod.finished]
    members: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in alive:
        if (group := group_of(pod)) is not None:
            members[group].append(pod)
    there = {pod.key for pod in running}
    codes = {pod.key: judge.code(pod) for pod in running if pod.key in needs or group_of(pod) is not None}
    sizes = {f"{w.namespace}/{w.name}": w.group_size for w in snapshot.workloads if w.kind == "LeaderWorkerSet"}
    for pods in members.values():
        size = sizes.get(f"{pods[0].namespace}/{pods[0].label(names.LWS_NAME)}", 0)
        held = len(pods) < size or any(pod.key not in there or codes[pod.key] is not None for pod in pods)
        for pod in pods if held else ():
            if pod.key in there and codes[pod.key] is None:
                codes[pod.key] = MoveCode.GROUP_MUST_MOVE_WHOLE
    return codes


def _demands(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: PlanOptions,
    needs: Mapping[str, PodNeed],
    volumes: Volumes,
) -> tuple[tuple[Demand, ...], list[str]]:
    waiting = {pod.key: pod for pod in snapshot.pods if pod.key in needs and is_waiting(pod)}
    if options.goal is not None and not options.pods:
        waiting = {}
    elif options.pods:
        waiting = {key: _asked_for(snapshot, key, waiting) for key in options.pods}
    gated = sorted(key for key, pod in waiting.items() if pod.spec.gated)
    warnings = [f"pod {key} has scheduling gates: it does not wait for room yet, and is not counted" for key in gated]
    found = [
        Demand(key, volumes.bound(pod), needs[key], pod.spec.priority, group_of(pod))
        for key, pod in waiting.items()
        if not pod.spec.gated
    ]
    unseen = sorted(demand.key for demand in found if not volumes.known(demand.pod))
    if unseen:
        warnings.append(
            f"{_some(unseen)}: nothing is known of volumes that the pod uses, so where they can be reached is not "
            "respected; add persistentvolumeclaims and persistentvolumes to the snapshot"
        )
    if options.goal is not None:
        replicas, doubts = goal_replicas(options.goal, snapshot, settings)
        found += [Demand(pod.key, pod, need_of(pod, settings), pod.spec.priority) for pod in replicas]
        warnings += doubts
    return tuple(sorted(found, key=lambda demand: (-demand.priority, in_order(demand.key)))), warnings


def is_waiting(pod: Pod) -> bool:
    """Return whether the pod waits for a node."""
    return not pod.node and not pod.deleted and pod.phase == "Pending"


def _asked_for(snapshot: ClusterSnapshot, key: str, waiting: Mapping[str, Pod]) -> Pod:
    pod = waiting.get(key)
    if pod is not None:
        return pod
    found = next((pod for pod in snapshot.pods if pod.key == key), None)
    if found is None:
        alike = sorted(pod.key for pod in snapshot.pods if pod.name == key.rpartition("/")[2])
        hint = f"; there is {_some(alike)}" if alike else "; name it as NAMESPACE/NAME" if "/" not in key else ""
        raise PlannerError(f"--pod {key or repr(key)}: the snapshot has no such pod{hint}")
    if not is_waiting(found):
        raise PlannerError(f"--pod {key}: it is {f'on node {found.node}' if found.node else 'finished'}, not pending")
    raise PlannerError(f"--pod {key}: it asks for no GPU")


def _lacks(
    snapshot: ClusterSnapshot, settings: PolicySettings, gpu_pods: Sequence[Pod], nodes: Collection[str]
) -> list[str]:
    """Return what the snapshot lacks and what follows from that, one sentence each."""
    found = []
    kinds = set(snapshot.kinds)
    if "PodDisruptionBudget" not in kinds:
        found.append(
            "the snapshot has no PodDisruptionBudgets: no more than one replica of a workload is moved at a time"
        )
    if kinds.isdisjoint(OWNER_KINDS):
        found.append(
            "the snapshot has no owners (Deployment, ReplicaSet, StatefulSet, ...): replicas are told by their pods"
        )
    if not kinds >= NEEDED_KINDS and any(pod.spec.claims for pod in gpu_pods if pod.node):
        found.append(
            "the snapshot has no persistentvolumeclaims or persistentvolumes: pods that use claims are not moved"
        )
    lost = sorted(pod.key for pod in gpu_pods if pod.holds_devices and pod.node not in nodes)
    if lost:
        found.append(f"{_some(lost)}: the pod's node is not in the snapshot; it is left out of the plan")
    unseen = sorted(
        node.name
        for node in snapshot.nodes
        for name in settings.gpu_resources
        if not node.capacity.count(name) and snapshot.has_devices(node.name, name)
    )
    if unseen:
        found.append(f"{_some(unseen)}: dynamic resource allocation hands out the GPUs; nothing is planned there")
    return found


def _some(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
    return ", ".join(keys[:_MOST_NAMED]) + more
