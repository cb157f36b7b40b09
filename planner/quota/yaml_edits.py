"""Changes to an object as its YAML holds it: quotas are written in place, comments and order stay."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from copy import deepcopy
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import CommentMark
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, ScalarString
from ruamel.yaml.tokens import CommentToken

from islander.cluster.queues import FlavorQuotas, Quota, ResourceGroup
from planner.output import clear_text
from planner.quota.amounts import amount_of, amount_text

Map = MutableMapping[str, Any]

_LIMITS = (("borrowingLimit", "borrowing_limit"), ("lendingLimit", "lending_limit"))


def commented(value: Any) -> Any:
    """Return plain JSON as ruamel holds it, so that all objects are changed in one way."""
    if isinstance(value, Mapping):
        return CommentedMap((clear_text(key), commented(part)) for key, part in value.items())
    if isinstance(value, list | tuple):
        return CommentedSeq(commented(part) for part in value)
    return clear_text(value) if isinstance(value, str) else value


def unshared(body: Map) -> Map:
    """Return an object in which no part stands in two places, as aliases of YAML make it: one may change alone."""
    _unshare(body, {id(body)})
    return body


def _unshare(part: Any, seen: set[int]) -> None:
    pairs = list(part.items()) if isinstance(part, MutableMapping) else list(enumerate(part))
    for key, child in pairs:
        if not isinstance(child, MutableMapping | MutableSequence):
            continue
        if id(child) in seen:
            child = part[key] = deepcopy(child)
        seen.add(id(child))
        _unshare(child, seen)


def renamed(spec: Map, old: str, new: str) -> None:
    """Give a key another name where it stands, with its comments."""
    if old not in spec:
        return
    if new in spec or not isinstance(spec, CommentedMap):
        spec.pop(old)
        return
    place, value, comments = list(spec).index(old), spec[old], spec.ca.items.get(old)
    spec.pop(old)
    spec.insert(place, new, value)
    if comments is not None:
        spec.ca.items[new] = comments


def put_groups(spec: Map, groups: Sequence[ResourceGroup]) -> None:
    """Change the amounts of a spec to those of `groups`, and the flavors; nothing else is touched."""
    bodies = _list_of(spec, "resourceGroups")
    for i, group in enumerate(groups):
        if i == len(bodies):
            bodies.append(commented({"coveredResources": list(group.covered_resources), "flavors": []}))
        _put_flavors(bodies[i], group.flavors)


def _list_of(body: Map, key: str) -> MutableSequence[Map]:
    """Return a list of a map; it is made where there is none."""
    if not isinstance(body.get(key), MutableSequence):
        body[key] = CommentedSeq()
    found: MutableSequence[Map] = body[key]
    return found


def _put_flavors(group: Map, flavors: Sequence[FlavorQuotas]) -> None:
    bodies = _list_of(group, "flavors")
    wanted = [quotas.flavor for quotas in flavors]
    for place in reversed(range(len(bodies))):
        if bodies[place].get("name") not in wanted:
            del bodies[place]
    for place, quotas in enumerate(flavors):
        if place == len(bodies) or bodies[place].get("name") != quotas.flavor:
            bodies.insert(place, commented({"name": quotas.flavor, "resources": []}))
        resources = _list_of(bodies[place], "resources")
        by_name: dict[Any, Map] = {}
        for i in reversed(range(len(resources))):
            # Of a resource that is listed twice, which Kueue takes from nobody, the first stays.
            if any(resources[i].get("name") == resources[j].get("name") for j in range(i)):
                del resources[i]
            else:
                by_name[resources[i].get("name")] = resources[i]
        wanted_of: dict[str, Quota] = {}
        for quota in quotas.resources:
            wanted_of.setdefault(quota.resource, quota)
        for quota in wanted_of.values():
            if quota.resource not in by_name:
                by_name[quota.resource] = CommentedMap(name=quota.resource)
                resources.append(by_name[quota.resource])
            _put_quota(by_name[quota.resource], quota)


def _put_quota(body: Map, quota: Quota) -> None:
    _put_amount(body, "nominalQuota", quota.resource, quota.nominal)
    for key, attribute in _LIMITS:
        limit: int | None = getattr(quota, attribute)
        if limit is not None:
            _put_amount(body, key, quota.resource, limit)
        elif key in body:
            body.pop(key)


def _put_amount(body: Map, key: str, resource: str, amount: int) -> None:
    """Write an amount where it differs from what is there, in the manner of what is there."""
    old = body.get(key)
    if old is not None and amount_of(resource, old) == amount:
        return
    text = amount_text(resource, amount)
    if isinstance(old, int) and text.isdecimal():
        body[key] = int(text)
    elif isinstance(old, ScalarString):
        body[key] = type(old)(text)
    elif old is None:
        _append(body, key, _scalar(text))
    else:
        body[key] = _scalar(text)


def _scalar(text: str) -> str:
    """Return a quantity as YAML should write it: in quotes where it would be read as a number."""
    return DoubleQuotedScalarString(text) if text.isdecimal() else text


def _append(body: Map, key: str, value: object) -> None:
    """Put a key at the end of a map, before comment lines that stand below the map."""
    last = list(body)[-1] if body else None
    body[key] = value
    if not isinstance(body, CommentedMap) or last not in body.ca.items:
        return
    token = body.ca.items[last][2]
    if not isinstance(token, CommentToken):
        return
    first, line_end, below = token.value.partition("\n")
    if below.strip():
        token.value = first + line_end
        body.ca.items[key] = [None, None, CommentToken(f"\n{below}", start_mark=CommentMark(0)), None]
        if not first.strip():
            del body.ca.items[last]
