"""What an operator asks of a move plan, as one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """Room that is wanted for replicas that do not exist yet: `tp=8,count=2,product=NVIDIA-H100-80GB-HBM3`."""

    tensor_parallel: int
    count: int = 1
    product: str = ""

    def __str__(self) -> str:
        """Return the goal in the words of `--goal`."""
        product = f",product={self.product}" if self.product else ""
        return f"tp={self.tensor_parallel},count={self.count}{product}"


@dataclass(frozen=True, slots=True)
class SolveLimits:
    """How long and how the solver may search; one worker and a seed give the same plan on every run."""

    time_limit_seconds: float = 10.0
    workers: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of `plan moves`.

    Attributes
    ----------
    pods
        Pending pods to admit, as `namespace/name`; empty for all pending GPU pods.
    goal
        Replicas to make room for instead.
    max_moves, max_moves_per_workload
        None for no limit.
    protect
        Label selector of pods that must not move, as kubectl writes it; empty for none.
    empty_nodes
        How many GPU nodes to free wholly; 0 for none.
    spare_nodes
        Leave nodes without any GPU pod empty where the plan can do without them.
    """

    pods: tuple[str, ...] = ()
    goal: Goal | None = None
    max_moves: int | None = None
    max_moves_per_workload: int | None = None
    allow_single_replica: bool = False
    allow_unknown_owners: bool = False
    protect: str = ""
    empty_nodes: int = 0
    spare_nodes: bool = False
    limits: SolveLimits = SolveLimits()
