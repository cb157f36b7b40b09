"""The decisions of filter, prioritize and preempt. They write nothing and call no API."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from extender.cache import ClusterCache, identity
from extender.holds import SoftHolds
from extender.judgement import ACCEPTED, CODES, judge
from extender.news import News
from extender.states import UNKNOWN, Sight
from extender.wire import ExtenderArgs, Filtered, PreemptionArgs, SentNode, Victims
from islander.cluster.pod import Pod
from islander.policy.assess import ScoreParts
from islander.policy.need import PodNeed, need_of
from islander.policy.reasons import Code
from islander.policy.score import MAX_SCORE, spread, spread_ranks
from islander.policy.settings import DemandMix, PolicySettings, Topology

_UNKNOWN_NODE = CODES.index(Code.UNKNOWN_NODE)

MorePods = Mapping[str, Sequence[Pod]]


class Decider:
    """Decides by what is known at the moment of the call; thread-safe.

    Parameters
    ----------
    mix
        Returns the demand mix in force; it may change while the program runs.
    now_s
        A steady clock, in seconds.
    news
        Knows what the watch has brought; None where nothing is watched.
    """

    def __init__(
        self,
        cache: ClusterCache,
        holds: SoftHolds,
        settings: PolicySettings,
        mix: Callable[[], DemandMix],
        now_s: Callable[[], float],
        news: News | None = None,
    ) -> None:
        self._cache = cache
        self._holds = holds
        self._settings = settings
        self._mix = mix
        self._now_s = now_s
        self._news = news
        # Two pods that are scored at the same moment must not both be sent to the same best node.
        self._choosing = threading.Lock()

    def filter(self, args: ExtenderArgs) -> Filtered:
        """Return which nodes stay; every other one has its reason."""
        need = need_of(args.pod, self._settings)
        if not need.gpus:
            return Filtered()
        reserved = self._preempting_for(args.pod)
        if args.nodes is not None:
            return self._filter_sent(args.nodes, need, reserved)
        if self._news is None:
            return self._filter_named(args.names or [], need, reserved)
        count = self._news.count
        outcome = self._filter_named(args.names or [], need, reserved)
        if outcome.refuses_all:
            if self._news.wait(args.pod, count):
                count = self._news.count
                outcome = self._filter_named(args.names or [], need, self._preempting_for(args.pod))
            self._news.refused(args.pod, count)
        return outcome

    def _filter_named(self, names: Sequence[str], need: PodNeed, reserved: MorePods) -> Filtered:
        sight = self._cache.sight(need.resource, names)
        ids = sight.ids(self._states_with(sight, reserved))
        known = ids != UNKNOWN
        codes = np.full(len(ids), _UNKNOWN_NODE, dtype=np.int64)
        codes[known] = sight.resource.table(need, self._mix()).judgements(ids[known]).codes
        kept = codes == ACCEPTED
        if kept.all():
            return Filtered()
        refused = {
            CODES[i]: list(compress(names, (codes == i).tolist()))
            for i in np.flatnonzero(np.bincount(codes[~kept])).tolist()
        }
        return Filtered(kept.tolist(), refused)

    def prioritize(self, args: ExtenderArgs) -> list[int]:
        """Return the score of each node, in the order sent; the best node is held for the pod."""
        need = need_of(args.pod, self._settings)
        if args.nodes is not None:
            return self._prioritize_sent(args.pod, args.nodes, need)
        names = args.names or []
        if not need.gpus:
            return [0] * len(names)
        sight = self._cache.sight(need.resource, names)
        table = sight.resource.table(need, self._mix())
        # For a need that is new this takes time, in which other pods need not wait for their choice.
        ids = sight.ids({})
        table.warm(ids[ids != UNKNOWN])
        with self._choosing:
            if instead := self._states_with(sight, self._expected_beside(args.pod)):
                ids = sight.ids(instead)
            known = ids != UNKNOWN
            ranks = np.full(len(ids), -1, dtype=np.int64)
            ranks[known] = table.judgements(ids[known]).ranks
            scores: list[int] = spread_ranks(ranks, _order_of_best(names, ranks)).tolist()
            self._hold(args.pod, names, scores)
        return scores

    def preempt(self, args: PreemptionArgs) -> dict[str, Victims]:
        """Return the candidates on which the pod would fit without the victims; we name no victims of our own.

        A candidate without victims is one that kube-scheduler accepts as it is. We send it back only when we accept it
        too: nobody is evicted for topology alone, that is for a plan which people have seen.
        """
        need = need_of(args.pod, self._settings)
        if not need.gpus:
            return args.candidates
        reserved = self._preempting_for(args.pod)
        kept = {}
        for name, victims in args.candidates.items():
            node = self._cache.node(name)
            if node is not None:
                gone = set(victims.uids)
                pods = [pod for pod in (*self._cache.pods_on(name), *reserved.get(name, ())) if pod.uid not in gone]
                code, _ = judge(self._cache.state_of(node, pods, need.resource), need, self._mix())
                if code is not None:
                    continue
            kept[name] = victims
        return kept

    def _preempting_for(self, pod: Pod) -> MorePods:
        """Return the pods for which room was made by preemption, and that `pod` must not overtake.

        kube-scheduler writes `nominatedNodeName` for two reasons. After a preemption the pod has failed once, and says
        so in its condition: its room is kept from pods of equal or lower priority, as kube-scheduler itself does.
        On the way to a bind it is an expectation, of which only the score takes note.
        """
        return {
            node: kept
            for node, pods in self._cache.nominated().items()
            if (
                kept := [
                    other
                    for other in pods
                    if other.unschedulable_message
                    and other.spec.priority >= pod.spec.priority
                    and identity(other) != identity(pod)
                ]
            )
        }

    def _expected_beside(self, pod: Pod) -> MorePods:
        expected: defaultdict[str, list[Pod]] = defaultdict(list)
        for pods_by_node in (self._cache.nominated(), self._holds.on_nodes(self._now_s())):
            for node, pods in pods_by_node.items():
                expected[node] += [other for other in pods if identity(other) != identity(pod)]
        return expected

    def _states_with(self, sight: Sight, more: MorePods) -> dict[str, int]:
        """Return the ids of the states that some known nodes would have with more pods on them."""
        states = {}
        for node, pods in more.items():
            if pods:
                state = self._cache.state_with(sight.resource, node, pods)
                if state is not None:
                    states[node] = state
        return states

    def _hold(self, pod: Pod, names: Sequence[str], scores: Sequence[int]) -> None:
        if MAX_SCORE in scores:
            self._holds.place(pod, names[scores.index(MAX_SCORE)], self._now_s())

    def _filter_sent(self, nodes: Sequence[SentNode], need: PodNeed, reserved: MorePods) -> Filtered:
        codes = {sent.name: self._judge_sent(sent, need, reserved)[0] for sent in nodes}
        refused: defaultdict[Code, list[str]] = defaultdict(list)
        for name, code in codes.items():
            if code is not None:
                refused[code].append(name)
        return Filtered([codes[sent.name] is None for sent in nodes], refused)

    def _prioritize_sent(self, pod: Pod, nodes: Sequence[SentNode], need: PodNeed) -> list[int]:
        scores = [0] * len(nodes)
        if need.gpus:
            with self._choosing:
                expected = self._expected_beside(pod)
                by_name = sorted(range(len(nodes)), key=lambda i: nodes[i].name)
                parts = [self._judge_sent(nodes[i], need, expected)[1] for i in by_name]
                for i, score in zip(by_name, spread(parts), strict=True):
                    scores[i] = score
                self._hold(pod, [sent.name for sent in nodes], scores)
        return scores

    def _judge_sent(self, sent: SentNode, need: PodNeed, more: MorePods) -> tuple[Code | None, ScoreParts | None]:
        """Judge a node as it was sent, with the pods that we know there: none on the template of an autoscaler."""
        if sent.node is None:
            return (Code.UNKNOWN_NODE if need.topology is Topology.REQUIRED else None), None
        pods = {identity(pod): pod for pod in (*self._cache.pods_on(sent.name), *more.get(sent.name, ()))}
        return judge(self._cache.state_of(sent.node, pods.values(), need.resource), need, self._mix())


def _order_of_best(names: Sequence[str], ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 0 for the node that is first by name among those with the highest rank, and 1 for all others."""
    order = np.ones(len(names), dtype=np.int64)
    if len(names):
        best = (ranks == ranks.max()).tolist()
        order[names.index(min(compress(names, best)))] = 0
    return order
