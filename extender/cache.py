"""Nodes and the pods that hold their GPUs, kept so that a decision needs no work per node: events do it.

An event changes the pods of one node and with them the id of the node's state; a request gathers ids and looks them up.
No request calls the API, and no request waits for more than the states that the latest events have changed.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from extender.states import MOST_NEEDS, ResourceStates, Sight
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.need import PodNeed
from islander.policy.occupancy import GpuState, gpu_state
from islander.policy.settings import DemandMix

_MEMO = 4096
# A bind that the API has confirmed is seen by the watch within moments; after so long something else has happened.
_ASSUMED_S = 600.0


def identity(pod: Pod) -> str:
    """Return the UID of a pod, or `namespace/name` for one that the API has not seen yet."""
    return pod.uid or pod.key


class ClusterCache:
    """The state of the cluster as far as decisions need it; thread-safe.

    Parameters
    ----------
    resources
        Resource names whose states are computed ahead of the first request.
    settled
        Called with the identity of a pod when it is seen bound, finished or gone.
    has_devices
        Whether dynamic resource allocation serves a resource on a node that does not name it itself. The default says
        yes: kube-scheduler has counted before it asks, and were a node refused because its slices arrive here a moment
        later, nothing would have the pod tried again. A file that nobody has counted says it itself.
    """

    def __init__(
        self,
        resources: Sequence[str],
        settled: Callable[[str], None] = lambda _identity: None,
        *,
        has_devices: Callable[[str, str], bool] = lambda _node, _resource: True,
    ) -> None:
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._pods_on: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._nominated: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._assumed: dict[str, tuple[Pod, float]] = {}
        self._resources = {name: ResourceStates(name) for name in resources}
        self._settled = settled
        self._has_devices = has_devices
        self._dirty: set[str] = set()
        self._versions: defaultdict[str, int] = defaultdict(int)
        self._memo: dict[tuple[ResourceStates, str, tuple[str, ...]], tuple[int, int]] = {}
        # The first is held for moments; the second while states are computed, by whoever gets there first.
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()
        self._eager = False

    def on_change(self, kind: str, key: str, old: object, new: object) -> None:
        """Take in one change of an object; kinds other than Node and Pod do not matter here."""
        if kind == "Node":
            self._change_node(key, new if isinstance(new, Node) else None)
        elif kind == "Pod":
            pod = new if isinstance(new, Pod) else old if isinstance(old, Pod) else None
            if pod is not None:
                self._change_pod(key, pod, gone=new is None)
        if self._eager and self._refreshing.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._refreshing.release()
            for states in list(self._resources.values()):
                states.judge_new_states()

    def load(self, snapshot: ClusterSnapshot) -> None:
        """Take in a whole snapshot."""
        for node in snapshot.nodes:
            self.on_change("Node", node.name, None, node)
        for pod in snapshot.pods:
            self.on_change("Pod", pod.key, None, pod)
        self.catch_up()

    def catch_up(self) -> None:
        """Compute what the events so far have left to do, as after a first list; later events do their own part."""
        with self._refreshing:
            self._refresh()
        self._eager = True

    def prepare(self, needs: Sequence[PodNeed], mix: DemandMix) -> None:
        """Judge all nodes for the first of the needs, as many as are kept, before somebody asks."""
        for need in needs[:MOST_NEEDS]:
            self.sight(need.resource, ()).resource.judge_all(need, mix)

    def assume(self, pod: Pod, node: str, now: float) -> None:
        """Count a pod on a node as though it had been seen there; `now` in seconds."""
        with self._lock:
            for late in [who for who, (_, until) in self._assumed.items() if until < now]:
                self._forget(late)
            self._forget(identity(pod))
            self._assumed[identity(pod)] = (msgspec.structs.replace(pod, node=node), now + _ASSUMED_S)
            self._touch(node)

    def forget(self, pod: Pod) -> None:
        """Stop counting a pod that was assumed."""
        with self._lock:
            self._forget(identity(pod))

    def pod(self, key: str) -> Pod | None:
        """Return a pod that asks for devices, by `namespace/name`, as it was last seen."""
        return self._pods.get(key)

    def node(self, name: str) -> Node | None:
        """Return a node as it was last seen."""
        return self._nodes.get(name)

    def pods_on(self, name: str) -> tuple[Pod, ...]:
        """Return the pods that hold devices of a node, assumed ones among them."""
        with self._lock:
            return self._holders(name)

    def nodes(self) -> dict[str, Node]:
        """Return all nodes by name, as they were last seen."""
        with self._lock:
            return dict(self._nodes)

    def waiting(self) -> list[Pod]:
        """Return the pods with devices that are not on a node yet."""
        with self._lock:
            return [pod for pod in self._pods.values() if not pod.node and not pod.finished]

    def nominated(self) -> dict[str, tuple[Pod, ...]]:
        """Return the pending pods that a node is meant for, by node."""
        if not self._nominated:
            return {}
        with self._lock:
            return {node: tuple(pods.values()) for node, pods in self._nominated.items()}

    def sight(self, resource: str, names: Sequence[str]) -> Sight:
        """Return the named nodes as they are now, with all that events brought before this call."""
        if self._dirty or resource not in self._resources:
            with self._refreshing:
                self._refresh()
                if resource not in self._resources:
                    self._survey(resource)
        return Sight(self._resources[resource], names)

    def state_with(self, states: ResourceStates, name: str, more: Iterable[Pod]) -> int | None:
        """Return the id of the state that a node would have with more pods on it; None when it is not known."""
        extra = {identity(pod): pod for pod in more}
        memo = (states, name, tuple(sorted(extra)))
        with self._lock:
            node, holders, version = self._nodes.get(name), self._holders(name), self._versions[name]
        found = self._memo.get(memo)
        if found is not None and found[0] == version:
            return found[1]
        if node is None:
            return None
        pods = [*holders, *(extra[who] for who in sorted(extra.keys() - {identity(pod) for pod in holders}))]
        state = states.id_of(self.state_of(node, pods, states.resource))
        if len(self._memo) >= _MEMO:
            self._memo.clear()
        self._memo[memo] = (version, state)
        return state

    def state_of(self, node: Node, pods: Iterable[Pod], resource: str) -> GpuState:
        """Return the state of a node with these pods, whether the node is known or was sent."""
        return gpu_state(node, pods, resource, dra=self._has_devices(node.name, resource))

    def _change_node(self, name: str, node: Node | None) -> None:
        with self._lock:
            if node is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = node
            self._touch(name)

    def _change_pod(self, key: str, pod: Pod, *, gone: bool) -> None:
        settled = gone or bool(pod.node) or pod.finished
        if pod.spec.requests.extended or key in self._pods:
            with self._lock:
                before = self._pods.pop(key, None)
                if before is not None:
                    self._leave(before)
                if not gone:
                    self._enter(pod)
                if settled:
                    self._forget(identity(pod))
        if settled:
            self._settled(identity(pod))

    def _enter(self, pod: Pod) -> None:
        self._pods[pod.key] = pod
        if pod.holds_devices:
            self._pods_on[pod.node][pod.key] = pod
            self._touch(pod.node)
        elif pod.nominated_node and not pod.node and not pod.finished:
            self._nominated[pod.nominated_node][pod.key] = pod

    def _leave(self, pod: Pod) -> None:
        for places, node in ((self._pods_on, pod.node), (self._nominated, pod.nominated_node)):
            there = places.get(node)
            if there is not None and there.pop(pod.key, None) is not None:
                self._touch(node)
                if not there:
                    del places[node]

    def _forget(self, who: str) -> None:
        found = self._assumed.pop(who, None)
        if found is not None:
            self._touch(found[0].node)

    def _touch(self, node: str) -> None:
        self._dirty.add(node)
        self._versions[node] += 1

    def _holders(self, name: str) -> tuple[Pod, ...]:
        seen = self._pods_on.get(name)
        pods = tuple(seen.values()) if seen else ()
        if self._assumed:
            pods += tuple(pod for pod, _ in self._assumed.values() if pod.node == name and pod.key not in (seen or ()))
        return pods

    def _refresh(self) -> None:
        while self._dirty:
            with self._lock:
                dirty, self._dirty = self._dirty, set()
                work = {name: (self._nodes.get(name), self._holders(name)) for name in dirty}
            for states in self._resources.values():
                self._compute(states, work)
            for resource in [name for name, states in self._resources.items() if states.is_wasteful()]:
                self._survey(resource)

    def _survey(self, resource: str) -> None:
        """Compute the states of all nodes for a resource, from nothing."""
        states = ResourceStates(resource)
        with self._lock:
            work = {name: (node, self._holders(name)) for name, node in self._nodes.items()}
            self._versions = defaultdict(int, {name: self._versions[name] for name in work})
            self._memo.clear()
        self._compute(states, work)
        self._resources = {**self._resources, resource: states}

    def _compute(self, states: ResourceStates, work: Mapping[str, tuple[Node | None, tuple[Pod, ...]]]) -> None:
        for name, (node, pods) in work.items():
            if node is None:
                states.forget(name)
            else:
                states.put(name, self.state_of(node, pods, states.resource))
