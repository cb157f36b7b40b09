"""What may become of the idle whole GPUs of a node: which to give away, and what still fits beside."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from islander.hardware.links import gpus_of, mask_of
from islander.hardware.mig import Geometry
from planner.mig.demand import WholeNeed
from planner.mig.fleet import SINGLE, FleetNode, spare_by_product
from planner.mig.gpus import FleetGpu, Use
from planner.mig.islands import choices, fitting, gpus_in_islands, is_uniform
from planner.mig.layouts import Counts, placed, room_mib, whole_layout


@dataclass(frozen=True, slots=True)
class Pattern:
    """What may become of the idle whole GPUs of a node.

    Attributes
    ----------
    given
        GPUs that are cut, as a mask over the class's first node; of uniform nodes only their number matters.
    taken
        (product, GPUs) that are cut into layouts to be chosen.
    broken
        GPUs in islands, over the sizes that count, that are in none any more.
    fits
        Pods of each whole need that fit in what stays, at the same time.
    uniform
        Profile that every GPU of the node is cut into, under strategy `single`; empty for none.
    supply
        (product, profile, instances) that a uniform node has more (or less) of free afterwards.
    changed
        GPUs of a uniform node whose layout changes.
    room_mib
        Of a uniform node: sum over its GPUs of the largest instance that still fits.
    whole_lost
        Idle whole GPUs that are whole no more.
    """

    given: int
    taken: tuple[tuple[str, int], ...]
    broken: int
    fits: tuple[int, ...]
    uniform: str = ""
    supply: tuple[tuple[str, str, int], ...] = ()
    changed: int = 0
    room_mib: int = 0
    whole_lost: int = 0


def idle_mask(node: FleetNode) -> int:
    """Return the idle whole GPUs of a node, as a bit mask; none where nobody knows which are idle."""
    return mask_of(gpu.index for gpu in node.gpus if gpu.use is Use.IDLE and not gpu.instances)


def is_unsure(node: FleetNode) -> bool:
    """Return whether only the number of the node's free GPUs is known."""
    return not any(gpu.use in (Use.IDLE, Use.WHOLE, Use.SLICED) for gpu in node.gpus)


def _all_idle(node: FleetNode) -> bool:
    return bool(node.gpus) and all(gpu.use is Use.IDLE for gpu in node.gpus)


def _positions(node: FleetNode, mask: int) -> Iterator[int]:
    return (at for at, gpu in enumerate(node.gpus) if mask >> gpu.index & 1)


def gives_mib(geometry: Geometry, gpu: FleetGpu) -> int:
    """Return the largest instance that a GPU can still give as it is cut: one that is free, or one that still fits."""
    free = (found.memory_mib for name, _ in gpu.free if (found := geometry.profile(name)) is not None)
    return max(room_mib(geometry, gpu.layout), *free, 0)


