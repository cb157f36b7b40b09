"""The verbs about plans: `plan moves`, `check`, `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli_mig import mig
from planner.cli_quota import EPILOG as QUOTA_EPILOG
from planner.cli_quota import quota
from planner.console import Terminal, log_to_stderr
from planner.flags import (
    As,
    Context,
    Extender,
    ExtenderCa,
    Files,
    Kubeconfig,
    NoHeaders,
    Output,
    Quiet,
    Seed,
    TimeLimit,
    Verbose,
    Workers,
    examples,
)
from planner.options import Goal, PlanOptions, SolveLimits
from planner.output import Format
from planner.seconds import seconds_of
from planner.source import Source

_WHAT = "What is planned"
_MAY = "What the plan may do"

plans = typer.Typer(
    help="Plan changes; nothing is changed.",
    short_help="Plan moves that make room, or MIG layouts.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=examples(
        "PROGRAM plan moves",
        "PROGRAM plan moves --goal tp=8,count=2 --output-file plan.json",
    ),
)

PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="File that `plan ... --output-file` wrote; - is stdin.")]


@plans.command(
    short_help="The fewest moves that make room.",
    epilog=examples(
        "PROGRAM plan moves --output-file plan.json",
        "PROGRAM plan moves --goal tp=8,count=2 --snapshot cluster.json -o markdown --detailed-exitcode",
    ),
)
def moves(
    snapshot: Files = [],  # noqa: B006 - typer copies it
    extender: Extender = None,
    extender_ca: ExtenderCa = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_user: As = None,
    pod: Annotated[
        list[str],
        typer.Option(metavar="NS/NAME", help="Only this pending pod; repeatable.", rich_help_panel=_WHAT),
    ] = [],  # noqa: B006 - typer copies it
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="tp=8,count=2[,product=...]",
            help="Make room for replicas that do not exist yet, instead of pending ones.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    empty_nodes: Annotated[int, typer.Option(metavar="N", min=0, help="Free whole nodes.", rich_help_panel=_WHAT)] = 0,
    spare_nodes: Annotated[
        bool, typer.Option("--spare-nodes", help="Leave empty nodes empty where possible.", rich_help_panel=_WHAT)
    ] = False,
    max_moves: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="At most so many moves.", rich_help_panel=_MAY)
    ] = None,
    max_moves_per_workload: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="At most so many of one workload.", rich_help_panel=_MAY),
    ] = None,
    allow_single_replica: Annotated[
        bool,
        typer.Option(
            "--allow-single-replica", help="Move the only replica of a workload too, by surge.", rich_help_panel=_MAY
        ),
    ] = False,
    allow_unknown_owners: Annotated[
        bool,
        typer.Option(
            "--allow-unknown-owners", help="Move pods of owners that are not known too.", rich_help_panel=_MAY
        ),
    ] = False,
    protect: Annotated[
        str, typer.Option(metavar="SELECTOR", help="Pods with these labels stay.", rich_help_panel=_MAY)
    ] = "",
    time_limit: TimeLimit = "10s",
    workers: Workers = 1,
    seed: Seed = 0,
    output: Output = Format.TABLE,
    output_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the plan there too, for the review, check and report; JSON, or YAML when the name says so.",
        ),
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 2 when moves are proposed, 3 when not all fits.")
    ] = False,
    no_headers: NoHeaders = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> int:
    """Plan the fewest, safest, ordered moves that make room for pending replicas, or for a goal."""
    from planner.plan_verbs import plan_to_move

    log_to_stderr(verbose)
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    options = PlanOptions(
        pods=tuple(dict.fromkeys(pod)),
        goal=Goal.parse(goal) if goal is not None else None,
        max_moves=max_moves,
        max_moves_per_workload=max_moves_per_workload,
        allow_single_replica=allow_single_replica,
        allow_unknown_owners=allow_unknown_owners,
        protect=protect,
        empty_nodes=empty_nodes,
        spare_nodes=spare_nodes,
        limits=SolveLimits(seconds_of(time_limit, "--time-limit"), workers, seed),
    )
    terminal = Terminal.of_this_process(headers=not no_headers, quiet=quiet)
    return plan_to_move(source, terminal, output, options, output_file, detailed=detailed_exitcode)


plans.command(
    short_help="MIG layouts for the TP=1 demand.",
    epilog=examples(
        "PROGRAM plan mig --profile 1g.10gb=12 --profile 3g.40gb=2",
        "PROGRAM plan mig --demand demand.yaml --snapshot cluster.json -o yaml --output-dir layouts",
    ),
)(mig)
plans.command(short_help="Kueue quotas that can really be placed.", epilog=QUOTA_EPILOG)(quota)


def check(
    plan: PlanFile,
    snapshot: Files = [],  # noqa: B006 - typer copies it
    extender: Extender = None,
    extender_ca: ExtenderCa = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_user: As = None,
    output: Output = Format.TABLE,
    no_headers: NoHeaders = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> int:
    """Judge a plan against a cluster as it is now, without a solver; exit with 4 when it does not hold."""
    from planner.plan_verbs import judge_plan

    log_to_stderr(verbose)
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    return judge_plan(plan, source, Terminal.of_this_process(headers=not no_headers, quiet=quiet), output)


def report(
    plan: PlanFile,
    snapshot: Files = [],  # noqa: B006 - typer copies it
    extender: Extender = None,
    extender_ca: ExtenderCa = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_user: As = None,
    output_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here instead of stdout.")] = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Write one self-contained HTML file for the review of any plan, with the nodes as the cluster shows them."""
    from planner.plan_verbs import write_report

    log_to_stderr(verbose)
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    write_report(plan, source, Terminal.of_this_process(quiet=quiet), output_file)
