"""MIG layouts of small clusters by trying everything: each GPU stays, or gets every layout of the wanted profiles.

It shares the tables of profiles with the planner, and nothing of how plans are found: legality is slots and slices,
what serves is matched unit by unit, islands are cut by trying.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

from islander.hardware.mig import Geometry, Placement, geometry_for

Layout = tuple[str, ...]
"""Names of the instances, sorted."""


@dataclass(frozen=True)
class Gpu:
    """A GPU: `fixed` when it must stay as it is; `released` has (profile, priority) of the pods that would leave it."""

    node: str
    index: int
    product: str
    before: Layout
    free: Layout
    fixed: bool
    whole_idle: bool
    released: tuple[tuple[str, int], ...] = ()
    lies: tuple[Placement, ...] = ()


@dataclass(frozen=True)
class Want:
    """Instances of a profile at a priority."""

    profile: str
    count: int
    priority: int


@dataclass(frozen=True)
class Waits:
    """A pod that waits for whole GPUs, joined when it wants an island."""

    gpus: int
    island: bool
    priority: int


@dataclass(frozen=True)
class Small:
    """All of a small cluster that matters; `links` has the pairs that are joined, by node."""

    gpus: tuple[Gpu, ...]
    links: Mapping[str, frozenset[frozenset[int]]]
    wants: tuple[Want, ...]
    waits: tuple[Waits, ...]


def best(small: Small) -> tuple[float, ...]:
    """Return the best values of all objectives in their order: what the phases of a plan are compared with."""
    needed = _needed(small)
    values = (
        value
        for chosen in product(*(_choices(small, gpu) for gpu in small.gpus))
        if (value := _value(small, chosen, needed)) is not None
    )
    top = max(values)
    # Smaller is better in all but these.
    larger = _larger(small)
    return tuple(float(v if more else -v) for v, more in zip(top, larger, strict=True))


def _tiers(small: Small) -> list[int]:
    return sorted({want.priority for want in small.wants}, reverse=True)


def _drainable(small: Small) -> bool:
    return any(gpu.released and not gpu.fixed for gpu in small.gpus)


def _above(small: Small, priority: int) -> bool:
    return any(p > priority for gpu in small.gpus if not gpu.fixed for _, p in gpu.released)


def _larger(small: Small) -> list[bool]:
    found = []
    tiers = _tiers(small)
    for number in range(len(tiers)):
        found.append(True)
        if number + 1 < len(tiers) and _above(small, tiers[number + 1]):
            found.append(False)
    return [*found, False, *([False] if _drainable(small) else []), False, True, True, False, False]


def _wanted(small: Small) -> Counter[str]:
    wanted: Counter[str] = Counter()
    for want in small.wants:
        wanted[want.profile] += want.count
    for other in small.gpus:
        if not other.fixed:
            wanted.update(profile for profile, _ in other.released)
    return wanted


def _wanted_on(small: Small, label: str) -> list[str]:
    """Return the profiles that are wanted and that a product has."""
    geometry = geometry_for(label)
    assert geometry is not None
    wanted = _wanted(small)
    return [p.name for p in geometry.profiles if wanted[p.name]]


def _choices(small: Small, gpu: Gpu) -> list[Layout | None]:
    """Return what may become of a GPU: None for no change."""
    if gpu.fixed:
        return [None]
    wanted = _wanted(small)
    own = _wanted_on(small, gpu.product)
    found: list[Layout | None] = [None]
    for counts in product(*(range(min(wanted[name], 7) + 1) for name in own)):
        layout = tuple(sorted(name for name, n in zip(own, counts, strict=True) for _ in range(n)))
        if layout and layout != gpu.before and _placeable(gpu.product, layout):
            found.append(layout)
    return found


@cache
def _placeable(label: str, layout: Layout) -> bool:
    geometry = geometry_for(label)
    assert geometry is not None
    profiles = [geometry.profile(name) for name in layout]
    if sum(p.sm_slices for p in profiles if p) > geometry.sm_slices:
        return False
    if any(layout.count(p.name) > p.max_count for p in profiles if p):
        return False
    # One instance of a GPU holds the media engines that there is one set of.
    if sum("+me" in name for name in layout) > 1:
        return False
    for starts in product(*(p.starts for p in profiles if p)):
        slots = [slot for p, start in zip(profiles, starts, strict=True) if p for slot in range(start, start + p.size)]
        if len(slots) == len(set(slots)) and max(slots, default=0) < geometry.slots:
            return True
    return False


def _room(geometry: Geometry, placements: Sequence[Placement]) -> int:
    """Return the memory of the largest plain profile that fits beside instances."""
    plain = [p for p in geometry.profiles if "+" not in p.name and "-" not in p.name]
    return max((p.memory_mib for p in plain if geometry.fits(placements, p.name)), default=0)


def _gives(gpu: Gpu, layout: Layout | None) -> int:
    geometry = geometry_for(gpu.product)
    assert geometry is not None
    if layout is not None:
        # New instances lie where the table would place them.
        return _room(geometry, geometry.layouts_of(Counter(layout)) or ())
    if not gpu.before:
        return 0
    free = [p.memory_mib for name in gpu.free if (p := geometry.profile(name)) is not None]
    return max([_room(geometry, gpu.lies), *free])


def _value(small: Small, chosen: Sequence[Layout | None], needed: Mapping[int, int]) -> tuple[int, ...] | None:
    """Return the objectives of a choice, all so that more is better; None when it is not allowed."""
    pairs = list(zip(small.gpus, chosen, strict=True))
    supply: list[str] = []
    released: list[tuple[str, int]] = []
    for gpu, layout in pairs:
        supply += gpu.free if layout is None else layout
        released += () if layout is None else gpu.released
    idle = {
        node: frozenset(g.index for g, layout in pairs if g.node == node and g.whole_idle and layout is None)
        for node in small.links
    }
    if not _all_still_fit(small, idle, needed):
        return None
    lost = Counter(profile for profile, _ in released)
    have = Counter(supply)
    if lost - have:
        return None
    have -= lost
    value: list[int] = []
    tiers = _tiers(small)
    for number, tier in enumerate(tiers):
        met = 0
        for want in small.wants:
            if want.priority == tier:
                # Each want takes one profile only, so whoever comes first takes from nobody of another profile.
                taken = min(want.count, have[want.profile])
                have[want.profile] -= taken
                met += taken
        value.append(met)
        if number + 1 < len(tiers) and _above(small, tiers[number + 1]):
            value.append(-sum(priority > tiers[number + 1] for _, priority in released))
    before = {n: frozenset(g.index for g in small.gpus if g.node == n and g.whole_idle) for n in small.links}
    value.append(-sum(_joined(small, n, before[n]) - _joined(small, n, idle[n]) for n in small.links))
    if _drainable(small):
        value.append(-len(released))
    changed = [gpu for gpu, layout in pairs if layout is not None]
    value.append(-len(changed))
    value.append(sum(len(gpus) for gpus in idle.values()))
    value.append(sum(_gives(gpu, layout) for gpu, layout in pairs if not gpu.fixed and _wanted_on(small, gpu.product)))
    value.append(-len({gpu.node for gpu in changed}))
    value.append(-sum(len(layout) for layout in chosen if layout is not None))
    return tuple(value)


def _joined(small: Small, node: str, gpus: frozenset[int]) -> int:
    """Return GPUs in disjoint islands of 2, of 4 and of 8, added up; small nodes have none larger than 3."""
    return 2 * _pairs(small.links[node], gpus)


def _pairs(links: frozenset[frozenset[int]], gpus: frozenset[int]) -> int:
    options = [pair for pair in links if pair <= gpus]
    return max((1 + _pairs(links, gpus - pair) for pair in options), default=0)


def _needed(small: Small) -> dict[int, int]:
    """Return the GPUs of waiting pods that fit today, by priority, the higher one first."""
    idle = {n: frozenset(g.index for g in small.gpus if g.node == n and g.whole_idle) for n in small.links}
    tiers = sorted({w.priority for w in small.waits}, reverse=True)
    ways = _placings(small, idle, 0)
    found = max((tuple(way.get(t, 0) for t in tiers) for way in ways), default=())
    return dict(zip(tiers, found, strict=True))


def _all_still_fit(small: Small, idle: Mapping[str, frozenset[int]], needed: Mapping[int, int]) -> bool:
    if not any(needed.values()):
        return True
    return any(all(way.get(t, 0) >= gpus for t, gpus in needed.items()) for way in _placings(small, idle, 0))


def _placings(small: Small, idle: Mapping[str, frozenset[int]], at: int) -> Iterator[dict[int, int]]:
    """Yield GPUs by priority for every way to give waiting pods GPUs."""
    if at == len(small.waits):
        yield {}
        return
    yield from _placings(small, idle, at + 1)
    pod = small.waits[at]
    for node, gpus in idle.items():
        for picked in combinations(sorted(gpus), pod.gpus):
            if pod.island and not all(frozenset(pair) in small.links[node] for pair in combinations(picked, 2)):
                continue
            for way in _placings(small, {**idle, node: gpus - frozenset(picked)}, at + 1):
                yield {**way, pod.priority: way.get(pod.priority, 0) + pod.gpus}
