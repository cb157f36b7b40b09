"""Claims and volumes: what of them says where a pod may run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from islander.cluster import names
from islander.cluster.pod import NodeTerm, Requirement
from islander.cluster.snapshot_json import decode_snapshot, encode_snapshot
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.kube.client import KubeClient
from islander.kube.gather import read_cluster
from islander.kube.parse import MalformedObject, parse_object
from planner.load import load_files
from tests.builders import a_claim, a_node, a_snapshot, a_volume, node_object
from tests.fake_api import FakeApi


def parsed(document: dict[str, Any]) -> Any:
    return parse_object(json.dumps(document).encode())


def claim_object(name: str = "data", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "chat", "resourceVersion": "1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", **spec},
        "status": {"phase": "Bound"},
    }


def volume_object(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv1", "resourceVersion": "1"},
        "spec": {"capacity": {"storage": "1Ti"}, **spec},
    }


def in_zone(zone: str) -> dict[str, Any]:
    expression = {"key": names.ZONE, "operator": "In", "values": [zone]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def test_a_bound_claim_names_its_volume_and_an_unbound_one_none() -> None:
    assert parsed(claim_object(volumeName="pv1")) == PersistentVolumeClaim("chat", "data", "pv1", ("ReadWriteOnce",))
    assert parsed(claim_object()).volume == ""


@pytest.mark.parametrize(
    ("modes", "one_node"),
    [
        (["ReadWriteOnce"], True),
        (["ReadWriteOncePod"], True),
        (["ReadWriteOnce", "ReadWriteMany"], False),
        (["ReadOnlyMany"], False),
        ([], False),
    ],
)
def test_a_volume_is_for_one_node_unless_a_mode_says_many(modes: list[str], one_node: bool) -> None:
    assert parsed(claim_object(accessModes=modes)).one_node is one_node


def test_a_volume_of_a_zone_has_the_zone_as_a_node_term() -> None:
    volume = parsed(volume_object(nodeAffinity=in_zone("z1"), csi={"driver": "disk"}))
    assert volume == PersistentVolume("pv1", (NodeTerm((Requirement(names.ZONE, "In", ("z1",)),)),))


def test_a_network_volume_has_no_node_terms() -> None:
    assert parsed(volume_object(nfs={"server": "s", "path": "/"})) == PersistentVolume("pv1")


@pytest.mark.parametrize("source", ["local", "hostPath"])
def test_a_disk_of_a_node_is_local(source: str) -> None:
    assert parsed(volume_object(**{source: {"path": "/disk"}})).local


def test_an_odd_volume_is_named() -> None:
    with pytest.raises(MalformedObject, match=r"PersistentVolume pv1: spec\.nodeAffinity: an expression has no key"):
        parsed(volume_object(nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [{}]}]}}))


def test_a_cluster_that_is_read_once_has_its_claims_and_volumes(api: FakeApi, client: KubeClient) -> None:
    api.put(claim_object("b", volumeName="pv1"), claim_object("a"), volume_object())
    snapshot = read_cluster(client, taken_at="2026-01-01T00:00:00Z")
    assert [claim.name for claim in snapshot.claims] == ["a", "b"]
    assert [volume.name for volume in snapshot.volumes] == ["pv1"]
    assert {"PersistentVolumeClaim", "PersistentVolume"} <= set(snapshot.kinds)


def test_a_dump_with_claims_and_volumes_is_loaded(tmp_path: Any) -> None:
    path = tmp_path / "dump.json"
    items = [node_object(), claim_object(volumeName="pv1"), volume_object(nodeAffinity=in_zone("z1"))]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    snapshot = load_files([str(path)])
    assert [claim.volume for claim in snapshot.claims] == ["pv1"]
    assert snapshot.volumes[0].node_terms is not None
    assert {"PersistentVolumeClaim", "PersistentVolume"} <= set(snapshot.kinds)
    assert not any("skipped" in warning for warning in snapshot.warnings)


def test_a_snapshot_with_volumes_survives_being_written_and_read() -> None:
    snapshot = a_snapshot(a_node(), a_claim(volume="pv1"), a_volume(zone="z1"), a_volume("pv2", local=True))
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


def test_a_claim_of_a_pod_ends_with_it() -> None:
    owner = {"kind": "Pod", "name": "p1", "uid": "u", "apiVersion": "v1", "controller": True}
    claim = claim_object()
    claim["metadata"]["ownerReferences"] = [owner]
    assert parsed(claim).ephemeral
    assert not parsed(claim_object()).ephemeral
