"""API objects become cluster values at the door, and what is broken is named (G01, G02, G03, G05, G10, G15)."""

from __future__ import annotations

import gc
import json
from typing import Any

import msgspec
import pytest

from islander.cluster import names
from islander.cluster.node import Node, Taint
from islander.cluster.pod import (
    ContainerKind,
    HostPort,
    NodeTerm,
    Owner,
    Pod,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Toleration,
)
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload
from islander.kube import pod_spec
from islander.kube.parse import (
    MalformedObject,
    kind_of,
    parse_budget,
    parse_node,
    parse_object,
    parse_pod,
    parse_workload,
)
from tests.builders import GIB, container_object, node_object, pod_object

GPU = names.NVIDIA_GPU


def pod(**fields: Any) -> Pod:
    return parse_pod(json.dumps(pod_object(**fields)).encode())


def node(**fields: Any) -> Node:
    return parse_node(json.dumps(node_object(**fields)).encode())


def gpus(value: Pod) -> int:
    return value.spec.requests.count(GPU)


def refusal(document: dict[str, Any]) -> MalformedObject:
    with pytest.raises(MalformedObject) as caught:
        parse_object(json.dumps(document).encode())
    return caught.value


def test_a_limit_stands_for_a_missing_request() -> None:
    """G01, P1."""
    assert gpus(pod(containers=[container_object(limits={GPU: "4"})])) == 4


def test_a_request_that_differs_from_its_limit_is_refused_and_never_counted() -> None:
    """G01, P2."""
    error = refusal(pod_object("p2", containers=[container_object("vllm", requests={GPU: 6}, limits={GPU: 8})]))
    assert str(error) == (
        "Pod default/p2: spec.containers[vllm].resources.requests[nvidia.com/gpu]: request 6 and limit 8 must be equal"
    )


def test_init_containers_and_sidecars_count_in_the_order_of_the_spec() -> None:
    """G02."""
    init = container_object("init", gpus=8)
    sidecar = container_object("side", gpus=8, restartPolicy="Always")
    app = [container_object(gpus=8)]
    assert gpus(pod(init_containers=[init], containers=app)) == 8
    assert gpus(pod(init_containers=[sidecar], containers=app)) == 16
    no_gpu = container_object("init")
    assert (
        gpus(pod(init_containers=[no_gpu], containers=[container_object("a", gpus=2), container_object("b", gpus=2)]))
        == 4
    )
    one = container_object("side", gpus=1, restartPolicy="Always")
    assert gpus(pod(init_containers=[one], containers=[container_object(gpus=1)])) == 2


def test_every_container_keeps_its_own_request() -> None:
    """G03."""
    value = pod(containers=[container_object("a", gpus=2), container_object("b", gpus=1)])
    assert [(c.name, c.kind, c.requests.count(GPU)) for c in value.spec.containers] == [
        ("a", ContainerKind.APP, 2),
        ("b", ContainerKind.APP, 1),
    ]
    assert gpus(value) == 3


def test_finished_pods_hold_no_devices() -> None:
    """G05."""
    held = [
        gpus(value)
        for value in (
            pod(gpus=4, node="n1", phase="Succeeded"),
            pod(gpus=2, node="n1", phase="Failed", status={"reason": "UnexpectedAdmissionError"}),
            pod(gpus=2, node="n1", phase="Running"),
        )
        if value.holds_devices
    ]
    assert held == [2]


def test_a_terminating_pod_still_holds_its_devices() -> None:
    """G04, the state part."""
    value = pod(gpus=8, node="n1", metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"})
    assert value.holds_devices
    assert value.deleted == "2026-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "count"), [("1", 1), ("4", 4), ("3000m", 3), ("3Ki", 3072), ("1k", 1000), ("20k", 20000), ("0", 0)]
)
def test_gpu_counts_in_every_spelling_are_read(text: str, count: int) -> None:
    """G10."""
    assert gpus(pod(gpus=text)) == count


def test_a_gpu_count_may_be_a_json_number() -> None:
    """G10."""
    assert gpus(pod(containers=[container_object(limits={GPU: 1})])) == 1


@pytest.mark.parametrize("text", ["500m", "0.5", "1500m", "-1", "abc", ""])
def test_a_bad_gpu_count_names_pod_container_and_resource(text: str) -> None:
    """G10."""
    error = refusal(pod_object("p1", gpus=text))
    assert (error.kind, error.namespace, error.name) == ("Pod", "default", "p1")
    assert error.field == "spec.containers[vllm].resources.limits[nvidia.com/gpu]"
    assert repr(text) in error.message or text in error.message
    assert "\n" not in str(error)


