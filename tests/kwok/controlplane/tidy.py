"""Empties a control plane between tests."""

from collections.abc import Callable

from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Api, Json
from tests.kwok.controlplane.waiting import wait_until

# Owners first: what they own would come back. Nodes last: kwok lets the pods of a deleted node hang.
_NAMESPACED = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("policy/v1", "PodDisruptionBudget"),
    ("v1", "Pod"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
)
_CLUSTER_WIDE = (
    ("resource.k8s.io/v1", "ResourceSlice"),
    ("resource.k8s.io/v1", "DeviceClass"),
    ("v1", "Node"),
)
_RBAC = (
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
)
_SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease", "kueue-system"})


def remove_everything(api: Api, timeout_seconds: float = 60.0) -> None:
    """Delete what tests have created, and wait until all pods and nodes are gone."""
    for path in _collections(api):
        api.delete(path, grace_seconds=0)
    for name in _names(api, "/apis/scheduling.k8s.io/v1/priorityclasses", lambda name: not name.startswith("system-")):
        api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
    for name in _names(api, paths.NAMESPACES, lambda name: name not in _SYSTEM_NAMESPACES):
        api.delete(f"{paths.NAMESPACES}/{name}")

    for path in _RBAC:
        api.request("DELETE", path, {}, labelSelector="!kubernetes.io/bootstrapping")

    def left() -> list[Json]:
        found = [*api.items(paths.ALL_PODS), *api.items(paths.NODES)]
        # A controller may have made one more pod before it saw that its owner is gone.
        if any("deletionTimestamp" not in obj["metadata"] for obj in found):
            for path in _collections(api):
                api.delete(path, grace_seconds=0)
        return found

    def told() -> str:
        names = [f"{obj['metadata'].get('namespace', 'node')}/{obj['metadata']['name']}" for obj in left()]
        return f"{len(names)} objects gone, such as {names[:5]}"

    wait_until(lambda: not left(), timeout_seconds=timeout_seconds, what=told)


def _collections(api: Api) -> list[str]:
    """Return the collections that hold something, in the order in which they are best deleted."""
    found: list[str] = []
    for api_version, kind in _NAMESPACED:
        objects = api.items(paths.collection(api_version, kind))
        namespaces = sorted({obj["metadata"]["namespace"] for obj in objects})
        found += [paths.collection(api_version, kind, namespace) for namespace in namespaces]
    for api_version, kind in _CLUSTER_WIDE:
        path = paths.collection(api_version, kind)
        if api.items(path):
            found.append(path)
    return found


def _names(api: Api, path: str, wanted: Callable[[str], bool]) -> list[str]:
    return [obj["metadata"]["name"] for obj in api.items(path) if wanted(obj["metadata"]["name"])]
