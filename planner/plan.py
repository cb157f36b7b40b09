"""The plan file: what is proposed, why, and what it was judged against. Its keys are a contract with scripts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from islander.cluster.names import API_VERSION
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.settings import PolicySettings


class SnapshotFacts(Struct, frozen=True, rename="camel"):
    """Which cluster the plan was made for; `hash` is of the snapshot's content."""

    hash: str
    taken_at: str
    nodes: int
    gpus: int

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, settings: PolicySettings) -> SnapshotFacts:
        """Return the facts of a snapshot; how and when it was taken is no part of the hash, only what is in it."""
        workloads = tuple(sorted(snapshot.workloads, key=lambda w: (w.kind, w.namespace, w.name)))
        content = structs.replace(snapshot, taken_at="", warnings=(), kinds=(), demand_mix=(), workloads=workloads)
        return cls(
            hash=hashlib.sha256(encode_snapshot(content)).hexdigest(),
            taken_at=snapshot.taken_at,
            nodes=len(snapshot.nodes),
            gpus=sum(node.capacity.count(name) for node in snapshot.nodes for name in settings.gpu_resources),
        )


class Phase(Struct, frozen=True, rename="camel"):
    """One objective, in its order: the value reached and the bound proved; they are equal when it is optimal."""

    name: str
    value: float
    bound: float
    status: str
    seconds: float


class SolverFacts(Struct, frozen=True, rename="camel"):
    """How the plan was found; `status` is optimal, feasible, infeasible or unknown."""

    name: str
    version: str
    status: str
    phases: list[Phase]
    seconds: float
    seed: int
    workers: int
    time_limit_seconds: float


class Step(Struct, frozen=True, rename="camel"):
    """One replica moves; `from_node` is `from` in the file, `to_node` is `to`.

    Attributes
    ----------
    wave
        Steps of one wave run beside each other; a wave starts when the one before is done and Ready. From 1.
    depends_on
        Ids of the steps whose room this one needs.
    pdb
        Name of the budget that the eviction draws on; empty when none selects the pod.
    preconditions
        What must still be true when the step starts: uid, node, disruptionsAllowed, freeGpus of the target.
    """

    id: str
    wave: int
    depends_on: list[str]
    pod: str
    uid: str
    workload: str
    gpus: int
    from_node: str = msgspec.field(name="from")
    to_node: str = msgspec.field(name="to")
    method: str = "evict"
    pdb: str = ""
    drain_seconds: int = 0
    reload_seconds: int = 0
    preconditions: dict[str, Any] = {}
    risks: list[str] = []


class Admission(Struct, frozen=True, rename="camel"):
    """A pending replica that fits once `after_wave` is done; 0 when it fits as things are."""

    pod: str
    node: str
    gpus: int
    after_wave: int


class Unadmitted(Struct, frozen=True, rename="camel"):
    """A pending replica that stays pending: why, and in `message` the smallest change that would help."""

    pod: str
    code: str
    message: str


class Immovable(Struct, frozen=True, rename="camel"):
    """A pod with GPUs that no plan may move, and why."""

    pod: str
    code: str


class Outlook(Struct, frozen=True, rename="camel"):
    """The cluster before or after the plan, in the units of `ClusterStatus`; `empty_nodes` hold no GPU pod."""

    placeable: dict[str, int]
    largest_free_island: int
    fragmentation: float
    empty_nodes: int


class Cost(Struct, frozen=True, rename="camel"):
    """What the plan costs.

    Attributes
    ----------
    replicas_interrupted
        Times that a pod stops serving for a while; a replica that moves by surge is not interrupted.
    gpu_minutes
        Sum over the steps of GPUs and the minutes until the replacement serves again.
    """

    steps: int
    replicas_interrupted: int
    gpu_minutes: float

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Cost:
        """Return the cost of steps."""
        return cls(
            steps=len(steps),
            replicas_interrupted=sum(step.method == "evict" for step in steps),
            gpu_minutes=round(sum(step.gpus * step.reload_seconds for step in steps) / 60, 1),
        )


class MovePlan(Struct, frozen=True, rename="camel"):
    """The fewest, safest, ordered moves that admit pending replicas or a goal.

    Attributes
    ----------
    id
        Hash of the content without `id` and times: the same cluster and goal give the same id.
    goal
        What was asked for, in words.
    options
        Flags of `plan moves` that bear on what the plan may do; `check` judges by them.
    outcome
        plan, nothing-to-do, infeasible, or no-answer-in-time.
    """

    id: str
    created_at: str
    expires_at: str
    snapshot: SnapshotFacts
    goal: str
    outcome: str
    solver: SolverFacts
    steps: list[Step]
    admits: list[Admission]
    unadmitted: list[Unadmitted]
    immovable: list[Immovable]
    before: Outlook
    after: Outlook
    cost: Cost
    warnings: list[str]
    options: list[str] = []
    api_version: str = API_VERSION
    kind: str = "MovePlan"

    def with_id(self) -> MovePlan:
        """Return the plan with the id of its content."""
        return structs.replace(self, id=content_id("mv", self, self.snapshot, self.solver))


def content_id(prefix: str, plan: Struct, snapshot: SnapshotFacts, solver: SolverFacts) -> str:
    """Return the id of a plan's content; the times of snapshot and solver are left out: they differ."""
    phases = [structs.replace(phase, seconds=0.0) for phase in solver.phases]
    content = structs.replace(
        plan,
        id="",
        created_at="",
        expires_at="",
        snapshot=structs.replace(snapshot, taken_at=""),
        solver=structs.replace(solver, phases=phases, seconds=0.0),
    )
    digest = hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
    return f"{prefix}-{digest[:12]}"


class Violation(Struct, frozen=True, rename="camel"):
    """One thing that is wrong with a plan; `step` is empty when it is not about a single step."""

    step: str
    code: str
    message: str


class PlanVerdict(Struct, frozen=True, rename="camel"):
    """Whether a plan is valid against a snapshot, judged without a solver."""

    valid: bool
    violations: list[Violation]
    warnings: list[str]
    api_version: str = API_VERSION
    kind: str = "PlanVerdict"
