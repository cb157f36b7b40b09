"""A snapshot from lists: of everything at once, for a program that looks once, and for the store that follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import DisruptionBudget, Namespace, PriorityClass, Workload
from islander.kube.errors import ApiError
from islander.kube.kinds import WATCHED_KINDS, WatchedKind
from islander.kube.parse import ClusterObject
from islander.kube.reading import read_list
from islander.kube.state import KindState, apply_list, problems
from islander.kube.transport import Transport
from islander.kube.watch import is_denied

T = TypeVar("T", bound=ClusterObject)


def read_cluster(
    transport: Transport, *, taken_at: str, kinds: Sequence[WatchedKind] = WATCHED_KINDS
) -> ClusterSnapshot:
    """List every kind once and return the snapshot; nothing is retried.

    A kind that is not required and may not be seen, or is not served, is not among the snapshot's `kinds`.

    Raises
    ------
    ApiError
        A list failed.
    """
    objects: list[ClusterObject] = []
    looked_at: list[str] = []
    warnings: list[str] = []
    for kind in kinds:
        state = KindState()
        try:
            listing = read_list(transport, kind, state)
        except ApiError as error:
            if kind.required or not is_denied(error):
                raise
            continue
        if listing is not None:
            apply_list(state, listing.items, listing.resource_version)
            looked_at.append(kind.kind)
            objects += sorted_objects(state.objects.values())
            warnings += problems(state.unparsable, kind.kind)
    return snapshot_of(objects, kinds=looked_at, warnings=warnings, taken_at=taken_at)


def snapshot_of(
    objects: Sequence[ClusterObject], *, kinds: Iterable[str], warnings: Iterable[str], taken_at: str
) -> ClusterSnapshot:
    """Return a snapshot of objects that are sorted within their kind."""
    return ClusterSnapshot(
        nodes=_only(Node, objects),
        pods=_only(Pod, objects),
        workloads=tuple(sorted(_only(Workload, objects), key=_workload_order)),
        budgets=_only(DisruptionBudget, objects),
        priority_classes=_only(PriorityClass, objects),
        namespaces=_only(Namespace, objects),
        kinds=tuple(sorted(kinds)),
        taken_at=taken_at,
        warnings=tuple(warnings),
    )


def sorted_objects(objects: Iterable[ClusterObject]) -> tuple[ClusterObject, ...]:
    """Return objects of one kind by namespace and name."""
    return tuple(sorted(objects, key=_order))


def _order(obj: ClusterObject) -> tuple[str, str]:
    return ("" if isinstance(obj, Node | PriorityClass | Namespace) else obj.namespace), obj.name


def _workload_order(workload: Workload) -> tuple[str, str, str]:
    return workload.kind, workload.namespace, workload.name


def _only(kind: type[T], objects: Sequence[ClusterObject]) -> tuple[T, ...]:
    return tuple(o for o in objects if isinstance(o, kind))
