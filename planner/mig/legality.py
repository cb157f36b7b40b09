"""Which nodes pods may run on, as far as labels and taints tell, judged once for each kind of node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from islander.cluster.pod import Pod
from planner.mig.demand import Demand, WholeNeed, may_run
from planner.mig.fleet import FleetNode
from planner.mig.tolerance import product_of, tolerates


class Legality:
    """Which demands and whole needs may use which node, as far as labels and taints tell.

    Attributes
    ----------
    runs, stays
        By node name, for each demand and each whole need.
    wholes
        The needs, with those put together that ask for the same and may run on the same nodes.
    """

    def __init__(self, nodes: Sequence[FleetNode], demands: Sequence[Demand], wholes: Sequence[WholeNeed]) -> None:
        """Judge every kind of node once."""
        pods = [d.pod for d in demands if d.pod is not None] + [w.pod for w in wholes]
        self._keys = sorted({key for pod in pods for key in _mentioned(pod)})
        self._named = any(term.fields for pod in pods for term in pod.spec.node_terms or ())
        memo: dict[tuple[object, ...], tuple[tuple[bool, ...], tuple[bool, ...]]] = {}
        self.runs: dict[str, tuple[bool, ...]] = {}
        judged: dict[str, tuple[bool, ...]] = {}
        for node in nodes:
            key = self._signature(node)
            if key not in memo:
                runs = tuple(may_run(demand, node) for demand in demands)
                memo[key] = runs, tuple(node.takes_pods and tolerates(need.pod, node.node) for need in wholes)
            self.runs[node.name], judged[node.name] = memo[key]
        columns = [tuple(stays[i] for _, stays in memo.values()) for i in range(len(wholes))]
        groups: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for i, need in enumerate(wholes):
            groups[need.islands, need.loose, need.priority, need.running, columns[i]].append(i)
        self.wholes = tuple(
            replace(wholes[members[0]], pods=tuple(sorted(pod for i in members for pod in wholes[i].pods)))
            for members in groups.values()
        )
        self.stays = {name: tuple(stays[members[0]] for members in groups.values()) for name, stays in judged.items()}

    def _signature(self, node: FleetNode) -> tuple[object, ...]:
        labels = dict(node.node.labels)
        values = tuple(labels.get(key) for key in self._keys)
        name = node.name if self._named else ""
        products = product_of(node.node), *sorted({gpu.product for gpu in node.gpus})
        return values, node.node.taints, node.strategy, node.takes_pods, products, node.driver, name


def _mentioned(pod: Pod) -> Iterator[str]:
    yield from (key for key, _ in pod.spec.node_selector)
    for term in pod.spec.node_terms or ():
        yield from (requirement.key for requirement in term.labels)
