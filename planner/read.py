"""Reads the cluster from its source; past this door every verb works on a snapshot."""

from __future__ import annotations

from islander.cluster.snapshot import ClusterSnapshot
from planner.errors import PlannerError
from planner.source import Source


def read_cluster(source: Source) -> ClusterSnapshot:
    """Return the snapshot that a source names; the API is only read.

    Raises
    ------
    PlannerError
        A file, the extender or the API cannot be read, or two of them are named.
    """
    if source.files and source.extender is not None:
        raise PlannerError("--snapshot and --extender name two clusters; give one of them")
    if source.files:
        from planner.load import load_files

        return load_files(source.files)
    if source.extender is not None:
        from planner.extender_snapshot import snapshot_of_extender

        return snapshot_of_extender(source.extender, source.extender_ca)
    from planner.live_cluster import snapshot_of_api

    return snapshot_of_api(source)
