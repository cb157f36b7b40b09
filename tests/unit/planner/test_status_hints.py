"""`status --metrics` adds hints of who holds GPUs idle, and changes nothing else (G47)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from islander.cluster.dcgm import GpuHint
from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.use import UseHint, use_hints
from planner.cli import main
from tests.builders import a_node, a_pod, a_report, a_snapshot

METRICS = """\
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-0",pod="gpu-dcgm-exporter-x",exported_pod="idle",exported_namespace="chat"} 0.01
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",pod="gpu-dcgm-exporter-x",exported_pod="idle",exported_namespace="chat"} 0
DCGM_FI_DEV_FB_USED{UUID="GPU-0",pod="gpu-dcgm-exporter-x",exported_pod="idle",exported_namespace="chat"} 71680
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-2",pod="busy",namespace="chat"} 0.9
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-3",pod="gpu-dcgm-exporter-x"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-77",pod="busy",namespace="chat"} 0
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    snapshot = a_snapshot(
        a_node("n1", report=a_report(used={0: "chat/idle", 1: "chat/idle", 2: "chat/busy"})),
        a_pod("idle", namespace="chat", gpus=2, node="n1"),
        a_pod("busy", namespace="chat", gpus=1, node="n1"),
    )
    cluster, metrics = tmp_path / "cluster.json", tmp_path / "metrics.txt"
    cluster.write_bytes(encode_snapshot(snapshot))
    metrics.write_text(METRICS)
    return str(cluster), str(metrics)


def status(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["status", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_hints_are_added_and_nothing_else_changes(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    cluster, metrics = files
    plain: dict[str, Any] = json.loads(status(capsys, "--snapshot", cluster, "-o", "json")[1])
    _, out, err = status(capsys, "--snapshot", cluster, "--metrics", metrics, "-o", "json")
    found = json.loads(out)
    assert found.pop("hints") == [
        {"pod": "chat/busy", "gpus": 1, "busy": 0.9, "memoryUsedMib": None, "idle": False},
        {"pod": "chat/idle", "gpus": 2, "busy": 0.01, "memoryUsedMib": 71680, "idle": True},
    ]
    (warning,) = found.pop("warnings")
    assert warning in err
    assert "GPU-77" in warning
    assert plain.pop("hints") == plain.pop("warnings") == []
    assert found == plain
    assert plain["totals"]["free"] == 5


def test_people_see_who_is_idle_and_all_that_was_measured_when_they_ask(
    capsys: pytest.CaptureFixture[str], files: tuple[str, str]
) -> None:
    cluster, metrics = files
    _, out, _ = status(capsys, "--snapshot", cluster, "--metrics", metrics)
    idle = out[out.index("IDLE POD") :]
    assert "chat/idle" in idle
    assert "1%" in idle
    assert "70.0 GiB" in idle
    assert "chat/busy" not in idle
    _, out, _ = status(capsys, "--snapshot", cluster, "--metrics", metrics, "-o", "wide")
    assert "chat/busy" in out[out.index("MEASURED POD") :]
    assert "IDLE POD" not in status(capsys, "--snapshot", cluster)[1]


def test_metrics_that_cannot_be_read_are_an_error_of_one_line(
    capsys: pytest.CaptureFixture[str], files: tuple[str, str], tmp_path: Path
) -> None:
    code, _, err = status(capsys, "--snapshot", files[0], "--metrics", str(tmp_path / "none"))
    assert code == 1
    assert err.strip().count("\n") == 0
    assert "none: No such file" in err


def test_the_busiest_gpu_of_a_pod_tells_whether_it_is_idle() -> None:
    hints = [
        GpuHint("a", pod="chat/llm", busy=0.0, memory_used_mib=10),
        GpuHint("b", pod="chat/llm", busy=0.6, memory_used_mib=20),
        GpuHint("c", busy=0.0),
        GpuHint("d", pod="chat/other", memory_used_mib=5),
    ]
    assert use_hints(hints) == (
        UseHint("chat/llm", 2, 0.6, 30, idle=False),
        UseHint("chat/other", 1, None, 5, idle=False),
    )
