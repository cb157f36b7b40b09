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


def test_an_older_version_is_asked_where_the_newer_one_is_not_served(api: FakeApi, client: KubeClient) -> None:
    for kind in ("ClusterQueue", "Topology"):
        api.answer_next("GET", PATHS[kind], 404)
    read_cluster(client, taken_at=TAKEN)
    asked = [request.path for request in api.requests]
    assert "/apis/kueue.x-k8s.io/v1beta1/clusterqueues" in asked
    # What v1beta1 does not serve either is asked for once more, and then not looked at.
    assert "/apis/kueue.x-k8s.io/v1alpha1/topologies" in asked
    assert "/apis/kueue.x-k8s.io/v1beta1/localqueues" not in asked


def test_queues_and_the_one_config_map_of_kueue_are_read(api: FakeApi, client: KubeClient) -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nwaitForPodsReady: {timeout: 10m}"
    api.put(
        {"kind": "ClusterQueue", "metadata": {"name": "b"}},
        {"kind": "ClusterQueue", "metadata": {"name": "a"}},
        {"kind": "LocalQueue", "metadata": {"name": "lq", "namespace": "chat"}, "spec": {"clusterQueue": "a"}},
        {"kind": "Workload", "metadata": {"name": "w", "namespace": "chat"}},
        {
            "kind": "ConfigMap",
            "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
            "data": {"controller_manager_config.yaml": text},
        },
    )
    snapshot = read_cluster(client, taken_at=TAKEN)
    assert [queue.name for queue in snapshot.cluster_queues] == ["a", "b"]
    assert [queue.cluster_queue for queue in snapshot.local_queues] == ["a"]
    assert [workload.name for workload in snapshot.queued_workloads] == ["w"]
    assert snapshot.queue_configuration is not None
    assert snapshot.queue_configuration.wait_for_pods_ready_seconds == 600
    (request,) = (request for request in api.requests if request.path == PATHS["ConfigMap"])
    assert request.params["fieldSelector"] == "metadata.name=kueue-manager-config"


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
