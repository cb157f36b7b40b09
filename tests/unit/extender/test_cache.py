from __future__ import annotations

import pytest

from extender import judgement, states
from extender.cache import ClusterCache
from extender.states import UNKNOWN
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.policy.need import need_of
from islander.policy.settings import DEFAULT_MIX, PolicySettings
from tests.builders import a_node, a_pod, a_report, a_snapshot
from tests.unit.extender.harness import InMemoryExtender, asking

GPU = "nvidia.com/gpu"


def a_cache(*objects: Node | Pod) -> ClusterCache:
    cache = ClusterCache((GPU,))
    cache.load(a_snapshot(*objects))
    return cache


def free(cache: ClusterCache, name: str, resource: str = GPU) -> int | None:
    sight = cache.sight(resource, [name])
    (state,) = sight.ids({}).tolist()
    return None if state == UNKNOWN else sight.resource.states[state].free


def test_equal_nodes_share_one_state() -> None:
    cache = a_cache(*(a_node(f"n{i}") for i in range(50)), a_pod("p", gpus=1, node="n7"))
    assert len(cache.sight(GPU, []).resource.states) == 2


def test_a_pod_without_devices_changes_no_state() -> None:
    cache = a_cache(a_node("n1"))
    web = a_pod("web", gpus=0, node="n1")
    cache.on_change("Pod", web.key, None, web)
    assert cache.pod(web.key) is None
    assert cache.pods_on("n1") == ()


def test_a_resource_that_nobody_asked_for_yet_is_surveyed_when_somebody_does() -> None:
    mig = "nvidia.com/mig-1g.10gb"
    cache = a_cache(a_node("n1", gpus=3, gpu_resource=mig), a_pod("p", gpus=1, gpu_resource=mig, node="n1"))
    assert free(cache, "n1", mig) == 2
    gone = a_pod("p", gpus=1, gpu_resource=mig, node="n1")
    cache.on_change("Pod", gone.key, gone, None)
    assert free(cache, "n1", mig) == 3


def test_a_pod_that_moves_in_the_watch_leaves_its_old_node() -> None:
    before, after = a_pod("p", gpus=3, node="n1"), a_pod("p", gpus=3, node="n2")
    cache = a_cache(a_node("n1"), a_node("n2"), before)
    cache.on_change("Pod", before.key, before, after)
    assert (free(cache, "n1"), free(cache, "n2")) == (8, 5)


def test_events_before_the_first_list_is_complete_are_kept_for_later() -> None:
    cache = ClusterCache((GPU,))
    pod = a_pod("p", gpus=3, node="n1")
    cache.on_change("Pod", pod.key, None, pod)
    cache.on_change("Node", "n1", None, a_node("n1"))
    assert free(cache, "n1") == 5


def test_other_kinds_are_ignored() -> None:
    cache = a_cache(a_node("n1"))
    cache.on_change("Namespace", "default", None, object())
    assert free(cache, "n1") == 8


def test_nodes_and_states_that_are_past_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An autoscaler makes new names for ever, and reports new states; neither may grow without end."""
    monkeypatch.setattr(states, "SPARE", 16)
    cache = a_cache(a_node("stays"), a_pod("p", gpus=3, node="stays"))
    for i in range(100):
        node = a_node(f"spot-{i}", memory_mib=1000 + i)
        cache.on_change("Node", node.name, None, node)
        cache.on_change("Node", node.name, node, None)
    resource = cache.sight(GPU, []).resource
    assert len(resource.states) < 40
    assert list(resource.of_node) == ["stays"]
    assert free(cache, "stays") == 5
    assert free(cache, "spot-99") is None


def test_judgements_are_kept_for_the_shapes_that_are_asked_for() -> None:
    cache = a_cache(a_node("n1"))
    resource = cache.sight(GPU, []).resource
    settings = PolicySettings()
    first = need_of(a_pod(gpus=1), settings)
    table = resource.table(first, DEFAULT_MIX)
    assert resource.table(need_of(a_pod("other", gpus=1), settings), DEFAULT_MIX) is table
    for gpus in range(2, 2 + states.MOST_NEEDS):
        resource.table(need_of(a_pod(gpus=gpus), settings), DEFAULT_MIX)
    assert len(resource._tables) == states.MOST_NEEDS
    assert resource.table(first, DEFAULT_MIX) is not table


def test_known_free_indexes_are_those_of_the_deleted_pod() -> None:
    """G06: four pods with two GPUs each; one goes, and its GPUs are what the next pod gets."""
    used = {i: f"default/p{i // 2}" for i in range(8)}
    pods = [a_pod(f"p{i}", gpus=2, node="n1") for i in range(4)]
    extender = InMemoryExtender(a_node("n1", report=a_report(8, used=used)), *pods)
    assert extender.filter(asking(gpus=2), ["n1"])["NodeNames"] == []
    extender.lose(pods[2])
    assert extender.filter(asking(gpus=2), ["n1"])["NodeNames"] == ["n1"]
    sight = extender.cache.sight(GPU, [])
    state = sight.resource.states[sight.resource.of_node["n1"]]
    assert (state.free, state.free_sets) == (2, (0b00110000,))


def test_states_that_are_new_are_judged_before_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    extender = InMemoryExtender(a_node("n1"), a_node("n2"))
    extender.filter(asking(gpus=2, tp=2), ["n1"])
    extender.see(a_pod("holder", gpus=3, node="n2"))
    monkeypatch.setattr(judgement, "judge", lambda *_: pytest.fail("judged while somebody waits"))
    assert extender.filter(asking("b", gpus=2, tp=2), ["n1", "n2"])["NodeNames"] == ["n1", "n2"]


def test_needs_that_will_be_asked_for_are_judged_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    extender = InMemoryExtender(a_node("n1"), a_pod("holder", gpus=3, node="n1"))
    extender.cache.prepare([need_of(a_pod(gpus=2, tp=2), extender.settings)], DEFAULT_MIX)
    monkeypatch.setattr(judgement, "judge", lambda *_: pytest.fail("judged while somebody waits"))
    assert extender.filter(asking(gpus=2, tp=2), ["n1"])["NodeNames"] == ["n1"]
