"""MIG instances that come and go on equal GPUs: a seeded stream of requests, and what a policy admits of it.

One request per step; one that fits nowhere on arrival is refused for good.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from islander.hardware.mig import GEOMETRY_BY_NAME
from islander.policy.slices import Choice, SliceMix, SliceSpace, slice_space

GEOMETRY = GEOMETRY_BY_NAME["h100-80gb"]
PROFILES = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
# Popularity of the profiles in this order.
MIXES: Mapping[str, tuple[float, ...]] = {
    "uniform": (1 / 6,) * 6,
    "small": (0.35, 0.20, 0.20, 0.10, 0.10, 0.05),
    "big": (0.05, 0.10, 0.10, 0.20, 0.20, 0.35),
    "bimodal": (0.35, 0.10, 0.05, 0.05, 0.10, 0.35),
}
SLOTS = {profile.name: profile.size for profile in GEOMETRY.profiles}
WHOLE = PROFILES[-1]


class Request(NamedTuple):
    """A request that comes at its step in the list and, if it was admitted, leaves after `life` steps."""

    profile: str
    life: float


def stream(seed: int, mix: str, *, load: float, gpus: int = 100, steps: int = 30_000) -> list[Request]:
    """Return one request per step.

    Parameters
    ----------
    load
        Slots asked for at a time on average, as a share of all slots; lifetimes are exponential.
    """
    chance = random.Random(seed)
    weights = MIXES[mix]
    mean_slots = sum(weight * SLOTS[profile] for profile, weight in zip(PROFILES, weights, strict=True))
    mean_life = load * gpus * GEOMETRY.slots / mean_slots
    return [Request(chance.choices(PROFILES, weights)[0], chance.expovariate(1 / mean_life)) for _ in range(steps)]


@dataclass(slots=True)
class Tally:
    """Requests by profile, warm-up left out."""

    offered: Counter[str] = field(default_factory=Counter)
    admitted: Counter[str] = field(default_factory=Counter)

    @property
    def requests(self) -> float:
        """The percentage of the requests that were admitted."""
        return 100.0 * self.admitted.total() / self.offered.total()

    @property
    def slots(self) -> float:
        """The percentage of the slots asked for that were granted."""
        asked = sum(SLOTS[profile] * count for profile, count in self.offered.items())
        return 100.0 * sum(SLOTS[profile] * count for profile, count in self.admitted.items()) / asked

    @property
    def whole(self) -> float:
        """The percentage of the requests for a whole GPU that were admitted."""
        return 100.0 * self.admitted[WHOLE] / self.offered[WHOLE]

    def __add__(self, other: Tally) -> Tally:
        """Return the tally of both."""
        return Tally(self.offered + other.offered, self.admitted + other.admitted)


Choose = Callable[[SliceSpace, Sequence[int], str], Choice | None]


def mix_of(name: str) -> SliceMix:
    """Return a mix as the policy takes it."""
    return SliceMix.of(dict(zip(PROFILES, MIXES[name], strict=True)))


def replay(requests: Sequence[Request], choose: Choose, space: SliceSpace, *, gpus: int, warm_up: int) -> Tally:
    """Let a policy place a stream on empty GPUs.

    Parameters
    ----------
    choose
        Called with the space, the layout of each GPU as bits, and a profile; None refuses the request.
    warm_up
        Requests that are placed but not counted.
    """
    layouts = [0] * gpus
    leaving: list[tuple[float, int, int, int]] = []
    tally = Tally()
    for step, (profile, life) in enumerate(requests):
        while leaving and leaving[0][0] <= step:
            _, _, gpu, bit = heapq.heappop(leaving)
            layouts[gpu] &= ~bit
        choice = choose(space, layouts, profile)
        if choice is not None:
            bit = space.bits([choice.placement])
            layouts[choice.gpu] |= bit
            heapq.heappush(leaving, (step + life, step, choice.gpu, bit))
        if step >= warm_up:
            tally.offered[profile] += 1
            tally.admitted[profile] += choice is not None
    return tally


def islander(space: SliceSpace, layouts: Sequence[int], profile: str) -> Choice | None:
    """Islander's policy."""
    return space.choose(layouts, profile)


def space_of(mix: str) -> SliceSpace:
    """Return the space of the GPUs under a mix."""
    return slice_space(GEOMETRY, mix_of(mix))