def test_a_request_without_a_limit_is_counted() -> None:
    assert gpus(pod(containers=[container_object(requests={GPU: "2"})])) == 2


def test_cpu_and_memory_fall_back_to_the_limit_one_by_one() -> None:
    value = pod(containers=[container_object(requests={"cpu": "500m"}, limits={"cpu": "2", "memory": "1Gi"})])
    assert (value.spec.requests.cpu_milli, value.spec.requests.memory_bytes) == (500, GIB)


def test_resources_that_nobody_counts_are_not_even_read() -> None:
    assert pod(containers=[container_object(requests={"ephemeral-storage": "what"})]).spec.requests.extended == ()


def test_requests_of_the_pod_as_a_whole_and_overhead_are_counted() -> None:
    value = pod(
        containers=[container_object(requests={"cpu": "1", "memory": "1Gi"})],
        spec={"resources": {"requests": {"cpu": "6"}, "limits": {"memory": "9Gi"}}, "overhead": {"cpu": "250m"}},
    )
    assert value.spec.requests.cpu_milli == 6250
    assert value.spec.requests.memory_bytes == GIB
    limited = pod(gpus=None, spec={"resources": {"limits": {"memory": "9Gi"}}})
    assert limited.spec.requests.memory_bytes == 9 * GIB


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": None}},
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": None, "status": None},
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": "p", "labels": None, "ownerReferences": None},
            "spec": {},
        },
    ],
)
def test_whatever_is_optional_may_be_missing_or_null(document: dict[str, Any]) -> None:
    """G15, the nulls."""
    assert parse_object(json.dumps(document).encode()) == Pod(namespace="default", name="p")


def with_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return dict.fromkeys(value)
    return value


def test_every_field_of_every_part_may_be_null() -> None:
    """G15, the nulls."""
    full = {
        "containers": [with_nulls(container_object(gpus=1, command=[], args=[], env=[], ports=[], restartPolicy=""))],
        "initContainers": None,
        "affinity": {"nodeAffinity": None, "podAffinity": None, "podAntiAffinity": None},
        "tolerations": [{"key": None, "operator": None, "value": None, "effect": None}],
        "topologySpreadConstraints": [{"topologyKey": None, "maxSkew": None, "labelSelector": None}],
        "volumes": [{"name": None, "persistentVolumeClaim": None, "ephemeral": None}],
        "nodeSelector": {"a": None},
        "terminationGracePeriodSeconds": None,
        "priority": None,
        "nodeName": None,
    }
    value = pod(spec=full, metadata={"labels": {"app": None}})
    assert value.labels == (("app", ""),)
    assert value.spec.node_selector == (("a", ""),)
    assert value.spec.tolerations == (Toleration(),)
    assert value.spec.grace_seconds == 30


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metadata": {"labels": {"app": 1}}}, "metadata.labels"),
        ({"spec": {"containers": {}}}, "spec.containers"),
        ({"spec": {"nodeName": 7}}, "spec.nodeName"),
        ({"spec": {"tolerations": [{"key": []}]}}, "spec.tolerations[0].key"),
        ({"status": {"conditions": "Ready"}}, "status.conditions"),
        ({"spec": {"containers": [None]}}, "spec.containers[0]"),
        ({"spec": {"priority": "high"}}, "spec.priority"),
    ],
)
def test_a_wrong_type_names_the_object_and_the_field(change: dict[str, Any], field: str) -> None:
    error = refusal(pod_object("p9", namespace="team", **change))
    assert (error.kind, error.namespace, error.name) == ("Pod", "team", "p9")
    assert error.field.startswith(field)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"metadata": 1}', b'{"metadata": {"name": ""}}', b"[" * 100_000]
)
def test_what_is_no_object_is_malformed_and_nothing_else(raw: bytes) -> None:
    for parse in (parse_pod, parse_node, parse_budget):
        with pytest.raises(MalformedObject):
            parse(raw)


def test_a_deeply_nested_field_is_malformed_and_no_crash() -> None:
    raw = b'{"metadata":{"name":"p"},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(MalformedObject, match="not valid JSON"):
        parse_pod(raw)


