"""Laws of links and islands, on random nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations

from hypothesis import assume, given
from hypothesis import strategies as st

from islander.hardware.islands import (
    best_sets,
    closes_ring,
    disjoint_islands,
    is_island,
    islands_of_size,
    largest_island,
    maximal_islands,
    ring_links,
    worst_link,
)
from islander.hardware.links import LinkMatrix, PcieClass, gpus_of, mask_of
from islander.hardware.topo import MalformedTopology, cells_of, matrix_from_cells, parse_topo

CLASSES = [level for level in PcieClass if level is not PcieClass.BOARD]
# About half of the pairs are linked: denser nodes are all island, sparser ones have none.
NVLINKS = [0] * 6 + [1, 2, 4, 7, 18, 24]


@st.composite
def link_tables(draw: st.DrawFn, most: int = 8, least: int = 1) -> LinkMatrix:
    gpus = draw(st.integers(least, most))
    pairs = list(combinations(range(gpus), 2))
    pcie = [[0] * gpus for _ in range(gpus)]
    nvlinks = [[0] * gpus for _ in range(gpus)]
    levels = draw(st.lists(st.sampled_from(CLASSES), min_size=len(pairs), max_size=len(pairs)))
    counts = draw(st.lists(st.sampled_from(NVLINKS), min_size=len(pairs), max_size=len(pairs)))
    for (i, j), level, count in zip(pairs, levels, counts, strict=True):
        pcie[i][j] = pcie[j][i] = level
        nvlinks[i][j] = nvlinks[j][i] = count
    return LinkMatrix(tuple(map(tuple, pcie)), tuple(map(tuple, nvlinks)))


def moved(links: LinkMatrix, order: Sequence[int]) -> LinkMatrix:
    """The same node with GPU `order[i]` called i."""
    return LinkMatrix(
        tuple(tuple(links.pcie[i][j] for j in order) for i in order),
        tuple(tuple(links.nvlinks[i][j] for j in order) for i in order),
    )


def as_printed(links: LinkMatrix, cards: int, separator: str) -> str:
    """The table as `nvidia-smi topo -m` prints it: NVLink hides the PCIe class."""
    cells = cells_of(links)
    names = [f"GPU{gpu}" for gpu in range(links.gpus)]
    lines = [["", *names, *(f"NIC{card}" for card in range(cards)), "CPU Affinity", "NUMA Affinity"]]
    for gpu, name in enumerate(names):
        lines.append([name, *(cell.split("+")[-1] for cell in cells[gpu]), *["SYS"] * cards, "0-63", str(gpu)])
    lines += [[f"NIC{card}", *["SYS"] * (links.gpus + cards)] for card in range(cards)]
    return "\n".join(separator.join(line) for line in lines)


@given(link_tables())
def test_the_largest_islands_are_those_that_no_other_contains(links: LinkMatrix) -> None:
    islands = [mask for mask in range(1, 1 << links.gpus) if is_island(links, mask)]
    alone = [mask for mask in islands if all(mask & other != mask or mask == other for other in islands)]
    assert maximal_islands(links) == tuple(alone)


@given(link_tables())
def test_cells_read_back_what_was_written(links: LinkMatrix) -> None:
    assert matrix_from_cells(cells_of(links)) == (links, ())


@given(link_tables(), st.integers(0, 3), st.sampled_from(["\t", "  ", " \t "]))
def test_g25_a_printed_table_reads_back_its_links(links: LinkMatrix, cards: int, separator: str) -> None:
    topo = parse_topo(as_printed(links, cards, separator))
    assert topo.links.nvlinks == links.nvlinks
    for i, j in combinations(range(links.gpus), 2):
        expected = PcieClass.SYS if links.nvlinks[i][j] else links.pcie[i][j]
        assert topo.links.pcie[i][j] == expected
    assert topo.numa == tuple(frozenset({gpu}) for gpu in range(links.gpus))
    assert topo.warnings == ()


@given(link_tables(), st.data())
def test_g25_a_table_that_is_cut_never_shows_a_better_link(links: LinkMatrix, data: st.DataObject) -> None:
    text = as_printed(links, 1, "\t")
    try:
        topo = parse_topo(text[: data.draw(st.integers(0, len(text)))])
    except MalformedTopology:
        return
    assume(topo.links.gpus == links.gpus)
    for pair in combinations(range(links.gpus), 2):
        assert worst_link(topo.links, mask_of(pair)) <= worst_link(links, mask_of(pair))


@given(st.text(alphabet="GPU01X NV4\t\nSYS+-A,", max_size=200) | st.text(max_size=200))
def test_g25_any_text_is_a_table_or_a_malformed_topology_of_one_line(text: str) -> None:
    message = ""
    try:
        parse_topo(text)
    except MalformedTopology as error:
        message = str(error)
    assert len(message.splitlines()) <= 1


@given(st.lists(st.lists(st.text(max_size=8), max_size=4), max_size=4))
def test_any_cells_are_a_table_or_a_malformed_topology(cells: list[list[str]]) -> None:
    try:
        links, _ = matrix_from_cells(cells)
    except MalformedTopology:
        return
    assert links.gpus == len(cells)


@given(link_tables(), st.integers(1, 8))
def test_islands_are_exactly_the_linked_sets(links: LinkMatrix, size: int) -> None:
    everything = range(links.gpus)
    expected = sorted(
        mask_of(members)
        for members in combinations(everything, size)
        if all(links.nvlinks[i][j] for i, j in combinations(members, 2))
    )
    assert list(islands_of_size(links, mask_of(everything), size)) == expected
    assert all(is_island(links, mask) for mask in expected)


@given(link_tables(), st.integers(1, 255), st.integers(1, 5))
def test_islands_of_a_set_are_the_nodes_islands_inside_it(links: LinkMatrix, mask: int, size: int) -> None:
    mask &= (1 << links.gpus) - 1
    everywhere = islands_of_size(links, (1 << links.gpus) - 1, size)
    assert islands_of_size(links, mask, size) == tuple(found for found in everywhere if found & ~mask == 0)
    assert (largest_island(links, mask) >= size) == bool(islands_of_size(links, mask, size))


def most_disjoint(sets: Sequence[int]) -> int:
    """Brute force: the largest number of sets that share no GPU."""

    @cache
    def most(at: int, used: int) -> int:
        if at == len(sets):
            return 0
        skipped = most(at + 1, used)
        return skipped if sets[at] & used else max(skipped, 1 + most(at + 1, used | sets[at]))

    return most(0, 0)


@given(link_tables(most=7), st.integers(0, 127), st.integers(1, 4))
def test_disjoint_islands_equal_brute_force(links: LinkMatrix, mask: int, size: int) -> None:
    mask &= (1 << links.gpus) - 1
    assert disjoint_islands(links, mask, size) == most_disjoint(islands_of_size(links, mask, size))


@given(link_tables(least=2), st.integers(1, 5), st.data())
def test_one_more_free_gpu_never_costs_an_island(links: LinkMatrix, size: int, data: st.DataObject) -> None:
    everything = (1 << links.gpus) - 1
    gpu = data.draw(st.integers(0, links.gpus - 1))
    fewer, more = disjoint_islands(links, everything & ~(1 << gpu), size), disjoint_islands(links, everything, size)
    assert fewer <= more <= fewer + 1


@given(link_tables(), st.integers(1, 5), st.data())
def test_names_of_gpus_do_not_matter(links: LinkMatrix, size: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(links.gpus)))
    other = moved(links, order)
    everything = (1 << links.gpus) - 1
    assert disjoint_islands(other, everything, size) == disjoint_islands(links, everything, size)
    assert largest_island(other, everything) == largest_island(links, everything)
    assert ring_links(other, everything) == ring_links(links, everything)
    assert closes_ring(other, everything) == closes_ring(links, everything)
    renamed = sorted(mask_of(order[gpu] for gpu in gpus_of(found)) for found in best_sets(other, everything, size))
    assert renamed == list(best_sets(links, everything, size))


@given(link_tables(), st.integers(1, 5))
def test_a_best_set_is_an_island_whenever_there_is_one(links: LinkMatrix, size: int) -> None:
    everything = (1 << links.gpus) - 1
    found = best_sets(links, everything, size)
    assert bool(found) == (size <= links.gpus)
    if islands_of_size(links, everything, size):
        assert all(is_island(links, mask) for mask in found)
