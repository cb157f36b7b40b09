"""Where the volumes of a pod can be reached, as a requirement of the pod itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product

import msgspec

from islander.cluster.node import Node
from islander.cluster.pod import NodeTerm, Pod, PodSpec
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.volume import PersistentVolume, PersistentVolumeClaim
from islander.policy.selectors import unmatched_key

Terms = tuple[NodeTerm, ...]

NEEDED_KINDS = frozenset({"PersistentVolumeClaim", "PersistentVolume"})


class Volumes:
    """Looks up the claims of pods and the volumes behind them."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._claims = {(claim.namespace, claim.name): claim for claim in snapshot.claims}
        self._volumes = {volume.name: volume for volume in snapshot.volumes}
        self._nodes = snapshot.nodes
        self._users = Counter(
            (pod.namespace, name) for pod in snapshot.pods if pod.holds_devices for name in pod.spec.claims
        )
        self._reached: dict[Terms, int] = {}

    def known(self, pod: Pod) -> bool:
        """Return whether every claim of the pod is known, and the volume behind it when it has one."""
        return all(claim is not None and self._is_known(claim) for claim in self._claims_of(pod))

    def pinned(self, pod: Pod) -> bool:
        """Return whether a volume keeps a running pod where it is: local, attached there for others, or not known."""
        return not self.known(pod) or any(self._holds(pod, claim) for claim in self._lasting(pod))

    def for_one_node(self, pod: Pod) -> bool:
        """Return whether a volume of the pod cannot be used by a second copy on another node."""
        return any(claim.one_node for claim in self._lasting(pod))

    def bound(self, pod: Pod) -> Pod:
        """Return the pod with the nodes that reach its volumes as part of its required node affinity.

        A claim that waits for its first pod, and a volume that every node reaches, ask for nothing.
        """
        terms = [
            volume.node_terms
            for claim in self._lasting(pod)
            if (volume := self._volumes.get(claim.volume)) is not None and volume.node_terms is not None
        ]
        if not terms:
            return pod
        own = [pod.spec.node_terms] if pod.spec.node_terms is not None else []
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_terms=_all_hold(own + terms)))

    def _claims_of(self, pod: Pod) -> list[PersistentVolumeClaim | None]:
        return [self._claims.get((pod.namespace, name)) for name in pod.spec.claims]

    def _lasting(self, pod: Pod) -> list[PersistentVolumeClaim]:
        return [claim for claim in self._claims_of(pod) if claim is not None and not claim.ephemeral]

    def _is_known(self, claim: PersistentVolumeClaim) -> bool:
        return claim.ephemeral or not claim.volume or claim.volume in self._volumes

    def _holds(self, pod: Pod, claim: PersistentVolumeClaim) -> bool:
        volume = self._volumes.get(claim.volume)
        if volume is None:
            return False
        shared = claim.one_node and self._users[pod.namespace, claim.name] > 1
        return volume.local or shared or not self._is_reached_elsewhere(volume)

    def _is_reached_elsewhere(self, volume: PersistentVolume) -> bool:
        """Return whether more than one node reaches the volume: disks of one node often come with such terms alone."""
        if volume.node_terms is None:
            return True
        found = self._reached.get(volume.node_terms)
        if found is None:
            found = self._reached[volume.node_terms] = _nodes_reaching(volume.node_terms, self._nodes)
        return found > 1


def _nodes_reaching(terms: Terms, nodes: Iterable[Node]) -> int:
    probe = Pod("", "", spec=PodSpec(node_terms=terms))
    return sum(unmatched_key(probe, node) is None for node in nodes)


def _all_hold(alternatives: list[Terms]) -> Terms:
    """Return terms of which one holds exactly when one term of each alternative does."""
    return tuple(
        NodeTerm(
            tuple(requirement for term in chosen for requirement in term.labels),
            tuple(requirement for term in chosen for requirement in term.fields),
        )
        for chosen in product(*alternatives)
        # An empty term matches no node; joined with others it would match what they do.
        if all(term.labels or term.fields for term in chosen)
    )
