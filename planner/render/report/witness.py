"""Where all guaranteed replicas are at the same time: the nodes of a flavor as strips, those that are alike once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from islander.cluster.node import Node
from islander.cluster.queues import ResourceFlavor
from islander.cluster.snapshot import ClusterSnapshot
from planner.plan_words import amount
from planner.quota.flavors import product_key
from planner.quota.plan import FlavorRow, QueueRow, QuotaPlan, WitnessPods
from planner.quota.usable import nodes_of
from planner.render.report.drawing import CELL, GAP, PAD, Box, Drawing
from planner.render.report.palette import Colour

# Kinds of nodes of a flavor that are drawn; how many are left out is told.
MOST_DRAWN = 40
_MOST_CELLS, _LEAST_UNIT, _LETTER_WIDTH = 16, 4, 12
_OTHER_LETTER = "#"
_QUEUED, _OUTSIDE, _FREE = "admitted", "withdrawn", "free"
RESERVE = "kept in reserve"


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """Pods of one shape on a node, and whose quota they stand for."""

    owner: str
    gpus: int
    island: bool
    pods: int


@dataclass(frozen=True, slots=True)
class NodeLook:
    """What is on a node; nodes with equal looks are drawn once.

    Attributes
    ----------
    gpus
        GPUs that it offers; None without a snapshot, and then nothing free is drawn.
    outside
        GPUs that pods hold which no quota counts.
    left_out
        True for a node that may be lost: no guaranteed replica is there.
    """

    blocks: tuple[Block, ...]
    gpus: int | None
    outside: int
    left_out: bool

    @property
    def placed(self) -> int:
        """GPUs that replicas fill."""
        return sum(block.gpus * block.pods for block in self.blocks)

    @property
    def free(self) -> int:
        """GPUs that nobody has, as far as is known."""
        return max(0, (self.gpus or 0) - self.placed - self.outside)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes that look alike."""

    names: tuple[str, ...]
    look: NodeLook
    drawing: Drawing
    words: str


@dataclass(frozen=True, slots=True)
class FlavorPicture:
    """A flavor and its nodes; `more` are the nodes that are not drawn."""

    flavor: FlavorRow
    nodes: tuple[Nodes, ...]
    more: int


def owner_of(row: QueueRow) -> str:
    """Return what a row is called in pictures."""
    return row.name if row.kind == "ClusterQueue" else f"{row.name} (cohort)"


def held_by_owner(plan: QuotaPlan) -> dict[str, int]:
    """Return how many GPUs the witness places for each queue, for letters and colours."""
    held: Counter[str] = Counter()
    for owner, pods in _witnesses(plan):
        held[owner] += pods.gpus * pods.pods
    return dict(held)


def _witnesses(plan: QuotaPlan) -> Iterator[tuple[str, WitnessPods]]:
    for row in plan.queues:
        for pods in row.witness:
            yield owner_of(row), pods
    for reserve in plan.reserve:
        for pods in reserve.witness:
            yield RESERVE, pods


def flavor_pictures(
    plan: QuotaPlan, snapshot: ClusterSnapshot | None, letters: Mapping[str, str], colours: Mapping[str, Colour]
) -> list[FlavorPicture]:
    """Return the nodes of each flavor, those with most replicas first.

    A node of several flavors is drawn with all that is on it, under each of them.
    """
    on_node: defaultdict[str, Counter[tuple[str, int, bool]]] = defaultdict(Counter)
    for owner, pods in _witnesses(plan):
        on_node[pods.node][owner, pods.gpus, pods.island] += pods.pods
    found = []
    for flavor in plan.flavors:
        looks: defaultdict[NodeLook, list[str]] = defaultdict(list)
        members = _members(flavor, snapshot)
        outside = _outside(flavor, snapshot)
        for name in _names(plan, flavor, members, on_node):
            blocks = tuple(sorted(Block(*key, number) for key, number in on_node[name].items()))
            gpus = members[name].allocatable.count(flavor.resource) if name in members else None
            lost = bool(plan.survive_nodes) and name in flavor.biggest
            looks[NodeLook(blocks, gpus, outside[name], lost)].append(name)
        ordered = sorted(looks.items(), key=lambda item: (-item[0].placed, -len(item[1]), item[1]))
        shown = [
            Nodes(tuple(called), look, _drawing(called, look, letters, colours), _words(look))
            for look, called in ordered[:MOST_DRAWN]
        ]
        found.append(FlavorPicture(flavor, tuple(shown), sum(len(called) for _, called in ordered[MOST_DRAWN:])))
    return found


