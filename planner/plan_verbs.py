"""What the verbs about plans do: plan, judge, report."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.check import check_plan
from planner.console import Terminal
from planner.errors import PlannerError
from planner.interruption import Interruption
from planner.mig.plan import MigPlan
from planner.options import PlanOptions
from planner.output import Format
from planner.pictures import NodePicture, pictures
from planner.plan import MovePlan, PlanVerdict
from planner.plan_file import AnyPlan, read_any_plan, write_output, write_plan
from planner.plan_output import (
    NOT_IN_FULL,
    NOT_VALID,
    PROPOSED,
    ROWS_SHOWN,
    markdown,
    print_table,
    tell_of_more,
    until_interrupted,
)
from planner.plan_words import amount
from planner.quota.plan import QuotaPlan
from planner.render import moves as showing
from planner.render.table import Column, Table
from planner.solve_progress import SolveProgress
from planner.source import Source
from planner.verbs import read_source, warn, wrote_document, wrote_table


def plan_to_move(
    source: Source,
    terminal: Terminal,
    output: Format,
    options: PlanOptions,
    file: Path | None,
    *,
    detailed: bool = False,
) -> int:
    """Print a `MovePlan`, write it to `file` if there is one, and return the exit code."""

    def work(stop: Interruption) -> int:
        snapshot = read_source(source, terminal)
        with stop.by_ctrl_c():
            # The solver takes long to load; every other verb does without it.
            from planner.moves import plan_moves

            with SolveProgress(terminal) as progress:
                plan = plan_moves(snapshot, PolicySettings(), options, datetime.now(UTC), progress, stop)
            _show_plan(plan, snapshot, terminal, output, file)
        return exit_code(plan, detailed=detailed)

    return until_interrupted(terminal, work)


def _show_plan(
    plan: MovePlan, snapshot: ClusterSnapshot, terminal: Terminal, output: Format, file: Path | None
) -> None:
    warn(plan.warnings, terminal)
    if file is not None:
        write_plan(plan, file)
    if wrote_document(plan, terminal, output):
        return
    drawn = pictures(plan, snapshot, PolicySettings())
    if output is Format.MARKDOWN:
        terminal.write(plan_markdown(plan, drawn, terminal))
    elif not wrote_table(showing.step_table(plan), terminal, output):
        print_plan(plan, drawn, terminal, wide=output is Format.WIDE)
        _print_what_next(plan, terminal, file)


def exit_code(plan: MovePlan, *, detailed: bool) -> int:
    """Return the exit code that a plan ends with."""
    if not detailed:
        return 0
    if plan.unadmitted or plan.outcome in ("infeasible", "no-answer-in-time"):
        return NOT_IN_FULL
    return PROPOSED if plan.steps else 0


def print_plan(plan: MovePlan, drawn: list[NodePicture], terminal: Terminal, *, wide: bool = False) -> None:
    """Print a plan for people: what it achieves, the nodes, the steps and their risks, what stays as it is."""
    terminal.lines([*showing.title_lines(plan), showing.identity_line(plan)])
    print_body(plan, drawn, terminal, wide=wide)
    print_table(showing.outlook_table(plan), terminal, wide=True)


def print_body(
    plan: MovePlan,
    drawn: list[NodePicture],
    terminal: Terminal,
    *,
    wide: bool = False,
    letters: Mapping[str, str] | None = None,
) -> None:
    """Print the nodes, the steps and their risks, who starts, and what stays as it is.

    Parameters
    ----------
    letters
        Which letter stands for which workload; by default those of the nodes that are shown.
    """
    shown = drawn if wide else drawn[:ROWS_SHOWN]
    if shown:
        terminal.lines([""])
        letters = showing.letters_for(shown) if letters is None else letters
        terminal.table(showing.node_table(shown, letters, terminal.glyphs))
        tell_of_more(len(drawn) - len(shown), "nodes", terminal)
        terminal.lines([showing.legend(shown, letters)])
    tables = [showing.step_table(plan, wide=wide, risks=wide), showing.admission_table(plan)]
    tables += [showing.refusal_table(plan)]
    for table in tables:
        print_table(table, terminal, wide=wide)
        if table is tables[0] and not wide:
            terminal.lines(showing.risk_lines(plan))
    if wide:
        print_table(showing.immovable_table(plan), terminal, wide=True)
        print_table(showing.phase_table(plan), terminal, wide=True)
    elif plan.immovable:
        terminal.lines(["", showing.immovable_line(plan)])


def plan_markdown(plan: MovePlan, drawn: list[NodePicture], terminal: Terminal) -> str:
    """Return a plan as Markdown, ready for a merge request."""
    blocks: list[Table | str] = []
    if drawn:
        letters = showing.letters_for(drawn)
        blocks += [showing.node_table(drawn, letters, terminal.glyphs, code=True), showing.legend(drawn, letters)]
    blocks += [showing.step_table(plan), showing.admission_table(plan), showing.refusal_table(plan)]
    blocks += [showing.outlook_table(plan), showing.immovable_line(plan)]
    return markdown([*showing.title_lines(plan), showing.identity_line(plan)], blocks)


def judge_plan(name: str, source: Source, terminal: Terminal, output: Format) -> int:
    """Print the `PlanVerdict` on a plan of any kind and return the exit code: 4 when it does not hold."""
    plan = read_any_plan(name)
    snapshot = _cluster_beside(name, source, terminal)
    verdict = verdict_on(plan, snapshot)
    verdict = structs.replace(verdict, warnings=[*doubts(plan, datetime.now(UTC)), *verdict.warnings])
    warn(verdict.warnings, terminal)
    if not wrote_document(verdict, terminal, output) and not wrote_table(_violation_table(verdict), terminal, output):
        if verdict.valid:
            terminal.lines([f"{plan.id} holds: {_size(plan)}"])
        else:
            terminal.lines([f"{plan.id} does not hold: {amount(len(verdict.violations), 'violation')}", ""])
            terminal.table(_violation_table(verdict))
    return 0 if verdict.valid else NOT_VALID


def verdict_on(plan: AnyPlan, snapshot: ClusterSnapshot) -> PlanVerdict:
    """Return the verdict of the judge of the plan's kind."""
    if isinstance(plan, MigPlan):
        from planner.mig.check import check_mig_plan

        return check_mig_plan(plan, snapshot, PolicySettings())
    if isinstance(plan, QuotaPlan):
        from planner.quota.check import check_quota

        return check_quota(plan, snapshot, PolicySettings())
    return check_plan(plan, snapshot, PolicySettings())


