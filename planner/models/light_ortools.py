"""OR-Tools' `cp_model` without pandas, which it loads for methods on series alone: a third of a second of every start.

While `cp_model` is imported, a stand-in is known as `pandas`. It has the two classes that annotations of those methods
name. Whoever asks for more of it, then or later, gets it from pandas itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

__all__ = ["cp_model"]

_NAME = "pandas"
_NAMED = ("Index", "Series")


class _PandasLater(ModuleType):
    """Loads pandas when something is asked of it that it does not have."""

    def __getattr__(self, name: str) -> object:
        """Return what pandas calls by the name."""
        if sys.modules.get(_NAME) is self:
            del sys.modules[_NAME]
        return getattr(import_module(_NAME), name)


@contextmanager
def pandas_later() -> Iterator[None]:
    """Let imports in a `with` block that name pandas do without it; nothing changes where it is loaded already."""
    if _NAME in sys.modules:
        yield
        return
    stand_in = _PandasLater(_NAME)
    vars(stand_in).update({name: type(name, (), {}) for name in _NAMED})
    sys.modules[_NAME] = stand_in
    try:
        yield
    finally:
        for name in _NAMED:
            delattr(stand_in, name)
        if sys.modules.get(_NAME) is stand_in:
            del sys.modules[_NAME]


with pandas_later():
    from ortools.sat.python import cp_model
