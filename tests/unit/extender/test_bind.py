from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from extender.wire import BindingArgs
from tests.builders import a_node, a_pod
from tests.unit.extender.harness import FakeBinder, InMemoryExtender, asking


def test_bind_is_off_unless_configured() -> None:
    response = InMemoryExtender(a_node("n1")).post("bind", {})
    assert response.status_code == 404
    assert response.get_json()["Error"]


def test_a_bound_pod_counts_at_once() -> None:
    """G12: filter(A), bind(A, n1), filter(B), with no watch event delivered."""
    extender = InMemoryExtender(a_node("n1", gpus=2), a_node("n2", gpus=2), binder=FakeBinder())
    extender.filter(asking("a", gpus=2), ["n1", "n2"])
    assert extender.bind(asking("a", gpus=2), "n1") == ""
    assert extender.filter(asking("b", gpus=2), ["n1", "n2"])["NodeNames"] == ["n2"]


def test_the_watch_takes_over_from_the_assumption() -> None:
    extender = InMemoryExtender(a_node("n1"), a_pod("a", gpus=4), binder=FakeBinder())
    assert extender.bind(asking("a", gpus=4), "n1") == ""
    extender.see(a_pod("a", gpus=4, labels={"x": "y"}), a_pod("a", gpus=4))
    assert extender.filter(asking("b", gpus=8), ["n1"])["NodeNames"] == [], "still pending in the watch, still counted"
    extender.see(a_pod("a", gpus=4, node="n1"), a_pod("a", gpus=4))
    assert extender.filter(asking("b", gpus=4), ["n1"])["NodeNames"] == ["n1"], "counted once"
    extender.lose(a_pod("a", gpus=4, node="n1"))
    assert extender.filter(asking("b", gpus=8), ["n1"])["NodeNames"] == ["n1"]


def test_an_assumption_that_nothing_confirms_ends() -> None:
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), a_pod("a", gpus=8), binder=FakeBinder())
    extender.bind(asking("a", gpus=8), "n1")
    extender.clock.now_s += 3600
    extender.filter(asking("b", gpus=1), ["n1"])
    extender.bind(asking("b", gpus=1), "n2")
    assert extender.filter(asking("c", gpus=8), ["n1"])["NodeNames"] == ["n1"]


def test_binding_twice_is_success_without_counting_twice() -> None:
    """G14: bind(A, n1) again, and bind(A, n2)."""
    binder = FakeBinder()
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), a_pod("a", gpus=4), binder=binder)
    assert extender.bind(asking("a", gpus=4), "n1") == ""
    assert extender.bind(asking("a", gpus=4), "n1") == ""
    assert extender.bind(asking("a", gpus=4), "n2") != ""
    assert binder.asked == [BindingArgs("default", "a", "uid-default-a", "n1")]
    assert extender.filter(asking("b", gpus=4), ["n1"])["NodeNames"] == ["n1"]
    assert extender.filter(asking("b", gpus=8), ["n1", "n2"])["NodeNames"] == ["n2"]


def test_a_pod_that_the_watch_shows_bound_is_not_bound_again() -> None:
    """G14: the answer of the first bind was lost, perhaps with the replica that gave it."""
    binder = FakeBinder()
    extender = InMemoryExtender(a_node("n1"), a_pod("a", gpus=4, node="n1"), binder=binder)
    assert extender.bind(asking("a", gpus=4), "n1") == ""
    assert extender.bind(asking("a", gpus=4), "n2") != ""
    assert binder.asked == []


@pytest.mark.parametrize("problem", ["POST /api/v1/...: 409 already assigned", "POST /api/v1/...: 500"])
def test_a_failed_bind_releases_its_room_at_once(problem: str) -> None:
    """G14: bind(B, n1) where the API refuses."""
    extender = InMemoryExtender(a_node("n1"), a_pod("b", gpus=8), binder=FakeBinder(refuse={"b": problem}))
    assert extender.bind(asking("b", gpus=8), "n1") == problem
    assert extender.filter(asking("c", gpus=8), ["n1"])["NodeNames"] == ["n1"]


def test_a_refusal_by_the_api_is_success_when_the_pod_is_there_already() -> None:
    """G14: the watch shows the bind of an earlier call while the API refuses the second."""

    class LateWatch(FakeBinder):
        def bind(self, args: BindingArgs) -> str:
            extender.see(a_pod("a", gpus=4, node="n1"), a_pod("a", gpus=4))
            return "409"

    extender = InMemoryExtender(a_node("n1"), a_pod("a", gpus=4), binder=LateWatch())
    assert extender.bind(asking("a", gpus=4), "n1") == ""


