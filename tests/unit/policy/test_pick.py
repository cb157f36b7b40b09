"""The prediction of kubelet's pick, against the answers of NVIDIA's own allocator."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from islander.hardware.links import LinkMatrix, PcieClass, mask_of
from islander.policy.pick import Picks, possible_picks

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "pick-vectors.json").read_text())
QUADS = [range(4), range(4, 8)]
HGX_BLIND = LinkMatrix.from_pairs(8, {}, QUADS)
BRIDGED = LinkMatrix.from_pairs(8, {(0, 1): 4, (2, 3): 4, (4, 5): 4, (6, 7): 4}, QUADS)
DGX_1V = LinkMatrix.from_pairs(
    8,
    dict.fromkeys([(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)], 2)
    | dict.fromkeys([(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)], 1),
    QUADS,
)


def matrix(topology: dict[str, Any]) -> LinkMatrix:
    pcie = tuple(tuple(0 if cell == "X" else int(PcieClass[cell]) for cell in row) for row in topology["pcie"])
    return LinkMatrix(pcie, tuple(map(tuple, topology["nvlinks"])))


TOPOLOGIES = {topology["name"]: matrix(topology) for topology in GOLDEN["topologies"]}


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_possible_picks_are_those_that_nvidias_allocator_was_seen_to_make(name: str) -> None:
    vectors = [vector for vector in GOLDEN["vectors"] if vector["topology"] == name]
    assert vectors
    for vector in vectors:
        picks = possible_picks(
            TOPOLOGIES[name], mask_of(vector["available"]), vector["size"], mask_of(vector["required"])
        )
        expected = tuple(sorted(mask_of(seen) for seen in vector["seen"]))
        assert picks == Picks(expected, exact=True, may_fail=bool(vector.get("blankPicked"))), vector


def test_all_golden_vectors_are_read() -> None:
    assert len(GOLDEN["vectors"]) == 498


def sets(*picks: str) -> tuple[int, ...]:
    return tuple(sorted(mask_of(map(int, pick)) for pick in picks))


@pytest.mark.parametrize(
    ("links", "free", "size", "required", "expected"),
    [
        (HGX_BLIND, "01234567", 1, "", sets(*"01234567")),
        (HGX_BLIND, "01456", 2, "", sets("01", "45", "46", "56")),
        (HGX_BLIND, "0124567", 4, "", sets("4567")),
        (HGX_BLIND, "01234567", 4, "", sets("0123", "4567")),
        (HGX_BLIND, "012456", 4, "", sets("0124", "0125", "0126", "0456", "1456", "2456")),
        (BRIDGED, "01234567", 2, "", sets("01", "23", "45", "67")),
        (BRIDGED, "0235", 2, "", sets("23")),
        (BRIDGED, "0246", 2, "", sets("02", "46")),
        (BRIDGED, "02346", 2, "", sets("23")),
        (BRIDGED, "01246", 3, "", sets("012")),
        (BRIDGED, "01456", 3, "", sets("456")),
        (BRIDGED, "01234567", 2, "4", sets("45")),
        (BRIDGED, "01234567", 4, "", sets("0123", "4567")),
        (DGX_1V, "01234567", 2, "", sets("03", "12", "47", "56")),
        (DGX_1V, "01234567", 4, "", sets("0123", "4567")),
        (DGX_1V, "014", 2, "", sets("04")),
        (DGX_1V, "0456", 2, "", sets("56")),
        (DGX_1V, "0245", 2, "", sets("02", "45")),
    ],
)
def test_picks_on_known_nodes(
    links: LinkMatrix, free: str, size: int, required: str, expected: tuple[int, ...]
) -> None:
    # A row such as (HGX, 012456, 4) is 3+1 GPUs of the two NUMA nodes and never 2+2.
    assert possible_picks(links, mask_of(map(int, free)), size, mask_of(map(int, required))).sets == expected


@pytest.mark.parametrize(("size", "count"), [(2, 12), (3, 8)])
def test_any_set_inside_one_numa_node_may_come_out_of_an_empty_nvswitch_node(size: int, count: int) -> None:
    picks = possible_picks(HGX_BLIND, 0xFF, size)
    assert len(picks.sets) == count
    assert all(pick & 0x0F in (0, pick) for pick in picks.sets)


def test_three_of_an_empty_bridged_node_always_break_a_pair() -> None:
    picks = possible_picks(BRIDGED, 0xFF, 3).sets
    assert len(picks) == 8
    assert all(any((pick >> i & 0b11).bit_count() == 1 for i in (0, 2, 4, 6)) for pick in picks)


def test_single_gpu_may_be_any_so_a_whole_pair_is_at_risk_g23() -> None:
    assert possible_picks(BRIDGED, mask_of([1, 2, 3, 4, 5, 6, 7]), 1).sets == sets(*"1234567")


@pytest.mark.parametrize(("free", "size"), [(0b11, 3), (0b1111, 0), (0, 1)])
def test_a_request_that_cannot_be_met_has_no_pick(free: int, size: int) -> None:
    assert possible_picks(HGX_BLIND, free, size).sets == ()


def test_required_gpus_that_are_not_offered_have_no_pick() -> None:
    assert possible_picks(HGX_BLIND, 0b0011, 1, required=0b0100).sets == ()


def test_blank_device_of_the_allocator_is_a_risk_of_failure() -> None:
    # Pair 0-1 scores 610, pairs within {2,3,4} 20, all others 10: the best split pads {0,1} with a blank, and picks it.
    points = {(0, 1): 6}
    links = LinkMatrix.from_pairs(5, points, [[2, 3, 4]])
    picks = possible_picks(links, 0b11111, 3)
    assert picks.may_fail
    assert picks.sets == ()


def test_sixteen_gpus_in_sets_too_many_to_follow_answer_with_every_set() -> None:
    links = LinkMatrix.from_pairs(16, {}, [range(8), range(8, 16)])
    quads, pairs = possible_picks(links, 0xFFFF, 4), possible_picks(links, 0xFFFF, 2)
    assert (len(quads.sets), quads.exact) == (1820, False)
    assert (len(pairs.sets), pairs.exact) == (120, False)


def test_halves_of_sixteen_gpus_are_predicted_exactly() -> None:
    links = LinkMatrix.from_pairs(16, {}, [range(8), range(8, 16)])
    assert possible_picks(links, 0xFFFF, 8) == Picks((0x00FF, 0xFF00))


def test_picks_come_in_ascending_order() -> None:
    picks = possible_picks(HGX_BLIND, 0xFF, 3).sets
    assert all(a < b for a, b in pairwise(picks))
