"""Whatever stands in a field, an object is parsed or named as malformed; snapshots survive JSON exactly."""

from __future__ import annotations

import json
import string
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from islander.cluster import names
from islander.cluster.gpu_report import parse_gpu_report
from islander.cluster.machine import gpu_memory, hardware_of, is_shared, physical_gpus, whole_gpus
from islander.cluster.node import Node, Taint
from islander.cluster.pod import Pod
from islander.cluster.snapshot_json import decode_snapshot, encode_snapshot
from islander.kube.parse import MalformedObject, parse_node, parse_object, parse_pod
from tests.builders import a_snapshot, container_object, node_object, pod_object

SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REPORT = {"v": 1, "links": [["X", "NV4"], ["NV4", "X"]], "gpus": [{"index": 0, "pod": "a/b"}, {"index": 1}]}
RICH_POD = pod_object(
    containers=[
        container_object(gpus=2, args=["-tp", "2"], ports=[{"hostPort": 1}], env=[{"name": "A", "value": "b"}])
    ],
    init_containers=[container_object("i", gpus=1, restartPolicy="Always")],
    metadata={"ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}]},
    spec={
        "affinity": {
            "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": SELECTOR["matchExpressions"]}]}},
            "podAntiAffinity": {REQUIRED: [{"labelSelector": SELECTOR, "topologyKey": "z", "namespaces": ["x"]}]},
        },
        "topologySpreadConstraints": [
            {"topologyKey": "z", "maxSkew": 1, "labelSelector": SELECTOR, "matchLabelKeys": ["a"]}
        ],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "overhead": {"cpu": "1"},
        "resources": {"requests": {"cpu": "1"}},
    },
    status={"conditions": [{"type": "Ready", "status": "True"}]},
)
RICH_NODE = node_object(
    taints=[{"key": "a"}], annotations={names.GPUS: json.dumps(REPORT), names.HARDWARE: "hgx-h100-8"}
)
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b"},
    "spec": {"selector": SELECTOR, "minAvailable": 1},
    "status": {"disruptionsAllowed": 1},
}
GROUP = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "metadata": {"name": "g"},
    "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2}},
}

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=6)
)
anything = st.one_of(
    scalars,
    st.sampled_from(["500m", "-1", "8", "", "Always", "$(A)"]),
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
        max_leaves=4,
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all parts of a document, the document itself last."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, child in children for place in places(child, (*path, key))] + [path]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    document = draw(st.sampled_from([RICH_POD, RICH_NODE, BUDGET, GROUP]))
    for _ in range(draw(st.integers(1, 3))):
        document = replaced(document, draw(st.sampled_from(places(document))), draw(anything))
    return json.dumps(document).encode()


@settings(max_examples=400)
@given(mutated())
def test_a_mutated_object_is_parsed_or_malformed(raw: bytes) -> None:
    try:
        value = parse_object(raw)
    except MalformedObject:
        return
    snapshot = a_snapshot(value)
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


@given(st.binary(max_size=60), st.integers(0, 2000), st.integers(0, 2000))
def test_a_cut_or_overwritten_object_is_parsed_or_malformed(junk: bytes, start: int, length: int) -> None:
    raw = json.dumps(RICH_POD).encode()
    for data in (raw[:start], raw[:start] + junk + raw[start + length :], junk):
        try:
            parse_pod(data)
        except MalformedObject:
            continue


@given(st.sampled_from(places(REPORT)), anything)
def test_a_mutated_report_is_read_or_ignored_and_never_an_error(path: tuple[Any, ...], new: Any) -> None:
    text = json.dumps(replaced(REPORT, path, new))
    report, warnings = parse_gpu_report(text)
    assert report is not None or warnings
    node = parse_node(json.dumps(node_object(gpus=2, annotations={names.GPUS: text})).encode())
    assert hardware_of(node)[0].gpus >= 2


label_values = st.one_of(
    st.sampled_from(["two", "0", "1", "8", "-1", "", "time-slicing", "none", "99999999999", "NVIDIA-L4-SHARED", "٣"]),
    st.sampled_from(["NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "NVIDIA-H100-80GB-HBM3", "-MIG-", "-SHARED"]),
    st.text(max_size=5),
)
gpu_labels = st.sampled_from(
    [names.GPU_PRODUCT, names.GPU_COUNT, names.GPU_MEMORY, names.GPU_REPLICAS, names.GPU_SHARING_STRATEGY]
)


@given(st.dictionaries(gpu_labels, label_values), st.integers(0, 300), st.one_of(st.none(), st.text(max_size=5)))
def test_any_labels_give_hardware(labels: dict[str, str], count: int, hardware: str | None) -> None:
    annotations = {} if hardware is None else {names.HARDWARE: hardware}
    node = parse_node(json.dumps(node_object(gpus=count, labels=labels, annotations=annotations)).encode())
    found, warnings = hardware_of(node)
    assert found.gpus >= 0
    assert all("\n" not in warning for warning in warnings)
    assert physical_gpus(node) >= 0
    assert gpu_memory(node).total_mib >= 0
    if is_shared(node):
        assert not whole_gpus(node)


names_of_objects = st.text(string.ascii_lowercase, min_size=1, max_size=4)
texts = st.text(max_size=5)
pods = st.builds(
    Pod,
    namespace=names_of_objects,
    name=names_of_objects,
    uid=texts,
    node=texts,
    ready=st.booleans(),
    labels=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    spec=st.sampled_from([parse_pod(json.dumps(pod_object(gpus=g)).encode()).spec for g in (1, 2, None)]),
)
nodes = st.builds(
    Node,
    name=names_of_objects,
    taints=st.lists(st.builds(Taint, texts, texts, texts), max_size=2).map(tuple),
    ready=st.booleans(),
)


@given(st.lists(pods, max_size=6), st.lists(nodes, max_size=3), texts)
def test_a_snapshot_survives_its_way_through_json(some_pods: list[Pod], some_nodes: list[Node], taken_at: str) -> None:
    snapshot = a_snapshot(*some_pods, *some_nodes, taken_at=taken_at)
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


@given(st.permutations(["metadata", "spec", "status", "kind", "apiVersion"]))
def test_the_order_of_keys_does_not_matter(order: list[str]) -> None:
    shuffled = {key: RICH_POD[key] for key in order}
    assert parse_pod(json.dumps(shuffled).encode()) == parse_pod(json.dumps(RICH_POD).encode())
