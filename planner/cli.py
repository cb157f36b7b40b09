"""The command line: `islander`, also installed as `kubectl-islander`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from planner.cli_plans import check, plans, report
from planner.console import Terminal, log_to_stderr, ready_streams
from planner.errors import PlannerError
from planner.flags import (
    AllNamespaces,
    As,
    Context,
    Extender,
    ExtenderCa,
    Files,
    Kubeconfig,
    Namespace,
    NoHeaders,
    Output,
    Quiet,
    Selector,
    Verbose,
    examples,
)
from planner.output import Format, json_text
from planner.source import Source

log = logging.getLogger("planner")

# typer exports the leaves of its usage errors; their base is what every wrong command line raises.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])


class _Verbs(TyperGroup):
    """The verbs in the order in which they are used; typer would put groups of verbs first."""

    order = ("status", "explain", "plan", "check", "report", "snapshot", "schema", "demo", "version")

    # The context of groups has no exported type.
    def list_commands(self, ctx: Any) -> list[str]:
        """Return the verbs."""
        return sorted(super().list_commands(ctx), key=self.order.index)


app = typer.Typer(
    name="islander",
    cls=_Verbs,
    help="Keeps NVLink islands whole, so that multi-GPU vLLM replicas always have somewhere to go.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.command(
    short_help="What is free, in replicas.",
    epilog=examples(
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
    metrics: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Metrics of NVIDIA's DCGM exporter, as Prometheus writes them: tells pods that hold GPUs idle.",
        ),
    ] = None,
    no_headers: NoHeaders = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Show what is free, in units people can use: how many replicas of each shape still fit, node by node."""
    from planner.verbs import show_status

    log_to_stderr(verbose)
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    terminal = Terminal.of_this_process(headers=not no_headers, quiet=quiet)
    show_status(source, terminal, output, None if all_namespaces else namespace, selector, metrics)


@app.command(
    short_help="Why a pod does (not) fit, node by node.",
    epilog=examples(
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
) -> int:
    """Tell why a pod does (not) fit, node by node, and what would make it fit."""
    from planner.explain_verb import show_explanation

    log_to_stderr(verbose)
    if (pod is None) == (filename is None):
        raise PlannerError("name a pod as NAMESPACE/POD, or a file with -f; one of the two")
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    terminal = Terminal.of_this_process(headers=not no_headers, quiet=quiet)
    return show_explanation(source, terminal, output, pod, filename, namespace, selector)


app.add_typer(plans, name="plan")
app.command(
    short_help="Judge a plan against a cluster.",
    epilog=examples(
        "PROGRAM check plan.json",
        "PROGRAM check plan.json --snapshot cluster.json -o json",
    ),
)(check)
app.command(
    short_help="One HTML file for the review of a plan.",
    epilog=examples(
        "PROGRAM report plan.json --output-file plan.html",
        "PROGRAM report quota.json --snapshot cluster.json > quota.html",
    ),
)(report)


@app.command(
    short_help="Write the cluster's state to one file.",
    epilog=examples(
        "PROGRAM snapshot --extender https://islander-extender.islander.svc:8880 --extender-ca ca.crt > cluster.json",
        "PROGRAM snapshot --anonymize --output-file for-a-ticket.json.gz",
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
    anonymize: Annotated[
        bool,
        typer.Option("--anonymize", help="Replace every name by an invented one; all decisions stay as they are."),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Write the cluster's state to one file, which every other verb reads with --snapshot."""
    from planner.verbs import write_snapshot

    log_to_stderr(verbose)
    source = Source(tuple(snapshot), extender, extender_ca, kubeconfig, context, as_user)
    write_snapshot(source, Terminal.of_this_process(quiet=quiet), output_file, anonymize=anonymize)


@app.command(epilog=examples("PROGRAM schema", "PROGRAM schema ClusterStatus > cluster-status.schema.json"))
def schema(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="Leave it out to list the kinds.")] = None,
) -> None:
    """Print the JSON Schema of a kind."""
    from planner.schemas import KINDS, schema_of

    terminal = Terminal.of_this_process()
    terminal.write("\n".join(KINDS) if kind is None else json_text(schema_of(kind)))


@app.command(
    short_help="The story of free 2,2,1,1; needs no cluster.",
    epilog=examples("PROGRAM demo", "PROGRAM demo --output-dir review"),
)
def demo(
    output_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Leave the plan and its report there instead of in a temporary directory."),
    ] = None,
) -> None:
    """Tell the story of free 2,2,1,1 on bundled snapshots, with the real extender; needs no cluster."""
    from tempfile import mkdtemp

    from planner.demo import tell

    tell(Terminal.of_this_process(), output_dir or Path(mkdtemp(prefix="islander-demo-")))


@app.command(epilog=examples("PROGRAM version", "PROGRAM version -o json"))
def version(output: Output = Format.TABLE) -> None:
    """Print the version."""
    number = installed_version("islander")
    terminal = Terminal.of_this_process()
    terminal.write(json_text({"version": number}) if output is Format.JSON else f"islander {number}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 error in one line, 130 interrupted."""
    ready_streams()
    program = "kubectl islander" if Path(sys.argv[0]).name == "kubectl-islander" else "islander"
    return _one_line_on_error(program, lambda: _run(program, sys.argv[1:] if arguments is None else list(arguments)))


def _run(program: str, arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    _name_the_program(command, program)
    code = command.main(arguments, prog_name=program, standalone_mode=False)
    return code if isinstance(code, int) else 0


def _name_the_program(group: object, program: str) -> None:
    for verb in getattr(group, "commands", {}).values():
        verb.epilog = (verb.epilog or "").replace("PROGRAM", program)
        _name_the_program(verb, program)


def _one_line_on_error(program: str, run: Callable[[], int]) -> int:
    try:
        return run()
    except _UsageError as problem:
        if problem.ctx and problem.format_message() == problem.ctx.get_help():
            # Of a group without a verb, the help is the message.
            sys.stderr.write(f"{problem.format_message()}\n")
            return 1
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
    except OSError as problem:
        return _fail(program, f"{problem.filename or 'input or output'}: {problem.strerror or problem}")
    except Exception as problem:  # the edge: nobody above us turns a bug into a line
        log.debug("unexpected error", exc_info=True)
        return _fail(program, f"unexpected {type(problem).__name__}: {problem}. This is a bug; -vv shows where.")


def _fail(program: str, message: str) -> int:
    one_line = " ".join(message.split())
    sys.stderr.write(f"{program}: {one_line}\n")
    return 1
