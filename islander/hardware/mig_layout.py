"""MIG: how instances are named, and which of them fit on one GPU together.

A GPU's memory is divided into slots. An instance takes a run of them that begins at one of few starts, and a number of
SM slices. Names count memory in rounded gigabytes, so the same shape has another name on every product.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from islander.hardware.products import PRODUCT_BY_NAME

RESOURCE_PREFIX = "nvidia.com/mig-"

# Names shift with the memory that firmware reserves (3g.39gb for 3g.40gb: NVIDIA/mig-parted issue 31; three names for
# a GB200: issue 227), by at most this much.
NAME_TOLERANCE_PERCENT = 3


class Placement(NamedTuple):
    """One instance on a GPU; `start` is its first memory slot."""

    profile: str
    start: int


class Media(StrEnum):
    """Which of the GPU's media engines an instance owns.

    Attributes
    ----------
    SHARE
        Decoders in proportion, as far as the product has them; none of the engines that exist once.
    SET
        The engines that exist once as well (`+me`): one holder per GPU.
    ALL
        Every engine of the GPU (`+me.all`): others on the GPU must do without.
    NONE
        None at all (`-me`).
    GRAPHICS
        As `SHARE`, with graphics (`+gfx`).
    """

    SHARE = ""
    SET = "+me"
    ALL = "+me.all"
    NONE = "-me"
    GRAPHICS = "+gfx"


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of instance of one product.

    Attributes
    ----------
    name
        As the driver and mig-parted write it: `1g.10gb`, `1g.10gb+me`.
    size
        Memory slots.
    sm_slices
        Slices of streaming multiprocessors, of the GPU's `Geometry.sm_slices`.
    starts
        Slots at which it may begin, ascending.
    max_count
        How many of it the driver makes on one GPU.
    memory_mib
        What the instance really has, in MiB: the least that a driver was seen to report.
    memory_derived
        True when no driver's figure is known, and `memory_mib` is a cautious share of the GPU's memory.
    min_driver
        Major version of the driver that brought the profile; 0 for the geometry's own.
    """

    name: str
    size: int
    sm_slices: int
    starts: tuple[int, ...]
    max_count: int
    memory_mib: int
    media: Media = Media.SHARE
    memory_derived: bool = False
    min_driver: int = 0

    def mask(self, start: int) -> int:
        """Return the slots of the profile at a start, as a bit mask."""
        return ((1 << self.size) - 1) << start

    @property
    def resource(self) -> str:
        """The extended resource under which the device plugin's strategy `mixed` offers it."""
        return resource_name(self.name)


@dataclass(frozen=True, slots=True)
class Geometry:
    """What one product can be cut into.

    Attributes
    ----------
    name
        Short name, unique: `a100-80gb`.
    products
        Names of `islander.hardware.products` that it serves; `labels` are their labels.
    slots, sm_slices
        Of the whole GPU.
    profiles
        Largest first; those of one shape side by side, the plain one first.
    device_ids
        Device and vendor number, as mig-parted's `device-filter` takes them: `0x233010DE`.
    min_driver
        Major version of the first driver that cuts the product.
    reset
        True when switching MIG on or off needs a reset of the GPU, and in some virtual machines a reboot.
    """

    name: str
    products: tuple[str, ...]
    slots: int
    sm_slices: int
    profiles: tuple[Profile, ...]
    device_ids: tuple[str, ...]
    min_driver: int
    reset: bool = False

    def __hash__(self) -> int:
        """Return the hash of the name, which is unique: look-ups by geometry are many."""
        return hash(self.name)

    @property
    def labels(self) -> tuple[str, ...]:
        """Values of `nvidia.com/gpu.product` that it serves."""
        return tuple(label for name in self.products for label in PRODUCT_BY_NAME[name].labels)

    def profile(self, name: str) -> Profile | None:
        """Return the profile of that name, in any spelling, None when the product has none.

        A name whose memory is off by a gigabyte or three percent means the one profile of that shape.
        """
        return _profile_of(self, name)

    def is_legal(self, layout: Collection[Placement]) -> bool:
        """Return whether the driver can hold these instances on one GPU at the same time.

        Starts must be the profiles' own, slots disjoint, SM slices within the GPU, no profile more often than its
        maximum; one instance at most holds the engines that exist once, and beside `+me.all` all others must be `-me`.
        """
        taken = sm_slices = 0
        counts: Counter[str] = Counter()
        media: list[Media] = []
        for name, start in layout:
            profile = self.profile(name)
            if profile is None or start not in profile.starts or taken & profile.mask(start):
                return False
            taken |= profile.mask(start)
            sm_slices += profile.sm_slices
            counts[profile.name] += 1
            if counts[profile.name] > profile.max_count:
                return False
            media.append(profile.media)
        return sm_slices <= self.sm_slices and _share_engines(media)

    def fits(self, layout: Collection[Placement], profile_name: str) -> tuple[int, ...]:
        """Return the starts at which one more instance of the profile can be made, ascending."""
        profile = self.profile(profile_name)
        if profile is None:
            return ()
        return tuple(start for start in profile.starts if self.is_legal([*layout, Placement(profile.name, start)]))

    def layouts_of(self, counts: Mapping[str, int], kept: tuple[Placement, ...] = ()) -> tuple[Placement, ...] | None:
        """Return a legal layout that holds exactly these instances, None when there is none.

        Parameters
        ----------
        counts
            Instances of each profile after the change, the kept ones among them.
        kept
            Instances that stay where they are.

        Returns
        -------
        Placements by start. Of several layouts the one that puts large instances first, and each of them where it
        takes the fewest places from others.
        """
        wanted: Counter[str] = Counter()
        for name, count in counts.items():
            profile = self.profile(name)
            if profile is None:
                return None
            wanted[profile.name] += count
        held = Counter(placement.profile for placement in kept)
        if not self.is_legal(kept) or held - wanted:
            return None
        missing = [p for p in self.profiles for _ in range(wanted[p.name] - held[p.name])]
        return next(self._completions(kept, tuple(missing)), None)

    def _completions(
        self, layout: tuple[Placement, ...], missing: tuple[Profile, ...], first: int = 0
    ) -> Iterator[tuple[Placement, ...]]:
        """Yield the layouts with the missing instances as well; the next one begins at its `first` start or later."""
        if not missing:
            yield tuple(sorted(layout, key=lambda placement: placement.start))
            return
        profile, rest = missing[0], missing[1:]
        starts = _least_harmful_starts(self, profile.name)
        fits = self.fits(layout, profile.name)
        for index, start in enumerate(starts[first:], first):
            if start in fits:
                # Instances of one profile are alike: the next one never takes a start that this one has passed over.
                following = index + 1 if rest and rest[0] is profile else 0
                yield from self._completions((*layout, Placement(profile.name, start)), rest, following)


