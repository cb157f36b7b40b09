"""A plan in sentences: what it achieves, how sure that is, what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from islander.policy.reasons import MOVE_REASONS, REASONS, Code, MoveCode, ReasonText
from planner.plan import Immovable, MovePlan

_CLOSE = 1e-6


def headline(plan: MovePlan) -> str:
    """Return in one sentence what comes of the plan."""
    asked, moves = len(plan.admits) + len(plan.unadmitted), amount(plan.cost.steps, "move")
    noun = "wanted replica" if _asks(plan, "--goal") else "pending replica"
    emptied = plan.after.empty_nodes - plan.before.empty_nodes
    match plan.outcome:
        case "nothing-to-do" if _asks(plan, "--empty-nodes"):
            return "Nothing to do: no move would empty another node."
        case "nothing-to-do":
            return "Nothing to do: no replica waits for GPUs."
        case "no-answer-in-time":
            return f"No answer within {plan.solver.time_limit_seconds:g} s: no plan was found, and none was ruled out."
        case "infeasible":
            some = f"the {noun}" if asked == 1 else f"any of {amount(asked, noun)}"
            return f"No legal sequence of moves makes room for {some}."
    if not plan.admits:
        return f"{moves} {_verb(plan.cost.steps, 'empty', 'empties')} {amount(emptied, 'node')}."
    share = f"{len(plan.admits)} of {amount(asked, noun)}"
    if not plan.steps:
        return f"No move is needed: {share} {_verb(len(plan.admits), 'fit', 'fits')} as things are."
    return f"{moves} {_verb(plan.cost.steps, 'make', 'makes')} room for {share}."


def proof(plan: MovePlan) -> str:
    """Return in one sentence how sure it is that nothing better exists; empty when there was nothing to solve."""
    if plan.outcome == "nothing-to-do":
        return ""
    if plan.solver.status == "optimal":
        if plan.outcome == "infeasible":
            return "Proved: no legal plan admits any of them."
        return "Proved: no legal plan admits more, and none that admits as much disturbs fewer replicas."
    open_phases = [phase for phase in plan.solver.phases if abs(phase.value - phase.bound) > _CLOSE]
    if not open_phases:
        return "Not proved: a better plan may exist."
    first = open_phases[0]
    return f"Not proved: {first.name} is {first.value:g}, and {first.bound:g} is not ruled out."


def cost(plan: MovePlan) -> str:
    """Return what the plan costs, in one line."""
    interrupted = amount(plan.cost.replicas_interrupted, "replica")
    minutes = f"{plan.cost.gpu_minutes:g} GPU-minutes of reload"
    return f"{amount(plan.cost.steps, 'move')}, {interrupted} interrupted, {minutes}"


def reason(code: str) -> ReasonText:
    """Return what the docs say of a code; of one that this release does not know, that it is unknown."""
    if code in set(Code):
        return REASONS[Code(code)]
    if code in set(MoveCode):
        return MOVE_REASONS[MoveCode(code)]
    return ReasonText("code is not known to this release", "Another release made the plan.", "Plan again.")


def by_code(immovable: Sequence[Immovable]) -> list[tuple[str, int]]:
    """Return how many pods each code holds, most first."""
    counts = Counter(pod.code for pod in immovable)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def amount(number: int, noun: str) -> str:
    """Return a number and its noun: `1 move`, `2 moves`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _asks(plan: MovePlan, flag: str) -> bool:
    return any(option.partition("=")[0] == flag for option in plan.options)


def _verb(number: int, many: str, one: str) -> str:
    return one if number == 1 else many
