"""No body that a client can send is answered with a mistake of ours, whatever the verb."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import a_node, a_pod, node_object
from tests.unit.extender.harness import FakeBinder, InMemoryExtender, asking

VERBS = st.sampled_from(["filter", "prioritize", "preempt", "bind", "explain"])
NODES = ("n1", "n2", "n3", "n9")
EXAMPLES = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@cache
def extender() -> InMemoryExtender:
    """One for all examples: nothing that a body does may break it for the next."""
    return InMemoryExtender(
        a_node("n1"), a_node("n2", gpus=4), a_node("n3"), a_pod("holder", gpus=5, node="n3"), binder=FakeBinder()
    )


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**63) - 1, 10**400, 0.5, 1e300, "500m", "8", "-1", "", "NaN", "n1", "default"])
    | st.sampled_from(["²", "9" * 5000, "Gt", "nvidia.com/gpu.memory"])
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
)
WORDS = """
Pod Nodes NodeNames pod nodes nodenames NodeNameToVictims NodeNameToMetaVictims Pods UID NumPDBViolations items
metadata name namespace uid labels annotations spec status containers initContainers resources requests limits args
nvidia.com/gpu command env value priority nodeName nodeSelector affinity tolerations overhead phase conditions capacity
allocatable PodName PodNamespace PodUID Node islander.dev/topology islander.dev/gpus
"""
KEYS = st.sampled_from(WORDS.split()) | st.text(max_size=8)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=25
)


def placement() -> dict[str, Any]:
    """What a pod may say of the nodes it wants, one of each kind."""
    memory = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]}
    apart = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    when = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        "nodeSelector": {"zone": "z1"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **apart}],
        "affinity": {
            "nodeAffinity": {when: {"nodeSelectorTerms": [{"matchExpressions": [memory]}]}},
            "podAntiAffinity": {when: [apart]},
        },
    }


def leaf_paths(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(document, dict):
        for key, value in document.items():
            found += leaf_paths(value, (*path, key))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            found += leaf_paths(value, (*path, index))
    return found


@st.composite
def nearly_right(draw: st.DrawFn) -> Any:
    """A body as kube-scheduler sends it, with one to three places replaced by something else."""
    pod = asking(gpus=draw(st.sampled_from([1, 4, 8])), tp=draw(st.sampled_from([None, 2, 4])), spec=placement())
    document: Any = {
        "Pod": pod,
        "NodeNames": draw(st.none() | st.lists(st.sampled_from(NODES), max_size=5)),
        "Nodes": draw(st.none() | st.just({"items": [node_object("n1"), node_object("template")]})),
        "NodeNameToVictims": draw(st.none() | st.just({"n3": {"Pods": [asking("holder")], "NumPDBViolations": 1}})),
        "NodeNameToMetaVictims": draw(st.none() | st.just({"n3": {"Pods": [{"UID": "uid-default-holder"}]}})),
        "PodName": "asking",
        "PodNamespace": "default",
        "PodUID": "u",
        "Node": "n1",
    }
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(leaf_paths(document)))
        place = document
        for step in way:
            place = place[step]
        place[last] = draw(JSON)
    return document


def check(verb: str, body: bytes) -> None:
    response = extender().post(verb, body)
    assert response.status_code in (200, 400), response.text
    if response.status_code == 200 or verb in ("filter", "bind"):
        json.loads(response.data)
    assert "Traceback" not in response.text


@EXAMPLES
@given(VERBS, JSON)
def test_any_json_is_answered(verb: str, document: Any) -> None:
    check(verb, json.dumps(document).encode())


@EXAMPLES
@given(VERBS, nearly_right())
def test_a_body_that_is_nearly_right_is_answered(verb: str, document: Any) -> None:
    check(verb, json.dumps(document).encode())


@EXAMPLES
@given(VERBS, nearly_right(), st.data())
def test_broken_bytes_are_answered(verb: str, document: Any, data: st.DataObject) -> None:
    body = bytearray(json.dumps(document, ensure_ascii=False).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if not body:
            break
    check(verb, bytes(body))


@EXAMPLES
@given(VERBS, st.binary(max_size=200))
def test_any_bytes_are_answered(verb: str, body: bytes) -> None:
    check(verb, body)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(NODES), max_size=6), st.sampled_from([0, 1, 4, 8]))
def test_a_repeated_key_counts_once_and_the_last_one_wins(names: list[str], gpus: int) -> None:
    pod, last = json.dumps(asking("first", gpus=8)), json.dumps(asking("last", gpus=gpus))
    body = f'{{"Pod": {pod}, "NodeNames": ["n2"], "nodenames": {json.dumps(names)}, "pod": {last}}}'
    expected = extender().filter(asking("last", gpus=gpus), names)
    assert extender().post("filter", body.encode()).get_json() == expected
