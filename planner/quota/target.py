"""The queues, cohorts and flavors as they shall be: today's objects with the recommended quotas in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from islander.cluster import names
from islander.cluster.pod import Requirement
from islander.cluster.queues import (
    ClusterQueue,
    Cohort,
    FlavorFungibility,
    FlavorQuotas,
    LocalQueue,
    Preemption,
    QueueTopology,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.quota.capacity import is_gpu_resource
from planner.quota.companions import CPU, MEMORY, PerGpu, companion
from planner.quota.flavors import API_VERSION, FlavorPlan
from planner.quota.limits import Limits, cohorts_of, limits_of
from planner.quota.recommendation import COHORT, QUEUE, Guarantee, Recommendation
from planner.quota.teams import QueueDemand

# Kueue counts every resource that a pod asks for, so a queue has to name these even if only GPUs are scarce.
_ALWAYS_COVERED = (CPU, MEMORY)
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Target:
    """The whole tree after the plan.

    Attributes
    ----------
    queues, cohorts, flavors, topologies, local_queues
        Everything that the tree stands on, whether it changes or not, by name.
    limits
        Limits in GPUs, by (queue, flavor).
    """

    flavors: tuple[ResourceFlavor, ...]
    topologies: tuple[QueueTopology, ...]
    cohorts: tuple[Cohort, ...]
    queues: tuple[ClusterQueue, ...]
    local_queues: tuple[LocalQueue, ...]
    limits: Mapping[tuple[str, str], Limits]


def target_of(recommendation: Recommendation, snapshot: ClusterSnapshot, settings: PolicySettings) -> Target:
    """Return the tree that a recommendation makes of today's."""
    plan, demands = recommendation.flavors, {demand.queue: demand for demand in recommendation.demands}
    cohorts = cohorts_of(snapshot, recommendation.demands, plan)
    limits = limits_of(recommendation, snapshot, cohorts)
    build = _Builder(recommendation, snapshot, settings, limits)
    known = {queue.name: queue for queue in snapshot.cluster_queues}
    queues = []
    for queue in sorted({*known, *demands}):
        demand = demands.get(queue)
        if demand is None:
            queues.append(known[queue])
        elif queue in known:
            queues.append(build.changed(known[queue], demand, cohorts[queue]))
        else:
            queues.append(build.new(demand, cohorts[queue]))
    used = {flavor.flavor for queue in queues for group in queue.resource_groups for flavor in group.flavors}
    flavors = {flavor.name: flavor for flavor in snapshot.resource_flavors}
    flavors |= {planned.name: planned.flavor for planned in plan.flavors if planned.new and planned.name in used}
    return Target(
        flavors=tuple(flavors[name] for name in sorted(flavors)),
        topologies=snapshot.queue_topologies,
        cohorts=build.cohorts({queue.cohort for queue in queues if queue.cohort}),
        queues=tuple(queues),
        local_queues=_local_queues(snapshot, recommendation.demands),
        limits=limits,
    )


