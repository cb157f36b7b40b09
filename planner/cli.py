"""The command line: `islander`, also installed as `kubectl-islander`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, cast

import typer

from planner.console import Terminal
from planner.errors import PlannerError
from planner.output import Format, json_text
from planner.source import Source

log = logging.getLogger("planner")

# typer exports the leaves of its usage errors; their base is what every wrong command line raises.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])

_FROM = "Where the cluster comes from"
_SHOW = "What is shown"

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

app = typer.Typer(
    name="islander",
    help="Keeps NVLink islands whole, so that multi-GPU vLLM replicas always have somewhere to go.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _examples(*lines: str) -> str:
    # \b keeps the lines as they are; PROGRAM becomes the name the user calls us by.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@app.command(
    short_help="What is free, in replicas.",
    epilog=_examples(
        "PROGRAM status",
        "kubectl get nodes,pods -A -o json | PROGRAM status --snapshot - -o json",
    ),
)
def status(
    snapshot: Files = [],  # noqa: B006 - typer copies it
    extender: Extender = None,
    extender_ca: ExtenderCa = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_user: As = None,
    output: Output = Format.TABLE,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = None,
    no_headers: NoHeaders = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Show what is free, in units people can use: how many replicas of each shape still fit, node by node."""
    from planner.verbs import show_status

    _log_to_stderr(verbose)
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    terminal = Terminal.of_this_process(headers=not no_headers, quiet=quiet)
    show_status(source, terminal, output, None if all_namespaces else namespace, selector)


@app.command(
    short_help="Why a pod does (not) fit, node by node.",
    epilog=_examples(
        "PROGRAM explain chat/llama-70b-7c9f-x2k1n",
        "PROGRAM explain -f deployment.yaml --snapshot cluster.json -o wide",
    ),
)
def explain(
    pod: Annotated[str | None, typer.Argument(metavar="NAMESPACE/POD", help="A pod of the cluster.")] = None,
    filename: Annotated[
        str | None,
        typer.Option(
            "-f", "--filename", metavar="FILE", help="A pod, or a workload with a pod template, not yet applied."
        ),
    ] = None,
    snapshot: Files = [],  # noqa: B006 - typer copies it
    extender: Extender = None,
    extender_ca: ExtenderCa = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_user: As = None,
    output: Output = Format.TABLE,
    namespace: Namespace = None,
    selector: Selector = None,
    no_headers: NoHeaders = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Tell why a pod does (not) fit, node by node, and what would make it fit."""
    from planner.verbs import show_explanation

    _log_to_stderr(verbose)
    if (pod is None) == (filename is None):
        raise PlannerError("name a pod as NAMESPACE/POD, or a file with -f; one of the two")
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    terminal = Terminal.of_this_process(headers=not no_headers, quiet=quiet)
    show_explanation(source, terminal, output, pod, filename, namespace, selector)


@app.command(
    short_help="Write the cluster's state to one file.",
    epilog=_examples(
        "PROGRAM snapshot --output-file cluster.json.gz",
        "PROGRAM snapshot --extender https://islander-extender.islander.svc:8880 --extender-ca ca.crt > cluster.json",
    ),
)
def snapshot(
    snapshot: Files = [],  # noqa: B006 - typer copies it
    extender: Extender = None,
    extender_ca: ExtenderCa = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_user: As = None,
    output_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here instead of stdout; .gz is compressed.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Write the cluster's state to one file, which every other verb reads with --snapshot."""
    from planner.verbs import write_snapshot

    _log_to_stderr(verbose)
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    write_snapshot(source, Terminal.of_this_process(quiet=quiet), output_file)


@app.command(epilog=_examples("PROGRAM schema", "PROGRAM schema ClusterStatus > cluster-status.schema.json"))
def schema(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="Leave it out to list the kinds.")] = None,
) -> None:
    """Print the JSON Schema of a kind."""
    from planner.schemas import KINDS, schema_of

    terminal = Terminal.of_this_process()
    terminal.write("\n".join(KINDS) if kind is None else json_text(schema_of(kind)))


@app.command(
    short_help="The story of free 2,2,1,1; needs no cluster.",
    epilog=_examples("PROGRAM demo", "PROGRAM demo | less -R"),
)
def demo() -> None:
    """Tell the story of free 2,2,1,1 on bundled snapshots, with the real extender; needs no cluster."""
    from planner.demo import tell

    tell(Terminal.of_this_process())


@app.command(epilog=_examples("PROGRAM version", "PROGRAM version -o json"))
def version(output: Output = Format.TABLE) -> None:
    """Print the version."""
    number = installed_version("islander")
    terminal = Terminal.of_this_process()
    terminal.write(json_text({"version": number}) if output is Format.JSON else f"islander {number}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 error in one line, 130 interrupted."""
    program = "kubectl islander" if Path(sys.argv[0]).name == "kubectl-islander" else "islander"
    return _one_line_on_error(program, lambda: _run(program, sys.argv[1:] if arguments is None else list(arguments)))


def _run(program: str, arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    for verb in getattr(command, "commands", {}).values():
        verb.epilog = (verb.epilog or "").replace("PROGRAM", program)
    code = command.main(arguments, prog_name=program, standalone_mode=False)
    return code if isinstance(code, int) else 0


def _one_line_on_error(program: str, run: Callable[[], int]) -> int:
    try:
        return run()
    except _UsageError as problem:
        where = problem.ctx.command_path if problem.ctx else program
        return _fail(program, f"{problem.format_message()} See `{where} --help`.")
    except PlannerError as problem:
        return _fail(program, str(problem))
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        # Whoever read our output has enough; what is still buffered must not complain again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as problem:  # the edge: nobody above us turns a bug into a line
        log.debug("unexpected error", exc_info=True)
        return _fail(program, f"unexpected {type(problem).__name__}: {problem}. This is a bug; -vv shows where.")


def _fail(program: str, message: str) -> int:
    one_line = " ".join(message.split())
    sys.stderr.write(f"{program}: {one_line}\n")
    return 1


def _log_to_stderr(verbose: int) -> None:
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s %(name)s: %(message)s", force=True)
