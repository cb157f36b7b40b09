"""A row of boxes as SVG: what all drawings of nodes and GPUs are made of."""

from __future__ import annotations

from dataclasses import dataclass

from planner.render.report.palette import Colour

CELL, GAP, PAD = 26, 3, 2


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: where it is, what is written in it, its colour (None for its fate's own), what hovering shows."""

    x: int
    letter: str
    colour: Colour | None
    fate: str
    title: str
    width: int = CELL
    y: int = PAD


@dataclass(frozen=True, slots=True)
class Label:
    """A text beside the boxes; it begins at `x`, and `y` is its middle."""

    x: int
    y: int
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes of one height, with the words that stand for them where they cannot be seen.

    Attributes
    ----------
    sentence
        Title of the drawing.
    description
        All of it in words; empty when the title says it.
    """

    width: int
    height: int
    boxes: tuple[Box, ...]
    sentence: str
    description: str = ""
    labels: tuple[Label, ...] = ()
