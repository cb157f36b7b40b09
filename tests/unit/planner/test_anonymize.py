"""An anonymised snapshot names nobody, and everything that decides stays."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum
from itertools import count
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from islander.cluster import names
from islander.cluster.node import MigDevice, Node, ReportedGpu, Taint
from islander.cluster.pod import Container, HostPort, NodeTerm, Owner, Pod, Requirement, SpreadConstraint, Toleration
from islander.cluster.queues import LocalQueue, NamespaceQuota, PodSet, QueuedWorkload
from islander.cluster.snapshot import ClusterSnapshot, ShapeWeight
from islander.cluster.snapshot_json import encode_snapshot
from islander.cluster.vllm import Reading, read_container
from islander.policy.settings import PolicySettings
from planner.anonymize import anonymized
from planner.invented_names import KEPT_WORDS, invented_words, renamed
from planner.movability import group_of, is_system
from planner.plain_command import with_plain_command
from planner.quota.capacity import capacities
from planner.quota.finding_codes import FindingCode
from planner.quota.findings import findings_of
from tests.builders import (
    H100,
    a_budget,
    a_claim,
    a_cluster_queue,
    a_container,
    a_flavor,
    a_node,
    a_pod,
    a_report,
    a_resource_claim,
    a_resource_slice,
    a_snapshot,
    a_volume,
    a_workload,
    owned_by,
    quotas,
)


def text_of(snapshot: ClusterSnapshot) -> str:
    return encode_snapshot(snapshot).decode()


def only_node(node: Node) -> Node:
    return anonymized(a_snapshot(node)).nodes[0]


def only_pod(pod: Pod) -> Pod:
    return anonymized(a_snapshot(a_node(), pod)).pods[0]


def filled(kind: Any, texts: count[int]) -> Any:
    """A value of a type with a text of its own wherever there is room for a text."""
    arguments = get_args(kind)
    if kind is str:
        return f"Zebra{next(texts)}"
    if kind in (int, float, bool):
        return kind(1)
    if get_origin(kind) in (Union, UnionType):
        return filled(next(part for part in arguments if part is not NoneType), texts)
    if get_origin(kind) is tuple:
        return tuple(filled(part, texts) for part in arguments if part is not Ellipsis)
    if issubclass(kind, Enum):
        return next(iter(kind))
    hints = get_type_hints(kind)
    return kind(**{name: filled(hints[name], texts) for name in kind.__struct_fields__})


def test_no_text_of_any_field_gets_through() -> None:
    texts = count()
    everything = filled(ClusterSnapshot, texts)
    assert next(texts) > 80
    assert "Zebra" in text_of(everything)
    assert "Zebra" not in text_of(anonymized(everything))


def test_a_new_field_is_thought_of() -> None:
    """The fields are named one by one, so a field that is forgotten would silently be empty."""
    everything = filled(ClusterSnapshot, count())

    def shape(value: Any) -> Any:
        if isinstance(value, msgspec.Struct):
            return {name: shape(getattr(value, name)) for name in value.__struct_fields__}
        return [shape(part) for part in value] if isinstance(value, tuple) else bool(value)

    original, copy = shape(everything), shape(anonymized(everything))
    for left_out in ("kinds",):
        del original[left_out], copy[left_out]
    # Annotations that are not known are dropped, as they are when an object is read.
    for part in ("nodes", "pods"):
        original[part][0]["annotations"] = copy[part][0]["annotations"] = None
    # A manifest is the object once more, in the words of its author.
    for part in ("cluster_queues", "cohorts", "local_queues", "resource_flavors", "queue_topologies"):
        assert original[part][0].pop("manifest")
        assert not copy[part][0].pop("manifest")
    # Of a command nothing was understood.
    spec = original["pods"][0]["spec"]["containers"][0]
    spec["env"] = copy["pods"][0]["spec"]["containers"][0]["env"] = None
    assert copy == original


def test_one_name_is_replaced_by_the_same_one_everywhere() -> None:
    web = a_workload("llama", namespace="chat", replicas=2)
    snapshot = anonymized(
        a_snapshot(
            a_node("gpu-a", report=a_report(used={0: "chat/llama-1"})),
            web,
            a_budget("llama", namespace="chat", labels={"app": "llama"}),
            a_resource_slice("gpu-a"),
            a_claim("data", volume="disk", namespace="chat"),
            a_volume("disk", hostname="gpu-a"),
            a_pod(
                "llama-1",
                namespace="chat",
                node="gpu-a",
                labels={"app": "llama"},
                owner=owned_by(web),
                node_selector={names.HOSTNAME: "gpu-a"},
                claims=("data",),
                spread=(SpreadConstraint(names.HOSTNAME, 1, (Requirement("app", "In", ("llama",)),)),),
            ),
        )
    )
    (node,), (pod,), (budget,), (claim,), (volume,) = (
        snapshot.nodes,
        snapshot.pods,
        snapshot.budgets,
        snapshot.claims,
        snapshot.volumes,
    )
    assert node.name not in ("gpu-a", "")
    assert {pod.node, node.label(names.HOSTNAME), dict(pod.spec.node_selector)[names.HOSTNAME]} == {node.name}
    assert volume.node_terms is not None
    assert volume.node_terms[0].labels[0].values == (node.name,)
    assert snapshot.resource_slices[0].node == node.name
    assert node.gpu_report is not None
    assert node.gpu_report.gpus[0].pod == pod.key
    assert budget.selector is not None
    app = pod.label("app")
    assert budget.selector == pod.spec.spread[0].selector
    assert budget.selector[0].values == (app,)
    assert pod.owner is not None
    assert {pod.owner.name, snapshot.workloads[0].name, budget.name} == {app}
    assert pod.owner.uid == snapshot.workloads[0].uid
    assert (claim.name, claim.volume) == (pod.spec.claims[0], volume.name)
    assert {pod.namespace, budget.namespace, claim.namespace} == {snapshot.workloads[0].namespace}
    assert pod.name.startswith(f"{app}-")


def test_amounts_products_and_the_words_of_kubernetes_stay() -> None:
    node = only_node(
        a_node(
            labels={names.GPU_SHARING_STRATEGY: "none", "topology.kubernetes.io/zone": "frankfurt-1", "team": "falcon"},
            taints=[Taint("nvidia.com/gpu", "true"), Taint("acme.example/falcon", "falcon", "NoExecute")],
        )
    )
    labels = dict(node.labels)
    assert (labels[names.GPU_PRODUCT], labels[names.GPU_COUNT], labels[names.GPU_PRESENT]) == (H100, "8", "true")
    assert labels[names.GPU_SHARING_STRATEGY] == "none"
    assert labels[names.ZONE] != "frankfurt-1"
    assert node.taints[0] == Taint("nvidia.com/gpu", "true")
    assert node.taints[1].effect == "NoExecute"
    assert "falcon" not in str(node)
    assert "acme" not in str(node)


@pytest.mark.parametrize(
    ("label", "right"),
    [
        (f"{H100}-SHARED", f"{H100}-SHARED"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
        ("Falcon-9000-SHARED", r"\w+-\w+-SHARED"),
        ("Falcon-9000-MIG-1g.5gb", r"\w+-\w+-MIG-1g\.5gb"),
    ],
)
def test_a_product_that_is_not_in_the_catalogue_loses_its_name_but_not_its_kind(label: str, right: str) -> None:
    product = only_node(a_node(product=label)).label(names.GPU_PRODUCT)
    assert product is not None
    assert re.fullmatch(right, product)
    assert "Falcon" not in product


def test_what_a_node_reports_keeps_links_and_loses_uuids() -> None:
    links = (("X", "NV12", "FALCON"), ("NV12", "X", "falcon"), ("N/A", "NODE+NV4", "X"))
    report = msgspec.structs.replace(
        a_report(3, links=links),
        gpus=(
            ReportedGpu(0, uuid="GPU-falcon", product="NVIDIA H100 80GB HBM3"),
            ReportedGpu(1, mig=(MigDevice("1g.10gb", 0, "chat/falcon"),)),
            ReportedGpu(2, product="Falcon"),
        ),
    )
    node = only_node(a_node(gpus=3, report=report))
    assert node.gpu_report is not None
    assert node.gpu_report.links == (("X", "NV12", "N/A"), ("NV12", "X", "no link"), ("N/A", "NODE+NV4", "X"))
    assert node.gpu_report.gpus[0].product == "NVIDIA H100 80GB HBM3"
    assert node.gpu_report.gpus[1].mig[0].profile == "1g.10gb"
    assert "falcon" not in str(node).lower()


def test_numbers_that_are_compared_stay_numbers_and_others_do_not() -> None:
    node = a_node(labels={"generation": "1234", "customer": "5678"})
    newer = Requirement("generation", "Gt", ("1000",))
    pod = a_pod("p", node_terms=(NodeTerm((newer,)),))
    snapshot = anonymized(a_snapshot(node, pod))
    values = {value for _, value in snapshot.nodes[0].labels}
    assert "1234" in values
    assert "5678" not in values


def test_what_makes_a_pod_special_stays() -> None:
    system = a_pod("dcgm", namespace="kube-system", owner=Owner("DaemonSet", "dcgm", "u", "apps/v1"))
    critical = a_pod("p", priority_class="system-node-critical")
    member = a_pod("p", labels={names.LWS_NAME: "falcon", names.LWS_GROUP_INDEX: "3"})
    held = a_pod(
        "p",
        annotations={names.MOVABLE: "false", names.RELOAD_SECONDS: "90", names.TENSOR_PARALLEL_SIZE: " 4 "},
        topology="required",
    )
    assert only_pod(system).namespace == "kube-system"
    owner = only_pod(system).owner
    assert owner is not None
    assert (owner.kind, owner.api_version) == ("DaemonSet", "apps/v1")
    assert is_system(only_pod(critical))
    assert str(group_of(only_pod(member))).endswith("/3")
    assert only_pod(held).annotations == held.annotations


def test_an_owner_of_another_group_stays_one_of_another_group() -> None:
    owner = only_pod(a_pod("p", owner=Owner("StatefulSet", "w", "u", "apps.kruise.io/v1"))).owner
    assert owner is not None
    assert owner.kind == "StatefulSet"
    assert owner.api_version.endswith("/v1")
    assert "kruise" not in owner.api_version


def test_the_deployment_is_still_read_from_the_name_of_its_replica_set() -> None:
    """Also without ReplicaSets in the dump."""
    labels = {"pod-template-hash": "7c9f"}
    owner = Owner("ReplicaSet", "falcon-70b-7c9f", "u", "apps/v1")
    snapshot = anonymized(a_snapshot(a_node(), a_pod("p", labels=labels, owner=owner)))
    pod = snapshot.pods[0]
    assert pod.owner is not None
    assert snapshot.owners.workload_of(pod) == f"Deployment/{pod.owner.name.rpartition('-')[0]}"


def test_gpus_of_another_vendor_still_count_as_gpus() -> None:
    resource = only_node(a_node(gpu_resource="gpu.falcon.example/i915", product=None)).allocatable.extended[0][0]
    assert "gpu" in resource
    assert "falcon" not in resource


def test_texts_of_people_and_programs_are_left_out() -> None:
    node = a_node("gpu-a", warnings=["label falcon is odd"], ready=False)
    pod = msgspec.structs.replace(a_pod("p"), unschedulable_message="0/1 nodes: falcon")
    snapshot = anonymized(a_snapshot(node, pod, warnings=["/home/falcon/dump.json: broken", "more"]))
    assert "falcon" not in text_of(snapshot)
    assert snapshot.warnings == ("2 warnings of the original are left out: they may hold names",)
    assert snapshot.nodes[0].not_ready_reason == "KubeletNotReady"
    assert len(snapshot.nodes[0].warnings) == 1
    assert snapshot.pods[0].unschedulable_message


def test_ports_and_tolerations_stay_and_addresses_go() -> None:
    ports = (HostPort(80), HostPort(81, host_ip="10.11.12.13"))
    pod = only_pod(a_pod("p", host_ports=ports, tolerations=[Toleration("team", "Equal", "falcon", "NoSchedule")]))
    assert pod.spec.host_ports[0] == HostPort(80)
    assert pod.spec.host_ports[1].port == 81
    assert "10.11" not in pod.spec.host_ports[1].host_ip
    assert pod.spec.tolerations[0].effect == "NoSchedule"
    assert pod.spec.tolerations[0].value not in ("falcon", "")


def test_the_configured_mix_of_a_cluster_stays() -> None:
    mix = (ShapeWeight(4, True, 2.5),)
    snapshot = msgspec.structs.replace(a_snapshot(a_node()), demand_mix=mix)
    assert anonymized(snapshot).demand_mix == mix


NAMES = ["team", "team-a", "team.a", "team-a-1", "teama", "0", "10", "2", "a/b", "a-b/c", "kube-system", "kubelet", "z"]


def test_invented_names_sort_as_the_names_did() -> None:
    words = {word for name in NAMES for word in re.split("[-./]", name)}
    invented = invented_words(words)
    assert sorted(NAMES) == sorted(NAMES, key=lambda name: renamed(name, invented.__getitem__))
    assert len({renamed(name, invented.__getitem__) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("kept", KEPT_WORDS)
def test_words_around_a_kept_one_stay_around_it(kept: str) -> None:
    for crowd in ([], ["a1", "e1", "kc1", "n1", "resf1", "rt1", "s1", "w1"]):
        before, after = f"{kept[:-1]}{chr(ord(kept[-1]) - 1)}", f"{kept}x"
        words = invented_words([before, kept, after, *crowd])
        assert words[before] < words[kept] == kept < words[after]


def test_an_invented_name_is_never_one_that_was_there() -> None:
    once = anonymized(a_snapshot(a_node("falcon-1"), a_pod("owl-2", node="falcon-1")))
    again = anonymized(once)
    assert {once.nodes[0].name, once.pods[0].name}.isdisjoint({again.nodes[0].name, again.pods[0].name})


@pytest.mark.parametrize(
    "words",
    [
        [f"{letter}{number}" for letter in "aenw" for number in range(10)],
        [f"a{number:02}" for number in range(100)],
        [f"{letter}{number:03}" for letter in "abcdeknrstw" for number in range(150)],
    ],
)
def test_no_word_shows_up_in_an_invented_one(words: list[str]) -> None:
    new_of = invented_words(words)
    invented = [new for old, new in new_of.items() if old not in KEPT_WORDS]
    assert not [word for word in words if any(word in new for new in invented)]
    assert sorted(invented) == [new_of[word] for word in sorted(words)]


def test_where_every_word_is_taken_names_are_invented_all_the_same() -> None:
    taken = [f"{letter}{number}" for letter in "abcdefghijklmnopqrstuvwxyz" for number in range(10)]
    assert len(set(invented_words(taken).values())) == len(taken) + len(KEPT_WORDS)


def test_the_same_snapshot_gives_the_same_bytes() -> None:
    snapshot = a_snapshot(a_node("b"), a_node("a"), a_pod("p", node="a", labels={"x": "y", "v": "w"}))
    assert text_of(anonymized(snapshot)) == text_of(anonymized(snapshot))


SERVE = ("vllm", "serve", "falcon/secret-70b")


def known(container: Container) -> Reading:
    """What is read of a container, without the texts that stand where a number should."""
    reading = read_container(container)
    return replace(reading, unknown=tuple((name, "text" if text else "") for name, text in reading.unknown))


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        ((*SERVE, "--tensor-parallel-size", "4", "--api-server", "falcon.example:80"), {}),
        ((*SERVE, "-tp=2", "-pp", "2", "-dp", "4", "-dpl", "2", "--nnodes", "2", "-pcp", "1"), {}),
        ((*SERVE, "-dp", "4", "--data-parallel-rank", "1", "-dpl", "0"), {}),
        ((*SERVE, "-tp", "falcon"), {}),
        ((*SERVE, "-tp", "$(FALCON)", "-pp", "2"), {}),
        ((*SERVE, "-tp", "$(FALCON)"), {"FALCON": "8"}),
        ((*SERVE, "--config", "/falcon/config.yaml"), {}),
        ((*SERVE, "--headless", "-tp", "8"), {}),
        (("sh", "-c", "vllm serve falcon -tp 4 & vllm serve owl -tp 2; wait"), {}),
        (("sh", "-c", "run falcon --tensor-parallel-size 4; run owl --tensor-parallel-size 4"), {}),
        (("sh", "-c", "ray start --address falcon; run --tensor-parallel-size 4"), {}),
        (("ray", "start", "--address", "falcon"), {}),
        (("/falcon.sh", "--tensor-parallel-size", "4"), {}),
        (("sleep", "falcon"), {}),
        (("python3", "-m", "huggingfaceserver"), {"TENSOR_PARALLEL_SIZE": "4", "PIPELINE_PARALLEL_SIZE": "2"}),
        (("python3", "-m", "huggingfaceserver", "-pp", "2", "-dpl", "2"), {"TENSOR_PARALLEL_SIZE": "falcon"}),
        (("falcon",), {"LWS_GROUP_SIZE": "2", "DATA_PARALLEL_SIZE": "$X"}),
        ((), {}),
    ],
)
def test_a_plain_command_says_of_the_sizes_what_the_original_said(argv: tuple[str, ...], env: dict[str, str]) -> None:
    for image in ("", "registry.falcon.example/falcon/vllm-openai:v1"):
        container = a_container(gpus=8, argv=argv, env=env, image=image)
        plain = with_plain_command(container, lambda word: "x7")
        assert known(plain) == known(container)
        assert "falcon" not in str((plain.argv, plain.env))
        assert bool(plain.argv or plain.env) >= bool(argv or env)


def test_quotas_are_judged_as_before() -> None:
    """Names decide whose quota a pod counts in, and which nodes a flavor names."""
    label = {"pool.example.com/kind": "Fast"}
    nodes = (a_node("gpu-a", labels=label), a_node("gpu-b", labels=label), a_node("gpu-c", product="NVIDIA-H200"))
    snapshot = a_snapshot(
        *nodes,
        a_flavor("fast", labels=label),
        a_flavor("any"),
        a_cluster_queue("chat", quotas("fast", 20, lend=3), cohort="Pool", namespaces=("talk",)),
        a_cluster_queue("lab", quotas("any", 8), cohort="Pool", stop_policy="Hold", effective=(quotas("any", 4),)),
        LocalQueue("talk", "door", cluster_queue="chat"),
        LocalQueue("other", "door", cluster_queue="chat"),
        NamespaceQuota("talk", "limits", (("requests.nvidia.com/gpu", 8),)),
        QueuedWorkload("talk", "job", queue="door", pod_sets=(PodSet("main", 3, (("nvidia.com/gpu", 16),)),)),
        a_pod("llm", namespace="talk", gpus=4, node="gpu-a", labels={names.KUEUE_QUEUE: "door"}),
        a_pod("old", namespace="talk", gpus=2, node="gpu-b"),
        a_resource_claim("gpu-7", node="gpu-b"),
    )
    found = [
        [
            (c.resource, c.unit, c.arithmetic, c.usable, sorted(count for _, count in c.held_outside), c.placeable)
            for c in capacities(one, PolicySettings(), 1)
        ]
        for one in (snapshot, anonymized(snapshot))
    ]
    assert sorted(map(str, found[0])) == sorted(map(str, found[1]))
    before, after = (findings_of(one, PolicySettings()) for one in (snapshot, anonymized(snapshot)))
    assert sorted((one.code, one.severity) for one in after) == sorted((one.code, one.severity) for one in before)
    assert {FindingCode.QUOTA_ABOVE_CAPACITY, FindingCode.NAMESPACE_SHUT_OUT} <= {one.code for one in before}
    assert not any(word in text_of(anonymized(snapshot)) for word in ("chat", "talk", "fast", "Fast", "door", "Pool"))
