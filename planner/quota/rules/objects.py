"""Objects of the API as plain JSON, whatever is in them: rules look into them without trusting any type."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from islander.cluster.quantity import MalformedQuantity, parse_quantity

Json = Mapping[str, Any]
NO_FIELDS: Json = {}

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LONGEST_SUBDOMAIN = 253
_LONGEST_LABEL = 63


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """One thing that breaks a rule; `object` is `Kind/name` or `Kind/namespace/name`, `field` the path in it."""

    rule: str
    object: str
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class KubeObject:
    """One object, and the one of the same name that the cluster has now, None when it is new."""

    body: Json
    before: Json | None = None

    @property
    def kind(self) -> str:
        """Its kind."""
        return text(self.body.get("kind"))

    @property
    def name(self) -> str:
        """Its name."""
        return text(self.metadata.get("name"))

    @property
    def metadata(self) -> Json:
        """Its metadata."""
        return mapping(self.body.get("metadata"))

    @property
    def spec(self) -> Json:
        """Its spec."""
        return mapping(self.body.get("spec"))

    @property
    def spec_before(self) -> Json | None:
        """The spec of the object as it is in the cluster; None when it is new."""
        return None if self.before is None else mapping(self.before.get("spec"))

    @property
    def called(self) -> str:
        """`Kind/name` or `Kind/namespace/name`."""
        namespace = text(self.metadata.get("namespace"))
        return "/".join(part for part in (self.kind, namespace, self.name or "(no name)") if part)

    def breaks(self, rule: str, path: str, message: str) -> RuleViolation:
        """Return a violation of this object."""
        return RuleViolation(rule, self.called, path, message)


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects that are judged, and those beside them that they may name.

    Attributes
    ----------
    judged
        In the order given.
    beside
        Objects of the cluster that stay as they are.
    complete
        Kinds of which every object is known; a name of another kind may well exist. None for all kinds.
    """

    judged: tuple[KubeObject, ...]
    beside: tuple[KubeObject, ...] = ()
    complete: frozenset[str] | None = None
    _by_kind: dict[str, tuple[KubeObject, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls, documents: Iterable[Json], context: Iterable[Json] = (), complete: Collection[str] | None = None
    ) -> Objects:
        """Return documents that are to be judged against what the cluster has."""
        now = {_identity(body): body for body in context}
        judged = tuple(KubeObject(body, now.get(_identity(body))) for body in documents)
        replaced = {_identity(found.body) for found in judged}
        beside = tuple(KubeObject(body, body) for key, body in now.items() if key not in replaced)
        return cls(judged, beside, None if complete is None else frozenset(complete))

    def of_kind(self, *kinds: str) -> Iterator[KubeObject]:
        """Yield the judged objects of some kinds."""
        return (found for found in self.judged if found.kind in kinds)

    def all_of_kind(self, kind: str) -> tuple[KubeObject, ...]:
        """Return the objects of a kind, judged or not."""
        if kind not in self._by_kind:
            self._by_kind[kind] = tuple(f for part in (self.judged, self.beside) for f in part if f.kind == kind)
        return self._by_kind[kind]

    def names(self, kind: str) -> frozenset[str]:
        """Return the names that objects of a kind have."""
        return frozenset(found.name for found in self.all_of_kind(kind))

    def is_missing(self, kind: str, name: str) -> bool:
        """Return whether it is certain that there is no such object."""
        return (self.complete is None or kind in self.complete) and name not in self.names(kind)


@dataclass(frozen=True, slots=True)
class QuotaField:
    """One resource of one flavor, as an object writes it, and where."""

    flavor: str
    resource: str
    body: Json
    path: str

    def amount(self, key: str) -> Fraction | None:
        """Return an amount; None when it is not there or is no quantity."""
        return None if self.body.get(key) is None else quantity(self.body[key])


def mapping(value: object) -> Json:
    """Return a map, empty for what is none."""
    return value if isinstance(value, Mapping) else NO_FIELDS


def items(value: object) -> Sequence[Any]:
    """Return a list, empty for what is none."""
    return value if isinstance(value, list | tuple) else ()


def text(value: object) -> str:
    """Return a text, empty for what is none."""
    return value if isinstance(value, str) else ""


def numbered(value: object, path: str) -> Iterator[tuple[Json, str]]:
    """Yield the maps of a list, each with its path."""
    for index, entry in enumerate(items(value)):
        yield mapping(entry), f"{path}[{index}]"


def quotas(spec: Json) -> Iterator[QuotaField]:
    """Yield the quotas of a ClusterQueue or Cohort."""
    for group, group_path in numbered(spec.get("resourceGroups"), "spec.resourceGroups"):
        for flavor, flavor_path in numbered(group.get("flavors"), f"{group_path}.flavors"):
            for resource, path in numbered(flavor.get("resources"), f"{flavor_path}.resources"):
                yield QuotaField(text(flavor.get("name")), text(resource.get("name")), resource, path)


def flavor_names(spec: Json) -> tuple[str, ...]:
    """Return the flavors that a ClusterQueue or Cohort lists, each once."""
    groups = (mapping(group) for group in items(spec.get("resourceGroups")))
    flavors = (mapping(flavor) for group in groups for flavor in items(group.get("flavors")))
    return tuple(dict.fromkeys(name for flavor in flavors if (name := text(flavor.get("name")))))


def cohort_of(spec: Json) -> str:
    """Return the cohort of a ClusterQueue; `cohort` is its name in v1beta1."""
    return text(spec.get("cohortName")) or text(spec.get("cohort"))


def parent_of(spec: Json) -> str:
    """Return the parent of a Cohort; `parent` is its name in v1alpha1."""
    return text(spec.get("parentName")) or text(spec.get("parent"))


def quantity(value: object) -> Fraction | None:
    """Return the amount that a value stands for; None when it is no quantity."""
    if not isinstance(value, str | int | float):
        return None
    try:
        return Fraction(*parse_quantity(value))
    except MalformedQuantity:
        return None


def is_subdomain(name: str) -> bool:
    """Return whether a text is a subdomain of RFC 1123: a name of an object."""
    return len(name) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def is_label_key(key: str) -> bool:
    """Return whether a text is a label key, with or without a prefix."""
    prefix, slash, name = key.rpartition("/")
    if len(name) > _LONGEST_LABEL or not _LABEL_NAME.fullmatch(name):
        return False
    return is_subdomain(prefix) if slash else True


def is_label_value(value: str) -> bool:
    """Return whether a text is a label value."""
    return value == "" or (len(value) <= _LONGEST_LABEL and _LABEL_NAME.fullmatch(value) is not None)


def _identity(body: Json) -> tuple[str, str, str]:
    metadata = mapping(body.get("metadata"))
    return text(body.get("kind")), text(metadata.get("namespace")), text(metadata.get("name"))
