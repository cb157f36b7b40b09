"""What the verbs do: read the cluster, ask the policy, show the answer."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from rich.text import Text

from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.explain import PodExplanation, explain_pod
from islander.policy.settings import PolicySettings
from islander.policy.status import ClusterStatus, cluster_status
from planner.closest import closest_node
from planner.console import Terminal
from planner.errors import PlannerError
from planner.manifest import pod_of_manifest
from planner.output import Format, document_of, json_text, yaml_text
from planner.read import read_cluster
from planner.render import explain as explaining
from planner.render import status as showing
from planner.render.preference import preference_line
from planner.render.strip import letters_of, strip
from planner.render.table import Table, csv_text, markdown_text
from planner.selector import only_nodes
from planner.source import Source

# A table for people ends here; -o wide shows every node.
_NODES_SHOWN = 20


def show_status(
    source: Source, terminal: Terminal, output: Format, namespace: str | None, selector: str | None
) -> None:
    """Print `ClusterStatus`; `namespace` narrows the pending pods, `selector` the nodes."""
    snapshot = only_nodes(read_source(source, terminal), selector)
    status = cluster_status(snapshot, PolicySettings())
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


def show_explanation(
    source: Source,
    terminal: Terminal,
    output: Format,
    pod_name: str | None,
    manifest: str | None,
    namespace: str | None,
    selector: str | None,
) -> None:
    """Print `PodExplanation` of a pod of the cluster, or of one that a manifest describes."""
    snapshot = only_nodes(read_source(source, terminal), selector)
    if manifest is not None:
        pod = pod_of_manifest(manifest, namespace or "default")
    else:
        pod = _pod_named(snapshot, pod_name or "", namespace)
    explanation = explain_pod(snapshot, pod, PolicySettings())
    warn(explanation.warnings, terminal)
    wide = output is Format.WIDE
    if wrote_document(explanation, terminal, output):
        return
    drawings = node_drawings(cluster_status(snapshot, PolicySettings()), terminal)
    answers = explaining.answers_by_rank(explanation)
    if wrote_table(explaining.answer_table(answers, drawings, wide=wide), terminal, output):
        return
    _print_explanation(explanation, drawings, terminal, wide=wide)
    if not any(answer.accepted for answer in answers):
        closest = closest_node(snapshot, pod, explanation, PolicySettings())
        if closest is not None:
            terminal.lines(["", closest.sentence()])


def _print_explanation(
    explanation: PodExplanation, drawings: Mapping[str, Text], terminal: Terminal, *, wide: bool
) -> None:
    """Print an explanation for people: the need, the nodes, reasons and cures, why the best node is best."""
    answers = explaining.answers_by_rank(explanation)
    fitting = sum(1 for answer in answers if answer.accepted)
    terminal.lines([explaining.need_line(explanation)])
    terminal.lines([f"{fitting} of {len(answers)} nodes can take it", ""])
    shown = answers if wide else answers[:_NODES_SHOWN]
    terminal.table(explaining.answer_table(shown, drawings, wide=wide))
    if len(shown) < len(answers):
        terminal.note(f"{len(answers) - len(shown)} more nodes; -o wide shows all")
    summary = explaining.summary_table(explanation)
    if summary.rows:
        terminal.lines([""])
        terminal.table(summary)
    if preferred := preference_line(answers):
        terminal.lines(["", preferred])


def node_drawings(status: ClusterStatus, terminal: Terminal) -> dict[str, Text]:
    """Return the drawing of each node's GPUs, with the letters that the status uses."""
    letters = letters_of(status.nodes)
    return {node.name: strip(node, letters, terminal.glyphs) for node in status.nodes}


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


def _pod_named(snapshot: ClusterSnapshot, name: str, namespace: str | None) -> Pod:
    key = name if "/" in name else f"{namespace or 'default'}/{name}"
    for pod in snapshot.pods:
        if pod.key == key:
            return pod
    alike = sorted(pod.key for pod in snapshot.pods if pod.name == key.partition("/")[2])
    hint = f"; there is {', '.join(alike)}" if alike else f" among {len(snapshot.pods)} pods"
    raise PlannerError(f"no pod {key}{hint}")


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
