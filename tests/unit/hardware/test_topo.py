"""Reader of `nvidia-smi topo -m`: G25, and the matrices of G22 and G26."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from islander.hardware.islands import is_island, link_name, worst_link
from islander.hardware.links import LinkMatrix, PcieClass, mask_of
from islander.hardware.presets import MAX_GPUS, PRESETS
from islander.hardware.topo import MalformedTopology, ParsedTopo, cells_of, matrix_from_cells, parse_topo

FIXTURES = Path(__file__).parents[2] / "hardware_fixtures"
PAIRS_OF_8 = tuple(combinations(range(8), 2))
HALVES = (frozenset({0}),) * 4 + (frozenset({1}),) * 4


def text_of(name: str) -> str:
    # Bytes, so that Windows line ends arrive as they are.
    return (FIXTURES / f"{name}.txt").read_bytes().decode()


def parsed(name: str) -> ParsedTopo:
    return parse_topo(text_of(name))


def linked_pairs(links: LinkMatrix) -> dict[tuple[int, int], int]:
    return {(i, j): links.nvlinks[i][j] for i, j in combinations(range(links.gpus), 2) if links.nvlinks[i][j]}


def test_g25_network_cards_and_legend_are_no_part_of_the_matrix() -> None:
    topo = parsed("hgx-h100-8-network-cards")
    assert topo.links == PRESETS["hgx-h100-8"].links
    assert topo.numa == HALVES
    assert topo.warnings == ()


def test_g25_spaces_stand_for_tabs_and_a_prompt_may_come_first() -> None:
    topo = parsed("dgx-a100-8-spaces")
    assert linked_pairs(topo.links) == dict.fromkeys(combinations(range(8), 2), 12)
    assert topo.numa == tuple(frozenset({node}) for node in (3, 3, 1, 1, 5, 5, 7, 7))


def test_g25_nvlink_hides_the_pcie_class_which_is_at_least_node_inside_a_numa_node() -> None:
    links = parsed("dgx-a100-8-spaces").links
    assert links.pcie[0][1] == PcieClass.NODE
    assert links.pcie[0][2] == PcieClass.SYS


def test_g25_a_table_without_numa_column_leaves_numa_unknown() -> None:
    topo = parsed("dgx-1v-without-numa-column")
    assert topo.numa == (None,) * 8
    assert linked_pairs(topo.links) == linked_pairs(PRESETS["dgx-1v"].links)
    assert topo.warnings == ()


def test_g25_numa_not_available_is_unknown_not_zero() -> None:
    assert parsed("one-gpu-numa-not-available").numa == (None,)


def test_g25_a_range_of_numa_nodes_is_a_set() -> None:
    assert parsed("two-gpus-numa-range").numa == (frozenset({0, 1}),) * 2


def test_g25_a_list_of_numa_ranges_is_a_set() -> None:
    topo = parsed("gb200-tray")
    assert topo.numa[0] == frozenset({0, *range(3, 10), *range(11, 18)})
    assert topo.numa[3] == frozenset({1, *range(19, 26), *range(27, 34)})
    assert linked_pairs(topo.links) == linked_pairs(PRESETS["gb200-4"].links)


@pytest.mark.parametrize(
    ("name", "links"), [("four-gpus-escape-codes", 4), ("four-gpus-escape-codes-pasted", 6)], ids=str
)
def test_g25_escape_codes_around_the_header_do_not_matter(name: str, links: int) -> None:
    topo = parsed(name)
    assert linked_pairs(topo.links) == dict.fromkeys(combinations(range(4), 2), links)
    assert topo.numa == tuple(frozenset({node}) for node in range(4))


def test_g25_one_gpu_with_escape_codes_and_windows_line_ends() -> None:
    topo = parsed("one-gpu-escape-codes-crlf")
    assert topo.links.gpus == 1
    assert topo.numa == (None,)


def test_g25_every_number_of_links_beats_every_pcie_class_and_more_beats_fewer() -> None:
    links = parsed("many-link-counts").links
    assert linked_pairs(links) == {(0, 1): 5, (0, 2): 7, (0, 3): 18, (1, 2): 24}
    order = [mask_of(pair) for pair in ((1, 2), (0, 3), (0, 2), (0, 1), (1, 3))]
    assert [link_name(worst_link(links, pair)) for pair in order] == ["NV24", "NV18", "NV7", "NV5", "PXB"]
    assert sorted(order, key=lambda pair: worst_link(links, pair), reverse=True) == order


def test_g25_where_two_directions_differ_the_weaker_counts_with_a_warning() -> None:
    topo = parsed("one-way-only")
    assert linked_pairs(topo.links) == {(0, 2): 8}
    assert topo.links.pcie[0][1] == PcieClass.SYS
    assert topo.links.pcie[1][2] == PcieClass.PXB
    assert len(topo.warnings) == 3
    assert topo.warnings[0] == "GPU0 and GPU1 show NV4 one way and SYS the other; the weaker one counts"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("last-row-cut-off", "row GPU7 is cut off: it has 3 of 8 cells"),
        ("last-row-missing", "the table is cut off: no row for GPU7"),
        ("last-row-cut-off-in-network-cards", "row GPU1 is cut off: it has 3 of 4 cells"),
        ("wrapped-lines", "a second header begins inside the table; were long lines wrapped?"),
        ("header-missing", "row GPU0 comes before a header with the names of the GPUs"),
        ("diagonal-shifted", "row GPU0 has 'NV4' where its own column should show X"),
        ("tool-failed", "the text holds no table of `nvidia-smi topo -m`"),
        ("list-of-gpus-instead", "the text holds no table of `nvidia-smi topo -m`"),
    ],
)
def test_g25_what_is_not_complete_is_an_error_never_a_linked_node(name: str, message: str) -> None:
    with pytest.raises(MalformedTopology) as caught:
        parsed(name)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no table"),
        ("\tGPU0\tGPU0\nGPU0\tX\tX", "names a GPU twice"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU0\tX\tNV4", "row GPU0 comes twice"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU7\tX\tNV4", "row GPU7 has no column"),
        ("\tGPU0\tGPU1\nGPU0\tX\tnv4\nGPU1\tNV4\tX", "row GPU0 is cut off"),
        ("\tGPU0\tGPU1\nGPU0\tX\tX\nGPU1\tX\tX", "which is no link"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1", "row GPU1 is cut off: it has 0 of 2 cells"),
    ],
)
def test_g25_broken_tables_are_refused(text: str, message: str) -> None:
    with pytest.raises(MalformedTopology, match=message):
        parse_topo(text)


def test_g25_no_cut_of_a_text_shows_more_than_the_text() -> None:
    whole = text_of("hgx-h100-8-network-cards")
    for length in range(len(whole)):
        try:
            topo = parse_topo(whole[:length])
        except MalformedTopology:
            continue
        assert topo.links.nvlinks == PRESETS["hgx-h100-8"].links.nvlinks
        assert all(topo.links.pcie[i][j] <= PRESETS["hgx-h100-8"].links.pcie[i][j] for i, j in PAIRS_OF_8)


def test_gaps_in_the_numbers_are_closed_with_a_warning() -> None:
    topo = parsed("gaps-in-numbers")
    assert topo.indexes == (0, 2, 5)
    assert linked_pairs(topo.links) == {(0, 1): 4}
    assert topo.warnings == ("the numbers of the GPUs have gaps: GPU0, GPU2, GPU5 are read as 0 to 2",)


def test_rows_in_any_order_give_the_same_matrix() -> None:
    assert linked_pairs(parsed("rows-in-odd-order").links) == {(0, 1): 4, (2, 3): 4}


def test_columns_are_found_by_name() -> None:
    topo = parsed("columns-in-odd-order")
    assert linked_pairs(topo.links) == {(0, 1): 4}
    assert topo.links.pcie[0][2] == PcieClass.NODE
    assert topo.numa == (frozenset({0}), frozenset({0}), frozenset({1}))


def test_words_of_old_drivers_are_known() -> None:
    topo = parsed("old-words")
    links = topo.links
    assert topo.warnings == ()
    assert [links.pcie[0][gpu] for gpu in (1, 2, 3)] == [PcieClass.BOARD, PcieClass.PXB, PcieClass.SYS]


@pytest.mark.parametrize(("name", "links"), [("quoted-in-a-mail", 12), ("markdown-table", 4)])
def test_quoted_tables_are_read(name: str, links: int) -> None:
    assert linked_pairs(parsed(name).links) == {(0, 1): links}


def test_a_cell_without_information_is_sys_with_a_warning() -> None:
    topo = parsed("links-not-available")
    assert linked_pairs(topo.links) == {}
    assert topo.warnings == ("GPU0 and GPU1 show N/A, which tells no link; read as SYS",)


def test_only_the_first_table_of_a_text_is_read() -> None:
    topo = parsed("followed-by-another-table")
    assert topo.links.pcie[0][1] == PcieClass.PHB
    assert topo.warnings == ()


def test_sixteen_gpus_are_read() -> None:
    links = parsed("dgx-2-16").links
    assert is_island(links, mask_of(range(16)))


def test_a_gpu_that_lost_the_fabric_is_alone() -> None:
    """vllm-project/vllm 16336."""
    assert parsed("hgx-b200-8-without-2").links == PRESETS["hgx-b200-8-without-2"].links


def test_two_bridged_islands_without_a_switch_are_two() -> None:
    """vllm-project/vllm 48071."""
    assert parsed("h200-nvl-8-two-islands").links == PRESETS["h200-nvl-8"].links


def test_g22_the_matrix_of_pairs_that_are_not_neighbours_is_read() -> None:
    topo = parsed("a100-pcie-8-crossed")
    assert linked_pairs(topo.links) == dict.fromkeys([(0, 2), (1, 3), (4, 5), (6, 7)], 12)
    assert topo.numa == HALVES
    assert topo.links.pcie[0][1] == PcieClass.SYS


def test_g26_sys_stays_sys_inside_a_numa_node() -> None:
    topo = parsed("pcie-8-all-sys")
    assert {topo.links.pcie[i][j] for i, j in combinations(range(8), 2)} == {PcieClass.SYS}
    assert topo.numa == HALVES


def test_a_numa_value_in_another_form_is_unknown_with_a_warning() -> None:
    topo = parse_topo("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\tX\t0-7\tnone\n")
    assert topo.numa == (None,)
    assert topo.warnings == ("the NUMA node of GPU0 could not be read",)


def test_a_row_that_lacks_a_value_after_its_cells_leaves_numa_unknown() -> None:
    topo = parse_topo("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\tX\t0-7\t1\n")
    assert topo.numa == (None,)
    assert topo.warnings == ("the NUMA node of GPU0 could not be read",)


def test_cells_may_join_pcie_class_and_nvlinks() -> None:
    links, warnings = matrix_from_cells([["X", "NODE+NV4"], ["NODE+NV4", "X"]])
    assert links == LinkMatrix(((0, PcieClass.NODE), (PcieClass.NODE, 0)), ((0, 4), (4, 0)))
    assert warnings == ()


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([["X", "NV4"]], "row GPU0 has 2 cells for 1 GPUs"),
        ([["X", "NV4"], ["NV4"]], "row GPU1 has 1 cells for 2 GPUs"),
        ([["NV4"]], "should show X"),
        ([["X", ""], ["", "X"]], "which is no link"),
        ([["X", "NODE+"], ["NODE+", "X"]], "which is no link"),
        ([["X"] * (MAX_GPUS + 1)] * (MAX_GPUS + 1), "more than a node has"),
    ],
)
def test_tables_that_are_no_matrix_are_refused(cells: list[list[str]], message: str) -> None:
    with pytest.raises(MalformedTopology, match=message):
        matrix_from_cells(cells)


def test_many_doubts_are_counted_not_listed() -> None:
    size = 6
    cells = [["X" if i == j else "NV4" if i < j else "SYS" for j in range(size)] for i in range(size)]
    _, warnings = matrix_from_cells(cells)
    assert len(warnings) == 9
    assert warnings[-1] == "7 more pairs were read with doubt"  # 15 pairs, eight of them named


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_cells_of_every_preset_read_back_the_same_links(name: str) -> None:
    links = PRESETS[name].links
    assert matrix_from_cells(cells_of(links)) == (links, ())
