"""What kube-scheduler sends and reads: JSON bodies to typed values and back.

Notes
-----
The types are `k8s.io/kube-scheduler/extender/v1`. They have no JSON tags, so the keys are the Go names; Go matches keys
without regard to case, and so do we. Which of two alternatives is null says whether the scheduler trusts our cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, TypeVar

import msgspec

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.kube.parse import MalformedObject, parse_node, parse_pod
from islander.policy.reasons import REASONS, Code
from islander.policy.score import MAX_SCORE

T = TypeVar("T")

_Object = dict[str, msgspec.Raw]

_objects = msgspec.json.Decoder(_Object | None)
_names = msgspec.json.Decoder(list[str] | None)
_raw_items = msgspec.json.Decoder(list[msgspec.Raw] | None)
_strings = msgspec.json.Decoder(str | None)
_integers = msgspec.json.Decoder(int | None)
_encoder = msgspec.json.Encoder()

_INT64 = 1 << 63
# What the API accepts as a name; anything else must not become part of a URL.
_API_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_UID = re.compile(r"[A-Za-z0-9][-A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class BadRequest:
    """A body that is not what the verb takes; `message` is one sentence for the caller."""

    message: str


@dataclass(frozen=True, slots=True)
class SentNode:
    """A whole node of a request.

    Attributes
    ----------
    raw
        The object as it was sent; it goes back unchanged.
    node
        None when it cannot be understood beyond its name.
    """

    name: str
    raw: msgspec.Raw
    node: Node | None


@dataclass(frozen=True, slots=True)
class ExtenderArgs:
    """The request of filter and prioritize.

    Attributes
    ----------
    names
        In the order sent; None when the request carries whole nodes.
    nodes
        None when the request carries names, or nothing at all.
    plain
        True when no name needs an escape in JSON.
    """

    pod: Pod
    names: list[str] | None
    nodes: tuple[SentNode, ...] | None
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Filtered:
    """The decision of filter.

    Attributes
    ----------
    kept
        Whether each node of the request stays, in the order sent; None when all do.
    refused
        Names of the other nodes by reason; a name stands under one reason only.
    """

    kept: Sequence[bool] | None = None
    refused: Mapping[Code, Sequence[str]] = field(default_factory=dict)

    @property
    def refuses_all(self) -> bool:
        """Whether no node stays."""
        return self.kept is not None and not any(self.kept)


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods that preemption would remove from one node, by UID; the count of violated budgets is kube-scheduler's."""

    uids: tuple[str, ...]
    violations: int = 0


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """The request of preempt; candidates in the order sent."""

    pod: Pod
    candidates: dict[str, Victims]


@dataclass(frozen=True, slots=True)
class BindingArgs:
    """The request of bind."""

    namespace: str
    name: str
    uid: str
    node: str


def parse_extender_args(body: bytes) -> ExtenderArgs | BadRequest:
    """Return the request of filter or prioritize."""

    def read() -> ExtenderArgs | BadRequest:
        fields = _fields(body)
        pod = _pod(fields)
        if isinstance(pod, BadRequest):
            return pod
        raw_names = fields.get("nodenames", b"null")
        names = _names.decode(raw_names)
        if names is not None:
            return ExtenderArgs(pod, names, None, plain=b"\\" not in bytes(raw_names))
        listed = _objects.decode(fields["nodes"]) if "nodes" in fields else None
        if listed is None:
            return ExtenderArgs(pod, None, None)
        items = _raw_items.decode(_lower(listed).get("items", b"null")) or []
        nodes = []
        for index, raw in enumerate(items):
            name = _name_of(raw)
            if not name:
                return BadRequest(f"Nodes.items[{index}]: metadata.name is missing")
            nodes.append(SentNode(name, raw, _node(raw)))
        return ExtenderArgs(pod, None, tuple(nodes))

    return _guarded(read)


def parse_preemption_args(body: bytes) -> PreemptionArgs | BadRequest:
    """Return the request of preempt, from whole victims or from their UIDs."""

    def read() -> PreemptionArgs | BadRequest:
        fields = _fields(body)
        pod = _pod(fields)
        if isinstance(pod, BadRequest):
            return pod
        candidates: dict[str, Victims] = {}
        for key, uid_of in (("nodenametovictims", _uid_of_pod), ("nodenametometavictims", _uid_of_meta)):
            for node, raw in (_objects.decode(fields.get(key, b"null")) or {}).items():
                victims = _lower(_objects.decode(raw) or {})
                pods = _raw_items.decode(victims.get("pods", b"null")) or []
                violations = _integers.decode(victims.get("numpdbviolations", b"null")) or 0
                if not -_INT64 <= violations < _INT64:
                    return BadRequest("NumPDBViolations is out of range")
                candidates[node] = Victims(tuple(uid_of(p) for p in pods), violations)
        return PreemptionArgs(pod, candidates)

    return _guarded(read)


def parse_binding_args(body: bytes) -> BindingArgs | BadRequest:
    """Return the request of bind; names that the API would not accept are refused."""

    def read() -> BindingArgs | BadRequest:
        fields = _fields(body)
        values = {}
        for key, pattern in (
            ("PodNamespace", _API_NAME),
            ("PodName", _API_NAME),
            ("PodUID", _UID),
            ("Node", _API_NAME),
        ):
            value = _strings.decode(fields.get(key.lower(), b"null")) or ""
            if not pattern.fullmatch(value):
                return BadRequest(f"{key} is {'not valid' if value else 'missing'}")
            values[key] = value
        return BindingArgs(values["PodNamespace"], values["PodName"], values["PodUID"], values["Node"])

    return _guarded(read)


