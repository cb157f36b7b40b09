"""What stands behind pods: owners, disruption budgets, priority classes."""

from __future__ import annotations

from msgspec import Struct

from islander.cluster.pod import Owner, Requirement


class Workload(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A controller of pods: ReplicaSet, Deployment, StatefulSet, DaemonSet, Job, LeaderWorkerSet and the like.

    Attributes
    ----------
    replicas
        How many are wanted; of a LeaderWorkerSet, how many groups. None when the object does not tell.
    group_size
        Pods per replica; above 1 for a LeaderWorkerSet, whose groups live and die whole.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    replicas: int | None = None
    ready_replicas: int = 0
    group_size: int = 1
    owner: Owner | None = None
    labels: tuple[tuple[str, str], ...] = ()


class DisruptionBudget(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A PodDisruptionBudget; `selector` None selects nothing, empty selects every pod of the namespace."""

    namespace: str
    name: str
    selector: tuple[Requirement, ...] | None = None
    min_available: str = ""
    max_unavailable: str = ""
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    unhealthy_pod_eviction_policy: str = ""


class PriorityClass(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A priority class."""

    name: str
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class Namespace(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A namespace and its labels, which namespace selectors look at."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
