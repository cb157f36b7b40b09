"""Flags that several verbs share, as typer reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.output import Format

_FROM = "Where the cluster comes from"
_SHOW = "What is shown"
_SOLVER = "How long it may search"

Files = Annotated[
    list[str],
    typer.Option(
        "--snapshot",
        metavar="FILE",
        help="Snapshot, or what `kubectl get nodes,pods -A -o json` prints; repeatable, - is stdin, .gz is fine.",
        rich_help_panel=_FROM,
    ),
]
Extender = Annotated[
    str | None, typer.Option(metavar="URL", help="Ask the running extender there.", rich_help_panel=_FROM)
]
ExtenderCa = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Authority of the extender's certificate, PEM.", rich_help_panel=_FROM),
]
Kubeconfig = Annotated[str | None, typer.Option(metavar="FILE", help="Kubeconfig file.", rich_help_panel=_FROM)]
Context = Annotated[str | None, typer.Option(metavar="NAME", help="Kubeconfig context.", rich_help_panel=_FROM)]
As = Annotated[str | None, typer.Option("--as", metavar="USER", help="User to impersonate.", rich_help_panel=_FROM)]
TimeLimit = Annotated[str, typer.Option(metavar="DURATION", help="Such as 10s, 2m.", rich_help_panel=_SOLVER)]
Workers = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, max=64, help="Threads; more than 1 may give another plan.", rich_help_panel=_SOLVER
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, max=2**31 - 1, rich_help_panel=_SOLVER)]
Output = Annotated[Format, typer.Option("-o", "--output", help="Format of the result.", rich_help_panel=_SHOW)]
Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Pods of this namespace only.", rich_help_panel=_SHOW)
]
AllNamespaces = Annotated[
    bool, typer.Option("-A", "--all-namespaces", help="Pods of all namespaces (the default).", rich_help_panel=_SHOW)
]
Selector = Annotated[
    str | None, typer.Option("-l", "--selector", help="Nodes with these labels only.", rich_help_panel=_SHOW)
]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Leave column titles out.", rich_help_panel=_SHOW)]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No remarks on stderr.", rich_help_panel=_SHOW)]
Verbose = Annotated[
    int, typer.Option("-v", "--verbose", count=True, help="More on stderr; -vv for debugging.", rich_help_panel=_SHOW)
]


def examples(*lines: str) -> str:
    """Return the end of a verb's help; PROGRAM in a line becomes the name the user calls us by."""
    # \b keeps the lines as they are.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