class _Builder:
    """Puts recommended quotas into objects."""

    def __init__(
        self,
        recommendation: Recommendation,
        snapshot: ClusterSnapshot,
        settings: PolicySettings,
        limits: Mapping[tuple[str, str], Limits],
    ) -> None:
        self._plan: FlavorPlan = recommendation.flavors
        self._settings = settings
        self._limits = limits
        self._snapshot = snapshot
        self._by_holder: dict[tuple[str, str], dict[str, Guarantee]] = {}
        for guarantee in recommendation.guarantees:
            self._by_holder.setdefault((guarantee.kind, guarantee.name), {})[guarantee.flavor] = guarantee
        covered = {
            resource
            for queue in snapshot.cluster_queues
            for group in queue.resource_groups
            for resource in group.covered_resources
        }
        beside = sorted({*covered, *_ALWAYS_COVERED, *_asked_beside(snapshot)} - set(settings.gpu_resources))
        self._per_gpu = {
            flavor.name: PerGpu.of(recommendation.fleet, i, beside) for i, flavor in enumerate(self._plan.flavors)
        }

    def changed(self, queue: ClusterQueue, demand: QueueDemand, cohort: str) -> ClusterQueue:
        """Return a queue of today with new quotas; groups without GPUs stay."""
        mine = self._by_holder.get((QUEUE, queue.name), {})
        listed = {flavor.flavor for group in queue.resource_groups for flavor in group.flavors}
        added = [name for name in mine if name not in listed and not self._replaces(name, listed)]
        groups = []
        for group in queue.resource_groups:
            if not set(group.covered_resources) & set(self._settings.gpu_resources):
                groups.append(group)
                continue
            here = [name for name in added if mine[name].resource in group.covered_resources]
            added = [name for name in added if name not in here]
            groups.append(self._group(group, mine, here))
        if added:
            groups.append(self._new_group([mine[name] for name in added], taken=listed))
        selector = queue.namespace_selector
        if selector is None:
            selector = _selector(demand.namespaces)
        return structs.replace(
            queue,
            api_version=API_VERSION,
            cohort=cohort,
            resource_groups=tuple(groups),
            namespace_selector=selector,
        )

    def new(self, demand: QueueDemand, cohort: str) -> ClusterQueue:
        """Return a queue that is not there yet."""
        mine = self._by_holder.get((QUEUE, demand.queue), {})
        serving = bool(demand.baseline)
        return ClusterQueue(
            name=demand.queue,
            api_version=API_VERSION,
            cohort=cohort,
            resource_groups=(self._new_group(list(mine.values())),) if mine else (),
            namespace_selector=_selector(demand.namespaces),
            queueing_strategy="BestEffortFIFO",
            # What serves takes its own back from anybody and never pushes others aside to grow.
            preemption=Preemption(
                reclaim_within_cohort="Any" if serving else "LowerPriority",
                borrow_within_cohort="Never",
                within_cluster_queue="Never" if serving else "LowerPriority",
            ),
            fungibility=FlavorFungibility(),
        )

    def cohorts(self, named: set[str]) -> tuple[Cohort, ...]:
        """Return the cohorts of today with new pools, and new ones.

        A cohort that queues name today works without an object of its own, and goes on to.
        """
        known = {cohort.name: cohort for cohort in self._snapshot.cohorts}
        found = []
        for name in sorted({*known, *named} - ({queue.cohort for queue in self._snapshot.cluster_queues} - {*known})):
            cohort = known.get(name) or Cohort(name=name)
            mine = self._by_holder.get((COHORT, name), {})
            groups = tuple(self._pool(group, mine) for group in cohort.resource_groups)
            found.append(structs.replace(cohort, api_version=API_VERSION, resource_groups=groups))
        return tuple(found)

    def _group(self, group: ResourceGroup, mine: Mapping[str, Guarantee], added: Sequence[str]) -> ResourceGroup:
        flavors: list[FlavorQuotas] = []
        for quotas in group.flavors:
            replacing = self._plan.replaced.get(quotas.flavor)
            if replacing is not None:
                flavors += [self._quotas(mine[name], group.covered_resources) for name in replacing if name in mine]
            elif quotas.flavor in mine:
                flavors.append(self._quotas(mine[quotas.flavor], group.covered_resources, quotas))
            else:
                flavors.append(quotas)
        flavors += [self._quotas(mine[name], group.covered_resources) for name in added]
        return ResourceGroup(group.covered_resources, tuple(flavors))

    def _new_group(self, guarantees: Sequence[Guarantee], taken: set[str] | None = None) -> ResourceGroup:
        gpus = sorted({guarantee.resource for guarantee in guarantees})
        beside = () if taken else (*_ALWAYS_COVERED, *_asked_beside(self._snapshot))
        covered = (*beside, *gpus)
        return ResourceGroup(covered, tuple(self._quotas(guarantee, covered) for guarantee in guarantees))

    def _quotas(self, guarantee: Guarantee, covered: Sequence[str], today: FlavorQuotas | None = None) -> FlavorQuotas:
        limits = self._limits.get((guarantee.name, guarantee.flavor), Limits(None, None))
        quotas = []
        for resource in covered:
            old = today.quota(resource) if today is not None else None
            if resource == guarantee.resource:
                quotas.append(Quota(resource, guarantee.nominal, limits.borrowing, limits.lending))
            elif is_gpu_resource(resource, self._settings):
                quotas.append(old or Quota(resource, 0))
            else:
                per_gpu = self._per_gpu[guarantee.flavor]
                quotas.append(companion(old, resource, guarantee, per_gpu, limits.lending))
        return FlavorQuotas(guarantee.flavor, tuple(quotas))

    def _pool(self, group: ResourceGroup, mine: Mapping[str, Guarantee]) -> ResourceGroup:
        flavors: list[FlavorQuotas] = []
        for quotas in group.flavors:
            replacing = self._plan.replaced.get(quotas.flavor)
            for name in (quotas.flavor,) if replacing is None else replacing:
                guarantee = mine.get(name)
                resources = tuple(
                    _pooled(q, guarantee) if guarantee is not None and q.resource == guarantee.resource else q
                    for q in quotas.resources
                )
                flavors.append(FlavorQuotas(name, resources))
        return ResourceGroup(group.covered_resources, tuple(flavors))

    def _replaces(self, flavor: str, listed: set[str]) -> bool:
        return any(flavor in new for old, new in self._plan.replaced.items() if old in listed)


