"""How many replicas of a shape still fit on a node: what can be cut, and what kubelet's picks are sure to leave."""

from __future__ import annotations

from functools import lru_cache

from islander.hardware.islands import disjoint_islands, is_island, largest_island
from islander.hardware.links import Hardware
from islander.policy.kubelet import kubelet_picks
from islander.policy.occupancy import GpuState
from islander.policy.settings import Shape


def islands_free(state: GpuState, size: int) -> int:
    """Return how many free islands of `size` can be cut at the same time, whichever GPUs are the free ones."""
    if not state.whole or not state.free:
        return 0
    if size == 1:
        return state.free
    if not state.free_sets:
        uniform = is_island(state.hardware.links, state.hardware.all_gpus)
        return state.free // size if uniform else 0
    return min(disjoint_islands(state.hardware.links, free, size) for free in state.free_sets)


def largest_free_island(state: GpuState) -> int:
    """Return the size of the largest island that is sure to be free; 1 when single GPUs are, 0 when none is."""
    if not state.whole or not state.free:
        return 0
    if not state.free_sets:
        return state.free if is_island(state.hardware.links, state.hardware.all_gpus) else 1
    return min(largest_island(state.hardware.links, free) for free in state.free_sets)


def replicas_guaranteed(state: GpuState, shape: Shape) -> int:
    """Return how many replicas of a shape are sure to fit one after the other, whatever kubelet picks each time."""
    if not shape.island or shape.gpus == 1:
        return state.free // shape.gpus
    if not state.whole:
        return 0
    if not state.free_sets:
        return islands_free(state, shape.gpus)
    policy = state.topology_manager_policy
    return min(_guaranteed(state.hardware, policy, free, shape.gpus) for free in state.free_sets)


@lru_cache(maxsize=1 << 16)
def _guaranteed(hardware: Hardware, policy: str, free: int, size: int) -> int:
    links = hardware.links
    most = disjoint_islands(links, free, size)
    if not most or is_island(links, free):
        return most
    picks = kubelet_picks(hardware, policy, free, size)
    if picks.may_fail or not picks.sets or not all(is_island(links, pick) for pick in picks.sets):
        return 0
    return 1 + min(_guaranteed(hardware, policy, free & ~pick, size) for pick in picks.sets)