def parse_single_pod(body: bytes) -> Pod | BadRequest:
    """Return the pod of an explain request: a Pod object alone."""

    def read() -> Pod | BadRequest:
        if not _fields(body):
            return BadRequest("the body is not a Pod")
        return parse_pod(body)

    return _guarded(read)


def filter_answer(args: ExtenderArgs, outcome: Filtered) -> bytes:
    """Encode the answer of filter, in the form that was sent."""
    answer: dict[str, Any] = {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": _sentences(outcome.refused, curable=True, plain=args.plain),
        "FailedAndUnresolvableNodes": _sentences(outcome.refused, curable=False, plain=args.plain),
        "Error": "",
    }
    if args.nodes is not None:
        items = args.nodes if outcome.kept is None else compress(args.nodes, outcome.kept)
        answer["Nodes"] = {"metadata": {}, "items": [node.raw for node in items]}
    else:
        names = args.names or []
        answer["NodeNames"] = names if outcome.kept is None else list(compress(names, outcome.kept))
    return _encoder.encode(answer)


def _sentences(refused: Mapping[Code, Sequence[str]], *, curable: bool, plain: bool) -> dict[str, str] | msgspec.Raw:
    chosen = {REASONS[code].sentence: names for code, names in refused.items() if names and is_curable(code) is curable}
    if not plain:
        return {name: sentence for sentence, names in chosen.items() for name in names}
    # As in `priority_answer`: one join in the place of thousands of entries.
    woven = []
    for sentence, names in chosen.items():
        between = f'":"{sentence}","'
        woven.append(f'"{between.join(names)}":"{sentence}"')
    return msgspec.Raw(f"{{{','.join(woven)}}}".encode())


def is_curable(code: Code) -> bool:
    """Return whether kube-scheduler may try preemption on a node that is refused so.

    A node that we do not know is one that has just come or gone: whoever asks again may get another answer.
    """
    return REASONS[code].curable_by_preemption or code is Code.UNKNOWN_NODE


def priority_answer(args: ExtenderArgs, scores: Sequence[int]) -> bytes:
    """Encode the answer of prioritize, one entry for each node in the order sent."""
    if args.nodes is not None:
        return _encoder.encode(
            [_HostPriority(node.name, score) for node, score in zip(args.nodes, scores, strict=True)]
        )
    names = args.names or []
    if not args.plain or not names:
        return _encoder.encode(list(map(_HostPriority, names, scores)))
    # Names that came without escapes need none. Weaving them with ready-made pieces takes a third of the time that
    # thousands of small objects take, or fragments kept for each node, which are spread over megabytes.
    woven = [""] * (2 * len(names))
    woven[::2] = names
    woven[1::2] = map(_BETWEEN.__getitem__, scores)
    woven[-1] = _AFTER[scores[-1]]
    return f'[{{"Host":"{"".join(woven)}'.encode()


_BETWEEN = tuple(f'","Score":{score}}},{{"Host":"' for score in range(MAX_SCORE + 1))
_AFTER = tuple(f'","Score":{score}}}]' for score in range(MAX_SCORE + 1))


class _HostPriority(msgspec.Struct, gc=False, rename="pascal"):
    host: str
    score: int


def preemption_answer(candidates: Mapping[str, Victims]) -> bytes:
    """Encode the answer of preempt: UIDs only, whatever was sent."""
    return _encoder.encode(
        {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in victims.uids], "NumPDBViolations": victims.violations}
                for node, victims in candidates.items()
            }
        }
    )


def error_answer(message: str) -> bytes:
    """Encode an answer of filter or bind that says only what went wrong; empty for success of bind."""
    return _encoder.encode({"Error": message})


def _guarded(read: Callable[[], T | BadRequest]) -> T | BadRequest:
    """Run a parser; whatever is wrong with the bytes becomes a value."""
    try:
        return read()
    except MalformedObject as e:
        return BadRequest(str(e))
    except msgspec.ValidationError as e:
        return BadRequest(f"the body has an unexpected shape: {e}")
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        return BadRequest(f"the body is not JSON: {e}")
    except RecursionError:
        return BadRequest("the body is nested too deeply")


def _fields(body: bytes) -> _Object:
    return _lower(_objects.decode(body) or {})


def _lower(fields: _Object) -> _Object:
    return {key.lower(): value for key, value in fields.items()}


def _pod(fields: _Object) -> Pod | BadRequest:
    raw = fields.get("pod", b"null")
    if _objects.decode(raw) is None:
        return BadRequest("Pod is missing")
    return parse_pod(raw)


def _node(raw: msgspec.Raw) -> Node | None:
    try:
        return parse_node(raw)
    except MalformedObject:
        return None


def _name_of(raw: msgspec.Raw) -> str:
    metadata = _objects.decode((_objects.decode(raw) or {}).get("metadata", b"null")) or {}
    return _strings.decode(metadata.get("name", b"null")) or ""


def _uid_of_pod(raw: msgspec.Raw) -> str:
    metadata = _objects.decode((_objects.decode(raw) or {}).get("metadata", b"null")) or {}
    return _strings.decode(metadata.get("uid", b"null")) or ""


def _uid_of_meta(raw: msgspec.Raw) -> str:
    return _strings.decode(_lower(_objects.decode(raw) or {}).get("uid", b"null")) or ""
