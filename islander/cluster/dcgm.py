"""Whose GPU a sample of NVIDIA's DCGM exporter is about: hints of how busy a GPU is, never a count of free ones.

The exporter is a pod itself, and whoever scrapes it may write the exporter's own name where the user's is expected. So
a name is believed only when the snapshot knows the pod and it asks for GPUs.

Source: NVIDIA/dcgm-exporter, README.md and issues 27, 85, 127, 150; labels `exported_*` are Prometheus' way to keep a
label that the target has already (prometheus/prometheus, docs/configuration, honor_labels).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from islander.cluster import names
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot

# Share of the time in which any engine of the GPU was busy, 0 to 1; and memory in use, MiB.
ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
MEMORY_USED = "DCGM_FI_DEV_FB_USED"
_UUID_LABELS = ("UUID", "uuid")
_INSTANCE_LABEL = "GPU_I_ID"
# What pods of the exporter are called by its chart and by the GPU operator.
_EXPORTER = "dcgm-exporter"
# (label of the pod, label of its namespace), the more reliable first.
_USER_LABELS = (("exported_pod", "exported_namespace"), ("pod", "namespace"))


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a metric."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class GpuHint:
    """What the samples say of one GPU, or of one MIG instance of it.

    Attributes
    ----------
    instance
        MIG instance as DCGM numbers them; empty for a whole GPU.
    node
        Node that reports the GPU; empty when no node reports any.
    pod
        `namespace/name` of who uses it; empty when it is idle or nobody knows.
    busy
        Share of the time, 0 to 1; None when there is no sample of it.
    memory_used_mib
        MiB; None when there is no sample of it.
    """

    uuid: str
    instance: str = ""
    node: str = ""
    pod: str = ""
    busy: float | None = None
    memory_used_mib: int | None = None


def gpu_hints(samples: Iterable[Sample], snapshot: ClusterSnapshot) -> tuple[tuple[GpuHint, ...], tuple[str, ...]]:
    """Return the hints, by node, GPU and instance, and a sentence for each thing that was not believed."""
    inventory = {
        gpu.uuid: node.name for node in snapshot.nodes if node.gpu_report for gpu in node.gpu_report.gpus if gpu.uuid
    }
    users = _Users(snapshot)
    warnings: set[str] = set()
    busy: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    memory: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    pods: dict[tuple[str, str], str] = {}
    for sample in samples:
        if sample.name not in (ENGINE_ACTIVE, MEMORY_USED) or not sample.value >= 0:
            continue
        uuid = next((sample.labels[label] for label in _UUID_LABELS if sample.labels.get(label)), "")
        if not uuid:
            warnings.add(f"a sample of {sample.name} names no GPU; it is ignored")
            continue
        if inventory and uuid not in inventory:
            warnings.add(f"GPU {uuid:.60} of the metrics is on no node; its samples are ignored")
            continue
        key = (uuid, sample.labels.get(_INSTANCE_LABEL, ""))
        (busy if sample.name == ENGINE_ACTIVE else memory)[key].append(sample.value)
        pods[key] = users.user_of(sample.labels, warnings) or pods.get(key, "")
    found = (
        GpuHint(
            uuid,
            instance,
            inventory.get(uuid, ""),
            pod,
            # Several exporters, or several scrapes: the busiest counts, so that nothing is called idle too early.
            max(busy[uuid, instance], default=None),
            round(max(memory[uuid, instance])) if memory[uuid, instance] else None,
        )
        for (uuid, instance), pod in pods.items()
    )
    return tuple(sorted(found, key=lambda hint: (hint.node, hint.uuid, hint.instance))), tuple(sorted(warnings))


class _Users:
    """Finds the pod that a sample names."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._pods = {(pod.namespace, pod.name): pod for pod in snapshot.pods}
        self._by_name: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in snapshot.pods:
            self._by_name[pod.name].append(pod)

    def user_of(self, labels: Mapping[str, str], warnings: set[str]) -> str:
        """Return `namespace/name` of the user; empty when the labels name nobody, or somebody who has no GPUs.

        A label that Prometheus has renamed says who uses the GPU; then the plain one is the exporter's own.
        """
        for pod_label, namespace_label in _USER_LABELS:
            name = labels.get(pod_label, "")
            if not name:
                continue
            pod = self._known(labels.get(namespace_label, ""), name)
            if pod is None and _EXPORTER not in name:
                warnings.add(f"pod {name:.253} of the metrics is not in the snapshot; its GPU counts as unknown")
            return pod.key if pod is not None and _asks_for_gpus(pod) else ""
        return ""

    def _known(self, namespace: str, name: str) -> Pod | None:
        if namespace:
            return self._pods.get((namespace, name))
        named = self._by_name[name]
        return named[0] if len(named) == 1 else None


def _asks_for_gpus(pod: Pod) -> bool:
    """Return whether a pod may hold a GPU; what asks for one by any name or claim counts."""
    if pod.spec.resource_claims:
        return True
    return any("gpu" in name or name.startswith(names.MIG_RESOURCE_PREFIX) for name, _ in pod.spec.requests.extended)
