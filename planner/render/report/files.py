"""The files of a plan on its page, and the commands that write them out again."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

# What a plan calls its files; other names are shown, and no command is offered that would write to such a path.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a plan."""

    name: str
    text: str
    lines: int


def shown_files(texts: Mapping[str, str]) -> tuple[File, ...]:
    """Return the files in the plan's order."""
    return tuple(File(name, text, len(text.splitlines())) for name, text in texts.items())


def writing(texts: Mapping[str, str], folder: str) -> tuple[str, ...]:
    """Return the commands that take the files out of the plan file, which they call PLAN."""
    plain = [name for name in texts if _PLAIN.fullmatch(name)]
    lines = [f"jq -j {shlex.quote(f'.files[{json.dumps(name)}]')} PLAN > {folder}/{name}" for name in plain]
    return (f"mkdir -p {folder}", *lines) if lines else ()
