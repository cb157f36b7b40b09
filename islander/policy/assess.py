"""Judge one node for one need: the verdict, its reason, and the parts of its score."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from islander.cluster import names
from islander.cluster.mig_devices import INVALID, MigChange
from islander.hardware.islands import (
    ALONE,
    QUALITY_PER_NVLINK,
    LinkQuality,
    is_island,
    islands_of_size,
    link_name,
    numa_nodes,
    worst_link,
)
from islander.hardware.links import Hardware, gpus_of, mask_of
from islander.policy.fragmentation import gradient
from islander.policy.need import ContainerNeed, PodNeed
from islander.policy.occupancy import GpuState, Source
from islander.policy.outcome import possible_outcomes
from islander.policy.reasons import Code
from islander.policy.settings import DemandMix, Topology

# An explanation lists so many picks; more say nothing to a reader.
MAX_LISTED_PICKS = 64
# More outcomes than this (several containers on a node of 16) are not followed; the node then counts as unknown.
MAX_OUTCOMES = 4096
# On a larger node whose free GPUs are not known there are too many sets to follow within a scheduling call.
MAX_GPUS_FOLLOWED = 8
ROUNDING = 1e-9
UNKNOWN_LINK = LinkQuality(0)
# Islands of this many NVLinks and more are one class: a replica of two that is served well by a bridged pair (NV4 to
# NV12) must not break an NVSwitch island (NV18) for the bandwidth that it can hardly use.
BROAD_LINK = LinkQuality(4 * QUALITY_PER_NVLINK)


class Verdict(StrEnum):
    """Whether the GPUs that kubelet picks will be what the pod wants."""

    GUARANTEED = "guaranteed"
    POSSIBLE = "possible"
    IMPOSSIBLE = "impossible"


class ScoreParts(NamedTuple):
    """What nodes are compared by, in order of importance; larger is better in every part.

    Attributes
    ----------
    link
        Worst link of the worst possible pick, at most `BROAD_LINK`; 0 when links do not matter to the pod.
    numa_nodes
        Minus the NUMA nodes that a group without NVLink lies on (mean over the possible picks); -1 where NVLink joins
        it or none is known.
    island_likelihood
        Share of the possible picks that are islands, 0 to 1; 1 when links do not matter.
    room_kept
        Minus the GPUs that become unusable to the demand mix (mean over the possible picks), in GPUs.
    packing
        GPU pods on the node: a node with more pods takes longer to become empty again.
    tightness
        Minus the free GPUs that stay: best fit.
    right_size
        Minus the memory of a GPU in MiB: small models leave the large GPUs to those that need them.
    """

    link: int = 0
    numa_nodes: float = -1.0
    island_likelihood: float = 1.0
    room_kept: float = 0.0
    packing: int = 0
    tightness: int = 0
    right_size: int = 0


NO_PARTS = ScoreParts()


@dataclass(frozen=True, slots=True)
class Assessment:
    """The judgement of one node for one need.

    Attributes
    ----------
    code
        Why the verdict is not `guaranteed`; None when it is, or when only kube-scheduler knows.
    accepted
        False when the node must be refused; a preferred topology that fails is no ground for refusal.
    parts
        None when there is nothing to compare the node by.
    picks
        The sets of GPU indexes that kubelet may hand out to the whole pod, sorted, at most `MAX_LISTED_PICKS`.
    complete
        False when `picks` is cut, or nothing is known of them.
    worst_link, best_link
        In the words of `nvidia-smi topo -m`; empty when not known, or for a single GPU.
    """

    verdict: Verdict
    code: Code | None
    accepted: bool
    parts: ScoreParts | None = NO_PARTS
    picks: tuple[tuple[int, ...], ...] = ()
    complete: bool = False
    worst_link: str = ""
    best_link: str = ""
    source: Source = Source.UNKNOWN


def assess(state: GpuState, need: PodNeed, mix: DemandMix) -> Assessment:
    """Judge a node for a need.

    Counts are judged first, as kube-scheduler does; then what the node is; then the links of every possible pick.
    """
    if (code := _refusal_by_mig(state)) is not None:
        return Assessment(Verdict.IMPOSSIBLE, code, accepted=False)
    if state.dra:
        return _assess_unseen(need)
    code = _refusal_by_count(state, need) or _refusal_by_kind(state, need)
    if code is not None:
        return Assessment(Verdict.IMPOSSIBLE, code, accepted=False, source=state.source)
    outlook = _outlook(state.hardware, state.topology_manager_policy, state.free_sets, need.containers, mix)
    if not outlook.known:
        outlook = _outlook_of_unlisted(state, need, mix)
    if outlook.refused_by_kubelet:
        return Assessment(Verdict.IMPOSSIBLE, Code.NUMA_SPLIT, accepted=False, source=state.source)
    verdict, code = _verdict(state, need, outlook)
    return Assessment(
        verdict=verdict,
        code=code,
        accepted=verdict is Verdict.GUARANTEED or need.topology is not Topology.REQUIRED,
        parts=ScoreParts(
            link=min(outlook.worst, BROAD_LINK) if need.wants_island else 0,
            numa_nodes=-outlook.numa_nodes if need.wants_island else -1.0,
            island_likelihood=outlook.island_share if need.wants_island or _is_split(state, need) else 1.0,
            room_kept=-outlook.loss,
            packing=state.gpu_pods,
            tightness=need.gpus - state.free,
            right_size=-state.memory_mib,
        ),
        picks=outlook.picks,
        complete=outlook.complete,
        worst_link=_link_word(state, outlook.worst),
        best_link=_link_word(state, outlook.best),
        source=state.source,
    )


def _assess_unseen(need: PodNeed) -> Assessment:
    """Judge a node whose GPUs dynamic resource allocation hands out: we neither count nor see picks."""
    code = Code.ISLAND_NOT_GUARANTEED if need.wants_island else None
    accepted = code is None or need.topology is not Topology.REQUIRED
    return Assessment(Verdict.POSSIBLE, code, accepted, parts=None)


def _link_word(state: GpuState, quality: LinkQuality) -> str:
    if not state.hardware.topology_known or not 0 < quality < ALONE:
        return ""
    return link_name(quality, "XGMI" if state.resource == names.AMD_GPU else "NV")


def _refusal_by_mig(state: GpuState) -> Code | None:
    """Judge what no count tells: the device plugin takes its devices back when the change begins, not when asked."""
    if state.mig_change is MigChange.CHANGING:
        return Code.MIG_CHANGING
    if state.mig_change is MigChange.FAILED:
        return Code.MIG_FAILED
    return Code.MIG_INVALID if state.mig == INVALID else None


def _is_split(state: GpuState, need: PodNeed) -> bool:
    """Return whether an engine would be split over devices that cannot reach each other, or may be the same one."""
    return need.island > 1 and not state.whole


def _refusal_by_count(state: GpuState, need: PodNeed) -> Code | None:
    if need.asks_mig:
        return Code.MIG_NOT_PLACEABLE if need.gpus > state.free else None
    if need.gpus > state.capacity:
        return Code.NOT_ENOUGH_FREE_GPUS if state.gpu_node and not state.offered else Code.NODE_TOO_SMALL
    return Code.NOT_ENOUGH_FREE_GPUS if need.gpus > state.free else None


def _refusal_by_kind(state: GpuState, need: PodNeed) -> Code | None:
    if need.products is not None and state.product and state.product not in need.products:
        return Code.WRONG_PRODUCT
    if need.memory_mib and state.memory_mib and state.memory_mib < need.memory_mib:
        return Code.GPU_MEMORY_TOO_SMALL
    if need.wants_island and not state.whole and not need.asks_mig:
        # Who asks for MIG devices by name is warned and has them; nobody gets them for whole GPUs.
        return Code.SHARED_GPUS if state.shared else Code.MIG_NO_PEER
    return None


def _verdict(state: GpuState, need: PodNeed, outlook: _Outlook) -> tuple[Verdict, Code | None]:
    if not need.wants_island or outlook.island_share >= 1.0:
        return Verdict.GUARANTEED, None
    if state.mig:
        return Verdict.IMPOSSIBLE, Code.MIG_NO_PEER
    if not state.hardware.topology_known:
        # It may well join them; nothing says so.
        return Verdict.POSSIBLE, Code.ISLAND_NOT_GUARANTEED
    links = state.hardware.links
    if not any(islands_of_size(links, state.hardware.all_gpus, c.island) for c in need.containers if c.island > 1):
        return Verdict.IMPOSSIBLE, Code.NO_SUCH_ISLAND
    if outlook.island_share > 0.0 or not outlook.known:
        return Verdict.POSSIBLE, Code.ISLAND_NOT_GUARANTEED
    if any(_could_cut(state.hardware, free, need.containers) for free in state.free_sets):
        # A free island exists, yet the plugin never picks it.
        return Verdict.IMPOSSIBLE, Code.ISLAND_NOT_GUARANTEED
    return Verdict.IMPOSSIBLE, Code.NO_FREE_ISLAND


def _could_cut(hardware: Hardware, free: int, containers: tuple[ContainerNeed, ...]) -> bool:
    return all(islands_of_size(hardware.links, free, c.island) for c in containers if c.island > 1)


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What the possible picks amount to; means are over free sets, then over picks.

    Not `known`: nothing tells which GPUs are free, there is too much to follow, or the device plugin fails every time.
    """

    worst: LinkQuality = UNKNOWN_LINK
    best: LinkQuality = UNKNOWN_LINK
    numa_nodes: float = 1.0
    island_share: float = 0.0
    loss: float = 0.0
    picks: tuple[tuple[int, ...], ...] = ()
    complete: bool = False
    refused_by_kubelet: bool = False
    known: bool = True


