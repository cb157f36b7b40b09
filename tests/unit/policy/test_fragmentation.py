"""How many GPUs a mix can still use, and what a pick costs."""

import pytest

from islander.hardware.links import Hardware, LinkMatrix, mask_of
from islander.hardware.presets import preset
from islander.policy.fragmentation import capacity, gradient, unusable_gpus
from islander.policy.settings import DEFAULT_MIX, DemandMix, Shape

PAIRS_ONLY = DemandMix(((Shape(2, island=True), 1.0),))


def known(name: str) -> Hardware:
    hardware = preset(name)
    assert hardware is not None
    return hardware


HGX = known("hgx-h100-8").links
BRIDGED = known("a100-pcie-8").links
DGX_1V = known("dgx-1v").links
PCIE = known("l40s-8").links


@pytest.mark.parametrize(
    ("links", "free", "gpus", "replicas"),
    [
        (HGX, "012345", 4, 1),
        (HGX, "012345", 2, 3),
        (HGX, "01234567", 8, 1),
        (BRIDGED, "0123", 2, 2),
        (BRIDGED, "0246", 2, 0),
        (BRIDGED, "01234567", 4, 0),
        (DGX_1V, "01234567", 4, 2),
        (DGX_1V, "0124567", 4, 1),
        (PCIE, "01234567", 2, 0),
    ],
)
def test_capacity_in_islands(links: LinkMatrix, free: str, gpus: int, replicas: int) -> None:
    assert capacity(links, mask_of(map(int, free)), Shape(gpus, island=True)) == replicas


def test_capacity_without_islands_is_a_division() -> None:
    assert capacity(PCIE, 0b1111111, Shape(3, island=False)) == 2


def test_what_a_shape_leaves_over_is_unusable_to_it() -> None:
    # 5 free of bridged pairs (0,1)(2,3) and 4: two pairs can be cut, one GPU is left over.
    assert unusable_gpus(BRIDGED, mask_of([0, 1, 2, 3, 4]), PAIRS_ONLY) == 1.0
    assert unusable_gpus(BRIDGED, mask_of([0, 2, 4, 6]), PAIRS_ONLY) == 4.0


def test_shapes_are_weighted_by_popularity_and_the_square_of_their_gpus() -> None:
    mix = DemandMix(((Shape(2, island=True), 3.0), (Shape(8, island=True), 1.0)))
    # 6 free of NVSwitch: 0 unusable to pairs, 6 unusable to eights; weights 3 x 4 and 1 x 64.
    assert unusable_gpus(HGX, 0b111111, mix) == pytest.approx(6 * 64 / 76)


def test_breaking_a_whole_island_costs_more_than_using_a_broken_one() -> None:
    whole = gradient(HGX, 0xFF, 0b1, DEFAULT_MIX)
    broken = gradient(HGX, 0b111, 0b1, DEFAULT_MIX)
    assert whole > 0 > broken


def test_leftover_of_a_broken_pair_is_the_cheapest_single_gpu_g23() -> None:
    free = mask_of([1, 2, 3, 4, 5, 6, 7])
    costs = {gpu: gradient(BRIDGED, free, 1 << gpu, DEFAULT_MIX) for gpu in range(1, 8)}
    assert min(costs, key=lambda gpu: costs[gpu]) == 1
    assert sorted(costs.values())[1] > costs[1]


def test_sequence_of_singles_on_the_cheapest_gpus_leaves_whole_pairs_g23() -> None:
    free = 0xFF
    for _ in range(4):
        gpu = min(
            (g for g in range(8) if free >> g & 1), key=lambda g: (gradient(BRIDGED, free, 1 << g, DEFAULT_MIX), g)
        )
        free &= ~(1 << gpu)
    assert capacity(BRIDGED, free, Shape(2, island=True)) == 2


def test_a_mix_without_demand_strands_nothing() -> None:
    assert unusable_gpus(HGX, 0xFF, DemandMix(())) == 0.0


@pytest.mark.parametrize("bad", [(Shape(0, island=False), 1.0), (Shape(1, island=False), 0.0)])
def test_demand_mix_refuses_what_is_no_demand(bad: tuple[Shape, float]) -> None:
    with pytest.raises(ValueError, match="demand mix"):
        DemandMix((bad,))
