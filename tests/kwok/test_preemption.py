"""Preemption by the real kube-scheduler with the extender's preempt verb."""

from islander.policy.reasons import REASONS, Code
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.objects import DELETE_DELAY, priority_class
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.islander_bench import IslanderBench, bridged_node, dgx_1v_node, nvswitch_node

_NEVER = "1h"


def test_preemption_takes_the_victims_whose_gpus_are_an_island(bench: IslanderBench) -> None:
    """Left alone, kube-scheduler would evict the least important pods, whose four GPUs are not joined."""
    bench.api.create_all(priority_class(name, value) for name, value in (("low", 10), ("middle", 20), ("high", 1000)))
    bench.set_up([dgx_1v_node("scattered"), dgx_1v_node("island")])
    lowest = bench.holder("scattered", (0, 2, 5, 7), priority_class="low")
    middle = bench.holder("island", (4, 5, 6, 7), priority_class="middle")
    kept = [
        bench.holder("scattered", (1, 3, 4, 6), priority_class="high"),
        bench.holder("island", (0, 1, 2, 3), priority_class="high"),
    ]
    _create_and_see(bench, [lowest, middle, *kept])

    bench.api.create(bench.replica("strict", 4, topology="required", priority_class="high"))

    assert bench.wait_placed("strict") == "island"
    assert bench.kubelet.gpus_of_pod(bench.namespace, "strict") == (4, 5, 6, 7)
    assert bench.api.find(paths.path_of(middle)) is None
    for pod in (lowest, *kept):
        assert "deletionTimestamp" not in bench.api.get(paths.path_of(pod))["metadata"]
    asked = bench.recorder.about("strict", "preempt")[0]
    assert set(asked.asked["NodeNameToMetaVictims"]) == {"scattered", "island"}
    assert set(asked.answered["NodeNameToMetaVictims"]) == {"island"}


def test_preemption_without_topology_takes_what_the_scheduler_chose(bench: IslanderBench) -> None:
    bench.api.create_all([priority_class("low", 10), priority_class("middle", 20), priority_class("high", 1000)])
    bench.set_up([nvswitch_node("a-middle"), nvswitch_node("b-low")])
    middle = bench.holder("a-middle", range(8), priority_class="middle")
    low = bench.holder("b-low", range(8), priority_class="low")
    _create_and_see(bench, [middle, low])

    bench.api.create(bench.replica("urgent", 4, priority_class="high"))

    assert bench.wait_placed("urgent") == "b-low"
    assert bench.api.find(paths.path_of(low)) is None
    assert "deletionTimestamp" not in bench.api.get(paths.path_of(middle))["metadata"]


def test_refusal_for_topology_alone_evicts_nobody(bench: IslanderBench) -> None:
    bench.api.create(priority_class("high", 1000))
    bench.set_up([bridged_node("broken")], {"broken": (0, 2, 4, 6)})

    bench.api.create(bench.replica("strict", 2, topology="required", priority_class="high"))

    told = bench.wait_event("strict", REASONS[Code.NO_FREE_ISLAND].sentence)
    assert "Preemption is not helpful for scheduling" in told
    assert bench.recorder.about("strict", "preempt") == []
    pods = bench.api.items(paths.pods(bench.namespace))
    assert len(pods) == 5
    assert not [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
    assert "nominatedNodeName" not in bench.api.get(paths.pod(bench.namespace, "strict"))["status"]


def test_nominated_room_is_kept_while_the_victims_take_long_to_leave(bench: IslanderBench) -> None:
    bench.api.create_all([priority_class("low", 10), priority_class("high", 1000)])
    bench.set_up([nvswitch_node("only")])
    victim = bench.holder("only", range(8), priority_class="low")
    victim["metadata"]["annotations"][DELETE_DELAY] = _NEVER
    _create_and_see(bench, [victim])

    bench.api.create(bench.replica("urgent", 8, priority_class="high"))
    _wait_nominated(bench, "urgent", "only")
    assert "deletionTimestamp" in bench.api.get(paths.path_of(victim))["metadata"]

    bench.api.create(bench.replica("lesser", 8, priority_class="low"))
    bench.api.wait_unschedulable(bench.namespace, "lesser")

    bench.api.delete(paths.path_of(victim), grace_seconds=0)

    assert bench.wait_placed("urgent") == "only"
    assert "lesser" not in bench.node_of()


def test_extender_refuses_nominated_room_to_lesser_pods_and_leaves_it_to_greater_ones(bench: IslanderBench) -> None:
    """The scheduler is stopped between the victims' end and its next try: nobody but the extender keeps the room."""
    classes = {"low": 10, "high": 1000, "higher": 2000}
    bench.api.create_all(priority_class(name, value) for name, value in classes.items())
    bench.set_up([nvswitch_node("only")])
    victim = bench.holder("only", range(8), priority_class="low")
    victim["metadata"]["annotations"][DELETE_DELAY] = _NEVER
    _create_and_see(bench, [victim])
    urgent = bench.replica("urgent", 8, priority_class="high")
    bench.api.create(urgent)
    _wait_nominated(bench, "urgent", "only")
    bench.plane.stop_scheduler()
    bench.api.delete(paths.path_of(victim), grace_seconds=0)
    bench.api.wait_gone(paths.path_of(victim))
    bench.wait_seen()

    refused = _filter(bench, "low", 4)
    assert refused["NodeNames"] == []
    assert refused["FailedNodes"] == {"only": REASONS[Code.NOT_ENOUGH_FREE_GPUS].sentence}
    assert _filter(bench, "higher", 4)["NodeNames"] == ["only"]
    _, answer = bench.extender.post("/filter", {"Pod": bench.api.get(paths.path_of(urgent)), "NodeNames": ["only"]})
    assert answer["NodeNames"] == ["only"]


def _create_and_see(bench: IslanderBench, pods: list[dict[str, object]]) -> None:
    bench.api.create_all(pods)
    for pod in pods:
        bench.kubelet.wait_picked(bench.namespace, paths.path_of(pod).rsplit("/", 1)[1])
    bench.wait_seen()


def _wait_nominated(bench: IslanderBench, pod: str, node: str) -> None:
    def nominated() -> bool:
        status = bench.api.get(paths.pod(bench.namespace, pod))["status"]
        return bool(status.get("nominatedNodeName") == node)

    wait_until(nominated, what=f"{pod} nominated for {node}; {bench.api.events(bench.namespace, pod)}")


def _filter(bench: IslanderBench, priority_class_name: str, gpus: int) -> dict[str, dict[str, str] | list[str]]:
    """Return what the extender answers about a pod that the API has admitted but not kept."""
    pod = bench.replica(f"asks-{priority_class_name}", gpus, priority_class=priority_class_name)
    admitted = bench.api.create(pod, dry_run=True)
    status, answer = bench.extender.post("/filter", {"Pod": admitted, "NodeNames": ["only"]})
    assert status == 200
    assert isinstance(answer, dict)
    return answer
