"""MIG through the extender's HTTP layer."""

from __future__ import annotations

from typing import Any

import pytest

from islander.cluster import names
from islander.policy.reasons import REASONS, Code
from tests.builders import H100, a_node, a_pod
from tests.unit.extender.harness import InMemoryExtender, asking

A100 = "NVIDIA-A100-SXM4-80GB"
NOT_PLACEABLE = REASONS[Code.MIG_NOT_PLACEABLE].sentence


def mixed(name: str = "mixed", **labels: str) -> Any:
    """Eight GPUs, two of them cut (G41 b)."""
    layout = {"2g.20gb": 3, "1g.10gb": 1, "4g.40gb": 1, "3g.40gb": 1}
    return a_node(name, gpus=6, product=A100, mig=layout, labels={names.GPU_COUNT: "8", **labels})


def asking_mig(profile: str, count: int = 1, **fields: Any) -> dict[str, Any]:
    pod = asking(gpus=None, **fields)
    pod["spec"]["containers"][0]["resources"] = {"limits": {f"nvidia.com/mig-{profile}": str(count)}}
    return pod


def test_a_pod_of_an_instance_finds_the_node_that_has_one_free() -> None:
    extender = InMemoryExtender(
        mixed("n1"),
        mixed("n2"),
        a_node("n3", gpus=7, mig={"1g.10gb": 7}),
        a_pod("holder", gpus=1, gpu_resource="nvidia.com/mig-3g.40gb", node="n1"),
    )
    answer = extender.filter(asking_mig("3g.40gb"), ["n1", "n2", "n3"])
    assert answer["NodeNames"] == ["n2"]
    assert answer["FailedNodes"] == {"n1": NOT_PLACEABLE, "n3": NOT_PLACEABLE}
    assert extender.prioritize(asking_mig("3g.40gb"), ["n2"]) == {"n2": 10}


def test_whole_gpus_and_instances_of_one_node_are_counted_apart() -> None:
    """G41 b: seven whole GPUs are too many, one 2g.20gb is there."""
    extender = InMemoryExtender(mixed())
    seven = extender.filter(asking(gpus=7), ["mixed"])
    assert seven["FailedAndUnresolvableNodes"] == {"mixed": REASONS[Code.NODE_TOO_SMALL].sentence}
    assert extender.filter(asking(gpus=6), ["mixed"])["NodeNames"] == ["mixed"]
    assert extender.filter(asking_mig("2g.20gb"), ["mixed"])["NodeNames"] == ["mixed"]
    assert extender.filter(asking_mig("2g.20gb", 4), ["mixed"])["NodeNames"] == []


def test_a_node_whose_layouts_are_not_uniform_offers_no_gpu() -> None:
    """G41 a."""
    node = a_node("n1", gpus=0, product=None, labels={names.GPU_PRODUCT: f"{A100}-MIG-INVALID"})
    answer = InMemoryExtender(node).filter(asking(gpus=1), ["n1"])
    assert answer["FailedAndUnresolvableNodes"] == {"n1": REASONS[Code.MIG_INVALID].sentence}


@pytest.mark.parametrize(
    ("state", "code"),
    [("pending", Code.MIG_CHANGING), ("rebooting", Code.MIG_CHANGING), ("failed", Code.MIG_FAILED)],
)
def test_a_node_that_is_being_cut_is_no_target_until_it_is_done(state: str, code: Code) -> None:
    """G40."""
    before = mixed(**{names.MIG_CONFIG_STATE: state})
    extender = InMemoryExtender(before)
    for pod in (asking(gpus=1), asking_mig("1g.10gb")):
        answer = extender.filter(pod, ["mixed"])
        assert answer["FailedAndUnresolvableNodes"] == {"mixed": REASONS[code].sentence}
    extender.see(mixed(**{names.MIG_CONFIG_STATE: "success"}), before)
    for pod in (asking(gpus=1), asking_mig("1g.10gb")):
        assert extender.filter(pod, ["mixed"])["NodeNames"] == ["mixed"]


def test_slices_under_the_name_of_gpus_are_not_for_tensor_parallelism() -> None:
    slices = a_node("slices", gpus=56, product=f"{H100}-MIG-1g.10gb")
    extender = InMemoryExtender(slices, a_node("whole"))
    answer = extender.filter(asking(gpus=2, tp=2), ["slices", "whole"])
    assert answer["NodeNames"] == ["whole"]
    assert answer["FailedAndUnresolvableNodes"] == {"slices": REASONS[Code.MIG_NO_PEER].sentence}
    stubborn = asking(gpus=2, tp=2, topology="ignored")
    assert extender.filter(stubborn, ["slices", "whole"])["NodeNames"] == ["slices", "whole"]
    scores = extender.prioritize(stubborn, ["slices", "whole"])
    assert scores["slices"] < scores["whole"]


def test_a_single_gpu_pod_takes_a_slice_before_it_breaks_an_island() -> None:
    extender = InMemoryExtender(a_node("slices", gpus=56, product=f"{H100}-MIG-1g.10gb"), a_node("whole"))
    scores = extender.prioritize(asking(gpus=1), ["slices", "whole"])
    assert scores["slices"] > scores["whole"]


def test_an_engine_over_several_instances_is_warned_in_the_explanation() -> None:
    extender = InMemoryExtender(mixed())
    response = extender.post("explain", asking_mig("2g.20gb", 2, tp=2))
    explained = response.get_json()
    assert explained["need"]["resource"] == "nvidia.com/mig-2g.20gb"
    assert [(node["verdict"], node["code"], node["accepted"]) for node in explained["nodes"]] == [
        ("impossible", "MIG_NO_PEER", True)
    ]
    assert any("cannot be split over MIG devices" in warning for warning in explained["warnings"])


def test_gauges_count_slices_under_no_name() -> None:
    extender = InMemoryExtender(
        a_node("slices", gpus=56, product=f"{H100}-MIG-1g.10gb"),
        a_node("cut", labels={names.MIG_CONFIG_STATE: "pending"}),
        a_node("whole"),
    )
    text = extender.app.test_client().get("/metrics").text
    assert f'islander_gpus{{pool="{H100}",state="free"}} 16.0' in text
    assert f'islander_gpus{{pool="{H100}",state="usable_free"}} 8.0' in text
    assert "MIG-1g.10gb" not in text


def test_pending_instances_are_stuck_by_their_own_count() -> None:
    nodes = [a_node(name, gpus=6, mig={"3g.40gb": 1}) for name in ("n1", "n2")]
    waiting = [
        a_pod("two", gpus=2, gpu_resource="nvidia.com/mig-3g.40gb"),
        a_pod("three", gpus=3, gpu_resource="nvidia.com/mig-3g.40gb"),
    ]
    text = InMemoryExtender(*nodes, *waiting).app.test_client().get("/metrics").text
    assert 'islander_pending_stuck_replicas{shape="2x3g.40gb"} 1.0' in text
    assert 'islander_pending_stuck_replicas{shape="3x3g.40gb"} 0.0' in text
