"""What a plan has to solve: the demand, the pods that may move, and the rules that bind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.need import PodNeed
from islander.policy.reasons import MoveCode
from islander.policy.settings import PolicySettings
from planner.options import PlanOptions


class Method(StrEnum):
    """How a replica moves: evicted and started elsewhere, or a second copy starts before the first one ends."""

    EVICT = "evict"
    SURGE = "surge"


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
        Key that the demands share which are admitted all or none; None for a replica that stands alone.
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
    """Return the problem that a snapshot and the options of a plan pose."""
    raise NotImplementedError
