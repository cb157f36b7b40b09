"""What an operator asks of a quota plan, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.options import SolveLimits
from planner.quota.policy_file import QuotaPolicy


@dataclass(frozen=True, slots=True)
class QuotaOptions:
    """Options of `plan quota`; `survive_nodes` None leaves it to the policy."""

    policy: QuotaPolicy | None = None
    survive_nodes: int | None = None
    limits: SolveLimits = field(default_factory=SolveLimits)

    @property
    def spare(self) -> int:
        """How many nodes of each flavor may fail."""
        if self.survive_nodes is not None:
            return self.survive_nodes
        return self.policy.survive_nodes if self.policy is not None else 0
