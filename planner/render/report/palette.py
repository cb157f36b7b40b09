"""Colours that people with any colour vision tell apart, and the ink that is readable on each.

Source: M. Okabe, K. Ito, Color Universal Design, 2008: the eight colours without black, which is the ink here.
"""

from __future__ import annotations

from dataclasses import dataclass

_INK, _PAPER = "#000000", "#ffffff"


@dataclass(frozen=True, slots=True)
class Colour:
    """A fill, and what is written on it."""

    fill: str
    ink: str


@dataclass(frozen=True, slots=True)
class Legend:
    """What a letter and its colour stand for."""

    letter: str
    meaning: str
    colour: Colour


# Ink: the one of black and white with the higher contrast (WCAG 2.1), at least 4.5 to 1 on every fill.
OKABE_ITO = (
    Colour("#e69f00", _INK),
    Colour("#56b4e9", _INK),
    Colour("#009e73", _INK),
    Colour("#f0e442", _INK),
    Colour("#0072b2", _PAPER),
    Colour("#d55e00", _INK),
    Colour("#cc79a7", _INK),
)


def colour_of(position: int) -> Colour:
    """Return the colour of the workload at a position; after the last one they begin anew, letters tell them apart."""
    return OKABE_ITO[position % len(OKABE_ITO)]
