"""A node: what it offers, whether it accepts pods, and what it reports of its GPUs."""

from __future__ import annotations

from msgspec import Struct

from islander.cluster.resources import Resources


class Taint(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class MigDevice(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A MIG instance as the node reports it; `start` is its first memory slot."""

    profile: str
    start: int = 0
    pod: str | None = None


class ReportedGpu(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One GPU as the node reports it (annotation `islander.dev/gpus`); `pod` is `namespace/name` of its user."""

    index: int
    uuid: str = ""
    numa: int | None = None
    healthy: bool = True
    pod: str | None = None
    product: str = ""
    memory_mib: int = 0
    mig: tuple[MigDevice, ...] = ()


class GpuReport(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a node reports of its GPUs.

    Attributes
    ----------
    gpus
        Sorted by index.
    links, plugin_links
        Tables of cells as in `nvidia-smi topo -m`, shape (gpus, gpus); empty when the node does not tell.
    topology_manager_policy
        kubelet's policy: none, best-effort, restricted, single-numa-node; empty when the node does not tell.
    """

    gpus: tuple[ReportedGpu, ...] = ()
    links: tuple[tuple[str, ...], ...] = ()
    plugin_links: tuple[tuple[str, ...], ...] = ()
    topology_manager_policy: str = ""


class Node(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node.

    Attributes
    ----------
    capacity, allocatable
        As kubelet reports them; `max_pods` is allocatable.
    annotations
        Only those of `names.KEPT_NODE_ANNOTATIONS`, except `islander.dev/gpus`, which is parsed into `gpu_report`.
    warnings
        What was not understood of the node's own labels and annotations; each is one sentence.
    """

    name: str
    uid: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    not_ready_reason: str = ""
    capacity: Resources = Resources()
    allocatable: Resources = Resources()
    max_pods: int = 110
    gpu_report: GpuReport | None = None
    warnings: tuple[str, ...] = ()
    created: str = ""

    def label(self, key: str) -> str | None:
        """Return a label's value, None when absent."""
        return next((v for k, v in self.labels if k == key), None)

    def annotation(self, key: str) -> str | None:
        """Return a kept annotation's value, None when absent."""
        return next((v for k, v in self.annotations if k == key), None)
