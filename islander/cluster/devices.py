"""What drivers of dynamic resource allocation offer, and what claims hold of it, as far as it matters here."""

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


class ClaimedDevice(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device that a claim holds; driver, pool and name together are unique."""

    driver: str
    pool: str
    device: str

    @property
    def gpu(self) -> str:
        """Name of the GPU behind it: a partition is called `gpu-0-mig-1g10gb-19-0`."""
        return self.device.partition("-mig-")[0]


class ResourceClaim(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Devices that are held for pods, until the claim is given back.

    Attributes
    ----------
    node
        The one node whose devices it holds; empty while it holds none, or when they are reached from several.
    devices
        Those allocated, without those that somebody only administers.
    pods
        Names of the pods that it is reserved for, which share its devices.
    """

    namespace: str
    name: str
    node: str = ""
    devices: tuple[ClaimedDevice, ...] = ()
    pods: tuple[str, ...] = ()
