"""The rows of a quota plan: every quota before and after, with the reason in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from islander.cluster.queues import ClusterQueue, Cohort, FlavorQuotas, Quota
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.plan_words import amount
from planner.quota.amounts import amount_text
from planner.quota.capacity import is_gpu_resource
from planner.quota.plan import Amount, Change, QueueRow, WitnessPods
from planner.quota.recommendation import COHORT, QUEUE, Guarantee, Place, Recommendation
from planner.quota.target import Target
from planner.quota.teams import QueueDemand


def rows_of(
    recommendation: Recommendation, target: Target, snapshot: ClusterSnapshot, settings: PolicySettings
) -> list[QueueRow]:
    """Return the rows by cohort, kind, name, and then in the order of the object."""
    before: dict[tuple[str, str], ClusterQueue | Cohort] = {(QUEUE, q.name): q for q in snapshot.cluster_queues}
    before |= {(COHORT, c.name): c for c in snapshot.cohorts}
    after: list[tuple[str, str, ClusterQueue | Cohort]] = [(QUEUE, q.cohort, q) for q in target.queues]
    after += [(COHORT, cohort.parent, cohort) for cohort in target.cohorts]
    told = _Reasons(recommendation, settings)
    found = []
    for kind, cohort, holder in sorted(after, key=lambda entry: (entry[1], entry[0], entry[2].name)):
        found += list(_rows(kind, cohort, before.get((kind, holder.name)), holder, told, settings))
    return found


def _rows(
    kind: str,
    cohort: str,
    before: ClusterQueue | Cohort | None,
    after: ClusterQueue | Cohort,
    told: _Reasons,
    settings: PolicySettings,
) -> Iterator[QueueRow]:
    """Yield the rows of one holder that the plan is about; quotas that are not of its flavors are none of them."""
    old, new = _flavors(before), _flavors(after)
    for flavor in dict.fromkeys([*old, *new]):
        guarantee = told.guarantees.get((kind, after.name, flavor))
        gone = flavor not in new
        if guarantee is None and not gone:
            continue
        was, becomes = old.get(flavor), new.get(flavor)
        listed = was if becomes is None else becomes
        for quota in listed.resources if listed is not None else ():
            resource = quota.resource
            q_old = was.quota(resource) if was is not None else None
            q_new = becomes.quota(resource) if becomes is not None else None
            is_gpu = guarantee is not None and resource == guarantee.resource
            yield QueueRow(
                name=after.name,
                cohort=cohort,
                flavor=flavor,
                resource=resource,
                nominal=_change(q_old, q_new, "nominal", settings),
                borrowing=_change(q_old, q_new, "borrowing_limit", settings),
                lending=_change(q_old, q_new, "lending_limit", settings),
                baseline=guarantee.baseline if guarantee is not None and is_gpu else 0,
                witness=witness_of(guarantee.places) if guarantee is not None and is_gpu else [],
                why=told.why(guarantee, flavor, q_old, q_new, is_gpu=is_gpu),
                kind=kind,
                island=guarantee.island if guarantee is not None and is_gpu else 0,
            )


def witness_of(places: Sequence[Place]) -> list[WitnessPods]:
    """Return places as the plan writes them."""
    return [WitnessPods(place.node, place.shape.gpus, place.shape.island, place.pods) for place in places]


def shown(resource: str, value: int | None, settings: PolicySettings) -> Amount:
    """Return an amount as a plan writes it: devices as a number, everything else as a quantity."""
    if value is None or resource in settings.gpu_resources:
        return value
    return amount_text(resource, value)


def _flavors(holder: ClusterQueue | Cohort | None) -> dict[str, FlavorQuotas]:
    groups = holder.resource_groups if holder is not None else ()
    return {flavor.flavor: flavor for group in groups for flavor in group.flavors}


def _change(old: Quota | None, new: Quota | None, field: str, settings: PolicySettings) -> Change:
    amounts = [
        None if quota is None else shown(quota.resource, getattr(quota, field), settings) for quota in (old, new)
    ]
    return Change(amounts[0], amounts[1])


@dataclass(frozen=True, slots=True)
class _Sums:
    """GPUs of nominal quota in a flavor today, and what can be placed there."""

    today: int
    placeable: int


class _Reasons:
    """Says why a quota is what it is."""

    def __init__(self, recommendation: Recommendation, settings: PolicySettings) -> None:
        self.guarantees: dict[tuple[str, str, str], Guarantee] = {
            (g.kind, g.name, g.flavor): g for g in recommendation.guarantees
        }
        self._demands: Mapping[str, QueueDemand] = {demand.queue: demand for demand in recommendation.demands}
        self._replaced = recommendation.flavors.replaced
        self._from = {new: old for old, several in self._replaced.items() for new in several}
        self._settings = settings
        today: defaultdict[str, int] = defaultdict(int)
        for guarantee in recommendation.guarantees:
            today[guarantee.flavor] += guarantee.today or 0
        self._sums = {
            flavor.name: _Sums(today[flavor.name], recommendation.placeable({i}, recommendation.gone))
            for i, flavor in enumerate(recommendation.flavors.flavors)
        }
        self._spare = bool(recommendation.gone)

    def why(
        self, guarantee: Guarantee | None, flavor: str, old: Quota | None, new: Quota | None, *, is_gpu: bool
    ) -> str:
        """Return the reasons of one row in one line."""
        if new is None or guarantee is None:
            replacing = self._replaced.get(flavor, ())
            return f"{flavor} mixes products: {', '.join(replacing)} instead" if replacing else "no longer listed"
        if not is_gpu:
            return self._why_beside(guarantee, old, new)
        parts = ["shared by the cohort"] if guarantee.kind == COHORT else list(self._why_gpus(guarantee))
        return "; ".join([*parts, *self._why_changed(guarantee)])

    def _why_gpus(self, guarantee: Guarantee) -> Iterator[str]:
        demand = self._demands[guarantee.name]
        left = guarantee.baseline
        for replicas, number in guarantee.replicas:
            always = min(number, replicas.baseline, left // replicas.gpus)
            left -= always * replicas.gpus
            if always:
                yield f"{always} x {replicas.gpus} always ({replicas.source})"
        rest = guarantee.nominal - guarantee.baseline
        if rest:
            yield f"{rest} as its share" if len(self._demands) > 1 else f"{rest} that nobody else asks for"
        elif not guarantee.nominal:
            yield "nothing can be placed" if not self._sums[guarantee.flavor].placeable else "0, to borrow only"
        if demand.most is not None and demand.limited and guarantee.nominal >= demand.most:
            yield f"never more than {demand.most}"

    def _why_changed(self, guarantee: Guarantee) -> Iterator[str]:
        if guarantee.flavor in self._from and guarantee.today is None:
            yield f"in the place of {self._from[guarantee.flavor]}"
        if guarantee.today is None or guarantee.today == guarantee.nominal:
            return
        if guarantee.today % guarantee.island:
            yield f"{guarantee.today} is no multiple of {guarantee.island}"
        sums = self._sums[guarantee.flavor]
        if sums.today > sums.placeable:
            lost = " when nodes fail" if self._spare else ""
            yield f"quotas add up to {sums.today}, {sums.placeable} can be placed{lost}"
        elif sums.today < sums.placeable and guarantee.today < guarantee.nominal:
            yield f"{amount(sums.placeable - sums.today, 'GPU')} in no quota so far"

    def _why_beside(self, guarantee: Guarantee, old: Quota | None, new: Quota) -> str:
        if is_gpu_resource(new.resource, self._settings):
            return f"stays; the plan is about {guarantee.resource}"
        if old is not None and old == new:
            return "suffices"
        return f"what comes with {amount(guarantee.nominal, 'GPU')} of {guarantee.flavor}"
