"""What a plan does to each node that it touches, GPU by GPU: before, and when all of it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from msgspec import structs

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from islander.policy.status import NodeStatus, cluster_status
from planner.plan import MovePlan
from planner.render.strip import free_places, workload_of

# A plan that overfills a node is drawn as what it is, up to here.
_MOST_BEYOND = 8


class Fate(StrEnum):
    """What happens to the GPU's user."""

    STAYS = "stays"
    LEAVES = "leaves"
    ARRIVES = "arrives"
    ADMITTED = "admitted"
    FREE = "free"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Cell:
    """One GPU; `pod` and `workload` are empty when nobody uses it.

    Cells say how many GPUs a pod holds. Which ones they are is known only where the node reports it.
    """

    fate: Fate
    pod: str = ""
    workload: str = ""


@dataclass(frozen=True, slots=True)
class NodePicture:
    """A node before and after the plan; a pod that stays is drawn in the same place twice."""

    name: str
    product: str
    before: tuple[Cell, ...]
    after: tuple[Cell, ...]

    def gpus(self, fate: Fate) -> dict[str, int]:
        """Return the GPUs of each pod with a fate, in the order in which they are drawn."""
        side = self.before if fate is Fate.LEAVES else self.after
        return dict(Counter(cell.pod for cell in side if cell.fate is fate))


def touched_nodes(plan: MovePlan) -> list[str]:
    """Return the names of the nodes on which the plan changes something, sorted."""
    names = {name for step in plan.steps for name in (step.from_node, step.to_node)}
    return sorted(names | {admission.node for admission in plan.admits})


def pictures(plan: MovePlan, snapshot: ClusterSnapshot, settings: PolicySettings) -> list[NodePicture]:
    """Return the picture of every node that the plan touches; nodes that the snapshot lacks are left out."""
    names = set(touched_nodes(plan))
    near = structs.replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name in names),
        pods=tuple(pod for pod in snapshot.pods if pod.node in names),
    )
    ends = {step.pod: step.to_node for step in sorted(plan.steps, key=lambda step: step.wave)}
    workloads = {pod.key: pod for pod in snapshot.pods}
    owners = snapshot.owners

    def workload(key: str) -> str:
        pod = workloads.get(key)
        owner = owners.workload_of(pod) if pod is not None else ""
        return f"{key.partition('/')[0]}/{owner}" if owner else key.partition("/")[0] if pod is None else key

    drawn = []
    for node in cluster_status(near, settings).nodes:
        here = {pod.pod for pod in node.pods}
        leaving = {key for key, end in ends.items() if key in here and end != node.name}
        coming = [(step.pod, step.gpus, Fate.ARRIVES) for step in plan.steps if _ends_here(step.pod, node, ends, here)]
        coming += [(a.pod, a.gpus, Fate.ADMITTED) for a in plan.admits if a.node == node.name]
        before = _before(node, leaving)
        after = _after(before, [(key, workload(key), gpus, fate) for key, gpus, fate in dict.fromkeys(coming)])
        drawn.append(NodePicture(node.name, node.product, before, after))
    return drawn


def held_by_workload(drawn: Iterable[NodePicture]) -> dict[str, int]:
    """Return how many cells each workload has, for letters and colours."""
    held: Counter[str] = Counter()
    for picture in drawn:
        held.update(cell.workload for cell in (*picture.before, *picture.after) if cell.workload)
    return dict(held)


def _ends_here(key: str, node: NodeStatus, ends: dict[str, str], here: set[str]) -> bool:
    return ends[key] == node.name and key not in here


def _before(node: NodeStatus, leaving: set[str]) -> tuple[Cell, ...]:
    users = [
        Cell(Fate.LEAVES if pod.pod in leaving else Fate.STAYS, pod.pod, workload_of(pod))
        for pod in node.pods
        for _ in range(pod.gpus)
    ]
    places = set(free_places(node))
    rest = iter(users)
    cells = [Cell(Fate.FREE) if index in places else next(rest, Cell(Fate.WITHDRAWN)) for index in range(node.gpus)]
    return (*cells, *rest)


def _after(before: Sequence[Cell], coming: Sequence[tuple[str, str, int, Fate]]) -> tuple[Cell, ...]:
    """Return the cells when the leavers are gone and the arrivals are there, side by side where that is possible."""
    cells = [Cell(Fate.FREE) if cell.fate is Fate.LEAVES else replace(cell) for cell in before]
    for key, workload, gpus, fate in coming:
        free = [index for index, cell in enumerate(cells) if cell.fate is Fate.FREE]
        chosen = _together(free, gpus)
        for index in chosen:
            cells[index] = Cell(fate, key, workload)
        cells += [Cell(fate, key, workload)] * min(gpus - len(chosen), _MOST_BEYOND)
    return tuple(cells)


def _together(free: Sequence[int], gpus: int) -> Sequence[int]:
    """Return the first places that lie side by side, or the first places when there are none."""
    for first in range(len(free) - gpus + 1):
        if gpus > 0 and free[first + gpus - 1] - free[first] == gpus - 1:
            return free[first : first + gpus]
    return free[: max(gpus, 0)]
