"""Many pods at once, faster than the watch: nothing is placed twice, and no more islands are broken than must be."""

from collections import Counter

from islander.hardware.islands import is_island
from islander.hardware.links import mask_of
from tests.kwok.islander_bench import IslanderBench, bridged_node, nvswitch_node


def test_sixteen_pods_at_once_fill_sixteen_gpus(bench: IslanderBench) -> None:
    """G12."""
    bench.set_up([nvswitch_node("node-1"), nvswitch_node("node-2")])
    pods = [bench.replica(f"pod-{number:02}") for number in range(16)]

    bench.api.create_all(pods)

    assert Counter(bench.wait_all_bound(pods).values()) == {"node-1": 8, "node-2": 8}
    bench.wait_seen()
    assert bench.overfilled() == []


def test_sixteen_pods_at_once_fill_the_gaps_and_leave_the_whole_nodes(bench: IslanderBench) -> None:
    """G12, with more free GPUs than pods: sixteen are left over by others."""
    nodes = [nvswitch_node(f"whole-{number}") for number in range(2)]
    gaps = {f"gap-{number}": range(4) for number in range(4)}
    bench.set_up([*nodes, *(nvswitch_node(name) for name in gaps)], gaps)
    pods = [bench.replica(f"pod-{number:02}") for number in range(16)]

    bench.api.create_all(pods)

    assert Counter(bench.wait_all_bound(pods).values()) == dict.fromkeys(gaps, 4)
    bench.wait_seen()
    assert bench.overfilled() == []


def test_two_replicas_at_once_go_to_two_half_free_nodes(bench: IslanderBench) -> None:
    """G12."""
    half_free = {"half-1": range(4), "half-2": range(4)}
    bench.set_up([*(nvswitch_node(name) for name in half_free), nvswitch_node("whole")], half_free)
    pods = [bench.replica(f"four-{number}", 4) for number in range(2)]

    bench.api.create_all(pods)

    assert sorted(bench.wait_all_bound(pods).values()) == ["half-1", "half-2"]
    bench.wait_seen()
    assert bench.overfilled() == []


def test_two_replicas_at_once_do_not_share_the_one_island_of_a_node(bench: IslanderBench) -> None:
    """By count both would fit on either node; each node has one intact pair and GPUs of broken ones."""
    held = {"node-1": (0, 2, 4), "node-2": (0, 2, 4)}
    bench.set_up([bridged_node(name) for name in held], held)
    pods = [bench.replica(f"pair-{number}", 2) for number in range(2)]

    bench.api.create_all(pods)

    assert sorted(bench.wait_all_bound(pods).values()) == ["node-1", "node-2"]
    links = bench.kubelet.free_masks()["node-1"][0].links
    for pod in pods:
        assert is_island(links, mask_of(bench.kubelet.wait_picked(bench.namespace, pod["metadata"]["name"])))


def test_burst_of_single_gpu_pods_breaks_no_more_nodes_than_it_fills(bench: IslanderBench) -> None:
    bench.set_up([nvswitch_node(f"node-{number}") for number in range(6)])
    pods = [bench.replica(f"pod-{number:02}") for number in range(16)]

    bench.api.create_all(pods)

    assert sorted(Counter(bench.wait_all_bound(pods).values()).values()) == [8, 8]


def test_burst_of_single_gpu_pods_breaks_no_more_pairs_than_it_must(bench: IslanderBench) -> None:
    bench.set_up([bridged_node(f"node-{number}") for number in range(4)])
    pods = [bench.replica(f"pod-{number:02}") for number in range(8)]

    bench.api.create_all(pods)

    # Which GPU of a node is chance; on one node eight pods break four pairs, on several they would break more.
    assert len(set(bench.wait_all_bound(pods).values())) == 1


def test_next_pod_knows_where_the_last_one_goes_before_the_watch_does(bench: IslanderBench) -> None:
    """Soft holds: what is asked is the extender alone, and no pod is ever bound."""
    bench.set_up([nvswitch_node("node-a"), nvswitch_node("node-b")], {"node-a": range(4), "node-b": range(4)})
    first, second = (bench.api.create(bench.replica(name, 4), dry_run=True) for name in ("first", "second"))

    best = []
    for pod in (first, second):
        _, scores = bench.extender.post("/prioritize", {"Pod": pod, "NodeNames": ["node-a", "node-b"]})
        best.append(max(scores, key=lambda entry: entry["Score"])["Host"])

    assert best == ["node-a", "node-b"]
