"""A snapshot from files: what Islander wrote, or what `kubectl get` printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from islander.cluster.devices import ResourceClaim, ResourceSlice
from islander.cluster.names import DOMAIN
from islander.cluster.node import Node
from islander.cluster.pod import Pod
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
from islander.cluster.snapshot_json import MalformedSnapshot, decode_snapshot
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload
from islander.kube.parse import GROUPS, ClusterObject, MalformedObject, UnusedObject, kind_of, parse_object
from planner.documents import Document, MalformedInput, read_documents

Key = TypeVar("Key", str, tuple[str, str], tuple[str, str, str])
Value = TypeVar("Value")

_ADVICE = "take it with `kubectl get nodes,pods -A -o json`"
_WITHOUT_KIND = "(without kind)"
_MOST_WARNINGS_OF_A_KIND = 20


@dataclass(slots=True)
class _Gathered:
    """What the files hold; of two objects with one name the later one counts."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[tuple[str, str], Pod] = field(default_factory=dict)
    workloads: dict[tuple[str, str, str], Workload] = field(default_factory=dict)
    budgets: dict[tuple[str, str], DisruptionBudget] = field(default_factory=dict)
    priority_classes: dict[str, PriorityClass] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    resource_slices: dict[str, ResourceSlice] = field(default_factory=dict)
    resource_claims: dict[tuple[str, str], ResourceClaim] = field(default_factory=dict)
    claims: dict[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    cluster_queues: dict[str, ClusterQueue] = field(default_factory=dict)
    cohorts: dict[str, Cohort] = field(default_factory=dict)
    local_queues: dict[tuple[str, str], LocalQueue] = field(default_factory=dict)
    resource_flavors: dict[str, ResourceFlavor] = field(default_factory=dict)
    queue_topologies: dict[str, QueueTopology] = field(default_factory=dict)
    queued_workloads: dict[tuple[str, str], QueuedWorkload] = field(default_factory=dict)
    autoscalers: dict[tuple[str, str, str], Autoscaler] = field(default_factory=dict)
    namespace_quotas: dict[tuple[str, str], NamespaceQuota] = field(default_factory=dict)
    queue_configuration: QueueConfiguration | None = None
    kinds: set[str] = field(default_factory=set)
    demand_mix: tuple[ShapeWeight, ...] = ()
    taken_at: str = ""
    warnings: list[str] = field(default_factory=list)
    not_used: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)

    def add(self, value: ClusterObject) -> None:
        match value:
            case Node():
                self.nodes[value.name] = value
            case Pod():
                self.pods[value.namespace, value.name] = value
            case Workload():
                self.workloads[value.namespace, value.name, value.kind] = value
            case DisruptionBudget():
                self.budgets[value.namespace, value.name] = value
            case PriorityClass():
                self.priority_classes[value.name] = value
            case Namespace():
                self.namespaces[value.name] = value
            case ResourceSlice():
                self.resource_slices[value.name] = value
            case ResourceClaim():
                self.resource_claims[value.namespace, value.name] = value
            case PersistentVolumeClaim():
                self.claims[value.namespace, value.name] = value
            case PersistentVolume():
                self.volumes[value.name] = value
            case ClusterQueue():
                self.cluster_queues[value.name] = value
            case Cohort():
                self.cohorts[value.name] = value
            case LocalQueue():
                self.local_queues[value.namespace, value.name] = value
            case ResourceFlavor():
                self.resource_flavors[value.name] = value
            case QueueTopology():
                self.queue_topologies[value.name] = value
            case QueuedWorkload():
                self.queued_workloads[value.namespace, value.name] = value
            case Autoscaler():
                self.autoscalers[value.kind, value.namespace, value.name] = value
            case NamespaceQuota():
                self.namespace_quotas[value.namespace, value.name] = value
            case QueueConfiguration():
                self.queue_configuration = value

    def add_snapshot(self, snapshot: ClusterSnapshot) -> None:
        parts: tuple[Iterable[ClusterObject], ...] = (
            snapshot.nodes,
            snapshot.pods,
            snapshot.workloads,
            snapshot.budgets,
            snapshot.priority_classes,
            snapshot.namespaces,
            snapshot.resource_slices,
            snapshot.resource_claims,
            snapshot.claims,
            snapshot.volumes,
            snapshot.cluster_queues,
            snapshot.cohorts,
            snapshot.local_queues,
            snapshot.resource_flavors,
            snapshot.queue_topologies,
            snapshot.queued_workloads,
            snapshot.autoscalers,
            snapshot.namespace_quotas,
            () if snapshot.queue_configuration is None else (snapshot.queue_configuration,),
        )
        for part in parts:
            for value in part:
                self.add(value)
        self.kinds.update(snapshot.kinds)
        self.demand_mix = snapshot.demand_mix or self.demand_mix
        self.taken_at = max(self.taken_at, snapshot.taken_at)
        self.warnings.extend(snapshot.warnings)

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(
            nodes=_sorted(self.nodes),
            pods=_sorted(self.pods),
            workloads=_sorted(self.workloads),
            budgets=_sorted(self.budgets),
            priority_classes=_sorted(self.priority_classes),
            namespaces=_sorted(self.namespaces),
            resource_slices=_sorted(self.resource_slices),
            resource_claims=_sorted(self.resource_claims),
            claims=_sorted(self.claims),
            volumes=_sorted(self.volumes),
            cluster_queues=_sorted(self.cluster_queues),
            cohorts=_sorted(self.cohorts),
            local_queues=_sorted(self.local_queues),
            resource_flavors=_sorted(self.resource_flavors),
            queue_topologies=_sorted(self.queue_topologies),
            queued_workloads=_sorted(self.queued_workloads),
            autoscalers=_sorted(self.autoscalers),
            namespace_quotas=_sorted(self.namespace_quotas),
            queue_configuration=self.queue_configuration,
            kinds=tuple(sorted(self.kinds)),
            demand_mix=self.demand_mix,
            taken_at=self.taken_at,
            warnings=tuple(self.warnings),
        )


