"""What the verbs do: read the cluster, ask the policy, show the answer."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import msgspec

from islander.cluster.dcgm import gpu_hints
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.settings import PolicySettings
from islander.policy.status import ClusterStatus, cluster_status
from islander.policy.use import use_hints
from planner.console import Terminal
from planner.errors import PlannerError
from planner.output import Format, document_of, json_text, yaml_text
from planner.read import read_cluster
from planner.render import status as showing
from planner.render.table import Table, csv_text, markdown_text
from planner.selector import only_nodes
from planner.source import Source


def show_status(
    source: Source,
    terminal: Terminal,
    output: Format,
    namespace: str | None,
    selector: str | None,
    metrics: Path | None = None,
) -> None:
    """Print `ClusterStatus`; `namespace` narrows the pending pods, `selector` the nodes, `metrics` adds hints."""
    snapshot = only_nodes(read_source(source, terminal), selector)
    status = cluster_status(snapshot, PolicySettings())
    if metrics is not None:
        # Few ask for it, and the parser of metrics takes its time to load.
        from planner.metrics_file import read_samples

        measured, doubts = gpu_hints(read_samples(metrics), snapshot)
        status = msgspec.structs.replace(status, hints=list(use_hints(measured)), warnings=[*status.warnings, *doubts])
    if namespace is not None:
        pending = [pod for pod in status.pending if pod.pod.startswith(f"{namespace}/")]
        status = msgspec.structs.replace(status, pending=pending)
    warn(status.warnings, terminal)
    wide = output is Format.WIDE
    if wrote_document(status, terminal, output):
        return
    nodes = showing.node_table(status.nodes, terminal.glyphs, wide=wide)
    if wrote_table(nodes, terminal, output):
        return
    print_status(status, terminal, wide=wide)


def print_status(status: ClusterStatus, terminal: Terminal, *, wide: bool = False) -> None:
    """Print a status for people: totals, room per shape, nodes, workloads, what waits."""
    terminal.lines([showing.headline(status), ""])
    terminal.table(showing.room_table(status))
    terminal.lines([""])
    terminal.table(showing.node_table(status.nodes, terminal.glyphs, wide=wide))
    mig = showing.mig_table(status)
    if mig.rows:
        terminal.lines([""])
        terminal.table(mig)
    legend = showing.legend_table(status.nodes)
    if legend.rows:
        terminal.lines([""])
        terminal.table(legend)
    pending = showing.pending_table(status)
    if pending.rows:
        terminal.lines([""])
        terminal.table(pending)
    hints = showing.hint_table(status, wide=wide)
    if hints.rows:
        terminal.lines([""])
        terminal.table(hints)


def write_snapshot(source: Source, terminal: Terminal, file: Path | None, *, anonymize: bool = False) -> None:
    """Write the cluster's state to a file or to stdout, with invented names when they must not travel."""
    snapshot = read_source(source, terminal)
    if anonymize:
        from planner.anonymize import anonymized

        snapshot = anonymized(snapshot)
    data = encode_snapshot(snapshot)
    if file is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        file.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)
    except OSError as problem:
        raise PlannerError(f"--output-file {file}: {problem.strerror}") from problem
    terminal.note(f"wrote {file}")


def read_source(source: Source, terminal: Terminal) -> ClusterSnapshot:
    """Return the cluster of a source; a person who watches sees that it takes its time."""
    with terminal.working(f"reading {source.describe()}"):
        return read_cluster(source)


def warn(warnings: tuple[str, ...] | list[str], terminal: Terminal) -> None:
    """Tell the warnings of a result beside it."""
    for warning in warnings:
        terminal.note(f"warning: {warning}")


def wrote_document(result: msgspec.Struct, terminal: Terminal, output: Format) -> bool:
    """Write a result as a document, if that is the format asked for."""
    if output is Format.JSON:
        terminal.write(json_text(document_of(result)))
    elif output is Format.YAML:
        terminal.write(yaml_text(document_of(result)))
    else:
        return False
    return True


def wrote_table(table: Table, terminal: Terminal, output: Format) -> bool:
    """Write a table as CSV or Markdown, if that is the format asked for."""
    if output is Format.CSV:
        terminal.write(csv_text(table, headers=terminal.headers))
    elif output is Format.MARKDOWN:
        terminal.write(markdown_text(table, headers=terminal.headers))
    else:
        return False
    return True
