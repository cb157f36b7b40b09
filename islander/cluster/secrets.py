"""Secrets that people write into commands; they must not get into snapshots, which travel in bug reports."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"

_SECRET_NAME = re.compile(r"(?:api[-_]?key|access[-_]?key|token|password|passwd|secret|credentials?)\Z", re.IGNORECASE)
# In the text of a script: a flag or an assignment with its value, quoted or not.
_IN_SCRIPT = re.compile(
    r"((?:--?[\w-]*|\b\w*)(?:api[-_]?key|access[-_]?key|token|password|passwd|secret|credentials?)(?:=|\s+(?=[^\s-])))"
    r"(\"[^\"]*\"|'[^']*'|[^\s;&|]+)",
    re.IGNORECASE | re.ASCII,
)


def is_secret_name(name: str) -> bool:
    """Return whether a flag or a variable of that name usually carries a secret."""
    return _SECRET_NAME.search(name) is not None


def without_secrets(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a command with the values of secret flags and assignments masked.

    References to variables (`$(NAME)`, `$NAME`) are no secrets and stay.
    """
    kept: list[str] = []
    masking = False
    for word in words:
        if word.startswith("-"):
            masking = "=" not in word and not any(map(str.isspace, word)) and is_secret_name(word)
        elif masking:
            kept.append(word if word.startswith("$") else MASK)
            continue
        kept.append(_IN_SCRIPT.sub(_masked, word))
    return tuple(kept)


def _masked(match: re.Match[str]) -> str:
    value = match[2]
    if match[1][-1] != "=" and not match[1].startswith("-"):
        # Prose, such as "the token is": only flags take a value that stands apart.
        return match[0]
    return match[0] if value.strip("\"'").startswith("$") else f"{match[1]}{MASK}"
