"""A quota plan for people: what changes and why, what the flavors hold, whose baseline has no place, what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from planner.plan_words import amount
from planner.quota.plan import Amount, Change, QueueRow, QuotaPlan
from planner.render.table import Column, Table

_NO_LIMIT = "inf"
_MOST_NODES = 6
_MOST_OBJECTS = 12
_SEVERITY_STYLES = {"error": "red", "warning": "yellow"}
_CLOSE = 1e-6


def headline(plan: QuotaPlan) -> str:
    """Return in one sentence what comes of the plan."""
    gpu_rows = [row for row in plan.queues if row.island or row.nominal.new is None]
    changed = sum(row.changes for row in plan.queues)
    if plan.outcome == "no-answer-in-time":
        return f"No answer within {plan.solver.time_limit_seconds:g} s: do not apply these quotas."
    if plan.unmet:
        missing = sum(unmet.missing for unmet in plan.unmet)
        return f"{amount(missing, 'replica')} of the baselines {'has' if missing == 1 else 'have'} no place."
    if not plan.queues:
        asked = "in a flavor that has nodes" if plan.teams else ""
        told = " ".join(["no queue and no team asks for GPUs", asked]).strip()
        return (
            f"No quotas to plan, {told}; the objects change otherwise." if plan.proposes else f"Nothing to do: {told}."
        )
    if not plan.proposes:
        return f"Nothing to do: {amount(len(gpu_rows), 'quota')} of GPUs can all be placed at the same time."
    return f"{amount(changed, 'quota')} of {len(plan.queues)} change; then all of them can be placed at the same time."


def title_lines(plan: QuotaPlan) -> Iterator[Text | str]:
    """Yield the headline, the sums, and how sure the plan is."""
    yield Text(headline(plan), style="bold")
    nominal = [sum(row.nominal.new for row in plan.queues if row.island and isinstance(row.nominal.new, int))]
    totals = plan.totals
    yield (
        f"GPUs: {totals.arithmetic} in the flavors, {totals.placeable} placeable in whole replicas, "
        f"{totals.placeable_without_biggest_node} without the biggest node; {nominal[0]} in quotas."
    )
    if sure := proof(plan):
        yield sure


def proof(plan: QuotaPlan) -> str:
    """Return in one sentence how sure it is that nothing better exists; empty when there was nothing to solve."""
    if not plan.queues:
        return ""
    if plan.solver.status == "optimal":
        if plan.unmet:
            return "Proved: no quotas place more of the baselines."
        return "Proved: no quotas share the rest better by the weights, and none that do change less."
    open_phases = [phase for phase in plan.solver.phases if abs(phase.value - phase.bound) > _CLOSE]
    if not open_phases:
        return "Not proved: better quotas may exist."
    first = open_phases[0]
    return f"Not proved: {first.name} is {first.value:g}, {first.bound:g} is not ruled out."


def identity_line(plan: QuotaPlan) -> str:
    """Return which plan this is; nothing in it depends on the time, so that equal plans look equal."""
    spare = f"  survives {amount(plan.survive_nodes, 'lost node')} per flavor" if plan.survive_nodes else ""
    return f"plan {plan.id}  {plan.policy}{spare}"


def quota_table(plan: QuotaPlan, *, wide: bool = False) -> Table:
    """Return the rows of GPUs old -> new with the reason; `wide` has CPU, memory and the rest too."""
    rows = [row for row in plan.queues if wide or row.island or (row.nominal.new is None and _is_gpu(row, plan))]
    return Table(
        (
            Column("QUEUE", shrinks=True),
            Column("COHORT", shrinks=True),
            Column("FLAVOR", shrinks=True),
            *((Column("RESOURCE"),) if wide else ()),
            Column("NOMINAL"),
            Column("BORROW"),
            Column("LEND"),
            Column("BASELINE", right=True),
            Column("ISLAND", right=True),
            Column("WHY", shrinks=True),
        ),
        tuple(
            (
                row.name if row.kind == "ClusterQueue" else f"{row.name} (cohort)",
                row.cohort or "-",
                row.flavor,
                *((row.resource,) if wide else ()),
                nominal_cell(row.nominal),
                limit_cell(row.borrowing),
                limit_cell(row.lending),
                str(row.baseline) if row.island else "-",
                str(row.island) if row.island else "-",
                row.why,
            )
            for row in rows
        ),
    )


def _is_gpu(row: QueueRow, plan: QuotaPlan) -> bool:
    return row.resource in {flavor.resource for flavor in plan.flavors}


def nominal_cell(change: Change) -> Text:
    """Return `10 -> 12 +2`, or the one number that stays."""
    if change.same:
        return Text(_number(change.new))
    text = f"{_number(change.old)} -> {_number(change.new)}"
    if isinstance(change.old, int) and isinstance(change.new, int):
        text += f" {change.new - change.old:+d}"
        return Text(text, style="green" if change.new > change.old else "yellow")
    return Text(text, style="cyan" if change.old is None else "yellow")


def limit_cell(change: Change) -> Text:
    """Return `inf -> 4`, or the one limit that stays; a limit that is not there is none."""
    old, new = (_NO_LIMIT if value is None else str(value) for value in (change.old, change.new))
    return Text(new) if change.same else Text(f"{old} -> {new}", style="cyan")


def _number(value: Amount) -> str:
    return "-" if value is None else str(value)


def flavor_table(plan: QuotaPlan) -> Table:
    """Return what each flavor holds, and what quotas make of it."""
    return Table(
        (
            Column("FLAVOR", shrinks=True),
            Column("PRODUCT", shrinks=True),
            Column("GPUS", right=True),
            Column("USABLE", right=True),
            Column("PLACEABLE", right=True),
            Column("NODE LOST", right=True),
            Column("OUTSIDE", right=True),
            Column("QUOTAS"),
        ),
        tuple(
            (
                f"{flavor.name} (new)" if flavor.new else flavor.name,
                ", ".join(product or "?" for product in flavor.products) or "-",
                str(flavor.arithmetic),
                str(flavor.usable),
                str(flavor.placeable),
                str(flavor.placeable_without_biggest),
                str(sum(flavor.held_outside.values())),
                nominal_cell(flavor.nominal),
            )
            for flavor in plan.flavors
        ),
    )


def object_lines(plan: QuotaPlan) -> list[str]:
    """Return which objects are new, and what else changes in those of today."""
    new = ", ".join(plan.created[:_MOST_OBJECTS])
    more = f" and {len(plan.created) - _MOST_OBJECTS} more" if len(plan.created) > _MOST_OBJECTS else ""
    return [*([f"new: {new}{more}"] if plan.created else []), *(f"also: {change}" for change in plan.edited)]


def unmet_table(plan: QuotaPlan) -> Table:
    """Return the baselines without a place."""
    return Table(
        (Column("NO PLACE FOR"), Column("QUEUE"), Column("CODE"), Column("WHY", shrinks=True)),
        tuple((f"{u.team}: {u.missing} x {u.gpus}", u.queue, u.code, u.message) for u in plan.unmet),
    )


def finding_table(plan: QuotaPlan) -> Table:
    """Return what is wrong with the objects as they are."""
    return Table(
        (Column("FOUND"), Column("CODE"), Column("OBJECT", shrinks=True), Column("WHAT", shrinks=True)),
        tuple(
            (
                Text(finding.severity, style=_SEVERITY_STYLES.get(finding.severity, "")),
                finding.code,
                f"{finding.object} {finding.field}".strip(),
                finding.message,
            )
            for finding in plan.findings
        ),
    )


def witness_table(plan: QuotaPlan) -> Table:
    """Return where the guaranteed replicas of each row are at the same time."""
    entries = [(row.name, row.flavor, row.witness) for row in plan.queues if row.witness]
    entries += [(f"reserve of {r.gpus}", "-", r.witness) for r in plan.reserve if r.witness]
    return Table(
        (Column("WITNESS", shrinks=True), Column("FLAVOR", shrinks=True), Column("REPLICAS"), Column("NODES")),
        tuple(
            (
                name,
                flavor,
                ", ".join(f"{pods} x {gpus}" for gpus, pods in sorted(_by_size(witness).items(), reverse=True)),
                _nodes([entry.node for entry in witness]),
            )
            for name, flavor, witness in entries
        ),
    )


def _by_size(witness: Sequence[object]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for entry in witness:
        counts[getattr(entry, "gpus", 0)] += getattr(entry, "pods", 0)
    return counts


def _nodes(names: Sequence[str]) -> str:
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - _MOST_NODES} more" if len(different) > _MOST_NODES else ""
    return ", ".join(different[:_MOST_NODES]) + more


def phase_table(plan: QuotaPlan) -> Table:
    """Return what the solver reached in each of its objectives."""
    return Table(
        (Column("OBJECTIVE"), Column("REACHED", right=True), Column("BOUND", right=True), Column("STATUS")),
        tuple((p.name, f"{p.value:g}", f"{p.bound:g}", p.status) for p in plan.solver.phases),
    )
