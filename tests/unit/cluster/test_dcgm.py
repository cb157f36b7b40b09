"""G47: whose GPU a sample is about."""

from __future__ import annotations

import pytest

from islander.cluster.dcgm import ENGINE_ACTIVE, MEMORY_USED, GpuHint, Sample, gpu_hints
from islander.cluster.snapshot import ClusterSnapshot
from tests.builders import a_node, a_pod, a_report, a_snapshot

EXPORTER = "gpu-dcgm-exporter-x"


def cluster() -> ClusterSnapshot:
    return a_snapshot(
        a_node("n1", report=a_report(used={0: "chat/llm-0", 1: "chat/llm-1"})),
        a_pod("llm-0", namespace="chat", gpus=1, node="n1"),
        a_pod("llm-1", namespace="chat", gpus=1, node="n1"),
        a_pod(EXPORTER, namespace="monitoring", gpus=0, node="n1"),
    )


def sample(uuid: str = "GPU-0", value: float = 0.5, name: str = ENGINE_ACTIVE, **labels: str) -> Sample:
    return Sample(name, {"UUID": uuid, **labels}, value)


def only(*samples: Sample) -> GpuHint:
    (hint,), warnings = gpu_hints(samples, cluster())
    assert warnings == ()
    return hint


@pytest.mark.parametrize(
    ("labels", "right"),
    [
        # (a) Prometheus keeps the user's name under another label, and writes its target's name over it.
        ({"pod": EXPORTER, "exported_pod": "llm-0", "exported_namespace": "chat"}, "chat/llm-0"),
        ({"pod": EXPORTER, "namespace": "monitoring", "exported_pod": "llm-0"}, "chat/llm-0"),
        # (b) It honours the labels of the target.
        ({"pod": "llm-1", "namespace": "chat"}, "chat/llm-1"),
        ({"pod": "llm-1"}, "chat/llm-1"),
        # (c) Nobody uses the GPU.
        ({"pod": ""}, ""),
        ({}, ""),
        # (d) Nobody uses the GPU, and the exporter's own name stands there.
        ({"pod": EXPORTER}, ""),
        ({"pod": EXPORTER, "namespace": "monitoring"}, ""),
    ],
)
def test_a_gpu_is_used_by_who_asked_for_it_and_never_by_the_exporter(labels: dict[str, str], right: str) -> None:
    hint = only(sample(**labels))
    assert (hint.node, hint.pod, hint.busy) == ("n1", right, 0.5)


def test_a_gpu_that_no_node_has_is_ignored_with_a_warning() -> None:
    """G47 e."""
    hints, warnings = gpu_hints([sample("GPU-77"), sample("GPU-0")], cluster())
    assert [hint.uuid for hint in hints] == ["GPU-0"]
    assert warnings == ("GPU GPU-77 of the metrics is on no node; its samples are ignored",)


def test_where_no_node_reports_its_gpus_all_of_them_are_believed() -> None:
    hints, warnings = gpu_hints([sample("GPU-77")], a_snapshot(a_node()))
    assert [(hint.uuid, hint.node) for hint in hints] == [("GPU-77", "")]
    assert warnings == ()


def test_a_pod_that_nobody_knows_leaves_its_gpu_unknown() -> None:
    (hint,), warnings = gpu_hints([sample(pod="gone", namespace="chat")], cluster())
    assert hint.pod == ""
    assert warnings == ("pod gone of the metrics is not in the snapshot; its GPU counts as unknown",)


def test_an_exporter_that_is_not_in_the_snapshot_is_no_surprise() -> None:
    assert gpu_hints([sample(pod="nvidia-dcgm-exporter-abc")], cluster())[1] == ()


def test_samples_of_one_gpu_make_one_hint_and_the_busiest_counts() -> None:
    labels = {"exported_pod": "llm-0", "exported_namespace": "chat"}
    hint = only(
        sample(value=0.1, **labels),
        sample(value=0.7, **labels),
        sample(value=40_123.4, name=MEMORY_USED, **labels),
        sample(value=99.0, name="DCGM_FI_DEV_GPU_TEMP", **labels),
        sample(value=float("nan")),
    )
    assert (hint.busy, hint.memory_used_mib, hint.pod) == (0.7, 40_123, "chat/llm-0")


def test_mig_instances_of_one_gpu_are_told_apart() -> None:
    hints, _ = gpu_hints([sample(GPU_I_ID="1", pod="llm-0"), sample(GPU_I_ID="2")], cluster())
    assert [(hint.instance, hint.pod) for hint in hints] == [("1", "chat/llm-0"), ("2", "")]


def test_a_sample_without_a_gpu_is_named() -> None:
    hints, warnings = gpu_hints([Sample(ENGINE_ACTIVE, {}, 1.0)], cluster())
    assert hints == ()
    assert warnings == (f"a sample of {ENGINE_ACTIVE} names no GPU; it is ignored",)
