"""A plan of moves for people: what it achieves, the nodes before and after, the steps, and what stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from planner.pictures import Cell, Fate, NodePicture, held_by_workload
from planner.plan import MovePlan, Outlook, Step
from planner.plan_words import amount, by_code, cost, headline, proof, reason
from planner.render.glyphs import Glyphs
from planner.render.strip import letters_by_gpus
from planner.render.table import Column, Table

_MOST_IDS = 6
_STYLES = {
    Fate.FREE: "green",
    Fate.WITHDRAWN: "red",
    Fate.LEAVES: "bold yellow",
    Fate.ARRIVES: "bold cyan",
    Fate.ADMITTED: "bold green",
}


def title_lines(plan: MovePlan) -> Iterator[Text | str]:
    """Yield the headline, how sure it is, and what it costs."""
    yield Text(headline(plan), style="bold")
    if sure := proof(plan):
        yield sure
    if plan.steps:
        yield f"Cost: {cost(plan)}."


def identity_line(plan: MovePlan) -> str:
    """Return which plan this is; nothing in it depends on the time, so that equal plans look equal."""
    return f"plan {plan.id}  goal: {plan.goal}"


def letters_for(drawn: Sequence[NodePicture]) -> dict[str, str]:
    """Give each workload of the drawings a letter."""
    return letters_by_gpus(held_by_workload(drawn))


def node_table(
    drawn: Sequence[NodePicture], letters: Mapping[str, str], glyphs: Glyphs, *, code: bool = False
) -> Table:
    """Return the nodes that the plan touches, before and after, one cell per GPU; `code` marks strips for Markdown."""

    def strip(cells: Sequence[Cell]) -> Text:
        drawing = _strip(cells, letters, glyphs)
        return Text(f"`{drawing.plain}`") if code else drawing

    return Table(
        (Column("NODE", shrinks=True), Column("BEFORE"), Column("AFTER"), Column("CHANGE", shrinks=True)),
        tuple(
            (
                picture.name,
                strip(picture.before),
                strip(picture.after),
                ", ".join(_changes(picture, letters, glyphs)) or "passed through",
            )
            for picture in drawn
        ),
    )


def legend(drawn: Sequence[NodePicture], letters: Mapping[str, str]) -> str:
    """Return which letter stands for which workload of the drawings, in one line."""
    shown = held_by_workload(drawn)
    return "  ".join(f"{letter} {short_workload(name)}" for name, letter in letters.items() if name in shown)


def short_workload(workload: str) -> str:
    """Return `namespace/name` of `namespace/Kind/name`."""
    namespace, _, rest = workload.partition("/")
    return f"{namespace}/{rest.rpartition('/')[2]}" if rest else namespace


def step_table(plan: MovePlan, *, wide: bool = False, risks: bool = True) -> Table:
    """Return one row per step, in the order in which they are carried out; without `risks` they stand elsewhere."""
    columns = (
        Column("WAVE", right=True),
        Column("STEP"),
        Column("POD", shrinks=True),
        Column("GPUS", right=True),
        Column("FROM"),
        Column("TO"),
        Column("METHOD"),
        Column("BUDGET", shrinks=True),
        Column("DRAIN", right=True),
        Column("RELOAD", right=True),
        *((Column("RISKS", shrinks=True),) if risks else ()),
        *((Column("AFTER STEPS"), Column("WORKLOAD"), Column("UID")) if wide else ()),
    )
    return Table(columns, tuple(_step_row(step, wide=wide, risks=risks) for step in plan.steps))


def risk_lines(plan: MovePlan) -> Iterator[Text]:
    """Yield each risk once, with the steps that run it."""
    steps: dict[str, list[str]] = {}
    for step in plan.steps:
        for risk in step.risks:
            steps.setdefault(risk, []).append(step.id)
    for risk, ids in sorted(steps.items(), key=lambda item: (-len(item[1]), item[0])):
        more = f" and {len(ids) - _MOST_IDS} more" if len(ids) > _MOST_IDS else ""
        yield Text("risk: ", style="yellow").append(f"{risk} ({', '.join(ids[:_MOST_IDS])}{more})", style="default")


def admission_table(plan: MovePlan) -> Table:
    """Return where the pending replicas start, and when."""
    return Table(
        (Column("ADMITTED", shrinks=True), Column("GPUS", right=True), Column("NODE"), Column("WHEN")),
        tuple(
            (a.pod, str(a.gpus), a.node, f"after wave {a.after_wave}" if a.after_wave else "now") for a in plan.admits
        ),
    )


def refusal_table(plan: MovePlan) -> Table:
    """Return which replicas find no room, why, and what would help."""
    return Table(
        (Column("NOT ADMITTED", shrinks=True), Column("CODE"), Column("WHY, AND WHAT WOULD HELP", shrinks=True)),
        tuple((pod.pod, pod.code, pod.message or reason(pod.code).sentence) for pod in plan.unadmitted),
    )


def immovable_line(plan: MovePlan) -> str:
    """Return how many pods hold still, by code; empty when there are none."""
    if not plan.immovable:
        return ""
    counts = ", ".join(f"{code} {count}" for code, count in by_code(plan.immovable))
    verb = "is" if len(plan.immovable) == 1 else "are"
    return f"{amount(len(plan.immovable), 'pod')} with GPUs {verb} not to be moved: {counts}"


def immovable_table(plan: MovePlan) -> Table:
    """Return every pod that holds still, and why."""
    return Table(
        (Column("NOT MOVED", shrinks=True), Column("CODE"), Column("WHY", shrinks=True)),
        tuple((pod.pod, pod.code, reason(pod.code).sentence) for pod in plan.immovable),
    )


def outlook_table(plan: MovePlan) -> Table:
    """Return the cluster's room before and after."""
    return Table(
        (Column("ROOM"), Column("BEFORE", right=True), Column("AFTER", right=True)),
        tuple(row for row in outlook_rows(plan) if row[1:] != ("0", "0")),
    )