def _size(plan: AnyPlan) -> str:
    if isinstance(plan, MigPlan):
        cost = plan.cost
        cut = f"{amount(cost.gpus_changed, 'GPU')} of {amount(cost.nodes_changed, 'node')} cut anew"
        return f"{cut}, {amount(cost.pods_drained, 'pod')} drained first"
    if isinstance(plan, QuotaPlan):
        guaranteed = sum(pods.pods * pods.gpus for row in plan.queues for pods in row.witness)
        return f"{amount(len(plan.changed), 'quota')} to change, {guaranteed} GPUs guaranteed at the same time"
    waves = len({step.wave for step in plan.steps})
    return f"{amount(len(plan.steps), 'step')} in {amount(waves, 'wave')}, {len(plan.admits)} admitted"


def doubts(plan: AnyPlan, now: datetime) -> list[str]:
    """Return what speaks for making a new plan, whatever the cluster looks like."""
    found = []
    if plan.with_id().id != plan.id:
        found.append(f"the plan was changed after it was made: its content does not belong to the id {plan.id}")
    try:
        expires = datetime.fromisoformat(plan.expires_at)
    except ValueError:
        return [*found, f"expiresAt {plan.expires_at[:40]!r} is no time"]
    if expires.tzinfo is None or expires < now:
        found.append(f"the plan expired at {plan.expires_at}; what holds now may be better done by a new one")
    return found


def write_report(name: str, source: Source, terminal: Terminal, file: Path | None) -> None:
    """Write the HTML report of a plan of any kind to a file, or to stdout."""
    from planner.render.report.page import report_html

    plan = read_any_plan(name)
    snapshot = None
    if named_source(source):
        snapshot = _cluster_beside(name, source, terminal)
    else:
        try:
            snapshot = read_source(source, terminal)
        except PlannerError as problem:
            terminal.note(f"warning: the report does not draw the nodes: {problem}")
    html = report_html(plan, snapshot, PolicySettings())
    if file is None:
        terminal.write(html)
        return
    write_output(html, file)
    terminal.note(f"wrote {file}")


def named_source(source: Source) -> bool:
    """Return whether some flag says where the cluster comes from."""
    return bool(source.files or source.extender or source.kubeconfig or source.context)


def _cluster_beside(name: str, source: Source, terminal: Terminal) -> ClusterSnapshot:
    if name == "-" and "-" in source.files:
        raise PlannerError("plan and --snapshot cannot both come from stdin; name a file for one of them")
    return read_source(source, terminal)


def _print_what_next(plan: MovePlan, terminal: Terminal, file: Path | None) -> None:
    if file is not None:
        terminal.note(f"wrote {file}")
    if plan.steps:
        name = str(file) if file is not None else "PLAN (write it with --output-file)"
        terminal.note(f"it expires at {plan.expires_at}; judge it again: islander check {name}")
        terminal.note(f"for the review: islander report {name} --output-file report.html")


def _violation_table(verdict: PlanVerdict) -> Table:
    return Table(
        (Column("STEP"), Column("CODE"), Column("WHY", shrinks=True)),
        tuple((violation.step or "-", violation.code, violation.message) for violation in verdict.violations),
    )
