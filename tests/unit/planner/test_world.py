"""A world in which pods move: who holds what, and what follows for who comes next."""

from __future__ import annotations

from itertools import pairwise

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import PodTerm, Requirement
from islander.hardware.presets import preset
from islander.hardware.topo import cells_of
from islander.policy.fit import Unfit
from islander.policy.need import need_of
from islander.policy.occupancy import gpu_state
from islander.policy.reasons import Code
from islander.policy.settings import PolicySettings
from planner.world import World
from tests.builders import a_node, a_pod, a_report, a_snapshot

GPU = names.NVIDIA_GPU


def a_reporting_node(name: str, hardware: str, used: dict[int, str]) -> Node:
    machine = preset(hardware)
    assert machine is not None
    report = a_report(
        machine.gpus,
        used=used,
        links=cells_of(machine.links),
        plugin_links=cells_of(machine.plugin_links),
        numa=machine.numa,
    )
    return a_node(name, gpus=machine.gpus, report=report)


def test_a_moving_pod_holds_its_gpus_in_both_places_until_it_has_left() -> None:
    pod = a_pod("x", gpus=4, node="n1")
    before = World.of(a_snapshot(a_node("n1"), a_node("n2"), pod))
    moving = before.arrived(pod, "n2")
    moved = moving.left(pod.key, "n1")
    free = [[world.state(node, GPU).free for node in ("n1", "n2")] for world in (before, moving, moved)]
    assert free == [[4, 8], [4, 4], [8, 4]]


def test_a_replacement_is_not_the_pod_that_the_report_knows() -> None:
    # The pod goes away and comes back: the report still names GPU 0, but the replacement may have got any.
    pod = a_pod("x", gpus=1, node="n1")
    node = a_reporting_node("n1", "h100-pcie-4", {0: "default/x"})
    world = World.of(a_snapshot(node, a_node("n2"), pod))
    assert world.state("n1", GPU).free_sets == (0b1110,)
    back = world.arrived(pod, "n2").left(pod.key, "n1").arrived(pod, "n1").left(pod.key, "n2")
    assert len(back.state("n1", GPU).free_sets) > 1


def test_replacements_pick_in_the_order_in_which_they_came() -> None:
    node = a_reporting_node("n2", "dgx-1v", {1: "default/there"})
    there = a_pod("there", node="n2")
    two, three = a_pod("two", gpus=2, node="n1"), a_pod("three", gpus=3, node="n1")
    world = World.of(a_snapshot(a_node("n1"), node, there, two, three))
    for order in ((two, three), (three, two)):
        came = world
        for pod in order:
            came = came.arrived(pod, "n2")
        times = [
            a_pod(pod.name, gpus=gpus, node="n2", created=f"2027-0{i}")
            for i, (pod, gpus) in enumerate([(pod, pod.spec.requests.count(GPU)) for pod in order])
        ]
        assert came.state("n2", GPU).free_sets == gpu_state(node, (there, *times), GPU).free_sets
    states = [world.arrived(a, "n2").arrived(b, "n2").state("n2", GPU) for a, b in ((two, three), (three, two))]
    assert all(one.free_sets != other.free_sets for one, other in pairwise(states))


def test_a_pod_that_left_excludes_nobody() -> None:
    other = a_pod("y", node="n1", pod_anti_affinity=(PodTerm(names.HOSTNAME, (Requirement("app", "In", ("x",)),)),))
    pod = a_pod("x", labels={"app": "x"})
    world = World.of(a_snapshot(a_node("n1"), other, pod))
    need = need_of(pod, PolicySettings())
    assert world.refusal(pod, need, "n1") == Unfit(Code.POD_AFFINITY_MISMATCH)
    assert world.left(other.key, "n1").refusal(pod, need, "n1") is None


def test_a_world_is_not_changed_by_what_follows_from_it() -> None:
    pod = a_pod("x", gpus=4, node="n1")
    world = World.of(a_snapshot(a_node("n1"), a_node("n2"), pod))
    world.arrived(pod, "n2").left(pod.key, "n1")
    assert world.pods_at("n1") == (pod,)
    assert world.pods_at("n2") == ()
    assert world.state("n2", GPU).free == 8


def test_gpus_that_dynamic_allocation_hands_out_are_no_room() -> None:
    pod = a_pod("x", gpus=1)
    world = World.of(a_snapshot(a_node("n1", gpus=0), pod))
    assert world.refusal(pod, need_of(pod, PolicySettings()), "n1") is not None
