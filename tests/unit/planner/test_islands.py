"""Nodes on which links count: which of them are alike, and what may come to them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from islander.cluster import names
from islander.cluster.node import Node
from islander.hardware.presets import PRESETS
from islander.policy.assess import assess
from islander.policy.need import ContainerNeed, PodNeed
from islander.policy.occupancy import GpuState, gpu_state
from islander.policy.settings import DEFAULT_MIX, Topology
from planner.models.alike import held, symmetries_at
from planner.models.kinder import kinder_with_more
from planner.models.symmetry import symmetries_of
from planner.world import World
from tests.builders import a_node, a_pod, a_report, a_snapshot

PCIE = "NVIDIA-A100-80GB-PCIe"
PAIRS = [["X" if i == j else "NV12" if i // 2 == j // 2 else "SYS" for j in range(8)] for i in range(8)]


def a_need(gpus: int, island: int = 1) -> PodNeed:
    topology = Topology.REQUIRED if island > 1 else Topology.IGNORED
    return PodNeed(names.NVIDIA_GPU, gpus, (ContainerNeed(gpus, island),), topology)


def bridged_node(name: str = "n", **users: list[int]) -> Node:
    used = {gpu: f"default/{user}" for user, gpus in users.items() for gpu in gpus}
    return a_node(name, product=PCIE, report=a_report(8, used=used, links=PAIRS))


def state_of(preset: str) -> GpuState:
    return gpu_state(a_node(gpus=PRESETS[preset].gpus, product=None, hardware=preset), ())


class TestSymmetry:
    def test_bridged_pairs_can_be_turned_and_changed(self) -> None:
        """2 ways to turn each of 4 pairs, and 4! orders of them."""
        hardware = gpu_state(bridged_node(), ()).hardware
        assert len(symmetries_of(hardware, "").permutations) == 2**4 * 24

    def test_sets_are_alike_when_they_have_as_many_whole_pairs_and_halves(self) -> None:
        symmetries = symmetries_of(gpu_state(bridged_node(), ()).hardware, "")
        found: defaultdict[bytes, set[tuple[int, int]]] = defaultdict(set)
        for mask in range(256):
            pairs = [mask >> gpu & 3 for gpu in range(0, 8, 2)]
            found[symmetries.sets_like((mask,))].add((pairs.count(3), pairs.count(1) + pairs.count(2)))
        assert all(len(counts) == 1 for counts in found.values())
        assert len(found) == 15

    def test_numbers_of_gpus_count_where_somebody_looks_at_them(self) -> None:
        hardware = gpu_state(bridged_node(), ()).hardware
        symmetries = symmetries_of(hardware, "", numbered=True)
        assert symmetries.sets_like((1,)) != symmetries.sets_like((2,))

    def test_numa_nodes_count_where_kubelet_aligns(self) -> None:
        hardware = PRESETS["pcie-8"]
        assert len(symmetries_of(hardware, "restricted").permutations) == 24 * 24 * 2
        flat = replace(hardware, numa=(0,) * 8)
        assert len(symmetries_of(flat, "restricted").permutations) == len(symmetries_of(flat, "").permutations)

    def test_a_gpu_out_of_order_stands_for_no_other(self) -> None:
        symmetries = symmetries_of(gpu_state(bridged_node(), ()).hardware, "", apart=0b1)
        assert symmetries.sets_like((0b1,)) != symmetries.sets_like((0b10,))
        assert symmetries.sets_like((0b100,)) == symmetries.sets_like((0b1000,))

    @pytest.mark.parametrize("preset", ["a100-pcie-8", "dgx-1v", "dgx-1p", "a100-pcie-6-crossed", "h200-nvl-8"])
    def test_the_policy_judges_alike_what_is_alike(self, preset: str) -> None:
        state, needs = state_of(preset), [a_need(1), a_need(2, 2), a_need(4, 4), a_need(3)]
        symmetries = symmetries_of(state.hardware, "")
        answers: dict[bytes, list[bool]] = {}
        for mask in range(1 << state.hardware.gpus):
            here = replace(state, used=state.allocatable - mask.bit_count(), free_sets=(mask,))
            judged = [assess(here, need, DEFAULT_MIX).accepted for need in needs]
            assert answers.setdefault(symmetries.sets_like((mask,)), judged) == judged


class TestAlike:
    def test_equal_pods_on_gpus_that_can_stand_for_each_other_make_nodes_alike(self) -> None:
        nodes = [bridged_node("a", x=[0], y=[2, 3]), bridged_node("b", v=[6, 7], w=[5])]
        like, other = self.held(*nodes, types={"x": 0, "w": 0, "y": 1, "v": 1})
        assert like.like == other.like
        assert [*map(self.short, like.pods), *map(self.short, other.pods)] in (
            ["x", "y", "w", "v"],
            ["y", "x", "v", "w"],
        )

    def test_a_pod_across_two_pairs_is_another_thing_than_one_on_a_pair(self) -> None:
        across, whole = self.held(bridged_node("a", x=[0, 2]), bridged_node("b", y=[0, 1]), types={"x": 0, "y": 0})
        assert across.like != whole.like

    def test_two_singles_are_not_one_pod_of_two(self) -> None:
        nodes = [bridged_node("a", x=[0], y=[1]), bridged_node("b", v=[0, 1])]
        singles, one = self.held(*nodes, types={"x": 0, "y": 0, "v": 0})
        assert singles.like != one.like

    def test_whoever_may_not_move_is_the_same_as_anybody_who_may_not(self) -> None:
        nodes = [bridged_node("a", x=[0], y=[1]), bridged_node("b", v=[4, 5])]
        two, one = self.held(*nodes, types={})
        assert two.like == one.like

    def test_pods_that_the_report_does_not_know_are_told_apart_by_their_start(self) -> None:
        node = bridged_node("a")
        pods = [
            a_pod(name, node="a", created=f"2026-01-01T0{hour}:00:00Z") for name, hour in (("late", 2), ("early", 1))
        ]
        symmetries = symmetries_at(node, World.of(a_snapshot(node)), [names.NVIDIA_GPU], [])
        found = held(node, pods, [names.NVIDIA_GPU], symmetries, {"default/late": 0, "default/early": 0})
        assert found.pods == ("default/early", "default/late")

    @staticmethod
    def short(key: str) -> str:
        return key.removeprefix("default/")

    @staticmethod
    def held(*nodes: Node, types: dict[str, int]):
        world = World.of(a_snapshot(*nodes))
        for node in nodes:
            gpus: defaultdict[str, int] = defaultdict(int)
            for gpu in node.gpu_report.gpus if node.gpu_report else ():
                gpus[gpu.pod or ""] += 1
            pods = [a_pod(key.removeprefix("default/"), gpus=n, node=node.name) for key, n in gpus.items() if key]
            symmetries = symmetries_at(node, world, [names.NVIDIA_GPU], [a_need(2, 2)])
            type_of = {f"default/{name}": number for name, number in types.items()}
            yield held(node, pods, [names.NVIDIA_GPU], symmetries, type_of)


class TestKinderWithMore:
    @pytest.mark.parametrize("preset", ["a100-pcie-8", "h100-nvl-8", "a40-4", "rtx-a6000-4-crossed", "dgx-1p"])
    def test_bridges_never_make_more_free_gpus_worse(self, preset: str) -> None:
        assert self.judged(preset, a_need(1), a_need(2), a_need(2, 2), a_need(4))

    def test_on_the_cube_mesh_a_pod_of_two_may_break_the_four_because_more_are_free(self) -> None:
        assert self.judged("dgx-1v", a_need(1), a_need(4, 4))
        assert not self.judged("dgx-1v", a_need(1), a_need(2, 2), a_need(4, 4))

    @staticmethod
    def judged(preset: str, *needs: PodNeed) -> bool:
        state = replace(state_of(preset), free_sets=())
        return kinder_with_more(state, frozenset(needs), symmetries_of(state.hardware, ""))
