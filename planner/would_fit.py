"""What would make a pod fit that fits nowhere: the plan for it alone, in one line."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import structs

from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.interruption import Interruption
from planner.moves import plan_moves
from planner.options import PlanOptions, SolveLimits
from planner.plan import MovePlan, Step
from planner.plan_words import amount
from planner.problem import is_waiting
from planner.refusals import HELPS

# An explanation does not wait longer than this for its plan.
SECONDS = 2.0
# Moves are named up to so many, of more only the first.
MOST_NAMED = 3


def would_fit(snapshot: ClusterSnapshot, pod: Pod, settings: PolicySettings, stop: Interruption) -> str | None:
    """Return which moves make room for a pod, or the smallest change that would; None when neither is found.

    The other pods that wait are left out of account, as `plan moves --pod` does.
    """
    if not is_waiting(pod):
        return None
    others = tuple(other for other in snapshot.pods if other.key != pod.key)
    options = PlanOptions(pods=(pod.key,), limits=SolveLimits(SECONDS))
    plan = plan_moves(structs.replace(snapshot, pods=(*others, pod)), settings, options, datetime.now(UTC), stop=stop)
    return _headline(plan)


def _headline(plan: MovePlan) -> str | None:
    if plan.admits and plan.steps:
        moves = amount(len(plan.steps), "move")
        named = ", ".join(_named(step) for step in plan.steps[:MOST_NAMED])
        more = f" and {len(plan.steps) - MOST_NAMED} more" if len(plan.steps) > MOST_NAMED else ""
        verb = "makes" if len(plan.steps) == 1 else "make"
        return f"{moves} ({named}{more}) {verb} room on {plan.admits[0].node}"
    for refused in plan.unadmitted:
        _, found, what = refused.message.partition(HELPS)
        if found:
            return f"{HELPS}{what}"
    return None


def _named(step: Step) -> str:
    return f"{step.pod} from {step.from_node} to {step.to_node}"
