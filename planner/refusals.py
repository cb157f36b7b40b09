"""Why pending replicas stay pending, and the smallest change that would help."""

from __future__ import annotations

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.reasons import MoveCode
from islander.policy.settings import PolicySettings
from planner.options import PlanOptions
from planner.plan import Unadmitted
from planner.problem import Problem
from planner.solution import Solution
from planner.world import World


def refusals(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: PlanOptions,
    problem: Problem,
    world: World,
    solution: Solution,
) -> list[Unadmitted]:
    """Return why each demand is not admitted."""
    admitted = {key for key, _ in solution.admits}
    return [
        Unadmitted(demand.key, MoveCode.NO_ROOM_EVEN_IF_REPACKED.value, "")
        for demand in problem.demands
        if demand.key not in admitted
    ]
