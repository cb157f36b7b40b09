"""Whether more free GPUs are never worse than fewer, whatever the device plugin makes of its choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from islander.cluster.pod import ContainerKind
from islander.hardware.links import gpus_of
from islander.policy.assess import assess
from islander.policy.kubelet import kubelet_picks
from islander.policy.need import PodNeed
from islander.policy.occupancy import GpuState
from islander.policy.settings import DEFAULT_MIX
from planner.models.symmetry import MAX_GPUS, Symmetries


def bare(state: GpuState) -> GpuState:
    """Return the node without anything that changes as pods come and go."""
    return replace(state, used=0, free_sets=(), gpu_pods=0)


@lru_cache(maxsize=256)
def kinder_with_more(model: GpuState, kinds: frozenset[PodNeed], symmetries: Symmetries) -> bool:
    """Return whether a node with more free GPUs takes all that it takes with fewer, now and after whatever comes.

    Only then nobody has to come before others have left. Odd links can make the device plugin hand out a worse set
    because it has more to choose from.
    """
    if model.hardware.gpus > MAX_GPUS:
        return False
    compared = _Compared(model, sorted(kinds, key=repr), symmetries)
    sets = range(1 << model.hardware.gpus)
    return all(compared.is_no_better(more ^ 1 << gpu, more) for more in sets for gpu in gpus_of(more))


class _Compared:
    """Compares sets of free GPUs by what can come, and come after that, whatever kubelet picks from the better one."""

    def __init__(self, model: GpuState, kinds: Sequence[PodNeed], symmetries: Symmetries) -> None:
        self._model, self._kinds, self._symmetries = model, kinds, symmetries
        self._known: dict[tuple[bytes, bytes], bool] = {}
        self._after: dict[int, list[set[int] | None]] = {}

    def is_no_better(self, less: int, more: int) -> bool:
        """Return whether everything that can come to `less` can come to `more`, too."""
        key = self._symmetries.sets_like((less,)), self._symmetries.sets_like((more,))
        if key not in self._known:
            self._known[key] = key[0] == key[1] or all(
                before is None or (then is not None and all(any(self.is_no_better(a, b) for a in before) for b in then))
                for before, then in zip(self._rests(less), self._rests(more), strict=True)
            )
        return self._known[key]

    def _rests(self, free: int) -> list[set[int] | None]:
        """Return by kind what may be free afterwards; None where the kind is refused."""
        if free not in self._after:
            self._after[free] = [
                _rests(self._model, need, free) if _accepts(self._model, need, free) else None for need in self._kinds
            ]
        return self._after[free]


def _accepts(model: GpuState, need: PodNeed, free: int) -> bool:
    state = replace(model, used=model.allocatable - free.bit_count(), free_sets=(free,))
    return assess(state, need, DEFAULT_MIX).accepted


def _rests(model: GpuState, need: PodNeed, free: int) -> set[int]:
    """Return what may still be free when a pod has picked."""
    rests = {free}
    for container in need.containers:
        if container.kind is not ContainerKind.INIT:
            rests = {
                rest & ~pick
                for rest in rests
                for pick in kubelet_picks(model.hardware, model.topology_manager_policy, rest, container.gpus).sets
            }
    return rests
