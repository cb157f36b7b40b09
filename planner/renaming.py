"""What of a snapshot names somebody, and what is vocabulary that stays: text by text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import structs

from islander.cluster import names
from islander.cluster.node import Taint
from islander.cluster.pod import Requirement, Toleration
from islander.cluster.resources import Resources
from islander.hardware.presets import preset
from islander.policy.selectors import integer
from planner import vocabulary
from planner.invented_names import Word, renamed

Pairs = tuple[tuple[str, str], ...]

LEFT_OUT = "a text is left out here: it may hold names"


class Renaming:
    """Replaces what names somebody.

    Parameters
    ----------
    word
        Returns the invented word for a word of the original.
    numbers
        Node labels whose values are compared as numbers, and so stay.
    """

    def __init__(self, word: Word, numbers: frozenset[str]) -> None:
        self._word = word
        self._numbers = numbers

    def name(self, text: str) -> str:
        """Return the invented name of a text."""
        return renamed(text, self._word)

    def whole(self, text: str) -> str:
        """Return the invented name of a text that is no sequence of words, such as a uid."""
        return self._word(text) if text else ""

    def one_of(self, text: str, known: Iterable[str]) -> str:
        """Return a text of a known vocabulary as it is, any other renamed."""
        return text if text in known else self.name(text)

    def like(self, text: str, known: re.Pattern[str]) -> str:
        """Return a text of a known form as it is, any other renamed."""
        return text if known.fullmatch(text) else self.name(text)

    def time(self, text: str) -> str:
        """Return a time as it is."""
        return self.like(text, vocabulary.TIME)

    def key(self, text: str) -> str:
        """Return the key of a label, an annotation or a taint; those of Kubernetes and the vendors stay."""
        return text if vocabulary.is_known_key(text) else self.name(text)

    def label(self, key: str, text: str) -> str:
        """Return the value of a label, which its key tells how to read."""
        if key in vocabulary.KEYS_OF_NAMES:
            return self.name(text)
        if text in vocabulary.BOOLEANS:
            return text
        if key in vocabulary.KEYS_OF_PRODUCTS:
            return self.product(text)
        if text in vocabulary.WORDS_OF_KEY.get(key, ()):
            return text
        if key in self._numbers and integer(text) is not None:
            return text
        return self.like(text, vocabulary.NUMBER) if vocabulary.is_key_of_amounts(key) else self.name(text)

    def labels(self, labels: Pairs) -> Pairs:
        """Return labels with invented names, sorted."""
        return tuple(sorted((self.key(key), self.label(key, text)) for key, text in labels))

    def product(self, text: str) -> str:
        """Return the name of a GPU product; known ones stay."""
        return vocabulary.product_text(text, self.name)

    def annotations(self, annotations: Pairs) -> Pairs:
        """Return those annotations that mean something to us."""
        return tuple((key, self._annotation(key, text)) for key, text in annotations if key in vocabulary.ANNOTATIONS)

    def _annotation(self, key: str, text: str) -> str:
        if key in names.KUEUE_TOPOLOGY_ANNOTATIONS:
            return text if text in vocabulary.BOOLEANS else self.key(text)
        if key == names.HARDWARE and preset(text) is not None:
            return text
        bare = text.strip()
        known = bare in vocabulary.WORDS_OF_KEY.get(key, vocabulary.BOOLEANS) or vocabulary.NUMBER.fullmatch(bare)
        return text if known else self.name(text)

    def resources(self, resources: Resources) -> Resources:
        """Return amounts of resources."""
        return structs.replace(
            resources, extended=tuple(sorted((self.resource(name), count) for name, count in resources.extended))
        )

    def resource(self, name: str) -> str:
        """Return the name of a resource; those of the vendors stay."""
        if vocabulary.is_known_key(name):
            return name
        # Any resource with this word in its name counts as GPUs.
        return f"{self.name(name)}-gpu" if "gpu" in name else self.name(name)

    def taint(self, taint: Taint) -> Taint:
        """Return a taint."""
        return Taint(self.key(taint.key), self.value(taint.value), self.one_of(taint.effect, vocabulary.EFFECTS))

    def value(self, text: str) -> str:
        """Return the value of a taint or of its toleration."""
        return self.one_of(text, vocabulary.BOOLEANS)

    def toleration(self, toleration: Toleration) -> Toleration:
        """Return a toleration."""
        return Toleration(
            self.key(toleration.key),
            self.one_of(toleration.operator, vocabulary.OPERATORS),
            self.value(toleration.value),
            self.one_of(toleration.effect, vocabulary.EFFECTS),
        )

    def requirement(self, requirement: Requirement) -> Requirement:
        """Return a requirement on labels."""
        return Requirement(
            self.key(requirement.key),
            self.one_of(requirement.operator, vocabulary.OPERATORS),
            tuple(self.label(requirement.key, value) for value in requirement.values),
        )

    def selector(self, selector: Sequence[Requirement] | None) -> tuple[Requirement, ...] | None:
        """Return a selector; None stays None."""
        return None if selector is None else tuple(map(self.requirement, selector))

    def api_version(self, text: str) -> str:
        """Return an API version; known groups stay."""
        group, slash, version = text.rpartition("/")
        return f"{self.one_of(group, vocabulary.API_GROUPS)}{slash}{self.like(version, vocabulary.VERSION)}"
