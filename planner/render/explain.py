"""Why a pod does (not) fit, for people: what it needs, node by node, and what would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from rich.text import Text

from islander.hardware.mig import profile_of_resource
from islander.policy.explain import NodeExplanation, PodExplanation
from islander.policy.reasons import REASONS, Code
from planner.render.table import Column, Table

_VERDICT_STYLE = {"guaranteed": "green", "possible": "yellow", "impossible": "red"}


def need_line(explanation: PodExplanation) -> Text:
    """Return what the pod asks of one node, in one sentence."""
    need = explanation.need
    line = Text(explanation.pod, style="bold")
    if not need.gpus:
        return line.append(" asks for no GPU", style="not bold")
    profile = profile_of_resource(need.resource)
    device = "GPU" if profile is None else "MIG device"
    said = f" needs {need.gpus} {device}{'s' if need.gpus != 1 else ''}{f' {profile}' if profile else ''} on one node"
    if need.product:
        said += f" of {' or '.join(need.product)}"
    match need.topology:
        case "required":
            said += ", joined by NVLink"
        case "preferred":
            said += ", joined by NVLink where possible"
    sizes = [("TP", need.tensor_parallel), ("PP", need.pipeline_parallel)]
    told = ", ".join(f"{name} {size}" for name, size in sizes if size > 1)
    if told:
        said += f" ({told}, read from its {need.source})"
    return line.append(said, style="not bold")


def answers_by_rank(explanation: PodExplanation) -> list[NodeExplanation]:
    """Return the answers, the best node first and those that cannot take the pod last."""
    return sorted(explanation.nodes, key=lambda node: (not node.accepted, -node.score, node.name))


def answer_table(answers: Sequence[NodeExplanation], strips: Mapping[str, Text], *, wide: bool = False) -> Table:
    """Return one row per node.

    Parameters
    ----------
    strips
        Drawing of each node's GPUs, by node; a node without one shows `-`.
    wide
        Adds what kubelet may hand out and the parts of the score.
    """
    columns = (
        Column("NODE", shrinks=True),
        Column("GPUS"),
        Column("VERDICT"),
        Column("SCORE", right=True),
        Column("CODE"),
        Column("WHY", shrinks=True),
        *((Column("PICKS"), Column("LINKS"), Column("PARTS")) if wide else ()),
    )
    return Table(columns, tuple(_answer_row(answer, strips, wide=wide) for answer in answers))


def summary_table(explanation: PodExplanation) -> Table:
    """Return, per code, how many nodes have it, its sentence and its cure."""
    counts = sorted(explanation.summary.items(), key=lambda item: (-item[1], item[0]))
    return Table(
        (Column("NODES", right=True), Column("CODE"), Column("MEANING"), Column("CURE", shrinks=True)),
        tuple((str(count), code, *_texts(code)) for code, count in counts),
    )


def _parts(answer: NodeExplanation) -> list[tuple[str, float]]:
    return list(msgspec.to_builtins(answer.parts).items()) if answer.parts is not None else []


def _texts(code: str) -> tuple[str, str]:
    reason = REASONS[Code(code)]
    return reason.sentence, reason.cure


def _answer_row(answer: NodeExplanation, strips: Mapping[str, Text], *, wide: bool) -> tuple[str | Text, ...]:
    row: tuple[str | Text, ...] = (
        answer.name,
        strips.get(answer.name, "-"),
        Text(answer.verdict, style=_VERDICT_STYLE[answer.verdict]),
        str(answer.score) if answer.accepted else "-",
        answer.code or "-",
        answer.message or "-",
    )
    if wide:
        picks = answer.picks
        sets = " ".join(",".join(map(str, pick)) for pick in picks.possible)
        parts = " ".join(f"{name}={value:g}" for name, value in _parts(answer))
        links = picks.worst_link if picks.worst_link == picks.best_link else f"{picks.worst_link}..{picks.best_link}"
        row += (f"{sets or '?'}{'' if picks.complete else ' ...'}", links or "-", parts or "-")
    return row