UNKNOWN_OUTLOOK = _Outlook(known=False)


@lru_cache(maxsize=1 << 14)
def _outlook(
    hardware: Hardware, policy: str, free_sets: tuple[int, ...], containers: tuple[ContainerNeed, ...], mix: DemandMix
) -> _Outlook:
    """Follow every possible pick out of every set that may be free."""
    if len(free_sets) > 1 and hardware.gpus > MAX_GPUS_FOLLOWED:
        return UNKNOWN_OUTLOOK
    worst, best = ALONE, UNKNOWN_LINK
    island_share = loss = numa_span = picked_share = 0.0
    taken_sets: set[int] = set()
    exact, followed, failed = True, 0, False
    for free in free_sets:
        outcomes = list(islice(possible_outcomes(hardware, policy, free, containers), MAX_OUTCOMES + 1 - followed))
        followed += len(outcomes)
        if followed > MAX_OUTCOMES:
            return UNKNOWN_OUTLOOK
        for outcome in outcomes:
            exact &= outcome.exact
            failed |= outcome.fails
            if outcome.fails:
                continue
            share = 1.0 / (len(free_sets) * len(outcomes))
            quality, linked, span = _links_of(hardware, containers, outcome.picks)
            worst, best = min(worst, quality), max(best, quality)
            numa_span += share * span
            picked_share += share
            taken_sets.add(outcome.taken)
            island_share += share * linked
            loss += share * gradient(hardware.links, free, outcome.taken, mix)
    if not taken_sets:
        return UNKNOWN_OUTLOOK if failed or not free_sets else _Outlook(refused_by_kubelet=True)
    listed = sorted(tuple(gpus_of(taken)) for taken in taken_sets)
    return _Outlook(
        worst=worst,
        best=best,
        numa_nodes=round(numa_span / picked_share, 9),
        island_share=1.0 if island_share > 1.0 - ROUNDING else island_share,
        loss=round(loss, 9),
        picks=tuple(listed[:MAX_LISTED_PICKS]),
        complete=exact and len(listed) <= MAX_LISTED_PICKS,
    )


