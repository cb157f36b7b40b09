"""Kueue itself: what it accepts, what it admits, and what becomes of the admitted on real nodes."""

import pytest

from planner.quota.validation import violations
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import ApiError
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.kueue import LOG
from tests.kwok.controlplane.objects import GPU, deployment, gpu_node
from tests.kwok.controlplane.queues import (
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
from tests.kwok.queue_cases import ACCEPTED, QUEUE_CASES, WEBHOOK, QueueCase
from tests.kwok.queueing import (
    ADMISSION_GATE,
    gates,
    queued,
    set_up_queue,
    try_out,
    wait_active,
    wait_admitted,
    wait_inactive,
    wait_refused,
    workload_condition,
)
from tests.kwok.random_queues import RandomQueues


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.rule} {case.name}") for case in QUEUE_CASES])
def test_api_and_our_rules_refuse_what_breaks_a_rule_and_accept_what_is_just_inside(
    shared_queue_plane: ControlPlane, case: QueueCase
) -> None:
    answer = try_out(shared_queue_plane.api, case.obj)

    assert answer.code == case.code, answer.message
    assert case.text in answer.message
    broken = {violation.rule for violation in violations([case.obj], complete=())}
    assert broken == (set() if case.code == ACCEPTED else {case.rule})


def test_our_rules_and_the_api_agree_about_objects_drawn_by_chance(shared_queue_plane: ControlPlane) -> None:
    api = shared_queue_plane.api
    random_queues = RandomQueues(seed=17)
    objects = [random_queues.draw() for _ in range(500)]

    answers = api.each(lambda obj: try_out(api, obj), objects)

    refused = [answer.code != ACCEPTED for answer in answers]
    assert 100 < sum(refused) < 400
    for obj, answer in zip(objects, answers, strict=True):
        broken = violations([obj], complete=())
        assert bool(broken) == (answer.code != ACCEPTED), (obj, answer.message, broken)


def test_replica_above_the_quota_waits_and_those_in_quota_leave_a_whole_node(queue_bench: IslanderBench) -> None:
    """Two replicas of four share a node, so the one of eight, which quota admits as well, has somewhere to go."""
    bench = queue_bench
    bench.set_up([gpu_node("gpu-1"), gpu_node("gpu-2")])
    set_up_queue(bench, 16)

    for name, gpus in (("four-1", 4), ("four-2", 4), ("eight", 8)):
        bench.place(queued(bench, name, gpus))
    bench.api.create(queued(bench, "above", 4))

    assert wait_refused(bench, "above")["reason"] == "Pending"
    assert ADMISSION_GATE in gates(bench, "above")
    node_of = bench.node_of()
    assert node_of["four-1"] == node_of["four-2"] != node_of["eight"]
    assert "above" not in node_of
    assert bench.overfilled() == []

    bench.api.delete(paths.pod(bench.namespace, "four-1"), grace_seconds=0)
    assert bench.wait_placed("above") == node_of["four-1"]


def test_stock_scheduler_leaves_an_admitted_replica_pending(queue_bench: IslanderBench) -> None:
    """Without the extender the two replicas of four spread; quota admits the one of eight, and it is stuck."""
    bench = queue_bench
    bench.plane.restart_scheduler()
    bench.set_up([gpu_node("gpu-1"), gpu_node("gpu-2")])
    set_up_queue(bench, 16)

    for name in ("four-1", "four-2"):
        bench.place(queued(bench, name, 4))
    bench.api.create(queued(bench, "eight", 8))

    bench.wait_event("eight", f"Insufficient {GPU}")
    assert gates(bench, "eight") == []
    assert workload_condition(bench, "eight", "Admitted")["status"] == "True"
    assert len(set(bench.node_of().values())) == 2


