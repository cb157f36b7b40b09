"""Hardware of nodes that report their links."""

from __future__ import annotations

import pytest

from islander.hardware.links import LinkMatrix
from islander.hardware.presets import PRESETS
from islander.hardware.reported import links_as_plugin_sees, reported_hardware

# Two GPUs behind a switch cannot be told from two with direct links, and the device plugin has no choice there.
TELLABLE = sorted(name for name in PRESETS if not name.endswith("-2g"))


@pytest.mark.parametrize("name", TELLABLE)
def test_links_through_a_switch_are_found_out(name: str) -> None:
    hardware = PRESETS[name]
    assert links_as_plugin_sees(hardware.links) == hardware.plugin_links


def test_equal_reports_give_equal_hardware() -> None:
    links = PRESETS["a40-4"].links
    again = LinkMatrix(links.pcie, links.nvlinks)
    assert reported_hardware(links, None, (0, 0, 1, 1)) == reported_hardware(again, None, (0, 0, 1, 1))


def test_reports_that_differ_have_different_names() -> None:
    links = PRESETS["a40-4"].links
    reports = [
        reported_hardware(links),
        reported_hardware(links, links.without_nvlinks()),
        reported_hardware(links, None, (0, 0, 1, 1)),
        reported_hardware(PRESETS["rtx-a6000-4-crossed"].links),
    ]
    assert len({report.name for report in reports}) == len(reports)
    assert all(report.topology_known for report in reports)


def test_a_report_with_parts_of_different_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match="differ in the number of GPUs"):
        reported_hardware(PRESETS["a40-4"].links, None, (0, 0))
