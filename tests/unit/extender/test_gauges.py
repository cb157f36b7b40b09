from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from islander.policy.settings import DemandMix, PolicySettings, Shape
from tests.builders import H100, a_node, a_pod
from tests.unit.extender.harness import InMemoryExtender, asking

A100 = "NVIDIA-A100-SXM4-80GB"

# The contract: names and labels; `pool` is the product.
CONTRACT = {
    "islander_requests_total": {"verb", "code"},
    "islander_request_duration_seconds_bucket": {"verb", "le"},
    "islander_rejections_total": {"code"},
    "islander_snapshot_age_seconds": set(),
    "islander_gpus": {"pool", "state"},
    "islander_placeable_replicas": {"pool", "shape"},
    "islander_free_islands": {"pool", "size"},
    "islander_fragmentation_ratio": {"pool"},
    "islander_pending_stuck_replicas": {"shape"},
    "islander_prediction_total": {"outcome"},
    "islander_soft_holds": set(),
    "islander_reservations": {"state"},
}


def samples(extender: InMemoryExtender) -> dict[str, float]:
    text = extender.app.test_client().get("/metrics").text
    return {
        name + "".join(f"[{v}]" for _, v in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for name in [sample.name]
    }


def test_names_and_labels_are_those_of_the_contract() -> None:
    extender = InMemoryExtender(a_node("n1"), a_pod("holder", gpus=8, node="n1"), a_node("n2"), a_pod("p", gpus=1))
    extender.filter(asking(), ["n1"])
    text = extender.app.test_client().get("/metrics").text
    found = {
        sample.name: set(sample.labels) for family in text_string_to_metric_families(text) for sample in family.samples
    }
    assert {name: found.get(name) for name in CONTRACT} == CONTRACT
    assert re.findall(r"# TYPE islander_request_duration_seconds (\w+)", text) == ["histogram"]
    assert 'le="0.0005"' in text
    assert "default/p" not in text


def test_gpus_are_counted_by_pool_and_state() -> None:
    extender = InMemoryExtender(
        a_node("n1"),
        a_pod("p", gpus=3, node="n1"),
        a_node("n2", allocatable=6),
        a_node("n3", unschedulable=True),
        a_node("a1", product=A100, ready=False),
        a_node("plain", gpus=0),
        a_node("odd", gpus=2, product=None),
    )
    found = samples(extender)
    h100 = {state: found[f"islander_gpus[{H100}][{state}]"] for state in ("used", "free", "usable_free", "withdrawn")}
    assert h100 == {"used": 3, "free": 5 + 6 + 8, "usable_free": 5 + 6, "withdrawn": 2}
    assert found[f"islander_gpus[{A100}][free]"] == 8
    assert found[f"islander_gpus[{A100}][usable_free]"] == 0
    assert found["islander_gpus[unknown][free]"] == 2
    assert len([name for name in found if name.startswith("islander_gpus")]) == 3 * 4


def test_replicas_islands_and_fragmentation_follow_the_policy() -> None:
    extender = InMemoryExtender(
        a_node("n1"),
        a_pod("p", gpus=2, node="n1"),
        a_node("n2"),
        a_pod("q", gpus=7, node="n2"),
        a_node("n3", ready=False),
    )
    found = samples(extender)
    # 6 and 1 GPUs free on NVSwitch nodes that take pods.
    assert {s: found[f"islander_placeable_replicas[{H100}][{s}]"] for s in "1248"} == {"1": 7, "2": 3, "4": 1, "8": 0}
    assert {s: found[f"islander_free_islands[{H100}][{s}]"] for s in "1248"} == {"1": 7, "2": 3, "4": 1, "8": 0}
    # Stranded: 0, 1, 3, 7 of 7; weighted by GPUs asked 1, 2, 4, 8.
    assert found[f"islander_fragmentation_ratio[{H100}]"] == pytest.approx((0 + 2 + 12 + 56) / 15 / 7)


def test_the_gauges_agree_with_the_status() -> None:
    extender = InMemoryExtender(
        a_node("n1"), a_pod("p", gpus=2, node="n1"), a_node("n2"), a_pod("q", gpus=7, node="n2")
    )
    found = samples(extender)
    status = extender.app.test_client().get("/status").get_json()
    assert found[f"islander_fragmentation_ratio[{H100}]"] == pytest.approx(status["fragmentation"]["ratio"], abs=1e-4)
    assert {s: found[f"islander_placeable_replicas[{H100}][{s}]"] for s in "1248"} == status["placeable"]


def test_gauges_and_status_agree_on_a_size_that_is_asked_for_both_ways() -> None:
    mix = DemandMix(((Shape(2, island=False), 3.0), (Shape(2, island=True), 1.0)))
    extender = InMemoryExtender(a_node("n1", gpus=4, hardware="pcie-4"), settings=PolicySettings(mix=mix))
    found = samples(extender)
    status = extender.app.test_client().get("/status").get_json()
    # No two of the four GPUs are joined, so no island of two fits and all four are stranded.
    assert found[f"islander_fragmentation_ratio[{H100}]"] == status["fragmentation"]["ratio"] == 1.0
    assert found[f"islander_placeable_replicas[{H100}][2]"] == status["placeable"]["2"] == 0


def test_a_pod_is_stuck_when_enough_is_free_in_total_but_no_node_is_good() -> None:
    holders = [a_pod(f"h{i}", gpus=6, node=f"n{i}") for i in range(2)]
    extender = InMemoryExtender(
        a_node("n0"), a_node("n1"), *holders, a_node("down", ready=False), a_pod("stuck", gpus=4), a_pod("fits", gpus=2)
    )
    found = samples(extender)
    assert found["islander_pending_stuck_replicas[4]"] == 1
    assert found["islander_pending_stuck_replicas[2]"] == 0
    extender.see(a_pod("huge", gpus=16))
    assert samples(extender)["islander_pending_stuck_replicas[16]"] == 0, "not enough in total: not stuck, too large"


def test_soft_holds_are_counted() -> None:
    extender = InMemoryExtender(a_node("n1"), a_node("n2"))
    extender.prioritize(asking(), ["n1", "n2"])
    assert samples(extender)["islander_soft_holds"] == 1


def test_before_the_first_lists_nothing_is_said_of_the_cluster() -> None:
    found = samples(InMemoryExtender(waits_for=("Pod",)))
    assert not [name for name in found if name.startswith(("islander_gpus", "islander_free_islands"))]
    assert found["islander_snapshot_age_seconds"] == 1.5
