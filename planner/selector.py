"""Label selectors as kubectl's `-l` writes them."""

from __future__ import annotations

import re

import msgspec

from islander.cluster.pod import Requirement
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.selectors import selects
from planner.errors import PlannerError

_KEY = r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_EQUALS = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})")
_IN = re.compile(rf"({_KEY})\s+(in|notin)\s+\(([^()]*)\)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
# A comma separates requirements, but not the values inside parentheses.
_SEPARATOR = re.compile(r",(?![^()]*\))")


def parse_selector(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a selector such as `pool=h100,zone in (a,b),!spot`; all of them must hold.

    Raises
    ------
    PlannerError
        A part is not a requirement.
    """
    return tuple(_requirement(part.strip(), text) for part in _SEPARATOR.split(text) if text.strip())


def only_nodes(snapshot: ClusterSnapshot, selector: str | None) -> ClusterSnapshot:
    """Return the snapshot with the nodes that a selector selects, their pods, and the pods that run nowhere."""
    if selector is None:
        return snapshot
    requirements = parse_selector(selector)
    nodes = tuple(node for node in snapshot.nodes if selects(requirements, dict(node.labels)))
    if not nodes:
        raise PlannerError(f"selector {selector!r} selects none of {len(snapshot.nodes)} nodes")
    kept = {node.name for node in nodes}
    pods = tuple(pod for pod in snapshot.pods if not pod.node or pod.node in kept)
    return msgspec.structs.replace(snapshot, nodes=nodes, pods=pods)


def _requirement(part: str, whole: str) -> Requirement:
    if found := _EQUALS.fullmatch(part):
        return Requirement(found[1], "NotIn" if found[2] == "!=" else "In", (found[3],))
    if found := _IN.fullmatch(part):
        values = tuple(value.strip() for value in found[3].split(","))
        if all(re.fullmatch(_VALUE, value) for value in values):
            return Requirement(found[1], "In" if found[2] == "in" else "NotIn", values)
    elif found := _EXISTS.fullmatch(part):
        return Requirement(found[2], "DoesNotExist" if found[1] else "Exists")
    raise PlannerError(f"selector {whole!r}: {part!r} is not key=value, key!=value, key in (a,b), key or !key")
