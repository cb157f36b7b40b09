"""Persistent volumes and the claims on them, as far as they bind a pod to nodes."""

from __future__ import annotations

from msgspec import Struct

from islander.cluster.pod import NodeTerm


class PersistentVolumeClaim(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A claim of a namespace on a volume.

    Attributes
    ----------
    volume
        Name of the bound volume; empty while the claim waits, for its first pod or for a volume.
    ephemeral
        True when the claim belongs to a pod and ends with it; the pod's replacement gets a volume of its own.
    """

    namespace: str
    name: str
    volume: str = ""
    access_modes: tuple[str, ...] = ()
    ephemeral: bool = False

    @property
    def one_node(self) -> bool:
        """True when the volume can be attached to one node at a time."""
        return bool(self.access_modes) and not {"ReadWriteMany", "ReadOnlyMany"} & set(self.access_modes)


class PersistentVolume(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A volume.

    Attributes
    ----------
    node_terms
        Nodes from which the volume can be reached: one of the terms must hold; None for every node.
    local
        True when the data lies on a disk of one node (`local`, `hostPath`).
    """

    name: str
    node_terms: tuple[NodeTerm, ...] | None = None
    local: bool = False
