"""Puts the page together: every text goes through the template, which escapes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.reasons import ReasonText
from islander.policy.settings import PolicySettings
from planner.check import check_plan
from planner.pictures import held_by_workload, pictures, touched_nodes
from planner.plan import MovePlan, PlanVerdict, SnapshotFacts
from planner.plan_words import by_code, cost, headline, proof, reason
from planner.render.moves import outlook_rows, short_workload
from planner.render.report import strips, waves
from planner.render.report.by_hand import by_hand
from planner.render.report.palette import Colour, colour_of
from planner.render.strip import letters_by_gpus


@dataclass(frozen=True, slots=True)
class Legend:
    """What a letter and its colour stand for."""

    letter: str
    workload: str
    colour: Colour


@dataclass(frozen=True, slots=True)
class Refusal:
    """A replica that stays pending: its code, what would help, and what the docs say of the code."""

    pod: str
    code: str
    message: str
    text: ReasonText


@dataclass(frozen=True, slots=True)
class Held:
    """Pods that one reason holds where they are."""

    code: str
    text: ReasonText
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the snapshot beside the plan adds: the nodes as drawings, and whether the plan holds there."""

    verdict: PlanVerdict
    same: bool
    taken_at: str
    nodes: tuple[strips.NodeRow, ...]
    missing: tuple[str, ...]
    legend: tuple[Legend, ...]
    budgets: Mapping[str, int]
    cordoned: frozenset[str]


def report_html(plan: MovePlan, snapshot: ClusterSnapshot | None, settings: PolicySettings) -> str:
    """Return the page.

    Parameters
    ----------
    snapshot
        The cluster to draw the nodes from and to judge the plan by; None leaves both out, and the page says so.

    Raises
    ------
    PlannerError
        The options of the plan cannot be understood.
    """
    folder = files("planner.render.report")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["with_code"] = _with_code
    template = environment.from_string((folder / "report.html.j2").read_text(encoding="utf-8"))
    cluster = _cluster(plan, snapshot, settings) if snapshot is not None else None
    return template.render(
        plan=plan,
        css=(folder / "report.css").read_text(encoding="utf-8"),
        headline=headline(plan),
        proof=proof(plan),
        cost=cost(plan),
        cluster=cluster,
        graph=waves.wave_graph(plan),
        outlook=outlook_rows(plan),
        refused=[Refusal(pod.pod, pod.code, pod.message, reason(pod.code)) for pod in plan.unadmitted],
        held=[
            Held(code, reason(code), tuple(pod.pod for pod in plan.immovable if pod.code == code))
            for code, _ in by_code(plan.immovable)
        ],
        by_hand=by_hand(plan, cluster.cordoned if cluster is not None else ()),
        box=(waves.WIDTH, waves.HEIGHT),
        cell=strips.CELL,
        pad=strips.PAD,
    )


def _with_code(text: str) -> Markup:
    """Return escaped text in which what stands between backticks is code."""
    parts = [escape(part) for part in text.split("`")]
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup().join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


def _cluster(plan: MovePlan, snapshot: ClusterSnapshot, settings: PolicySettings) -> Cluster:
    drawn = pictures(plan, snapshot, settings)
    held = held_by_workload(drawn)
    letters = letters_by_gpus(held)
    ordered = sorted(held, key=lambda workload: (-held[workload], workload))
    colours = {workload: colour_of(position) for position, workload in enumerate(ordered)}
    there = {picture.name for picture in drawn}
    return Cluster(
        verdict=check_plan(plan, snapshot, settings),
        same=plan.snapshot.hash == SnapshotFacts.of(snapshot, settings).hash,
        taken_at=snapshot.taken_at,
        nodes=tuple(strips.node_row(picture, letters, colours) for picture in drawn),
        missing=tuple(name for name in touched_nodes(plan) if name not in there),
        legend=tuple(
            Legend(letter, short_workload(workload), colours[workload]) for workload, letter in letters.items()
        ),
        budgets={f"{budget.namespace}/{budget.name}": budget.disruptions_allowed for budget in snapshot.budgets},
        cordoned=frozenset(node.name for node in snapshot.nodes if node.unschedulable),
    )
