"""What all pages have in common: the skeleton, the judgement, and that every text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.plan import PlanVerdict, SnapshotFacts
from planner.plan_file import AnyPlan
from planner.render.report.drawing import CELL

_PACKAGE, _FOLDER = "planner.render.report", "templates"
P = TypeVar("P", bound=AnyPlan)


@dataclass(frozen=True, slots=True)
class Judged:
    """Whether the plan holds on the snapshot beside it.

    Attributes
    ----------
    same
        True when it is the snapshot that the plan was made for.
    doubts
        What the judge warns of and the plan itself does not.
    """

    verdict: PlanVerdict
    same: bool
    doubts: tuple[str, ...]


def judged(
    plan: P,
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    judge: Callable[[P, ClusterSnapshot, PolicySettings], PlanVerdict],
) -> Judged:
    """Return what the judge of the plan's kind says.

    Raises
    ------
    PlannerError
        The options of the plan cannot be understood.
    """
    verdict = judge(plan, snapshot, settings)
    same = plan.snapshot.hash == SnapshotFacts.of(snapshot, settings).hash
    # That it is another snapshot is told in the same breath as the verdict.
    new = (w for w in verdict.warnings if w not in plan.warnings and "another snapshot" not in w)
    return Judged(verdict, same, tuple(new))


def page(
    template: str, plan: AnyPlan, judgement: Judged | None, lines: Sequence[str], parts: Mapping[str, object]
) -> str:
    """Return the page of a plan.

    Parameters
    ----------
    judgement
        None when there is no snapshot beside the plan.
    lines
        The headline, and what is written under it.
    parts
        What the template of the kind shows.
    """
    return (
        _environment()
        .get_template(template)
        .render(
            plan=plan,
            css=_css(),
            headline=lines[0],
            lines=[line for line in lines[1:] if line],
            judgement=judgement,
            edited=plan.with_id().id != plan.id,
            cell=CELL,
            **parts,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(_PACKAGE, _FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["with_code"] = _with_code
    return environment


def _css() -> str:
    return (files(_PACKAGE) / _FOLDER / "report.css").read_text(encoding="utf-8")


def _with_code(text: str) -> Markup:
    """Return escaped text in which what stands between backticks is code."""
    parts = [escape(part) for part in text.split("`")]
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup().join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))
