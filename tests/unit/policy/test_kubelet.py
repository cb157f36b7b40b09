"""NUMA alignment: what kubelet offers the device plugin under each Topology Manager policy."""

import pytest

from islander.hardware.links import Hardware, LinkMatrix, mask_of
from islander.hardware.presets import preset
from islander.policy.kubelet import kubelet_picks
from islander.policy.pick import possible_picks

PCIE_8 = Hardware(
    "pcie-8",
    LinkMatrix.from_pairs(8, {}, [range(4), range(4, 8)]),
    LinkMatrix.from_pairs(8, {}, [range(4), range(4, 8)]),
    numa=(0, 0, 0, 0, 1, 1, 1, 1),
)


@pytest.mark.parametrize("policy", ["none", "", "some-policy-of-the-future"])
def test_without_alignment_the_plugin_sees_all_free_gpus(policy: str) -> None:
    free = mask_of([0, 1, 3, 4, 5])
    assert kubelet_picks(PCIE_8, policy, free, 2) == possible_picks(PCIE_8.plugin_links, free, 2)


def test_best_effort_takes_the_one_numa_node_that_still_fits() -> None:
    picks = kubelet_picks(PCIE_8, "best-effort", mask_of([0, 4, 5, 6]), 2)
    assert picks.sets == (mask_of([4, 5]), mask_of([4, 6]), mask_of([5, 6]))


def test_best_effort_spreads_over_numa_nodes_when_none_fits_alone() -> None:
    assert kubelet_picks(PCIE_8, "best-effort", mask_of([0, 1, 4, 5]), 4).sets == (mask_of([0, 1, 4, 5]),)


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_strict_policies_refuse_four_gpus_that_lie_on_two_numa_nodes(policy: str) -> None:
    assert kubelet_picks(PCIE_8, policy, mask_of([0, 1, 4, 5]), 4).sets == ()


def test_restricted_admits_a_request_that_no_single_numa_node_could_ever_hold() -> None:
    assert kubelet_picks(PCIE_8, "restricted", 0xFF, 6).sets != ()


def test_single_numa_node_never_admits_a_request_wider_than_one_numa_node() -> None:
    assert kubelet_picks(PCIE_8, "single-numa-node", 0xFF, 6).sets == ()


def test_equally_narrow_numa_nodes_are_both_possible() -> None:
    assert kubelet_picks(PCIE_8, "single-numa-node", 0xFF, 4).sets == (0x0F, 0xF0)


def test_an_aligned_offer_of_exactly_the_request_never_reaches_the_plugin() -> None:
    # Links inside {0,1,4} would let the plugin prefer others; kubelet takes the aligned pair as it is.
    picks = kubelet_picks(PCIE_8, "single-numa-node", mask_of([0, 1, 4]), 2)
    assert picks.sets == (mask_of([0, 1]),)


def test_unknown_numa_nodes_switch_alignment_off() -> None:
    hardware = Hardware("no-numa", PCIE_8.links, PCIE_8.plugin_links, numa=(None,) * 8)
    assert kubelet_picks(hardware, "single-numa-node", mask_of([0, 1, 4, 5]), 4).sets == (mask_of([0, 1, 4, 5]),)


def test_nvswitch_node_with_three_free_on_one_socket_may_split_a_quad() -> None:
    hgx = preset("hgx-h100-8")
    assert hgx is not None
    assert kubelet_picks(hgx, "none", mask_of([0, 1, 2, 4, 5, 6]), 4).sets[0].bit_count() == 4
    assert kubelet_picks(hgx, "single-numa-node", mask_of([0, 1, 2, 4, 5, 6]), 4).sets == ()
