"""What a reader of a quota plan must know beside its rows, one sentence each."""

from __future__ import annotations

from collections import defaultdict

from islander.cluster.snapshot import ClusterSnapshot
from planner.models.outcome import SolveStatus
from planner.plan_words import amount
from planner.quota.recommendation import Recommendation
from planner.quota.target import Target


def warnings_of(found: Recommendation, target: Target, snapshot: ClusterSnapshot) -> list[str]:
    """Return the warnings of a plan."""
    told = [*found.warnings, *_not_seen(found, snapshot)]
    if found.solution.interrupted:
        told.append("the search was interrupted: these are the best quotas found so far")
    elif found.solution.status is not SolveStatus.OPTIMAL:
        open_phases = [phase.name for phase in found.solution.phases if abs(phase.value - phase.bound) > 1e-6]
        told.append(f"it is not proved that no better quotas exist ({', '.join(open_phases)})")
    told += [
        f"flavor {flavor.name}: all of its {amount(len(found.fleet.capacities[f].nodes), 'usable node')} may fail, so "
        "nothing is guaranteed there"
        for f, flavor in enumerate(found.flavors.flavors)
        if (nodes := found.fleet.capacities[f].nodes) and found.gone.issuperset(node.name for node in nodes)
    ]
    for shape, asked, kept in found.reserve:
        if kept < asked:
            told.append(f"reserve: {asked - kept} of {asked} x {shape.gpus} GPUs have no room beside the baselines")
    outside = {pod: gpus for capacity in found.fleet.capacities for pod, gpus in capacity.held_outside}
    if outside:
        first = ", ".join(f"{pod} ({gpus})" for pod, gpus in sorted(outside.items())[:3])
        more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
        told.append(f"{amount(sum(outside.values()), 'GPU')} are held outside Kueue, in no quota: {first}{more}")
    if uncovered := found.flavors.uncovered:
        told.append(f"{amount(len(uncovered), 'GPU node')} in no flavor: {', '.join(uncovered[:3])}")
    told += _about_queues(found, target, snapshot)
    return told


def _not_seen(found: Recommendation, snapshot: ClusterSnapshot) -> list[str]:
    """Return what nobody looked for, and what follows from that."""
    told, kinds = [], set(snapshot.kinds)
    if "ClusterQueue" not in kinds:
        told.append(
            "the snapshot was taken without clusterqueues: it is planned as if Kueue were not in use yet; add "
            "clusterqueues, cohorts, localqueues, resourceflavors and topologies if it is"
        )
    read = [demand for queue in found.demands for demand in queue.replicas if demand.source not in ("", "policy")]
    if read and kinds.isdisjoint(("HorizontalPodAutoscaler", "ScaledObject")):
        told.append("the snapshot was taken without autoscalers: baselines are the replicas that there are now")
    if not snapshot.cluster_queues and (gpus := sum(guarantee.baseline for guarantee in found.guarantees)):
        told.append(
            f"baselines of {amount(gpus, 'GPU')} count from the day that their pods name a queue "
            "(kueue.x-k8s.io/queue-name); until then they run outside Kueue"
        )
    return told


def _about_queues(found: Recommendation, target: Target, snapshot: ClusterSnapshot) -> list[str]:
    told = []
    known = {queue.name: queue for queue in snapshot.cluster_queues}
    nominal: defaultdict[str, int] = defaultdict(int)
    borrowing: defaultdict[str, int] = defaultdict(int)
    for guarantee in found.guarantees:
        nominal[guarantee.name] += guarantee.nominal
        limits = target.limits.get((guarantee.name, guarantee.flavor))
        borrowing[guarantee.name] += limits.borrowing or 0 if limits is not None else 0
        queue = known.get(guarantee.name)
        usage = queue.reservation or queue.usage if queue is not None else ()
        held = sum(u.total for u in usage if (u.flavor, u.resource) == (guarantee.flavor, guarantee.resource))
        if held > guarantee.nominal and guarantee.today is not None and guarantee.today > guarantee.nominal:
            told.append(
                f"queue {guarantee.name}: holds {held} of {guarantee.flavor} now and gets {guarantee.nominal}; nobody "
                "is evicted by that, and nothing new starts there until it is below"
            )
    for demand in found.demands:
        if not demand.namespaces and demand.queue not in known:
            told.append(f"queue {demand.queue}: no namespaces are named, so nobody can submit to it")
        most, reach = demand.most, nominal[demand.queue] + borrowing[demand.queue]
        if most is not None and demand.baseline and most > reach:
            told.append(
                f"queue {demand.queue}: {amount(most - reach, 'GPU')} of its largest number of replicas ({most} GPUs) "
                "can never be admitted"
            )
    for old, new in found.flavors.replaced.items():
        told.append(
            f"flavor {old} mixes GPU products and is replaced by {', '.join(new)}; workloads admitted in it run on "
            "and count in no quota"
        )
    return told
