"""How much of a cut GPU each MIG profile can still use, what one more instance takes away, and where it does best.

The same ideas as for islands (`islander.policy.fragmentation`), with memory slots in the place of GPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from islander.hardware.mig import Geometry, Placement

# Weights of the terms that stand beside the gradient, and the share of instances that are thought gone in one of them.
# Each was kept because it raises the accepted share in most cells of the table in docs/benchmarks.md.
NEXT_WEIGHT = 2.0
RELEASE_WEIGHT = 0.1
RELEASED_SHARE = 0.1
DECIMALS = 9

Layout = Collection[Placement]


@dataclass(frozen=True, slots=True)
class SliceMix:
    """How often each MIG profile is asked for.

    Attributes
    ----------
    weights
        (profile, weight) sorted by profile; weights are positive and need not add up to anything.
    """

    weights: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        """Refuse weights that are not positive."""
        for profile, weight in self.weights:
            if not weight > 0:
                raise ValueError(f"mix of MIG profiles: {profile} with weight {weight} is not a demand")

    @classmethod
    def of(cls, counts: Mapping[str, float]) -> SliceMix:
        """Return the mix of counted instances; a count of zero is no demand."""
        return cls(tuple(sorted((profile, float(count)) for profile, count in counts.items() if count > 0)))


def room(geometry: Geometry, layout: Layout, profile: str) -> int:
    """Return how many more instances of a profile can be made on a GPU at the same time."""
    placements = list(layout)
    made = 0
    # The starts of one profile never overlap, so taking them in turn is the best that can be done.
    for start in geometry.fits(placements, profile):
        placement = Placement(profile, start)
        if geometry.is_legal([*placements, placement]):
            placements.append(placement)
            made += 1
    return made


def unusable_slots(geometry: Geometry, layout: Layout, mix: SliceMix) -> float:
    """Return the free memory slots of a GPU that an instance of the mix cannot use, averaged over the mix.

    Notes
    -----
    For a profile p: free slots - size(p) x room(p). Profiles are weighted by popularity x size: weighted by popularity
    alone, the rare large ones are starved by the many small ones (docs/benchmarks.md). Profiles that the geometry does
    not have are not counted.

    References
    ----------
    The measure follows Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
    Gradient Descent", USENIX ATC 2023, with memory slots in the place of fractions, and with the slots that a profile
    leaves over counted even where it fits.
    """
    space = slice_space(geometry, mix)
    return space.unusable(space.bits(layout))


def gradient(geometry: Geometry, layout: Layout, placement: Placement, mix: SliceMix) -> float:
    """Return how many more slots become unusable when an instance is made; negative when fewer.

    Raises
    ------
    ValueError
        The instance cannot be made there.
    """
    if not geometry.is_legal([*layout, placement]):
        raise ValueError(f"{placement.profile} cannot be made at {placement.start} beside {sorted(layout)}")
    return unusable_slots(geometry, [*layout, placement], mix) - unusable_slots(geometry, layout, mix)


def best_start(geometry: Geometry, layout: Layout, profile: str, mix: SliceMix) -> int | None:
    """Return the start at which one more instance does least harm on this GPU, None when it does not fit."""
    space = slice_space(geometry, mix)
    options = space.options(space.bits(layout), profile)
    return options[0].placement.start if options else None


class Choice(NamedTuple):
    """Where an instance goes: the GPU's position in the list that was asked about, and the place on it."""

    gpu: int
    placement: Placement


class Option(NamedTuple):
    """One place for one more instance.

    Attributes
    ----------
    growth
        Growth of the unusable slots, now and (weighted) after some instances have left.
    bits
        The layout with the instance.
    """

    growth: float
    placement: Placement
    bits: int