def load_files(paths: Sequence[str]) -> ClusterSnapshot:
    """Return the snapshot that the files hold together; `-` is stdin.

    Each file is an Islander snapshot, or what `kubectl get` prints as JSON or YAML: lists or single objects, kinds
    mixed, also packed with gzip. Objects of kinds that are not used, and broken ones, are skipped and named in the
    warnings of the snapshot.

    Raises
    ------
    MalformedInput
        A file cannot be read, or all files together hold no node.
    """
    gathered = _Gathered()
    for path in paths:
        for document in read_documents(path):
            _add(gathered, document, "stdin" if path == "-" else path)
    called = ", ".join("stdin" if path == "-" else path for path in paths)
    gathered.warnings += _summary(gathered)
    if not gathered.nodes:
        raise MalformedInput(f"{called}: {_without_nodes(gathered)}")
    if "Pod" not in gathered.kinds:
        gathered.warnings.append(f"{called}: holds no pods, so every GPU counts as free; {_ADVICE}")
    return gathered.snapshot()


def _add(gathered: _Gathered, document: Document, called: str) -> None:
    if document.raw is None:
        if GROUPS.get(document.kind) == document.group:
            gathered.kinds.add(document.kind)
        return
    try:
        group, kind = kind_of(document.raw)
        if not kind:
            group, kind = document.group, document.kind
        if group == DOMAIN:
            gathered.add_snapshot(decode_snapshot(document.raw))
        elif GROUPS.get(kind) != group:
            gathered.not_used[kind or _WITHOUT_KIND] += 1
        else:
            gathered.kinds.add(kind)
            gathered.add(parse_object(document.raw, kind))
    except MalformedSnapshot as error:
        raise MalformedInput(f"{called}: {error}") from None
    except UnusedObject as error:
        gathered.not_used[error.kind] += 1
    except MalformedObject as error:
        gathered.broken[error.kind] += 1
        if gathered.broken[error.kind] <= _MOST_WARNINGS_OF_A_KIND:
            gathered.warnings.append(f"{called}: {error}; it is skipped")


def _summary(gathered: _Gathered) -> list[str]:
    found = [
        f"{count - _MOST_WARNINGS_OF_A_KIND} more broken objects of kind {kind or 'unknown'} are skipped"
        for kind, count in sorted(gathered.broken.items())
        if count > _MOST_WARNINGS_OF_A_KIND
    ]
    if gathered.not_used:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(gathered.not_used.items()))
        found.append(f"skipped objects of kinds that are not used: {counts}")
    return found


def _without_nodes(gathered: _Gathered) -> str:
    if gathered.broken["Node"] and gathered.warnings:
        return f"holds no node that can be read: {gathered.warnings[0]}"
    held = gathered.kinds or set(gathered.not_used) - {_WITHOUT_KIND}
    return f"holds {'no nodes' if held else 'no Kubernetes objects'}; {_ADVICE}"


def _sorted(values: Mapping[Key, Value]) -> tuple[Value, ...]:
    return tuple(values[key] for key in sorted(values))
