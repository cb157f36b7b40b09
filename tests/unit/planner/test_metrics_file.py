from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import PlannerError
from planner.metrics_file import read_samples

TEXT = """\
# HELP DCGM_FI_PROF_GR_ENGINE_ACTIVE Ratio of time the graphics engine is active.
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-0",pod="x",exported_pod="llm-0"} 0.25
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-0"} 40123 1764633600000
"""


def test_samples_keep_their_labels_and_values(tmp_path: Path) -> None:
    file = tmp_path / "metrics.txt"
    file.write_text(TEXT)
    active, used = read_samples(file)
    assert (active.name, active.value) == ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.25)
    assert active.labels["exported_pod"] == "llm-0"
    assert (used.name, used.value) == ("DCGM_FI_DEV_FB_USED", 40123.0)


@pytest.mark.parametrize("text", ["a{b=", 'DCGM_FI_DEV_FB_USED{UUID="GPU-0"} many', "<html></html>", b"\xff\xfe"])
def test_a_file_of_something_else_is_told_about_in_one_line(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "metrics.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PlannerError, match="metrics as Prometheus writes them") as refused:
        read_samples(file)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlannerError, match="none: No such file"):
        read_samples(tmp_path / "none")
