"""Whether a quota plan holds: its witness replayed by the policy, its files read again, without a solver.

Codes I1 to I10 are the promises of a plan, V1 to V19 the rules that its files must keep.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import gcd, lcm

from islander.cluster.queues import ClusterQueue, Cohort, Quota
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings, Shape
from planner.plan import PlanVerdict, SnapshotFacts, Violation
from planner.quota.amounts import amount_of
from planner.quota.capacity import FlavorCapacity
from planner.quota.judge import Judge
from planner.quota.plan import Amount, QueueRow, QuotaPlan, WitnessPods
from planner.quota.rooms import Kind, Room, gpus_of_pattern, holds, largest_patterns
from planner.quota.validation import manifests_of, violations

_QUEUE, _COHORT = "ClusterQueue", "Cohort"
_KINDS = frozenset({_QUEUE, _COHORT, "LocalQueue", "ResourceFlavor", "Topology"})
_GROUP = "kueue.x-k8s.io/"


def check_quota(
    plan: QuotaPlan,
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    known_capacities: Sequence[FlavorCapacity] | None = None,
) -> PlanVerdict:
    """Return whether a plan holds on a snapshot, and everything that speaks against it.

    A plan that was made for another snapshot is judged like any other; that it was is a warning.

    Parameters
    ----------
    known_capacities
        Of the plan's flavors, when they have been counted on this very snapshot before.
    """
    if broken := list(sizes_are_sizes(plan)):
        return PlanVerdict(valid=False, violations=broken, warnings=[])
    judge = Judge(plan, snapshot, settings, known_capacities)
    found = [violation for rule in _RULES for violation in rule(judge)]
    warnings = []
    if known_capacities is None and SnapshotFacts.of(snapshot, settings).hash != plan.snapshot.hash:
        warnings.append("the plan was made for another snapshot")
    return PlanVerdict(valid=not found, violations=list(dict.fromkeys(found)), warnings=warnings)


def _number(amount: Amount) -> int:
    return amount if isinstance(amount, int) else 0


def _where(row: QueueRow) -> str:
    return f"{row.kind}/{row.name} {row.flavor}"


def sizes_are_sizes(plan: QuotaPlan) -> Iterator[Violation]:
    """I2: every replica is at least one pod, every pod at least one GPU, and no number of pods is negative."""
    for team in plan.teams:
        if team.gpus < 1 or team.pods < 1:
            yield Violation(team.queue, "I2", f"replicas of {team.team} are {team.pods} pods of {team.gpus} GPUs")
    placed = [(_where(row), pods) for row in plan.queues for pods in row.witness]
    placed += [(f"reserve {reserve.gpus}", pods) for reserve in plan.reserve for pods in reserve.witness]
    for where, pods in placed:
        if pods.gpus < 1 or pods.pods < 0:
            yield Violation(where, "I2", f"the witness places {pods.pods} pods of {pods.gpus} GPUs")


def sums_are_placeable(judge: Judge) -> Iterator[Violation]:
    """I1: for every flavor, the sum of nominal quotas and reserve <= usable GPUs without the nodes that may fail."""
    sums: Counter[str] = Counter()
    for row in judge.gpu_rows:
        sums[row.flavor] += _number(row.nominal.new)
    for flavor in judge.plan.flavors:
        offer = judge.offers.get(flavor.name)
        gone = set(flavor.biggest) if judge.plan.survive_nodes else set()
        usable = sum(node.usable for node in offer.nodes if node.name not in gone) if offer is not None else 0
        if sums[flavor.name] > usable:
            yield Violation(flavor.name, "I1", f"quotas add up to {sums[flavor.name]}, {usable} GPUs are usable")
        if _number(flavor.nominal.new) != sums[flavor.name]:
            yield Violation(flavor.name, "I1", f"its rows add up to {sums[flavor.name]}, not {flavor.nominal.new}")


def all_are_placed_at_once(judge: Judge) -> Iterator[Violation]:
    """I2: the witness of every row is its nominal quota in replicas of its teams, and all fit on the nodes together."""
    index = {kind.shape: s for s, kind in enumerate(judge.kinds)}
    on_node: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(judge.kinds))

    def put(pods: Sequence[WitnessPods]) -> None:
        for entry in pods:
            on_node[entry.node][index[Shape(entry.gpus, entry.island)]] += entry.pods

    for row in judge.gpu_rows:
        placed = sum(entry.pods * entry.gpus for entry in row.witness)
        if placed != row.nominal.new:
            yield Violation(_where(row), "I2", f"the witness places {placed} of {row.nominal.new} GPUs")
        offer = judge.offers.get(row.flavor)
        usable = {node.name for node in offer.nodes} if offer is not None else set()
        for entry in row.witness:
            if entry.node not in usable:
                yield Violation(_where(row), "I2", f"node {entry.node} is no usable node of the flavor")
        own = {Shape(team.gpus, team.island) for team in judge.teams_of[row.name]}
        if row.kind == _QUEUE and any(Shape(entry.gpus, entry.island) not in own for entry in row.witness):
            yield Violation(_where(row), "I2", "the witness places replicas that no team of the queue has")
        put(row.witness)
    for reserve in judge.plan.reserve:
        put(reserve.witness)
        if sum(entry.pods for entry in reserve.witness) != reserve.kept:
            yield Violation(f"reserve {reserve.gpus}", "I2", f"the witness does not place {reserve.kept} pods")
    for node, pattern in sorted(on_node.items()):
        room = judge.rooms.get(node)
        if room is None or not holds(room, judge.kinds, tuple(pattern)):
            shapes = ", ".join(f"{n} x {kind.shape.gpus}" for n, kind in zip(pattern, judge.kinds, strict=True) if n)
            yield Violation(node, "I2", f"the node does not hold {shapes} at the same time")


def guarantees_survive(judge: Judge) -> Iterator[Violation]:
    """I2: with nodes that may fail, no witness uses the biggest of its flavor, and no other node is bigger."""
    if not judge.plan.survive_nodes:
        return
    for flavor in judge.plan.flavors:
        offer, gone = judge.offers.get(flavor.name), set(flavor.biggest)
        if offer is None:
            continue
        sizes = {node.name: _most(judge.rooms[node.name], judge.kinds) for node in offer.nodes}
        if len(gone & sizes.keys()) < min(judge.plan.survive_nodes, len(sizes)):
            yield Violation(flavor.name, "I2", f"{len(gone)} nodes are left out, not {judge.plan.survive_nodes}")
        # Where flavors overlap, more nodes are left out than have to be.
        largest = sorted((sizes[name] for name in gone & sizes.keys()), reverse=True)[: judge.plan.survive_nodes]
        smallest = min(largest, default=0)
        if any(size > smallest for name, size in sizes.items() if name not in gone):
            yield Violation(flavor.name, "I2", "a bigger node than those left out is used")
        if any(entry.node in gone for row in judge.gpu_rows if row.flavor == flavor.name for entry in row.witness):
            yield Violation(flavor.name, "I2", "a guaranteed replica is on a node that may fail")


def _most(room: Room, kinds: tuple[Kind, ...]) -> int:
    return max((gpus_of_pattern(pattern, kinds) for pattern in largest_patterns(room, kinds)), default=0)


def amounts_are_whole_islands(judge: Judge) -> Iterator[Violation]:
    """I3: nominal, borrowing and lending are multiples of what all replicas of the queue are cut from."""
    for row in judge.gpu_rows:
        sizes = {team.gpus * team.pods for team in judge.teams_of[row.name] if team.fits}
        whole = lcm(*sizes)
        island = (whole if whole in sizes else gcd(*sizes)) if sizes and row.kind == _QUEUE else row.island
        for name, amount in (
            ("nominal", row.nominal.new),
            ("borrowing", row.borrowing.new),
            ("lending", row.lending.new),
        ):
            if isinstance(amount, int) and amount % island:
                yield Violation(_where(row), "I3", f"{name} {amount} is no multiple of {island}")


def baselines_are_guaranteed(judge: Judge) -> Iterator[Violation]:
    """I4: for every team, guaranteed replicas + those named as missing >= baseline; they fill the nominal quota."""
    missing: Counter[tuple[str, str, int]] = Counter()
    for unmet in judge.plan.unmet:
        missing[unmet.queue, unmet.team, unmet.gpus] += unmet.missing
    nominal: Counter[str] = Counter()
    for row in judge.gpu_rows:
        nominal[row.name] += _number(row.nominal.new) if row.kind == _QUEUE else 0
    for queue, teams in judge.teams_of.items():
        for team in teams:
            named = missing[queue, team.team, team.gpus * team.pods]
            if team.guaranteed + named < team.baseline:
                yield Violation(queue, "I4", f"{team.guaranteed} of {team.baseline} replicas of {team.team} have quota")
        filled = sum(team.guaranteed * team.gpus * team.pods for team in teams)
        if filled != nominal[queue]:
            yield Violation(queue, "I4", f"replicas fill {filled} of {nominal[queue]} GPUs")


def baselines_are_not_lent(judge: Judge) -> Iterator[Violation]:
    """I5: for every row with a cohort, nominal - lending >= baseline; a queue that is alone lends to nobody."""
    queues = [row for row in judge.gpu_rows if row.kind == _QUEUE and row.cohort]
    shared = Counter((row.cohort, row.flavor) for row in queues)
    for row in queues:
        nominal = _number(row.nominal.new)
        lending = row.lending.new if isinstance(row.lending.new, int) else nominal
        if shared[row.cohort, row.flavor] > 1 and nominal - lending < row.baseline:
            yield Violation(_where(row), "I5", f"{lending} of {nominal} may be lent, {row.baseline} are baseline")


def companions_suffice(judge: Judge) -> Iterator[Violation]:
    """I7: for every queue, the quota of CPU and memory >= what the guaranteed replicas ask for, as far as known."""
    for queue, teams in judge.teams_of.items():
        for resource, one in (("cpu", "cpu_milli"), ("memory", "memory_bytes")):
            need = sum(team.guaranteed * team.pods * getattr(team, one) for team in teams)
            rows = [r for r in judge.plan.queues if (r.name, r.kind, r.resource) == (queue, _QUEUE, resource)]
            offered = sum(amount_of(resource, row.nominal.new) or 0 for row in rows if row.nominal.new is not None)
            if rows and offered < need:
                yield Violation(queue, "I7", f"{resource} for {offered} is less than {need} of its replicas")


def shrinking_is_said(judge: Judge) -> Iterator[Violation]:
    """I8: a queue whose quota shrinks below what it holds is named in the warnings."""
    held: Counter[tuple[str, str, str]] = Counter()
    for queue in judge.snapshot.cluster_queues:
        for usage in queue.reservation or queue.usage:
            held[queue.name, usage.flavor, usage.resource] += usage.total
    for row in judge.gpu_rows:
        old, new = _number(row.nominal.old), _number(row.nominal.new)
        affects = row.kind == _QUEUE and new < old and held[row.name, row.flavor, row.resource] > new
        if affects and not any(warning.startswith(f"queue {row.name}:") for warning in judge.plan.warnings):
            yield Violation(_where(row), "I8", "it shrinks below what it holds, and no warning says so")


def files_say_what_rows_say(judge: Judge) -> Iterator[Violation]:
    """I10: the files hold objects that read back as the new amounts of the rows."""
    for broken in judge.documents.broken:
        yield Violation("files", "I10", broken)
    holders: dict[tuple[str, str], ClusterQueue | Cohort] = {(_QUEUE, n): q for n, q in judge.documents.queues.items()}
    holders |= {(_COHORT, name): cohort for name, cohort in judge.documents.cohorts.items()}
    for row in judge.plan.queues:
        holder = holders.get((row.kind, row.name))
        quota = _quota(holder, row.flavor, row.resource)
        if row.nominal.new is None:
            if quota is not None:
                yield Violation(_where(row), "I10", f"the files still list {row.resource}")
            continue
        wanted = [_amount(row, change.new) for change in (row.nominal, row.borrowing, row.lending)]
        if quota is None or [quota.nominal, quota.borrowing_limit, quota.lending_limit] != wanted:
            yield Violation(_where(row), "I10", f"the files do not say {row.nominal.new} {row.resource}")


def files_say_nothing_else(judge: Judge) -> Iterator[Violation]:
    """I10: the files hold each object once, objects of Kueue only, and no quota beside the rows that is not today's."""
    seen: set[tuple[str, ...]] = set()
    for body in judge.documents.bodies:
        metadata = body.get("metadata")
        names = [metadata.get(key) for key in ("namespace", "name")] if isinstance(metadata, dict) else []
        key = (str(body.get("kind")), *map(str, names))
        if key[0] not in _KINDS or not str(body.get("apiVersion")).startswith(_GROUP):
            yield Violation("files", "I10", f"{key[0]} {key[-1]} is no object of a quota plan")
        elif key in seen:
            yield Violation("files", "I10", f"{key[0]} {key[-1]} is there twice")
        seen.add(key)
    rows = {(row.kind, row.name, row.flavor, row.resource) for row in judge.plan.queues}
    today = dict(_quotas(judge.snapshot.cluster_queues, judge.snapshot.cohorts))
    for at, quota in _quotas(judge.documents.queues.values(), judge.documents.cohorts.values()):
        if at not in rows and today.get(at) != quota:
            kind, name, flavor, resource = at
            yield Violation(f"{kind}/{name} {flavor}", "I10", f"the files give {resource}, and no row says so")


