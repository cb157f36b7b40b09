"""Islands, and which set of GPUs is best: G22, G24, G26."""

from __future__ import annotations

import pytest

from islander.hardware.islands import (
    ALONE,
    LinkQuality,
    best_sets,
    closes_ring,
    disjoint_islands,
    is_island,
    islands_of_size,
    largest_island,
    link_name,
    maximal_islands,
    numa_nodes,
    ring_links,
    worst_link,
)
from islander.hardware.links import LinkMatrix, PcieClass, gpus_of, mask_of
from islander.hardware.presets import PRESETS

CROSSED = PRESETS["a100-pcie-8-crossed"]
DGX_1V = PRESETS["dgx-1v"].links
HGX = PRESETS["hgx-h100-8"].links
BRIDGED = PRESETS["a40-8"].links
DEGRADED = PRESETS["hgx-b200-8-without-2"].links
ALL_SYS = LinkMatrix.from_pairs(8, {})
HALVES = (0, 0, 0, 0, 1, 1, 1, 1)
ALL = mask_of(range(8))


def without(*busy: int) -> int:
    return ALL & ~mask_of(busy)


def best(links: LinkMatrix, mask: int, size: int, numa: tuple[int | None, ...] = ()) -> list[list[int]]:
    return [list(gpus_of(found)) for found in best_sets(links, mask, size, numa)]


@pytest.mark.parametrize(
    ("free", "expected"), [((0, 1, 2), [[0, 2]]), ((1, 3, 4), [[1, 3]]), ((0, 1), [[0, 1]])], ids=str
)
def test_g22_the_best_two_are_the_bridged_two(free: tuple[int, ...], expected: list[list[int]]) -> None:
    assert best(CROSSED.links, mask_of(free), 2) == expected


def test_g22_two_gpus_of_two_pairs_are_the_lowest_class() -> None:
    assert disjoint_islands(CROSSED.links, mask_of((0, 1)), 2) == 0
    assert link_name(worst_link(CROSSED.links, mask_of((0, 1)))) == "SYS"
    assert link_name(worst_link(CROSSED.links, mask_of((0, 2)))) == "NV12"


@pytest.mark.parametrize(
    ("busy", "expected", "lanes"),
    [
        ((), [[0, 1, 2, 3], [4, 5, 6, 7]], 9),
        ((3,), [[4, 5, 6, 7]], 9),
        ((3, 7), [[1, 2, 5, 6]], 7),
        ((2, 5), [[0, 3, 4, 7]], 7),
    ],
    ids=str,
)
def test_g24_the_right_four_of_a_dgx_1v(busy: tuple[int, ...], expected: list[list[int]], lanes: int) -> None:
    assert best(DGX_1V, without(*busy), 4) == expected
    assert {ring_links(DGX_1V, mask_of(found)) for found in expected} == {lanes}


@pytest.mark.parametrize(("free", "expected"), [((0, 1, 3), [[0, 3]]), ((0, 1, 4), [[0, 4]])], ids=str)
def test_g24_the_right_two_of_a_dgx_1v(free: tuple[int, ...], expected: list[list[int]]) -> None:
    assert best(DGX_1V, mask_of(free), 2) == expected


def test_g24_a_ring_counts_more_than_as_many_links_without_one() -> None:
    assert ring_links(DGX_1V, mask_of((0, 4, 6, 7))) == ring_links(DGX_1V, mask_of((0, 3, 4, 7))) == 7
    assert closes_ring(DGX_1V, mask_of((0, 3, 4, 7)))
    assert not closes_ring(DGX_1V, mask_of((0, 4, 6, 7)))
    assert not islands_of_size(DGX_1V, without(3, 7), 4)


def test_g24_the_first_four_free_are_wrong() -> None:
    first_four = mask_of((0, 1, 2, 4))
    assert not is_island(DGX_1V, first_four)
    assert first_four not in best_sets(DGX_1V, without(3), 4)


def test_g26_without_nvlink_numa_decides() -> None:
    assert best(ALL_SYS, mask_of((3, 4, 5)), 2, HALVES) == [[4, 5]]


def test_g26_a_set_across_numa_nodes_is_told_apart() -> None:
    assert best(ALL_SYS, mask_of((3, 4)), 2, HALVES) == [[3, 4]]
    assert numa_nodes(HALVES, mask_of((3, 4))) == 2
    assert numa_nodes(HALVES, mask_of((4, 5))) == 1


def test_g26_an_unknown_numa_map_decides_nothing() -> None:
    assert numa_nodes((0, None, 0), mask_of((0, 1))) is None
    assert len(best(ALL_SYS, mask_of((3, 4, 5)), 2)) == 3


def test_shorter_pcie_ways_decide_where_nvlink_does_not() -> None:
    assert best(BRIDGED, mask_of((0, 2, 4)), 2) == [[0, 2]]


