"""Which workload a pod belongs to in the end: the owner of its owner."""

from __future__ import annotations

from collections.abc import Iterable

from islander.cluster.pod import Pod
from islander.cluster.workload import Workload

POD_TEMPLATE_HASH = "pod-template-hash"


class Owners:
    """Looks up the owner chain of pods in what is known of workloads."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self._by_key = {(w.kind, w.namespace, w.name): w for w in workloads}

    def workload_of(self, pod: Pod) -> str:
        """Return `Kind/name` of the outermost known owner, empty for a pod that nobody owns.

        Where the dump has no ReplicaSets, the Deployment's name is read from the ReplicaSet's: it is the part before
        the pod template hash, which the pod's label tells.
        """
        if pod.owner is None:
            return ""
        kind, name = pod.owner.kind, pod.owner.name
        seen: set[tuple[str, str]] = set()
        while (kind, name) not in seen:
            seen.add((kind, name))
            workload = self._by_key.get((kind, pod.namespace, name))
            if workload is None or workload.owner is None:
                break
            kind, name = workload.owner.kind, workload.owner.name
        template_hash = pod.label(POD_TEMPLATE_HASH)
        if kind == "ReplicaSet" and template_hash and name.endswith(f"-{template_hash}"):
            return f"Deployment/{name.removesuffix(f'-{template_hash}')}"
        return f"{kind}/{name}"
