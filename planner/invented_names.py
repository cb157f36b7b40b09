"""Invented words for the words that names are made of, in the same order.

A name is cut at `-`, `.` and `/`, and every word of it is replaced by a letter and a number. The numbers follow the
sorted words, and the three marks sort before all letters and digits: so names, and keys that are joined of names, sort
as they did before, equal ones stay equal, and a name that begins or ends with another one still does. Everything that
only compares names decides as before.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable

Word = Callable[[str], str]

# Words of names that Kubernetes or a scheduler gives, and that decide something: `kube-system`, `system-node-critical`.
KEPT_WORDS = ("default", "kai", "kube", "reservation", "resource", "runai", "system")
# What invented words begin with, so that they sort between the kept ones: before `default`, between it and `kai`, ...
_BEGINNINGS = ("a", "e", "kc", "n", "resf", "rt", "s", "w")
# Tried one by one, until no invented word is one that was there before.
_SECOND_LETTERS = ("", *"bcdfghjklmnpqrtvwx")

_WORD = re.compile(r"[^-./]+")


def invented_words(words: Iterable[str]) -> dict[str, str]:
    """Return an invented word for each word, in the same order; the same words always get the same ones."""
    originals = sorted(set(words))
    given = [word for word in originals if word not in KEPT_WORDS]
    width = len(str(len(given)))
    beginnings = [bisect(KEPT_WORDS, word) for word in given]
    for letter in _SECOND_LETTERS:
        found = [f"{_BEGINNINGS[part]}{letter}{number:0{width}}" for number, part in enumerate(beginnings, start=1)]
        if not _some_is_inside(originals, found):
            break
    return dict(zip(given, found, strict=True)) | {word: word for word in KEPT_WORDS}


def renamed(name: str, word: Word) -> str:
    """Return a name with each of its words replaced."""
    return _WORD.sub(lambda match: word(match[0]), name)


def _some_is_inside(originals: Iterable[str], invented: Iterable[str]) -> bool:
    """Return whether a word of more than one character, and not of digits alone, shows up in an invented one."""
    telling = {word for word in originals if len(word) > 1 and not word.isdigit() and word not in KEPT_WORDS}
    return any(
        word[start:end] in telling
        for word in invented
        for start in range(len(word))
        for end in range(start + 2, len(word) + 1)
    )
