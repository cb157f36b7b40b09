"""Amounts of CPU, memory and extended resources, as exact integers."""

from __future__ import annotations

from msgspec import Struct

from islander.cluster.quantity import LARGEST

Extended = tuple[tuple[str, int], ...]


class Resources(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Amounts of what a node offers or a pod asks for.

    Attributes
    ----------
    cpu_milli
        Thousandths of a CPU.
    memory_bytes
        Bytes.
    extended
        (resource name, count) sorted by name, without zeros: whole devices such as `nvidia.com/gpu`.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    extended: Extended = ()

    def count(self, resource: str) -> int:
        """Return the count of an extended resource, 0 when it is not named."""
        for name, amount in self.extended:
            if name == resource:
                return amount
        return 0

    def plus(self, other: Resources) -> Resources:
        """Return the sum, capped at `LARGEST` like every amount of the API."""
        counts = dict(self.extended)
        for name, amount in other.extended:
            counts[name] = min(counts.get(name, 0) + amount, LARGEST)
        return Resources(
            min(self.cpu_milli + other.cpu_milli, LARGEST),
            min(self.memory_bytes + other.memory_bytes, LARGEST),
            tuple(sorted(counts.items())),
        )

    def at_least(self, other: Resources) -> Resources:
        """Return the larger amount of each resource."""
        counts = dict(self.extended)
        for name, amount in other.extended:
            counts[name] = max(counts.get(name, 0), amount)
        return Resources(
            max(self.cpu_milli, other.cpu_milli),
            max(self.memory_bytes, other.memory_bytes),
            tuple(sorted(counts.items())),
        )
