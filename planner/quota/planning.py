"""Plan quotas: what each queue shall have, written as files, and judged before anyone sees it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from msgspec import structs
from ruamel.yaml.comments import CommentedMap

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.models.solve import SOLVER_NAME, SOLVER_VERSION, OnProgress, SolveStatus
from planner.plan import SnapshotFacts, SolverFacts
from planner.plan_words import amount
from planner.quota.baseline import today_of
from planner.quota.check import check_quota
from planner.quota.emit import files_of
from planner.quota.findings import FindingCode, QuotaFinding, findings_of
from planner.quota.options import QuotaOptions
from planner.quota.plan import Change, FlavorRow, QuotaPlan, Reserve, TeamRow, Totals, Unmet, WitnessPods
from planner.quota.recommend import Missing, Recommendation, membership_of, pools_of, recommend
from planner.quota.rows import rows_of
from planner.quota.sources import Key
from planner.quota.target import Target, target_of
from planner.quota.teams import ReplicaDemand

# Quotas are agreed on among people, and merged; beyond that the cluster has changed.
VALID_DAYS = 7


class InvariantError(RuntimeError):
    """A plan that we made does not pass our own check."""


def plan_quota(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: QuotaOptions,
    now: datetime,
    progress: OnProgress | None = None,
    sources: Mapping[Key, CommentedMap] | None = None,
) -> QuotaPlan:
    """Return the quotas for a snapshot.

    Parameters
    ----------
    now
        When the plan is made; the plan carries it and does not depend on it.
    sources
        Objects as YAML files write them, whose comments the files of the plan keep.

    Raises
    ------
    InvariantError
        The plan does not pass `check_quota`.
    """
    started = time.monotonic()
    found = recommend(snapshot, settings, options, progress)
    target = target_of(found, snapshot, settings)
    plan = QuotaPlan(
        id="",
        created_at=_rfc3339(now),
        expires_at=_rfc3339(now + timedelta(days=VALID_DAYS)),
        snapshot=SnapshotFacts.of(snapshot, settings),
        policy=_policy_text(options),
        survive_nodes=options.spare,
        outcome="plan",
        solver=SolverFacts(
            name=SOLVER_NAME,
            version=SOLVER_VERSION,
            status=found.solution.status.value,
            phases=list(found.solution.phases),
            seconds=round(time.monotonic() - started, 3),
            seed=options.limits.seed,
            workers=options.limits.workers,
            time_limit_seconds=options.limits.time_limit_seconds,
        ),
        queues=rows_of(found, target, snapshot, settings),
        created=_created(target, snapshot),
        edited=_edited(target, snapshot),
        teams=_teams(found),
        unmet=[_unmet(missing, found) for missing in found.missing],
        reserve=_reserve(found),
        flavors=_flavors(found, target, snapshot, settings),
        totals=_totals(found),
        findings=_findings(found, snapshot, settings, options),
        files=files_of(target, sources or {}),
        warnings=[*snapshot.warnings, *_warnings(found, target, snapshot)],
    )
    plan = _with_outcome(plan).with_id()
    verdict = check_quota(plan, snapshot, settings, found.fleet.capacities)
    if not verdict.valid:
        first = verdict.violations[0]
        raise InvariantError(f"the plan does not pass its own check: {first.code} {first.step} {first.message}")
    return plan


def _with_outcome(plan: QuotaPlan) -> QuotaPlan:
    outcome = "infeasible" if plan.unmet else "plan" if plan.proposes else "nothing-to-do"
    return structs.replace(plan, outcome=outcome)


def _findings(
    found: Recommendation, snapshot: ClusterSnapshot, settings: PolicySettings, options: QuotaOptions
) -> list[QuotaFinding]:
    """Return what is wrong with the objects of today; nothing where there are none."""
    if not (snapshot.cluster_queues or snapshot.resource_flavors):
        return []
    membership = membership_of(snapshot, options.policy)
    # Findings are about the flavors of today; where the plan is about the same ones, what they offer is known.
    same = [flavor.name for flavor in snapshot.resource_flavors] == [flavor.name for flavor in found.flavors.flavors]
    return list(
        findings_of(
            snapshot,
            settings,
            found.demands,
            known_capacities=found.fleet.counted if same else None,
            membership=membership,
            survive_nodes=options.spare,
        )
    )


def _created(target: Target, snapshot: ClusterSnapshot) -> list[str]:
    """Return the objects that are not there yet."""
    flavors = {flavor.name for flavor in snapshot.resource_flavors}
    queues = {queue.name for queue in snapshot.cluster_queues}
    doors = {(local.namespace, local.name) for local in snapshot.local_queues}
    cohorts = {cohort.name for cohort in snapshot.cohorts}
    found = [f"ResourceFlavor/{flavor.name}" for flavor in target.flavors if flavor.name not in flavors]
    found += [f"Cohort/{cohort.name}" for cohort in target.cohorts if cohort.name not in cohorts]
    found += [f"ClusterQueue/{queue.name}" for queue in target.queues if queue.name not in queues]
    return found + [
        f"LocalQueue/{door.namespace}/{door.name}"
        for door in target.local_queues
        if (door.namespace, door.name) not in doors
    ]


def _edited(target: Target, snapshot: ClusterSnapshot) -> list[str]:
    """Return what changes in objects of today beside quotas."""
    before = {queue.name: queue for queue in snapshot.cluster_queues}
    told = []
    for queue in target.queues:
        old = before.get(queue.name)
        if old is not None and old.cohort != queue.cohort:
            told.append(f"ClusterQueue/{queue.name} spec.cohortName: {old.cohort or 'none'} -> {queue.cohort}")
        if old is not None and old.namespace_selector is None:
            told.append(f"ClusterQueue/{queue.name} spec.namespaceSelector: it let nobody in, and says now who may")
    return told


def _policy_text(options: QuotaOptions) -> str:
    if options.policy is None:
        return "derived from autoscalers, pods and today's quotas"
    return f"{amount(len(options.policy.teams), 'team')} of the policy file"


def _teams(found: Recommendation) -> list[TeamRow]:
    guaranteed: defaultdict[tuple[str, ReplicaDemand], int] = defaultdict(int)
    for guarantee in found.guarantees:
        for replicas, number in guarantee.replicas:
            guaranteed[guarantee.name, replicas] += number
    return [
        TeamRow(
            team=replicas.team,
            queue=demand.queue,
            gpus=replicas.shape.gpus,
            island=replicas.shape.island,
            product=replicas.product,
            pods=replicas.pods,
            baseline=replicas.baseline,
            most=replicas.most,
            guaranteed=guaranteed[demand.queue, replicas],
            weight=demand.weight,
            may_borrow=demand.may_borrow,
            source=replicas.source,
            cpu_milli=replicas.cpu_milli,
            memory_bytes=replicas.memory_bytes,
            fits=replicas.fits,
        )
        for demand in found.demands
        for replicas in demand.replicas
    ]


def _unmet(missing: Missing, found: Recommendation) -> Unmet:
    demand, plan = missing.demand, found.flavors
    gpus = missing.replicas * demand.gpus
    island = f"an island of {demand.shape.gpus}" if demand.shape.island else amount(demand.shape.gpus, "GPU")
    flavors = [f for f in plan.of_queue[missing.queue] if plan.flavors[f].offers(demand.product)]
    if not flavors:
        cure = f"no flavor has nodes of product {demand.product}" if demand.product else "no flavor has GPU nodes"
    else:
        names = ", ".join(plan.flavors[f].name for f in flavors)
        lost = f" with {len(found.gone)} nodes lost" if found.gone else ""
        cure = f"{names} has no room for {amount(gpus, 'GPU')} more in such replicas{lost}"
    return Unmet(
        team=demand.team,
        queue=missing.queue,
        gpus=demand.gpus,
        missing=missing.replicas,
        code=FindingCode.BASELINE_NOT_PLACEABLE.value,
        message=f"{missing.replicas} of {amount(demand.baseline, 'replica')} with {island} "
        f"{'has' if missing.replicas == 1 else 'have'} no place: {cure}",
    )


def _reserve(found: Recommendation) -> list[Reserve]:
    return [
        Reserve(
            gpus=shape.gpus,
            island=shape.island,
            asked=asked,
            kept=kept,
            witness=[
                WitnessPods(place.node, shape.gpus, shape.island, place.pods)
                for place in found.reserved
                if place.shape == shape
            ],
        )
        for shape, asked, kept in found.reserve
    ]


def _flavors(
    found: Recommendation, target: Target, snapshot: ClusterSnapshot, settings: PolicySettings
) -> list[FlavorRow]:
    before: defaultdict[tuple[str, str], int] = defaultdict(int)
    after: defaultdict[tuple[str, str], int] = defaultdict(int)
    for queue in snapshot.cluster_queues:
        for key, gpus in today_of(queue, settings).items():
            before[key] += gpus
    for own in pools_of(snapshot, settings).values():
        for key, gpus in own.items():
            before[key] += gpus
    for guarantee in found.guarantees:
        after[guarantee.flavor, guarantee.resource] += guarantee.nominal
    rows = []
    for i, flavor in enumerate(found.flavors.flavors):
        capacity = found.fleet.capacities[i]
        biggest = sorted(name for name in found.gone if i in found.fleet.flavors_of[name])
        rows.append(
            FlavorRow(
                name=flavor.name,
                resource=flavor.resource,
                products=list(flavor.products),
                new=flavor.new,
                arithmetic=capacity.arithmetic,
                usable=capacity.usable,
                placeable=found.placeable({i}),
                placeable_without_biggest=found.placeable({i}, found.gone or found.biggest_of(i)),
                nominal=Change(before[flavor.name, flavor.resource], after[flavor.name, flavor.resource]),
                held_outside=dict(capacity.held_outside),
                unusable=dict(capacity.unusable),
                biggest=biggest or sorted(found.biggest_of(i)),
            )
        )
    return rows


def _totals(found: Recommendation) -> Totals:
    everywhere = range(len(found.flavors.flavors))
    nodes = {room.name: room for capacity in found.fleet.capacities for room in capacity.nodes}
    placeable = found.placeable(everywhere)
    return Totals(
        arithmetic=sum(found.flavors.allocatable.values()),
        placeable=placeable,
        placeable_without_biggest_node=placeable - found.most_on_one_node(),
        usable=sum(room.usable for room in nodes.values()),
        held_outside=sum(room.held_outside for room in nodes.values()),
    )


def _warnings(found: Recommendation, target: Target, snapshot: ClusterSnapshot) -> list[str]:
    told = [*found.warnings, *_not_seen(found, snapshot)]
    if found.solution.interrupted:
        told.append("the search was interrupted: these are the best quotas found so far")
    elif found.solution.status is not SolveStatus.OPTIMAL:
        open_phases = [phase.name for phase in found.solution.phases if abs(phase.value - phase.bound) > 1e-6]
        told.append(f"it is not proved that no better quotas exist ({', '.join(open_phases)})")
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


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
