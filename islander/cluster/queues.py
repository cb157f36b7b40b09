"""Kueue's objects: who may use how much of which flavor of nodes, and what waits for it.

Source: sigs.k8s.io/kueue, apis/kueue/v1beta2; v1beta1 objects are read into the same values.
"""

from __future__ import annotations

from msgspec import Struct

from islander.cluster.node import Taint
from islander.cluster.pod import Requirement, Toleration


class Quota(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a queue or cohort may use of one resource of one flavor.

    Attributes
    ----------
    nominal, borrowing_limit, lending_limit
        Whole devices; CPU in thousandths, memory and storage in bytes, like all amounts of the snapshot. A limit of
        None is no limit.
    """

    resource: str
    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class FlavorQuotas(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The quotas of one flavor, in the order of the object."""

    flavor: str
    resources: tuple[Quota, ...] = ()

    def quota(self, resource: str) -> Quota | None:
        """Return the quota of a resource, None when the flavor does not list it."""
        return next((quota for quota in self.resources if quota.resource == resource), None)


class ResourceGroup(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Resources that are counted together, and the flavors that they come in, in order of preference."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class FlavorUsage(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a queue holds of one resource of one flavor now; `borrowed` is part of `total`."""

    flavor: str
    resource: str
    total: int
    borrowed: int = 0


class Preemption(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whom a queue may evict, in the words of the API; empty where the object does not say."""

    reclaim_within_cohort: str = ""
    borrow_within_cohort: str = ""
    within_cluster_queue: str = ""


class FlavorFungibility(Struct, frozen=True, rename="camel", omit_defaults=True):
    """When the next flavor is tried, in the words of v1beta2; empty where the object does not say."""

    when_can_borrow: str = ""
    when_can_preempt: str = ""
    preference: str = ""


class ClusterQueue(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A ClusterQueue.

    Attributes
    ----------
    api_version
        The version that the object was read in, such as `kueue.x-k8s.io/v1beta1`.
    namespace_selector
        None when the object has none, which lets nobody in; empty lets everybody in.
    fair_weight
        Text of the quantity `fairSharing.weight`; empty when absent.
    admission_checks
        (name of the check, flavors it is for; empty for all).
    effective
        `status.effectiveQuotas`: what counts instead of `resource_groups` when another controller sets quotas.
    active
        Condition `Active`; None when it is not there. `inactive_reason` and `inactive_message` say why not.
    manifest
        The object as JSON without status and managed fields: what a changed file is made from, so that no field that
        we do not know is lost.
    """

    name: str
    api_version: str = ""
    cohort: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    namespace_selector: tuple[Requirement, ...] | None = None
    queueing_strategy: str = ""
    preemption: Preemption = Preemption()
    fungibility: FlavorFungibility = FlavorFungibility()
    fair_weight: str = ""
    stop_policy: str = ""
    admission_checks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    concurrent_admission: bool = False
    reservation: tuple[FlavorUsage, ...] = ()
    usage: tuple[FlavorUsage, ...] = ()
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0
    active: bool | None = None
    inactive_reason: str = ""
    inactive_message: str = ""
    effective: tuple[FlavorQuotas, ...] = ()
    manifest: str = ""


class Cohort(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A Cohort: queues and cohorts that lend to each other, and what they share beside their own.

    `effective` counts instead of `resource_groups` when another controller sets quotas, as in a ClusterQueue.
    """

    name: str
    api_version: str = ""
    parent: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_weight: str = ""
    effective: tuple[FlavorQuotas, ...] = ()
    manifest: str = ""


class LocalQueue(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A LocalQueue: the door of one namespace to a ClusterQueue."""

    namespace: str
    name: str
    api_version: str = ""
    cluster_queue: str = ""
    stop_policy: str = ""
    fair_weight: str = ""
    pending_workloads: int = 0
    manifest: str = ""


class ResourceFlavor(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A ResourceFlavor: the nodes behind a quota.

    Attributes
    ----------
    node_labels
        A node belongs to the flavor when it has all of them; a flavor without labels names every node.
    topology
        Name of the Topology that admission places by; empty when it only counts.
    """

    name: str
    api_version: str = ""
    node_labels: tuple[tuple[str, str], ...] = ()
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    manifest: str = ""


class QueueTopology(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A Topology of Kueue: labels that divide the nodes, coarse to fine."""

    name: str
    api_version: str = ""
    levels: tuple[str, ...] = ()
    manifest: str = ""


class PodSet(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Pods of one template in a Workload.

    Attributes
    ----------
    requests
        (resource, amount) of one pod, as `Quota` counts.
    flavors
        (resource, flavor) assigned at admission; empty while it waits.
    topology_request
        `required LABEL`, `preferred LABEL`, `unconstrained` or `slices LABEL`; empty without topology.
    """

    name: str
    count: int
    requests: tuple[tuple[str, int], ...] = ()
    flavors: tuple[tuple[str, str], ...] = ()
    topology_request: str = ""


class QueuedWorkload(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A Workload of Kueue: what is admitted or waits as a whole.

    Attributes
    ----------
    owners
        (kind, name) of what it was made for: a Job, a Pod, a LeaderWorkerSet.
    admitted_by
        ClusterQueue that reserved quota; empty while it waits.
    pending_reason
        Reason of condition `QuotaReserved` while it is false.
    created, ready_at
        RFC 3339 times of creation and of condition `PodsReady`; empty when not known.
    """

    namespace: str
    name: str
    api_version: str = ""
    queue: str = ""
    priority: int = 0
    active: bool = True
    pod_sets: tuple[PodSet, ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    admitted_by: str = ""
    admitted: bool = False
    finished: bool = False
    pending_reason: str = ""
    created: str = ""
    admitted_at: str = ""
    ready_at: str = ""


class Autoscaler(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Between how many replicas a HorizontalPodAutoscaler or ScaledObject keeps its target.

    Attributes
    ----------
    min_replicas, max_replicas
        With the API's defaults filled in: 1 (HorizontalPodAutoscaler), 0 and 100 (ScaledObject).
    """

    kind: str
    namespace: str
    name: str
    target_kind: str = ""
    target_name: str = ""
    min_replicas: int = 1
    max_replicas: int = 1


class NamespaceQuota(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A ResourceQuota: (key as written, such as `requests.nvidia.com/gpu`, amount) that a namespace may ask for."""

    namespace: str
    name: str
    hard: tuple[tuple[str, int], ...] = ()


class QueueConfiguration(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What of Kueue's own configuration bears on quotas.

    Attributes
    ----------
    wait_for_pods_ready_seconds
        How long an admitted workload may take until its pods are ready; None when it is switched off or not known.
    frameworks
        Integrations that are switched on, such as `pod`, `deployment`.
    excluded_prefixes
        `resources.excludeResourcePrefixes`: resources that quota does not count.
    fair_sharing
        Whether borrowed amounts are shared by weight, which replaces the usual rules of preemption in cohorts.
    """

    wait_for_pods_ready_seconds: int | None = None
    frameworks: tuple[str, ...] = ()
    excluded_prefixes: tuple[str, ...] = ()
    fair_sharing: bool = False
