"""A value of somebody's file in a few words, for messages."""

from __future__ import annotations

_MOST_SHOWN = 40


def abbreviated(value: object) -> str:
    """Return a value in a few words; what a file nests in itself, or a number of many digits, is not spelled out."""
    match value:
        case dict():
            return "a mapping"
        case list() | tuple() | set():
            return "a list"
        case str() | bytes():
            return repr(value[:_MOST_SHOWN])
        case int() if value.bit_length() > _MOST_SHOWN:
            return "a number of many digits"
    return repr(value)