class SliceSpace:
    """The layouts of one geometry under one mix; a layout is a set of bits, one for each place of each profile.

    What was computed of a layout is kept: there are at most some thousands.
    """

    def __init__(self, geometry: Geometry, mix: SliceMix) -> None:
        self.geometry = geometry
        popularity: dict[str, float] = {}
        for name, weight in mix.weights:
            profile = geometry.profile(name)
            if profile is not None:
                popularity[profile.name] = popularity.get(profile.name, 0.0) + weight
        total = sum(popularity.values())
        self._profiles = tuple(p for p in geometry.profiles if p.name in popularity)
        self._popularity = tuple(popularity[p.name] / total for p in self._profiles)
        sizes = sum(popularity[p.name] * p.size for p in self._profiles)
        self._weights = tuple(popularity[p.name] * p.size / sizes for p in self._profiles)
        self._sizes = tuple(float(p.size) for p in self._profiles)
        self._placements = tuple(Placement(p.name, start) for p in geometry.profiles for start in p.starts)
        self._bit = {placement: 1 << index for index, placement in enumerate(self._placements)}
        self._slots = tuple(p.size for p in geometry.profiles for _ in p.starts)
        self._free: dict[int, int] = {}
        self._unusable: dict[int, float] = {}
        self._settled: dict[int, float] = {}
        self._options: dict[tuple[int, str], tuple[Option, ...]] = {}
        self._next: dict[int, tuple[float, ...]] = {}

    def bits(self, layout: Iterable[Placement]) -> int:
        """Return a layout as bits.

        Raises
        ------
        ValueError
            The geometry has no such place.
        """
        bits = 0
        for name, start in layout:
            profile = self.geometry.profile(name)
            bit = self._bit.get(Placement(profile.name, start)) if profile else None
            if bit is None:
                raise ValueError(f"{self.geometry.name} has no {name} at {start}")
            bits |= bit
        return bits

    def layout(self, bits: int) -> tuple[Placement, ...]:
        """Return a layout as placements, by start."""
        found = [placement for index, placement in enumerate(self._placements) if bits >> index & 1]
        return tuple(sorted(found, key=lambda placement: placement.start))

    def free_slots(self, bits: int) -> int:
        """Return the memory slots that no instance holds."""
        known = self._free.get(bits)
        if known is None:
            taken = sum(size for index, size in enumerate(self._slots) if bits >> index & 1)
            known = self._free[bits] = self.geometry.slots - taken
        return known

    def unusable(self, bits: int) -> float:
        """Return what `unusable_slots` says of the layout."""
        known = self._unusable.get(bits)
        if known is None:
            layout, free = self.layout(bits), self.free_slots(bits)
            known = self._unusable[bits] = sum(
                (
                    weight * (free - profile.size * room(self.geometry, layout, profile.name))
                    for profile, weight in zip(self._profiles, self._weights, strict=True)
                ),
                start=0.0,
            )
        return known

    def settled(self, bits: int) -> float:
        """Return the unusable slots that are expected when each instance has left with the chance `RELEASED_SHARE`."""
        known = self._settled.get(bits)
        if known is None:
            chances = {0: 1.0}
            for index in range(len(self._placements)):
                bit = 1 << index
                if bits & bit:
                    gone = {kept: chance * RELEASED_SHARE for kept, chance in chances.items()}
                    stays = {kept | bit: chance * (1.0 - RELEASED_SHARE) for kept, chance in chances.items()}
                    chances = gone | stays
            known = self._settled[bits] = sum(chance * self.unusable(kept) for kept, chance in chances.items())
        return known

    def options(self, bits: int, profile_name: str) -> tuple[Option, ...]:
        """Return the places for one more instance of a profile, those that do least harm first."""
        known = self._options.get((bits, profile_name))
        if known is None:
            layout, profile = self.layout(bits), self.geometry.profile(profile_name)
            found = []
            for start in self.geometry.fits(layout, profile_name) if profile else ():
                placement = Placement(profile.name if profile else "", start)
                after = bits | self._bit[placement]
                growth = self.unusable(after) - self.unusable(bits)
                growth += RELEASE_WEIGHT * (self.settled(after) - self.settled(bits))
                found.append(Option(round(growth, DECIMALS), placement, after))
            known = self._options[bits, profile_name] = tuple(sorted(found))
        return known

    def next_growth(self, bits: int) -> tuple[float, ...]:
        """Return, for each profile of the mix, the least growth of the unusable slots that one more of it costs here.

        Where it does not fit, it costs its own slots.
        """
        known = self._next.get(bits)
        if known is None:
            now = self.unusable(bits)
            costs = []
            for profile, size in zip(self._profiles, self._sizes, strict=True):
                growth = [self.unusable(option.bits) - now for option in self.options(bits, profile.name)]
                costs.append(min(growth, default=size))
            known = self._next[bits] = tuple(costs)
        return known

    def choose(self, gpus: Sequence[int], profile: str) -> Choice | None:
        """Return where one more instance does least harm, None when it fits nowhere.

        Parameters
        ----------
        gpus
            The layout of each GPU as bits; in a fixed order, which decides between equals.

        Notes
        -----
        Least is the growth of the unusable slots (now, and expected after some instances have left), plus what the
        next request of the mix will then cost at least, wherever it goes. Between equals the fullest GPU wins, then
        the first.
        """
        first: dict[int, int] = {}
        several: set[int] = set()
        for gpu, bits in enumerate(gpus):
            if first.setdefault(bits, gpu) != gpu:
                several.add(bits)
        # The two least costs of each profile: the second stands for the fleet without the one GPU that has the first.
        rows = [self.next_growth(bits) for bits in [*first, *several]]
        least = [sorted(column)[:2] for column in zip(*rows, strict=True)]
        best: tuple[float, int, int] | None = None
        chosen: Choice | None = None
        for bits, gpu in first.items():
            options = self.options(bits, profile)
            if not options:
                continue
            others = self._elsewhere(least, self.next_growth(bits))
            free = self.free_slots(bits)
            for option in options:
                costs = zip(self._popularity, others, self.next_growth(option.bits), strict=True)
                next_cost = sum(share * min(elsewhere, here) for share, elsewhere, here in costs)
                key = (round(option.growth + NEXT_WEIGHT * next_cost, DECIMALS), free, gpu)
                if best is None or key < best:
                    best, chosen = key, Choice(gpu, option.placement)
        return chosen

    def _elsewhere(self, least: Sequence[Sequence[float]], own: Sequence[float]) -> list[float]:
        """Return the least cost of each profile on the other GPUs, at most the slots of the profile."""
        costs = []
        for values, here, size in zip(least, own, self._sizes, strict=True):
            without = values[1:] if here == values[0] else values
            costs.append(min(without[0] if without else size, size))
        return costs


@lru_cache(maxsize=64)
def slice_space(geometry: Geometry, mix: SliceMix) -> SliceSpace:
    """Return the space of a geometry and a mix; equal arguments get the same one, with what it has computed."""
    return SliceSpace(geometry, mix)
