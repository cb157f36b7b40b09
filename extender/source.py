"""Where the cluster comes from: the API, or a file."""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from extender.config import ConfigError
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import MalformedSnapshot, decode_snapshot
from islander.kube.gather import snapshot_of, sorted_objects
from islander.kube.parse import GROUPS, ClusterObject, MalformedObject, kind_of, parse_object
from islander.kube.store import ClusterStore, KindStatus

_GZIP = b"\x1f\x8b"


class ClusterSource(Protocol):
    """What requests other than decisions need to know of the cluster."""

    def missing(self) -> Sequence[str]:
        """Return what has not been listed yet; empty when decisions can be made."""

    def snapshot(self) -> ClusterSnapshot:
        """Return the cluster as it is now."""

    def age_seconds(self) -> float:
        """Return for how long nothing was heard of nodes or pods."""

    def kinds(self) -> Sequence[KindStatus]:
        """Return how it stands with each watched kind."""


class LiveCluster:
    """The cluster behind the API.

    Parameters
    ----------
    monotonic_s, rfc3339
        The steady clock of the store, and the time of day as the API writes it.
    """

    def __init__(self, store: ClusterStore, monotonic_s: Callable[[], float], rfc3339: Callable[[], str]) -> None:
        self._store = store
        self._monotonic_s = monotonic_s
        self._rfc3339 = rfc3339

    def missing(self) -> Sequence[str]:
        """Return the kinds that have not been listed yet."""
        return self._store.missing()

    def snapshot(self) -> ClusterSnapshot:
        """Return the cluster as it is now."""
        return self._store.snapshot(self._rfc3339())

    def age_seconds(self) -> float:
        """Return the time since the last news of the kind that has been silent for longest."""
        heard = self._store.last_event_monotonic()
        return 0.0 if heard is None else max(0.0, self._monotonic_s() - heard)

    def kinds(self) -> Sequence[KindStatus]:
        """Return how it stands with each watched kind."""
        return self._store.status()


class FileCluster:
    """A cluster that does not change."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot

    def missing(self) -> Sequence[str]:
        """Return nothing: a file is complete."""
        return ()

    def snapshot(self) -> ClusterSnapshot:
        """Return the cluster of the file."""
        return self._snapshot

    def age_seconds(self) -> float:
        """Return 0: nothing newer will come."""
        return 0.0

    def kinds(self) -> Sequence[KindStatus]:
        """Return nothing: no kind is watched."""
        return ()


def read_snapshot(path: Path) -> ClusterSnapshot:
    """Return the snapshot in a file: an Islander snapshot, or what `kubectl get -o json` prints; either may be gzipped.

    Raises
    ------
    ConfigError
        The file cannot be read, or is neither.
    """
    where = f"snapshotFile: {path}"
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise ConfigError(f"{where}: cannot be read: {reason}") from e
    try:
        group, kind = kind_of(data)
        return _from_list(data, group, kind) if kind.endswith("List") else decode_snapshot(data)
    except (MalformedObject, MalformedSnapshot, msgspec.ValidationError) as e:
        raise ConfigError(f"{where}: neither a ClusterSnapshot nor a List of `kubectl get -o json`: {e}") from e


def _from_list(data: bytes, list_group: str, list_kind: str) -> ClusterSnapshot:
    """Return the snapshot of a kubectl List; objects that cannot be used are left out with a warning.

    The items of a typed list, such as a NodeList, do not say their kind.
    """
    objects: defaultdict[str, list[ClusterObject]] = defaultdict(list)
    warnings = []
    for raw in msgspec.json.decode(data, type=_List).items:
        group, kind = kind_of(raw)
        if not kind:
            group, kind = list_group, list_kind.removesuffix("List")
        if GROUPS.get(kind) != group:
            continue
        there = objects[kind]
        try:
            there.append(parse_object(raw, kind))
        except MalformedObject as e:
            warnings.append(f"{e}; it is left out")
    by_kind = {kind: sorted_objects(found) for kind, found in objects.items()}
    return snapshot_of(by_kind, kinds=by_kind, warnings=warnings, taken_at="")


class _List(msgspec.Struct):
    items: list[msgspec.Raw]