def test_a_bind_that_would_overfill_the_node_is_refused_before_the_api_is_asked() -> None:
    binder = FakeBinder()
    extender = InMemoryExtender(a_node("n1", gpus=2), a_pod("a", gpus=2), a_pod("b", gpus=2), binder=binder)
    assert extender.bind(asking("a", gpus=2), "n1") == ""
    assert extender.bind(asking("b", gpus=2), "n1") != ""
    assert [args.name for args in binder.asked] == ["a"]


def test_a_pod_that_nobody_told_us_of_is_bound_all_the_same() -> None:
    binder = FakeBinder()
    extender = InMemoryExtender(a_node("n1"), binder=binder)
    assert extender.bind(asking("stranger"), "n1") == ""
    assert len(binder.asked) == 1


def test_a_pod_that_took_over_the_name_is_another_pod() -> None:
    binder = FakeBinder()
    extender = InMemoryExtender(a_node("n1"), a_node("n2"), a_pod("a", gpus=4, node="n1"), binder=binder)
    again = asking("a", gpus=4, metadata={"uid": "uid-of-the-next"})
    assert extender.bind(again, "n2") == ""
    assert [args.uid for args in binder.asked] == ["uid-of-the-next"]


def test_pods_without_gpus_are_bound_too() -> None:
    binder = FakeBinder()
    extender = InMemoryExtender(a_node("n1"), binder=binder)
    web = asking("web", gpus=0)
    extender.filter(web, ["n1"])
    assert extender.bind(web, "n1") == ""
    assert len(binder.asked) == 1


def test_sixteen_pods_fired_at_once_all_land_and_no_node_is_overfilled() -> None:
    """G12: 16 one-GPU pods, 16 free GPUs, every thread schedules like kube-scheduler; no watch event arrives."""
    binder = FakeBinder()
    names = ["n1", "n2", "n3"]
    extender = InMemoryExtender(
        a_node("n1"), a_node("n2"), a_node("n3"), a_pod("holder", gpus=8, node="n2"), binder=binder
    )
    start = threading.Barrier(16)

    def schedule(i: int) -> str:
        pod = asking(f"p{i}", gpus=1)
        start.wait()
        for _ in range(20):
            feasible = extender.filter(pod, names)["NodeNames"]
            assert feasible, "room was taken that nobody has"
            scores = extender.prioritize(pod, feasible)
            chosen = max(feasible, key=scores.__getitem__)
            if not extender.bind(pod, chosen):
                return chosen
        raise AssertionError("never bound")

    with ThreadPoolExecutor(16) as pool:
        placed = list(pool.map(schedule, range(16)))
    assert sorted(placed) == ["n1"] * 8 + ["n3"] * 8
    assert len({args.uid for args in binder.asked}) == 16
    assert extender.filter(asking("late", gpus=1), names)["NodeNames"] == []


def test_two_calls_for_one_pod_at_once_ask_the_api_once() -> None:
    """G14: the scheduler gave up waiting and tries again while the first call still runs."""
    reached, go_on = threading.Event(), threading.Event()

    class SlowBinder(FakeBinder):
        def bind(self, args: BindingArgs) -> str:
            reached.set()
            assert go_on.wait(10)
            return super().bind(args)

    binder = SlowBinder()
    extender = InMemoryExtender(a_node("n1"), a_pod("a", gpus=4), binder=binder)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(extender.bind, asking("a", gpus=4), "n1")
        assert reached.wait(10)
        second = pool.submit(extender.bind, asking("a", gpus=4), "n1")
        go_on.set()
        assert (first.result(10), second.result(10)) == ("", "")
    assert len(binder.asked) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"PodName": ""},
        {"PodName": "../nodes"},
        {"PodNamespace": "a/b"},
        {"PodUID": None},
        {"Node": "n1?x=1"},
        {"Node": 7},
    ],
)
def test_names_that_the_api_would_not_accept_are_a_bad_request(change: dict[str, Any]) -> None:
    binder = FakeBinder()
    body = {"PodName": "a", "PodNamespace": "default", "PodUID": "u", "Node": "n1", **change}
    response = InMemoryExtender(a_node("n1"), binder=binder).post("bind", body)
    assert response.status_code == 400
    assert response.get_json()["Error"]
    assert binder.asked == []


def test_bind_is_not_ready_before_the_first_lists() -> None:
    """G13."""
    extender = InMemoryExtender(a_node("n1"), binder=FakeBinder(), waits_for=("Pod",))
    assert "not ready" in extender.bind(asking("a"), "n1")
