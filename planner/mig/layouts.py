"""What a GPU can be cut into: the sets of instances that fit, and the largest one that still fits beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from islander.hardware.mig import Geometry, Placement

Counts = tuple[tuple[str, int], ...]
"""(profile, instances) by name, without zeros: a layout as mig-parted writes it."""


def counts_of(counts: Mapping[str, int]) -> Counts:
    """Return counts in their one order."""
    return tuple(sorted((profile, count) for profile, count in counts.items() if count))


@lru_cache(maxsize=4096)
def placed(geometry: Geometry, counts: Counts) -> tuple[Placement, ...] | None:
    """Return where the instances would lie; None when they do not fit on one GPU."""
    return geometry.layouts_of(dict(counts))


def needs_reset(geometry: Geometry, before: Collection[object], after: Collection[object]) -> bool:
    """Return whether a GPU with instances before and after is switched to or from MIG, and that takes a reset of it."""
    return geometry.reset and bool(before) != bool(after)


@lru_cache(maxsize=1024)
def layouts_within(geometry: Geometry, most: Counts) -> tuple[Counts, ...]:
    """Return every set of instances that fits on one GPU, of these profiles and at most so many; without the empty one.

    Each is of use: whoever cuts a GPU cuts it for somebody.
    """
    found: list[Counts] = []
    _extend(geometry, most, (), found)
    ordered = (tuple(sorted(counts)) for counts in found if counts)
    return tuple(sorted(ordered, key=lambda c: (sum(n for _, n in c), c)))


def _extend(geometry: Geometry, most: Counts, counts: Counts, found: list[Counts]) -> None:
    if not most:
        found.append(counts)
        return
    (profile, limit), *rest = most
    for count in range(limit + 1):
        more = (*counts, (profile, count)) if count else counts
        # What does not fit does not fit with more beside it either.
        if placed(geometry, more) is None:
            break
        _extend(geometry, tuple(rest), more, found)


@lru_cache(maxsize=8192)
def room_mib(geometry: Geometry, layout: tuple[Placement, ...]) -> int:
    """Return the memory of the largest plain instance that still fits beside a layout, MiB; 0 when none does."""
    plain = (p for p in geometry.profiles if not p.media.value)
    return max((p.memory_mib for p in plain if geometry.fits(layout, p.name)), default=0)


def whole_layout(geometry: Geometry, profile: str) -> Counts:
    """Return as many instances of one profile as fit on one GPU: what strategy `single` cuts every GPU into."""
    found = geometry.profile(profile)
    if found is None:
        return ()
    return next((c for n in range(found.max_count, 0, -1) if placed(geometry, c := ((found.name, n),)) is not None), ())
