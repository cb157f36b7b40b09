"""What `plan quota` does: read, plan, show, and write the files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from islander.policy.settings import PolicySettings
from planner.console import Terminal
from planner.interruption import end_beside_a_solver
from planner.output import Format
from planner.plan_file import write_plan
from planner.plan_output import INTERRUPTED, NOT_IN_FULL, PROPOSED, markdown, print_table, write_files
from planner.quota.options import QuotaOptions
from planner.quota.plan import QuotaPlan
from planner.quota.sources import yaml_sources
from planner.render import quota as showing
from planner.render.table import Table
from planner.solve_progress import SolveProgress
from planner.source import Source
from planner.verbs import read_source, warn, wrote_document, wrote_table

_NO_ANSWER = "no-answer-in-time"
_INTERRUPTED_WARNING = "the search was interrupted"
# Tables for people end here; -o wide shows everything.
_ROWS_SHOWN = 40


def plan_quotas(
    source: Source,
    terminal: Terminal,
    output: Format,
    options: QuotaOptions,
    *,
    directory: Path | None = None,
    file: Path | None = None,
    detailed: bool = False,
) -> int:
    """Print a `QuotaPlan`, write its files to `directory` and itself to `file`, and return the exit code."""
    # The solver takes long to load; nothing else does without it.
    from planner.quota.planning import plan_quota

    snapshot = read_source(source, terminal)
    sources = yaml_sources(source.files)
    try:
        with SolveProgress(terminal) as progress:
            plan = plan_quota(snapshot, PolicySettings(), options, datetime.now(UTC), progress, sources)
    except KeyboardInterrupt:
        terminal.note("interrupted before any quotas were found")
        end_beside_a_solver(INTERRUPTED)
        return INTERRUPTED
    warn(plan.warnings, terminal)
    if file is not None:
        write_plan(plan, file)
    if directory is not None and plan.outcome == _NO_ANSWER:
        terminal.note(f"nothing is written to {directory}: there was no answer in time; see --time-limit")
        directory = None
    if directory is not None:
        write_files(plan.files, directory)
    show(plan, terminal, output)
    _tell_what_next(plan, terminal, file, directory)
    return exit_code(plan, detailed=detailed)


def show(plan: QuotaPlan, terminal: Terminal, output: Format) -> None:
    """Print a plan in the format asked for."""
    if wrote_document(plan, terminal, output):
        return
    if output is Format.MARKDOWN:
        terminal.write(plan_markdown(plan))
    elif not wrote_table(showing.quota_table(plan, wide=True), terminal, output):
        print_plan(plan, terminal, wide=output is Format.WIDE)


def print_plan(plan: QuotaPlan, terminal: Terminal, *, wide: bool = False) -> None:
    """Print a plan for people."""
    terminal.lines(_title(plan))
    for table in _tables(plan, wide=wide):
        print_table(table, terminal, wide=wide, most=_ROWS_SHOWN)


def plan_markdown(plan: QuotaPlan) -> str:
    """Return a plan as Markdown, ready for a merge request."""
    return markdown(_title(plan), _tables(plan, wide=False))


def _title(plan: QuotaPlan) -> list[Text | str]:
    return [*showing.title_lines(plan), showing.identity_line(plan), *showing.object_lines(plan)]


def _tables(plan: QuotaPlan, *, wide: bool) -> list[Table]:
    tables = [showing.quota_table(plan, wide=wide), showing.flavor_table(plan), showing.unmet_table(plan)]
    tables.append(showing.finding_table(plan))
    return [*tables, showing.witness_table(plan), showing.phase_table(plan)] if wide else tables


def exit_code(plan: QuotaPlan, *, detailed: bool) -> int:
    """Return the exit code that a plan ends with."""
    if any(warning.startswith(_INTERRUPTED_WARNING) for warning in plan.warnings):
        return INTERRUPTED
    if not detailed:
        return 0
    if plan.unmet or plan.outcome == _NO_ANSWER:
        return NOT_IN_FULL
    return PROPOSED if plan.proposes else 0


def _tell_what_next(plan: QuotaPlan, terminal: Terminal, file: Path | None, directory: Path | None) -> None:
    if file is not None:
        terminal.note(f"wrote {file}")
    if directory is not None and plan.files:
        terminal.note(f"wrote {', '.join(plan.files)} to {directory}; look at them, then: kubectl apply -k {directory}")
    elif plan.proposes:
        terminal.note("the objects as files: --output-dir DIR")
    if plan.proposes:
        name = str(file) if file is not None else "PLAN (write it with --output-file)"
        terminal.note(f"judge it again before it is applied: islander check {name}")
