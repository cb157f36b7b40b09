"""On an anonymised snapshot everything is decided as on the original, up to names."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from islander.cluster import names
from islander.cluster.node import Node, Taint
from islander.cluster.pod import HostPort, NodeTerm, Pod, PodTerm, Requirement, SpreadConstraint, Toleration
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import decode_snapshot, encode_snapshot
from islander.cluster.vllm import Reading, read_container
from islander.policy.explain import explain_pod
from islander.policy.settings import PolicySettings
from islander.policy.status import cluster_status
from planner.anonymize import anonymized
from planner.check import check_plan
from planner.moves import plan_moves
from planner.options import Goal, PlanOptions
from planner.plain_command import with_plain_command
from tests.builders import (
    a_budget,
    a_claim,
    a_container,
    a_node,
    a_pod,
    a_report,
    a_snapshot,
    a_volume,
    a_workload,
    owned_by,
)
from tests.random_instances import PAIRS_OF_FOUR, PCIE, random_case

SETTINGS, ALL_PENDING = PolicySettings(), PlanOptions()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
# Names whose order is not that of their beginnings, names inside of others, and names like invented ones.
STEMS = ("llama", "llama-70b", "llama.70b", "acme", "acme-a", "acmea", "kubelet", "Zeus", "a01", "w02", "falcon-9", "9")
NAMESPACES = ("team", "team-a", "teama", "kube-system", "zoo", "default")


def tangled(seed: int) -> ClusterSnapshot:
    """A small cluster in which labels, rules between pods, volumes, taints, budgets and reports all bind pods."""
    random = Random(seed)
    zones = ["frankfurt-1", "frankfurt-2"]
    nodes: list[Node] = []
    for number, stem in enumerate(random.sample(STEMS, random.randint(2, 4))):
        name = f"{stem}-n{number}"
        labels = {names.ZONE: random.choice(zones), "acme.example/rack": str(number), "generation": str(8 + number)}
        taints = [Taint("acme.example/only", "falcon")] if random.random() < 0.25 else []
        bridged = random.random() < 0.4
        report = a_report(4, links=PAIRS_OF_FOUR) if bridged else None
        product = PCIE if bridged else random.choice([names.GPU_PRODUCT, "NVIDIA-H100-80GB-HBM3", "Falcon-9000"])
        nodes.append(
            a_node(
                name,
                gpus=4,
                product=product,
                labels=labels,
                taints=taints,
                report=report,
                unschedulable=random.random() < 0.1,
            )
        )
    free = {node.name: 4 for node in nodes}
    things: list[Any] = list(nodes)
    for number in range(random.randint(5, 9)):
        gpus = random.choice([1, 1, 2, 2, 3]) if number > 1 else random.choice([2, 3, 4])
        stem, namespace = random.choice(STEMS), random.choice(NAMESPACES)
        homes = sorted(name for name, left in free.items() if left >= gpus)
        home = random.choice(homes) if homes and number > 1 else ""
        things += pod_and_owner(random, f"{stem.lower()}-{number}", namespace, gpus, home, nodes)
        if home:
            free[home] -= gpus
    return a_snapshot(*things, warnings=["/home/falcon/dump.json is odd"])


def pod_and_owner(random: Random, name: str, namespace: str, gpus: int, home: str, nodes: list[Node]) -> list[Any]:
    workload = a_workload(name, namespace=namespace, replicas=random.choice([1, 2, 3, 3]))
    chance = random.random
    app = {"app": random.choice(["falcon", "owl"]), "team": namespace}
    same = (Requirement("app", "In", (app["app"],)),)
    rules: dict[str, Any] = {}
    if chance() < 0.12:
        rules["pod_anti_affinity"] = (PodTerm(names.HOSTNAME, same),)
    if chance() < 0.12:
        rules["spread"] = (SpreadConstraint(names.ZONE, 1, same),)
    if chance() < 0.12:
        rules["node_terms"] = (NodeTerm((Requirement("generation", "Gt", ("8",)),)),)
    if chance() < 0.12:
        rules["node_selector"] = {names.HOSTNAME: random.choice(nodes).name}
    if chance() < 0.3:
        rules["tolerations"] = [Toleration("acme.example/only", value="falcon")]
    if chance() < 0.1:
        rules["host_ports"] = (HostPort(80, host_ip="10.20.30.40"),)
    found: list[Any] = [workload]
    if chance() < 0.25:
        rules["claims"] = (f"data-{name}",)
        found.append(a_claim(f"data-{name}", volume=f"pv-{name}", namespace=namespace, mode="ReadWriteMany"))
        found.append(a_volume(f"pv-{name}", zone=random.choice(["frankfurt-1", "frankfurt-2"])))
    if chance() < 0.4:
        found.append(a_budget(name, namespace=namespace, labels=app, allowed=random.choice([0, 1, 1, 2])))
    tp = gpus if gpus != 3 and chance() < 0.6 else None
    argv = ("vllm", "serve", "falcon/secret", "--host", "falcon.example", *(("-tp", str(tp)) if tp else ()))
    found.append(
        a_pod(
            f"{name}-x",
            namespace=namespace,
            node=home,
            containers=[a_container(gpus=gpus, argv=argv, cpu=1, image="falcon.example/vllm:1")],
            topology="required" if tp and chance() < 0.3 else None,
            priority=random.choice([0, 0, 10]),
            owner=owned_by(workload) if chance() < 0.9 else None,
            labels=app,
            **rules,
        )
    )
    return found


def translation(original: ClusterSnapshot, copy: ClusterSnapshot) -> dict[str, str]:
    """What each name of the original is called in the copy."""
    found: dict[str, str] = {}
    for one, other in zip(original.nodes, copy.nodes, strict=True):
        found |= {one.name: other.name, one.label(names.GPU_PRODUCT) or "": other.label(names.GPU_PRODUCT) or ""}
        for taint, taint_copy in zip(one.taints, other.taints, strict=True):
            found[f"{taint.key}={taint.value}"] = f"{taint_copy.key}={taint_copy.value}"
    for pod, pod_copy in zip(original.pods, copy.pods, strict=True):
        found |= {pod.key: pod_copy.key, pod.uid: pod_copy.uid}
        owner, owner_copy = original.owners.workload_of(pod), copy.owners.workload_of(pod_copy)
        found |= {owner: owner_copy, f"{pod.namespace}/{owner}": f"{pod_copy.namespace}/{owner_copy}"}
        found[f"{pod.namespace}/{pod.label(names.LWS_NAME)}/0"] = (
            f"{pod_copy.namespace}/{pod_copy.label(names.LWS_NAME)}/0"
        )
        if len(pod.spec.node_selector) == 1:
            found[pod.spec.node_selector[0][0]] = pod_copy.spec.node_selector[0][0]
        for term, term_copy in zip(pod.spec.node_terms or (), pod_copy.spec.node_terms or (), strict=True):
            found |= {one.key: other.key for one, other in zip(term.labels, term_copy.labels, strict=True)}
        for container, its_copy in zip(pod.spec.containers, pod_copy.spec.containers, strict=True):
            found[container.name] = its_copy.name
    for budget, its_copy in zip(original.budgets, copy.budgets, strict=True):
        found[f"{budget.namespace}/{budget.name}"] = f"{its_copy.namespace}/{its_copy.name}"
    for workload, workload_copy in zip(original.workloads, copy.workloads, strict=True):
        key = f"{workload.namespace}/LeaderWorkerSet/{workload.name}"
        found[key] = f"{workload_copy.namespace}/LeaderWorkerSet/{workload_copy.name}"
    return {name: new for name, new in found.items() if name}


def in_new_names(document: Any, called: dict[str, str]) -> Any:
    if isinstance(document, dict):
        return {in_new_names(key, called): in_new_names(value, called) for key, value in document.items()}
    if isinstance(document, list):
        return [in_new_names(value, called) for value in document]
    if isinstance(document, str):
        ways = "|".join(re.escape(name) for name in sorted(called, key=len, reverse=True))
        return re.sub(rf"(?<![\w/.-])(?:{ways})(?![\w/.-])", lambda m: called[m[0]], document)
    return document


def decided(result: msgspec.Struct) -> Any:
    """What a document says, but for the time it took and the texts that are left out on purpose."""
    found = msgspec.to_builtins(result)
    for key in ("warnings", "id", "snapshot"):
        found.pop(key, None)
    for part in (found.get("solver") or {}, *((found.get("solver") or {}).get("phases", ()))):
        part.pop("seconds", None)
    return found


def assert_decides_alike(original: ClusterSnapshot, options: PlanOptions = ALL_PENDING) -> None:
    copy = decode_snapshot(encode_snapshot(anonymized(original)))
    called = translation(original, copy)
    status, status_of_copy = cluster_status(original, SETTINGS), cluster_status(copy, SETTINGS)
    assert decided(status_of_copy) == in_new_names(decided(status), called)
    for pod, pod_copy in zip(original.pods, copy.pods, strict=True):
        if not pod.node:
            right = in_new_names(decided(explain_pod(original, pod, SETTINGS)), called)
            assert decided(explain_pod(copy, pod_copy, SETTINGS)) == right
    plan, plan_of_copy = (plan_moves(snapshot, SETTINGS, options, NOW) for snapshot in (original, copy))
    assert decided(plan_of_copy) == in_new_names(decided(plan), called)
    assert check_plan(plan_of_copy, copy, SETTINGS, options).valid
    assert_nobody_is_named(original, copy)


def names_in(snapshot: ClusterSnapshot) -> set[str]:
    found = {value for node in snapshot.nodes for value in (node.name, node.uid, *(t.key for t in node.taints))}
    for pod in snapshot.pods:
        found |= {pod.name, pod.namespace, pod.uid, *pod.spec.claims, *pod.spec.containers[0].argv[2:3]}
        found |= {value for _, value in pod.labels} | {pod.spec.containers[0].image}
    for owned in (*snapshot.workloads, *snapshot.budgets, *snapshot.claims):
        found |= {owned.name, owned.namespace}
    return (
        found
        | {volume.name for volume in snapshot.volumes}
        | {"frankfurt-1", "acme.example/rack", "Falcon-9000", "falcon.example"}
    )


def assert_nobody_is_named(original: ClusterSnapshot, copy: ClusterSnapshot) -> None:
    text = encode_snapshot(copy).decode()
    # Words of every snapshot, whoever else may be called like them.
    kept = {"default", "kube-system", "vllm"} | {str(number) for number in range(10)}
    for name in names_in(original) - kept:
        assert len(name) < 3 or name not in text, name


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_a_tangled_cluster_without_its_names_is_decided_alike(first: int) -> None:
    for seed in range(first, first + 10):
        assert_decides_alike(tangled(seed))


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_random_cases_without_their_names_are_decided_alike(first: int) -> None:
    for seed in range(first, first + 10):
        assert_decides_alike(random_case(seed).snapshot)


def test_goals_and_relaxed_options_are_decided_alike() -> None:
    for seed in range(6):
        goal = PlanOptions(goal=Goal(3), allow_single_replica=True, allow_unknown_owners=True)
        assert_decides_alike(tangled(seed), goal)


def test_the_tangled_clusters_are_not_all_easy() -> None:
    """Moves, refusals and every rule occur, so that the laws above can fail."""
    clusters = [tangled(seed) for seed in range(40)]
    plans = [plan_moves(cluster, SETTINGS, PlanOptions(), NOW) for cluster in clusters]
    assert sum(bool(plan.steps) for plan in plans) >= 3
    assert sum(bool(plan.unadmitted) for plan in plans) >= 5
    assert len({held.code for plan in plans for held in plan.immovable}) >= 5
    pods: list[Pod] = [pod for cluster in clusters for pod in cluster.pods]
    for rule in ("pod_anti_affinity", "spread", "node_terms", "node_selector", "host_ports", "claims"):
        assert any(getattr(pod.spec, rule) for pod in pods), rule


def test_a_rule_that_is_lost_would_be_noticed() -> None:
    original = a_snapshot(a_node("a"), a_pod("p", gpus=1, node_selector={names.HOSTNAME: "a"}))
    copy = anonymized(original)
    lost = structs.replace(copy, pods=(structs.replace(copy.pods[0], spec=original.pods[0].spec),))
    called = translation(original, copy)
    right = in_new_names(decided(cluster_status(original, SETTINGS)), called)
    assert decided(cluster_status(copy, SETTINGS)) == right
    assert decided(explain_pod(lost, lost.pods[0], SETTINGS)) != in_new_names(
        decided(explain_pod(original, original.pods[0], SETTINGS)), called
    )


WORDS = st.sampled_from(
    [
        *("vllm", "serve", "sh", "bash", "-c", "-tp", "-tp=4", "--tensor-parallel-size", "-pp", "-dp", "-dpl", "-n"),
        *("2", "0", "$N", "${N", ";", "&&", "$(N)", "-m", "vllm.entrypoints", "exec", "N=3", "ray", "start", "\0"),
        *("--headless", "--config", "--nnodes", "--data-parallel-rank", "falcon", "--served-model-name", "echo"),
    ]
)
SCRIPTS = st.lists(WORDS, max_size=10).map(" ".join)
VARIABLES = st.sampled_from(["N", "TENSOR_PARALLEL_SIZE", "DATA_PARALLEL_SIZE", "LWS_GROUP_SIZE"])


@given(st.lists(WORDS | SCRIPTS, max_size=10), st.dictionaries(VARIABLES, WORDS), st.sampled_from(["", "x/vllm:1"]))
def test_any_command_reads_the_same_in_plain_words(argv: list[str], env: dict[str, str], image: str) -> None:
    container = a_container(gpus=4, argv=argv, env=env, image=image)
    plain = with_plain_command(container, lambda _: "x7")
    assert what_is_read(read_container(plain)) == what_is_read(read_container(container))


def what_is_read(reading: Reading) -> Reading:
    return replace(reading, unknown=tuple((name, "text" if text else "") for name, text in reading.unknown))