class Patterns:
    """Lists the patterns of nodes for the whole GPUs that pods wait for, and the layouts that are of use."""

    def __init__(
        self,
        geometries: Mapping[str, Geometry],
        layouts: Mapping[str, tuple[Counts, ...]],
        wholes: Sequence[WholeNeed],
        stays: Mapping[str, tuple[bool, ...]],
    ) -> None:
        """Take what all nodes have in common; `stays` says by node name which needs may run there."""
        self._geometries, self._layouts = geometries, layouts
        self._wholes, self._stays = wholes, stays

    def of(self, node: FleetNode) -> Iterator[Pattern]:
        """Yield the patterns of a node; those that change nothing come first, none that another one is better than."""
        idle = idle_mask(node)
        if is_unsure(node):
            yield from self._fitting(node, self._unsure_vectors(node))
            return
        single = node.strategy == SINGLE
        room = sum(gives_mib(self._geometries[g.product], g) for g in node.gpus if g.instances and g.geometry)
        yield from self._fitting(node, self._vectors(node, idle), room_mib=room if single and _all_idle(node) else 0)
        if node.closed is not None:
            return
        if single:
            yield from self._uniform(node, idle)
            return
        kinds = tuple(
            mask_of(g.index for g in node.gpus if idle >> g.index & 1 and g.product == product)
            for product in sorted({gpu.product for gpu in node.gpus})
            if self._layouts.get(product)
        )
        best: defaultdict[tuple[tuple[str, int], ...], list[Pattern]] = defaultdict(list)
        for given in choices(node.hardware, mask_of(g for kind in kinds for g in gpus_of(kind)), kinds):
            if not given:
                continue
            taken = Counter(node.gpus[at].product for at in _positions(node, given))
            broken = gpus_in_islands(node.hardware, idle) - gpus_in_islands(node.hardware, idle & ~given)
            for fits in self._vectors(node, idle & ~given):
                pattern = Pattern(given, tuple(sorted(taken.items())), broken, fits, whole_lost=given.bit_count())
                rivals = best[pattern.taken]
                if not any(_no_worse(rival, pattern) for rival in rivals):
                    best[pattern.taken] = [*(rival for rival in rivals if not _no_worse(pattern, rival)), pattern]
        for patterns in best.values():
            yield from patterns

    def _fitting(self, node: FleetNode, vectors: tuple[tuple[int, ...], ...], room_mib: int = 0) -> Iterator[Pattern]:
        for fits in vectors:
            yield Pattern(0, (), 0, fits, room_mib=room_mib)

    def _uniform(self, node: FleetNode, idle: int) -> Iterator[Pattern]:
        """Yield the ways to cut all GPUs of a node alike, which strategy `single` demands."""
        products = {gpu.product for gpu in node.gpus}
        if not _all_idle(node) or len(products) != 1:
            return
        (product,) = products
        geometry = self._geometries.get(product)
        if geometry is None:
            return
        broken = gpus_in_islands(node.hardware, idle)
        for profile in sorted({profile for counts in self._layouts[product] for profile, _ in counts}):
            counts = whole_layout(geometry, profile)
            changed = sum(gpu.counts != counts for gpu in node.gpus)
            layout = placed(geometry, counts)
            if not changed or layout is None:
                continue
            supply: Counter[tuple[str, str]] = Counter()
            for name, number in counts:
                supply[product, name] += number * len(node.gpus)
            supply.subtract(spare_by_product(node))
            yield Pattern(
                given=mask_of(gpu.index for gpu in node.gpus),
                taken=(),
                broken=broken,
                fits=self._vectors(node, 0)[0],
                uniform=profile,
                supply=tuple((*key, number) for key, number in sorted(supply.items()) if number),
                changed=changed,
                room_mib=len(node.gpus) * room_mib(geometry, layout),
                whole_lost=idle.bit_count(),
            )

    def _vectors(self, node: FleetNode, mask: int) -> tuple[tuple[int, ...], ...]:
        """Return how many pods of each whole need fit in a set of GPUs of the node at the same time."""
        stays = self._stays[node.name]
        needs = tuple(
            (need.islands, need.loose, min(len(need.pods), mask.bit_count() // max(1, need.gpus)) if allowed else 0)
            for need, allowed in zip(self._wholes, stays, strict=True)
        )
        return fitting(node.hardware, mask, needs)

    def _unsure_vectors(self, node: FleetNode) -> tuple[tuple[int, ...], ...]:
        """Return the same where it is not known which GPUs are free, only how many: islands only where all are one."""
        free = node.state.free if node.state.whole and node.state.offered and not node.state.shared else 0
        free = min(free, node.hardware.gpus)
        hardware = node.hardware
        if is_uniform(hardware) and hardware.topology_known:
            return self._vectors(node, (1 << free) - 1)
        stays = self._stays[node.name]
        needs = tuple(
            ((), need.loose, min(len(need.pods), free // need.loose) if allowed and not need.islands else 0)
            for need, allowed in zip(self._wholes, stays, strict=True)
        )
        return fitting(hardware, (1 << free) - 1, needs)


def _no_worse(one: Pattern, other: Pattern) -> bool:
    """Return whether a pattern breaks no more islands than another one and leaves no fewer pods of any kind room."""
    return one.broken <= other.broken and all(a >= b for a, b in zip(one.fits, other.fits, strict=True))
