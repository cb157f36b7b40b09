"""What all who make plans do alike: times, the facts of the solver, and the last look before anyone sees a plan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from planner.options import SolveLimits
from planner.plan import Phase, PlanVerdict, SolverFacts

# A plan that moves or drains pods is good for a review, not for ever: the cluster moves on.
VALID_MINUTES = 15
_SOLVER_NAME = "OR-Tools CP-SAT"
_SOLVER_VERSION = version("ortools")


class InvariantError(RuntimeError):
    """A plan that we made does not pass our own check."""


def must_hold(verdict: PlanVerdict) -> None:
    """Let no plan out that its own judge refuses.

    Raises
    ------
    InvariantError
        The verdict is not that the plan holds.
    """
    if not verdict.valid:
        first = verdict.violations[0]
        raise InvariantError(f"the plan does not pass its own check: {first.code} {first.step} {first.message}")


def solver_facts(status: str, phases: Sequence[Phase], seconds: float, limits: SolveLimits) -> SolverFacts:
    """Return how a plan was found."""
    return SolverFacts(
        name=_SOLVER_NAME,
        version=_SOLVER_VERSION,
        status=status,
        phases=list(phases),
        seconds=round(seconds, 3),
        seed=limits.seed,
        workers=limits.workers,
        time_limit_seconds=limits.time_limit_seconds,
    )


def rfc3339(moment: datetime) -> str:
    """Return a moment as plans and the Kubernetes API write it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
