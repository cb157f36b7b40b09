"""Whose quota a pod counts in: pods reach a ClusterQueue through the LocalQueue that they, or their owners, name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from islander.cluster import names
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot

# Kueue writes these on the pods that it manages (pkg/controller/constants, from 0.17 on).
CLUSTER_QUEUE_LABEL = "kueue.x-k8s.io/cluster-queue-name"
LOCAL_QUEUE_LABELS = (names.KUEUE_QUEUE, "kueue.x-k8s.io/local-queue-name")


@dataclass(frozen=True, slots=True)
class Membership:
    """Looks up the ClusterQueue of pods.

    Attributes
    ----------
    future
        Queue by namespace whose pods will be counted once the queue exists, although they name none today.
    """

    _queue_by_local: Mapping[tuple[str, str], str]
    _local_by_owner: Mapping[tuple[str, str, str], str]
    _queue_by_owner: Mapping[tuple[str, str, str], str]
    _owner_of: Mapping[tuple[str, str, str], tuple[str, str]]
    future: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        snapshot: ClusterSnapshot,
        future: Mapping[str, str] | None = None,
        doors: Mapping[tuple[str, str], str] | None = None,
    ) -> Membership:
        """Return the membership that a snapshot shows.

        Parameters
        ----------
        doors
            ClusterQueue by (namespace, name) of LocalQueues that do not exist yet.
        """
        queue_by_local = {**(doors or {}), **{(q.namespace, q.name): q.cluster_queue for q in snapshot.local_queues}}
        local_by_owner: dict[tuple[str, str, str], str] = {}
        owner_of: dict[tuple[str, str, str], tuple[str, str]] = {}
        for workload in snapshot.workloads:
            labels = dict(workload.labels)
            if names.KUEUE_QUEUE in labels:
                local_by_owner[workload.kind, workload.namespace, workload.name] = labels[names.KUEUE_QUEUE]
            if workload.owner is not None:
                key = (workload.kind, workload.namespace, workload.name)
                owner_of[key] = (workload.owner.kind, workload.owner.name)
        queue_by_owner: dict[tuple[str, str, str], str] = {}
        for queued in snapshot.queued_workloads:
            queue = queued.admitted_by or queue_by_local.get((queued.namespace, queued.queue), "")
            for kind, name in queued.owners if queue and not queued.finished else ():
                queue_by_owner[kind, queued.namespace, name] = queue
        return cls(queue_by_local, local_by_owner, queue_by_owner, owner_of, future or {})

    def queue_of(self, pod: Pod) -> str:
        """Return the ClusterQueue that a pod counts in, empty for a pod that no quota counts."""
        labels = dict(pod.labels)
        if CLUSTER_QUEUE_LABEL in labels:
            return labels[CLUSTER_QUEUE_LABEL]
        for label in LOCAL_QUEUE_LABELS:
            queue = self._queue_by_local.get((pod.namespace, labels.get(label, "")))
            if queue:
                return queue
        for key in self._chain(pod):
            queue = self._queue_by_owner.get(key)
            queue = queue or self._queue_by_local.get((pod.namespace, self._local_by_owner.get(key, "")))
            if queue:
                return queue
        return self.future.get(pod.namespace, "")

    def _chain(self, pod: Pod) -> list[tuple[str, str, str]]:
        """Return the pod and its owners, the nearest first."""
        chain = [("Pod", pod.namespace, pod.name)]
        owner = (pod.owner.kind, pod.owner.name) if pod.owner is not None else None
        while owner is not None and (owner[0], pod.namespace, owner[1]) not in chain:
            chain.append((owner[0], pod.namespace, owner[1]))
            owner = self._owner_of.get(chain[-1])
        return chain
