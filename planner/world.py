"""A cluster in which pods can be moved to see what follows, judged by the policy of the extender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from msgspec import structs

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.assess import Assessment, assess
from islander.policy.fit import Unfit, unfit
from islander.policy.need import PodNeed
from islander.policy.neighbours import Neighbourhood, spread_fails
from islander.policy.occupancy import GpuState, gpu_state
from islander.policy.reasons import Code
from islander.policy.settings import DEFAULT_MIX

# Marks a replacement to the node's report, which knows the GPUs of the pod it replaces; sorts after every time.
_REPLACED = "~"


@dataclass(frozen=True, slots=True)
class World:
    """Which pods run on which node; a value: every change gives a new world and shares what did not change.

    Attributes
    ----------
    nodes
        Every node by name.
    pods_on
        Pods that hold devices, by node.
    moved
        (pod, node) of every replica that started after the snapshot was taken.
    has_rules
        True when some pod has rules about other pods, so that a move can matter to nodes it does not touch.
    """

    nodes: Mapping[str, Node]
    pods_on: Mapping[str, tuple[Pod, ...]]
    moved: frozenset[tuple[str, str]] = frozenset()
    has_rules: bool = False
    _snapshot_neighbours: Neighbourhood | None = field(default=None, repr=False, compare=False)
    _states: dict[tuple[str, str, tuple[str, ...]], GpuState] = field(default_factory=dict, repr=False, compare=False)
    _around: list[Neighbourhood] = field(default_factory=list, repr=False, compare=False)
    _spread: Mapping[str, Pod] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> World:
        """Return the world as the snapshot shows it."""
        around = Neighbourhood.of(snapshot)
        rules = any(pod.spec.pod_affinity or pod.spec.pod_anti_affinity or pod.spec.spread for pod in snapshot.pods)
        # kube-scheduler spreads over all domains of the pod's own affinity, also those that its volumes forbid.
        spread = {pod.key: pod for pod in snapshot.pods if pod.spec.spread and pod.spec.claims}
        return cls(around.nodes, around.pods, has_rules=rules, _snapshot_neighbours=around, _spread=spread)

    def pods_at(self, node: str) -> tuple[Pod, ...]:
        """Return the pods on a node."""
        return self.pods_on.get(node, ())

    def arrived(self, pod: Pod, node: str) -> World:
        """Return the world in which the pod also runs on `node`; where it ran before it still holds its GPUs."""
        there = (*self.pods_at(node), structs.replace(pod, node=node, phase="Running"))
        return replace(self, pods_on={**self.pods_on, node: there}, moved=self.moved | {(pod.key, node)}, _around=[])

    def left(self, key: str, node: str) -> World:
        """Return the world in which a pod has gone from `node`."""
        there = tuple(pod for pod in self.pods_at(node) if pod.key != key)
        return replace(self, pods_on={**self.pods_on, node: there}, _around=[])

    def state(self, node: str, resource: str) -> GpuState:
        """Return the GPUs of a node; replacements have picked theirs in the order in which they came."""
        there = tuple(
            structs.replace(pod, name=pod.name + _REPLACED, started=f"{_REPLACED}{position:04}")
            if (pod.key, node) in self.moved
            else pod
            for position, pod in enumerate(self.pods_at(node))
        )
        memo = (node, resource, tuple(pod.key for pod in there))
        found = self._states.get(memo)
        if found is None:
            found = self._states[memo] = gpu_state(self.nodes[node], there, resource)
        return found

    def emptied(self, node: str, resource: str) -> GpuState:
        """Return the GPUs of a node as if no pod ran there."""
        return gpu_state(self.nodes[node], (), resource)

    def assessment(self, need: PodNeed, node: str) -> Assessment:
        """Return what the GPUs of a node are to a need."""
        return assess(self.state(node, need.resource), need, DEFAULT_MIX)

    def refusal(self, pod: Pod, need: PodNeed, node: str) -> Unfit | None:
        """Return why the pod may not start on the node now; None when it may."""
        blocked = unfit(pod, self.nodes[node], self.neighbours(), self.pods_at(node))
        listed = self._spread.get(pod.key)
        if blocked is None and listed is not None and spread_fails(listed, self.nodes[node], self.neighbours()):
            blocked = Unfit(Code.TOPOLOGY_SPREAD)
        if blocked is not None or not need.gpus:
            return blocked
        found = self.assessment(need, node)
        return None if found.accepted or found.code is None else Unfit(found.code)

    def neighbours(self) -> Neighbourhood:
        """Return the pods around, as rules between pods see them."""
        base = self._snapshot_neighbours
        if base is not None and (not self.has_rules or self.pods_on is base.pods):
            return base
        if not self._around:
            self._around.append(self._neighbours(base))
        return self._around[0]

    def _neighbours(self, base: Neighbourhood | None) -> Neighbourhood:
        if base is None:
            return Neighbourhood.among(nodes=dict(self.nodes), pods=dict(self.pods_on), namespace_labels={})
        return base.with_pods(dict(self.pods_on))
