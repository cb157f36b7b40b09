"""A snapshot survives its way through JSON, and a document of another kind or version is refused in one line."""

from __future__ import annotations

import json

import msgspec
import pytest

from islander.cluster import names
from islander.cluster.node import MigDevice, Taint
from islander.cluster.pod import HostPort, NodeTerm, PodTerm, Requirement, SpreadConstraint, Toleration
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import MalformedSnapshot, decode_snapshot, encode_snapshot
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass
from tests.builders import a_node, a_pod, a_report, a_resource_slice, a_snapshot, a_workload, owned_by


def a_full_snapshot() -> ClusterSnapshot:
    report = a_report(2, used={0: "ns/p"}, sick=[1], links=(("X", "NV4"), ("NV4", "X")), numa=(0, None))
    first = msgspec.structs.replace(report.gpus[0], mig=(MigDevice("1g.10gb", 2, "ns/q"),))
    report = msgspec.structs.replace(report, gpus=(first, report.gpus[1]))
    web = a_workload("web", replicas=None, group_size=2, labels={"a": "b"})
    any_pod = (Requirement("a", "Exists"),)
    return a_snapshot(
        a_node("n1", gpus=2, report=report, taints=[Taint("a")], warnings=["x"], hardware="h"),
        a_node("n2", ready=False, unschedulable=True),
        a_pod("p1", gpus=2, tp=2, node="n1", owner=owned_by(web), topology="required", labels={"app": "a"}),
        a_pod("p2", gpus=2, tp=2, node="n1", deleted="2026-01-01T00:00:00Z"),
        a_pod(
            "p3",
            nominated_node="n2",
            node_selector={"a": "b"},
            tolerations=[Toleration("a")],
            node_terms=(NodeTerm(any_pod, ()),),
            pod_affinity=(PodTerm(names.ZONE, any_pod, ("x",), ()),),
            pod_anti_affinity=(PodTerm(names.ZONE),),
            spread=(SpreadConstraint(names.ZONE, 2, any_pod, 3),),
            host_ports=(HostPort(80),),
            claims=("c",),
            gated=True,
        ),
        web,
        DisruptionBudget("ns", "b", (), "1"),
        PriorityClass("high", 7),
        Namespace("ns", (("a", "b"),)),
        a_resource_slice("n1"),
        warnings=["skipped"],
    )


def test_a_snapshot_comes_back_equal() -> None:
    snapshot = a_full_snapshot()
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot
    assert decode_snapshot(encode_snapshot(ClusterSnapshot())) == ClusterSnapshot()


def test_the_document_says_what_it_is() -> None:
    document = json.loads(encode_snapshot(a_full_snapshot()))
    assert (document["apiVersion"], document["kind"]) == ("islander.dev/v1", "ClusterSnapshot")
    assert document["takenAt"] == "2026-01-01T00:00:00Z"


def test_pods_of_one_template_share_one_entry_and_one_object() -> None:
    data = encode_snapshot(a_full_snapshot())
    assert len(json.loads(data)["podSpecs"]) == 2
    pods = decode_snapshot(data).pods
    assert pods[0].spec is pods[1].spec


def test_keys_that_a_later_release_adds_are_ignored() -> None:
    document = json.loads(encode_snapshot(a_full_snapshot()))
    document["new"] = 1
    document["pods"][0]["new"] = {}
    document["nodes"][0]["new"] = []
    assert decode_snapshot(json.dumps(document).encode()) == a_full_snapshot()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"apiVersion": "islander.dev/v2"}, "apiVersion is islander.dev/v2, this release reads islander.dev/v1"),
        ({"apiVersion": "v1"}, "apiVersion is v1, not islander.dev/v1"),
        ({"apiVersion": None}, "apiVersion is not given"),
        ({"kind": "MovePlan"}, "kind is MovePlan, not ClusterSnapshot"),
        ({"kind": None}, "kind is not given"),
        ({"podSpecs": []}, "pod default/p1 has spec 0, but podSpecs has 0 entries"),
        ({"nodes": {}}, "not a ClusterSnapshot: Expected `array`, got `object` - at `$.nodes`"),
        ({"pods": [{"namespace": "a", "name": "b", "spec": -1}]}, "pod a/b has spec -1"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(change: dict[str, object], message: str) -> None:
    document = json.loads(encode_snapshot(a_full_snapshot())) | change
    with pytest.raises(MalformedSnapshot) as caught:
        decode_snapshot(json.dumps(document).encode())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"{}"])
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedSnapshot):
        decode_snapshot(data)