def _share_engines(media: Collection[Media]) -> bool:
    holders = sum(m in (Media.SET, Media.ALL) for m in media)
    if holders > 1:
        return False
    return Media.ALL not in media or all(m in (Media.ALL, Media.NONE) for m in media)


@lru_cache(maxsize=1024)
def _least_harmful_starts(geometry: Geometry, name: str) -> tuple[int, ...]:
    """Return the starts of a profile, those first whose slots the fewest other placements want; later ones on ties."""
    profile = geometry.profile(name)
    if profile is None:
        return ()
    plain = [p for p in geometry.profiles if p.media is Media.SHARE]

    def harm(start: int) -> tuple[int, int]:
        mask = profile.mask(start)
        return sum(bool(mask & p.mask(other)) for p in plain for other in p.starts), -start

    return tuple(sorted(profile.starts, key=harm))


class ProfileName(NamedTuple):
    """A profile's name taken apart; `memory_gb` is the rounded figure of the name, never to be reckoned with."""

    slices: int
    memory_gb: int
    media: Media = Media.SHARE

    def __str__(self) -> str:
        """Return the name as the driver writes it."""
        return f"{self.slices}g.{self.memory_gb}gb{self.media.value}"


_NAME = re.compile(r"([0-9]{1,2})g\.([0-9]{1,3})gb(?:[+.](me|me\.all|gfx)|(-me))?", re.ASCII)


@lru_cache(maxsize=1024)
def parse_profile_name(name: str) -> ProfileName | None:
    """Take a name apart, in the driver's spelling or a resource's (`1g.10gb.me`); None for anything else.

    A part of an instance (`1c.3g.20gb`) is no instance, and no name carries both a plus and a minus.

    References
    ----------
    NVIDIA/go-nvlib, pkg/nvlib/device/mig_profile.go.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    slices, memory_gb, added, removed = match.groups()
    media = Media(removed) if removed else Media(f"+{added}" if added else "")
    return ProfileName(int(slices), int(memory_gb), media)


def resource_name(profile_name: str) -> str:
    """Return the extended resource of a profile: `nvidia.com/mig-1g.10gb.me` for `1g.10gb+me`."""
    return RESOURCE_PREFIX + profile_name.replace("+", ".")


def profile_of_resource(resource: str) -> str | None:
    """Return the profile that an extended resource counts, in the driver's spelling; None for any other resource."""
    if not resource.startswith(RESOURCE_PREFIX):
        return None
    name = parse_profile_name(resource.removeprefix(RESOURCE_PREFIX))
    return None if name is None else str(name)


@lru_cache(maxsize=4096)
def _profile_of(geometry: Geometry, name: str) -> Profile | None:
    asked = parse_profile_name(name)
    if asked is None:
        return None
    near = []
    for profile in geometry.profiles:
        own = parse_profile_name(profile.name)
        if own == asked:
            return profile
        if own is None or own.slices != asked.slices or own.media is not asked.media:
            continue
        if abs(own.memory_gb - asked.memory_gb) <= max(1, own.memory_gb * NAME_TOLERANCE_PERCENT // 100):
            near.append(profile)
    return near[0] if len(near) == 1 else None
