"""Kueue's objects as the API returns them, in both versions, and what scales and limits beside them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from islander.cluster.node import Taint
from islander.cluster.pod import Requirement, Toleration
from islander.cluster.queues import (
    Autoscaler,
    ClusterQueue,
    Cohort,
    FlavorFungibility,
    FlavorUsage,
    LocalQueue,
    NamespaceQuota,
    Preemption,
    QueueConfiguration,
    QueuedWorkload,
    Quota,
    ResourceFlavor,
)
from islander.kube.kinds import LISTED_KINDS
from islander.kube.parse import MalformedObject, UnusedObject, parse_object

GIB = 2**30

QUEUE: dict[str, Any] = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {
        "name": "serving",
        "uid": "u1",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team/contact": "chat"},
    },
    "spec": {
        "cohortName": "gpu",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "chat"}},
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "Hold",
        "fairSharing": {"weight": "2"},
        "preemption": {
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "Never"},
            "withinClusterQueue": "LowerPriority",
        },
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "dws", "onFlavors": ["h100"]}]},
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory", "nvidia.com/gpu"],
                "flavors": [
                    {
                        "name": "h100",
                        "resources": [
                            {"name": "cpu", "nominalQuota": "96500m"},
                            {"name": "memory", "nominalQuota": "960Gi"},
                            {"name": "nvidia.com/gpu", "nominalQuota": 12, "borrowingLimit": "0", "lendingLimit": "4"},
                        ],
                    }
                ],
            }
        ],
        "fieldOfTomorrow": {"kept": True},
    },
    "status": {
        "conditions": [{"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "no h100"}],
        "flavorsReservation": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "8"}]}],
        "flavorsUsage": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "8", "borrowed": "4"}]}],
        "pendingWorkloads": 3,
        "reservingWorkloads": 2,
        "admittedWorkloads": 1,
    },
}


def parsed(obj: dict[str, Any], kind: str = "") -> Any:
    return parse_object(msgspec.json.encode(obj), kind)


def of_v1beta1(obj: dict[str, Any]) -> dict[str, Any]:
    """The same queue as v1beta1 writes it."""
    old: dict[str, Any] = json.loads(json.dumps(obj))
    old["apiVersion"] = "kueue.x-k8s.io/v1beta1"
    old["spec"]["cohort"] = old["spec"].pop("cohortName")
    old["spec"]["flavorFungibility"] = {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}
    return old


def test_a_cluster_queue_is_read_whole() -> None:
    queue = parsed(QUEUE)
    assert isinstance(queue, ClusterQueue)
    (group,) = queue.resource_groups
    (flavor,) = group.flavors
    assert group.covered_resources == ("cpu", "memory", "nvidia.com/gpu")
    assert flavor.quota("cpu") == Quota("cpu", 96_500)
    assert flavor.quota("memory") == Quota("memory", 960 * GIB)
    assert flavor.quota("nvidia.com/gpu") == Quota("nvidia.com/gpu", 12, 0, 4)
    assert flavor.quota("amd.com/gpu") is None
    assert (queue.name, queue.cohort, queue.stop_policy, queue.fair_weight) == ("serving", "gpu", "Hold", "2")
    assert queue.namespace_selector == (Requirement("kubernetes.io/metadata.name", "In", ("chat",)),)
    assert queue.preemption == Preemption("Any", "Never", "LowerPriority")
    assert queue.fungibility == FlavorFungibility("MayStopSearch", "TryNextFlavor")
    assert queue.admission_checks == (("dws", ("h100",)),)
    assert queue.reservation == (FlavorUsage("h100", "nvidia.com/gpu", 8),)
    assert queue.usage == (FlavorUsage("h100", "nvidia.com/gpu", 8, 4),)
    assert (queue.pending_workloads, queue.reserving_workloads, queue.admitted_workloads) == (3, 2, 1)
    assert (queue.active, queue.inactive_reason, queue.inactive_message) == (False, "FlavorNotFound", "no h100")


def test_both_versions_give_the_same_values() -> None:
    new, old = parsed(QUEUE), parsed(of_v1beta1(QUEUE))
    assert (new.api_version, old.api_version) == ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
    assert msgspec.structs.replace(old, api_version=new.api_version, manifest=new.manifest) == new


def test_the_manifest_keeps_what_is_not_known_and_drops_what_the_server_wrote() -> None:
    manifest = json.loads(parsed(QUEUE).manifest)
    assert manifest["spec"] == QUEUE["spec"]
    assert manifest["metadata"] == {"name": "serving", "annotations": {"team/contact": "chat"}}
    assert set(manifest) == {"apiVersion", "kind", "metadata", "spec"}


def test_admission_checks_of_v1beta1_are_for_all_flavors() -> None:
    obj = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "q"}}
    assert parsed({**obj, "spec": {"admissionChecks": ["dws"]}}).admission_checks == (("dws", ()),)


@pytest.mark.parametrize(("selector", "right"), [({}, None), ({"namespaceSelector": {}}, ())])
def test_no_selector_lets_nobody_in_and_an_empty_one_everybody(selector: dict[str, Any], right: object) -> None:
    """V16."""
    obj = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": selector}
    assert parsed(obj).namespace_selector == right


@pytest.mark.parametrize("key", ["effectiveQuotas", "effectiveQuota"])
def test_quotas_that_another_controller_sets_are_read(key: str) -> None:
    group = QUEUE["spec"]["resourceGroups"]
    for kind in ("ClusterQueue", "Cohort"):
        obj = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "q"}}
        value = parsed({**obj, "status": {key: {"resourceGroups": group}}})
        assert [flavor.flavor for flavor in value.effective] == ["h100"]


def test_cohorts_name_their_parent_in_every_version() -> None:
    for version, key in (("v1beta2", "parentName"), ("v1beta1", "parentName"), ("v1alpha1", "parent")):
        obj = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "Cohort", "metadata": {"name": "gpu"}}
        cohort = parsed({**obj, "spec": {key: "root"}})
        assert isinstance(cohort, Cohort)
        assert (cohort.name, cohort.parent) == ("gpu", "root")


def test_local_queues_flavors_and_topologies_are_read() -> None:
    version = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    queue = parsed(
        {
            **version,
            "kind": "LocalQueue",
            "metadata": {"name": "lq", "namespace": "chat"},
            "spec": {"clusterQueue": "serving", "stopPolicy": "None"},
            "status": {"pendingWorkloads": 2},
        }
    )
    flavor = parsed(
        {
            **version,
            "kind": "ResourceFlavor",
            "metadata": {"name": "h100"},
            "spec": {
                "nodeLabels": {"nvidia.com/gpu.product": "H100", "a": None},
                "nodeTaints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "topologyName": "racks",
            },
        }
    )
    topology = parsed(
        {
            **version,
            "kind": "Topology",
            "metadata": {"name": "racks"},
            "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
        }
    )
    assert isinstance(queue, LocalQueue)
    assert (queue.namespace, queue.name, queue.cluster_queue, queue.pending_workloads) == ("chat", "lq", "serving", 2)
    assert isinstance(flavor, ResourceFlavor)
    assert flavor.node_labels == (("a", ""), ("nvidia.com/gpu.product", "H100"))
    assert flavor.node_taints == (Taint("gpu", "yes", "NoSchedule"),)
    assert flavor.tolerations == (Toleration("gpu", "Exists"),)
    assert flavor.topology == topology.name == "racks"
    assert topology.levels == ("rack", "kubernetes.io/hostname")
    assert all(value.manifest for value in (queue, flavor, topology))


WORKLOAD: dict[str, Any] = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {
        "name": "job-train",
        "namespace": "lab",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"kind": "Job", "name": "train", "uid": "u"}],
    },
    "spec": {
        "queueName": "lq",
        "priority": 10,
        "podSets": [
            {
                "name": "main",
                "count": 4,
                "topologyRequest": {"required": "rack"},
                "template": {
                    "spec": {
                        "containers": [
                            {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "8"}}}
                        ]
                    }
                },
            }
        ],
    },
}


def test_a_workload_that_waits_asks_for_what_its_template_says() -> None:
    waiting = {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota"}]}
    workload = parsed({**WORKLOAD, "status": waiting})
    assert isinstance(workload, QueuedWorkload)
    (pods,) = workload.pod_sets
    assert (pods.count, pods.requests) == (4, (("cpu", 1000), ("nvidia.com/gpu", 8)))
    assert pods.topology_request == "required rack"
    assert workload.owners == (("Job", "train"),)
    assert (workload.queue, workload.priority, workload.active) == ("lq", 10, True)
    assert (workload.admitted, workload.admitted_by, workload.pending_reason) == (False, "", "WaitingForQuota")


def test_an_admitted_workload_tells_flavors_and_what_quota_counts() -> None:
    when = "2026-01-01T00:05:00Z"
    status = {
        "conditions": [
            {"type": "QuotaReserved", "status": "True", "lastTransitionTime": when},
            {"type": "Admitted", "status": "True", "lastTransitionTime": when},
            {"type": "PodsReady", "status": "True", "lastTransitionTime": "2026-01-01T00:09:00Z"},
        ],
        "admission": {
            "clusterQueue": "batch",
            "podSetAssignments": [
                {
                    "name": "main",
                    "count": 2,
                    "flavors": {"nvidia.com/gpu": "h100"},
                    "resourceUsage": {"nvidia.com/gpu": "16"},
                }
            ],
        },
    }
    workload = parsed({**WORKLOAD, "status": status})
    (pods,) = workload.pod_sets
    assert (pods.count, pods.requests, pods.flavors) == (2, (("nvidia.com/gpu", 8),), (("nvidia.com/gpu", "h100"),))
    assert (workload.admitted_by, workload.admitted, workload.finished) == ("batch", True, False)
    assert (workload.admitted_at, workload.ready_at) == (when, "2026-01-01T00:09:00Z")


def test_a_workload_of_another_group_is_none_of_kueue() -> None:
    with pytest.raises(MalformedObject, match="not used"):
        parsed({"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload", "metadata": {"name": "w"}})


def test_autoscalers_have_the_defaults_of_their_api() -> None:
    meta = {"name": "a", "namespace": "chat"}
    target = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm"}}
    hpa = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": meta}
    keda = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": meta}
    assert parsed({**hpa, "spec": {**target, "maxReplicas": 3}}) == Autoscaler(
        "HorizontalPodAutoscaler", "chat", "a", "Deployment", "llm", 1, 3
    )
    assert parsed({**hpa, "spec": {**target, "minReplicas": 2, "maxReplicas": 3}}).min_replicas == 2
    assert parsed({**keda, "spec": {"scaleTargetRef": {"name": "llm"}}}) == Autoscaler(
        "ScaledObject", "chat", "a", "Deployment", "llm", 0, 100
    )
    with pytest.raises(MalformedObject, match=r"HorizontalPodAutoscaler chat/a: spec\.maxReplicas"):
        parsed({**hpa, "spec": target})


def test_resource_quotas_keep_their_keys() -> None:
    obj = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "chat"}}
    hard = {"requests.nvidia.com/gpu": "8", "requests.cpu": "4", "limits.memory": "1Gi", "pods": "10"}
    assert parsed({**obj, "spec": {"hard": hard}}) == NamespaceQuota(
        "chat",
        "q",
        (("limits.memory", GIB), ("pods", 10), ("requests.cpu", 4000), ("requests.nvidia.com/gpu", 8)),
    )


CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady:
  timeout: 1h10m30s
integrations:
  frameworks: [pod, deployment]
resources:
  excludeResourcePrefixes: [example.com/]
fairSharing:
  preemptionStrategies: [LessThanInitialShare]
"""
V1BETA1 = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"


