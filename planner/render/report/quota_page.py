"""The page of a quota plan: sums, quotas old and new with the reason, their placement, what is wrong today."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.quota.check import check_quota
from planner.quota.finding_codes import FINDINGS, QuotaFinding, Severity
from planner.quota.plan import Change, FlavorRow, QueueRow, QuotaPlan, Unmet
from planner.render.quota import limit_cell, nominal_cell, title_lines
from planner.render.report.files import shown_files, writing
from planner.render.report.frame import judged, page
from planner.render.report.palette import Legend, colour_of
from planner.render.report.witness import flavor_pictures, held_by_owner, owner_of
from planner.render.strip import letters_by_gpus

FOLDER = "quota"
_KUSTOMIZATION = "kustomization.yaml"
_HEADINGS = {
    Severity.ERROR: "Errors: Kueue refuses it, or what is admitted cannot run",
    Severity.WARNING: "Warnings: it will bite",
    Severity.INFO: "Good to know",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """An amount of GPUs and its share of the largest, in percent."""

    id: str
    name: str
    gpus: int
    share: float


@dataclass(frozen=True, slots=True)
class Quota:
    """A row of the quotas in words; `rises` is None where no number changes into another."""

    row: QueueRow
    owner: str
    nominal: str
    borrowing: str
    lending: str
    rises: bool | None


@dataclass(frozen=True, slots=True)
class Found:
    """The findings of one severity."""

    severity: str
    heading: str
    findings: tuple[QuotaFinding, ...]


@dataclass(frozen=True, slots=True)
class Homeless:
    """A baseline without a place, and what the docs say would help."""

    unmet: Unmet
    cure: str


@dataclass(frozen=True, slots=True)
class Unusable:
    """Nodes of a flavor that count for nothing, for one reason."""

    flavor: str
    why: str
    nodes: tuple[str, ...]


def quota_html(plan: QuotaPlan, snapshot: ClusterSnapshot | None, settings: PolicySettings) -> str:
    """Return the page of a quota plan."""
    held = held_by_owner(plan)
    letters = letters_by_gpus(held)
    ordered = sorted(held, key=lambda owner: (-held[owner], owner))
    colours = {owner: colour_of(position) for position, owner in enumerate(ordered)}
    resources = {flavor.resource for flavor in plan.flavors}
    quotas = [_quota(row) for row in plan.queues]
    parts = {
        "bars": _bars(plan, resources),
        "quotas": [quota for quota in quotas if quota.row.resource in resources],
        "beside": [quota for quota in quotas if quota.row.resource not in resources],
        "flavors": [(flavor, _arrow(flavor.nominal)) for flavor in plan.flavors],
        "pictures": flavor_pictures(plan, snapshot, letters, colours),
        "legend": [Legend(letter, owner, colours[owner]) for owner, letter in letters.items()],
        "seen": snapshot is not None,
        "unmet": [_homeless(unmet) for unmet in plan.unmet],
        "found": list(_found(plan.findings)),
        "outside": [(f.name, holder, gpus) for f in plan.flavors for holder, gpus in sorted(f.held_outside.items())],
        "unusable": [group for flavor in plan.flavors for group in _unusable(flavor)],
        "files": shown_files(plan.files),
        "folder": FOLDER,
        "writing": writing(plan.files, FOLDER),
        "kustomized": _KUSTOMIZATION in plan.files,
    }
    judgement = judged(plan, snapshot, settings, check_quota) if snapshot is not None else None
    return page("quota.html.j2", plan, judgement, [str(line) for line in title_lines(plan)], parts)


def _bars(plan: QuotaPlan, resources: set[str]) -> list[Bar]:
    totals = plan.totals
    rows = [row for row in plan.queues if row.resource in resources]
    old, new = (
        sum(amount for row in rows if isinstance(amount := getattr(row.nominal, side), int)) for side in ("old", "new")
    )
    amounts = (
        ("arithmetic", "All nodes of the flavors, added up", totals.arithmetic),
        ("usable", "Usable: nodes that take pods, less what is held outside", totals.usable),
        ("placeable", "Placeable in whole replicas", totals.placeable),
        ("without-biggest", "Placeable without the biggest node", totals.placeable_without_biggest_node),
        ("quotas-old", "In quotas today", old),
        ("quotas-new", "In quotas of this plan", new),
    )
    most = max(1, *(gpus for _, _, gpus in amounts))
    return [Bar(key, name, gpus, round(100 * max(gpus, 0) / most, 2)) for key, name, gpus in amounts]


def _quota(row: QueueRow) -> Quota:
    old, new = row.nominal.old, row.nominal.new
    rises = new > old if isinstance(old, int) and isinstance(new, int) and old != new else None
    return Quota(row, owner_of(row), _arrow(row.nominal), _limit(row.borrowing), _limit(row.lending), rises)


def _limit(change: Change) -> str:
    return str(limit_cell(change)).replace(" -> ", " → ")


def _arrow(change: Change) -> str:
    return str(nominal_cell(change)).replace(" -> ", " → ")


def _homeless(unmet: Unmet) -> Homeless:
    text = next((text for code, text in FINDINGS.items() if code.value == unmet.code), None)
    return Homeless(unmet, text.cure if text is not None else "")


def _found(findings: Sequence[QuotaFinding]) -> Iterator[Found]:
    for severity, heading in _HEADINGS.items():
        if here := tuple(finding for finding in findings if finding.severity == severity):
            yield Found(severity.value, heading, here)


def _unusable(flavor: FlavorRow) -> list[Unusable]:
    by_why: defaultdict[str, list[str]] = defaultdict(list)
    for node, why in sorted(flavor.unusable.items()):
        by_why[why].append(node)
    return [Unusable(flavor.name, why, tuple(nodes)) for why, nodes in sorted(by_why.items())]
