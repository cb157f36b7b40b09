from __future__ import annotations

import subprocess
import sys

import pytest

from islander.kube.client import KubeClient
from islander.kube.errors import ApiBusy, ApiForbidden
from islander.kube.gather import read_cluster
from islander.kube.kinds import LISTED_KINDS
from tests.builders import node_object, pod_object
from tests.fake_api import PATHS, FakeApi

TAKEN = "2026-01-01T00:00:00Z"


def workload(kind: str, name: str, namespace: str = "default") -> dict[str, object]:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": {"replicas": 2}}


def test_a_cluster_is_read_once_and_sorted(api: FakeApi, client: KubeClient) -> None:
    api.put(
        pod_object("b"),
        pod_object("a"),
        node_object("n2"),
        node_object("n1"),
        workload("StatefulSet", "s"),
        workload("Deployment", "d"),
        {"kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"}},
        {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
        {"kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "x"}}},
    )
    snapshot = read_cluster(client, taken_at=TAKEN)
    assert [node.name for node in snapshot.nodes] == ["n1", "n2"]
    assert [pod.name for pod in snapshot.pods] == ["a", "b"]
    assert [(w.kind, w.name, w.replicas) for w in snapshot.workloads] == [
        ("Deployment", "d", 2),
        ("StatefulSet", "s", 2),
    ]
    assert [b.name for b in snapshot.budgets] == ["b"]
    assert [(c.name, c.value) for c in snapshot.priority_classes] == [("high", 1000)]
    assert [n.labels for n in snapshot.namespaces] == [(("team", "x"),)]
    assert snapshot.kinds == tuple(sorted(kind.kind for kind in LISTED_KINDS))
    assert snapshot.taken_at == TAKEN
    assert len(api.requests) == len(LISTED_KINDS)


def test_a_kind_that_may_not_be_seen_is_not_among_the_kinds(api: FakeApi, client: KubeClient) -> None:
    api.answer_next("GET", PATHS["PodDisruptionBudget"], 403)
    api.answer_next("GET", PATHS["LeaderWorkerSet"], 404)
    kinds = read_cluster(client, taken_at=TAKEN).kinds
    assert "PodDisruptionBudget" not in kinds
    assert "LeaderWorkerSet" not in kinds
    assert "Job" in kinds


def test_a_cluster_whose_pods_may_not_be_seen_is_not_an_empty_one(api: FakeApi, client: KubeClient) -> None:
    api.answer_next("GET", PATHS["Pod"], 403)
    with pytest.raises(ApiForbidden):
        read_cluster(client, taken_at=TAKEN)


def test_a_failure_is_not_taken_for_a_denial(api: FakeApi, client: KubeClient) -> None:
    api.answer_next("GET", PATHS["PodDisruptionBudget"], 500)
    with pytest.raises(ApiBusy):
        read_cluster(client, taken_at=TAKEN)


def test_objects_that_cannot_be_parsed_are_named(api: FakeApi, client: KubeClient) -> None:
    api.put(pod_object("odd", spec={"containers": "none"}), pod_object("a"))
    snapshot = read_cluster(client, taken_at=TAKEN)
    assert [pod.name for pod in snapshot.pods] == ["a"]
    assert len(snapshot.warnings) == 1
    assert snapshot.warnings[0].startswith("Pod default/odd is left out: spec.containers")


def test_only_the_client_needs_the_official_one() -> None:
    code = (
        "import sys, islander.kube.store, islander.kube.gather, islander.kube.parse;"
        "assert not {'kubernetes', 'urllib3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_client_does_not_load_the_models_of_the_official_one() -> None:
    """They are hundreds of modules; configuration, credentials and transport are some 35."""
    code = (
        "import sys, islander.kube.client;"
        "loaded = [m for m in sys.modules if m.startswith('kubernetes.client.models.')];"
        "assert not loaded, loaded[:3]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
