"""The node closest to taking a pod: where the fewest GPUs in use stand in its way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import msgspec

from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.explain import Judged, PodExplanation, judge_nodes
from islander.policy.need import need_of
from islander.policy.neighbours import Neighbourhood
from islander.policy.reasons import Code
from islander.policy.settings import DEFAULT_MIX, PolicySettings

# Reasons that go away when pods leave the node; against all others leaving pods are no help.
_ROOM = frozenset({Code.NOT_ENOUGH_FREE_GPUS, Code.NO_FREE_ISLAND, Code.ISLAND_NOT_GUARANTEED})
_MOST_NODES = 32
_MOST_PODS = 3


@dataclass(frozen=True, slots=True)
class Closest:
    """A node that would take the pod without some of the pods that run there.

    Attributes
    ----------
    node
        The node.
    in_the_way
        (pod, GPUs) of the pods that would have to run elsewhere; whether they may be moved is not judged.
    elsewhere
        A node that has room for the pod in the way now; empty when there is none or several pods are in the way.
    """

    node: str
    in_the_way: tuple[tuple[str, int], ...]
    elsewhere: str = ""

    def sentence(self) -> str:
        """Return it as one line."""
        pods = " and ".join(f"{pod} ({gpus} GPU{'s' if gpus > 1 else ''})" for pod, gpus in self.in_the_way)
        room = f"; {self.elsewhere} has room for it now" if self.elsewhere else ""
        return f"Closest is {self.node}: it would do if {pods} ran elsewhere{room}."


def closest_node(
    snapshot: ClusterSnapshot, pod: Pod, explanation: PodExplanation, settings: PolicySettings
) -> Closest | None:
    """Return the node that takes the pod when the fewest GPUs, then the fewest pods, leave it; None when none would.

    Only pods of equal or lower priority are thought away, at most three of one node.
    """
    need = need_of(pod, settings)
    short = [answer for answer in explanation.nodes if not answer.accepted and answer.code in _ROOM]
    candidates = sorted((need.gpus - answer.free, answer.name) for answer in short)[:_MOST_NODES]
    best: tuple[int, int, str, tuple[Pod, ...]] | None = None
    for _, node in candidates:
        for leaving in _leaving(snapshot, pod, node, need.resource):
            gpus = sum(other.spec.requests.count(need.resource) for other in leaving)
            rank = (gpus, len(leaving), node, leaving)
            if best is not None and rank[:3] >= best[:3]:
                break
            if _accepts(snapshot, pod, node, leaving, settings):
                best = rank
                break
    if best is None:
        return None
    _, _, node, leaving = best
    in_the_way = tuple((other.key, other.spec.requests.count(need.resource)) for other in leaving)
    elsewhere = _room_elsewhere(snapshot, leaving[0], node, settings) if len(leaving) == 1 else ""
    return Closest(node, in_the_way, elsewhere)


def _leaving(snapshot: ClusterSnapshot, pod: Pod, node: str, resource: str) -> Iterator[tuple[Pod, ...]]:
    """Yield sets of pods of a node, those with the fewest GPUs first."""
    holders = [
        other
        for other in snapshot.pods_by_node.get(node, ())
        if other.spec.requests.count(resource) and other.spec.priority <= pod.spec.priority
    ]
    sets = [chosen for size in range(1, _MOST_PODS + 1) for chosen in combinations(holders, size)]
    yield from sorted(
        sets,
        key=lambda chosen: (
            sum(other.spec.requests.count(resource) for other in chosen),
            len(chosen),
            [other.key for other in chosen],
        ),
    )


def _accepts(
    snapshot: ClusterSnapshot, pod: Pod, node: str, leaving: tuple[Pod, ...], settings: PolicySettings
) -> bool:
    gone = {other.key for other in leaving}
    need, mix = need_of(pod, settings), settings.mix or DEFAULT_MIX
    staying = tuple(other for other in snapshot.pods_by_node.get(node, ()) if other.key not in gone)
    there = ClusterSnapshot(nodes=tuple(n for n in snapshot.nodes if n.name == node), pods=staying)
    # The node alone is judged first: it is nearly always what decides, and the whole cluster takes long to walk.
    if not pod.spec.pod_affinity and not _any_accepted(judge_nodes(there, pod, need, Neighbourhood.of(there), mix)):
        return False
    after = msgspec.structs.replace(snapshot, pods=tuple(other for other in snapshot.pods if other.key not in gone))
    return _any_accepted(judge_nodes(there, pod, need, Neighbourhood.of(after), mix))


def _any_accepted(judged: Iterable[Judged]) -> bool:
    return any(one.accepted for one in judged)


def _room_elsewhere(snapshot: ClusterSnapshot, pod: Pod, node: str, settings: PolicySettings) -> str:
    others = msgspec.structs.replace(snapshot, nodes=tuple(n for n in snapshot.nodes if n.name != node))
    judged = judge_nodes(others, pod, need_of(pod, settings), Neighbourhood.of(snapshot), settings.mix or DEFAULT_MIX)
    return min((j.node.name for j in judged if j.accepted), default="")
