"""In which domains the pods run that a rule between pods is about.

Asked once for a rule or for pods with equal labels, it answers for every node without looking at the pods again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from islander.cluster.node import Node
from islander.cluster.pod import Pod, PodTerm
from islander.policy.selectors import selects

# A label key and its value: all nodes with that label are one domain.
Domain = tuple[str, str]
# How often each pod counts in each domain, by key of the pod.
Domains = Mapping[Domain, Mapping[str, int]]
# Every pod counts here, wherever it runs.
ANYWHERE: Domain = ("", "")

NamespaceLabels = Mapping[str, Mapping[str, str]]
# A term, and the namespace of the pods that have it.
Owned = tuple[str, PodTerm]
# (namespace, label key, value) of pods that a term may select; None is any namespace, empty words are any label.
_Asked = tuple[str | None, str, str]


def has_another(domains: Domains, domain: Domain, key: str) -> bool:
    """Return whether another pod than the one with this key counts in a domain."""
    return any(other != key for other in domains.get(domain, ()))


def domains_of(counted: Iterable[tuple[Domain, str]]) -> Domains:
    """Return (domain, pod key) pairs as counts."""
    return changed(defaultdict(dict), ((domain, key, 1) for domain, key in counted))


def changed(domains: Domains, changes: Iterable[tuple[Domain, str, int]]) -> Domains:
    """Return the domains after changes of counts, (domain, pod key, how many more); what does not change is shared."""
    found = dict(domains)
    own: dict[Domain, dict[str, int]] = {}
    for domain, key, more in changes:
        if domain not in own:
            found[domain] = own[domain] = dict(found.get(domain, ()))
        count = own[domain].get(key, 0) + more
        own[domain][key] = count
        if not count:
            del own[domain][key]
    return found


def term_selects(term: PodTerm, own_namespace: str, candidate: Pod, namespace_labels: NamespaceLabels) -> bool:
    """Return whether a term of a pod in `own_namespace` selects another pod."""
    named = term.namespaces or (() if term.namespace_selector is not None else (own_namespace,))
    in_namespace = candidate.namespace in named or selects(
        term.namespace_selector, namespace_labels.get(candidate.namespace, {})
    )
    return in_namespace and selects(term.selector, dict(candidate.labels))


def repelling_domains(
    node: Node, other: Pod, *, candidate: Pod, namespace_labels: NamespaceLabels
) -> Iterator[tuple[Domain, str]]:
    """Yield where the anti-affinities of a pod on a node keep a candidate away."""
    for term in other.spec.pod_anti_affinity:
        value = node.label(term.topology_key)
        if value is not None and term_selects(term, other.namespace, candidate, namespace_labels):
            yield (term.topology_key, value), other.key


def selected_domains(
    term: PodTerm, own_namespace: str, namespace_labels: NamespaceLabels, node: Node, candidate: Pod
) -> Iterator[tuple[Domain, str]]:
    """Yield where a pod on a node counts for a term: nowhere when the term does not select it."""
    if term_selects(term, own_namespace, candidate, namespace_labels):
        yield ANYWHERE, candidate.key
        value = node.label(term.topology_key)
        if value is not None:
            yield (term.topology_key, value), candidate.key


class Repulsion:
    """Anti-affinities by the namespaces and labels that they ask for, so that a pod meets only those about it."""

    def __init__(self, repelling: Iterable[tuple[Node, Pod]]) -> None:
        # Replicas share their terms: there is one of each, with the domains of all pods that have it.
        self._domains: defaultdict[Owned, list[tuple[Domain, str]]] = defaultdict(list)
        for node, pod in repelling:
            for term in pod.spec.pod_anti_affinity:
                value = node.label(term.topology_key)
                if value is not None:
                    self._domains[pod.namespace, term].append(((term.topology_key, value), pod.key))
        self._by_label: defaultdict[_Asked, list[Owned]] = defaultdict(list)
        for owned in self._domains:
            for asked in _asked_by(*owned):
                self._by_label[asked].append(owned)

    def domains(self, candidate: Pod, namespace_labels: NamespaceLabels) -> Domains:
        """Return where the anti-affinities keep a pod away."""
        labels = (("", ""), *candidate.labels)
        asked = ((namespace, key, value) for namespace in (candidate.namespace, None) for key, value in labels)
        about_it = {owned: None for one in asked for owned in self._by_label.get(one, ())}
        return domains_of(
            counted
            for namespace, term in about_it
            if term_selects(term, namespace, candidate, namespace_labels)
            for counted in self._domains[namespace, term]
        )


def _asked_by(own_namespace: str, term: PodTerm) -> list[_Asked]:
    namespaces: tuple[str | None, ...] = term.namespaces or (own_namespace,)
    if term.namespace_selector is not None:
        namespaces = (None,)
    requirement = next((r for r in term.selector or () if r.operator == "In"), None)
    labels = [("", "")] if requirement is None else [(requirement.key, value) for value in requirement.values]
    return [(namespace, key, value) for namespace in sorted(set(namespaces), key=str) for key, value in labels]
