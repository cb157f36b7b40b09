"""A node as one cell per GPU: `[AAAABB..]` is a 4-GPU workload, a 2-GPU workload and two free GPUs."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from islander.policy.status import NodeStatus, PodOnNode
from planner.render.glyphs import Glyphs

_LETTERS = string.ascii_uppercase + string.digits


def workload_of(pod: PodOnNode) -> str:
    """Return what a pod's letter stands for: its workload with the namespace, or the pod when nobody owns it."""
    namespace = pod.pod.partition("/")[0]
    return f"{namespace}/{pod.workload}" if pod.workload else pod.pod


def letters_of(nodes: Iterable[NodeStatus]) -> dict[str, str]:
    """Give each workload a letter, those with most GPUs first; what comes after the last letter gets none."""
    held: Counter[str] = Counter()
    for node in nodes:
        for pod in node.pods:
            held[workload_of(pod)] += pod.gpus
    return letters_by_gpus(held)


def letters_by_gpus(held: Mapping[str, int]) -> dict[str, str]:
    """Give each workload a letter by the GPUs it holds."""
    ordered = sorted(held, key=lambda workload: (-held[workload], workload))
    return dict(zip(ordered, _LETTERS, strict=False))


def strip(node: NodeStatus, letters: Mapping[str, str], glyphs: Glyphs) -> Text:
    """Draw a node: used GPUs by workload, free ones, withdrawn ones.

    Free GPUs stand at their own index when all of their indexes are known; otherwise they stand last, and the picture
    says how many, not which.
    """
    used = "".join(letters.get(workload_of(pod), glyphs.other) * pod.gpus for pod in node.pods)
    places = free_places(node)
    cells: list[tuple[str, str]] = []
    rest = iter(used)
    for index in range(node.gpus):
        if index in places:
            cells.append((glyphs.free, "green"))
        elif (letter := next(rest, None)) is not None:
            cells.append((letter, ""))
        else:
            cells.append((glyphs.withdrawn, "red"))
    drawing = Text("[")
    for character, style in cells:
        drawing.append(character, style=style)
    # More GPUs asked for than the node has: show them outside, where they stand out.
    return drawing.append("]").append("".join(rest), style="red")


def free_places(node: NodeStatus) -> Sequence[int]:
    """Return where the free GPUs of a node are drawn: at their indexes when all are known, otherwise last."""
    known = node.free_indexes or ()
    if len(known) == node.free and all(0 <= index < node.gpus for index in known):
        return known
    held = sum(pod.gpus for pod in node.pods)
    return range(min(held, node.gpus), min(held + node.free, node.gpus))
