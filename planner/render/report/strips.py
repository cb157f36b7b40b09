"""Where the cells of a node's drawing are, and what each of them says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.pictures import Cell, Fate, NodePicture
from planner.plan_words import amount
from planner.render.report.drawing import CELL, GAP, PAD, Box, Drawing
from planner.render.report.palette import Colour

_WORDS = {
    Fate.STAYS: "stays",
    Fate.LEAVES: "moves away",
    Fate.ARRIVES: "moves in",
    Fate.ADMITTED: "starts here",
    Fate.FREE: "free",
    Fate.WITHDRAWN: "withdrawn from use",
}
_OTHER_LETTER = "#"
_NOBODY = {Fate.FREE: "", Fate.WITHDRAWN: "x"}


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node before and after, and the changes in words."""

    name: str
    product: str
    before: Drawing
    after: Drawing
    changes: tuple[str, ...]


def node_row(picture: NodePicture, letters: Mapping[str, str], colours: Mapping[str, Colour]) -> NodeRow:
    """Return the drawings of a node."""
    return NodeRow(
        name=picture.name,
        product=picture.product,
        before=_strip(f"{picture.name} before", picture.before, letters, colours),
        after=_strip(f"{picture.name} after", picture.after, letters, colours),
        changes=tuple(
            f"{pod} {_WORDS[fate]} ({amount(gpus, 'GPU')})"
            for fate in (Fate.LEAVES, Fate.ARRIVES, Fate.ADMITTED)
            for pod, gpus in picture.gpus(fate).items()
        ),
    )


def _strip(what: str, cells: Sequence[Cell], letters: Mapping[str, str], colours: Mapping[str, Colour]) -> Drawing:
    gpus = Counter(cell.pod for cell in cells)
    boxes = tuple(
        Box(
            x=PAD + position * (CELL + GAP),
            letter=_NOBODY.get(cell.fate, letters.get(cell.workload, _OTHER_LETTER)),
            colour=colours.get(cell.workload),
            fate=cell.fate.value,
            title=f"{cell.pod}, {amount(gpus[cell.pod], 'GPU')}, {_WORDS[cell.fate]}"
            if cell.pod
            else _WORDS[cell.fate],
        )
        for position, cell in enumerate(cells)
    )
    users = dict.fromkeys((cell.pod, cell.fate) for cell in cells if cell.pod)
    parts = [f"{pod} {amount(gpus[pod], 'GPU')} ({_WORDS[fate]})" for pod, fate in users]
    parts += [
        f"{sum(cell.fate is fate for cell in cells)} {_WORDS[fate]}"
        for fate in (Fate.FREE, Fate.WITHDRAWN)
        if any(cell.fate is fate for cell in cells)
    ]
    width = 2 * PAD + max(len(cells) * (CELL + GAP) - GAP, 0)
    return Drawing(width, CELL + 2 * PAD, boxes, f"{what}: {', '.join(parts) or 'no GPU'}")
