"""The effective request of a pod: what a node must have free to run it from its first init container to its end."""

from __future__ import annotations

from collections.abc import Sequence

from islander.cluster.pod import Container, ContainerKind
from islander.cluster.resources import Resources

NOTHING = Resources()


def effective_requests(
    containers: Sequence[Container],
    overhead: Resources = NOTHING,
    *,
    pod_cpu_milli: int | None = None,
    pod_memory_bytes: int | None = None,
) -> Resources:
    """Return what the pod as a whole asks for.

    max(apps + all sidecars, max over ordinary init containers i of (i + sidecars listed before i)) + overhead.
    An ordinary init container has ended before the next one starts; a sidecar runs from its turn to the end.

    Parameters
    ----------
    containers
        Init containers and sidecars in the order of the spec; apps in any order.
    overhead
        Of the runtime class.
    pod_cpu_milli, pod_memory_bytes
        Requests of the pod as a whole (`spec.resources`), which replace what its containers ask for; None when not
        set. Devices cannot be asked for there.

    References
    ----------
    k8s.io/component-helpers, resource/helpers.go (PodRequests).
    """
    lasting = Resources()
    peak = Resources()
    for container in containers:
        if container.kind is ContainerKind.SIDECAR:
            lasting = lasting.plus(container.requests)
        elif container.kind is ContainerKind.INIT:
            peak = peak.at_least(lasting.plus(container.requests))
    for container in containers:
        if container.kind is ContainerKind.APP:
            lasting = lasting.plus(container.requests)
    total = lasting.at_least(peak)
    return Resources(
        total.cpu_milli if pod_cpu_milli is None else pod_cpu_milli,
        total.memory_bytes if pod_memory_bytes is None else pod_memory_bytes,
        total.extended,
    ).plus(overhead)