def test_a_pod_says_where_it_is_and_what_became_of_it() -> None:
    value = pod(
        node="n1",
        labels={"b": "2", "a": "1"},
        annotations={names.TOPOLOGY: "required", "some/other": "x" * 1000},
        metadata={
            "ownerReferences": [
                {"kind": "Thing", "name": "not-in-charge"},
                {"kind": "ReplicaSet", "name": "web-1", "uid": "u1", "apiVersion": "apps/v1", "controller": True},
            ]
        },
        spec={"priority": 100, "priorityClassName": "high", "preemptionPolicy": "Never", "schedulerName": "islander"},
        status={"startTime": "2026-01-01T00:00:09Z", "conditions": [{"type": "Ready", "status": "True"}]},
    )
    assert (value.node, value.phase, value.ready, value.started) == ("n1", "Running", True, "2026-01-01T00:00:09Z")
    assert value.labels == (("a", "1"), ("b", "2"))
    assert value.annotations == ((names.TOPOLOGY, "required"),)
    assert value.owner == Owner("ReplicaSet", "web-1", "u1", "apps/v1")
    spec = value.spec
    assert (spec.priority, spec.priority_class, spec.preemption_policy) == (100, "high", "Never")
    assert spec.scheduler_name == "islander"


def test_a_pending_pod_says_why_and_what_is_nominated() -> None:
    value = pod(
        status={
            "nominatedNodeName": "n7",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
            ],
        },
        spec={"schedulingGates": [{"name": "x"}], "resourceClaims": [{"name": "gpu"}]},
    )
    assert (value.nominated_node, value.unschedulable_message) == ("n7", "0/3 nodes")
    assert value.spec.gated
    assert value.spec.resource_claims


def test_rules_of_placement_are_kept() -> None:
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    requirements = (Requirement("app", "In", ("a",)), Requirement("tier", "Exists"))
    value = pod(
        labels={"pod-template-hash": "abc"},
        spec={
            "nodeSelector": {"pool": "gpu"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
                                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
                            }
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
                },
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": selector, "topologyKey": names.HOSTNAME, "namespaceSelector": {}}
                    ]
                },
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": None, "topologyKey": names.ZONE, "namespaces": ["x"]}
                    ]
                },
            },
            "topologySpreadConstraints": [
                {
                    "topologyKey": names.ZONE,
                    "maxSkew": 2,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "a"}},
                    "matchLabelKeys": ["pod-template-hash", "absent"],
                },
                {"topologyKey": names.ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
            ],
            "tolerations": [{"operator": "Exists"}, {"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
        },
    ).spec
    assert value.node_selector == (("pool", "gpu"),)
    assert value.node_terms == (
        NodeTerm((Requirement("zone", "In", ("a", "b")),), (Requirement("metadata.name", "In", ("n1",)),)),
    )
    assert value.pod_anti_affinity == (PodTerm(names.HOSTNAME, requirements, (), ()),)
    assert value.pod_affinity == (PodTerm(names.ZONE, None, ("x",), None),)
    assert value.spread == (
        SpreadConstraint(
            names.ZONE, 2, (Requirement("app", "In", ("a",)), Requirement("pod-template-hash", "In", ("abc",))), 1
        ),
    )
    assert value.tolerations == (Toleration(operator="Exists"), Toleration("gpu", "Equal", "yes", "NoSchedule"))


