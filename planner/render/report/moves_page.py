"""The page of a plan of moves: nodes before and after, the order, steps and risks, what stays and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.reasons import ReasonText
from islander.policy.settings import PolicySettings
from planner.check import check_plan
from planner.pictures import held_by_workload, pictures, touched_nodes
from planner.plan import MovePlan
from planner.plan_words import by_code, cost, headline, proof, reason
from planner.render.moves import outlook_rows, short_workload
from planner.render.report import strips, waves
from planner.render.report.by_hand import budgets_of, by_hand
from planner.render.report.frame import judged, page
from planner.render.report.palette import Legend, colour_of
from planner.render.strip import letters_by_gpus


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
    """What the snapshot beside the plan adds: the nodes as drawings, and what the steps draw on."""

    nodes: tuple[strips.NodeRow, ...]
    missing: tuple[str, ...]
    legend: tuple[Legend, ...]
    budgets: Mapping[str, int]
    cordoned: frozenset[str]


def moves_html(plan: MovePlan, snapshot: ClusterSnapshot | None, settings: PolicySettings) -> str:
    """Return the page of a plan of moves.

    Raises
    ------
    PlannerError
        The options of the plan cannot be understood.
    """
    cluster = _cluster(plan, snapshot, settings) if snapshot is not None else None
    parts = {
        "cost": cost(plan),
        "cluster": cluster,
        "budgets": cluster.budgets if cluster is not None else {},
        "graph": waves.wave_graph(plan),
        "outlook": outlook_rows(plan),
        "refused": [Refusal(pod.pod, pod.code, pod.message, reason(pod.code)) for pod in plan.unadmitted],
        "held": [
            Held(code, reason(code), tuple(pod.pod for pod in plan.immovable if pod.code == code))
            for code, _ in by_code(plan.immovable)
        ],
        "by_hand": by_hand(plan, cluster.cordoned if cluster is not None else ()),
        "box": (waves.WIDTH, waves.HEIGHT),
    }
    judgement = judged(plan, snapshot, settings, check_plan) if snapshot is not None else None
    return page("moves.html.j2", plan, judgement, [headline(plan), proof(plan)], parts)


def _cluster(plan: MovePlan, snapshot: ClusterSnapshot, settings: PolicySettings) -> Cluster:
    drawn = pictures(plan, snapshot, settings)
    held = held_by_workload(drawn)
    letters = letters_by_gpus(held)
    ordered = sorted(held, key=lambda workload: (-held[workload], workload))
    colours = {workload: colour_of(position) for position, workload in enumerate(ordered)}
    there = {picture.name for picture in drawn}
    return Cluster(
        nodes=tuple(strips.node_row(picture, letters, colours) for picture in drawn),
        missing=tuple(name for name in touched_nodes(plan) if name not in there),
        legend=tuple(
            Legend(letter, short_workload(workload), colours[workload]) for workload, letter in letters.items()
        ),
        budgets=budgets_of(snapshot),
        cordoned=frozenset(node.name for node in snapshot.nodes if node.unschedulable),
    )
