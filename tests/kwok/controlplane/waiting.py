"""Waiting for a condition instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

_POLL_SECONDS = 0.05


def wait_until(
    condition: Callable[[], Value],
    *,
    timeout_seconds: float = 20.0,
    what: str | Callable[[], str] = "the condition",
) -> Value:
    """Call `condition` until its answer is true, and return that answer.

    Parameters
    ----------
    what
        What is waited for, for the message; may be a function that looks at the world once the time is over.

    Raises
    ------
    TimeoutError
        The time is over; the message holds the last answer.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            subject = what if isinstance(what, str) else what()
            raise TimeoutError(f"{subject}: not within {timeout_seconds:g} s, last answer {answer!r}")
        time.sleep(_POLL_SECONDS)
