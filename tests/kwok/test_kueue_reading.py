"""Kueue's objects as the API serves them, in either version, become the same values."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from islander.cluster.node import Taint
from islander.cluster.queues import FlavorFungibility, FlavorUsage, PodSet, Preemption, Quota
from islander.cluster.snapshot import ClusterSnapshot
from islander.kube.client import connect
from islander.kube.gather import read_cluster
from islander.kube.kinds import LISTED_KINDS, WatchedKind
from planner.load import load_files
from tests.kwok import kubectl
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Json
from tests.kwok.controlplane.objects import GPU, gpu_node
from tests.kwok.controlplane.queues import API, QUEUE_NAME
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.islander_bench import IslanderBench
from tests.kwok.queueing import wait_active, wait_admitted, wait_refused

_OLD = "kueue.x-k8s.io/v1beta1"
_KINDS = ("cluster_queues", "cohorts", "local_queues", "resource_flavors", "queue_topologies", "queued_workloads")
_GIB = 2**30


def _old_objects(namespace: str) -> list[Json]:
    """Return objects of v1beta1 that have something in every field that the two versions call differently."""

    def obj(kind: str, name: str, spec: Json, **metadata: Any) -> Json:
        return {"apiVersion": _OLD, "kind": kind, "metadata": {"name": name} | metadata, "spec": spec}

    def flavor(name: str, *quotas: tuple[str, str, str | None, str | None]) -> Json:
        fields = ("name", "nominalQuota", "borrowingLimit", "lendingLimit")
        resources = [{key: value for key, value in zip(fields, item, strict=True) if value} for item in quotas]
        return {"name": name, "resources": resources}

    covered = ["cpu", "memory", GPU]
    h100 = flavor("h100", ("cpu", "96500m", None, None), ("memory", "960Gi", None, None), (GPU, "8", "4", "4"))
    a100 = flavor("a100", ("cpu", "0", None, None), ("memory", "0", None, None), (GPU, "0", None, None))
    taint = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
    return [
        obj(
            "ResourceFlavor",
            "h100",
            {
                "nodeLabels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
                "nodeTaints": [taint],
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
            },
        ),
        obj("ResourceFlavor", "a100", {"nodeLabels": {"pool": "a100"}, "topologyName": "racks"}),
        obj("Topology", "racks", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}),
        obj("Cohort", "all", {"fairSharing": {"weight": "3"}}),
        obj(
            "Cohort",
            "serving",
            {
                "parentName": "all",
                "resourceGroups": [{"coveredResources": covered, "flavors": [h100]}],
            },
        ),
        obj(
            "ClusterQueue",
            "chat",
            {
                "cohort": "serving",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "queueingStrategy": "StrictFIFO",
                "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
                "preemption": {
                    "reclaimWithinCohort": "Any",
                    "borrowWithinCohort": {"policy": "LowerPriority"},
                    "withinClusterQueue": "LowerOrNewerEqualPriority",
                },
                "fairSharing": {"weight": "2"},
                "stopPolicy": "None",
                "resourceGroups": [{"coveredResources": covered, "flavors": [h100, a100]}],
            },
        ),
        obj("LocalQueue", "chat", {"clusterQueue": "chat"}, namespace=namespace),
    ]


@pytest.fixture
def in_use(queue_bench: IslanderBench) -> IslanderBench:
    """Queues made in the old version; one replica runs, another waits."""
    bench = queue_bench
    bench.set_up([gpu_node("gpu-1"), gpu_node("gpu-2")])
    bench.api.create_all(_old_objects(bench.namespace))
    wait_active(bench, ["chat"])
    requests = {"cpu": "16", "memory": "128Gi"}
    bench.place(bench.replica("runs", 4, labels={QUEUE_NAME: "chat"}, requests=requests))
    wait_admitted(bench, "runs")
    bench.api.create(bench.replica("waits", 16, labels={QUEUE_NAME: "chat"}, requests=requests))
    wait_refused(bench, "waits")
    queue = f"{paths.collection(API, 'ClusterQueue')}/chat"
    counted = {"pendingWorkloads": 1, "reservingWorkloads": 1, "admittedWorkloads": 1}
    wait_until(lambda: counted.items() <= bench.api.get(queue)["status"].items(), what="chat has counted both")
    return bench


def test_objects_of_either_version_are_read_alike(in_use: IslanderBench, tmp_path: Path) -> None:
    """Live from v1beta2, live from v1beta1 as on releases before 0.15, and from a dump."""
    new = _read(in_use, LISTED_KINDS)
    old = _read(in_use, [_as_served_before(kind) for kind in LISTED_KINDS])
    dump = tmp_path / "dump.json"
    dump.write_text(kubectl.get_all(in_use.api))
    dumped = load_files([str(dump)])

    assert new.warnings == old.warnings == dumped.warnings == ()
    for kind in _KINDS:
        found = getattr(new, kind)
        assert found
        assert getattr(dumped, kind) == found
        assert {value.api_version for value in getattr(old, kind)} == {_OLD}
        assert _without_version(getattr(old, kind)) == _without_version(found)


def test_values_say_what_the_objects_say(in_use: IslanderBench) -> None:
    found = _read(in_use, LISTED_KINDS)

    (queue,) = found.cluster_queues
    assert (queue.cohort, queue.queueing_strategy, queue.fair_weight, queue.active) == (
        "serving",
        "StrictFIFO",
        "2",
        True,
    )
    assert queue.preemption == Preemption("Any", "LowerPriority", "LowerOrNewerEqualPriority")
    assert queue.fungibility == FlavorFungibility("MayStopSearch", "MayStopSearch")
    assert [flavor.flavor for flavor in queue.resource_groups[0].flavors] == ["h100", "a100"]
    assert queue.resource_groups[0].flavors[0].resources == (
        Quota("cpu", 96_500),
        Quota("memory", 960 * _GIB),
        Quota(GPU, 8, 4, 4),
    )
    assert FlavorUsage("h100", GPU, 4) in queue.reservation
    assert FlavorUsage("h100", "memory", 128 * _GIB) in queue.usage
    assert (queue.pending_workloads, queue.reserving_workloads, queue.admitted_workloads) == (1, 1, 1)
    assert [(cohort.name, cohort.parent, cohort.fair_weight) for cohort in found.cohorts] == [
        ("all", "", "3"),
        ("serving", "all", ""),
    ]
    flavors = {flavor.name: flavor for flavor in found.resource_flavors}
    assert flavors["h100"].node_taints == (Taint("gpu", "true", "NoSchedule"),)
    assert flavors["a100"].topology == "racks"
    assert found.queue_topologies[0].levels == ("rack", "kubernetes.io/hostname")
    runs, waits = sorted(found.queued_workloads, key=lambda workload: workload.owners)
    assert (runs.owners, runs.admitted_by, runs.admitted) == ((("Pod", "runs"),), "chat", True)
    assert isinstance(runs.pod_sets[0], PodSet)
    assert dict(runs.pod_sets[0].flavors)[GPU] == "h100"
    assert dict(runs.pod_sets[0].requests)[GPU] == 4
    assert (waits.admitted_by, waits.queue, waits.pending_reason) == ("", "chat", "Pending")


def test_manifest_that_is_applied_again_changes_nothing(in_use: IslanderBench) -> None:
    """What a changed file is made from holds all that counts, and nothing that the API would not take back."""
    found = _read(in_use, LISTED_KINDS)

    for kind in _KINDS[:-1]:
        for value in getattr(found, kind):
            manifest = json.loads(value.manifest)
            path = paths.path_of(manifest)
            before = in_use.api.get(path)
            after = in_use.api.patch(
                path,
                manifest,
                kind="apply",
                dry_run=True,
                fieldManager="kubectl",
                force="true",
                fieldValidation="Strict",
            )
            assert after["spec"] == before["spec"]
            assert after["metadata"]["generation"] == before["metadata"]["generation"]


def _read(bench: IslanderBench, kinds: Sequence[WatchedKind]) -> ClusterSnapshot:
    with connect(kubeconfig=str(bench.plane.kubeconfig)) as client:
        return read_cluster(client, taken_at="", kinds=kinds)


def _as_served_before(kind: WatchedKind) -> WatchedKind:
    """Return where a kind of Kueue was served by releases that know v1beta1 only; other kinds as they are."""
    if "kueue.x-k8s.io" not in kind.path:
        return kind
    return replace(kind, path=next(path for path in kind.older_paths if "v1beta1" in path), older_paths=())


def _without_version(values: Sequence[msgspec.Struct]) -> list[msgspec.Struct]:
    names = {"api_version": "", "manifest": ""}
    return [
        msgspec.structs.replace(value, **{name: text for name, text in names.items() if hasattr(value, name)})
        for value in values
    ]
