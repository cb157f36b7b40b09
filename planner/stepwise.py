"""A plan made one demand after the other: quick, with nothing proved, for when the time was too short for better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from planner.goal import in_order
from planner.order import Unit, moved
from planner.problem import Demand, MovablePod, Problem
from planner.world import World

# Of the nodes that lack the least GPUs so many are tried for a demand, and so many targets for a pod that has to go.
MOST_NODES = 8
MOST_TARGETS = 8


@dataclass(slots=True)
class Stepwise:
    """What was decided so far.

    Attributes
    ----------
    admits
        (demand key, node) in an order that works, after all moves.
    """

    problem: Problem
    world: World
    units: list[Unit] = field(default_factory=list)
    admits: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, problem: Problem, world: World) -> Stepwise:
        """Return the decisions about all demands, those of higher priority and with more GPUs first.

        Demands that are of use together only are left out.
        """
        made = cls(problem, world)
        for demand in sorted(problem.demands, key=lambda d: (-d.priority, -d.need.gpus, in_order(d.key))):
            if demand.group is None:
                made._decide(demand)
        return made

    def _decide(self, demand: Demand) -> None:
        free = self._free(demand.need.resource)
        lacking = sorted(free, key=lambda node: (max(0, demand.need.gpus - free[node]), free[node], node))
        for node in lacking[:MOST_NODES]:
            found = self._made_room(demand, node, free)
            if found is not None:
                self.world = found[1].arrived(demand.pod, node)
                self.units += found[0]
                self.admits.append((demand.key, node))
                return

    def _free(self, resource: str) -> dict[str, int]:
        """Return the free GPUs of each node that takes new pods and offers GPUs."""
        return {
            name: self.world.state(name, resource).free
            for name, node in self.world.nodes.items()
            if node.ready and not node.unschedulable and node.allocatable.count(resource)
        }

    def _made_room(self, demand: Demand, node: str, free: Mapping[str, int]) -> tuple[list[Unit], World] | None:
        """Return the moves after which the demand has room on a node, and the world then; None when none are found."""
        world, units = self.world, list[Unit]()
        going = iter(self._who_may_go(demand, node, demand.need.gpus - free[node]))
        while world.refusal(demand.pod, demand.need, node) is not None:
            mover = next(going, None)
            step = None if mover is None else self._moved_away(world, mover, node)
            if step is None:
                return None
            units.append(step[0])
            world = step[1]
        return units, world

    def _who_may_go(self, demand: Demand, node: str, lack: int) -> Sequence[MovablePod]:
        """Return pods of a node that may move for a demand: first one that is just large enough, then large ones."""
        done = {key for unit in self.units for key, _, _ in unit.legs}
        found = [
            mover
            for pod in self.world.pods_at(node)
            if (mover := self.problem.movable.get(pod.key)) is not None
            and mover.group is None
            and pod.key not in done
            and pod.spec.priority <= demand.priority
        ]
        return sorted(found, key=lambda m: (m.need.gpus < lack, abs(m.need.gpus - lack), m.pod.key))

    def _moved_away(self, world: World, mover: MovablePod, node: str) -> tuple[Unit, World] | None:
        for target in self._targets(world, mover, node):
            unit = Unit(((mover.pod.key, node, target),))
            after = moved(self.problem, world, unit)
            if after is not None:
                return unit, after
        return None

    def _targets(self, world: World, mover: MovablePod, node: str) -> Iterator[str]:
        """Yield other nodes with enough free GPUs, the fullest first."""
        gpus = {name: world.state(name, mover.need.resource).free for name in world.nodes if name != node}
        roomy = sorted((free, name) for name, free in gpus.items() if free >= mover.need.gpus)
        yield from (name for _, name in roomy[:MOST_TARGETS])
