"""Rules between pods: affinity, anti-affinity of both sides, topology spread, host ports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from islander.cluster.node import Node
from islander.cluster.pod import HostPort, Pod, PodTerm, SpreadConstraint
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.domains import (
    ANYWHERE,
    Domain,
    Domains,
    Owned,
    Repulsion,
    changed,
    domains_of,
    has_another,
    repelling_domains,
    selected_domains,
    term_selects,
)
from islander.policy.selectors import selects, unmatched_key

Labels = tuple[tuple[str, str], ...]
# Yields in which domains a pod on a node counts, with its key.
_Counted = Callable[[Node, Pod], Iterable[tuple[Domain, str]]]


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The pods around: what rules between pods look at.

    Attributes
    ----------
    nodes
        All nodes by name.
    pods
        Pods by the node they are bound to, finished ones left out.
    namespace_labels
        Labels of each namespace that is known.
    repelling
        The bound pods that have an anti-affinity of their own, with their nodes: few among many.
    """

    nodes: dict[str, Node]
    pods: dict[str, tuple[Pod, ...]]
    namespace_labels: dict[str, dict[str, str]]
    repelling: tuple[tuple[Node, Pod], ...]
    _before: Neighbourhood | None = field(default=None, repr=False, compare=False)
    _touched: tuple[str, ...] = field(default=(), repr=False, compare=False)
    _index: list[Repulsion] = field(default_factory=list, repr=False, compare=False)
    _closed: dict[tuple[str, Labels], Domains] = field(default_factory=dict, repr=False, compare=False)
    _selected: dict[Owned, Domains] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> Neighbourhood:
        """Return the neighbourhood in a snapshot."""
        return cls.among(
            nodes={node.name: node for node in snapshot.nodes},
            pods=snapshot.pods_by_node,
            namespace_labels={namespace.name: dict(namespace.labels) for namespace in snapshot.namespaces},
        )

    @classmethod
    def among(
        cls,
        nodes: dict[str, Node],
        pods: dict[str, tuple[Pod, ...]],
        namespace_labels: dict[str, dict[str, str]],
    ) -> Neighbourhood:
        """Return the neighbourhood of these pods on these nodes."""
        return cls(nodes, pods, namespace_labels, tuple(_repelling(nodes, pods, pods)))

    def with_pods(self, pods: dict[str, tuple[Pod, ...]]) -> Neighbourhood:
        """Return the neighbourhood with pods placed anew; few nodes should have others than now.

        What was found out about all other nodes is kept.
        """
        if self._before is not None:
            return self._before.with_pods(pods)
        touched = tuple(
            name for name in {**self.pods, **pods} if name in self.nodes and pods.get(name) is not self.pods.get(name)
        )
        others = set(touched)
        staying = (pair for pair in self.repelling if pair[0].name not in others)
        repelling = (*staying, *_repelling(self.nodes, pods, touched))
        return Neighbourhood(self.nodes, pods, self.namespace_labels, repelling, self, touched)

    def others(self, pod: Pod) -> Iterator[tuple[Node, Pod]]:
        """Yield every bound pod but this one, with its node."""
        for name, pods in self.pods.items():
            if node := self.nodes.get(name):
                for other in pods:
                    if other.key != pod.key:
                        yield node, other

    def closed_to(self, pod: Pod) -> Domains:
        """Return the domains that anti-affinities of bound pods close to a pod, its own among them."""
        alike = (pod.namespace, pod.labels)
        found = self._closed.get(alike)
        if found is None:
            if self._before is None:
                if not self._index:
                    self._index.append(Repulsion(self.repelling))
                found = self._index[0].domains(pod, self.namespace_labels)
            else:
                closed = partial(repelling_domains, candidate=pod, namespace_labels=self.namespace_labels)
                found = changed(self._before.closed_to(pod), self._changes(closed))
            self._closed[alike] = found
        return found

    def selected(self, term: PodTerm, own_namespace: str) -> Domains:
        """Return the domains in which bound pods run that a term selects."""
        found = self._selected.get((own_namespace, term))
        if found is None:
            counted = partial(selected_domains, term, own_namespace, self.namespace_labels)
            if self._before is None:
                there = (
                    (self.nodes[name], pod) for name, pods in self.pods.items() if name in self.nodes for pod in pods
                )
                found = domains_of(pair for node, pod in there for pair in counted(node, pod))
            else:
                found = changed(self._before.selected(term, own_namespace), self._changes(counted))
            self._selected[own_namespace, term] = found
        return found

    def _changes(self, counted: _Counted) -> Iterator[tuple[Domain, str, int]]:
        """Yield how counts change from the neighbourhood before, on the nodes that are touched."""
        before = {} if self._before is None else self._before.pods
        for name in self._touched:
            for pods, more in ((before.get(name, ()), -1), (self.pods.get(name, ()), 1)):
                for pod in pods:
                    for domain, key in counted(self.nodes[name], pod):
                        yield domain, key, more


