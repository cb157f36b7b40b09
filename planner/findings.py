"""What is wrong with a plan, each thing once."""

from __future__ import annotations

from dataclasses import dataclass, field

from islander.policy.reasons import MOVE_REASONS, REASONS, Code, MoveCode
from planner.plan import Violation


@dataclass(slots=True)
class Findings:
    """The violations found so far; `where` of one is a step, `node/index` of a GPU, or empty for all of it."""

    found: list[Violation] = field(default_factory=list)
    _seen: set[Violation] = field(default_factory=set)

    def add(self, where: str, code: Code | MoveCode, message: str) -> None:
        """Note one, in words that end with the code's sentence."""
        sentence = REASONS[code].sentence if isinstance(code, Code) else MOVE_REASONS[code].sentence
        violation = Violation(where, code.value, f"{message}: {sentence}")
        if violation not in self._seen:
            self._seen.add(violation)
            self.found.append(violation)