def test_an_expression_without_operator_is_refused() -> None:
    term = {"labelSelector": {"matchExpressions": [{"key": "a"}]}, "topologyKey": "z"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert (
        refusal(pod_object(spec={"affinity": affinity})).field
        == "spec.affinity.podAffinity.labelSelector.matchExpressions"
    )


def test_ports_and_claims_of_a_pod_are_kept() -> None:
    value = pod(
        containers=[container_object(ports=[{"containerPort": 80, "hostPort": 8080}, {"containerPort": 90}])],
        init_containers=[container_object("init", ports=[{"containerPort": 1, "hostPort": 1}])],
        spec={
            "volumes": [
                {"name": "w", "persistentVolumeClaim": {"claimName": "weights"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "kube-api-access-x7k", "projected": {}},
            ]
        },
    ).spec
    assert value.host_ports == (HostPort(8080),)
    assert value.claims == ("p1-scratch", "weights")
    on_host = pod(
        containers=[container_object(ports=[{"containerPort": 90, "protocol": "UDP"}])], spec={"hostNetwork": True}
    )
    assert on_host.spec.host_ports == (HostPort(90, "UDP"),)


def test_words_and_variables_are_kept_only_where_they_carry_parallel_sizes() -> None:
    env = [
        {"name": "TENSOR_PARALLEL_SIZE", "value": "4"},
        {"name": "LWS_GROUP_SIZE", "value": "2"},
        {"name": "VLLM_DP_SIZE", "value": "3"},
        {"name": "SIZE", "value": "8"},
        {"name": "TOKEN", "value": "secret"},
        {"name": "PIPELINE_PARALLEL_SIZE", "valueFrom": {"configMapKeyRef": {}}},
    ]
    words: dict[str, Any] = {"command": ["vllm", "serve"], "args": ["-tp", "$(SIZE)"], "env": env}
    value = pod(containers=[container_object("a", gpus=8, **words), container_object("b", **words)]).spec
    assert value.containers[0].argv == ("vllm", "serve", "-tp", "$(SIZE)")
    assert dict(value.containers[0].env) == {
        "TENSOR_PARALLEL_SIZE": "4",
        "LWS_GROUP_SIZE": "2",
        "VLLM_DP_SIZE": "3",
        "SIZE": "8",
    }
    assert (value.containers[1].argv, value.containers[1].env) == ((), ())


def test_words_of_a_container_with_a_device_claim_are_kept() -> None:
    container = container_object(args=["-tp", "2"]) | {"resources": {"claims": [{"name": "gpu"}]}}
    assert pod(containers=[container]).spec.containers[0].argv == ("-tp", "2")


def test_secrets_in_a_command_are_not_kept() -> None:
    env = [{"name": "API_KEY", "value": "s3cret"}, {"name": "VLLM_DP_TOKEN", "value": "s3cret"}]
    container = container_object(
        gpus=1, args=["--api-key", "s3cret", "$(API_KEY)", "sh -c 'X_TOKEN=s3cret run'"], env=env
    )
    assert "s3cret" not in repr(pod(containers=[container]))


def of_template(i: int) -> Pod:
    volumes = [{"name": f"kube-api-access-{i}", "projected": {}}]
    container = container_object(gpus=2, args=["-tp", "2"], volumeMounts=[{"name": f"kube-api-access-{i}"}])
    other_env = {"env": [{"name": "POD_NUMBER", "value": str(i)}]}
    return pod(name=f"p{i}", node=f"n{i}", containers=[container | other_env], spec={"volumes": volumes})


def test_pods_of_one_template_share_one_spec() -> None:
    first, second = of_template(1), of_template(2)
    assert first.spec is second.spec
    assert first.spec is not pod(gpus=3).spec


def test_specs_leave_the_memory_with_their_last_pod() -> None:
    gc.collect()
    before = len(pod_spec._SPECS)
    value = pod(spec={"schedulerName": "unique-to-this-test"})
    assert len(pod_spec._SPECS) == before + 1
    del value
    gc.collect()
    assert len(pod_spec._SPECS) <= before


def test_a_node_says_what_it_offers_and_whether_it_accepts_pods() -> None:
    value = node(
        gpus=8, allocatable=6, taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}], unschedulable=True
    )
    assert (value.capacity.count(GPU), value.allocatable.count(GPU), value.max_pods) == (8, 6, 110)
    assert value.taints == (Taint("team", "x", "NoSchedule"),)
    assert value.unschedulable
    assert (value.ready, value.not_ready_reason) == (True, "")
    assert value.label(names.GPU_COUNT) == "8"


def test_a_node_that_is_not_ready_says_why() -> None:
    """G08, the state part."""
    assert (node(ready=False).ready, node(ready=False).not_ready_reason) == (False, "KubeletNotReady")
    document = node_object()
    document["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": None}]
    assert parse_node(json.dumps(document).encode()).not_ready_reason == "Ready is Unknown"
    document["status"]["conditions"] = [{"type": "DiskPressure", "status": "False"}]
    assert not parse_node(json.dumps(document).encode()).ready
    document["status"]["conditions"] = None
    assert parse_node(json.dumps(document).encode()).ready


def test_a_gpu_node_without_gpus_in_its_status_is_a_node() -> None:
    """G09, the parsing part."""
    value = node(gpus=0, labels={names.GPU_PRESENT: "true"})
    assert value.allocatable.count(GPU) == 0
    assert value.label(names.GPU_PRESENT) == "true"


