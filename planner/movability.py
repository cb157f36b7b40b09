"""Which running pods may move, and why the others stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum

from islander.cluster import names
from islander.cluster.pod import Owner, Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import DisruptionBudget, Workload
from islander.policy.reasons import MoveCode
from islander.policy.selectors import selects
from planner.options import PlanOptions
from planner.selector import parse_selector
from planner.volumes import Volumes

# Kinds that start a pod again wherever there is room, with their API groups. A ReplicaSet does so whoever owns it.
MOVING_OWNERS = frozenset(
    {
        ("ReplicaSet", "apps"),
        ("StatefulSet", "apps"),
        ("ReplicationController", ""),
        ("LeaderWorkerSet", names.LWS_GROUP),
    }
)
JOB = ("Job", "batch")

# Nothing that a user may create has a priority above this (k8s.io/kubernetes, pkg/apis/scheduling).
HIGHEST_USER_PRIORITY = 1_000_000_000
# Namespaces of the system, and of pods that hold GPUs in the name of others (KAI scheduler).
SYSTEM_NAMESPACES = frozenset({"kube-system", "kai-resource-reservation", "runai-reservation"})

_NEVER_EVICT_COST = str(2**31 - 1)
_YES_NO = {"true": True, "false": False}


class Method(StrEnum):
    """How a replica moves: evicted and started elsewhere, or a second copy starts before the first one ends."""

    EVICT = "evict"
    SURGE = "surge"


def group_of(pod: Pod) -> str | None:
    """Return the key of the group that the pod lives and dies with; None for a pod that stands alone.

    A LeaderWorkerSet restarts a whole group when one of its pods goes. Gangs of other schedulers start together only.
    """
    name, index = pod.label(names.LWS_NAME), pod.label(names.LWS_GROUP_INDEX)
    if name is not None:
        return f"{pod.namespace}/{name}/{index or '0'}"
    gang = (
        pod.label(names.KUEUE_POD_GROUP) or pod.label(names.POD_GROUP) or pod.annotation(names.VOLCANO_POD_GROUP) or ""
    )
    # The replicas of a StatefulSet share a pod group of Kueue, yet serve and restart each by itself.
    alone = pod.owner is not None and pod.owner.kind == "StatefulSet"
    return f"{pod.namespace}/{gang}" if gang and not alone else None


def asks_to_stay(pod: Pod) -> bool:
    """Return whether an annotation forbids to disturb the pod: ours, of an autoscaler, descheduler or Koordinator."""
    if pod.annotation(names.MOVABLE) == "false" or pod.annotation(names.SAFE_TO_EVICT) == "false":
        return True
    if pod.annotation(names.KOORDINATOR_EVICTION_COST) == _NEVER_EVICT_COST:
        return True
    # Karpenter also takes a duration; how much of it is left, only Karpenter knows.
    return any(
        pod.annotation(key) not in (None, "", "false")
        for key in (names.KARPENTER_DO_NOT_DISRUPT, names.EVICTION_IN_PROGRESS, names.REQUEST_EVICT_ONLY)
    ) or pod.annotation(names.PREFER_NO_EVICTION) not in (None, "false")


def is_system(pod: Pod) -> bool:
    """Return whether the pod is a part of the cluster itself."""
    return (
        pod.spec.priority > HIGHEST_USER_PRIORITY
        or pod.spec.priority_class.startswith("system-")
        or pod.namespace in SYSTEM_NAMESPACES
    )


def is_pinned_by_kueue(pod: Pod) -> bool:
    """Return whether Kueue's topology-aware scheduling placed the pod."""
    return pod.label(names.KUEUE_TAS) is not None or any(
        key in names.KUEUE_TOPOLOGY_ANNOTATIONS for key, _ in pod.annotations
    )


def is_managed_by_kueue(pod: Pod) -> bool:
    """Return whether the pod counts against a quota of Kueue."""
    return pod.label(names.KUEUE_QUEUE) is not None or pod.label(names.KUEUE_MANAGED) is not None


