"""Label requirements and node selectors, as the Kubernetes API defines them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from islander.cluster.node import Node, Taint
from islander.cluster.pod import NodeTerm, Pod, Requirement, Toleration

# As strconv.ParseInt reads 64 bits: ASCII digits, and not so many that converting them takes time.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def requirement_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether labels satisfy one requirement; an operator that the API does not know is never satisfied."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            number, bound = integer(value or ""), integer(requirement.values[0] if requirement.values else "")
            if number is None or bound is None:
                return False
            return number > bound if requirement.operator == "Gt" else number < bound
        case _:
            return False


def integer(text: str) -> int | None:
    """Return the number that `Gt` and `Lt` compare, None for a text that is no integer of at most 19 digits."""
    return int(text) if _INTEGER.fullmatch(text) else None


def selects(selector: Iterable[Requirement] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector selects these labels: None selects nothing, an empty one everything."""
    return selector is not None and all(requirement_holds(requirement, labels) for requirement in selector)


def unmatched_key(pod: Pod, node: Node) -> str | None:
    """Return a label key on which the pod's node selector or required node affinity fails; None when both hold."""
    labels = dict(node.labels)
    for key, value in pod.spec.node_selector:
        if labels.get(key) != value:
            return key
    terms = pod.spec.node_terms
    if terms is None:
        return None
    failed = [_failed_key(term, node, labels) for term in terms]
    # Terms are alternatives. An empty list of terms matches no node.
    return None if None in failed else next(iter(failed), "") or ""


def _failed_key(term: NodeTerm, node: Node, labels: Mapping[str, str]) -> str | None:
    if not term.labels and not term.fields:
        return ""
    for requirement in term.labels:
        if not requirement_holds(requirement, labels):
            return requirement.key
    for requirement in term.fields:
        if not requirement_holds(requirement, {"metadata.name": node.name}):
            return requirement.key
    return None


def untolerated_taint(pod: Pod, node: Node) -> Taint | None:
    """Return a taint that keeps the pod off the node; None when all are tolerated or only preferences."""
    for taint in node.taints:
        if taint.effect == "PreferNoSchedule":
            continue
        if not any(_tolerates(toleration, taint) for toleration in pod.spec.tolerations):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.operator in ("", "Equal") and toleration.value == taint.value
