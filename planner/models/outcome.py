"""What came of a solve, and how far one is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from planner.models.light_ortools import cp_model


class SolveStatus(StrEnum):
    """What came of a solve."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


# A model that is not valid has no place here: it is our mistake.
STATUS: Mapping[object, SolveStatus] = {
    cp_model.OPTIMAL: SolveStatus.OPTIMAL,
    cp_model.FEASIBLE: SolveStatus.FEASIBLE,
    cp_model.INFEASIBLE: SolveStatus.INFEASIBLE,
    cp_model.UNKNOWN: SolveStatus.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a solve is: the objective that is worked on, its best value and proved bound, and the time spent."""

    phase: str
    best: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """Distance from the best value to the bound, as a share of the larger one; 0 when proved."""
        largest = max(abs(self.best), abs(self.bound))
        return abs(self.best - self.bound) / largest if largest else 0.0


OnProgress = Callable[[Progress], None]