def config_map(text: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": {"controller_manager_config.yaml": text},
    }


def test_the_configuration_is_read_out_of_its_config_map() -> None:
    assert parsed(config_map(CONFIGURATION)) == QueueConfiguration(
        4230, ("deployment", "pod"), ("example.com/",), fair_sharing=True
    )


@pytest.mark.parametrize(
    ("text", "seconds", "sharing"),
    [
        ("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration", None, False),
        (
            "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nwaitForPodsReady: {timeout: 5m}",
            None,
            False,
        ),
        (V1BETA1 + "waitForPodsReady: {enable: true}\nfairSharing: {enable: false}", 300, False),
    ],
)
def test_what_switches_a_block_on_depends_on_the_version(text: str, seconds: int | None, sharing: bool) -> None:
    found = parsed(config_map(text))
    assert (found.wait_for_pods_ready_seconds, found.fair_sharing) == (seconds, sharing)


def test_other_config_maps_are_not_used_and_broken_ones_are_named() -> None:
    with pytest.raises(UnusedObject):
        parsed({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}, "data": {"a": "b"}})
    with pytest.raises(MalformedObject, match="is not YAML"):
        parsed(config_map("{"))
    with pytest.raises(MalformedObject, match=r"waitForPodsReady\.timeout"):
        parsed(config_map(CONFIGURATION.replace("1h10m30s", "soon")))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (
            {"nominalQuota": "-1"},
            r"spec\.resourceGroups\[0\]\.flavors\[0\]\.resources\[0\]\.nominalQuota: -1 is negative",
        ),
        ({"lendingLimit": "many"}, r"resources\[0\]\.lendingLimit"),
        ({"name": ""}, r"resources\[0\]\.name: is missing"),
        ({"nominalQuota": [1]}, r"resourceGroups"),
    ],
)
def test_a_broken_quota_is_named_with_its_field(change: dict[str, Any], field: str) -> None:
    broken = json.loads(json.dumps(QUEUE))
    broken["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0].update(change)
    with pytest.raises(MalformedObject, match=rf"ClusterQueue serving: .*{field}"):
        parsed(broken)


QUEUE_KINDS = [
    k.kind for k in LISTED_KINDS if k.older_paths or k.kind in ("ConfigMap", "ScaledObject", "ResourceQuota")
]
FIELDS = ["metadata", "spec", "status", "name", "resourceGroups", "flavors", "resources", "nominalQuota", "podSets"]
FIELDS += ["template", "count", "levels", "conditions", "data", "hard", "nodeLabels", "scaleTargetRef", "admission"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner, max_size=4),
    max_leaves=14,
)


@settings(deadline=None)
@given(st.sampled_from(QUEUE_KINDS), JSON)
def test_no_object_however_odd_breaks_the_reading(kind: str, odd: Any) -> None:
    for obj in (odd, {"metadata": {"name": "q"}, "spec": odd, "status": odd, "data": odd}):
        with suppress(MalformedObject):
            assert parse_object(msgspec.json.encode(obj), kind) is not None
