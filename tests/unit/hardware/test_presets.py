"""Presets: whole nodes, and what labels alone prove."""

from __future__ import annotations

from itertools import combinations

import pytest

from islander.hardware.islands import disjoint_islands, is_island, islands_of_size, largest_island
from islander.hardware.links import Hardware, PcieClass, gpus_of, mask_of
from islander.hardware.presets import MAX_GPUS, PRESETS, preset, preset_for, unknown_hardware
from islander.hardware.products import PRODUCT_BY_NAME, PRODUCTS, Fabric, Product

EVERY_PRODUCT = pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)


def named(name: str) -> Hardware:
    found = preset(name)
    assert found is not None
    return found


def link_counts(hardware: Hardware) -> set[int]:
    return {hardware.links.nvlinks[i][j] for i, j in combinations(range(hardware.gpus), 2)}


def islands(hardware: Hardware, size: int) -> list[list[int]]:
    return [list(gpus_of(mask)) for mask in islands_of_size(hardware.links, hardware.all_gpus, size)]


@pytest.mark.parametrize(
    ("name", "gpus", "links"),
    [
        ("hgx-a100-8", 8, 12),
        ("dgx-a100-8", 8, 12),
        ("hgx-a800-8", 8, 8),
        ("hgx-h100-8", 8, 18),
        ("hgx-h800-8", 8, 8),
        ("hgx-h20-8", 8, 18),
        ("hgx-h200-8", 8, 18),
        ("hgx-b200-8", 8, 18),
        ("hgx-b300-8", 8, 18),
        ("dgx-2-16", 16, 6),
        ("a2-megagpu-16g", 16, 12),
        ("a2-highgpu-4g", 4, 12),
        ("a3-highgpu-2g", 2, 18),
        ("gb200-4", 4, 18),
        ("gb300-4", 4, 18),
    ],
)
def test_a_switch_joins_all_gpus_and_the_device_plugin_does_not_see_it(name: str, gpus: int, links: int) -> None:
    hardware = named(name)
    assert hardware.gpus == gpus
    assert link_counts(hardware) == {links}
    assert is_island(hardware.links, hardware.all_gpus)
    assert hardware.plugin_links == hardware.links.without_nvlinks()


@pytest.mark.parametrize(
    ("name", "links"), [("hgx-a100-4", 4), ("hgx-h100-4", 6), ("hgx-h200-4", 6), ("mi300x-8", 1), ("mi355x-8", 1)]
)
def test_direct_links_between_all_gpus_are_seen_by_the_device_plugin(name: str, links: int) -> None:
    hardware = named(name)
    assert link_counts(hardware) == {links}
    assert hardware.plugin_links == hardware.links


