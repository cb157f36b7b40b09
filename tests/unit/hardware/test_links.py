"""Tables of links, bit masks, hardware."""

from __future__ import annotations

import pytest

from islander.hardware.links import Hardware, LinkMatrix, PcieClass, gpus_of, mask_of


@pytest.mark.parametrize(
    ("pcie", "nvlinks", "message"),
    [
        (((0, 10),), ((0,),), "'pcie' is not square"),
        (((0,),), ((0, 4), (4, 0)), "'nvlinks' is not square"),
        (((0, 10), (20, 0)), ((0, 0), (0, 0)), "'pcie' is not symmetric"),
        (((0, 10), (10, 0)), ((0, 4), (0, 0)), "'nvlinks' is not symmetric"),
        (((0, 10), (10, 0)), ((0, -1), (-1, 0)), "negative"),
    ],
)
def test_a_table_that_cannot_be_is_refused(
    pcie: tuple[tuple[int, ...], ...], nvlinks: tuple[tuple[int, ...], ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LinkMatrix(pcie, nvlinks)


def test_equal_tables_are_one_key() -> None:
    first, second = LinkMatrix.from_pairs(3, {(2, 0): 4}, [[0, 1]]), LinkMatrix.from_pairs(3, {(0, 2): 4}, [[0, 1]])
    assert {first: 1}[second] == 1
    assert first.pcie[0][1] == PcieClass.NODE
    assert first.nvlinks[2][0] == 4


def test_hidden_nvlinks_leave_the_pcie_classes() -> None:
    links = LinkMatrix.from_pairs(2, {(0, 1): 18}, [[0, 1]])
    assert links.without_nvlinks() == LinkMatrix.from_pairs(2, {}, [[0, 1]])


def test_masks_and_indexes_are_two_ways_to_write_a_set() -> None:
    assert mask_of([5, 0, 2]) == 0b100101
    assert list(gpus_of(0b100101)) == [0, 2, 5]
    assert list(gpus_of(0)) == []


def test_hardware_speaks_of_one_number_of_gpus() -> None:
    two, three = LinkMatrix.from_pairs(2, {}), LinkMatrix.from_pairs(3, {})
    assert Hardware("two", two, two, (0, None)).all_gpus == 0b11
    with pytest.raises(ValueError, match="differ in the number of GPUs"):
        Hardware("mixed", two, three, (0, 0))
