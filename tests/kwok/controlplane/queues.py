"""Builders of Kueue's objects, in v1beta2."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.kwok.controlplane.objects import GPU, Json

API = "kueue.x-k8s.io/v1beta2"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"


def resource_flavor(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """Return a ResourceFlavor for the nodes with these labels; `spec` is in the API's names."""
    return _object("ResourceFlavor", name, ({"nodeLabels": dict(labels)} if labels else {}) | spec)


def quota(nominal: int | str, *, borrow: int | None = None, lend: int | None = None, resource: str = GPU) -> Json:
    """Return what a queue may use of one resource of one flavor; None is no limit."""
    limits = {"borrowingLimit": borrow, "lendingLimit": lend}
    return {"name": resource, "nominalQuota": str(nominal)} | {
        key: str(limit) for key, limit in limits.items() if limit is not None
    }


def group(flavors: Mapping[str, Sequence[Json]], covered: Sequence[str] | None = None) -> Json:
    """Return a resource group: the quotas of each flavor; covered is what the first flavor has, unless given."""
    first = next(iter(flavors.values()))
    return {
        "coveredResources": list(covered if covered is not None else [item["name"] for item in first]),
        "flavors": [{"name": name, "resources": list(quotas)} for name, quotas in flavors.items()],
    }


def cluster_queue(name: str, *groups: Json, cohort: str = "", **spec: Any) -> Json:
    """Return a ClusterQueue that lets every namespace in; `spec` adds to it, in the API's names."""
    fields: Json = {"resourceGroups": list(groups), "namespaceSelector": {}}
    return _object("ClusterQueue", name, fields | ({"cohortName": cohort} if cohort else {}) | spec)


def cohort(name: str, *groups: Json, parent: str = "", **spec: Any) -> Json:
    """Return a Cohort."""
    fields: Json = ({"resourceGroups": list(groups)} if groups else {}) | ({"parentName": parent} if parent else {})
    return _object("Cohort", name, fields | spec)


def local_queue(name: str, cluster_queue: str, *, namespace: str) -> Json:
    """Return a LocalQueue; pods of the namespace name it in the label `kueue.x-k8s.io/queue-name`."""
    obj = _object("LocalQueue", name, {"clusterQueue": cluster_queue})
    obj["metadata"]["namespace"] = namespace
    return obj


def topology(name: str, *levels: str) -> Json:
    """Return a Topology: labels that divide the nodes, coarse to fine."""
    return _object("Topology", name, {"levels": [{"nodeLabel": level} for level in levels]})


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
