"""What a node reports of its GPUs: the annotation `islander.dev/gpus`."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Struct

from islander.cluster.node import GpuReport, MigDevice, ReportedGpu

VERSION = 1
TOPOLOGY_MANAGER_POLICIES = frozenset({"none", "best-effort", "restricted", "single-numa-node"})

# Far above any machine there is, and far below what could slow a filter call down.
MOST_GPUS = 128
LONGEST_TEXT = 2**20
LONGEST_CELL = 32

_Number = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _Mig(Struct):
    profile: str
    start: _Number | None = 0
    pod: str | None = None


class _Gpu(Struct, rename="camel"):
    index: _Number
    uuid: str | None = None
    numa: _Number | None = None
    healthy: bool | None = None
    pod: str | None = None
    product: str | None = None
    memory_mib: _Number | None = None
    mig: list[_Mig] | None = None


class _Version(Struct):
    v: int


class _Report(Struct, rename="camel"):
    gpus: list[_Gpu] | None = None
    links: list[list[str]] | None = None
    plugin_links: list[list[str]] | None = None
    topology_manager_policy: str | None = None


class _Broken(Exception):
    """The report contradicts itself; the message says how."""


def parse_gpu_report(text: str) -> tuple[GpuReport | None, tuple[str, ...]]:
    """Return the report and warnings; a report that is broken anywhere counts as absent.

    Each warning is the end of a sentence that begins with the annotation's name.

    A wrong report must never cost a filter call, nor may half of one be believed: whoever cannot write the table of
    links right may also be wrong about which GPUs are free.
    """
    if len(text) > LONGEST_TEXT:
        return None, (f"it is longer than {LONGEST_TEXT} characters, and is ignored",)
    try:
        version = msgspec.json.decode(text, type=_Version).v
        if version != VERSION:
            return None, (f"it has version {version}, this release reads version {VERSION}; it is ignored",)
        report, warnings = _checked(msgspec.json.decode(text, type=_Report))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError, _Broken) as error:
        return None, (f"it is ignored: {error}",)
    return report, warnings


def _checked(wire: _Report) -> tuple[GpuReport, tuple[str, ...]]:
    gpus = tuple(sorted((_gpu(gpu) for gpu in wire.gpus or ()), key=lambda gpu: gpu.index))
    if len(gpus) > MOST_GPUS:
        raise _Broken(f"more than {MOST_GPUS} GPUs are listed")
    for left, right in pairwise(gpus):
        if left.index == right.index:
            raise _Broken(f"index {left.index} is listed twice")
    links = _table("links", wire.links, gpus)
    plugin_links = _table("pluginLinks", wire.plugin_links, gpus)
    if links and plugin_links and len(links) != len(plugin_links):
        raise _Broken("'links' and 'pluginLinks' have different numbers of rows")
    policy = wire.topology_manager_policy or ""
    if policy and policy not in TOPOLOGY_MANAGER_POLICIES:
        return GpuReport(gpus, links, plugin_links), ("its topologyManagerPolicy is not one that kubelet knows",)
    return GpuReport(gpus, links, plugin_links, policy), ()


def _gpu(wire: _Gpu) -> ReportedGpu:
    if not 0 <= wire.index < MOST_GPUS:
        raise _Broken(f"index {wire.index} is not between 0 and {MOST_GPUS - 1}")
    return ReportedGpu(
        index=wire.index,
        uuid=wire.uuid or "",
        # NVML and sysfs say -1 where a machine has no NUMA nodes.
        numa=None if wire.numa is None or wire.numa < 0 else wire.numa,
        healthy=wire.healthy is not False,
        pod=_pod_key(wire.pod),
        product=wire.product or "",
        memory_mib=max(0, wire.memory_mib or 0),
        mig=tuple(_mig(device) for device in wire.mig or ()),
    )


def _mig(wire: _Mig) -> MigDevice:
    if (wire.start or 0) < 0:
        raise _Broken(f"MIG device {wire.profile!r:.40} starts at {wire.start}")
    return MigDevice(wire.profile, wire.start or 0, _pod_key(wire.pod))


def _pod_key(pod: str | None) -> str | None:
    if not pod:
        return None
    namespace, slash, name = pod.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise _Broken(f"pod {pod!r:.80} is not written namespace/name")
    return pod


def _table(key: str, rows: list[list[str]] | None, gpus: tuple[ReportedGpu, ...]) -> tuple[tuple[str, ...], ...]:
    size = len(rows or ())
    if not rows:
        return ()
    if size > MOST_GPUS or any(len(row) != size for row in rows):
        raise _Broken(f"{key!r} is not a square table of at most {MOST_GPUS} rows")
    if gpus and gpus[-1].index >= size:
        raise _Broken(f"{key!r} has {size} rows, but GPU {gpus[-1].index} is listed")
    if any(len(cell) > LONGEST_CELL for row in rows for cell in row):
        raise _Broken(f"{key!r} has a cell longer than {LONGEST_CELL} characters")
    return _one_object(tuple(tuple(row) for row in rows))


@lru_cache(maxsize=1024)
def _one_object(table: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    # Nodes of one kind report equal tables; keeping one of them saves a few kilobytes a node.
    return table