def _members(flavor: FlavorRow, snapshot: ClusterSnapshot | None) -> dict[str, Node]:
    """Return the nodes of a flavor that offer its resource; a new one selects its product."""
    if snapshot is None:
        return {}
    known = next((own for own in snapshot.resource_flavors if own.name == flavor.name), None)
    labels = tuple((product_key(flavor.resource), product) for product in flavor.products)
    selecting = known or ResourceFlavor(name=flavor.name, node_labels=labels[:1])
    return {node.name: node for node in nodes_of(selecting, snapshot.nodes) if node.allocatable.count(flavor.resource)}


def _names(plan: QuotaPlan, flavor: FlavorRow, members: Iterable[str], on_node: Mapping[str, object]) -> list[str]:
    used = {pods.node for row in plan.queues if row.flavor == flavor.name for pods in row.witness}
    if plan.survive_nodes:
        used |= set(flavor.biggest)
    used |= {name for name in members if name not in flavor.unusable}
    if len(plan.flavors) == 1:
        used |= set(on_node)
    return sorted(used)


def _outside(flavor: FlavorRow, snapshot: ClusterSnapshot | None) -> Counter[str]:
    """Return the GPUs by node that the flavor's holders outside Kueue have."""
    found: Counter[str] = Counter()
    if snapshot is None:
        return found
    nodes = {pod.key: pod.node for pod in snapshot.pods}
    nodes |= {f"{claim.namespace}/{claim.name} (ResourceClaim)": claim.node for claim in snapshot.resource_claims}
    for holder, gpus in flavor.held_outside.items():
        found[nodes.get(holder) or ""] += gpus
    return found


def _drawing(
    called: Sequence[str], look: NodeLook, letters: Mapping[str, str], colours: Mapping[str, Colour]
) -> Drawing:
    cells = max(look.gpus or 0, look.placed + look.outside)
    unit = CELL + GAP if cells <= _MOST_CELLS else max(_LEAST_UNIT, _MOST_CELLS * (CELL + GAP) // cells)
    gap = GAP if unit > _LETTER_WIDTH else 1
    boxes: list[Box] = []

    def put(gpus: int, letter: str, colour: Colour | None, fate: str, title: str) -> None:
        x = PAD + sum(box.width + gap for box in boxes)
        width = gpus * unit - gap
        boxes.append(Box(x, letter if width >= _LETTER_WIDTH else "", colour, fate, title, width))

    for block in look.blocks:
        told = f"{block.owner}: a pod of {amount(block.gpus, 'GPU')}{', an island' if block.island else ''}"
        for _ in range(block.pods):
            put(block.gpus, letters.get(block.owner, _OTHER_LETTER), colours.get(block.owner), _QUEUED, told)
    for _ in range(look.outside):
        put(1, "x", None, _OUTSIDE, "held by a pod that no quota counts")
    for _ in range(look.free):
        put(1, "", None, _FREE, "kept free: the node may be lost" if look.left_out else "not guaranteed to anybody")
    one = called[0] if len(called) == 1 else f"each of {len(called)} nodes"
    width = 2 * PAD + max(sum(box.width + gap for box in boxes) - gap, 0)
    return Drawing(width, CELL + 2 * PAD, tuple(boxes), one, _words(look))


def _words(look: NodeLook) -> str:
    parts = [f"{block.owner} {block.pods} x {block.gpus}" for block in look.blocks]
    parts += [f"{look.outside} held outside"] if look.outside else []
    if look.gpus is not None:
        parts.append(f"{look.free} of {amount(look.gpus, 'GPU')} left")
    if look.left_out:
        parts.append("left out, may be lost")
    return ", ".join(parts)
