"""The story of free 2,2,1,1: why a replica waits, what kube-scheduler hears, where replicas go, what makes room."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from islander.cluster.names import TOPOLOGY
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.explain import explain_pod
from islander.policy.need import need_of
from islander.policy.reasons import REASONS, Code
from islander.policy.settings import PolicySettings
from islander.policy.status import cluster_status
from planner.check import check_plan
from planner.closest import closest_node
from planner.console import Terminal
from planner.documents import read_documents
from planner.errors import PlannerError
from planner.extender_process import ExtenderProcess
from planner.load import load_files
from planner.moves import plan_moves
from planner.options import PlanOptions
from planner.pictures import pictures
from planner.plan_file import write_output, write_plan
from planner.plan_verbs import print_body
from planner.render import explain as explaining
from planner.render import status as showing
from planner.render.moves import title_lines
from planner.render.preference import preference_line
from planner.render.report.page import report_html
from planner.render.strip import letters_of, strip
from planner.render.table import Cell, Column, Table


@dataclass(frozen=True, slots=True)
class Answers:
    """What the extender said about one pod: the nodes it kept, the reasons of the others, scores of the kept ones."""

    kept: tuple[str, ...]
    refused: dict[str, str]
    scores: dict[str, int]


@dataclass(frozen=True, slots=True)
class Scene:
    """A bundled cluster: as a snapshot, and its waiting pods as the API has them, largest first."""

    snapshot: ClusterSnapshot
    waiting: tuple[tuple[Pod, dict[str, Any]], ...]


def bundled(name: str) -> Scene:
    """Return a cluster that comes with the package."""
    with as_file(files("planner") / "data" / name) as path:
        snapshot = load_files([str(path)])
        items = [msgspec.json.decode(document.raw) for document in read_documents(str(path)) if document.raw]
    raw = {f"{item['metadata'].get('namespace')}/{item['metadata']['name']}": item for item in items}
    waiting = sorted(
        (pod for pod in snapshot.pods if not pod.node), key=lambda pod: -need_of(pod, PolicySettings()).gpus
    )
    return Scene(snapshot, tuple((pod, raw[pod.key]) for pod in waiting))


def tell(terminal: Terminal, folder: Path) -> None:
    """Tell the whole story; the plan, its snapshot and its report are left in `folder`."""
    stuck, mixed = bundled("four-nodes.yaml"), bundled("mixed-fleet.yaml")
    with (
        ExtenderProcess(encode_snapshot(stuck.snapshot)) as first,
        ExtenderProcess(encode_snapshot(mixed.snapshot)) as second,
    ):
        _chapter(terminal, "1. Six GPUs are free, and a replica of four waits")
        show_free_gpus(stuck.snapshot, stuck.waiting[0][0], terminal)
        _chapter(terminal, "2. What kube-scheduler hears from the extender")
        first.wait_until_ready()
        show_conversation(stuck, first, terminal)
        _chapter(terminal, "3. Where replicas go when islands are kept in mind: a mixed fleet")
        second.wait_until_ready()
        show_placements(mixed, second, terminal)
    _chapter(terminal, "4. The plan that makes room for the replica of chapter 1")
    show_plan(stuck.snapshot, terminal, folder)
    terminal.lines(
        [
            "",
            "Your cluster:   islander status",
            "Your pod:       islander explain NAMESPACE/POD",
            "Your plan:      islander plan moves --output-file plan.json",
        ]
    )


def show_free_gpus(snapshot: ClusterSnapshot, pod: Pod, terminal: Terminal) -> None:
    """Show the nodes, the room that is left per shape, and what would make room for the pod that waits."""
    status = cluster_status(snapshot)
    letters = letters_of(status.nodes)
    terminal.lines([showing.headline(status), ""])
    terminal.table(
        Table(
            (Column("NODE"), Column("GPUS"), Column("FREE", right=True), Column("PRODUCT")),
            tuple((n.name, strip(n, letters, terminal.glyphs), str(n.free), n.product) for n in status.nodes),
        )
    )
    terminal.lines([_legend(letters), ""])
    terminal.table(showing.room_table(status))
    explanation = explain_pod(snapshot, pod)
    terminal.lines(["", explaining.need_line(explanation)])
    for code, count in explanation.summary.items():
        terminal.lines([f"{count} of {len(explanation.nodes)} nodes: {code}, {REASONS[Code(code)].sentence}"])
    closest = closest_node(snapshot, pod, explanation, PolicySettings())
    if closest is not None:
        terminal.lines([closest.sentence()])


def show_conversation(scene: Scene, extender: ExtenderProcess, terminal: Terminal) -> None:
    """Show the extender's answer for the pod that waits, as it comes over HTTP."""
    (pod, raw) = scene.waiting[0]
    body = call_of(raw, (node.name for node in scene.snapshot.nodes))
    answer = extender.post("filter", body)
    terminal.lines(
        [
            f'POST /filter  {{"Pod": {{... {pod.name} ...}}, "NodeNames": {json.dumps(body["NodeNames"])}}}',
            *json.dumps(answer, indent=2).splitlines(),
            "",
            "kube-scheduler counts GPUs too, and its event for this pod stops there: 4 Insufficient nvidia.com/gpu.",
            "What it cannot count is what the next section is about: links, and the room that is left afterwards.",
        ]
    )


