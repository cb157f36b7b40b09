"""Which devices claims hold: of which node, each once, however many pods share them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from islander.cluster.devices import ClaimedDevice, ResourceClaim
from islander.kube.client import KubeClient
from islander.kube.gather import read_cluster
from islander.kube.parse import MalformedObject, parse_object
from tests.builders import a_resource_claim, a_snapshot
from tests.fake_api import PATHS, FakeApi

GPU = "nvidia.com/gpu"


def claim(**status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpus", "namespace": "chat"},
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
        "status": status,
    }


def result(device: str, **fields: Any) -> dict[str, Any]:
    return {"request": "gpus", "driver": "gpu.nvidia.com", "pool": "n1", "device": device, **fields}


def parsed(document: dict[str, Any]) -> Any:
    return parse_object(json.dumps(document).encode())


def test_a_claim_is_its_devices_its_node_and_its_pods() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}
    allocation = {
        "devices": {"results": [result("gpu-1"), result("gpu-0"), result("gpu-5", adminAccess=True)]},
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }
    users = [{"resource": "pods", "name": "b"}, {"resource": "pods", "name": "a"}, {"resource": "jobs", "name": "j"}]
    assert parsed(claim(allocation=allocation, reservedFor=users)) == ResourceClaim(
        "chat",
        "gpus",
        "n7",
        (ClaimedDevice("gpu.nvidia.com", "n1", "gpu-0"), ClaimedDevice("gpu.nvidia.com", "n1", "gpu-1")),
        ("a", "b"),
    )


def test_a_claim_without_a_node_selector_is_of_the_node_that_its_pool_is_named_after() -> None:
    assert parsed(claim(allocation={"devices": {"results": [result("gpu-0")]}})).node == "n1"
    other = result("disk") | {"driver": "disk.example.com"}
    assert parsed(claim(allocation={"devices": {"results": [other]}})).node == ""


def test_a_claim_that_waits_holds_nothing() -> None:
    assert parsed(claim()) == ResourceClaim("chat", "gpus")


def test_an_odd_claim_is_named() -> None:
    with pytest.raises(MalformedObject, match=r"ResourceClaim chat/gpus: status.allocation"):
        parsed(claim(allocation=[]))


def test_a_device_counts_once_and_parts_of_a_gpu_are_one_gpu() -> None:
    """G46: two pods that share a claim hold one GPU."""
    snapshot = a_snapshot(
        a_resource_claim("gpu-0", pods=("p1", "p2")),
        a_resource_claim("gpu-0", name="same"),
        a_resource_claim("gpu-3-mig-1g10gb-19-0", "gpu-3-mig-1g10gb-19-1", name="parts"),
        a_resource_claim("gpu-0", node="n2", name="elsewhere"),
        a_resource_claim(name="waiting"),
    )
    assert snapshot.claimed("n1", GPU) == 2
    assert snapshot.claimed("n2", GPU) == 1
    assert snapshot.claimed("n1", "amd.com/gpu") == 0
    assert snapshot.claimed("n1", "example.com/gpu") == 0


def test_claims_are_in_the_snapshot_and_may_be_denied(api: FakeApi, client: KubeClient) -> None:
    api.put(claim(allocation={"devices": {"results": [result("gpu-0")]}}))
    snapshot = read_cluster(client, taken_at="")
    assert snapshot.claimed("n1", GPU) == 1
    api.answer_next("GET", PATHS["ResourceClaim"], 403)
    snapshot = read_cluster(client, taken_at="")
    assert snapshot.resource_claims == ()
    assert "ResourceClaim" not in snapshot.kinds