class Movability:
    """Judges pods by what the snapshot knows of owners, budgets, nodes and volumes."""

    def __init__(self, snapshot: ClusterSnapshot, options: PlanOptions, *, reach: int | None) -> None:
        """Look everything up that many pods are judged by.

        Parameters
        ----------
        reach
            The highest priority that pods move for; None when no priority is too high.
        """
        self._options = options
        self._reach = reach
        self._protect = parse_selector(options.protect) if options.protect.strip() else None
        self._owners = snapshot.owners
        self._workloads = {f"{w.namespace}/{w.kind}/{w.name}": w for w in snapshot.workloads}
        self._volumes = Volumes(snapshot)
        self._restless_nodes = {
            node.name
            for node in snapshot.nodes
            if node.annotation(names.KARPENTER_DO_NOT_DISRUPT) not in (None, "", "false")
            or node.annotation(names.SCALE_DOWN_DISABLED) == "true"
        }
        self._budgets = _BudgetIndex(snapshot.budgets)
        self._budgets_of: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[DisruptionBudget, ...]] = {}
        self._serving: defaultdict[str, set[str]] = defaultdict(set)
        for pod in snapshot.pods:
            if pod.ready and not pod.deleted:
                self._serving[self.workload_of(pod)].add(group_of(pod) or pod.key)

    def workload_of(self, pod: Pod) -> str:
        """Return `namespace/Kind/name` of what the pod is a replica of; the pod's own key when nobody owns it."""
        group = pod.label(names.LWS_NAME)
        if group is not None:
            return f"{pod.namespace}/LeaderWorkerSet/{group}"
        owner = self._owners.workload_of(pod)
        return f"{pod.namespace}/{owner}" if owner else pod.key

    def budgets_of(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """Return the disruption budgets that hold for the eviction of the pod."""
        memo = (pod.namespace, pod.labels)
        found = self._budgets_of.get(memo)
        if found is None:
            found = self._budgets_of[memo] = self._budgets.selecting(pod)
        return found

    def budget_of(self, pod: Pod) -> DisruptionBudget | None:
        """Return the budget that the eviction draws on; None when there is none, or the pod is broken already.

        The API lets a running pod that is not Ready go without asking when the budget says so, or when enough others
        are healthy (k8s.io/kubernetes, pkg/registry/core/pod/storage/eviction.go).
        """
        for budget in self.budgets_of(pod):
            enough = budget.desired_healthy > 0 and budget.current_healthy >= budget.desired_healthy
            broken = pod.phase == "Running" and not pod.ready
            if not (broken and (budget.unhealthy_pod_eviction_policy == "AlwaysAllow" or enough)):
                return budget
        return None

    def code(self, pod: Pod) -> MoveCode | None:
        """Return why the pod stays where it is; None when it may move, as far as it alone is concerned."""
        return self._by_nature(pod) or self._by_wish(pod) or self._by_owner(pod) or self._by_others(pod)

    def method(self, pod: Pod) -> Method:
        """Return how a pod moves that may move."""
        return Method.SURGE if self._is_single(pod) else Method.EVICT

    def _by_nature(self, pod: Pod) -> MoveCode | None:
        if pod.deleted:
            return MoveCode.TERMINATING
        if pod.annotation(names.MIRROR_POD) is not None or (pod.owner is not None and pod.owner.kind == "Node"):
            return MoveCode.STATIC_POD
        if pod.owner is None:
            return MoveCode.BARE_POD
        if pod.owner.kind == "DaemonSet":
            return MoveCode.DAEMONSET
        return None

    def _by_wish(self, pod: Pod) -> MoveCode | None:
        if is_system(pod) or (self._protect is not None and selects(self._protect, dict(pod.labels))):
            return MoveCode.PROTECTED
        if asks_to_stay(pod) or (pod.node in self._restless_nodes and not _opted_in(pod)):
            return MoveCode.DO_NOT_DISRUPT
        if self._reach is not None and pod.spec.priority > self._reach:
            return MoveCode.PRIORITY_HIGHER
        return None

    def _by_owner(self, pod: Pod) -> MoveCode | None:
        if is_pinned_by_kueue(pod):
            return MoveCode.KUEUE_PINNED
        kind = _kind(pod.owner)
        if kind not in MOVING_OWNERS and not _opted_in(pod) and (kind == JOB or not self._options.allow_unknown_owners):
            return MoveCode.UNKNOWN_OWNER
        if is_managed_by_kueue(pod) and not _opted_in(pod):
            return MoveCode.KUEUE_NO_QUOTA
        if pod.spec.resource_claims and not _opted_in(pod):
            return MoveCode.RESOURCE_CLAIM
        return MoveCode.VOLUME_PINNED if self._volumes.pinned(pod) else None

    def _by_others(self, pod: Pod) -> MoveCode | None:
        if self._is_single(pod):
            if not self._options.allow_single_replica:
                return MoveCode.SINGLE_REPLICA
            if _kind(pod.owner) == ("StatefulSet", "apps") and group_of(pod) is None:
                return MoveCode.NO_SURGE_ROOM
            if self._volumes.for_one_node(pod):
                return MoveCode.NO_SURGE_ROOM
        if len(self.budgets_of(pod)) > 1:
            return MoveCode.PDB_SEVERAL
        budget = self.budget_of(pod)
        return MoveCode.PDB_ZERO if budget is not None and budget.disruptions_allowed < 1 else None

    def _is_single(self, pod: Pod) -> bool:
        """Return whether no other replica of the pod's workload is Ready; a Job's pods serve nobody."""
        if _kind(pod.owner) == JOB:
            return False
        key = self.workload_of(pod)
        workload: Workload | None = self._workloads.get(key)
        if workload is not None and workload.replicas is not None:
            return workload.replicas < 2 or workload.ready_replicas - pod.ready < 1
        return not self._serving.get(key, set()) - {group_of(pod) or pod.key}


class _BudgetIndex:
    """Budgets by a label that they ask for, so that a pod meets only those that may select it."""

    def __init__(self, budgets: Sequence[DisruptionBudget]) -> None:
        self._by_label: defaultdict[tuple[str, str, str], list[DisruptionBudget]] = defaultdict(list)
        self._others: defaultdict[str, list[DisruptionBudget]] = defaultdict(list)
        for budget in budgets:
            asked = next((r for r in budget.selector or () if r.operator == "In"), None)
            if asked is None:
                self._others[budget.namespace].append(budget)
            else:
                for value in set(asked.values):
                    self._by_label[budget.namespace, asked.key, value].append(budget)

    def selecting(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        labels = dict(pod.labels)
        candidates = list(self._others.get(pod.namespace, ()))
        for key, value in pod.labels:
            candidates += self._by_label.get((pod.namespace, key, value), ())
        return tuple(budget for budget in candidates if selects(budget.selector, labels))


def unreadable_annotations(pods: Sequence[Pod]) -> list[str]:
    """Return a sentence for each annotation of ours about moves that says nothing we understand."""
    found = []
    for pod in pods:
        for key, good in ((names.MOVABLE, _YES_NO.__contains__), (names.RELOAD_SECONDS, _is_count)):
            value = pod.annotation(key)
            if value is not None and not good(value):
                found.append(f"pod {pod.key}: annotation {key}: {value!r:.60} is not understood and counts as absent")
    return found


def reload_seconds_of(pod: Pod, default: int) -> int:
    """Return how long a replacement needs until it serves, by the pod's own word or by default."""
    value = pod.annotation(names.RELOAD_SECONDS)
    return int(value) if value is not None and _is_count(value) else default


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 8


def _opted_in(pod: Pod) -> bool:
    return pod.annotation(names.MOVABLE) == "true"


def _kind(owner: Owner | None) -> tuple[str, str]:
    """Return kind and API group of an owner; a reference without a version is taken for the usual one of its kind."""
    if owner is None:
        return "", ""
    if not owner.api_version:
        return owner.kind, dict((*MOVING_OWNERS, JOB)).get(owner.kind, "")
    group, slash, _ = owner.api_version.partition("/")
    return owner.kind, group if slash else ""
