"""Quotas that `plan quota` writes for a real cluster: the real Kueue accepts them, and what they admit fits."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from islander.policy.settings import PolicySettings
from planner.cli import main
from planner.quota.emit import KUSTOMIZATION
from planner.quota.options import QuotaOptions
from planner.quota.planning import plan_quota
from tests.kwok import kubectl
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Api, ApiError, Json
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.objects import GPU, deployment, gpu_node, gpu_pod, namespace
from tests.kwok.controlplane.queues import (
    API,
    QUEUE_NAME,
    cluster_queue,
    cohort,
    group,
    local_queue,
    quota,
    resource_flavor,
)
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.islander_bench import IslanderBench
from tests.kwok.kustomization import objects_of
from tests.kwok.queueing import ADMISSION_GATE, wait_active
from tests.random_quotas import random_quotas

# Per GPU of a node: 192 CPUs and 2 TiB for eight.
_CPU, _MEMORY_GIB = 24, 256
_TEAMS = (
    {"name": "chat", "namespaces": ["chat"], "shape": {"gpus": 4, "island": True}, "baselineReplicas": 3, "weight": 2},
    {"name": "batch", "namespaces": ["batch"], "shape": {"gpus": 1}, "baselineReplicas": 2},
    {"name": "large", "namespaces": ["large"], "shape": {"gpus": 8, "island": True}, "baselineReplicas": 1},
)

# Takes what it is called after `plan quota`, returns the plan.
Planner = Callable[..., Json]


@pytest.fixture
def planner(capsys: pytest.CaptureFixture[str]) -> Planner:
    """The command line, within this process; `code` is the exit code that is right."""

    def run(*arguments: str | Path, code: int) -> Json:
        ended = main(["plan", "quota", *map(str, arguments), "--detailed-exitcode", "-o", "json"])
        printed = capsys.readouterr()
        assert ended == code, printed.err
        plan: Json = json.loads(printed.out)
        return plan

    return run


def test_queues_of_a_plan_are_accepted_and_all_that_they_admit_runs(
    queue_bench: IslanderBench, planner: Planner, tmp_path: Path
) -> None:
    """Three teams ask for more than there is; each gets its quota in whole replicas, and no admitted one is stuck."""
    bench, folder = queue_bench, tmp_path / "quota"
    bench.set_up([gpu_node(f"gpu-{number}") for number in range(4)])
    bench.api.create_all(namespace(team["name"]) for team in _TEAMS)
    policy = _policy(tmp_path, _TEAMS)

    plan = planner("--snapshot", _dump(bench, tmp_path), "--policy", policy, "--output-dir", folder, code=2)
    _apply(bench, folder)

    wait_active(bench, [team["name"] for team in _TEAMS])
    nominal = {row["name"]: int(row["nominal"]["new"]) for row in plan["queues"] if row["resource"] == GPU}
    assert sum(nominal.values()) == plan["totals"]["placeable"] == 32
    assert all(nominal[team["name"]] % team["shape"]["gpus"] == 0 for team in _TEAMS)
    again = planner("--snapshot", _dump(bench, tmp_path), "--policy", policy, code=0)
    assert [row["nominal"]["old"] for row in again["queues"]] == [row["nominal"]["new"] for row in plan["queues"]]

    # More than the quota of each team, in an order in which teams alternate.
    asked = {"chat": 6, "batch": 12, "large": 2}
    pods = [_replica(team, number) for number in range(12) for team in _TEAMS if number < asked[team["name"]]]
    bench.api.create_all(pods)

    wait_until(lambda: _bound_gpus(bench) == nominal, what=lambda: f"{nominal} bound, not {_bound_gpus(bench)}")
    for pod in bench.api.items(paths.ALL_PODS):
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
        assert bool(pod["spec"].get("nodeName")) != (ADMISSION_GATE in gates), pod["metadata"]["name"]
    assert bench.overfilled() == []


def test_queues_that_exist_are_changed_into_whole_replicas_and_keep_what_else_they_say(
    queue_bench: IslanderBench, planner: Planner, tmp_path: Path
) -> None:
    """Without a policy: 10 and 9 GPUs of 16 become multiples of what the teams run, with what an autoscaler keeps."""
    bench, folder = queue_bench, tmp_path / "quota"
    bench.set_up([gpu_node("gpu-1"), gpu_node("gpu-2")])
    bench.api.create_all([namespace("assist"), namespace("lab")])
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    queues = [
        cluster_queue(
            "assist", group({"h100": [quota(10, borrow=3, lend=5)]}), cohort="gpus", queueingStrategy="StrictFIFO"
        ),
        cluster_queue("lab", group({"h100": [quota(9)]}), cohort="gpus", fairSharing={"weight": "2"}),
    ]
    queues[0]["metadata"]["annotations"] = {"team.example/contact": "assist@example.com"}
    doors = [local_queue(name, name, namespace=name) for name in ("assist", "lab")]
    bench.api.create_all([resource_flavor("h100", labels), cohort("gpus"), *queues, *doors])
    wait_active(bench, ["assist", "lab"])
    bench.api.create(_autoscaler("llm", "assist", 2))
    for name, replicas, gpus in (("assist", 2, 4), ("lab", 1, 2)):
        workload = deployment("llm", replicas, gpus, namespace=name, args=[f"--tensor-parallel-size={gpus}"])
        workload["metadata"]["labels"][QUEUE_NAME] = name
        bench.api.create(workload)
        _wait_ready(bench, workload)

    plan = planner("--snapshot", _dump(bench, tmp_path), "--output-dir", folder, code=2)
    _apply(bench, folder)

    changed = {queue["metadata"]["name"]: queue for queue in bench.api.items(paths.collection(API, "ClusterQueue"))}
    new = {row["name"]: row for row in plan["queues"] if row["resource"] == GPU}
    for name, gpus in (("assist", 4), ("lab", 2)):
        (item,) = changed[name]["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
        assert int(item["nominalQuota"]) == int(new[name]["nominal"]["new"])
        assert int(item["nominalQuota"]) % gpus == 0
        assert item.get("borrowingLimit") == _as_text(new[name]["borrowing"]["new"])
        assert item.get("lendingLimit") == _as_text(new[name]["lending"]["new"])
    assert new["assist"]["baseline"] == 8
    assert changed["assist"]["metadata"]["annotations"] == queues[0]["metadata"]["annotations"]
    assert changed["assist"]["spec"]["queueingStrategy"] == "StrictFIFO"
    assert changed["lab"]["spec"]["fairSharing"] == {"weight": "2"}
    assert {finding["code"] for finding in plan["findings"]} >= {"NOT_WHOLE_ISLANDS"}
    planner("--snapshot", _dump(bench, tmp_path), code=0)


def test_files_for_clusters_and_policies_drawn_by_chance_are_accepted(shared_queue_plane: ControlPlane) -> None:
    api = shared_queue_plane.api
    objects = [obj for seed in range(12) for obj in _objects_of_plan(seed)]
    assert {obj["kind"] for obj in objects} >= {"ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor"}

    def refusal(obj: Json) -> str:
        try:
            _apply_one(api, obj, dry_run=True)
        except ApiError as problem:
            return f"{problem} {obj}"
        return ""

    assert [told for told in api.each(refusal, objects) if told] == []


def _objects_of_plan(seed: int) -> list[Json]:
    case = random_quotas(seed)
    options = QuotaOptions(policy=case.policy, survive_nodes=case.survive)
    files = plan_quota(case.snapshot, PolicySettings(), options, datetime(2026, 1, 1, tzinfo=UTC)).files
    objects = [obj for name, text in files.items() if name != KUSTOMIZATION for obj in yaml.safe_load_all(text)]
    for obj in objects:
        # Kept from an object that no API server would have served.
        obj["spec"].pop("unknownField", None)
        if "namespace" in obj["metadata"]:
            obj["metadata"]["namespace"] = "default"
    return objects


def _autoscaler(workload: str, where: str, least: int) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": workload, "namespace": where},
        "spec": {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": least + 1},
    }


def _wait_ready(bench: IslanderBench, workload: Json) -> None:
    wanted, path = workload["spec"]["replicas"], paths.path_of(workload)
    wait_until(
        lambda: bench.api.get(path)["status"].get("readyReplicas") == wanted,
        what=lambda: f"{wanted} replicas ready: {bench.api.get(path)['status']}",
    )


def _policy(folder: Path, teams: Sequence[Mapping[str, Any]]) -> Path:
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump({"teams": [dict(team) for team in teams]}))
    return file


def _dump(bench: IslanderBench, folder: Path) -> Path:
    file = folder / "dump.json"
    file.write_text(kubectl.get_all(bench.api))
    return file


def _apply(bench: IslanderBench, folder: Path) -> None:
    """Apply a folder as `kubectl apply --server-side -k` does, each object as a dry run first."""
    for obj in objects_of(folder):
        for dry_run in (True, False):
            _apply_one(bench.api, obj, dry_run=dry_run)


def _apply_one(api: Api, obj: Json, *, dry_run: bool) -> None:
    options = {"fieldManager": "kubectl", "force": "true", "fieldValidation": "Strict"}
    api.patch(paths.path_of(obj), obj, kind="apply", dry_run=dry_run, **options)


def _replica(team: Mapping[str, Any], number: int) -> Json:
    gpus = team["shape"]["gpus"]
    return gpu_pod(
        f"{team['name']}-{number}",
        gpus,
        namespace=team["name"],
        labels={QUEUE_NAME: team["name"]},
        args=[f"--tensor-parallel-size={gpus}"],
        requests={"cpu": str(gpus * _CPU // 2), "memory": f"{gpus * _MEMORY_GIB // 2}Gi"},
    )


def _bound_gpus(bench: IslanderBench) -> dict[str, int]:
    """Return how many GPUs the bound pods of each team's namespace hold."""
    found = {team["name"]: 0 for team in _TEAMS}
    for pod in bench.api.items(paths.ALL_PODS):
        if pod["spec"].get("nodeName"):
            found[pod["metadata"]["namespace"]] += int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])
    return found


def _as_text(amount: object) -> str | None:
    return None if amount is None else str(amount)
