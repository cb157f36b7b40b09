"""A node's report is believed whole or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from islander.cluster.gpu_report import LONGEST_TEXT, MOST_GPUS, parse_gpu_report
from islander.cluster.node import GpuReport, MigDevice, ReportedGpu


def test_a_full_report_is_read() -> None:
    text = json.dumps(
        {
            "v": 1,
            "links": [["X", "NV4"], ["NV4", "X"]],
            "pluginLinks": [["X", "NODE"], ["NODE", "X"]],
            "topologyManagerPolicy": "single-numa-node",
            "gpus": [
                {"index": 1, "healthy": False},
                {
                    "index": 0,
                    "uuid": "GPU-0",
                    "numa": 0,
                    "healthy": True,
                    "pod": "ns/p",
                    "product": "X",
                    "memoryMib": 100,
                    "mig": [{"profile": "1g.10gb", "start": 2, "pod": None}],
                },
            ],
        }
    )
    assert parse_gpu_report(text) == (
        GpuReport(
            gpus=(
                ReportedGpu(0, "GPU-0", 0, True, "ns/p", "X", 100, (MigDevice("1g.10gb", 2),)),
                ReportedGpu(1, healthy=False),
            ),
            links=(("X", "NV4"), ("NV4", "X")),
            plugin_links=(("X", "NODE"), ("NODE", "X")),
            topology_manager_policy="single-numa-node",
        ),
        (),
    )


@pytest.mark.parametrize(
    ("document", "report"),
    [
        ({"v": 1}, GpuReport()),
        ({"v": 1, "gpus": None, "links": None, "pluginLinks": None, "topologyManagerPolicy": None}, GpuReport()),
        ({"v": 1, "gpus": [{"index": 3}]}, GpuReport((ReportedGpu(3),))),
        (
            {"v": 1, "gpus": [dict.fromkeys(["uuid", "numa", "healthy", "pod", "mig"]) | {"index": 0}]},
            GpuReport((ReportedGpu(0),)),
        ),
        (
            {"v": 1, "gpus": [{"index": 0, "pod": "", "numa": -1, "later": {}}], "later": 1},
            GpuReport((ReportedGpu(0),)),
        ),
    ],
)
def test_everything_but_version_and_index_may_be_missing_or_null(document: dict[str, Any], report: GpuReport) -> None:
    assert parse_gpu_report(json.dumps(document)) == (report, ())


def gpus(*indexes: object) -> list[dict[str, object]]:
    return [{"index": index} for index in indexes]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "missing required field `v`"),
        ({"v": 2, "gpus": "other"}, "has version 2"),
        ({"v": "1"}, "Expected `int`"),
        ({"v": 1, "gpus": gpus(0, 0)}, "index 0 is listed twice"),
        ({"v": 1, "gpus": gpus(-1)}, "index -1 is not between"),
        ({"v": 1, "gpus": gpus(MOST_GPUS)}, f"index {MOST_GPUS} is not between"),
        ({"v": 1, "gpus": gpus("0")}, "Expected `int`"),
        ({"v": 1, "gpus": [{}]}, "missing required field `index`"),
        ({"v": 1, "gpus": [{"index": 0, "pod": "no-namespace"}]}, "not written namespace/name"),
        ({"v": 1, "gpus": [{"index": 0, "pod": "a/b/c"}]}, "not written namespace/name"),
        ({"v": 1, "gpus": [{"index": 0, "healthy": "yes"}]}, "Expected `bool | null`"),
        ({"v": 1, "gpus": [{"index": 0, "mig": [{"start": 0}]}]}, "missing required field `profile`"),
        ({"v": 1, "gpus": [{"index": 0, "mig": [{"profile": "1g", "start": -1}]}]}, "starts at -1"),
        ({"v": 1, "gpus": [{"index": 0, "memoryMib": 2**40}]}, "Expected `int`"),
        ({"v": 1, "links": [["X", "SYS"]]}, "not a square table"),
        ({"v": 1, "links": [["X"]] * (MOST_GPUS + 1)}, "not a square table"),
        ({"v": 1, "links": [["X"]], "gpus": gpus(1)}, "has 1 rows, but GPU 1 is listed"),
        ({"v": 1, "links": [["X" * 100]]}, "a cell longer than"),
        ({"v": 1, "links": [["X"]], "pluginLinks": [["X", "SYS"], ["SYS", "X"]]}, "different numbers of rows"),
        ({"v": 1, "links": {}}, "Expected `array | null`"),
    ],
)
def test_a_report_that_is_broken_anywhere_counts_as_absent(document: dict[str, Any], why: str) -> None:
    report, warnings = parse_gpu_report(json.dumps(document))
    assert report is None
    assert len(warnings) == 1
    assert why in warnings[0]
    assert "ignored" in warnings[0]


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "no json", "[" * 100_000, "\ud800", " " * (LONGEST_TEXT + 1)])
def test_a_text_that_is_no_report_counts_as_absent(text: str) -> None:
    report, warnings = parse_gpu_report(text)
    assert report is None
    assert len(warnings) == 1
    assert len(warnings[0]) < 200


def test_an_unknown_policy_alone_does_not_cost_the_report() -> None:
    report, warnings = parse_gpu_report('{"v": 1, "gpus": [{"index": 0}], "topologyManagerPolicy": "mine"}')
    assert report == GpuReport((ReportedGpu(0),))
    assert warnings == ("its topologyManagerPolicy is not one that kubelet knows",)
