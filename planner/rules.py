"""Which pods rules between pods bind: all others may be placed by looking at one node."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from islander.cluster.pod import Pod, PodTerm
from islander.policy.selectors import selects
from planner.world import World


@dataclass(frozen=True, slots=True)
class Rules:
    """The anti-affinities of the pods that run.

    Attributes
    ----------
    repelling
        Their terms, each once. Whose namespace they look at is not judged: a pod may be held for bound that is not.
    """

    repelling: tuple[PodTerm, ...] = ()
    _memo: dict[Hashable, bool] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, world: World) -> Rules:
        """Return the rules in a world; waiting pods bring none to others until they run."""
        terms = {term: None for _, pod in world.neighbours().repelling for term in pod.spec.pod_anti_affinity}
        return cls(tuple(terms))

    def bind(self, pod: Pod) -> bool:
        """Return whether the pod has rules about others, or others may have one about it."""
        own = bool(pod.spec.pod_affinity or pod.spec.pod_anti_affinity or pod.spec.spread)
        return own or self.repel(pod)

    def repel(self, pod: Pod) -> bool:
        """Return whether an anti-affinity of a running pod selects the labels of this one."""
        found = self._memo.get(pod.labels)
        if found is None:
            labels = dict(pod.labels)
            found = self._memo[pod.labels] = any(selects(term.selector, labels) for term in self.repelling)
        return found
