"""What `explain` does: why a pod does (not) fit, node by node, and what would make it fit."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from rich.text import Text

from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.explain import PodExplanation, explain_pod
from islander.policy.settings import PolicySettings
from islander.policy.status import ClusterStatus, cluster_status
from planner.closest import closest_node
from planner.console import Terminal
from planner.errors import PlannerError
from planner.interruption import Interruption
from planner.manifest import pod_of_manifest
from planner.output import Format
from planner.render import explain as explaining
from planner.render.preference import preference_line
from planner.render.strip import letters_of, strip
from planner.selector import only_nodes
from planner.source import Source
from planner.verbs import read_source, warn, wrote_document, wrote_table

INTERRUPTED = 130
# A table for people ends here; -o wide shows every node.
_NODES_SHOWN = 20
# For more nodes a plan takes longer than somebody who wants an explanation likes to wait.
MOST_NODES = 1_000
_ADVICE = "`plan moves --pod` does"


def show_explanation(
    source: Source,
    terminal: Terminal,
    output: Format,
    pod_name: str | None,
    manifest: str | None,
    namespace: str | None,
    selector: str | None,
) -> int:
    """Print `PodExplanation` of a pod of the cluster, or of one that a manifest describes; return the exit code."""
    snapshot = only_nodes(read_source(source, terminal), selector)
    if manifest is not None:
        pod = pod_of_manifest(manifest, namespace or "default")
    else:
        pod = _pod_named(snapshot, pod_name or "", namespace)
    explanation = explain_pod(snapshot, pod, PolicySettings())
    stop = Interruption()
    if explanation.need.gpus and not any(answer.accepted for answer in explanation.nodes):
        if len(explanation.nodes) > MOST_NODES:
            terminal.note(f"what would make it fit is not looked for among {len(explanation.nodes)} nodes; {_ADVICE}")
        else:
            with stop.by_ctrl_c(), terminal.working("looking for what would make it fit"):
                explanation = _with_plan(explanation, snapshot, pod, stop)
    warn(explanation.warnings, terminal)
    _show(explanation, snapshot, pod, terminal, output)
    return INTERRUPTED if stop.asked else 0


def _with_plan(explanation: PodExplanation, snapshot: ClusterSnapshot, pod: Pod, stop: Interruption) -> PodExplanation:
    """Return the explanation with what would make the pod fit, which needs the solver."""
    from planner.would_fit import would_fit

    found = would_fit(snapshot, pod, PolicySettings(), stop)
    return msgspec.structs.replace(explanation, would_fit=found)


def _show(explanation: PodExplanation, snapshot: ClusterSnapshot, pod: Pod, terminal: Terminal, output: Format) -> None:
    if wrote_document(explanation, terminal, output):
        return
    wide = output is Format.WIDE
    drawings = node_drawings(cluster_status(snapshot, PolicySettings()), terminal)
    answers = explaining.answers_by_rank(explanation)
    if wrote_table(explaining.answer_table(answers, drawings, wide=wide), terminal, output):
        return
    _print_explanation(explanation, drawings, terminal, wide=wide)
    if any(answer.accepted for answer in answers):
        return
    closest = closest_node(snapshot, pod, explanation, PolicySettings())
    found = [] if closest is None else [closest.sentence()]
    if explanation.would_fit is not None:
        found.append(f"{explanation.would_fit[0].upper()}{explanation.would_fit[1:]}.")
    if found:
        terminal.lines(["", *found])


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


def _pod_named(snapshot: ClusterSnapshot, name: str, namespace: str | None) -> Pod:
    key = name if "/" in name else f"{namespace or 'default'}/{name}"
    for pod in snapshot.pods:
        if pod.key == key:
            return pod
    alike = sorted(pod.key for pod in snapshot.pods if pod.name == key.partition("/")[2])
    hint = f"; there is {', '.join(alike)}" if alike else f" among {len(snapshot.pods)} pods"
    raise PlannerError(f"no pod {key}{hint}")