def _repelling(
    nodes: dict[str, Node], pods: dict[str, tuple[Pod, ...]], names: Iterable[str]
) -> Iterator[tuple[Node, Pod]]:
    for name in names:
        if name in nodes:
            yield from ((nodes[name], pod) for pod in pods.get(name, ()) if pod.spec.pod_anti_affinity)


def affinity_fails(pod: Pod, node: Node, around: Neighbourhood) -> bool:
    """Return whether a required affinity or anti-affinity, of the pod or of a pod already there, forbids the node."""
    return (
        any(not _affinity_holds(term, pod, node, around) for term in pod.spec.pod_affinity)
        or any(_meets(term, pod, node, around) for term in pod.spec.pod_anti_affinity)
        or _repelled_by_others(pod, node, around)
    )


def _affinity_holds(term: PodTerm, pod: Pod, node: Node, around: Neighbourhood) -> bool:
    if node.label(term.topology_key) is None:
        return False
    if _meets(term, pod, node, around):
        return True
    # The first pod of a group that is attracted to itself may go anywhere (kube-scheduler, interpodaffinity).
    matches_itself = term_selects(term, pod.namespace, pod, around.namespace_labels)
    return matches_itself and not has_another(around.selected(term, pod.namespace), ANYWHERE, pod.key)


def _meets(term: PodTerm, pod: Pod, node: Node, around: Neighbourhood) -> bool:
    """Return whether a pod that the term selects runs in the node's domain."""
    value = node.label(term.topology_key)
    if value is None:
        return False
    return has_another(around.selected(term, pod.namespace), (term.topology_key, value), pod.key)


def _repelled_by_others(pod: Pod, node: Node, around: Neighbourhood) -> bool:
    domains = around.closed_to(pod)
    return any(has_another(domains, label, pod.key) for label in node.labels)


def spread_fails(pod: Pod, node: Node, around: Neighbourhood) -> bool:
    """Return whether the pod on this node would break one of its `DoNotSchedule` spread constraints."""
    return any(_skewed(constraint, pod, node, around) for constraint in pod.spec.spread)


def _skewed(constraint: SpreadConstraint, pod: Pod, node: Node, around: Neighbourhood) -> bool:
    domain = node.label(constraint.topology_key)
    if domain is None:
        return True
    # Only nodes that the pod may use by its selectors make domains (nodeAffinityPolicy: Honor, the default).
    counts = {
        value: 0
        for candidate in around.nodes.values()
        if (value := candidate.label(constraint.topology_key)) is not None and unmatched_key(pod, candidate) is None
    }
    for there, other in around.others(pod):
        value = there.label(constraint.topology_key)
        same = other.namespace == pod.namespace and not other.deleted
        if value in counts and same and selects(constraint.selector, dict(other.labels)):
            counts[value] += 1
    least = min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
    self_match = int(selects(constraint.selector, dict(pod.labels)))
    return counts.get(domain, 0) + self_match - least > constraint.max_skew


def host_port_taken(pod: Pod, pods_there: Iterable[Pod]) -> bool:
    """Return whether a host port of the pod is in use by one of the pods there."""
    return any(
        _clash(wanted, used)
        for other in pods_there
        if other.key != pod.key
        for used in other.spec.host_ports
        for wanted in pod.spec.host_ports
    )


def _clash(one: HostPort, other: HostPort) -> bool:
    every = ("", "0.0.0.0", "::")  # noqa: S104 - the API's words for "every address"
    same_ip = one.host_ip == other.host_ip or one.host_ip in every or other.host_ip in every
    return one.port == other.port and one.protocol == other.protocol and same_ip