def show_placements(scene: Scene, extender: ExtenderProcess, terminal: Terminal) -> None:
    """Show, node by node, what the extender answers for each pod that waits, and why its first choice is first."""
    names = [node.name for node in scene.snapshot.nodes]
    pods = [pod for pod, _ in scene.waiting]
    answers = [ask(extender, raw, names) for _, raw in scene.waiting]
    explanations = [explain_pod(scene.snapshot, pod) for pod in pods]
    status = cluster_status(scene.snapshot)
    letters = letters_of(status.nodes)
    columns = (
        *(Column("NODE"), Column("GPUS"), Column("ISLANDS 1/2/4/8")),
        *(Column(f"REPLICA OF {explanation.need.gpus}") for explanation in explanations),
    )
    rows = []
    for node in status.nodes:
        islands = "/".join(str(count) for count in node.islands.values())
        row: list[Cell] = [node.name, strip(node, letters, terminal.glyphs), islands]
        for answer, explanation in zip(answers, explanations, strict=True):
            verdict = next(n.verdict for n in explanation.nodes if n.name == node.name)
            row.append(_answer_cell(answer, node.name, verdict))
        rows.append(tuple(row))
    terminal.lines(
        [
            "hgx-*: 8 H100 behind NVSwitch. pairs-*: 4 A100, bridged 0-1 and 2-3; the node reports who holds what.",
            "",
        ]
    )
    terminal.table(Table(columns, tuple(rows)))
    terminal.lines(
        [
            _legend(letters),
            "",
            "Scores 0 to 10. guaranteed: whatever GPUs kubelet picks, they are an island. no island: kept, because the",
            "replica only prefers an island.",
        ]
    )
    _show_required(scene, extender, names, terminal)
    first = [{"Host": host, "Score": score} for host, score in answers[0].scores.items()]
    terminal.lines([f"POST /prioritize  {json.dumps(first)}", ""])
    for pod, explanation, answer in zip(pods, explanations, answers, strict=True):
        best = max(answer.kept, key=lambda name: answer.scores[name])
        terminal.lines(
            [
                Text(f"{pod.key} ({explanation.need.gpus}) goes to ").append(best, style="bold"),
                f"  {preference_line(explaining.answers_by_rank(explanation))}",
                f"  Refused: {_grouped(answer.refused.values()) or 'no node'}.",
            ]
        )


def _show_required(scene: Scene, extender: ExtenderProcess, names: list[str], terminal: Terminal) -> None:
    """Show which nodes a replica of two would lose if it required an island; the reasons are those of its event."""
    raw = next(raw for pod, raw in scene.waiting if need_of(pod, PolicySettings()).gpus == 2)
    strict = {**raw, "metadata": {**raw["metadata"], "annotations": {TOPOLOGY: "required"}}}
    before, after = ask(extender, raw, names), ask(extender, strict, names)
    lost = {node: reason for node, reason in after.refused.items() if node not in before.refused}
    told = "; ".join(f"{node}: {reason}" for node, reason in lost.items())
    terminal.lines([f"With {TOPOLOGY}: required the replica of 2 is refused there, {told}.", ""])


def show_plan(snapshot: ClusterSnapshot, terminal: Terminal, folder: Path) -> None:
    """Show the plan for the replica that waits, judge it, and write it down with its report."""
    settings = PolicySettings()
    plan = plan_moves(snapshot, settings, PlanOptions(), datetime.now(UTC))
    terminal.lines(title_lines(plan))
    letters = letters_of(cluster_status(snapshot, settings).nodes)
    print_body(plan, pictures(plan, snapshot, settings), terminal, letters=letters)
    verdict = check_plan(plan, snapshot, settings)
    terminal.lines(["", f"Replayed without the solver: {'it holds' if verdict.valid else 'it does not hold'}."])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cluster.json").write_bytes(encode_snapshot(snapshot))
    except OSError as problem:
        raise PlannerError(f"--output-dir {folder}: {problem.strerror}") from problem
    write_plan(plan, folder / "plan.json")
    write_output(report_html(plan, snapshot, settings), folder / "report.html")
    terminal.lines([f"The plan: {folder / 'plan.json'}", f"For the review: {folder / 'report.html'}"])


def call_of(pod: dict[str, Any], nodes: Iterable[str]) -> dict[str, Any]:
    """Return the body that kube-scheduler sends to filter and prioritize: a pod of the API, and names of nodes."""
    return {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}


def ask(extender: ExtenderProcess, pod: dict[str, Any], nodes: list[str]) -> Answers:
    """Return the extender's answers: filter, then prioritize with the nodes that are left, as kube-scheduler does."""
    filtered = extender.post("filter", call_of(pod, nodes))
    kept = tuple(filtered["NodeNames"] or ())
    refused = {**(filtered["FailedNodes"] or {}), **(filtered["FailedAndUnresolvableNodes"] or {})}
    scored = extender.post("prioritize", call_of(pod, kept)) if kept else []
    return Answers(kept, refused, {item["Host"]: item["Score"] for item in scored})


def _answer_cell(answer: Answers, node: str, verdict: str) -> Text:
    if node in answer.refused:
        return Text(" - refused", style="dim")
    best = answer.scores[node] == max(answer.scores.values())
    word = "no island" if verdict == "impossible" else verdict
    return Text(f"{answer.scores[node]:>2} {word}", style="bold green" if best else "")


def _chapter(terminal: Terminal, title: str) -> None:
    terminal.lines(["", Text(title, style="bold"), Text("-" * len(title), style="dim"), ""])


def _legend(letters: dict[str, str]) -> str:
    short = {workload: f"{workload.split('/')[0]}/{workload.split('/')[-1]}" for workload in letters}
    return "  ".join(f"{letter} {short[workload]}" for workload, letter in letters.items())


def _grouped(reasons: Iterable[str]) -> str:
    listed = list(reasons)
    return ", ".join(f"{listed.count(reason)} {reason}" for reason in sorted(set(listed)))