def test_queue_whose_flavor_is_missing_is_accepted_and_admits_nobody(queue_bench: IslanderBench) -> None:
    """V17: nothing refuses a reference to what does not exist; the queue only stays inactive."""
    api = queue_bench.api
    api.create(cluster_queue("serving", group({"h100": [quota(8)]})))

    assert wait_inactive(queue_bench, "serving") == "FlavorNotFound"

    api.create(resource_flavor("h100"))
    wait_active(queue_bench, ["serving"])
    api.create(resource_flavor("gb200", {"nvidia.com/gpu.product": "GB200"}, topologyName="racks"))
    api.create(cluster_queue("racks", group({"gb200": [quota(8)]})))

    assert wait_inactive(queue_bench, "racks") == "TopologyNotFound"


def test_cohorts_in_a_circle_are_accepted_and_their_queues_admit_nobody(queue_bench: IslanderBench) -> None:
    """V17: the queue goes on saying that it is active.

    A queue that is made when the circle is there already would end Kueue 0.17 itself: its selector stays unread, and
    the next change of a namespace asks for it (pkg/cache/scheduler/cache.go, MatchingClusterQueues).
    """
    bench = queue_bench
    bench.api.create(resource_flavor("h100"))
    bench.api.create(cluster_queue("serving", group({"h100": [quota(8)]}), cohort="inner"))
    bench.api.create(local_queue("serving", "serving", namespace=bench.namespace))
    wait_active(bench, ["serving"])
    bench.api.create_all([cohort("inner", parent="outer"), cohort("outer", parent="inner")])
    # No object tells that Kueue has seen the circle.
    log = bench.plane.folder / LOG
    wait_until(lambda: "cohort has a cycle" in log.read_text(), what="Kueue has seen the circle")

    bench.api.create(bench.replica("replica", 4, labels={QUEUE_NAME: "serving"}))

    assert "inactive" in wait_refused(bench, "replica")["message"]
    wait_active(bench, ["serving"])
    bench.api.patch(paths.path_of(cohort("outer")), {"spec": {"parentName": None}})
    wait_admitted(bench, "replica")


def test_only_a_queue_that_lists_a_flavor_borrows_it(queue_bench: IslanderBench) -> None:
    """V8: nominal quota 0 is enough, not listing it is not."""
    bench = queue_bench
    bench.api.create(resource_flavor("h100"))
    queues = {"lender": quota(8), "listed": quota(0), "unlisted": quota(8, resource="cpu")}
    for name, item in queues.items():
        bench.api.create(cluster_queue(name, group({"h100": [item]}), cohort="all"))
        bench.api.create(local_queue(name, name, namespace=bench.namespace))
    wait_active(bench, list(queues))

    for name in ("listed", "unlisted"):
        bench.api.create(bench.replica(name, 4, labels={QUEUE_NAME: name}))

    assert wait_refused(bench, "unlisted")["message"]
    wait_admitted(bench, "listed")


def test_queue_without_a_namespace_selector_lets_nobody_in(queue_bench: IslanderBench) -> None:
    """V16."""
    bench = queue_bench
    bench.api.create(resource_flavor("h100"))
    queue = cluster_queue("serving", group({"h100": [quota(8)]}))
    del queue["spec"]["namespaceSelector"]
    bench.api.create_all([queue, local_queue("serving", "serving", namespace=bench.namespace)])
    wait_active(bench, ["serving"])

    bench.api.create(bench.replica("replica", 4, labels={QUEUE_NAME: "serving"}))

    assert "namespace" in wait_refused(bench, "replica")["message"]
    bench.api.patch(paths.path_of(queue), {"spec": {"namespaceSelector": {}}})
    wait_admitted(bench, "replica")


def test_stateful_set_under_a_queue_scales_to_zero_and_back_only(queue_bench: IslanderBench) -> None:
    """V18."""
    bench = queue_bench
    workload = deployment("llm", 2, namespace=bench.namespace)
    workload["kind"] = "StatefulSet"
    workload["spec"]["serviceName"] = "llm"
    workload["metadata"]["labels"] = {QUEUE_NAME: "serving"}
    bench.api.create(workload)

    def scale(replicas: int) -> None:
        bench.api.patch(paths.path_of(workload), {"spec": {"replicas": replicas}}, dry_run=True)

    scale(0)
    with pytest.raises(ApiError, match="replicas") as refusal:
        scale(3)
    assert refusal.value.code == WEBHOOK
