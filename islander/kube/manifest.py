"""An object as somebody would apply it again: without what the server has written into it."""

from __future__ import annotations

from collections.abc import MutableMapping, MutableSequence
from typing import Any

import msgspec

# metadata that the server gives, and that only lives with this one object.
_OF_THE_SERVER = (
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Kueue's webhook puts it on, and takes it off (sigs.k8s.io/kueue, apis/kueue/v1beta2/constants.go).
_FINALIZER = "kueue.x-k8s.io/resource-in-use"


def manifest_of(raw: bytes | msgspec.Raw) -> str:
    """Return the object as JSON without status, fields of the server and what kubectl noted; all else is kept.

    `raw` is an object of which a struct was decoded before, so it is JSON. RecursionError is raised when a field that
    no struct looks into is nested too deeply.
    """
    document: dict[str, Any] = msgspec.json.decode(raw)
    drop_server_fields(document)
    return msgspec.json.encode(document).decode()


def drop_server_fields(document: MutableMapping[str, Any]) -> None:
    """Take status, fields of the server and what kubectl noted out of an object; all else stays as it is."""
    document.pop("status", None)
    metadata = document.get("metadata")
    if isinstance(metadata, MutableMapping):
        for field in _OF_THE_SERVER:
            metadata.pop(field, None)
        _without(metadata, "annotations", _LAST_APPLIED)
        _without(metadata, "finalizers", _FINALIZER)


def _without(metadata: MutableMapping[str, Any], field: str, unwanted: str) -> None:
    """Take an entry out of a map or list, and the map or list when nothing else is in it."""
    entries = metadata.get(field)
    if isinstance(entries, MutableMapping):
        entries.pop(unwanted, None)
    elif isinstance(entries, MutableSequence) and unwanted in entries:
        entries.remove(unwanted)
    if not entries:
        metadata.pop(field, None)
