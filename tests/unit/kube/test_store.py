"""The live store over a real connection (G04, G06, G13, G16, G20)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from islander.cluster.pod import Pod
from islander.kube.client import KubeClient
from islander.kube.kinds import NODES, PODS, WATCHED_KINDS
from islander.kube.store import ClusterStore, KindStatus
from islander.kube.watch import WatchSettings
from tests.builders import node_object, pod_object
from tests.fake_api import PATHS, Cut, FakeApi, error_event, event

SETTINGS = WatchSettings(silence_s=30, first_backoff_s=0.001, longest_backoff_s=0.01, denied_retry_s=0.02)
TAKEN = "2026-01-01T00:00:00Z"
Make = Callable[..., ClusterStore]


@pytest.fixture
def make(client: KubeClient) -> Iterator[Make]:
    stores: list[ClusterStore] = []

    def store(*, kinds: Any = (NODES, PODS), settings: WatchSettings = SETTINGS) -> ClusterStore:
        made = ClusterStore(client, kinds=kinds, settings=settings, monotonic=time.monotonic, jitter=random.Random(1))
        stores.append(made)
        return made

    yield store
    stopped = [made.stop(timeout_s=10) for made in stores]
    assert all(stopped), "a watch did not stop"


class Changes:
    """A listener that keeps what it heard and can be waited for."""

    def __init__(self, store: ClusterStore) -> None:
        self.heard: list[tuple[str, str, Any, Any]] = []
        self._condition = threading.Condition()
        store.add_listener(self)

    def __call__(self, kind: str, key: str, old: Any, new: Any) -> None:
        with self._condition:
            self.heard.append((kind, key, old, new))
            self._condition.notify_all()

    def wait_for(self, kind: str, key: str, *, gone: bool = False) -> None:
        with self._condition:
            found = self._condition.wait_for(
                lambda: any(h[:2] == (kind, key) and (h[3] is None) == gone for h in self.heard), 10
            )
        assert found, f"{kind} {key} did not change; heard {[h[:2] for h in self.heard]}"


def status(store: ClusterStore, kind: str) -> KindStatus:
    return next(s for s in store.status() if s.kind == kind)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "did not happen within 10 s"
        time.sleep(0.002)


def used_gpus(store: ClusterStore, node: str) -> int:
    pods = store.snapshot(TAKEN).pods_by_node.get(node, ())
    return sum(pod.spec.requests.count("nvidia.com/gpu") for pod in pods)


def test_a_snapshot_holds_what_was_listed_and_what_has_happened_since(api: FakeApi, make: Make) -> None:
    api.put(node_object("n2"), node_object("n1"), pod_object("b"), pod_object("a", namespace="z"))
    store = make()
    changes = Changes(store)
    store.start()
    assert store.wait_ready(10)
    api.wait_for_watch("Pod")
    api.put(pod_object("c", namespace="a-b"), pod_object("d", namespace="a"))
    api.delete("Pod", "default/b")
    changes.wait_for("Pod", "default/b", gone=True)
    changes.wait_for("Pod", "a/d")
    snapshot = store.snapshot(TAKEN)
    assert [node.name for node in snapshot.nodes] == ["n1", "n2"]
    # By namespace and then name: as joined text, a-b/c would come before a/d.
    assert [pod.key for pod in snapshot.pods] == ["a/d", "a-b/c", "z/a"]
    assert snapshot.kinds == ("Node", "Pod")
    assert snapshot.taken_at == TAKEN
    assert snapshot.warnings == ()


def test_g13_nothing_is_ready_before_the_first_full_list(api: FakeApi, make: Make) -> None:
    api.put(node_object("n1"), *(pod_object(f"p{i}", gpus=4, node="n1") for i in range(2)))
    store = make(settings=WatchSettings(page_limit=1, first_backoff_s=0.001, longest_backoff_s=0.01))
    assert store.missing() == ("Node", "Pod")
    assert store.last_event_monotonic() is None
    # The second page of pods is refused for as long as the test likes: a part of a list is no list.
    api.accepts = lambda request: request.path != PATHS["Pod"] or "continue" not in request.params
    store.start()
    api.wait_for(lambda: len(api.seen("Pod", watch=False)) > 6)
    wait_until(lambda: status(store, "Node").synced)
    assert not store.wait_ready(0)
    assert store.missing() == ("Pod: GET /api/v1/pods: 401 Unauthorized",)
    assert status(store, "Pod").objects == 0
    assert store.snapshot(TAKEN).kinds == ("Node",)
    api.accepts = lambda _request: True
    assert store.wait_ready(10)
    assert store.missing() == ()
    assert used_gpus(store, "n1") == 8


def test_g13_listeners_have_heard_of_everything_before_the_store_is_ready(api: FakeApi, make: Make) -> None:
    api.put(node_object("n1"), *(pod_object(f"p{i}") for i in range(50)))
    store = make()
    changes = Changes(store)
    store.start()
    assert store.wait_ready(10)
    assert len(changes.heard) == 51
    assert all(old is None for _, _, old, _ in changes.heard)


def test_g20_all_pods_are_counted_when_a_token_runs_out_and_the_watch_expires(api: FakeApi, make: Make) -> None:
    pods = [pod_object(f"p{i}", node="n1") for i in range(1200)]
    api.put(node_object("n1"), *pods)
    api.expire_token(2)
    still_there = [event("MODIFIED", {**pod, "status": {"phase": "Failed"}}, 1 + i % 900) for i, pod in enumerate(pods)]
    random.Random(7).shuffle(still_there)
    expired = threading.Event()
    store = make()
    api.script_watch("Pod", error_event(410, "Expired", "too old resource version"))
    api.script_watch("Pod", *still_there[:600], event("DELETED", pods[3], 12), event("ADDED", pod_object("ghost"), 13))
    changes = Changes(store)

    def delete_in_the_gap(kind: str, key: str, old: Any, new: Any) -> None:
        if not expired.is_set() and key == "default/p1199":
            api.delete("Pod", "default/p7", silent=True)
            expired.set()

    store.add_listener(delete_in_the_gap)
    store.start()
    changes.wait_for("Pod", "default/p7", gone=True)
    api.wait_for_watch("Pod")
    assert len(store.snapshot(TAKEN).pods) == 1199
    assert used_gpus(store, "n1") == 1199
    assert status(store, "Pod").restarts_total == 1
    first_list = [r.params.get("continue") for r in api.seen("Pod", watch=False)]
    assert [token is not None for token in first_list[:6]] == [False, True, True, False, True, True]


def test_g06_a_deleted_pod_frees_its_gpus_by_tombstone_and_by_the_next_list(api: FakeApi, make: Make) -> None:
    api.put(node_object("n1"), pod_object("a", gpus=8, node="n1"))
    store = make()
    changes = Changes(store)
    store.start()
    assert store.wait_ready(10)
    api.wait_for_watch("Pod")
    assert used_gpus(store, "n1") == 8
    api.delete("Pod", "default/a")
    changes.wait_for("Pod", "default/a", gone=True)
    assert used_gpus(store, "n1") == 0

    api.put(pod_object("b", gpus=8, node="n1"))
    changes.wait_for("Pod", "default/b")
    assert used_gpus(store, "n1") == 8
    api.delete("Pod", "default/b", silent=True)
    api.compact("Pod")
    api.script_watch("Pod", error_event(410, "Expired"))
    api.put(pod_object("other"), silent=True)
    api.end_watches("Pod")
    changes.wait_for("Pod", "default/b", gone=True)
    assert used_gpus(store, "n1") == 0


def test_g06_free_devices_are_those_of_the_deleted_pod(api: FakeApi, make: Make) -> None:
    api.put(node_object("n1"), *(pod_object(f"p{i}", gpus=2, node="n1") for i in range(4)))
    store = make()
    changes = Changes(store)
    store.start()
    assert store.wait_ready(10)
    assert used_gpus(store, "n1") == 8
    api.delete("Pod", "default/p2")
    changes.wait_for("Pod", "default/p2", gone=True)
    assert used_gpus(store, "n1") == 6
    assert [pod.name for pod in store.snapshot(TAKEN).pods] == ["p0", "p1", "p3"]


def test_g04_a_terminating_pod_holds_its_gpus_until_it_is_gone(api: FakeApi, make: Make) -> None:
    api.put(node_object("n1"), pod_object("a", gpus=8, node="n1"))
    store = make()
    changes = Changes(store)
    store.start()
    assert store.wait_ready(10)
    api.put(pod_object("a", gpus=8, node="n1", metadata={"deletionTimestamp": "2026-01-01T00:10:00Z"}))
    wait_until(lambda: [h[3].deleted for h in changes.heard if h[0] == "Pod"][-1] != "")
    assert used_gpus(store, "n1") == 8
    api.delete("Pod", "default/a")
    changes.wait_for("Pod", "default/a", gone=True)
    assert used_gpus(store, "n1") == 0


def test_g16_a_pod_of_a_node_that_is_gone_is_no_error(api: FakeApi, make: Make) -> None:
    api.put(node_object("n1"), pod_object("a", node="n1"), pod_object("b", node="n1"))
    store = make()
    changes = Changes(store)
    store.start()
    assert store.wait_ready(10)
    api.delete("Node", "n1")
    changes.wait_for("Node", "n1", gone=True)
    api.put(pod_object("a", node="n1", phase="Failed"))
    api.delete("Pod", "default/b")
    changes.wait_for("Pod", "default/b", gone=True)
    assert status(store, "Pod").restarts_total == 0
    assert [pod.key for pod in store.snapshot(TAKEN).pods] == ["default/a"]


def test_an_unparsable_bound_pod_keeps_its_gpus_and_is_reported(api: FakeApi, make: Make) -> None:
    api.put(node_object("n1"), pod_object("a", gpus=8, node="n1"))
    store = make()
    store.start()
    assert store.wait_ready(10)
    odd = pod_object("a", node="n1", spec={"containers": "none"})
    api.put(odd, pod_object("never-seen", node="n1", spec={"containers": "none"}))
    wait_until(lambda: status(store, "Pod").unparsable == 2)
    assert used_gpus(store, "n1") == 8
    assert status(store, "Pod").skipped_total == 2
    assert status(store, "Pod").objects == 1
    warnings = store.snapshot(TAKEN).warnings
    assert [warning.partition(":")[0] for warning in warnings] == [
        "Pod default/a is read from an earlier version",
        "Pod default/never-seen is left out",
    ]
    api.put(pod_object("a", gpus=8, node="n1", phase="Succeeded"))
    wait_until(lambda: status(store, "Pod").unparsable == 1)
    assert used_gpus(store, "n1") == 0


def test_an_unparsable_object_is_logged_once_per_problem(
    api: FakeApi, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    api.put(pod_object("odd", spec={"containers": "none"}))
    store = make()
    store.start()
    assert store.wait_ready(10)
    for label in ("x", "y", "z"):
        api.put(pod_object("odd", labels={"v": label}, spec={"containers": "none"}))
    wait_until(lambda: status(store, "Pod").skipped_total == 4)
    assert [record.message for record in caplog.records].count("object cannot be parsed") == 1


def test_an_optional_kind_that_is_denied_does_not_block_and_is_not_among_the_kinds(api: FakeApi, make: Make) -> None:
    api.put(node_object("n1"))
    api.answer_next("GET", PATHS["LeaderWorkerSet"], 404, times=None)
    api.answer_next("GET", PATHS["PodDisruptionBudget"], 403, times=None)
    store = make(kinds=WATCHED_KINDS)
    store.start()
    assert store.wait_ready(10)
    assert store.missing() == ()
    assert status(store, "PodDisruptionBudget").denied
    assert "403" in status(store, "PodDisruptionBudget").problem
    asked = len(api.seen("PodDisruptionBudget", watch=False))
    api.wait_for(lambda: len(api.seen("PodDisruptionBudget", watch=False)) > asked + 2)
    assert status(store, "PodDisruptionBudget").restarts_total == 1
    looked_at = {kind.kind for kind in WATCHED_KINDS} - {"LeaderWorkerSet", "PodDisruptionBudget"}
    assert store.snapshot(TAKEN).kinds == tuple(sorted(looked_at))


def test_an_optional_kind_that_is_allowed_later_appears(api: FakeApi, make: Make) -> None:
    api.put({"kind": "Namespace", "metadata": {"name": "default"}})
    api.answer_next("GET", PATHS["Namespace"], 403, times=None)
    store = make(kinds=WATCHED_KINDS)
    changes = Changes(store)
    store.start()
    assert store.wait_ready(10)
    api.stop_answering(PATHS["Namespace"])
    changes.wait_for("Namespace", "default")
    wait_until(lambda: "Namespace" in store.snapshot(TAKEN).kinds)
    assert not status(store, "Namespace").denied


def test_an_optional_kind_that_is_no_longer_served_is_forgotten(api: FakeApi, make: Make) -> None:
    api.put({"kind": "LeaderWorkerSet", "metadata": {"name": "l", "namespace": "default"}})
    store = make(kinds=WATCHED_KINDS)
    changes = Changes(store)
    store.start()
    assert store.wait_ready(10)
    api.wait_for_watch("LeaderWorkerSet")
    api.answer_next("GET", PATHS["LeaderWorkerSet"], 404, times=None)
    api.end_watches("LeaderWorkerSet")
    changes.wait_for("LeaderWorkerSet", "default/l", gone=True)
    assert store.missing() == ()
    assert "LeaderWorkerSet" not in store.snapshot(TAKEN).kinds


def test_a_required_kind_that_is_denied_blocks_and_says_why(api: FakeApi, make: Make) -> None:
    api.answer_next("GET", PATHS["Node"], 403, times=None)
    store = make()
    store.start()
    wait_until(lambda: status(store, "Pod").synced and status(store, "Node").restarts_total > 2)
    assert store.missing() == ("Node: GET /api/v1/nodes: 403 as the test wishes",)


def test_a_required_kind_that_is_denied_later_stays_as_it_was(api: FakeApi, make: Make) -> None:
    api.put(node_object("n1"))
    store = make()
    store.start()
    assert store.wait_ready(10)
    api.wait_for_watch("Node")
    api.answer_next("GET", PATHS["Node"], 403, times=None)
    api.end_watches("Node")
    wait_until(lambda: status(store, "Node").denied)
    assert [node.name for node in store.snapshot(TAKEN).nodes] == ["n1"]
    assert store.missing() == ()


def test_the_age_of_the_news_is_that_of_the_oldest_required_kind(api: FakeApi, make: Make) -> None:
    store = make(kinds=WATCHED_KINDS)
    store.start()
    assert store.wait_ready(10)
    api.wait_for_watch("Pod")
    api.wait_for_watch("Node")
    before = store.last_event_monotonic()
    assert before is not None
    api.bookmark("Pod")
    api.bookmark("Node")
    wait_until(lambda: (store.last_event_monotonic() or 0) > before)
    times = {s.kind: s.last_event_monotonic for s in store.status()}
    assert store.last_event_monotonic() == min(times["Pod"] or 0, times["Node"] or 0)


def test_a_broken_connection_is_counted_and_mended(api: FakeApi, make: Make) -> None:
    api.script_watch("Pod", event("ADDED", pod_object("a"), 1001), Cut())
    store = make()
    changes = Changes(store)
    store.start()
    changes.wait_for("Pod", "default/a")
    api.wait_for_watch("Pod")
    assert status(store, "Pod").restarts_total == 1
    api.put(pod_object("b"), pod_object("c"))
    changes.wait_for("Pod", "default/c")
    assert status(store, "Pod").problem == ""


def test_a_listener_may_ask_the_store_and_may_fail(api: FakeApi, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    api.put(pod_object("a", node="n1"))
    store = make()
    asked: list[Any] = []

    def failing(_kind: str, _key: str, _old: Any, _new: Any) -> None:
        raise ZeroDivisionError

    def asking(kind: str, key: str, _old: Any, new: Any) -> None:
        asked.append((store.get(kind, key), new, store.snapshot(TAKEN), store.missing()))

    store.add_listener(failing)
    store.add_listener(asking)
    store.start()
    assert store.wait_ready(10)
    assert len(asked) == 1
    assert isinstance(asked[0][0], Pod)
    assert asked[0][0] is asked[0][1]
    assert "listener failed" in [record.message for record in caplog.records]


def test_listeners_are_told_one_change_at_a_time_and_in_order(api: FakeApi, make: Make) -> None:
    api.put(*(node_object(f"n{i}") for i in range(100)), *(pod_object(f"p{i}") for i in range(100)))
    store = make()
    busy = threading.Lock()
    overlaps: list[str] = []
    last: dict[tuple[str, str], Any] = {}

    def check(kind: str, key: str, old: Any, new: Any) -> None:
        if not busy.acquire(blocking=False):
            overlaps.append(key)
            return
        if last.get((kind, key)) is not old:
            overlaps.append(f"{key} jumps")
        last[kind, key] = new
        busy.release()

    store.add_listener(check)
    changes = Changes(store)
    store.start()
    assert store.wait_ready(10)
    for round_number in range(5):
        api.put(*(pod_object(f"p{i}", labels={"round": str(round_number)}) for i in range(100)))
        api.put(*(node_object(f"n{i}", labels={"round": str(round_number)}) for i in range(100)))
    api.put(pod_object("last"), node_object("last"))
    changes.wait_for("Pod", "default/last")
    changes.wait_for("Node", "last")
    assert overlaps == []


def test_a_store_is_started_once(make: Make) -> None:
    store = make()
    store.start()
    with pytest.raises(RuntimeError, match="started before"):
        store.start()
