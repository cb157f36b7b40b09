"""The characters of a drawing, for terminals that know Unicode and for those that do not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters for a free GPU, one withdrawn from use, one whose workload has no letter left, and a cut text."""

    free: str
    withdrawn: str
    other: str
    ellipsis: str


UNICODE = Glyphs(free="·", withdrawn="x", other="#", ellipsis="…")
ASCII = Glyphs(free=".", withdrawn="x", other="#", ellipsis="..")


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return the richest characters that the encoding can carry."""
    try:
        "·…".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
