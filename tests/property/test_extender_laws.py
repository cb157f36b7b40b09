"""Laws of the decisions, on small clusters of every kind."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from extender.cache import ClusterCache
from extender.decide import Decider
from extender.holds import SoftHolds
from extender.wire import ExtenderArgs
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.policy.settings import DEFAULT_MIX, PolicySettings
from tests.builders import a_node, a_pod, a_snapshot
from tests.unit.extender.harness import InMemoryExtender, asking

HARDWARE = st.sampled_from([("hgx-h100-8", 8), ("a100-pcie-4", 4), ("dgx-1v", 8), (None, 8), ("pcie-4", 4)])


@st.composite
def clusters(draw: st.DrawFn) -> list[Node | Pod]:
    objects: list[Node | Pod] = []
    for i in range(draw(st.integers(0, 5))):
        hardware, gpus = draw(HARDWARE)
        lost = draw(st.integers(0, 2))
        objects.append(a_node(f"n{i}", gpus=gpus, allocatable=gpus - lost, product=None, hardware=hardware))
        for j, held in enumerate(draw(st.lists(st.sampled_from([1, 1, 2, 4]), max_size=4))):
            objects.append(a_pod(f"p{i}-{j}", gpus=held, node=f"n{i}"))
    return objects


REQUESTS = st.builds(
    lambda shape, topology: asking(gpus=shape[0], tp=shape[1], topology=topology),
    st.sampled_from([(1, None), (2, 2), (2, None), (4, 4), (4, 2), (8, 8)]),
    st.sampled_from([None, "required", "preferred", "ignored"]),
)
NAMES = st.lists(st.sampled_from([f"n{i}" for i in range(7)]), unique=True, max_size=7)


@settings(max_examples=150, deadline=None)
@given(clusters(), REQUESTS, NAMES)
def test_every_node_is_kept_or_refused_in_one_way(
    objects: list[Node | Pod], pod: dict[str, Any], names: list[str]
) -> None:
    answer = InMemoryExtender(*objects).filter(pod, names)
    kept, failed, unresolvable = answer["NodeNames"], answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]
    assert kept == [name for name in names if name in kept]
    assert not failed.keys() & unresolvable.keys()
    assert sorted([*kept, *failed, *unresolvable]) == sorted(names)
    assert all([*failed.values(), *unresolvable.values()])


@settings(max_examples=150, deadline=None)
@given(clusters(), REQUESTS, NAMES)
def test_scores_are_in_range_and_no_refused_node_gets_more_than_0(
    objects: list[Node | Pod], pod: dict[str, Any], names: list[str]
) -> None:
    extender = InMemoryExtender(*objects)
    kept = extender.filter(pod, names)["NodeNames"]
    scores = extender.prioritize(pod, names)
    assert all(0 <= score <= 10 for score in scores.values())
    assert not any(scores[name] for name in names if name not in kept)
    assert list(scores.values()).count(10) == min(1, len(kept))


@settings(max_examples=100, deadline=None)
@given(clusters(), REQUESTS)
def test_explain_filter_and_prioritize_agree(objects: list[Node | Pod], pod: dict[str, Any]) -> None:
    extender = InMemoryExtender(*objects)
    names = [obj.name for obj in objects if isinstance(obj, Node)]
    explained = extender.post("explain", pod).get_json()
    assert [node["name"] for node in explained["nodes"] if node["accepted"]] == extender.filter(pod, names)["NodeNames"]
    assert {node["name"]: node["score"] for node in explained["nodes"]} == extender.prioritize(pod, names)


@settings(max_examples=100, deadline=None)
@given(clusters(), REQUESTS, NAMES)
def test_whoever_is_not_bound_by_topology_passes_wherever_enough_is_free(
    objects: list[Node | Pod], pod: dict[str, Any], names: list[str]
) -> None:
    """Anything unknown never refuses what kube-scheduler accepts, unless topology is required."""
    pod["metadata"]["annotations"] = {}
    gpus = int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
    nodes = {obj.name: obj for obj in objects if isinstance(obj, Node)}
    free = {
        name: node.allocatable.count("nvidia.com/gpu")
        - sum(p.spec.requests.count("nvidia.com/gpu") for p in objects if isinstance(p, Pod) and p.node == name)
        for name, node in nodes.items()
    }
    kept = InMemoryExtender(*objects).filter(pod, names)["NodeNames"]
    assert kept == [name for name in names if free.get(name, -1) >= gpus]


class EventsAgainstLists(RuleBasedStateMachine):
    """After any events, the cache decides as one that was filled from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = PolicySettings(mix=DEFAULT_MIX)
        self.cache = ClusterCache(self.settings.gpu_resources)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}

    @rule(i=st.integers(0, 3), hardware=HARDWARE, lost=st.integers(0, 2))
    def node_is_seen(self, i: int, hardware: tuple[str | None, int], lost: int) -> None:
        node = a_node(f"n{i}", gpus=hardware[1], allocatable=hardware[1] - lost, product=None, hardware=hardware[0])
        self.cache.on_change("Node", node.name, self.nodes.get(node.name), node)
        self.nodes[node.name] = node

    @rule(i=st.integers(0, 3))
    def node_is_gone(self, i: int) -> None:
        self.cache.on_change("Node", f"n{i}", self.nodes.pop(f"n{i}", None), None)

    @rule(
        i=st.integers(0, 5),
        where=st.sampled_from(["", "n0", "n1", "n2", "n3"]),
        gpus=st.sampled_from([0, 1, 2, 4]),
        phase=st.sampled_from(["Pending", "Running", "Succeeded"]),
    )
    def pod_is_seen(self, i: int, where: str, gpus: int, phase: str) -> None:
        pod = a_pod(f"p{i}", gpus=gpus, node=where, phase=phase)
        self.cache.on_change("Pod", pod.key, self.pods.get(pod.key), pod)
        self.pods[pod.key] = pod

    @rule(i=st.integers(0, 5))
    def pod_is_gone(self, i: int) -> None:
        self.cache.on_change("Pod", f"default/p{i}", self.pods.pop(f"default/p{i}", None), None)

    @rule()
    def everything_is_caught_up(self) -> None:
        self.cache.catch_up()

    @invariant()
    def decides_as_from_scratch(self) -> None:
        fresh = ClusterCache(self.settings.gpu_resources)
        fresh.load(a_snapshot(*self.nodes.values(), *self.pods.values()))
        names = ["n0", "n1", "n2", "n3"]
        for gpus in (1, 4):
            args = ExtenderArgs(a_pod("asking", gpus=gpus, tp=gpus), names, None)
            answers = [
                (decider.filter(args), decider.prioritize(args))
                for decider in (
                    Decider(cache, SoftHolds(0.0), self.settings, lambda: DEFAULT_MIX, lambda: 0.0)
                    for cache in (self.cache, fresh)
                )
            ]
            assert answers[0] == answers[1]


TestEventsAgainstLists = EventsAgainstLists.TestCase
TestEventsAgainstLists.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
