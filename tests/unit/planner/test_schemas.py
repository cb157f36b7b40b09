"""Documents are judged by the schema that ships, with a reader of the few schema words that msgspec writes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.explain import explain_pod
from islander.policy.settings import PolicySettings
from islander.policy.status import cluster_status
from planner.check import check_plan
from planner.mig.options import MigOptions, wanted_profile
from planner.mig.planning import plan_mig
from planner.output import document_of, json_text
from planner.plan import Unadmitted
from planner.quota.options import QuotaOptions
from planner.quota.planning import plan_quota
from planner.quota.policy_file import parse_policy
from planner.schemas import KINDS, schema_of
from tests.builders import a_cluster_queue, a_flavor, a_node, a_pod, a_snapshot, quotas
from tests.mig_builders import a_mig_node, a_mig_pod
from tests.plan_builders import a_plan

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}
_UNDERSTOOD = {
    *("$schema", "$id", "$defs", "$ref", "title", "description", "default", "type", "properties", "required", "items"),
    *("additionalProperties", "anyOf", "const", "enum", "minItems", "maxItems", "prefixItems"),
}


def violations(value, schema, root, path="$"):
    """The places where a value is not what the schema says."""
    assert schema.keys() <= _UNDERSTOOD, f"{path}: this test does not know {schema.keys() - _UNDERSTOOD}"
    if "$ref" in schema:
        yield from violations(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, path)
        return
    if "anyOf" in schema:
        if all(list(violations(value, option, root, path)) for option in schema["anyOf"]):
            yield f"{path}: {value!r} is none of the alternatives"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{path}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}: {name} is missing"
        for name, part in value.items():
            anything = None if "properties" in schema else {}
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties", anything))
            if known is None:
                yield f"{path}: {name} is not in the schema"
            elif isinstance(known, dict):
                yield from violations(part, known, root, f"{path}.{name}")
    elif isinstance(value, list):
        kinds = schema.get("prefixItems") or [schema.get("items") or {}] * len(value)
        for i, (part, kind) in enumerate(zip(value, kinds, strict=True)):
            yield from violations(part, kind, root, f"{path}[{i}]")


def _is(value, kind):
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


SNAPSHOT = a_snapshot(
    a_node("bridged", gpus=4, product="NVIDIA-A100-80GB-PCIe", hardware="a100-pcie-4"),
    a_node("closed", unschedulable=True),
    a_pod("runs", node="bridged", gpus=1),
    a_pod("waits", gpus=4, tp=4, topology="required"),
    warnings=["one object was skipped"],
)
MIG_CLUSTER = a_snapshot(
    a_mig_node(gpus=2, cut={0: [("1g.10gb", 0, "default/m")]}), a_mig_pod("m", node="n1"), a_pod("tp8", gpus=8, tp=8)
)
MIG_PLAN = plan_mig(
    MIG_CLUSTER,
    PolicySettings(),
    MigOptions(profiles=(wanted_profile("3g.40gb=9"),), asked=True),
    datetime(2026, 1, 1, tzinfo=UTC),
)
QUOTA_CLUSTER = a_snapshot(
    a_node("a"), a_flavor(), a_cluster_queue("chat", quotas("h100", 9), cohort="gpu"), a_pod("outside", node="a")
)
QUOTA_POLICY = "teams: [{name: chat, shape: {gpus: 4}, baselineReplicas: 3, weight: 2}]\nreserve: {2: 1}"
QUOTA_PLAN = plan_quota(
    QUOTA_CLUSTER,
    PolicySettings(),
    QuotaOptions(parse_policy(QUOTA_POLICY, "policy.yaml")),
    datetime(2026, 1, 1, tzinfo=UTC),
)
DOCUMENTS = {
    "ClusterSnapshot": json.loads(encode_snapshot(SNAPSHOT)),
    "ClusterStatus": json.loads(json_text(document_of(cluster_status(SNAPSHOT)))),
    "PodExplanation": json.loads(json_text(document_of(explain_pod(SNAPSHOT, SNAPSHOT.pods[-1])))),
    "MovePlan": json.loads(json_text(document_of(a_plan(unadmitted=[Unadmitted("x/y", "PDB_ZERO", "wait")])))),
    "MigPlan": json.loads(json_text(document_of(MIG_PLAN))),
    "QuotaPlan": json.loads(json_text(document_of(QUOTA_PLAN))),
    "PlanVerdict": json.loads(json_text(document_of(check_plan(a_plan(), SNAPSHOT, PolicySettings())))),
}


def test_every_kind_is_tried_here():
    assert DOCUMENTS.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_satisfies_the_schema_of_its_kind(kind):
    schema = schema_of(kind)
    assert list(violations(DOCUMENTS[kind], schema, schema)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_of_another_kind_does_not(kind):
    schema = schema_of(kind)
    assert list(violations(DOCUMENTS[kind] | {"kind": "Other"}, schema, schema))


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_names_itself_and_what_every_document_has(kind):
    schema = schema_of(kind)
    assert schema["$id"] == f"https://islander.dev/schemas/v1/{kind}.json"
    assert {"apiVersion", "kind"} <= set(schema["required"])
    assert "warnings" in schema["properties"]


def test_a_kind_is_found_whatever_its_case():
    assert schema_of("clusterstatus") == schema_of("ClusterStatus")
