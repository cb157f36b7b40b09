"""What findings are made from: the quotas of today, who uses them, and what their nodes can hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from islander.cluster.queues import ClusterQueue, Cohort, FlavorQuotas, QueuedWorkload, Quota, ResourceGroup
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.quota.capacity import FlavorCapacity, is_gpu_resource
from planner.quota.membership import Membership
from planner.quota.teams import QueueDemand

Holder = ClusterQueue | Cohort


@dataclass(frozen=True, slots=True)
class QuotaAt:
    """The quota of one resource of one flavor, and where the object has it."""

    flavor: str
    quota: Quota
    path: str


@dataclass(frozen=True)
class Inspection:
    """A cluster whose quotas are looked at.

    Attributes
    ----------
    demands
        What the teams behind queues ask for, as far as it is known.
    survive_nodes
        Nodes of each flavor that may fail.
    """

    snapshot: ClusterSnapshot
    settings: PolicySettings
    demands: tuple[QueueDemand, ...]
    capacities: tuple[FlavorCapacity, ...]
    membership: Membership
    survive_nodes: int = 0

    @cached_property
    def holders(self) -> tuple[Holder, ...]:
        """Cohorts and queues, which all have quota."""
        return (*self.snapshot.cohorts, *self.snapshot.cluster_queues)

    @cached_property
    def by_flavor(self) -> Mapping[tuple[str, str], FlavorCapacity]:
        """Capacity by (flavor, resource)."""
        return {(capacity.flavor, capacity.resource): capacity for capacity in self.capacities}

    @cached_property
    def demand_of(self) -> Mapping[str, QueueDemand]:
        """Demand by name of the queue."""
        return {demand.queue: demand for demand in self.demands}

    @cached_property
    def used_flavors(self) -> Mapping[tuple[str, str], tuple[Holder, ...]]:
        """Who has quota above zero, or may borrow, by (flavor, GPU resource)."""
        found: defaultdict[tuple[str, str], list[Holder]] = defaultdict(list)
        for holder in self.holders:
            for at in self.gpu_quotas(holder):
                if at.quota.nominal or at.quota.borrowing_limit != 0:
                    found[at.flavor, at.quota.resource].append(holder)
        return {key: tuple(holders) for key, holders in found.items()}

    @cached_property
    def workloads_of(self) -> Mapping[str, tuple[QueuedWorkload, ...]]:
        """Workloads that have not ended, by the ClusterQueue that has admitted them or that they wait for."""
        doors = {(door.namespace, door.name): door.cluster_queue for door in self.snapshot.local_queues}
        found: defaultdict[str, list[QueuedWorkload]] = defaultdict(list)
        for workload in self.snapshot.queued_workloads:
            queue = workload.admitted_by or doors.get((workload.namespace, workload.queue), "")
            if queue and not workload.finished:
                found[queue].append(workload)
        return {queue: tuple(workloads) for queue, workloads in found.items()}

    @cached_property
    def _parents(self) -> Mapping[str, str]:
        return {cohort.name: cohort.parent for cohort in self.snapshot.cohorts}

    def root_of(self, cohort: str) -> str:
        """Return the cohort at the top of a tree; of a circle, the first of its names."""
        line = [cohort]
        while parent := self._parents.get(line[-1], ""):
            if parent in line:
                return min(line[line.index(parent) :])
            line.append(parent)
        return line[-1]

    @cached_property
    def trees(self) -> Mapping[str, tuple[Holder, ...]]:
        """Cohorts and queues that lend to each other, by the cohort at the top."""
        found: defaultdict[str, list[Holder]] = defaultdict(list)
        for holder in self.holders:
            cohort = holder.cohort if isinstance(holder, ClusterQueue) else holder.name
            if cohort:
                found[self.root_of(cohort)].append(holder)
        return {root: tuple(holders) for root, holders in found.items()}

    def gpu_quotas(self, holder: Holder) -> Iterator[QuotaAt]:
        """Yield the quotas of GPUs and of parts of them, those that count."""
        for at in quotas_of(holder):
            if is_gpu_resource(at.quota.resource, self.settings):
                yield at

    def gpus_of(self, workload: QueuedWorkload) -> int:
        """Return the GPUs, or parts of them, that a workload asks for as a whole."""
        return sum(
            pods.count * count
            for pods in workload.pod_sets
            for resource, count in pods.requests
            if is_gpu_resource(resource, self.settings)
        )


def quotas_of(holder: Holder) -> Iterator[QuotaAt]:
    """Yield the quotas that count: the effective ones where another controller sets them, else those of the spec."""
    if holder.effective:
        yield from _of_flavors(holder.effective, "status.effectiveQuotas")
        return
    for number, group in enumerate(holder.resource_groups):
        yield from _of_group(group, f"spec.resourceGroups[{number}]")


def _of_group(group: ResourceGroup, path: str) -> Iterator[QuotaAt]:
    yield from _of_flavors(group.flavors, f"{path}.flavors")


def _of_flavors(flavors: Iterable[FlavorQuotas], path: str) -> Iterator[QuotaAt]:
    for index, flavor in enumerate(flavors):
        for place, quota in enumerate(flavor.resources):
            yield QuotaAt(flavor.flavor, quota, f"{path}[{index}].resources[{place}]")


def called(holder: Holder) -> str:
    """Return `Kind/name` of a queue or cohort."""
    return f"{type(holder).__name__}/{holder.name}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return names in a sentence; of many, the first and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
