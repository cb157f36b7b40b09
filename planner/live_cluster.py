"""The snapshot of a cluster that the current kubeconfig leads to; its API is only read."""

from __future__ import annotations

from datetime import UTC, datetime

from islander.cluster.snapshot import ClusterSnapshot
from islander.kube import gather
from islander.kube.client import KubeClient, connect
from islander.kube.errors import ApiError
from planner.errors import PlannerError
from planner.source import Source


def snapshot_of_api(source: Source) -> ClusterSnapshot:
    """Return the snapshot of the cluster that a source leads to.

    Raises
    ------
    PlannerError
        The kubeconfig cannot be used, or the API cannot be read.
    """
    taken_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    try:
        with _connect(source) as client:
            return gather.read_cluster(client, taken_at=taken_at)
    except ApiError as problem:
        raise PlannerError(f"{str(problem).rstrip('.')}; name a --kubeconfig, or a file with --snapshot") from problem


def _connect(source: Source) -> KubeClient:
    return connect(
        kubeconfig=source.kubeconfig, context=source.context, impersonate=source.impersonate, program="islander"
    )