def _quotas(
    queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]
) -> Iterator[tuple[tuple[str, str, str, str], Quota]]:
    holders: list[tuple[str, ClusterQueue | Cohort]] = [(_QUEUE, queue) for queue in queues]
    holders += [(_COHORT, cohort) for cohort in cohorts]
    for kind, holder in holders:
        for group in holder.resource_groups:
            for flavor in group.flavors:
                for quota in flavor.resources:
                    yield (kind, holder.name, flavor.flavor, quota.resource), quota


def _amount(row: QueueRow, amount: Amount) -> int | None:
    return None if amount is None else amount_of(row.resource, amount)


def _quota(holder: ClusterQueue | Cohort | None, flavor: str, resource: str) -> Quota | None:
    groups = holder.resource_groups if holder is not None else ()
    found = (f.quota(resource) for group in groups for f in group.flavors if f.flavor == flavor)
    return next(found, None)


def files_keep_the_rules(judge: Judge) -> Iterator[Violation]:
    """V1 to V19: the files break no rule that today's objects do not break in the same place."""
    before = manifests_of(judge.snapshot)
    complete = frozenset(judge.snapshot.kinds)
    known = {(v.rule, v.object, v.field) for v in violations(before, (), complete)}
    # A cluster may hold dead references; of objects without a manifest, as anonymising leaves them, none is known.
    kept = {f"{_QUEUE}/{queue.name}" for queue in judge.snapshot.cluster_queues if not queue.manifest}
    kept |= {f"{_COHORT}/{cohort.name}" for cohort in judge.snapshot.cohorts if not cohort.manifest}
    kept |= {f"LocalQueue/{q.namespace}/{q.name}" for q in judge.snapshot.local_queues if not q.manifest}
    kept |= {f"ResourceFlavor/{f.name}" for f in judge.snapshot.resource_flavors if not f.manifest}
    for found in violations(judge.documents.bodies, before, complete):
        of_today = found.rule == "V17" and found.object in kept
        if not of_today and (found.rule, found.object, found.field) not in known:
            yield Violation(found.object, found.rule, f"{found.field}: {found.message}")


_RULES = (
    sums_are_placeable,
    all_are_placed_at_once,
    guarantees_survive,
    amounts_are_whole_islands,
    baselines_are_guaranteed,
    baselines_are_not_lent,
    companions_suffice,
    shrinking_is_said,
    files_say_what_rows_say,
    files_say_nothing_else,
    files_keep_the_rules,
)
