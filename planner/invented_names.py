"""Invented words for the words that names are made of, in the same order.

A name is cut at `-`, `.` and `/`, and every word of it is replaced by a letter and a number. The numbers follow the
sorted words, and the three marks sort before all letters and digits: so names, and keys that are joined of names, sort
as they did before, equal ones stay equal, and a name that begins or ends with another one still does. Everything that
only compares names decides as before.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import product

Word = Callable[[str], str]

# Words of names that Kubernetes or a scheduler gives, and that decide something: `kube-system`, `system-node-critical`.
KEPT_WORDS = ("default", "kai", "kube", "reservation", "resource", "runai", "system")
# What invented words begin with, so that they sort between the kept ones: before `default`, between it and `kai`, ...
_BEGINNINGS = ("a", "e", "kc", "n", "resf", "rt", "s", "w")
# Tried one by one, until no invented word holds one that was there before.
_SECOND_LETTERS = ("", *"bcdfghjklmnpqrtvwx")
_MORE_DIGITS = 3

_WORD = re.compile(r"[^-./]+")


def invented_words(words: Iterable[str]) -> dict[str, str]:
    """Return an invented word for each word, in the same order; the same words always get the same ones.

    No invented word holds a word that was there before; numbers for which it would are left out. One character, or
    digits alone, tell nothing and may stand in it.
    """
    originals = sorted(set(words))
    given = [word for word in originals if word not in KEPT_WORDS]
    telling = {word for word in given if len(word) > 1 and not word.isdigit()}
    least = len(str(len(given)))
    for letter, width in product(_SECOND_LETTERS, range(least, least + _MORE_DIGITS)):
        found = _numbered(given, telling, letter, width)
        if found is not None:
            break
    else:
        # Every word that could be invented is somebody's name here, so none of them tells anything.
        found = _numbered(given, set(), "", least) or []
    return dict(zip(given, found, strict=True)) | {word: word for word in KEPT_WORDS}


def renamed(name: str, word: Word) -> str:
    """Return a name with each of its words replaced."""
    return _WORD.sub(lambda match: word(match[0]), name)


def _numbered(given: Sequence[str], telling: AbstractSet[str], letter: str, width: int) -> list[str] | None:
    """Return the invented words with numbers of so many digits; None when there are too few such numbers."""
    found: list[str] = []
    # Where most numbers are taken, another letter or one more digit helps better than to go on.
    number, most = 0, min(10**width - 1, 4 * len(given) + 10)
    for word in given:
        beginning = _BEGINNINGS[bisect(KEPT_WORDS, word)] + letter
        number += 1
        while number <= most and _holds_one_of(f"{beginning}{number:0{width}}", telling):
            number += 1
        if number > most:
            return None
        found.append(f"{beginning}{number:0{width}}")
    return found


def _holds_one_of(word: str, telling: AbstractSet[str]) -> bool:
    return any(word[start:end] in telling for start in range(len(word)) for end in range(start + 2, len(word) + 1))
