"""What holds of the capacity of any flavor, whatever its nodes and pods are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from islander.cluster import names
from islander.cluster.queues import Cohort
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from islander.policy.status import cluster_status
from planner.quota.capacity import capacities
from planner.quota.findings import findings_of
from tests.builders import (
    H100,
    a_cluster_queue,
    a_flavor,
    a_node,
    a_pod,
    a_resource_claim,
    a_resource_slice,
    a_snapshot,
    quotas,
)

PRODUCTS = (H100, "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S", f"{H100}-SHARED", "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", None)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSnapshot:
    objects: list[object] = []
    for index in range(draw(st.integers(1, 4))):
        name = f"n{index}"
        gpus = draw(st.sampled_from((0, 2, 4, 8)))
        left = draw(st.integers(0, gpus))
        objects.append(
            a_node(
                name,
                gpus=gpus,
                allocatable=left,
                product=draw(st.sampled_from(PRODUCTS)),
                labels={"pool": draw(st.sampled_from("ab"))},
                ready=draw(st.integers(0, 5)) > 0,
                unschedulable=draw(st.integers(0, 5)) == 0,
            )
        )
        for pod in range(draw(st.integers(0, 3))):
            labels = {names.KUEUE_QUEUE: "lq"} if draw(st.booleans()) else {}
            objects.append(a_pod(f"p{index}-{pod}", gpus=draw(st.integers(0, 4)), node=name, labels=labels))
        if draw(st.booleans()):
            devices = [f"gpu-{i}" for i in range(draw(st.integers(1, 3)))]
            objects += [a_resource_slice(name), a_resource_claim(*devices, node=name, name=f"c{index}")]
    labelled = draw(st.sampled_from(({}, {"pool": "a"})))
    objects += [a_flavor("one", labels=labelled), a_flavor("b", labels={"pool": "b"})]
    for name in ("x", "y"):
        cohort = draw(st.sampled_from(("", "c", "d")))
        objects.append(a_cluster_queue(name, quotas("one", draw(st.integers(0, 20))), cohort=cohort))
    # A circle is refused nowhere, so it must not hold anybody up.
    objects += [Cohort("c", parent=draw(st.sampled_from(("", "c", "d")))), Cohort("d", parent="c")]
    return a_snapshot(*objects)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=60)
@given(clusters(), st.integers(0, 3))
def test_capacity_adds_up(snapshot: ClusterSnapshot, survive: int) -> None:
    for found in capacities(snapshot, PolicySettings(), survive):
        rooms = found.nodes
        assert 0 <= found.usable_without_biggest <= found.usable <= found.arithmetic
        assert found.usable == sum(room.usable for room in rooms)
        assert not {room.name for room in rooms} & {name for name, _ in found.unusable}
        assert sum(count for _, count in found.held_outside) == sum(room.held_outside for room in rooms)
        for shape, count in found.placeable.items():
            assert shape.gpus * count <= found.usable
            assert found.placeable_now[shape] <= count
            assert 0 <= found.placeable_without_biggest[shape] <= count
            assert survive or found.placeable_without_biggest[shape] == count
        fewer = capacities(snapshot, PolicySettings(), survive + 1)
        (same,) = (one for one in fewer if (one.flavor, one.resource) == (found.flavor, found.resource))
        assert same.placeable == found.placeable
        assert all(same.placeable_without_biggest[s] <= n for s, n in found.placeable_without_biggest.items())


@settings(deadline=None, max_examples=60)
@given(clusters())
def test_a_flavor_over_all_nodes_offers_what_status_counts(snapshot: ClusterSnapshot) -> None:
    """Two ways to the same number: GPUs of nodes that take pods, less what all pods and claims hold."""
    by_node = {node.name: node for node in cluster_status(snapshot).nodes}
    for found in capacities(snapshot, PolicySettings()):
        for room in found.nodes if found.resource == names.NVIDIA_GPU else ():
            status = by_node[room.name]
            if not status.mig:
                assert (room.allocatable, room.used) == (status.allocatable, status.used)
                assert room.usable >= status.free


@settings(deadline=None, max_examples=60)
@given(clusters())
def test_findings_come_to_an_end_and_are_the_same_twice(snapshot: ClusterSnapshot) -> None:
    first = findings_of(snapshot, PolicySettings())
    assert first == findings_of(snapshot, PolicySettings())
    assert len(set(first)) == len(first)
