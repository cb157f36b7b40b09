"""A refusal that may rest on an old state is looked at again, or held back until the watch has brought something."""

import threading

from extender.cache import ClusterCache
from extender.decide import Decider
from extender.holds import SoftHolds
from extender.news import REST_S, News
from extender.wire import ExtenderArgs
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.policy.settings import DEFAULT_MIX, PolicySettings
from tests.builders import a_node, a_pod
from tests.unit.extender.harness import Clock

_SHORT_S = 0.01
# Never waited in full: what ends it has been sent already, or is sent by another thread.
_LONG_S = 30.0


def _news(patience_s: float = _SHORT_S, clock: Clock | None = None) -> News:
    return News(clock or Clock(), patience_s)


def test_first_refusal_is_not_held_back() -> None:
    assert not _news(_LONG_S).wait(a_pod("strict"), 0)


def test_refusal_is_looked_at_again_when_something_came_while_judging() -> None:
    news = _news(_LONG_S)
    count = news.count

    news.on_change("Node", "n1", None, a_node("n1"))

    assert news.wait(a_pod("strict"), count)


def test_second_refusal_waits_until_the_watch_brings_something() -> None:
    news = _news(_LONG_S)
    news.refused(a_pod("strict"), news.count)
    late = threading.Timer(_SHORT_S, news.on_change, ("Node", "n1", None, a_node("n1")))

    late.start()

    assert news.wait(a_pod("strict"), news.count)
    late.join()


def test_second_refusal_is_not_held_back_when_something_came_in_between() -> None:
    news = _news(_LONG_S)
    news.refused(a_pod("strict"), news.count)

    news.on_change("Pod", "default/other", None, a_pod("other"))

    assert not news.wait(a_pod("strict"), news.count)


def test_changes_of_the_pod_itself_and_heartbeats_are_no_news() -> None:
    news = _news()
    pod = a_pod("strict")
    news.refused(pod, news.count)

    news.on_change("Pod", pod.key, pod, pod)
    news.on_change("Pod", pod.key, pod, a_pod("strict", phase="Running"))
    news.on_change("Node", "n1", a_node("n1"), a_node("n1"))
    news.on_change("PodDisruptionBudget", "default/llm", None, object())

    assert not news.wait(pod, news.count)
    assert news.resting


def test_pod_that_has_changed_itself_is_not_held_back() -> None:
    news = _news(_LONG_S)
    news.refused(a_pod("strict"), news.count)

    assert not news.wait(a_pod("strict", labels={"changed": "since"}), news.count)


def test_waiting_in_vain_is_followed_by_a_rest() -> None:
    clock = Clock()
    news = _news(clock=clock)
    pod = a_pod("strict")
    news.refused(pod, news.count)

    assert not news.resting
    assert not news.wait(pod, news.count)
    assert news.resting
    assert not news.wait(pod, news.count)

    clock.now_s += REST_S
    assert not news.resting


def test_filter_judges_again_by_what_came_while_it_waited() -> None:
    settings = PolicySettings(mix=DEFAULT_MIX)
    cache = ClusterCache(settings.gpu_resources)
    news = _news(_LONG_S)
    decider = Decider(cache, SoftHolds(0.0), settings, lambda: DEFAULT_MIX, Clock(), news)

    def see(old: Node | Pod | None, new: Node | Pod) -> None:
        key = new.name if isinstance(new, Node) else new.key
        cache.on_change(type(new).__name__, key, old, new)
        news.on_change(type(new).__name__, key, old, new)

    full, empty = a_node("n1", allocatable=0), a_node("n1")
    see(None, full)
    asked = ExtenderArgs(a_pod("waiting", gpus=8), ["n1"], None)
    assert decider.filter(asked).refuses_all

    late = threading.Timer(_SHORT_S, see, (full, empty))
    late.start()

    assert not decider.filter(asked).refuses_all
    late.join()
