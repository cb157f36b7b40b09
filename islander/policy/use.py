"""How busy the GPUs of a pod are, by what is measured on the node. Hints: no count and no decision depends on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from islander.cluster.dcgm import GpuHint

# A GPU that no engine used for more than this share of the time is held, but not used.
IDLE_BELOW = 0.05


class UseHint(Struct, frozen=True, rename="camel"):
    """What was measured on the GPUs of one pod.

    Attributes
    ----------
    gpus
        How many of its GPUs, or MIG instances, were measured.
    busy
        Share of the time in which the busiest of them was in use, 0 to 1; None when that was not measured.
    memory_used_mib
        Of all of them together, MiB; None when that was not measured.
    idle
        True when not even the busiest was in use. Whether anybody waits for the pod's answer, only the pod knows.
    """

    pod: str
    gpus: int
    busy: float | None = None
    memory_used_mib: int | None = None
    idle: bool = False


def use_hints(hints: Iterable[GpuHint]) -> tuple[UseHint, ...]:
    """Return the hints pod by pod; a GPU that nobody is known to use gives none."""
    by_pod: defaultdict[str, list[GpuHint]] = defaultdict(list)
    for hint in hints:
        if hint.pod:
            by_pod[hint.pod].append(hint)
    found = []
    for pod, measured in sorted(by_pod.items()):
        busy = max((hint.busy for hint in measured if hint.busy is not None), default=None)
        memory = [hint.memory_used_mib for hint in measured if hint.memory_used_mib is not None]
        idle = busy is not None and busy < IDLE_BELOW
        found.append(UseHint(pod, len(measured), busy, sum(memory) if memory else None, idle))
    return tuple(found)