@pytest.mark.parametrize("name", ["a100-pcie-8", "a40-8", "h100-nvl-8", "h200-nvl-pairs-8"])
def test_bridges_join_neighbours(name: str) -> None:
    hardware = named(name)
    assert islands(hardware, 2) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert largest_island(hardware.links, hardware.all_gpus) == 2
    assert hardware.plugin_links == hardware.links


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("a100-pcie-8-crossed", 2, [[0, 2], [1, 3], [4, 5], [6, 7]]),
        ("a100-pcie-6-crossed", 2, [[1, 2], [0, 3], [4, 5]]),
        ("a100-pcie-4-one-bridge", 2, [[0, 1]]),
        ("rtx-a6000-4-crossed", 2, [[0, 2], [1, 3]]),
        ("h200-nvl-8", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("dgx-1v", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("dgx-1p", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("v100-sxm2-8-mirrored", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("l40s-8", 2, []),
        ("hgx-b200-8-without-2", 7, [[0, 1, 3, 4, 5, 6, 7]]),
        ("hgx-b200-8-without-2", 8, []),
    ],
)
def test_irregular_nodes_have_the_islands_of_the_reports(name: str, size: int, expected: list[list[int]]) -> None:
    assert islands(named(name), size) == expected


@pytest.mark.parametrize("name", ["dgx-1v", "dgx-1v-numa", "v100-sxm2-8-mirrored"])
def test_every_v100_of_a_cube_mesh_has_six_links(name: str) -> None:
    assert [sum(row) for row in named(name).links.nvlinks] == [6] * 8


def test_the_two_v100_nodes_number_the_cube_differently() -> None:
    assert named("dgx-1v").links.nvlinks[0][3] == 2
    assert named("v100-sxm2-8-mirrored").links.nvlinks[0][3] == 1


def test_dgx_1v_with_switches_tells_two_gpus_of_a_switch_from_the_rest_of_the_socket() -> None:
    row = named("dgx-1v").links.pcie[0]
    assert [row[gpu] for gpu in (1, 2, 4)] == [PcieClass.PIX, PcieClass.NODE, PcieClass.SYS]
    assert named("dgx-1v-numa").links.pcie[0][1] == PcieClass.NODE


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_known_by_its_name(name: str) -> None:
    hardware = named(name)
    assert hardware is PRESETS[name]
    assert hardware.name == name
    assert hardware.topology_known


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_no_gpu_of_a_preset_has_more_links_than_gpus_have_unless_a_switch_shares_them(name: str) -> None:
    hardware = PRESETS[name]
    assert max(sum(row) for row in hardware.plugin_links.nvlinks) <= 18


@pytest.mark.parametrize("name", ["", "hgx-h100", "hgx-h100-9", "l40s-17", "l40s-0", "l40s-08", "HGX-H100-8"])
def test_other_names_are_no_presets(name: str) -> None:
    assert preset(name) is None


def test_pcie_only_nodes_have_names_for_every_usual_count() -> None:
    assert named("l40s-10").gpus == 10
    assert named("l40s-10") is named("l40s-10")


@pytest.mark.parametrize(
    ("product", "gpus", "expected"),
    [
        ("H100-SXM-80GB", 8, "hgx-h100-8"),
        ("H100-SXM-80GB", 4, "hgx-h100-4"),
        ("A100-SXM4-40GB", 8, "hgx-a100-8"),
        ("A100-SXM4-40GB", 16, "a2-megagpu-16g"),
        ("V100-SXM3-32GB", 16, "dgx-2-16"),
        ("GB200", 4, "gb200-4"),
        ("MI300X", 8, "mi300x-8"),
        ("L40S", 8, "l40s-8"),
        ("T4", 4, "t4-4"),
        ("L4", 3, "l4-3"),
        ("A100-PCIe-80GB", 1, "pcie-1"),
    ],
)
def test_label_and_count_prove_the_usual_node(product: str, gpus: int, expected: str) -> None:
    hardware = preset_for(PRODUCT_BY_NAME[product], gpus)
    assert hardware.name == expected
    assert hardware.topology_known
    assert hardware is preset_for(PRODUCT_BY_NAME[product], gpus)


@pytest.mark.parametrize(
    ("product", "gpus"),
    [
        ("A100-PCIe-80GB", 8),  # bridged, unbridged, or bridged in other pairs
        ("H100-NVL-94GB", 2),
        ("H200-NVL-141GB", 8),  # bridges over two or over four
        ("V100-SXM2-16GB", 8),  # makers number the cube differently
        ("V100-SXM2-32GB", 4),
        ("H100-SXM-80GB", 2),  # part of a board: linked on one cloud, isolated on another
        ("H100-SXM-80GB", 7),
        ("MI250", 8),
        ("MI300X", 64),  # partitions of GPUs
        ("GH200-96GB", 2),
    ],
)
def test_where_label_and_count_prove_too_little_the_topology_is_unknown(product: str, gpus: int) -> None:
    hardware = preset_for(PRODUCT_BY_NAME[product], gpus)
    assert hardware is unknown_hardware(gpus)
    assert not hardware.topology_known


@EVERY_PRODUCT
def test_known_from_labels_are_only_nodes_where_any_pick_is_as_linked_as_any_other(product: Product) -> None:
    nodes = [preset_for(product, gpus) for gpus in range(1, 17)]
    assert [hardware.gpus for hardware in nodes] == list(range(1, 17))
    assert all(len(link_counts(hardware)) <= 1 for hardware in nodes if hardware.topology_known)


@EVERY_PRODUCT
def test_bridges_are_never_assumed_from_labels(product: Product) -> None:
    if product.fabric in (Fabric.BRIDGE, Fabric.MESH):
        assert not any(preset_for(product, gpus).topology_known for gpus in range(2, 17))


def test_unknown_hardware_has_no_island_but_single_gpus() -> None:
    hardware = unknown_hardware(8)
    assert disjoint_islands(hardware.links, hardware.all_gpus, 2) == 0
    assert hardware.numa == (None,) * 8
    assert unknown_hardware(0).all_gpus == mask_of(())


@pytest.mark.parametrize("gpus", [-1, MAX_GPUS + 1])
def test_absurd_counts_are_refused(gpus: int) -> None:
    with pytest.raises(ValueError, match="a node cannot have"):
        unknown_hardware(gpus)
    with pytest.raises(ValueError, match="a node cannot have"):
        preset_for(PRODUCT_BY_NAME["L40S"], gpus)
