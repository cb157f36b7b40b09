"""The one kind of failure that a person at the terminal is told about in one line."""

from __future__ import annotations


class PlannerError(Exception):
    """Something the user can put right; the message names the file, object or field and says what to do."""
