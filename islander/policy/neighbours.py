"""Rules between pods: affinity, anti-affinity of both sides, topology spread, host ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from islander.cluster.node import Node
from islander.cluster.pod import HostPort, Pod, PodTerm, SpreadConstraint
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.selectors import selects, unmatched_key


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
        repelling = tuple(
            (nodes[name], pod)
            for name, there in pods.items()
            if name in nodes
            for pod in there
            if pod.spec.pod_anti_affinity
        )
        return cls(nodes, pods, namespace_labels, repelling)

    def others(self, pod: Pod) -> Iterator[tuple[Node, Pod]]:
        """Yield every bound pod but this one, with its node."""
        for name, pods in self.pods.items():
            if node := self.nodes.get(name):
                for other in pods:
                    if other.key != pod.key:
                        yield node, other


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
    matches_itself = _term_selects(term, pod.namespace, pod, around)
    return matches_itself and not any(
        _term_selects(term, pod.namespace, other, around) for _, other in around.others(pod)
    )


def _meets(term: PodTerm, pod: Pod, node: Node, around: Neighbourhood) -> bool:
    """Return whether a pod that the term selects runs in the node's domain."""
    domain = node.label(term.topology_key)
    return domain is not None and any(
        there.label(term.topology_key) == domain and _term_selects(term, pod.namespace, other, around)
        for there, other in around.others(pod)
    )


def _repelled_by_others(pod: Pod, node: Node, around: Neighbourhood) -> bool:
    return any(
        there.label(term.topology_key) is not None
        and there.label(term.topology_key) == node.label(term.topology_key)
        and _term_selects(term, other.namespace, pod, around)
        for there, other in around.repelling
        if other.key != pod.key
        for term in other.spec.pod_anti_affinity
    )


def _term_selects(term: PodTerm, own_namespace: str, candidate: Pod, around: Neighbourhood) -> bool:
    named = term.namespaces or (() if term.namespace_selector is not None else (own_namespace,))
    in_namespace = candidate.namespace in named or selects(
        term.namespace_selector, around.namespace_labels.get(candidate.namespace, {})
    )
    return in_namespace and selects(term.selector, dict(candidate.labels))


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
