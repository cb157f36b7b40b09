"""What `kubectl get nodes,pods,... -A -o json` prints, made from the same answers of the API."""

import json

from islander.kube.kinds import LISTED_KINDS, WatchedKind
from tests.kwok.controlplane.api import Api, ApiError, Json

# Prefix of the path, and what stands as apiVersion in an object.
_CORE, _GROUPS = "/api/", "/apis/"


def get_all(api: Api) -> str:
    """Return one List of all kinds that a plan makes use of and that this API serves.

    A list of the API names the kind once for all its items; kubectl writes it into each, leaves managed fields out, and
    sorts the keys.
    """
    items = [
        {"apiVersion": _api_version(kind.path), "kind": kind.kind} | _without_managed_fields(item)
        for kind in LISTED_KINDS
        for item in _items(api, kind)
    ]
    dump = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    return json.dumps(dump, indent=4, sort_keys=True) + "\n"


def _items(api: Api, kind: WatchedKind) -> list[Json]:
    try:
        return api.items(kind.path, **({"fieldSelector": kind.field_selector} if kind.field_selector else {}))
    except ApiError as problem:
        if problem.code == 404:
            return []
        raise


def _api_version(path: str) -> str:
    return path.removeprefix(_GROUPS).removeprefix(_CORE).rpartition("/")[0]


def _without_managed_fields(obj: Json) -> Json:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}
