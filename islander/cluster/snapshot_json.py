"""The snapshot as JSON: `GET /snapshot`, `islander snapshot`, a planner's input, a bug report.

The keys are those of the values in camelCase. Pods name their spec by its position in `podSpecs`, because ten thousands
of pods share some hundred templates.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from islander.cluster.devices import ResourceClaim, ResourceSlice
from islander.cluster.interning import one_object
from islander.cluster.names import API_VERSION, DOMAIN
from islander.cluster.node import Node
from islander.cluster.pod import Pod, PodSpec
from islander.cluster.queues import (
    Autoscaler,
    ClusterQueue,
    Cohort,
    LocalQueue,
    NamespaceQuota,
    QueueConfiguration,
    QueuedWorkload,
    QueueTopology,
    ResourceFlavor,
)
from islander.cluster.snapshot import ClusterSnapshot, ShapeWeight
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload

KIND = "ClusterSnapshot"


class MalformedSnapshot(ValueError):
    """The bytes are no snapshot that this release can read; the message is one line."""


class _Header(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None


_POD_FIELDS = tuple(field for field in msgspec.structs.fields(Pod))

# A pod whose spec is a position in the table; made from the fields of `Pod`, so that no field can be forgotten.
_PodRecord: Any = msgspec.defstruct(
    "PodRecord",
    [
        (field.name, int if field.name == "spec" else field.type, *([] if field.required else [field.default]))
        for field in _POD_FIELDS
        if field.name != "spec"
    ]
    + [("spec", int, 0)],
    rename="camel",
    omit_defaults=True,
)


class SnapshotDocument(Struct, rename="camel", omit_defaults=True):
    """The document as it is written; the JSON Schema of a snapshot is made from it."""

    api_version: str
    kind: str
    taken_at: str = ""
    kinds: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    pod_specs: tuple[PodSpec, ...] = ()
    pods: tuple[_PodRecord, ...] = ()
    workloads: tuple[Workload, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    cluster_queues: tuple[ClusterQueue, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    local_queues: tuple[LocalQueue, ...] = ()
    resource_flavors: tuple[ResourceFlavor, ...] = ()
    queue_topologies: tuple[QueueTopology, ...] = ()
    queued_workloads: tuple[QueuedWorkload, ...] = ()
    autoscalers: tuple[Autoscaler, ...] = ()
    namespace_quotas: tuple[NamespaceQuota, ...] = ()
    queue_configuration: QueueConfiguration | None = None
    demand_mix: tuple[ShapeWeight, ...] = ()


_PLAIN_POD_FIELDS = tuple(field.name for field in _POD_FIELDS if field.name != "spec")
_SHARED = (
    "nodes",
    "workloads",
    "budgets",
    "priority_classes",
    "namespaces",
    "resource_slices",
    "resource_claims",
    "claims",
    "volumes",
    "cluster_queues",
    "cohorts",
    "local_queues",
    "resource_flavors",
    "queue_topologies",
    "queued_workloads",
    "autoscalers",
    "namespace_quotas",
    "queue_configuration",
    "demand_mix",
    "kinds",
    "warnings",
    "taken_at",
)
_HEADER = msgspec.json.Decoder(_Header)
_DECODER = msgspec.json.Decoder(SnapshotDocument)


def encode_snapshot(snapshot: ClusterSnapshot) -> bytes:
    """Return the snapshot as one JSON document; `decode_snapshot` gives back an equal snapshot."""
    table: dict[PodSpec, int] = {}
    # Most pods share the very object, and looking it up by identity spares the hash of the whole spec.
    positions: dict[int, int] = {}
    records = []
    for pod in snapshot.pods:
        position = positions.get(id(pod.spec))
        if position is None:
            position = positions[id(pod.spec)] = table.setdefault(pod.spec, len(table))
        records.append(_PodRecord(**{name: getattr(pod, name) for name in _PLAIN_POD_FIELDS}, spec=position))
    document = SnapshotDocument(
        API_VERSION,
        KIND,
        pod_specs=tuple(table),
        pods=tuple(records),
        **{name: getattr(snapshot, name) for name in _SHARED},
    )
    return msgspec.json.encode(document)


def decode_snapshot(data: bytes | msgspec.Raw) -> ClusterSnapshot:
    """Return the snapshot of a JSON document; keys that this release does not know are ignored.

    Raises
    ------
    MalformedSnapshot
        The document is no snapshot, is broken, or was written by a release with another version of the format.
    """
    try:
        _check_header(_HEADER.decode(data))
        document = _DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedSnapshot(f"not a {KIND}: {error}") from None
    return ClusterSnapshot(
        pods=tuple(_pods(document.pods, document.pod_specs)),
        **{name: getattr(document, name) for name in _SHARED},
    )


def _check_header(header: _Header) -> None:
    if header.kind != KIND:
        raise MalformedSnapshot(f"kind is {header.kind or 'not given'}, not {KIND}")
    if header.api_version == API_VERSION:
        return
    version = header.api_version or "not given"
    if version.startswith(f"{DOMAIN}/"):
        raise MalformedSnapshot(
            f"apiVersion is {version}, this release reads {API_VERSION}; use the release that wrote it, or a newer one"
        )
    raise MalformedSnapshot(f"apiVersion is {version}, not {API_VERSION}")


def _pods(records: Iterable[Any], specs: tuple[PodSpec, ...]) -> Iterable[Pod]:
    for record in records:
        if not 0 <= record.spec < len(specs):
            raise MalformedSnapshot(
                f"pod {record.namespace}/{record.name} has spec {record.spec}, but podSpecs has {len(specs)} entries"
            )
        values = {name: getattr(record, name) for name in _PLAIN_POD_FIELDS}
        values |= {name: sys.intern(values[name]) for name in ("namespace", "node", "phase")}
        values |= {name: one_object(values[name]) for name in ("labels", "annotations", "owner")}
        yield Pod(spec=specs[record.spec], **values)