def _pooled(quota: Quota, guarantee: Guarantee) -> Quota:
    """Return the quota of a cohort with another amount; limits are whole islands, and no more is lent than there is."""
    nominal, island = guarantee.nominal, guarantee.island
    borrowing, lending = quota.borrowing_limit, quota.lending_limit
    return Quota(
        quota.resource,
        nominal,
        None if borrowing is None else borrowing - borrowing % island,
        None if lending is None else min(lending - lending % island, nominal),
    )


def _asked_beside(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Return the other devices that pods with GPUs ask for, such as network adapters: quota must name them too."""
    found = set()
    for pod in snapshot.pods:
        counts = dict(pod.spec.requests.extended)
        if any(name in counts for name in names.DEFAULT_GPU_RESOURCES):
            found |= {
                name
                for name, count in counts.items()
                if count and name not in names.DEFAULT_GPU_RESOURCES and not name.startswith(names.MIG_RESOURCE_PREFIX)
            }
    return tuple(sorted(found))


def _selector(namespaces: Sequence[str]) -> tuple[Requirement, ...]:
    """Return a selector of namespaces; without any it selects none, which is what a queue without a selector does."""
    return (Requirement(NAMESPACE_LABEL, "In", tuple(namespaces) or ("",)),)


def _local_queues(snapshot: ClusterSnapshot, demands: Sequence[QueueDemand]) -> tuple[LocalQueue, ...]:
    """Return the doors of today, and one for each namespace of a team that has none to its queue."""
    known = {queue.name for queue in snapshot.cluster_queues}
    doors = {(local.namespace, local.name): local for local in snapshot.local_queues}
    leads = {(local.namespace, local.cluster_queue) for local in snapshot.local_queues}
    for demand in demands:
        if demand.queue in known and "LocalQueue" not in snapshot.kinds:
            # Nobody looked for the doors of this queue.
            continue
        for namespace in demand.namespaces:
            key = (namespace, demand.queue)
            if key not in leads and key not in doors:
                doors[key] = LocalQueue(namespace, demand.queue, API_VERSION, demand.queue)
    return tuple(structs.replace(doors[key], api_version=API_VERSION) for key in sorted(doors))
