"""What is free, for people: totals, room per shape, one line per node, what waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from islander.policy.status import ClusterStatus, NodeStatus, PendingPod
from planner.render.glyphs import Glyphs
from planner.render.strip import letters_of, strip, workload_of
from planner.render.table import Column, Table

_HARDWARE = (Column("HARDWARE"), Column("CLIQUE"), Column("PODS", shrinks=True))


def headline(status: ClusterStatus) -> Text:
    """Return the totals in one line."""
    totals = status.totals
    parts = [
        ("nodes", totals.nodes),
        ("GPUs", totals.gpus),
        ("used", totals.used),
        ("free", totals.free),
        ("usable free", totals.usable_free),
    ]
    parts += [(name, n) for name, n in (("withdrawn", totals.withdrawn), ("overallocated", totals.overallocated)) if n]
    line = Text()
    for name, amount in parts:
        line.append(("  " if line else "") + f"{name} ").append(str(amount), style="bold")
    line.append("  largest free island ").append(str(status.largest_free_island), style="bold")
    return line.append("  fragmentation ").append(f"{status.fragmentation.ratio:.2f}", style="bold")


def room_table(status: ClusterStatus) -> Table:
    """Return, per shape, how many replicas fit at the same time and how many free GPUs are of no use to it."""
    stranded = status.fragmentation.stranded_gpus
    return Table(
        (Column("GPUS PER REPLICA"), Column("REPLICAS THAT FIT", right=True), Column("FREE GPUS STRANDED", right=True)),
        tuple(
            (shape, str(count), str(stranded[shape]) if shape in stranded else "-")
            for shape, count in sorted(status.placeable.items(), key=lambda item: _shape_order(item[0]))
        ),
    )


def node_table(nodes: Sequence[NodeStatus], glyphs: Glyphs, *, wide: bool = False) -> Table:
    """Return one row per node; `wide` adds the hardware preset, the NVLink clique and the pods."""
    letters = letters_of(nodes)
    sizes = sorted({size for node in nodes for size in node.islands}, key=_shape_order)
    columns = (
        Column("NODE", shrinks=True),
        Column("GPUS"),
        Column("USED", right=True),
        Column("FREE", right=True),
        *(Column(f"ISLANDS/{size}", right=True) for size in sizes),
        Column("FREE INDEXES"),
        Column("PRODUCT", shrinks=True),
        Column("STATE", shrinks=True),
        *(_HARDWARE if wide else ()),
    )
    return Table(columns, tuple(_node_row(node, sizes, letters, glyphs, wide=wide) for node in nodes))


def mig_table(status: ClusterStatus) -> Table:
    """Return one row per node and MIG profile; what could still be made of it only where the node reports layouts."""
    rows: list[tuple[str | Text, ...]] = []
    for node in status.nodes:
        for found in node.mig.instances if node.mig else ():
            more = node.mig.more.get(found.profile, 0) if node.mig and node.mig.more else None
            counts = (str(found.allocatable), str(found.used), str(found.free), "-" if more is None else str(more))
            rows.append((node.name, found.profile, *counts, node.mig.strategy if node.mig else "-"))
    right = (Column(name, right=True) for name in ("OFFERED", "USED", "FREE", "COULD BE MADE"))
    return Table((Column("NODE", shrinks=True), Column("MIG PROFILE"), *right, Column("STRATEGY")), tuple(rows))


def legend_table(nodes: Iterable[NodeStatus]) -> Table:
    """Return which letter stands for which workload."""
    nodes = tuple(nodes)
    held: dict[str, list[int]] = {}
    for node in nodes:
        for pod in node.pods:
            held.setdefault(workload_of(pod), []).append(pod.gpus)
    rows = []
    for workload, letter in letters_of(nodes).items():
        gpus = held[workload]
        rows.append((letter, workload, str(len(gpus)), str(sum(gpus))))
    return Table(
        (Column(""), Column("WORKLOAD", shrinks=True), Column("PODS", right=True), Column("GPUS", right=True)),
        tuple(rows),
    )


def pending_table(status: ClusterStatus) -> Table:
    """Return the pods that wait for GPUs."""
    return Table(
        (
            Column("PENDING POD", shrinks=True),
            Column("GPUS", right=True),
            Column("STATE"),
            Column("REASON", shrinks=True),
        ),
        tuple((pod.pod, pod.shape, _pending_state(pod), pod.reason or "-") for pod in status.pending),
    )


def hint_table(status: ClusterStatus, *, wide: bool = False) -> Table:
    """Return the pods that hold GPUs and hardly use them; `wide` shows all that were measured."""
    return Table(
        (
            Column("MEASURED POD" if wide else "IDLE POD", shrinks=True),
            Column("GPUS", right=True),
            Column("BUSY", right=True),
            Column("MEMORY", right=True),
        ),
        tuple(
            (
                hint.pod,
                str(hint.gpus),
                "-" if hint.busy is None else f"{hint.busy:.0%}",
                "-" if hint.memory_used_mib is None else f"{hint.memory_used_mib / 1024:.1f} GiB",
            )
            for hint in status.hints
            if wide or hint.idle
        ),
    )


def _pending_state(pod: PendingPod) -> Text:
    if pod.stuck:
        return Text("stuck: enough is free, but not together", style="red")
    return Text("no room", style="yellow") if pod.reason else Text("fits")


def _node_row(
    node: NodeStatus, sizes: Sequence[str], letters: dict[str, str], glyphs: Glyphs, *, wide: bool
) -> tuple[str | Text, ...]:
    state = Text("ok") if node.schedulable else Text(node.not_schedulable_reason or "not schedulable", style="yellow")
    row: tuple[str | Text, ...] = (
        node.name,
        strip(node, letters, glyphs),
        str(node.used),
        str(node.free),
        *(str(node.islands.get(size, 0)) for size in sizes),
        _free_indexes(node),
        node.product or "-",
        state,
    )
    if wide:
        pods = " ".join(f"{pod.pod}({pod.gpus})" for pod in node.pods)
        row += (node.hardware or "-", node.clique or "-", pods or "-")
    return row


def _free_indexes(node: NodeStatus) -> str:
    if not node.free:
        return "-"
    return f"{ranges(node.free_indexes or ()) or '?'} ({node.free_indexes_source})"


def ranges(indexes: Iterable[int]) -> str:
    """Return indexes in short: `0-3,6`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _shape_order(shape: str) -> tuple[int, str]:
    digits = "".join(character for character in shape if character.isdigit())
    return (int(digits) if digits else 0, shape)