def outlook_rows(plan: MovePlan) -> list[tuple[str, str, str]]:
    """Return each figure of the outlook by its name, before and after."""
    shapes = sorted({*plan.before.placeable, *plan.after.placeable}, key=lambda shape: (len(shape), shape))

    def figures(outlook: Outlook) -> list[str]:
        return [
            *(str(outlook.placeable.get(shape, 0)) for shape in shapes),
            str(outlook.largest_free_island),
            str(outlook.empty_nodes),
            f"{outlook.fragmentation:.2f}",
        ]

    names = [
        *(f"replicas of {shape} that fit" for shape in shapes),
        "largest free island",
        "empty GPU nodes",
        "fragmentation",
    ]
    return list(zip(names, figures(plan.before), figures(plan.after), strict=True))


def phase_table(plan: MovePlan) -> Table:
    """Return the objectives in their order, with what was reached and what was proved."""
    return Table(
        (Column("OBJECTIVE"), Column("REACHED", right=True), Column("BOUND", right=True), Column("STATUS")),
        tuple((p.name, f"{p.value:g}", f"{p.bound:g}", p.status) for p in plan.solver.phases),
    )


def _strip(cells: Sequence[Cell], letters: Mapping[str, str], glyphs: Glyphs) -> Text:
    plain = {Fate.FREE: glyphs.free, Fate.WITHDRAWN: glyphs.withdrawn}
    drawing = Text("[")
    for cell in cells:
        drawing.append(plain.get(cell.fate) or letters.get(cell.workload, glyphs.other), style=_STYLES.get(cell.fate))
    return drawing.append("]")


def _changes(picture: NodePicture, letters: Mapping[str, str], glyphs: Glyphs) -> Iterator[str]:
    words = {Fate.LEAVES: "leaves", Fate.ARRIVES: "arrives", Fate.ADMITTED: "starts"}
    workloads = {cell.pod: cell.workload for cell in (*picture.before, *picture.after)}
    for fate, word in words.items():
        for pod, gpus in picture.gpus(fate).items():
            yield f"{letters.get(workloads[pod], glyphs.other)} {word} ({gpus})"


def _step_row(step: Step, *, wide: bool, risks: bool) -> tuple[str | Text, ...]:
    row: tuple[str | Text, ...] = (
        str(step.wave),
        step.id,
        step.pod,
        str(step.gpus),
        step.from_node,
        step.to_node,
        step.method,
        step.pdb or "none",
        f"{step.drain_seconds} s",
        f"{step.reload_seconds} s",
    )
    if risks:
        row += (Text("; ".join(step.risks) or "-", style="yellow" if step.risks else ""),)
    if wide:
        row += (",".join(step.depends_on) or "-", step.workload, step.uid or "-")
    return row
