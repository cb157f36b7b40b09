"""The order of the steps as a graph: one column per wave, an arrow where a step needs the room of another."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from planner.plan import MovePlan
from planner.plan_words import amount

WIDTH, HEIGHT, COLUMN_GAP, ROW_GAP, PAD, HEAD = 220, 58, 56, 14, 8, 26
# Larger plans are drawn as one box per wave.
MOST_BOXES = 40
_NAME_LENGTH = 27


@dataclass(frozen=True, slots=True)
class GraphBox:
    """A step or an admission: its corner, up to three lines of text, what hovering shows."""

    x: int
    y: int
    lines: tuple[str, ...]
    title: str
    admission: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """From the right edge of a box to the left edge of another."""

    path: str


@dataclass(frozen=True, slots=True)
class WaveGraph:
    """The graph, with the sentence that stands for it where it cannot be seen."""

    width: int
    height: int
    heads: tuple[tuple[int, str], ...]
    boxes: tuple[GraphBox, ...]
    arrows: tuple[Arrow, ...]
    sentence: str
    whole: bool


def wave_graph(plan: MovePlan) -> WaveGraph | None:
    """Return the graph of a plan; None when nothing moves and nobody is admitted."""
    if not plan.steps and not plan.admits:
        return None
    whole = len(plan.steps) + len(plan.admits) <= MOST_BOXES
    return _whole(plan) if whole else _by_wave(plan)


def _whole(plan: MovePlan) -> WaveGraph:
    waves = sorted({step.wave for step in plan.steps})
    columns = {wave: column for column, wave in enumerate(waves)}
    rows: defaultdict[int, int] = defaultdict(int)
    boxes: list[GraphBox] = []
    by_id: dict[str, GraphBox] = {}
    for step in sorted(plan.steps, key=lambda step: step.wave):
        lines = (
            f"{step.id}  {amount(step.gpus, 'GPU')}",
            _short(step.pod),
            _short(f"{step.from_node} → {step.to_node}"),
        )
        column = columns[step.wave]
        box = GraphBox(_x(column), _y(rows[column]), lines, f"{step.pod}: {step.from_node} to {step.to_node}")
        rows[column] += 1
        boxes.append(box)
        by_id[step.id] = box
    arrows = [
        _arrow(by_id[needed], by_id[step.id]) for step in plan.steps for needed in step.depends_on if needed in by_id
    ]
    for admission in plan.admits:
        lines = (f"starts  {amount(admission.gpus, 'GPU')}", _short(admission.pod), _short(f"on {admission.node}"))
        title = f"{admission.pod} starts on {admission.node}"
        box = GraphBox(_x(len(waves)), _y(rows[len(waves)]), lines, title, admission=True)
        rows[len(waves)] += 1
        boxes.append(box)
        makers = [s for s in plan.steps if s.from_node == admission.node and s.wave <= admission.after_wave]
        arrows += [_arrow(by_id[step.id], box) for step in makers]
    heads = [(_x(column), f"Wave {wave}") for wave, column in columns.items()]
    if plan.admits:
        heads.append((_x(len(waves)), "Then"))
    return _graph(plan, heads, boxes, arrows, whole=True)


def _by_wave(plan: MovePlan) -> WaveGraph:
    waves = sorted({step.wave for step in plan.steps})
    boxes = []
    for column, wave in enumerate(waves):
        steps = [step for step in plan.steps if step.wave == wave]
        gpus = sum(step.gpus for step in steps)
        lines = (amount(len(steps), "move"), amount(gpus, "GPU"), f"{steps[0].id} to {steps[-1].id}")
        boxes.append(GraphBox(_x(column), _y(0), lines, f"wave {wave}: {amount(len(steps), 'move')}"))
    if plan.admits:
        gpus = sum(admission.gpus for admission in plan.admits)
        lines = (f"{amount(len(plan.admits), 'replica')}", amount(gpus, "GPU"), "")
        title = f"{amount(len(plan.admits), 'replica')} admitted"
        boxes.append(GraphBox(_x(len(waves)), _y(0), lines, title, admission=True))
    heads = [(_x(column), f"Wave {wave}") for column, wave in enumerate(waves)]
    if plan.admits:
        heads.append((_x(len(waves)), "Starts"))
    arrows = [_arrow(left, right) for left, right in pairwise(boxes)]
    return _graph(plan, heads, boxes, arrows, whole=False)


def _graph(
    plan: MovePlan, heads: list[tuple[int, str]], boxes: list[GraphBox], arrows: list[Arrow], *, whole: bool
) -> WaveGraph:
    waves = len({step.wave for step in plan.steps})
    sentence = (
        f"{amount(len(plan.steps), 'step')} in {amount(waves, 'wave')}, then "
        f"{amount(len(plan.admits), 'admission')}; the table of steps says the same in words"
    )
    width = max(box.x for box in boxes) + WIDTH + PAD
    height = max(box.y for box in boxes) + HEIGHT + PAD
    return WaveGraph(width, height, tuple(heads), tuple(boxes), tuple(arrows), sentence, whole)


def _arrow(start: GraphBox, end: GraphBox) -> Arrow:
    x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT // 2, end.x - 6, end.y + HEIGHT // 2
    middle = (x1 + x2) // 2
    return Arrow(f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}")


def _x(column: int) -> int:
    return PAD + column * (WIDTH + COLUMN_GAP)


def _y(row: int) -> int:
    return HEAD + row * (HEIGHT + ROW_GAP)


def _short(text: str) -> str:
    """Keep the end of a name: replicas of one workload differ there."""
    return text if len(text) <= _NAME_LENGTH else f"…{text[1 - _NAME_LENGTH :]}"
