"""The verb `plan mig`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
)
from planner.options import SolveLimits
from planner.output import Format
from planner.seconds import seconds_of
from planner.source import Source

_WHAT = "What is planned"
_MAY = "What the plan may do"


class Strategy(StrEnum):
    """A MIG strategy of the device plugin."""

    MIXED = "mixed"
    SINGLE = "single"


def mig(
    snapshot: Files = [],  # noqa: B006 - typer copies it
    extender: Extender = None,
    extender_ca: ExtenderCa = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_user: As = None,
    profile: Annotated[
        list[str],
        typer.Option(
            metavar="PROFILE=COUNT",
            help="So many instances that shall be free, such as 1g.10gb=12; repeatable.",
            rich_help_panel=_WHAT,
        ),
    ] = [],  # noqa: B006 - typer copies it
    demand: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="YAML with `demand:` (profiles) and `models:` (memory).", rich_help_panel=_WHAT
        ),
    ] = None,
    keep_running: Annotated[
        bool,
        typer.Option(
            "--keep-running/--allow-drain",
            help="Leave every GPU as it is that runs something (the default), or list the pods to drain first.",
            rich_help_panel=_MAY,
        ),
    ] = True,
    nodes: Annotated[
        str, typer.Option(metavar="SELECTOR", help="Only nodes with these labels change.", rich_help_panel=_MAY)
    ] = "",
    strategy: Annotated[
        Strategy | None,
        typer.Option(help="Plan for this MIG strategy, whatever labels say.", rich_help_panel=_MAY),
    ] = None,
    time_limit: TimeLimit = "10s",
    workers: Workers = 1,
    seed: Seed = 0,
    output: Output = Format.TABLE,
    output_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the plan there too, for the review and check; JSON, or YAML when the name says so.",
        ),
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write mig-parted's file and the node labels there, for kubectl apply -k."),
    ] = None,
    detailed_exitcode: Annotated[
        bool,
        typer.Option("--detailed-exitcode", help="Exit with 2 when GPUs are to be cut, 3 when something is missing."),
    ] = False,
    no_headers: NoHeaders = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> int:
    """Plan which GPUs to cut into which MIG instances, for pods that ask for some, or for what you name."""
    from planner.mig_verbs import asked_options, plan_to_cut

    log_to_stderr(verbose)
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    options = asked_options(
        profile,
        demand,
        allow_drain=not keep_running,
        nodes=nodes,
        strategy="" if strategy is None else strategy.value,
        limits=SolveLimits(seconds_of(time_limit, "--time-limit"), workers, seed),
    )
    terminal = Terminal.of_this_process(headers=not no_headers, quiet=quiet)
    return plan_to_cut(source, terminal, output, options, output_file, output_dir, detailed=detailed_exitcode)
