"""What `plan mig` does: read the cluster, plan, show, write the files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from islander.policy.settings import PolicySettings
from planner.console import Terminal
from planner.interruption import Interruption
from planner.mig.demand_file import read_demand
from planner.mig.options import MigOptions, wanted_profile
from planner.mig.plan import MigPlan
from planner.options import SolveLimits
from planner.output import Format
from planner.plan_file import write_plan
from planner.plan_output import NOT_IN_FULL, PROPOSED, markdown, print_table, until_interrupted, write_files
from planner.render import mig as showing
from planner.render.table import Table
from planner.solve_progress import SolveProgress
from planner.source import Source
from planner.verbs import read_source, warn, wrote_document, wrote_table


def asked_options(
    profiles: Sequence[str],
    demand: Path | None,
    *,
    allow_drain: bool,
    nodes: str,
    strategy: str,
    limits: SolveLimits,
) -> MigOptions:
    """Return the options that the flags give.

    Raises
    ------
    PlannerError
        A profile is none, or the demand file is not what it must be.
    """
    wanted = [wanted_profile(text) for text in profiles]
    from_file, models = read_demand(demand) if demand is not None else ((), ())
    return MigOptions(
        profiles=(*wanted, *from_file),
        models=models,
        asked=bool(profiles) or demand is not None,
        allow_drain=allow_drain,
        nodes=nodes,
        strategy=strategy,
        limits=limits,
    )


def plan_to_cut(
    source: Source,
    terminal: Terminal,
    output: Format,
    options: MigOptions,
    file: Path | None,
    folder: Path | None,
    *,
    detailed: bool = False,
) -> int:
    """Print a `MigPlan`, write it and its files where asked, and return the exit code."""

    def work(stop: Interruption) -> int:
        snapshot = read_source(source, terminal)
        with stop.by_ctrl_c():
            # The solver takes long to load; every other verb does without it.
            from planner.mig.planning import plan_mig

            with SolveProgress(terminal) as progress:
                plan = plan_mig(snapshot, PolicySettings(), options, datetime.now(UTC), progress, stop)
            _show_plan(plan, terminal, output, file, folder)
        return exit_code(plan, detailed=detailed)

    return until_interrupted(terminal, work)


def _show_plan(plan: MigPlan, terminal: Terminal, output: Format, file: Path | None, folder: Path | None) -> None:
    warn(plan.warnings, terminal)
    if file is not None:
        write_plan(plan, file)
    if folder is not None:
        write_files(plan.files, folder)
    if not wrote_document(plan, terminal, output):
        if output is Format.MARKDOWN:
            terminal.write(plan_markdown(plan))
        elif not wrote_table(showing.gpu_table(plan, wide=True), terminal, output):
            print_plan(plan, terminal, wide=output is Format.WIDE)
    _tell_what_next(plan, terminal, file, folder)


def exit_code(plan: MigPlan, *, detailed: bool) -> int:
    """Return the exit code that a plan ends with."""
    if not detailed:
        return 0
    if plan.unmet or plan.outcome in ("infeasible", "no-answer-in-time"):
        return NOT_IN_FULL
    return PROPOSED if plan.node_labels else 0


def print_plan(plan: MigPlan, terminal: Terminal, *, wide: bool = False) -> None:
    """Print a plan for people: what it achieves, the demand, the GPUs, who leaves first, what is missing."""
    terminal.lines([*showing.title_lines(plan), showing.identity_line(plan)])
    tables = [showing.demand_table(plan, wide=wide), showing.gpu_table(plan, wide=wide, alike=not wide)]
    tables += [showing.drain_table(plan), showing.unmet_table(plan)]
    if wide:
        tables += [showing.not_target_table(plan), showing.label_table(plan), showing.phase_table(plan)]
    for table in tables:
        print_table(table, terminal, wide=wide)
    told = [] if wide else [showing.not_target_line(plan)]
    lines = [line for line in (*told, *showing.suggestion_lines(plan)) if line]
    terminal.lines(["", *lines] if lines else [])


def plan_markdown(plan: MigPlan) -> str:
    """Return a plan as Markdown, ready for a merge request."""
    blocks: list[Table | str] = [showing.demand_table(plan), showing.gpu_table(plan, alike=True)]
    blocks += [showing.drain_table(plan), showing.unmet_table(plan), showing.label_table(plan)]
    blocks += [showing.not_target_line(plan), "  \n".join(line.strip() for line in showing.suggestion_lines(plan))]
    return markdown([*showing.title_lines(plan), showing.identity_line(plan)], blocks)


def _tell_what_next(plan: MigPlan, terminal: Terminal, file: Path | None, folder: Path | None) -> None:
    if file is not None:
        terminal.note(f"wrote {file}")
    if folder is not None and plan.files:
        first = "drain first" if plan.drains else f"cordon {', '.join(sorted(plan.node_labels))} first"
        terminal.note(f"wrote {', '.join(sorted(plan.files))} to {folder}; {first}, then kubectl apply -k {folder}")
    elif plan.files:
        terminal.note("the files for it: --output-dir DIR")
    if plan.node_labels:
        name = str(file) if file is not None else "PLAN (write it with --output-file)"
        terminal.note(f"it expires at {plan.expires_at}; judge it again: islander check {name}")
