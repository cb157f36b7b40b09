"""One node or hundreds, an extender that restarts, is down, or has just begun: pods are placed, and none twice."""

from pathlib import Path

import pytest

from islander.policy.reasons import REASONS, Code
from tests.kwok.controlplane.credentials import write_kubeconfig
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.ports import free_ports
from tests.kwok.controlplane.scheduler import extender_entry
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.islander_bench import EXTENDER_SETTINGS, IslanderBench, nvswitch_node


def test_single_feasible_node_is_bound_without_being_scored(bench: IslanderBench) -> None:
    bench.set_up([nvswitch_node("full"), nvswitch_node("only")], {"full": range(8)})
    # A pod of an earlier test may have been scored and never bound; its hold ends by itself.
    wait_until(lambda: bench.extender.metric("islander_soft_holds") == 0, what="an end of earlier holds")

    assert bench.place(bench.replica("replica", 4)) == "only"

    (filtered,) = bench.recorder.about("replica", "filter")
    assert filtered.answered["NodeNames"] == ["only"]
    assert bench.recorder.about("replica", "prioritize") == []
    assert bench.extender.metric("islander_soft_holds") == 0


def test_best_of_many_nodes_wins_wherever_it_stands(bench: IslanderBench) -> None:
    """Above 100 nodes kube-scheduler would look at a sample unless it is told not to."""
    best = "node-137"
    bench.set_up([nvswitch_node(f"node-{number:03}") for number in range(150)], {best: range(4)})

    assert bench.place(bench.replica("replica", 4)) == best

    (filtered,) = bench.recorder.about("replica", "filter")
    assert len(filtered.asked["NodeNames"]) == 150
    assert len(filtered.answered["NodeNames"]) == 150
    scores = {entry["Host"]: entry["Score"] for entry in bench.recorder.about("replica", "prioritize")[0].answered}
    assert len(scores) == 150
    assert [node for node, score in scores.items() if score == 10] == [best]


def test_no_pod_is_lost_when_the_extender_crashes_under_load(bench: IslanderBench) -> None:
    bench.set_up([nvswitch_node(f"node-{number}") for number in range(6)])
    pods = [bench.replica(f"pod-{number:02}", gpus) for number, gpus in enumerate((1, 2, 1, 4) * 6)]
    half = len(pods) // 2

    bench.api.create_all(pods[:half])
    wait_until(lambda: len(bench.node_of()) >= 3, what="the first pods are bound")
    bench.extender.kill()
    bench.api.create_all(pods[half:])
    bench.extender.restart()

    bench.wait_all_bound(pods, timeout_seconds=60)
    bench.wait_seen()
    assert bench.overfilled() == []
    # 48 GPUs in requests of 1, 2 and 4 on six nodes of 8: everything fits, and so nothing is free.
    assert all(not bench.kubelet.free(f"node-{number}") for number in range(6))


def test_pods_are_scheduled_without_the_extender_when_it_is_ignorable(bench: IslanderBench) -> None:
    bench.use_extender(ignorable=True)
    bench.set_up([nvswitch_node("node")])
    bench.extender.kill()

    bench.api.create(bench.replica("replica", 4))

    assert bench.api.wait_bound(bench.namespace, "replica") == "node"


def test_pods_wait_for_an_extender_that_is_not_ignorable(bench: IslanderBench) -> None:
    bench.plane.restart_scheduler({"extenders": [extender_entry(bench.extender.url)]})
    bench.set_up([nvswitch_node("node")])
    bench.extender.kill()

    bench.api.create(bench.replica("replica", 4))

    assert bench.extender.url in bench.wait_event("replica", "connection refused")
    assert "replica" not in bench.node_of()

    bench.extender.restart()
    assert bench.api.wait_bound(bench.namespace, "replica") == "node"


def test_replica_that_starts_later_knows_what_the_first_has_placed(bench: IslanderBench, tmp_path: Path) -> None:
    """G13: A and B fill n1 by way of the first extender, then the second is asked about C; then a third."""
    bench.set_up([nvswitch_node("n1")])
    for name in ("a", "b"):
        assert bench.place(bench.replica(name, 4)) == "n1"
    pod_c = bench.api.create(bench.replica("c", 4), dry_run=True)

    for name in ("second", "third"):
        with ExtenderProcess(tmp_path, bench.plane.kubeconfig, EXTENDER_SETTINGS, name=name) as replica:
            status, answer = replica.post("/filter", {"Pod": pod_c, "NodeNames": ["n1"]})

        assert status == 200
        assert answer["NodeNames"] == []
        assert answer["FailedNodes"] == {"n1": REASONS[Code.NOT_ENOUGH_FREE_GPUS].sentence}


def test_replica_that_watched_from_the_beginning_knows_what_the_other_has_placed(
    bench: IslanderBench, tmp_path: Path
) -> None:
    """G13: the second extender stands by while the first is asked about A and B; then it takes over."""
    with ExtenderProcess(tmp_path, bench.plane.kubeconfig, EXTENDER_SETTINGS, name="standby") as standby:
        bench.set_up([nvswitch_node("n1"), nvswitch_node("n2")])
        placed = [bench.place(bench.replica(name, 4)) for name in ("a", "b")]
        assert placed == ["n1", "n1"]

        def refuses_n1() -> bool:
            pod_c = bench.api.create(bench.replica("c", 4), dry_run=True)
            _, answer = standby.post("/filter", {"Pod": pod_c, "NodeNames": ["n1", "n2"]})
            return bool(answer["NodeNames"] == ["n2"])

        wait_until(refuses_n1, what="the second extender refuses n1")
        bench.plane.restart_scheduler({"extenders": [extender_entry(standby.url)]})
        assert bench.place(bench.replica("c", 4)) == "n2"


def test_extender_without_a_first_list_says_so_and_lets_no_pod_through(bench: IslanderBench, tmp_path: Path) -> None:
    """G13: never "all free"."""
    nowhere = f"https://127.0.0.1:{free_ports(1)[0]}"
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", nowhere, bench.plane.ca_file, "token")
    starting = ExtenderProcess(tmp_path, kubeconfig, name="starting")
    bench.set_up([nvswitch_node("node")])

    try:
        starting.start(wait_until_ready=False)
        with pytest.raises(OSError, match=r"503 not ready: waiting for the first list of .*Node"):
            starting.get("/readyz")
        bench.plane.restart_scheduler({"extenders": [extender_entry(starting.url)]})
        bench.api.create(bench.replica("replica", 4))

        bench.wait_event("replica", "not ready: waiting for the first list of")
        assert "replica" not in bench.node_of()
    finally:
        starting.stop()

    bench.use_extender()
    assert bench.api.wait_bound(bench.namespace, "replica") == "node"
