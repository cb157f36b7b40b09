"""The JSON Schema of every kind that Islander prints."""

from __future__ import annotations

from typing import Any

import msgspec

from islander.cluster.names import API_VERSION, DOMAIN
from islander.cluster.snapshot_json import KIND, SnapshotDocument
from islander.policy.explain import PodExplanation
from islander.policy.status import ClusterStatus
from planner.errors import PlannerError
from planner.mig.plan import MigPlan
from planner.plan import MovePlan, PlanVerdict
from planner.quota.plan import QuotaPlan

KINDS: dict[str, type[msgspec.Struct]] = {
    KIND: SnapshotDocument,
    "ClusterStatus": ClusterStatus,
    "PodExplanation": PodExplanation,
    "MovePlan": MovePlan,
    "QuotaPlan": QuotaPlan,
    "MigPlan": MigPlan,
    "PlanVerdict": PlanVerdict,
}


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a kind's document.

    Raises
    ------
    PlannerError
        There is no such kind.
    """
    found = next((name for name in KINDS if name.lower() == kind.lower()), None)
    if found is None:
        raise PlannerError(f"no kind {kind!r}; there are {', '.join(KINDS)}")
    (body,), definitions = msgspec.json.schema_components([KINDS[found]], ref_template="#/$defs/{name}")
    document = definitions.pop(body["$ref"].rpartition("/")[2])
    document["properties"] = {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": found},
        **{name: field for name, field in document["properties"].items() if name not in ("apiVersion", "kind")},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://{DOMAIN}/schemas/v1/{found}.json",
        **document,
        "title": found,
        "required": sorted({"apiVersion", "kind", *document.get("required", ())}),
        "$defs": definitions,
    }
