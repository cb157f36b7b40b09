"""The verb `plan quota`."""

from __future__ import annotations

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
    examples,
)
from planner.options import SolveLimits
from planner.output import Format
from planner.seconds import seconds_of
from planner.source import Source

_WHAT = "What is planned"
_FILES = "What is written"

EPILOG = examples(
    "PROGRAM plan quota --policy teams.yaml --output-dir quota/",
    "PROGRAM plan quota --snapshot cluster.yaml --survive-nodes 1 -o wide",
)


def quota(
    snapshot: Files = [],  # noqa: B006 - typer copies it
    extender: Extender = None,
    extender_ca: ExtenderCa = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_user: As = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Teams with their baselines and weights, YAML; without it they are read from the cluster.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    survive_nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Guarantees hold when N nodes of a flavor are lost.", rich_help_panel=_WHAT
        ),
    ] = None,
    time_limit: TimeLimit = "10s",
    workers: Workers = 1,
    seed: Seed = 0,
    output: Output = Format.TABLE,
    output_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the objects there, for `kubectl apply -k`.", rich_help_panel=_FILES),
    ] = None,
    output_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the plan there, for the review, check and report; JSON, or YAML when the name says so.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    detailed_exitcode: Annotated[
        bool,
        typer.Option("--detailed-exitcode", help="Exit with 2 when quotas change, 3 when a baseline has no place."),
    ] = False,
    no_headers: NoHeaders = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> int:
    """Plan Kueue quotas that can all be placed at the same time, in whole islands, baselines first."""
    from planner.quota.options import QuotaOptions
    from planner.quota.policy_file import read_policy
    from planner.quota_verbs import plan_quotas

    log_to_stderr(verbose)
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    options = QuotaOptions(
        policy=read_policy(policy) if policy is not None else None,
        survive_nodes=survive_nodes,
        limits=SolveLimits(seconds_of(time_limit, "--time-limit"), workers, seed),
    )
    terminal = Terminal.of_this_process(headers=not no_headers, quiet=quiet)
    return plan_quotas(
        source, terminal, output, options, directory=output_dir, file=output_file, detailed=detailed_exitcode
    )
