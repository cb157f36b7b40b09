"""Snapshots come from whatever `kubectl get` prints, and a bad file is told about in one line."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from islander.cluster import names
from islander.cluster.queues import QueueConfiguration
from islander.cluster.snapshot import ShapeWeight
from islander.cluster.snapshot_json import encode_snapshot
from planner.documents import MalformedInput
from planner.load import load_files
from tests.builders import (
    a_cluster_queue,
    a_flavor,
    a_node,
    a_pod,
    a_snapshot,
    container_object,
    node_object,
    pod_object,
)


def a_list(*items: dict[str, Any], kind: str = "List", api_version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": api_version, "items": list(items), "kind": kind, "metadata": {"resourceVersion": ""}}


DUMP = a_list(node_object("n1"), pod_object("p1", gpus=2, node="n1"), node_object("n2"))


def written(folder: Path, data: bytes | str, name: str = "dump") -> str:
    file = folder / name
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(file)


def refusal(path: str) -> str:
    with pytest.raises(MalformedInput) as caught:
        load_files([path])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def as_kubectl_yaml(value: Any) -> str:
    return str(yaml.safe_dump(value, default_flow_style=False, sort_keys=True))


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(DUMP),
        json.dumps(DUMP, indent=4),
        as_kubectl_yaml(DUMP),
        "---\n" + as_kubectl_yaml(DUMP),
        "# made by hand\n" + as_kubectl_yaml(DUMP),
        yaml.safe_dump_all(DUMP["items"]),
        "\n".join(json.dumps(item) for item in DUMP["items"]),
        "\n---\n".join(json.dumps(item, indent=2) for item in DUMP["items"]),
        json.dumps(DUMP["items"]),
        json.dumps(a_list(DUMP)),
        json.dumps(DUMP["items"][0]) + "\n---\n" + as_kubectl_yaml(a_list(*DUMP["items"][1:])),
        gzip.compress(json.dumps(DUMP).encode()),
        b"\xef\xbb\xbf" + json.dumps(DUMP).encode(),
        json.dumps(DUMP).encode("utf-16"),
        as_kubectl_yaml(DUMP).replace("\n", "\r\n").encode("utf-16"),
    ],
)
def test_every_form_of_a_dump_gives_the_same_snapshot(tmp_path: Path, data: bytes | str) -> None:
    snapshot = load_files([written(tmp_path, data)])
    assert [node.name for node in snapshot.nodes] == ["n1", "n2"]
    assert [(pod.key, pod.node) for pod in snapshot.pods] == [("default/p1", "n1")]
    assert snapshot.nodes[0].created == "2026-01-01T00:00:00Z"
    assert (snapshot.kinds, snapshot.warnings) == (("Node", "Pod"), ())


def test_times_without_quotes_stay_texts(tmp_path: Path) -> None:
    text = as_kubectl_yaml(DUMP).replace("'2026-01-01T00:00:00Z'", "2026-01-01T00:00:00Z")
    assert "'2026" not in text
    assert load_files([written(tmp_path, text)]).pods[0].created == "2026-01-01T00:00:00Z"


def test_typed_lists_give_their_items_a_kind(tmp_path: Path) -> None:
    def bare(item: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}

    nodes = as_kubectl_yaml(a_list(bare(node_object("n1")), kind="NodeList"))
    pods = json.dumps(a_list(bare(pod_object("p1")), kind="PodList"))
    budgets = json.dumps(a_list(kind="PodDisruptionBudgetList", api_version="policy/v1"))
    other = json.dumps(a_list({"metadata": {"name": "j"}}, kind="JobList", api_version="batch.volcano.sh/v1alpha1"))
    snapshot = load_files([written(tmp_path, "\n---\n".join([pods, budgets, other, nodes]))])
    assert snapshot.kinds == ("Node", "Pod", "PodDisruptionBudget")
    assert snapshot.workloads == ()
    assert snapshot.warnings == ("skipped objects of kinds that are not used: 1 Job",)


def test_an_own_snapshot_is_read_and_can_be_joined_by_a_dump(tmp_path: Path) -> None:
    snapshot = a_snapshot(a_node("n1"), a_pod("p1"), warnings=["old"])
    path = written(tmp_path, encode_snapshot(snapshot), "own")
    assert load_files([path]) == snapshot
    other = written(tmp_path, json.dumps(a_list(node_object("n9"))), "other")
    both = load_files([path, other])
    assert [node.name for node in both.nodes] == ["n1", "n9"]
    assert (both.taken_at, both.warnings) == (snapshot.taken_at, ("old",))


def test_the_mix_that_is_configured_where_a_snapshot_was_taken_is_read_too(tmp_path: Path) -> None:
    mix = (ShapeWeight(4, True, 2.5),)
    snapshot = structs.replace(a_snapshot(a_node("n1"), a_pod("p1")), demand_mix=mix)
    nodes = written(tmp_path, json.dumps(a_list(node_object("n9"))), "nodes")
    assert load_files([written(tmp_path, encode_snapshot(snapshot)), nodes]).demand_mix == mix


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(gzip.compress(json.dumps(DUMP).encode()))

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert len(load_files(["-"]).nodes) == 2


def test_kinds_that_are_not_used_are_counted(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    text = json.dumps(a_list(*DUMP["items"], secret, secret, {"apiVersion": "v1", "metadata": {}}))
    assert load_files([written(tmp_path, text)]).warnings == (
        "skipped objects of kinds that are not used: 1 (without kind), 2 Secret",
    )


def test_a_broken_object_is_skipped_and_named(tmp_path: Path) -> None:
    """G10 and G01 in a dump."""
    bad = pod_object("bad", gpus="500m")
    unequal = pod_object(
        "unequal", containers=[container_object(requests={names.NVIDIA_GPU: 6}, limits={names.NVIDIA_GPU: 8})]
    )
    path = written(tmp_path, json.dumps(a_list(*DUMP["items"], bad, unequal)))
    snapshot = load_files([path])
    assert [pod.name for pod in snapshot.pods] == ["p1"]
    assert len(snapshot.warnings) == 2
    assert snapshot.warnings[0].startswith(f"{path}: Pod default/bad: spec.containers[vllm].resources.limits")
    assert "Pod default/unequal" in snapshot.warnings[1]


def test_many_broken_objects_do_not_flood_the_warnings(tmp_path: Path) -> None:
    bad = [pod_object(f"bad{i}", gpus="x") for i in range(25)]
    warnings = load_files([written(tmp_path, json.dumps(a_list(*DUMP["items"], *bad)))]).warnings
    assert len(warnings) == 21
    assert warnings[-1] == "5 more broken objects of kind Pod are skipped"


def test_queues_of_a_dump_are_read_and_joined_to_those_of_a_snapshot(tmp_path: Path) -> None:
    kueue = {"apiVersion": "kueue.x-k8s.io/v1beta1"}
    queues = [{**kueue, "kind": kind, "metadata": {"name": "q"}} for kind in ("ClusterQueue", "Cohort", "Topology")]
    others = [
        {**kueue, "kind": kind, "metadata": {"name": "q", "namespace": "chat"}} for kind in ("LocalQueue", "Workload")
    ]
    limits = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "chat"}}
    certificates = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}}
    dump = a_list(*DUMP["items"], *queues, *others, limits, certificates)
    own = a_snapshot(a_flavor("h100"), a_cluster_queue("mine"), QueueConfiguration(600))
    found = load_files([written(tmp_path, encode_snapshot(own), "own"), written(tmp_path, json.dumps(dump))])
    assert [queue.name for queue in found.cluster_queues] == ["mine", "q"]
    for part in (found.cohorts, found.queue_topologies, found.local_queues, found.queued_workloads):
        assert [value.name for value in part] == ["q"]
    assert [flavor.name for flavor in found.resource_flavors] == ["h100"]
    assert [quota.namespace for quota in found.namespace_quotas] == ["chat"]
    assert found.queue_configuration == QueueConfiguration(600)
    assert found.warnings == ("skipped objects of kinds that are not used: 1 ConfigMap",)


def test_a_snapshot_without_queues_is_written_as_before() -> None:
    """Plans carry a hash of what is in the snapshot; new kinds must not change it where they are not used."""
    keys = json.loads(encode_snapshot(a_snapshot(a_node(), a_pod())))
    assert set(keys) == {"apiVersion", "kind", "takenAt", "kinds", "nodes", "pods", "podSpecs"}


def test_a_dump_without_pods_says_so(tmp_path: Path) -> None:
    assert "holds no pods" in load_files([written(tmp_path, json.dumps(node_object()))]).warnings[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (json.dumps(a_list(pod_object())), "holds no nodes; take it with `kubectl get nodes,pods -A -o json`"),
        (json.dumps(a_list()), "holds no Kubernetes objects"),
        (json.dumps(DUMP)[:-40], "is cut off, the JSON ends too early"),
        (json.dumps(DUMP).replace('"kind"', "kind", 1), "is neither JSON nor YAML: JSON is malformed"),
        (gzip.compress(json.dumps(DUMP).encode())[:-20], "gzip data is broken or cut off"),
        (b"\x1f\x8bnot really", "gzip data is broken or cut off"),
        (b"\x7fELF\0\0\1\2", "is a binary file"),
        (b"\xc3\x28 text", "is a binary file"),
        ("", "is empty"),
        (" \n", "is empty"),
        ("Error from server (Forbidden): nodes is forbidden\n", "holds no Kubernetes objects"),
        ("just words", "holds no Kubernetes objects"),
        ("a: b\n  c: [", "line 2: is neither JSON nor YAML"),
        ("a: !!python/object:os.system x", "is neither JSON nor YAML"),
        ("{" * 100_000, "is neither JSON nor YAML"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"apiVersion": "islander.dev/v1", "kind": "MovePlan"}', "kind is MovePlan, not ClusterSnapshot"),
        ('{"apiVersion": "islander.dev/v9", "kind": "ClusterSnapshot"}', "use the release that wrote it"),
        (json.dumps(a_list({"kind": "Node", "apiVersion": "v1", "metadata": {"name": 1}})), "no node that can be read"),
        ("? {a: b}\n: c", "is neither JSON nor YAML"),
    ],
)
def test_a_bad_file_is_told_about_in_one_line(tmp_path: Path, data: bytes | str, message: str) -> None:
    path = written(tmp_path, data)
    line = refusal(path)
    assert line.startswith(f"{path}: ")
    assert message in line


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "none")).endswith("none: No such file or directory")
    assert refusal(str(tmp_path)).endswith(": Is a directory")


def test_a_dump_with_nodes_in_one_file_and_pods_in_another_is_one_cluster(tmp_path: Path) -> None:
    nodes = written(tmp_path, json.dumps(a_list(node_object())), "nodes.json")
    pods = written(tmp_path, as_kubectl_yaml(a_list(pod_object())), "pods.yaml")
    snapshot = load_files([pods, nodes])
    assert (len(snapshot.nodes), len(snapshot.pods)) == (1, 1)
