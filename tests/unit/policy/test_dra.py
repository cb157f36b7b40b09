"""Nodes whose GPUs dynamic resource allocation hands out: only kube-scheduler counts them."""

from __future__ import annotations

from islander.policy.explain import explain_pod
from islander.policy.occupancy import Source, gpu_state
from islander.policy.status import cluster_status
from tests.builders import a_node, a_pod, a_resource_claim, a_resource_slice, a_snapshot

DRA = a_node("dra", gpus=0)
SLICE = a_resource_slice("dra")


def explained(*objects, pod):
    return {node.name: node for node in explain_pod(a_snapshot(*objects), pod).nodes}


def test_a_node_with_devices_in_slices_is_possible_and_last_among_those_that_fit() -> None:
    nodes = explained(DRA, SLICE, a_node("plugin"), pod=a_pod("p", gpus=4, tp=4))
    dra = nodes["dra"]
    assert (dra.verdict, dra.accepted, dra.code, dra.score, dra.parts) == (
        "possible",
        True,
        "ISLAND_NOT_GUARANTEED",
        0,
        None,
    )
    assert (dra.picks.possible, dra.picks.complete, dra.free_indexes_source) == ([], False, "unknown")
    assert nodes["plugin"].score == 10


def test_a_required_island_is_not_promised_where_picks_are_not_known() -> None:
    dra = explained(DRA, SLICE, pod=a_pod("p", gpus=4, tp=4, topology="required"))["dra"]
    assert (dra.accepted, dra.code) == (False, "ISLAND_NOT_GUARANTEED")
    assert explained(DRA, SLICE, pod=a_pod("p", gpus=1, topology="required"))["dra"].accepted


def test_a_node_without_devices_is_too_small() -> None:
    for slices in ((), (a_resource_slice("dra", driver="nic.example.com"),), (a_resource_slice("other"),)):
        assert explained(DRA, *slices, pod=a_pod("p", gpus=1))["dra"].code == "NODE_TOO_SMALL"
    assert explained(DRA, a_resource_slice("dra", devices=0), pod=a_pod("p"))["dra"].code == "NODE_TOO_SMALL"


def test_what_a_node_offers_itself_outweighs_its_slices() -> None:
    node = a_node("both", gpus=8)
    assert gpu_state(node, [], dra=True) == gpu_state(node, [])


def test_pods_that_got_devices_are_no_overallocation_and_nothing_is_called_free() -> None:
    state = gpu_state(a_node(gpus=0), [a_pod(gpus=2, node="n1")], dra=True)
    assert (state.used, state.overallocated, state.free, state.free_sets, state.source) == (2, 0, 0, (), Source.UNKNOWN)


def test_status_lists_the_node_and_says_what_it_does_not_count() -> None:
    status = cluster_status(a_snapshot(DRA, SLICE, a_node("cpu", gpus=0)))
    (node,) = status.nodes
    assert (node.name, node.schedulable, node.free, node.free_indexes, node.free_indexes_source) == (
        "dra",
        True,
        0,
        None,
        "unknown",
    )
    assert status.warnings == [
        "node dra: its GPUs are handed out by dynamic resource allocation; they are not counted here"
    ]


def test_gpus_that_both_systems_offer_are_counted_once_and_plain_pods_still_fit() -> None:
    """G46: eight GPUs, two held by the device plugin and one by a claim that two pods share."""
    pods = (
        a_pod("plain", gpus=2, node="n1"),
        a_pod("p1", gpus=0, node="n1", resource_claims=True),
        a_pod("p2", gpus=0, node="n1", resource_claims=True),
    )
    snapshot = a_snapshot(a_node(), a_resource_slice("n1"), a_resource_claim("gpu-0", pods=("p1", "p2")), *pods)
    status = cluster_status(snapshot)
    (node,) = status.nodes
    assert (node.gpus, node.allocatable, node.used, node.free) == (8, 8, 3, 5)
    assert status.totals.gpus == 8
    assert status.totals.overallocated == 0
    (warning,) = status.warnings
    assert warning.startswith("node n1: device plugin and dynamic resource allocation both offer its GPUs")
    # kube-scheduler counts the plain pods only, so six more would be accepted too.
    for gpus in (5, 6):
        (explained,) = explain_pod(snapshot, a_pod("next", gpus=gpus)).nodes
        assert explained.verdict == "guaranteed"


def test_a_claim_beside_a_full_device_plugin_shows_that_a_card_was_given_twice() -> None:
    """G46."""
    snapshot = a_snapshot(
        a_node(), a_resource_slice("n1"), a_resource_claim("gpu-0"), a_pod("plain", gpus=8, node="n1")
    )
    (node,) = cluster_status(snapshot).nodes
    assert (node.used, node.free) == (9, 0)
    assert cluster_status(snapshot).totals.overallocated == 1


def test_a_claim_on_a_node_without_a_device_plugin_is_not_counted_against_nothing() -> None:
    (node,) = cluster_status(a_snapshot(a_node("dra", gpus=0), SLICE, a_resource_claim("gpu-0", node="dra"))).nodes
    assert (node.used, node.free) == (0, 0)
