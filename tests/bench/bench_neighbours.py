"""What it takes to judge rules between pods where every pod has an anti-affinity.

`python -m tests.bench.bench_neighbours` prints the table.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import perf_counter

import pytest

from islander.cluster import names
from islander.cluster.pod import PodTerm, Requirement
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.neighbours import Neighbourhood, affinity_fails
from tests.builders import a_node, a_pod, a_snapshot

PODS_PER_NODE, REPLICAS = 8, 4
CALLS = 200


def apart(nodes: int, seed: int = 1) -> ClusterSnapshot:
    """Nodes full of pods; the four replicas of a workload want a node each."""
    random = Random(seed)
    pods = []
    for number in range(nodes * PODS_PER_NODE):
        app = f"app-{number // REPLICAS}"
        term = PodTerm(names.HOSTNAME, (Requirement("app", "In", (app,)),))
        home = f"n{random.randrange(nodes)}"
        pods.append(a_pod(f"p{number}", node=home, labels={"app": app}, pod_anti_affinity=(term,)))
    return a_snapshot(*(a_node(f"n{number}") for number in range(nodes)), *pods)


def milliseconds(work: Callable[[], object], times: int = 1) -> float:
    began = perf_counter()
    for _ in range(times):
        work()
    return (perf_counter() - began) / times * 1e3


def measure(nodes: int) -> tuple[float, float, float, float]:
    """Milliseconds to look at all pods, to judge the first node for a pod, each further one, and one after a move."""
    snapshot = apart(nodes)
    built = milliseconds(lambda: Neighbourhood.of(snapshot))
    around, pod = Neighbourhood.of(snapshot), snapshot.pods[0]
    first = milliseconds(lambda: affinity_fails(pod, snapshot.nodes[0], around))
    others = iter(snapshot.nodes * (1 + CALLS // nodes))
    further = milliseconds(lambda: affinity_fails(pod, next(others), around), CALLS)

    def after_a_move() -> bool:
        name = snapshot.nodes[-1].name
        return affinity_fails(pod, snapshot.nodes[1], around.with_pods({**around.pods, name: around.pods[name][1:]}))

    return built, first, further, milliseconds(after_a_move, 10)


def show() -> dict[int, tuple[float, float, float, float]]:
    print("\n| nodes | pods with anti-affinity | look at all, ms | first node, ms | next node, ms | after a move, ms |")
    print("|---|---|---|---|---|---|")
    found = {}
    for nodes in (100, 1000, 5000):
        found[nodes] = built, first, further, moved = measure(nodes)
        print(f"| {nodes:,} | {nodes * PODS_PER_NODE:,} | {built:.1f} | {first:.1f} | {further:.4f} | {moved:.2f} |")
    return found


@pytest.mark.bench
def test_judging_one_more_node_does_not_look_at_every_pod() -> None:
    found = show()
    assert found[5000][2] < 10 * found[100][2]


if __name__ == "__main__":
    show()
