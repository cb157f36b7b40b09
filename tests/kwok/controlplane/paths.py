"""Where the API serves a kind: the URL path of collections and of single objects."""

from collections.abc import Mapping
from typing import Any

_PLURALS = {
    "CustomResourceDefinition": "customresourcedefinitions",
    "NetworkPolicy": "networkpolicies",
    "PriorityClass": "priorityclasses",
    "DeviceClass": "deviceclasses",
    "RuntimeClass": "runtimeclasses",
    "Topology": "topologies",
    "WorkloadPriorityClass": "workloadpriorityclasses",
}
_CLUSTER_SCOPED = frozenset(
    {
        "AdmissionCheck",
        "ClusterQueue",
        "ClusterRole",
        "ClusterRoleBinding",
        "Cohort",
        "CustomResourceDefinition",
        "DeviceClass",
        "DeviceTaintRule",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "ResourceFlavor",
        "ResourceSlice",
        "StorageClass",
        "Topology",
        "ValidatingWebhookConfiguration",
        "WorkloadPriorityClass",
    }
)

NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
ALL_PODS = "/api/v1/pods"


def collection(api_version: str, kind: str, namespace: str | None = None) -> str:
    """Return the path under which objects of a kind are listed and created."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    plural = _PLURALS.get(kind, kind.lower() + "s")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def collection_of(obj: Mapping[str, Any]) -> str:
    """Return the collection an object belongs to; a namespaced object that names no namespace goes to `default`."""
    kind = obj["kind"]
    namespace = None if kind in _CLUSTER_SCOPED else obj["metadata"].get("namespace", "default")
    return collection(obj["apiVersion"], kind, namespace)


def path_of(obj: Mapping[str, Any]) -> str:
    """Return the path of one object that has a name."""
    return f"{collection_of(obj)}/{obj['metadata']['name']}"


def pods(namespace: str) -> str:
    """Return the collection of a namespace's pods."""
    return collection("v1", "Pod", namespace)


def pod(namespace: str, name: str) -> str:
    """Return the path of one pod."""
    return f"{pods(namespace)}/{name}"


def node(name: str) -> str:
    """Return the path of one node."""
    return f"{NODES}/{name}"