def _outlook_of_unlisted(state: GpuState, need: PodNeed, mix: DemandMix) -> _Outlook:
    """Judge without knowing which GPUs are free: only where every set of the hardware is like every other."""
    links, all_gpus = state.hardware.links, state.hardware.all_gpus
    if not state.whole or not is_island(links, all_gpus):
        return UNKNOWN_OUTLOOK
    quality = worst_link(links, all_gpus)
    free, taken = (1 << state.free) - 1, (1 << need.gpus) - 1
    return _Outlook(quality, quality, island_share=1.0, loss=round(gradient(links, free, taken, mix), 9))


def _links_of(
    hardware: Hardware, containers: tuple[ContainerNeed, ...], picks: tuple[int, ...]
) -> tuple[LinkQuality, bool, int]:
    """Return the worst link inside the tensor parallel groups, whether every group is an island, and their NUMA nodes.

    The NUMA nodes are the most that a group without NVLink lies on, 1 where that does not matter or is not known.

    Ranks take the visible GPUs in ascending order, tensor parallel ranks innermost, so each run of `island`
    neighbours is one group (vLLM, vllm/distributed/parallel_state.py).
    """
    quality, linked, span = ALONE, True, 1
    for container, pick in zip(containers, picks, strict=True):
        if container.island == 1:
            continue
        gpus = tuple(gpus_of(pick))
        for first in range(0, len(gpus), container.island):
            group = mask_of(gpus[first : first + container.island])
            quality = min(quality, worst_link(hardware.links, group))
            if not is_island(hardware.links, group):
                linked, span = False, max(span, numa_nodes(hardware.numa, group) or 1)
    return quality, linked, span
