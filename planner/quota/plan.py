"""The quota plan as a file: what each queue shall have, why, and where all of it is at the same time."""

from __future__ import annotations

from msgspec import Struct, structs

from islander.cluster.names import API_VERSION
from planner.plan import SnapshotFacts, SolverFacts, content_id
from planner.quota.finding_codes import QuotaFinding

# GPUs and pods as numbers; CPU and memory as Kueue writes them.
Amount = int | str | None


class Change(Struct, frozen=True, rename="camel"):
    """An amount before and after; None where there is none: no such quota, or no limit."""

    old: Amount
    new: Amount

    @property
    def same(self) -> bool:
        """Whether nothing changes."""
        return self.old == self.new


class WitnessPods(Struct, frozen=True, rename="camel"):
    """Pods of one shape that the quota stands for on one node; `island` when the GPUs of each are joined pairwise."""

    node: str
    gpus: int
    island: bool
    pods: int


class QueueRow(Struct, frozen=True, rename="camel"):
    """The quota of one resource of one flavor in one queue or cohort.

    Attributes
    ----------
    kind
        ClusterQueue or Cohort.
    nominal, borrowing, lending
        GPUs; other resources as quantities.
    baseline
        GPUs of baselines that are inside the nominal quota.
    island
        GPUs that nominal quota and limits are multiples of; 0 for resources beside GPUs.
    witness
        Where the replicas of the nominal quota are, beside those of all other rows.
    """

    name: str
    cohort: str
    flavor: str
    resource: str
    nominal: Change
    borrowing: Change
    lending: Change
    baseline: int
    witness: list[WitnessPods]
    why: str
    kind: str = "ClusterQueue"
    island: int = 0

    @property
    def changes(self) -> bool:
        """Whether anything of the row changes."""
        return not (self.nominal.same and self.borrowing.same and self.lending.same)


class TeamRow(Struct, frozen=True, rename="camel"):
    """Replicas of one shape that a team runs, and how many of them the quotas guarantee.

    Attributes
    ----------
    gpus, island, product
        What one pod asks of its node.
    pods
        Pods of one replica.
    baseline, most, guaranteed
        Replicas; `most` None for no limit.
    cpu_milli, memory_bytes
        What one pod asks beside GPUs; 0 when not known.
    fits
        False where no node of the queue's flavors holds one.
    """

    team: str
    queue: str
    gpus: int
    island: bool
    product: str
    pods: int
    baseline: int
    most: int | None
    guaranteed: int
    weight: float
    may_borrow: bool
    source: str
    cpu_milli: int = 0
    memory_bytes: int = 0
    fits: bool = True


class Unmet(Struct, frozen=True, rename="camel"):
    """A baseline that has no room: `missing` replicas of `gpus` GPUs, and what would help."""

    team: str
    queue: str
    gpus: int
    missing: int
    code: str
    message: str


class Reserve(Struct, frozen=True, rename="camel"):
    """Room for pods of one shape that no quota hands out; `kept` is less than `asked` where it is not there."""

    gpus: int
    island: bool
    asked: int
    kept: int
    witness: list[WitnessPods]


class FlavorRow(Struct, frozen=True, rename="camel"):
    """What a flavor offers, in GPUs.

    Attributes
    ----------
    arithmetic
        Allocatable GPUs of all its nodes.
    usable
        GPUs of nodes that take pods, less those that pods outside Kueue hold.
    placeable
        GPUs that replicas of the shapes asked for can fill at the same time.
    placeable_without_biggest
        The same when its biggest node is gone, or as many as are to be survived.
    nominal
        Sum of the nominal quotas, before and after.
    held_outside
        `namespace/name` -> GPUs of pods that no quota counts.
    unusable
        Node -> why its GPUs do not count.
    """

    name: str
    resource: str
    products: list[str]
    new: bool
    arithmetic: int
    usable: int
    placeable: int
    placeable_without_biggest: int
    nominal: Change
    held_outside: dict[str, int]
    unusable: dict[str, str]
    biggest: list[str]


class Totals(Struct, frozen=True, rename="camel"):
    """GPUs of all flavors together; a node that belongs to several counts once."""

    arithmetic: int
    placeable: int
    placeable_without_biggest_node: int
    usable: int
    held_outside: int


class QuotaPlan(Struct, frozen=True, rename="camel"):
    """Kueue quotas that can really be placed.

    Attributes
    ----------
    id
        Hash of the content without `id` and times: the same cluster and policy give the same id.
    outcome
        plan; nothing-to-do; infeasible when a baseline has no place; no-answer-in-time when the search ended before it
        was known which baselines have one, and the quotas are none to be applied.
    survive_nodes
        Nodes of each flavor that may fail; the witness uses none of the biggest ones.
    queues
        Rows in order of cohort, queue, flavor, resource.
    created
        `Kind/name` or `Kind/namespace/name` of objects that are not there yet.
    edited
        What changes in objects of today beside quotas, one sentence each.
    files
        Name -> text, ready for `kubectl apply -k`.
    """

    id: str
    created_at: str
    expires_at: str
    snapshot: SnapshotFacts
    policy: str
    survive_nodes: int
    outcome: str
    solver: SolverFacts
    queues: list[QueueRow]
    created: list[str]
    edited: list[str]
    teams: list[TeamRow]
    unmet: list[Unmet]
    reserve: list[Reserve]
    flavors: list[FlavorRow]
    totals: Totals
    findings: list[QuotaFinding]
    files: dict[str, str]
    warnings: list[str]
    api_version: str = API_VERSION
    kind: str = "QuotaPlan"

    @property
    def changed(self) -> list[QueueRow]:
        """The rows that change."""
        return [row for row in self.queues if row.changes]

    @property
    def proposes(self) -> bool:
        """Whether applying the files would change anything."""
        return bool(self.changed or self.created or self.edited)

    def with_id(self) -> QuotaPlan:
        """Return the plan with the id of its content."""
        return structs.replace(self, id=content_id("qt", self, self.snapshot, self.solver))
