"""Durations as people write them on a command line: `10s`, `1m30s`, `500ms`, or plain seconds."""

from __future__ import annotations

import re

from planner.errors import PlannerError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_LONGEST_SECONDS = 24 * 3600.0


def seconds_of(text: str, flag: str) -> float:
    """Return the seconds of a duration; a number alone is seconds.

    Raises
    ------
    PlannerError
        It is none, is zero, or longer than a day.
    """
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        seconds = float(text)
    elif re.fullmatch(f"({_PART.pattern})+", text, re.ASCII):
        seconds = sum(float(part[1]) * _UNITS[part[2]] for part in _PART.finditer(text))
    else:
        raise PlannerError(f"{flag} {text!r}: not a duration such as 10s, 1m30s or 500ms")
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise PlannerError(f"{flag} {text}: must be more than zero and at most 24h")
    return seconds
