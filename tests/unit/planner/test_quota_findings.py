"""What is wrong with the quotas of a cluster is said with its code, object and field, and what is right is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from islander.cluster import names
from islander.cluster.queues import (
    Autoscaler,
    Cohort,
    FlavorQuotas,
    FlavorUsage,
    LocalQueue,
    NamespaceQuota,
    PodSet,
    Preemption,
    QueueConfiguration,
    QueuedWorkload,
    Quota,
)
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import Namespace
from islander.kube.parse import parse_object
from islander.policy.settings import PolicySettings, Shape
from planner.quota.finding_codes import CODE_OF_RULE, FINDINGS, FindingCode, QuotaFinding, Severity
from planner.quota.findings import findings_of
from planner.quota.teams import QueueDemand, ReplicaDemand
from planner.quota.validation import RULES
from tests.builders import (
    H100,
    a_cluster_queue,
    a_flavor,
    a_node,
    a_pod,
    a_resource_slice,
    a_snapshot,
    a_workload,
    owned_by,
    quotas,
)

H200 = "NVIDIA-H200"
PRODUCT = names.GPU_PRODUCT
RECLAIMS = Preemption(reclaim_within_cohort="Any")


def replicas(gpus: int, baseline: int = 0, *, team: str = "chat", **fields: Any) -> ReplicaDemand:
    return ReplicaDemand(team, Shape(gpus, island=gpus > 1), baseline=baseline, **fields)


def wanted(queue: str, *demands: ReplicaDemand) -> QueueDemand:
    return QueueDemand(queue, demands)


def of(code: FindingCode, snapshot: ClusterSnapshot, *demands: QueueDemand, **options: Any) -> list[QuotaFinding]:
    return [found for found in findings_of(snapshot, PolicySettings(), demands, **options) if found.code is code]


def queued(name: str, gpus: int, count: int = 1, **fields: Any) -> QueuedWorkload:
    pods = PodSet("main", count, ((names.NVIDIA_GPU, gpus),))
    return QueuedWorkload("default", name, queue="lq", pod_sets=(pods,), **fields)


def door(queue: str = "team", namespace: str = "default") -> LocalQueue:
    return LocalQueue(namespace, "lq", cluster_queue=queue)


def a_healthy_cluster() -> ClusterSnapshot:
    return a_snapshot(
        a_node("n1"),
        a_node("n2"),
        a_flavor(labels={PRODUCT: H100}),
        a_cluster_queue("team", quotas("h100", 16, borrow=0, lend=8), cohort="gpu", preemption=RECLAIMS),
        a_cluster_queue("batch", quotas("h100", 0, borrow=8), cohort="gpu"),
        Cohort("gpu"),
        door(),
        queued("train", 4, admitted_by="team", admitted=True),
    )


def test_nothing_is_said_of_a_cluster_in_order() -> None:
    assert findings_of(a_healthy_cluster(), PolicySettings(), (wanted("team", replicas(4, 2)),)) == ()


def test_quota_above_what_exists_is_named_with_what_is_right() -> None:
    """G44 a."""
    node = a_node(gpus=4)
    too_much = a_snapshot(node, a_flavor(labels={PRODUCT: H100}), a_cluster_queue("team", quotas("h100", 8)))
    (found,) = of(FindingCode.QUOTA_ABOVE_CAPACITY, too_much)
    assert (found.severity, found.object) == (Severity.ERROR, "ResourceFlavor/h100")
    assert found.message == "quotas add up to 8 of nvidia.com/gpu, of which 4 are usable: 4 too many"
    assert "ClusterQueue/team to 4 in total" in found.cure
    enough = a_snapshot(node, a_flavor(labels={PRODUCT: H100}), a_cluster_queue("team", quotas("h100", 4)))
    assert of(FindingCode.QUOTA_ABOVE_CAPACITY, enough) == []


def test_shared_quota_of_a_cohort_counts_too() -> None:
    shared = Cohort("gpu", resource_groups=a_cluster_queue("x", quotas("h100", 4)).resource_groups)
    snapshot = a_snapshot(a_node(), a_flavor(), a_cluster_queue("team", quotas("h100", 8), cohort="gpu"), shared)
    (found,) = of(FindingCode.QUOTA_ABOVE_CAPACITY, snapshot)
    assert "add up to 12" in found.message
    assert "Cohort/gpu, ClusterQueue/team" in found.cure


def test_gpus_held_outside_and_cordoned_nodes_are_named() -> None:
    """G45."""
    store = a_workload("store", kind="StatefulSet")
    nodes = [a_node(f"n{i:02}", unschedulable=i > 20) for i in range(23)]
    pod = a_pod("store-0", gpus=8, node="n00", owner=owned_by(store))
    snapshot = a_snapshot(*nodes, a_flavor(), a_cluster_queue("team", quotas("h100", 168)), store, pod, door())
    (above,) = of(FindingCode.QUOTA_ABOVE_CAPACITY, snapshot)
    assert "168 of nvidia.com/gpu, of which 160 are usable: 8 too many" in above.message
    assert "8 are held outside Kueue by default/store-0" in above.message
    assert "n21, n22" in above.message
    assert "to 160 in total" in above.cure
    (outside,) = of(FindingCode.GPUS_HELD_OUTSIDE, snapshot)
    assert (outside.severity, outside.message) == (
        Severity.INFO,
        "8 of nvidia.com/gpu are held outside Kueue: default/store-0 (8)",
    )


def test_a_sum_that_no_single_node_can_give_is_a_warning() -> None:
    """G44 b."""
    nodes = (a_node("a", gpus=4), a_node("b", gpus=4))
    queue = a_cluster_queue("team", quotas("h100", 8))
    big = a_snapshot(*nodes, a_flavor(), queue, door(), queued("train", 8))
    (found,) = of(FindingCode.REQUEST_LARGER_THAN_NODE, big)
    assert found.severity is Severity.WARNING
    assert "the largest single-node request is 4" in found.message
    assert "Workload default/train asks for 8" in found.message
    assert of(FindingCode.QUOTA_ABOVE_CAPACITY, big) == []
    small = a_snapshot(*nodes, a_flavor(), queue, door(), queued("train", 4))
    assert of(FindingCode.REQUEST_LARGER_THAN_NODE, small) == []
    assert of(FindingCode.REQUEST_LARGER_THAN_NODE, small, wanted("team", replicas(8)))


def test_quota_that_whole_replicas_cannot_fill_is_a_warning() -> None:
    nodes = [a_node(f"n{i}", allocatable=6) for i in range(2)]
    snapshot = a_snapshot(*nodes, a_flavor(), a_cluster_queue("team", quotas("h100", 12)))
    (found,) = of(FindingCode.QUOTA_NOT_PLACEABLE, snapshot, wanted("team", replicas(4)))
    assert found.message == "12 are 3 replicas of 4; 2 of them fit"
    assert found.field == "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
    assert of(FindingCode.QUOTA_NOT_PLACEABLE, snapshot, wanted("team", replicas(2))) == []


def test_baselines_that_need_every_node_are_named_when_one_may_fail() -> None:
    snapshot = a_snapshot(a_node("a"), a_node("b"), a_flavor(), a_cluster_queue("team", quotas("h100", 16)))
    demand = wanted("team", replicas(4, 3))
    (found,) = of(FindingCode.NOT_SURVIVABLE, snapshot, demand, survive_nodes=1)
    assert "chat needs 3 pods of 4 GPUs at least" in found.message
    assert of(FindingCode.NOT_SURVIVABLE, snapshot, demand) == []
    assert of(FindingCode.NOT_SURVIVABLE, snapshot, wanted("team", replicas(4, 2)), survive_nodes=1) == []


def test_a_label_less_flavor_over_two_products_should_be_two() -> None:
    """G43, second case."""
    nodes = (a_node("a", product=H200), a_node("b", product=H200), a_node("c"))
    (found,) = of(
        FindingCode.FLAVOR_WITHOUT_LABELS,
        a_snapshot(*nodes, a_flavor("all"), a_cluster_queue("team", quotas("all", 24))),
    )
    assert (found.severity, found.object, found.field) == (Severity.WARNING, "ResourceFlavor/all", "spec.nodeLabels")
    assert "NVIDIA-H100-80GB-HBM3 8, NVIDIA-H200 16" in found.message
    assert found.cure.startswith("Make flavors with the label nvidia.com/gpu.product")
    (one,) = of(
        FindingCode.FLAVOR_WITHOUT_LABELS,
        a_snapshot(a_node(), a_flavor("all"), a_cluster_queue("team", quotas("all", 8))),
    )
    assert one.severity is Severity.INFO
    # Nobody has quota of it, so nobody is misled.
    assert of(FindingCode.FLAVOR_WITHOUT_LABELS, a_snapshot(*nodes, a_flavor("all"))) == []


def test_a_labelled_flavor_may_mix_products_too() -> None:
    pool = {"pool": "gpu"}
    nodes = (a_node("a", product=H200, labels=pool), a_node("b", labels=pool))
    snapshot = a_snapshot(*nodes, a_flavor("pool", labels=pool), a_cluster_queue("team", quotas("pool", 16)))
    (found,) = of(FindingCode.FLAVOR_MIXES_PRODUCTS, snapshot)
    assert "NVIDIA-H200 8" in found.message
    assert of(FindingCode.FLAVOR_MIXES_PRODUCTS, a_healthy_cluster()) == []


def test_two_flavors_over_one_node_are_named_together() -> None:
    labelled = a_flavor("spot", labels={"spot": "true"})
    queue = a_cluster_queue("team", quotas("h100", 4), quotas("spot", 4))
    snapshot = a_snapshot(a_node(labels={"spot": "true"}), a_flavor("h100", labels={PRODUCT: H100}), labelled, queue)
    (found,) = of(FindingCode.FLAVORS_OVERLAP, snapshot)
    assert found.message == "1 node with nvidia.com/gpu in h100 and in spot: n1"
    apart = a_snapshot(a_node(), a_flavor("h100", labels={PRODUCT: H100}), labelled, queue)
    assert of(FindingCode.FLAVORS_OVERLAP, apart) == []


def test_slices_and_whole_gpus_in_one_cohort_are_named() -> None:
    sliced = a_node("cut", gpus=14, product="NVIDIA-A100-SXM4-80GB-MIG-3g.40gb")
    flavors = (
        a_flavor("cut", labels={names.HOSTNAME: "cut"}),
        a_flavor("whole", labels={names.HOSTNAME: "n1"}),
    )
    queues = [a_cluster_queue(name, quotas(name, 4), cohort="gpu") for name in ("cut", "whole")]
    (found,) = of(FindingCode.MIXED_UNITS, a_snapshot(sliced, a_node(), *flavors, *queues, Cohort("gpu")))
    assert (found.object, found.message) == (
        "Cohort/gpu",
        "nvidia.com/gpu is MIG instance in cut, whole GPU in whole",
    )
    apart = [a_cluster_queue(name, quotas(name, 4), cohort=name) for name in ("cut", "whole")]
    assert of(FindingCode.MIXED_UNITS, a_snapshot(sliced, a_node(), *flavors, *apart)) == []


def test_gpus_that_two_systems_hand_out_are_a_warning() -> None:
    """G46."""
    (found,) = of(FindingCode.TWO_ALLOCATORS, a_snapshot(a_node(), a_resource_slice("n1")))
    assert (found.severity, found.object) == (Severity.WARNING, "Node/n1")
    assert "counted once" in found.message
    assert of(FindingCode.TWO_ALLOCATORS, a_snapshot(a_node(), a_resource_slice("n1", driver="nic.example.com"))) == []


def test_quota_and_limits_come_in_whole_replicas() -> None:
    odd = a_cluster_queue("team", quotas("h100", 10, borrow=6, lend=4), cohort="gpu", preemption=RECLAIMS)
    snapshot = a_snapshot(a_node("a"), a_node("b"), a_flavor(), odd)
    found = of(FindingCode.NOT_WHOLE_ISLANDS, snapshot, wanted("team", replicas(4)))
    assert [one.field.rpartition(".")[2] for one in found] == ["borrowingLimit", "nominalQuota"]
    assert "10 is no multiple of 4; 2 of them make no replica" in [one.message for one in found]
    assert of(FindingCode.NOT_WHOLE_ISLANDS, snapshot, wanted("team", replicas(2))) == []


def test_a_workload_that_can_never_be_admitted_is_named() -> None:
    queue = a_cluster_queue("team", quotas("h100", 8, borrow=4), cohort="gpu")
    nodes = (a_node("a"), a_node("b"))
    waiting = a_snapshot(*nodes, a_flavor(), queue, door(), queued("train", 8, 2))
    (found,) = of(FindingCode.REQUEST_ABOVE_QUOTA, waiting)
    assert found.message == "default/train asks for 16 nvidia.com/gpu, the queue can have 12"
    assert of(FindingCode.REQUEST_ABOVE_QUOTA, a_snapshot(*nodes, a_flavor(), queue, door(), queued("t", 4, 3))) == []
    unlimited = a_cluster_queue("team", quotas("h100", 8), cohort="gpu")
    assert of(FindingCode.REQUEST_ABOVE_QUOTA, a_snapshot(*nodes, unlimited, door(), queued("t", 8, 2))) == []


def test_a_baseline_in_borrowed_quota_is_an_error() -> None:
    snapshot = a_snapshot(a_node(), a_flavor(), a_cluster_queue("team", quotas("h100", 4, borrow=4), cohort="gpu"))
    (found,) = of(FindingCode.BASELINE_BORROWED, snapshot, wanted("team", replicas(4, 2)))
    assert (found.severity, found.object) == (Severity.ERROR, "ClusterQueue/team")
    assert "needs 8 GPUs, the nominal quota is 4: 4 can be taken away" in found.message
    assert of(FindingCode.BASELINE_BORROWED, snapshot, wanted("team", replicas(4, 1))) == []


def test_a_baseline_that_is_lent_must_come_back() -> None:
    def snapshot(lend: int | None, preemption: Preemption) -> ClusterSnapshot:
        return a_snapshot(
            a_node(),
            a_flavor(),
            a_cluster_queue("team", quotas("h100", 8, lend=lend), cohort="gpu", preemption=preemption),
            a_cluster_queue("batch", quotas("h100", 0), cohort="gpu"),
        )

    demand = wanted("team", replicas(4, 2))
    (found,) = of(FindingCode.CANNOT_RECLAIM, snapshot(None, Preemption()), demand)
    assert found.field == "spec.preemption.reclaimWithinCohort"
    assert of(FindingCode.CANNOT_RECLAIM, snapshot(None, RECLAIMS), demand) == []
    assert of(FindingCode.CANNOT_RECLAIM, snapshot(0, Preemption()), demand) == []


def test_more_reserved_than_allowed_is_named() -> None:
    def snapshot(total: int) -> ClusterSnapshot:
        usage = (FlavorUsage("h100", names.NVIDIA_GPU, total),)
        queue = a_cluster_queue("team", quotas("h100", 4, borrow=2), cohort="gpu", reservation=usage)
        return a_snapshot(a_node(), a_flavor(), queue)

    (found,) = of(FindingCode.BELOW_RESERVATION, snapshot(8))
    assert found.message == "workloads hold 8 nvidia.com/gpu of h100, the queue may have 6: 2 too many"
    assert of(FindingCode.BELOW_RESERVATION, snapshot(6)) == []


@pytest.mark.parametrize(
    ("strategy", "code"),
    [("BestEffortFIFO", FindingCode.SMALL_STARVES_LARGE), ("StrictFIFO", FindingCode.LARGE_BLOCKS_SMALL)],
)
def test_each_strategy_has_its_own_evil(strategy: str, code: FindingCode) -> None:
    queue = a_cluster_queue("team", quotas("h100", 16), queueing_strategy=strategy)
    large = queued("large", 8, created="2026-01-01T00:00:00Z")
    late = queued("late", 1, created="2026-01-02T00:00:00Z", admitted_by="team", admitted=True)
    behind = queued("behind", 1, created="2026-01-02T00:00:00Z")
    nodes = (a_node("a"), a_node("b"), a_flavor(), queue, door())
    other = late if strategy == "BestEffortFIFO" else behind
    (found,) = of(code, a_snapshot(*nodes, large, other))
    assert found.severity is Severity.WARNING
    assert "default/large waits for 8 GPUs" in found.message
    assert of(code, a_snapshot(*nodes, large)) == []
    (advice,) = of(code, a_snapshot(*nodes), wanted("team", replicas(8), replicas(1)))
    assert (advice.severity, advice.field) == (Severity.INFO, "spec.queueingStrategy")
    assert of(code, a_snapshot(*nodes), wanted("team", replicas(8))) == []


def test_a_start_that_kueue_hardly_waits_for_is_named() -> None:
    slow = queued(
        "big-model", 8, admitted_by="team", admitted_at="2026-01-01T00:00:00Z", ready_at="2026-01-01T00:08:20Z"
    )
    cluster = (a_node(), a_flavor(), a_cluster_queue("team", quotas("h100", 8)), door(), slow)
    (found,) = of(FindingCode.READY_TIMEOUT_TOO_SHORT, a_snapshot(*cluster, QueueConfiguration(600)))
    assert found.severity is Severity.WARNING
    assert "Kueue waits 600 s until pods are ready; default/big-model needed 500 s" in found.message
    assert of(FindingCode.READY_TIMEOUT_TOO_SHORT, a_snapshot(*cluster, QueueConfiguration(1800))) == []
    assert of(FindingCode.READY_TIMEOUT_TOO_SHORT, a_snapshot(*cluster)) == []
    annotated = a_pod(labels={names.KUEUE_QUEUE: "lq"}, annotations={names.RELOAD_SECONDS: "700"})
    (late, *_) = of(FindingCode.READY_TIMEOUT_TOO_SHORT, a_snapshot(*cluster, annotated, QueueConfiguration(600)))
    assert late.severity is Severity.ERROR


def test_a_resource_quota_beside_a_queue_is_named() -> None:
    cluster = (a_node(), a_flavor(), a_cluster_queue("team", quotas("h100", 8)), door(namespace="chat"))
    key = f"requests.{names.NVIDIA_GPU}"
    (found,) = of(
        FindingCode.RESOURCE_QUOTA_DOUBLES, a_snapshot(*cluster, NamespaceQuota("chat", "limits", ((key, 8),)))
    )
    assert (found.severity, found.object, found.field) == (
        Severity.WARNING,
        "ResourceQuota/chat/limits",
        f"spec.hard[{key}]",
    )
    for other in (NamespaceQuota("lab", "limits", ((key, 8),)), NamespaceQuota("chat", "limits", (("pods", 8),))):
        assert of(FindingCode.RESOURCE_QUOTA_DOUBLES, a_snapshot(*cluster, other)) == []


def test_an_autoscaler_of_a_queued_stateful_set_is_an_error() -> None:
    """V18."""
    scaler = Autoscaler("HorizontalPodAutoscaler", "default", "llm", "StatefulSet", "llm", 1, 4)
    inside = a_workload("llm", kind="StatefulSet", labels={names.KUEUE_QUEUE: "lq"})
    (found,) = of(FindingCode.SET_CANNOT_SCALE, a_snapshot(scaler, inside))
    assert found.object == "HorizontalPodAutoscaler/default/llm"
    assert of(FindingCode.SET_CANNOT_SCALE, a_snapshot(scaler, a_workload("llm", kind="StatefulSet"))) == []


def test_a_door_in_a_namespace_that_is_not_let_in_is_an_error() -> None:
    queue = a_cluster_queue("team", quotas("h100", 8), namespaces=("chat",))
    (found,) = of(FindingCode.NAMESPACE_SHUT_OUT, a_snapshot(queue, door(namespace="lab")))
    assert found.object == "LocalQueue/lab/lq"
    assert of(FindingCode.NAMESPACE_SHUT_OUT, a_snapshot(queue, door(namespace="chat"))) == []
    by_team = parse_object(
        json.dumps(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "ClusterQueue",
                "metadata": {"name": "team"},
                "spec": {"namespaceSelector": {"matchLabels": {"team": "chat"}}},
            }
        ).encode()
    )
    # Nobody has looked at the namespace, so its labels are not known.
    assert of(FindingCode.NAMESPACE_SHUT_OUT, a_snapshot(by_team, door(namespace="lab"))) == []
    assert of(FindingCode.NAMESPACE_SHUT_OUT, a_snapshot(by_team, door(namespace="lab"), Namespace("lab")))


def test_queues_that_are_stopped_or_inactive_are_named() -> None:
    stopped = a_cluster_queue("team", stop_policy="HoldAndDrain", active=False, inactive_reason="Stopped")
    held = LocalQueue("chat", "lq", cluster_queue="team", stop_policy="Hold")
    found = of(FindingCode.ADMISSION_STOPPED, a_snapshot(stopped, held))
    assert [one.object for one in found] == ["ClusterQueue/team", "LocalQueue/chat/lq"]
    assert of(FindingCode.QUEUE_INACTIVE, a_snapshot(stopped)) == []
    dead = a_cluster_queue("team", active=False, inactive_reason="FlavorNotFound", inactive_message="no h100")
    (inactive,) = of(FindingCode.QUEUE_INACTIVE, a_snapshot(dead))
    assert (inactive.severity, inactive.message) == (Severity.ERROR, "FlavorNotFound: no h100")
    assert of(FindingCode.ADMISSION_STOPPED, a_snapshot(a_cluster_queue("team", stop_policy="None"))) == []


def test_quotas_of_another_controller_are_used_and_said() -> None:
    effective = (FlavorQuotas("h100", (Quota(names.NVIDIA_GPU, 4),)),)
    queue = a_cluster_queue("team", quotas("h100", 16), effective=effective)
    snapshot = a_snapshot(a_node(), a_flavor(), queue)
    (found,) = of(FindingCode.QUOTAS_SET_ELSEWHERE, snapshot)
    assert "h100 nvidia.com/gpu 4" in found.message
    assert of(FindingCode.QUOTA_ABOVE_CAPACITY, snapshot) == []
    assert of(FindingCode.QUOTAS_SET_ELSEWHERE, a_healthy_cluster()) == []


def written(kind: str, version: str = "v1beta2", **spec: Any) -> Any:
    body = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "team"}, "spec": spec}
    return parse_object(json.dumps(body).encode())


def test_old_versions_are_counted() -> None:
    old = written("ClusterQueue", "v1beta1", namespaceSelector={})
    (found,) = of(FindingCode.OLD_API_VERSION, a_snapshot(old, written("Cohort")))
    assert (found.object, found.message) == ("kueue.x-k8s.io/v1beta1", "1 ClusterQueue")
    assert of(FindingCode.OLD_API_VERSION, a_snapshot(written("Cohort"))) == []


def test_broken_rules_are_findings() -> None:
    group = {
        "coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": "gone", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 1}]}],
    }
    snapshot = a_snapshot(written("ClusterQueue", resourceGroups=[group]), a_flavor())
    (dead,) = of(FindingCode.DEAD_REFERENCE, snapshot)
    assert (dead.severity, dead.object, dead.message) == (
        Severity.ERROR,
        "ClusterQueue/team",
        "V17: there is no ResourceFlavor gone",
    )
    (nobody,) = of(FindingCode.NOBODY_MAY_USE, snapshot)
    assert (nobody.severity, nobody.field) == (Severity.WARNING, "spec.namespaceSelector")
    # Nobody looked at flavors, so it may be there.
    assert of(FindingCode.DEAD_REFERENCE, a_snapshot(written("ClusterQueue", resourceGroups=[group]))) == []


def test_every_rule_has_a_code_and_every_code_a_text() -> None:
    assert set(CODE_OF_RULE) == set(RULES)
    assert set(FINDINGS) == set(FindingCode)
    for text in FINDINGS.values():
        assert text.sentence[0].islower() or text.sentence.startswith("Kueue")
        assert not text.sentence.endswith(".")
        assert text.cause.endswith(".")
        assert text.cure.endswith(".")


def test_errors_come_first() -> None:
    stopped = a_cluster_queue("a", quotas("h100", 64), stop_policy="Hold")
    found = findings_of(a_snapshot(a_node(), a_flavor(), stopped), PolicySettings())
    assert [one.severity for one in found] == sorted((one.severity for one in found), key=list(Severity).index)
    assert found[0].code is FindingCode.QUOTA_ABOVE_CAPACITY


def test_every_finding_that_no_rule_gives_has_a_test() -> None:
    written_here = Path(__file__).read_text(encoding="utf-8")
    # The plan itself finds these.
    elsewhere = {FindingCode.BASELINE_NOT_PLACEABLE, *CODE_OF_RULE.values()}
    assert [code for code in set(FindingCode) - elsewhere if f"Code.{code}" not in written_here] == []
