"""One object for equal values: a cluster repeats its labels, owners and requests ten thousands of times."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeVar

Value = TypeVar("Value", bound=Hashable)


# Bounded, so that values that are gone from the cluster leave the memory in the end.
@lru_cache(maxsize=16384, typed=True)
def _first_equal(value: Hashable) -> Any:
    return value


def one_object(value: Value) -> Value:
    """Return the first value that was equal to this one, so that equal values share their memory."""
    first: Value = _first_equal(value)
    return first