def test_a_bad_amount_of_a_node_is_a_warning_and_counts_as_absent() -> None:
    document = node_object()
    document["status"]["allocatable"] |= {GPU: "500m", "cpu": "lots", "pods": "-1"}
    value = parse_node(json.dumps(document).encode())
    assert (value.allocatable.count(GPU), value.allocatable.cpu_milli, value.max_pods) == (0, 0, 110)
    assert len(value.warnings) == 3
    assert value.capacity.count(GPU) == 8


def test_a_million_bytes_of_status_are_not_kept() -> None:
    document = node_object()
    document["status"]["images"] = [{"names": ["x" * 1000], "sizeBytes": 1} for _ in range(1000)]
    assert len(msgspec.json.encode(parse_node(json.dumps(document).encode()))) < 2000


def test_the_report_of_a_node_is_parsed_once_at_the_door() -> None:
    good = node(annotations={names.GPUS: '{"v": 1, "gpus": [{"index": 0, "pod": "ns/p"}]}', names.HARDWARE: "x"})
    assert good.gpu_report is not None
    assert good.gpu_report.gpus[0].pod == "ns/p"
    assert good.annotations == ((names.HARDWARE, "x"),)
    bad = node(annotations={names.GPUS: "{"})
    assert bad.gpu_report is None
    assert bad.warnings[0].startswith("annotation islander.dev/gpus: it is ignored")


def workload(kind: str, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> Workload:
    document = {"metadata": {"name": "w", "namespace": "ns"}, "spec": spec, "status": status}
    return parse_workload(json.dumps(document).encode(), kind)


@pytest.mark.parametrize(
    ("kind", "spec", "status", "replicas", "ready"),
    [
        ("Deployment", {"replicas": 3}, {"readyReplicas": 2}, 3, 2),
        ("ReplicaSet", {"replicas": 0}, {}, 0, 0),
        ("StatefulSet", {}, None, 1, 0),
        ("DaemonSet", {}, {"desiredNumberScheduled": 5, "numberReady": 4}, 5, 4),
        ("Job", {"parallelism": 2}, {"ready": 1}, 2, 1),
        ("DaemonSet", None, None, None, 0),
    ],
)
def test_controllers_say_how_many_pods_they_want(
    kind: str, spec: dict[str, Any], status: dict[str, Any], replicas: int | None, ready: int
) -> None:
    value = workload(kind, spec, status)
    assert (value.kind, value.replicas, value.ready_replicas, value.group_size) == (kind, replicas, ready, 1)


def test_a_leader_worker_set_says_how_large_its_groups_are() -> None:
    value = workload("LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {"size": 4}})
    assert (value.replicas, value.group_size) == (2, 4)


def test_a_budget_keeps_its_selector_and_numbers() -> None:
    document = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"minAvailable": 2, "selector": {}, "maxUnavailable": "25%"},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2},
    }
    value = parse_object(json.dumps(document).encode())
    assert value == DisruptionBudget("ns", "b", (), "2", "25%", 1, 3, 2)
    del document["spec"]
    nothing = parse_object(json.dumps(document).encode())
    assert isinstance(nothing, DisruptionBudget)
    assert nothing.selector is None


def test_classes_and_namespaces_are_read() -> None:
    priority = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": "high"}, "value": 7}
    assert parse_object(json.dumps(priority).encode()) == PriorityClass("high", 7)
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"x": "y"}}}
    assert parse_object(json.dumps(namespace).encode()) == Namespace("a", (("x", "y"),))


def test_items_of_a_typed_list_are_read_without_a_kind() -> None:
    document = pod_object()
    del document["kind"], document["apiVersion"]
    assert isinstance(parse_object(json.dumps(document).encode(), "Pod"), Pod)


@pytest.mark.parametrize(
    ("api_version", "kind"), [("v1", "Secret"), ("batch.volcano.sh/v1alpha1", "Job"), ("v1", ""), ("apps/v1", "Pod")]
)
def test_kinds_of_other_groups_are_not_mistaken_for_ours(api_version: str, kind: str) -> None:
    error = refusal({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})
    assert (error.field, error.name) == ("kind", "x")


def test_the_kind_of_a_document_is_read_without_the_rest() -> None:
    assert kind_of(b'{"apiVersion": "apps/v1", "kind": "Deployment", "spec": 1}') == ("apps", "Deployment")
    assert kind_of(b'{"apiVersion": "v1", "kind": "Pod"}') == ("", "Pod")
