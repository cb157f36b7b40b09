"""What drivers of dynamic resource allocation say of their devices, as far as it matters here: that there are some."""

from __future__ import annotations

from msgspec import Struct

from islander.cluster import names


class ResourceSlice(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Devices that a driver offers, a part of its pool.

    Attributes
    ----------
    node
        The one node that has the devices; empty when they are reached from several.
    devices
        How many entries the slice has. With partitions a GPU has several entries, so this is no count of GPUs.
    """

    name: str
    driver: str = ""
    node: str = ""
    devices: int = 0

    def serves(self, resource: str) -> bool:
        """Return whether the devices may be handed out as that resource; any driver may serve a name we do not know."""
        return self.devices > 0 and names.DRA_DRIVERS.get(resource, self.driver) == self.driver
