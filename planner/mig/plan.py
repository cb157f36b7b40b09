"""The plan file of MIG layouts. Its keys are a contract with scripts."""

from __future__ import annotations

from msgspec import Struct, structs

from islander.cluster.names import API_VERSION
from planner.plan import SnapshotFacts, SolverFacts, Step, content_id


class DemandLine(Struct, frozen=True, rename="camel"):
    """Instances that are wanted.

    Attributes
    ----------
    profile
        As it was asked for; of a model the profiles that can hold it, joined by ` or `.
    source
        pending pods, running pods, --profile, demand file, or model NAME.
    product
        Product that must serve; empty for every one that has the profile.
    accepts
        Profile that serves, by product.
    met
        How many of them there are once the plan is carried out.
    strategy
        MIG strategy under which they are asked for; empty for any.
    pods
        Keys of the pods that ask, when pods do.
    why
        How a model's memory was reckoned; empty for anything else.
    """

    profile: str
    count: int
    source: str
    priority: int = 0
    product: str = ""
    accepts: dict[str, str] = {}
    met: int = 0
    strategy: str = ""
    pods: list[str] = []
    why: str = ""


class PlacedInstance(Struct, frozen=True, rename="camel"):
    """An instance and its first memory slot.

    mig-parted chooses the slots of new ones itself: theirs are one legal choice.
    """

    profile: str
    start: int


class KeptInstance(Struct, frozen=True, rename="camel"):
    """An instance that is not touched; `pod` is its user, null when it is free or nobody knows."""

    profile: str
    start: int
    pod: str | None = None


class GpuLayout(Struct, frozen=True, rename="camel"):
    """One GPU of a node that is changed, before and after; after is keeps and created together.

    Attributes
    ----------
    drains
        Pods that must have left before it is cut.
    reset
        True when MIG mode is switched on or off and that needs a reset of the GPU.
    """

    node: str
    index: int
    product: str
    before: list[PlacedInstance]
    after: list[PlacedInstance]
    keeps: list[KeptInstance]
    drains: list[str]
    created: list[PlacedInstance]
    reset: bool = False


class UnmetDemand(Struct, frozen=True, rename="camel"):
    """Instances that are wanted and will not be there, and why."""

    profile: str
    count: int
    code: str
    message: str = ""
    source: str = ""
    priority: int = 0


class Drain(Struct, frozen=True, rename="camel"):
    """A pod that has to leave a GPU; `step` moves it, or `code` says why none does."""

    pod: str
    node: str
    index: int
    step: str = ""
    code: str = ""


class NotTarget(Struct, frozen=True, rename="camel"):
    """A node with GPUs that the plan does not change whatever is wanted."""

    node: str
    code: str
    message: str


class Waiting(Struct, frozen=True, rename="camel"):
    """A pod that waits for whole GPUs, and a node on which they are still there for it after the plan."""

    pod: str
    node: str
    gpus: int


class Suggestion(Struct, frozen=True, rename="camel"):
    """A workload with one whole GPU per replica that an instance would hold; nothing is planned for it.

    Attributes
    ----------
    profiles
        The smallest profile with enough memory, by product.
    arithmetic
        What the replica needs against what the instance has, in words.
    """

    workload: str
    pods: int
    model: str
    profiles: dict[str, str]
    arithmetic: str


class MigRoom(Struct, frozen=True, rename="camel"):
    """What nobody uses: idle whole GPUs that are surely idle, and free instances by profile."""

    whole_gpus: int
    free_instances: dict[str, int]


class MigCost(Struct, frozen=True, rename="camel"):
    """What the plan changes."""

    gpus_changed: int
    nodes_changed: int
    instances_destroyed: int
    pods_drained: int


class MigPlan(Struct, frozen=True, rename="camel"):
    """Which GPUs are cut into which instances, for which demand, and what has to leave first.

    Attributes
    ----------
    id
        Hash of the content without `id` and times: the same cluster and demand give the same id.
    outcome
        plan, nothing-to-do, infeasible, or no-answer-in-time.
    gpus
        Every GPU of the nodes that are changed.
    node_labels
        Value of `nvidia.com/mig.config` by node; each is a name in `mig-parted.yaml`.
    files
        Text by file name, ready for `kubectl apply -k` of the directory that holds them.
    steps
        The drains that have a target, in the form of a plan of moves.
    options
        Flags of `plan mig` that bear on what the plan may do; `check` judges by them.
    """

    id: str
    created_at: str
    expires_at: str
    snapshot: SnapshotFacts
    goal: str
    outcome: str
    solver: SolverFacts
    demand: list[DemandLine]
    gpus: list[GpuLayout]
    unmet: list[UnmetDemand]
    node_labels: dict[str, str]
    files: dict[str, str]
    steps: list[Step]
    drains: list[Drain]
    not_targets: list[NotTarget]
    waiting: list[Waiting]
    suggestions: list[Suggestion]
    before: MigRoom
    after: MigRoom
    cost: MigCost
    warnings: list[str]
    options: list[str] = []
    api_version: str = API_VERSION
    kind: str = "MigPlan"

    def with_id(self) -> MigPlan:
        """Return the plan with the id of its content."""
        return structs.replace(self, id=content_id("mig", self, self.snapshot, self.solver))
