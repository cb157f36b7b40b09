from __future__ import annotations

import json
from typing import Any

import pytest

from islander.cluster.devices import ResourceSlice
from islander.kube.client import KubeClient
from islander.kube.gather import read_cluster
from islander.kube.parse import MalformedObject, parse_object
from tests.fake_api import PATHS, FakeApi
from tests.kwok.controlplane import dra

TAKEN = "2026-01-01T00:00:00Z"


def parsed(document: dict[str, Any]) -> Any:
    return parse_object(json.dumps(document).encode())


def test_a_slice_is_its_driver_its_node_and_how_many_devices_it_has() -> None:
    assert parsed(dra.resource_slice("n1", 4)) == ResourceSlice("n1-gpu.nvidia.com", "gpu.nvidia.com", "n1", 4)


def test_a_slice_for_several_nodes_belongs_to_none() -> None:
    document = dra.resource_slice("n1")
    del document["spec"]["nodeName"]
    document["spec"] |= {"allNodes": True, "devices": None}
    assert parsed(document) == ResourceSlice("n1-gpu.nvidia.com", "gpu.nvidia.com")


def test_an_odd_slice_is_named() -> None:
    with pytest.raises(MalformedObject, match=r"ResourceSlice n1-gpu.nvidia.com: spec.devices: "):
        parsed(dra.resource_slice("n1") | {"spec": {"devices": 8}})


def test_slices_are_in_the_snapshot_and_may_be_denied(api: FakeApi, client: KubeClient) -> None:
    api.put(dra.resource_slice("n2"), dra.resource_slice("n1"))
    snapshot = read_cluster(client, taken_at=TAKEN)
    assert [found.node for found in snapshot.resource_slices] == ["n1", "n2"]
    assert snapshot.has_devices("n1", "nvidia.com/gpu")
    assert not snapshot.has_devices("n1", "amd.com/gpu")

    for status in (403, 404):
        api.answer_next("GET", PATHS["ResourceSlice"], status)
        snapshot = read_cluster(client, taken_at=TAKEN)
        assert snapshot.resource_slices == ()
        assert "ResourceSlice" not in snapshot.kinds
