"""GPUs as their memory slots, with the instances on them, before and after; GPUs that look alike are one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from islander.hardware.mig import Geometry, geometry_for
from planner.mig.check import changes
from planner.mig.gpus import FleetGpu, Use
from planner.mig.plan import GpuLayout, PlacedInstance
from planner.plan_words import amount
from planner.render.mig import layout_text, ranges
from planner.render.report.drawing import CELL, PAD, Box, Drawing, Label
from planner.render.report.palette import Colour

GPU_WIDTH, BESIDE, ROW, SLOT_GAP = 288, 54, CELL + 5, 2
# Of the font in the drawings of GPUs, in the same units.
_CHARACTER = 6.65
_LONGEST_LABEL = 7
_WHOLE_WIDTH = GPU_WIDTH - SLOT_GAP
STAYS, LEAVES, ARRIVES, FREE, USED, SICK = "stays", "leaves", "arrives", "free", "used", "withdrawn"
_WORDS = {STAYS: "stays", LEAVES: "is removed", ARRIVES: "is new"}
_WHOLE_WORDS = {
    Use.IDLE: "idle",
    Use.WHOLE: "in use",
    Use.SLICED: "in use",
    Use.UNSURE: "may be in use",
    Use.SICK: "not healthy",
}
_WHOLE_FATES = {Use.WHOLE: USED, Use.SLICED: USED, Use.UNSURE: USED, Use.SICK: SICK}


@dataclass(frozen=True, slots=True)
class Slice:
    """An instance in a drawing; `pod` is empty when nobody uses it, or nobody knows."""

    profile: str
    start: int
    pod: str
    fate: str


@dataclass(frozen=True, slots=True)
class GpuLook:
    """How a GPU looks before and after; GPUs of a node with equal looks are one row.

    Attributes
    ----------
    before, after
        Instances; empty for a GPU that is not cut.
    whole_before, whole_after
        (fate, words) of a GPU that is not cut.
    stay
        Users that go on running.
    """

    product: str
    before: tuple[Slice, ...]
    after: tuple[Slice, ...]
    whole_before: tuple[str, str]
    whole_after: tuple[str, str]
    changed: bool
    drains: tuple[str, ...]
    stay: tuple[str, ...]
    reset: bool


@dataclass(frozen=True, slots=True)
class GpuRow:
    """GPUs of one node that look alike."""

    indexes: tuple[int, ...]
    look: GpuLook

    @property
    def name(self) -> str:
        """The GPUs as people write them: `GPU 0-3`."""
        return f"GPU {ranges(self.indexes)}"


def rows_of(gpus: Sequence[GpuLayout], seen: Mapping[tuple[str, int], FleetGpu]) -> tuple[GpuRow, ...]:
    """Return the GPUs of a node, those that look alike together, in the order of their first index.

    Parameters
    ----------
    seen
        The GPUs by (node, index) as the snapshot shows them; those that look otherwise than in the plan tell nothing.
    """
    alike: dict[GpuLook, list[int]] = {}
    for gpu in sorted(gpus, key=lambda gpu: gpu.index):
        alike.setdefault(_look(gpu, seen.get((gpu.node, gpu.index))), []).append(gpu.index)
    return tuple(GpuRow(tuple(indexes), look) for look, indexes in alike.items())


def _look(gpu: GpuLayout, found: FleetGpu | None) -> GpuLook:
    told = [(instance.profile, instance.start) for instance in gpu.before]
    if found is not None and told != [tuple(placement) for placement in found.layout]:
        found = None
    users = {(i.profile, i.start): i.pod for i in found.instances} if found is not None else {}
    kept = {(instance.profile, instance.start): instance.pod or "" for instance in gpu.keeps}
    changed = changes(gpu)
    before = tuple(
        Slice(*place, kept.get(place) or users.get(place, ""), STAYS if place in kept else LEAVES) for place in told
    )
    after = [Slice(*place, pod or users.get(place, ""), STAYS) for place, pod in kept.items()]
    after += [Slice(instance.profile, instance.start, "", ARRIVES) for instance in gpu.created]
    whole = _whole(gpu, found, changed=changed)
    pods = found.pods if found is not None else ()
    stay = {f"{pod} on {place[0]}" for place, pod in kept.items() if pod}
    if not changed and not told:
        stay |= {f"{pod} on the whole GPU" for pod in pods}
    return GpuLook(
        product=gpu.product,
        before=before,
        after=tuple(sorted(after, key=lambda part: part.start)),
        whole_before=whole,
        whole_after=(ARRIVES, "whole again") if changed else whole,
        changed=changed,
        drains=tuple(gpu.drains),
        stay=tuple(sorted(stay)),
        reset=gpu.reset,
    )


def _whole(gpu: GpuLayout, found: FleetGpu | None, *, changed: bool) -> tuple[str, str]:
    if changed:
        return LEAVES, f"whole, {', '.join(gpu.drains)} leaves" if gpu.drains else "whole"
    if found is None:
        return FREE, "whole"
    return _WHOLE_FATES.get(found.use, FREE), f"whole, {_WHOLE_WORDS[found.use]}"


def drawing(what: str, rows: Sequence[GpuRow], colours: Mapping[str, Colour], *, after: bool) -> Drawing:
    """Return the drawing of a node's GPUs, one below the other."""
    boxes: list[Box] = []
    labels: list[Label] = []
    told: list[str] = []
    for number, row in enumerate(rows):
        y = PAD + number * ROW
        short = row.name if len(row.name) <= _LONGEST_LABEL else f"{len(row.indexes)} GPUs"
        labels.append(Label(0, y + CELL // 2, short))
        filled = _boxes(row, y, colours, after=after)
        boxes += filled + _gaps(row, y, after=after)
        told.append("; ".join(box.title for box in filled))
    height = 2 * PAD + max(len(rows) * ROW - (ROW - CELL), 0)
    return Drawing(BESIDE + GPU_WIDTH + PAD, height, tuple(boxes), what, ". ".join(told), tuple(labels))


def _boxes(row: GpuRow, y: int, colours: Mapping[str, Colour], *, after: bool) -> list[Box]:
    slices = row.look.after if after else row.look.before
    if not slices:
        fate, words = row.look.whole_after if after else row.look.whole_before
        return [_whole_box(row, _fitting(_WHOLE_WIDTH, words, "whole"), fate, words, y)]
    geometry = geometry_for(row.look.product)
    places = _places(geometry, slices)
    if geometry is None or places is None:
        words = layout_text([PlacedInstance(part.profile, part.start) for part in slices])
        return [_whole_box(row, _fitting(_WHOLE_WIDTH, words), slices[0].fate, words, y)]
    slot = GPU_WIDTH // geometry.slots
    boxes = []
    for part, (first, size) in zip(slices, places, strict=True):
        width = size * slot - SLOT_GAP
        boxes.append(
            Box(
                x=BESIDE + first * slot,
                letter=_fitting(width, part.profile, short_profile(part.profile)),
                colour=colours.get(part.profile),
                fate=part.fate,
                title=f"{row.name}: {_said(part, size, geometry)}",
                width=width,
                y=y,
            )
        )
    return boxes


def _whole_box(row: GpuRow, letter: str, fate: str, words: str, y: int) -> Box:
    return Box(BESIDE, letter, None, fate, f"{row.name}: {words}", _WHOLE_WIDTH, y)


def _gaps(row: GpuRow, y: int, *, after: bool) -> list[Box]:
    """Return the memory slots of a GPU that is cut in which no instance lies."""
    slices = row.look.after if after else row.look.before
    geometry = geometry_for(row.look.product)
    places = _places(geometry, slices)
    if geometry is None or not places:
        return []
    slot = GPU_WIDTH // geometry.slots
    taken = {at for first, size in places for at in range(first, first + size)}
    return [
        Box(BESIDE + at * slot, "", None, FREE, f"{row.name}: memory slot {at} is in no instance", slot - SLOT_GAP, y)
        for at in range(geometry.slots)
        if at not in taken
    ]


def _places(geometry: Geometry | None, slices: Sequence[Slice]) -> list[tuple[int, int]] | None:
    """Return (first slot, slots) of each instance; None when some of it cannot be drawn."""
    found = []
    for part in slices:
        profile = geometry.profile(part.profile) if geometry is not None else None
        if geometry is None or profile is None or not 0 <= part.start <= geometry.slots - profile.size:
            return None
        found.append((part.start, profile.size))
    return found


def _said(part: Slice, size: int, geometry: Geometry) -> str:
    user = f"used by {part.pod}" if part.pod else "free" if part.fate == ARRIVES else ""
    where = f"memory slot {part.start}" if size == 1 else f"memory slots {part.start} to {part.start + size - 1}"
    told = (part.profile, f"{where} of {geometry.slots}", user, _WORDS[part.fate])
    return ", ".join(word for word in told if word)


def short_profile(profile: str) -> str:
    """Return a profile without its memory: `1g+me`."""
    compute, _, rest = profile.partition(".")
    ending = rest.partition("gb")[2]
    return f"{compute}{ending}"


def _fitting(width: int, *texts: str) -> str:
    return next((text for text in texts if len(text) * _CHARACTER <= width), "")


def change_words(row: GpuRow) -> str:
    """Return what happens to the GPUs of a row; empty when nothing does."""
    look = row.look
    if not look.changed:
        return ""
    before, after = (
        layout_text([PlacedInstance(part.profile, part.start) for part in side]) for side in (look.before, look.after)
    )
    each = "each " if len(row.indexes) > 1 else ""
    reset = f", with a reset of {amount(len(row.indexes), 'GPU')}" if look.reset else ""
    return f"{row.name}: {each}{before} → {after}{reset}"
