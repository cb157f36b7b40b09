"""The page of a plan of MIG layouts: demand, GPUs before and after, drains, files, and what else would fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from islander.cluster import names
from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.mig import Geometry, geometry_for
from islander.policy.reasons import ReasonText
from islander.policy.settings import PolicySettings
from planner.mig.check import check_mig_plan
from planner.mig.fleet import Fleet
from planner.mig.gpus import FleetGpu
from planner.mig.options import MigOptions
from planner.mig.plan import DemandLine, Drain, GpuLayout, MigPlan, NotTarget, UnmetDemand
from planner.plan_words import reason
from planner.render.mig import profile_size, title_lines
from planner.render.report.by_hand import budgets_of
from planner.render.report.drawing import Drawing
from planner.render.report.files import shown_files
from planner.render.report.frame import judged, page
from planner.render.report.mig_by_hand import FOLDER, mig_by_hand
from planner.render.report.mig_strips import GpuRow, change_words, drawing, rows_of, short_profile
from planner.render.report.palette import Colour, Legend, colour_of

# Kinds of nodes that are drawn; what is beyond is told in words.
MOST_DRAWN = 60


@dataclass(frozen=True, slots=True)
class Wanted:
    """A line of the demand, and what is missing of it; `text` is what the docs say of the code."""

    line: DemandLine
    missing: UnmetDemand | None
    text: ReasonText | None


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes that look and change alike; no drawing where there are too many kinds of them."""

    names: tuple[str, ...]
    product: str
    config: str
    before: Drawing | None
    after: Drawing | None
    changes: tuple[str, ...]
    drains: tuple[str, ...]
    stay: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """Nodes that one reason keeps from being changed."""

    code: str
    text: ReasonText
    nodes: tuple[NotTarget, ...]


@dataclass(frozen=True, slots=True)
class Stranded:
    """A pod that has to leave and for which no step is planned."""

    drain: Drain
    text: ReasonText


def mig_html(plan: MigPlan, snapshot: ClusterSnapshot | None, settings: PolicySettings) -> str:
    """Return the page of a plan of MIG layouts.

    Raises
    ------
    PlannerError
        The options of the plan cannot be understood.
    """
    colours = _colours(plan)
    gpus_left = {drain.step: f"GPU {drain.index}" for drain in plan.drains if drain.step}
    parts = {
        "label": names.MIG_CONFIG,
        "demand": list(_demand(plan)),
        "nodes": _nodes(plan, _seen(plan, snapshot), colours),
        "seen": snapshot is not None,
        "legend": list(_legend(plan, colours)),
        "rooms": _rooms(plan),
        "gpu_of": gpus_left,
        "budgets": budgets_of(snapshot) if snapshot is not None else {},
        "stranded": [Stranded(drain, reason(drain.code)) for drain in plan.drains if not drain.step],
        "closed": _closed(plan),
        "files": shown_files(plan.files),
        "by_hand": mig_by_hand(plan, {pod.key: pod.uid for pod in snapshot.pods} if snapshot is not None else {}),
        "folder": FOLDER,
    }
    judgement = judged(plan, snapshot, settings, check_mig_plan) if snapshot is not None else None
    return page("mig.html.j2", plan, judgement, [str(line) for line in title_lines(plan)], parts)


def _demand(plan: MigPlan) -> Iterator[Wanted]:
    missing: defaultdict[tuple[str, str, int], list[UnmetDemand]] = defaultdict(list)
    for unmet in plan.unmet:
        missing[unmet.profile, unmet.source, unmet.priority].append(unmet)
    for line in plan.demand:
        waiting = missing[line.profile, line.source, line.priority]
        found = waiting.pop(0) if waiting and line.met < line.count else None
        yield Wanted(line, found, reason(found.code) if found is not None else None)


def _seen(plan: MigPlan, snapshot: ClusterSnapshot | None) -> dict[tuple[str, int], FleetGpu]:
    if snapshot is None:
        return {}
    fleet = Fleet.of(snapshot, MigOptions.from_flags(plan.options))
    return {(node.name, gpu.index): gpu for node in fleet.nodes for gpu in node.gpus}


def _nodes(plan: MigPlan, seen: Mapping[tuple[str, int], FleetGpu], colours: Mapping[str, Colour]) -> list[Nodes]:
    by_node: defaultdict[str, list[GpuLayout]] = defaultdict(list)
    for gpu in plan.gpus:
        by_node[gpu.node].append(gpu)
    alike: defaultdict[tuple[str, tuple[GpuRow, ...]], list[str]] = defaultdict(list)
    for name, gpus in by_node.items():
        alike[plan.node_labels.get(name, ""), rows_of(gpus, seen)].append(name)
    return [
        _alike(called, config, rows, colours if number < MOST_DRAWN else None)
        for number, ((config, rows), called) in enumerate(alike.items())
    ]


def _alike(called: Sequence[str], config: str, rows: Sequence[GpuRow], colours: Mapping[str, Colour] | None) -> Nodes:
    one = called[0] if len(called) == 1 else f"each of {len(called)} nodes"
    return Nodes(
        names=tuple(called),
        product=", ".join(dict.fromkeys(row.look.product for row in rows if row.look.product)),
        config=config,
        before=drawing(f"{one} before", rows, colours, after=False) if colours is not None else None,
        after=drawing(f"{one} after", rows, colours, after=True) if colours is not None else None,
        changes=tuple(words for row in rows if (words := change_words(row))),
        drains=tuple(dict.fromkeys(pod for row in rows for pod in row.look.drains)),
        stay=tuple(f"{row.name}: {words}" for row in rows for words in row.look.stay),
    )


def _profiles(plan: MigPlan) -> list[tuple[str, str]]:
    """Return (profile, product) of every instance that is drawn, each profile once, the largest first."""
    found: dict[str, str] = {}
    for gpu in plan.gpus:
        for instance in (*gpu.before, *gpu.after):
            found.setdefault(instance.profile, gpu.product)
    return sorted(found.items(), key=lambda item: (-profile_size(item[0]), item[0]))


def _colours(plan: MigPlan) -> dict[str, Colour]:
    return {profile: colour_of(position) for position, (profile, _) in enumerate(_profiles(plan))}


def _legend(plan: MigPlan, colours: Mapping[str, Colour]) -> Iterator[Legend]:
    for name, product in _profiles(plan):
        yield Legend(short_profile(name), f"{name}{_facts(geometry_for(product), name)}", colours[name])


def _facts(geometry: Geometry | None, name: str) -> str:
    profile = geometry.profile(name) if geometry is not None else None
    if geometry is None or profile is None:
        return ""
    about = "about " if profile.memory_derived else ""
    return f": {about}{profile.memory_mib} MiB, {profile.size} of {geometry.slots} memory slots"


def _rooms(plan: MigPlan) -> list[tuple[str, int, int]]:
    rows = [("whole GPUs that are idle", plan.before.whole_gpus, plan.after.whole_gpus)]
    profiles = sorted({*plan.before.free_instances, *plan.after.free_instances}, key=lambda p: (-profile_size(p), p))
    free = (plan.before.free_instances, plan.after.free_instances)
    return rows + [(f"free instances of {name}", free[0].get(name, 0), free[1].get(name, 0)) for name in profiles]


def _closed(plan: MigPlan) -> list[Closed]:
    by_code: defaultdict[str, list[NotTarget]] = defaultdict(list)
    for node in plan.not_targets:
        by_code[node.code].append(node)
    ordered = sorted(by_code.items(), key=lambda item: (-len(item[1]), item[0]))
    return [Closed(code, reason(code), tuple(nodes)) for code, nodes in ordered]