def test_best_sets_of_impossible_sizes_are_none() -> None:
    assert best_sets(HGX, mask_of((0, 1)), 3) == ()
    assert best_sets(HGX, ALL, 0) == ()


@pytest.mark.parametrize(
    ("links", "mask", "expected"),
    [
        (HGX, ALL, {1: 8, 2: 4, 3: 2, 4: 2, 8: 1, 9: 0}),
        (HGX, without(0, 7), {1: 6, 2: 3, 4: 1, 8: 0}),
        (BRIDGED, ALL, {1: 8, 2: 4, 3: 0, 4: 0}),
        (BRIDGED, without(0), {2: 3}),
        (BRIDGED, mask_of((0, 2, 4, 6)), {1: 4, 2: 0}),
        (DGX_1V, ALL, {2: 4, 3: 2, 4: 2}),
        (DGX_1V, without(3), {3: 2, 4: 1}),
        (DEGRADED, ALL, {1: 8, 2: 3, 4: 1, 7: 1, 8: 0}),
        (PRESETS["h200-nvl-8"].links, ALL, {2: 4, 4: 2, 8: 0}),
        (PRESETS["l40s-8"].links, ALL, {1: 8, 2: 0}),
        (PRESETS["dgx-2-16"].links, (1 << 16) - 1, {4: 4, 8: 2, 16: 1}),
        (HGX, 0, {1: 0, 2: 0, 0: 0}),
    ],
)
def test_islands_that_can_be_cut_at_the_same_time(links: LinkMatrix, mask: int, expected: dict[int, int]) -> None:
    assert {size: disjoint_islands(links, mask, size) for size in expected} == expected


def test_pairs_are_counted_as_a_matching_not_greedily() -> None:
    # A path 2-0-1-3: two pairs exist, but taking 0-1 first leaves none.
    path = LinkMatrix.from_pairs(4, {(0, 1): 12, (0, 2): 1, (1, 3): 1})
    assert disjoint_islands(path, mask_of(range(4)), 2) == 2


def test_the_first_island_found_is_not_always_part_of_the_best_cut() -> None:
    # {0,4,5} and {1,2,3} lie side by side; {0,1,2} touches both.
    links = LinkMatrix.from_pairs(6, dict.fromkeys([(0, 1), (0, 2), (1, 2), (0, 4), (0, 5), (4, 5), (1, 3), (2, 3)], 1))
    assert disjoint_islands(links, mask_of(range(6)), 3) == 2


def test_the_worst_pair_of_a_set_counts_more_than_the_sum() -> None:
    # {0,1,2}: three times PHB; {0,3,4}: twice PIX but once SYS; no other three are better than SYS.
    ways = {(0, 1): PcieClass.PHB, (0, 2): PcieClass.PHB, (1, 2): PcieClass.PHB, (0, 3): PcieClass.PIX}
    ways[0, 4] = PcieClass.PIX
    pcie = tuple(tuple(ways.get((min(i, j), max(i, j)), PcieClass.SYS) for j in range(5)) for i in range(5))
    links = LinkMatrix(pcie, ((0,) * 5,) * 5)
    assert best(links, mask_of(range(5)), 3) == [[0, 1, 2]]


def test_a_lone_gpu_is_an_island_of_one() -> None:
    assert is_island(DEGRADED, mask_of((2,)))
    assert not is_island(DEGRADED, 0)
    assert maximal_islands(DEGRADED) == (mask_of((2,)), without(2))


def test_largest_island_of_a_set() -> None:
    assert largest_island(DEGRADED, ALL) == 7
    assert largest_island(BRIDGED, mask_of((0, 2))) == 1
    assert largest_island(HGX, 0) == 0


def test_more_gpus_than_the_exact_search_takes_give_a_lower_bound() -> None:
    """A ring of 24 GPUs with links to the next two: eight threes lie side by side."""
    ring = LinkMatrix.from_pairs(24, {(i, (i + step) % 24): 1 for i in range(24) for step in (1, 2)})
    assert 4 <= disjoint_islands(ring, (1 << 24) - 1, 3) <= 8


def test_link_names_are_the_words_of_the_tool() -> None:
    qualities = [
        LinkQuality(1800),
        LinkQuality(100),
        *(LinkQuality(level) for level in sorted(PcieClass, reverse=True)),
    ]
    assert [link_name(quality) for quality in qualities] == ["NV18", "NV1", "PSB", "PIX", "PXB", "PHB", "NODE", "SYS"]
    assert sorted(qualities, reverse=True) == qualities
    assert link_name(LinkQuality(100), "XGMI") == "XGMI1"


def test_a_gpu_alone_waits_for_no_link() -> None:
    assert worst_link(ALL_SYS, mask_of((3,))) == ALONE
    assert link_name(ALONE) == "X"


def test_the_worst_link_of_a_mixed_set_is_its_pcie_way() -> None:
    assert link_name(worst_link(BRIDGED, mask_of((0, 1, 2)))) == "NODE"
    assert link_name(worst_link(HGX, ALL)) == "NV18"
