"""Plans as a test writes them: who goes where, in which wave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.check import check_plan
from planner.options import PlanOptions
from planner.plan import Admission, Cost, MovePlan, Outlook, PlanVerdict, SnapshotFacts, SolverFacts, Step
from tests.builders import a_pod, a_workload, owned_by

SETTINGS = PolicySettings()
NOTHING = Outlook({}, 0, 0.0, 0)


def a_replica(name: str, gpus: int, node: str, **fields: Any) -> Pod:
    """A pod of a workload of its own name of which another replica is Ready, so that it may move."""
    return a_pod(name, gpus=gpus, node=node, **{"owner": owned_by(a_workload(name, replicas=2))} | fields)


def workloads_of(pods: Sequence[Pod]) -> list[Any]:
    """The workloads behind pods of `a_replica`."""
    return [a_workload(pod.name, replicas=2) for pod in pods]


def move(pod: Pod, to: str, wave: int = 1, **fields: Any) -> Step:
    """A step as a plan for this very pod has it."""
    gpus = sum(count for _, count in pod.spec.requests.extended)
    told = {"depends_on": [], "uid": pod.uid, "workload": "w", "gpus": gpus, "from_node": pod.node} | fields
    return Step(id=f"{pod.name}-{wave}", wave=wave, pod=pod.key, to_node=to, **told)


def admit(pod: Pod, node: str, after: int = 1) -> Admission:
    """The admission of a pending pod."""
    return Admission(pod.key, node, pod.spec.requests.extended[0][1], after)


def a_plan(
    snapshot: ClusterSnapshot, *parts: Step | Admission, options: PlanOptions | None = None, **fields: Any
) -> MovePlan:
    """A plan of these steps and admissions, with sums that agree with them."""
    steps = [part for part in parts if isinstance(part, Step)]
    content: dict[str, Any] = {
        "id": "",
        "created_at": "",
        "expires_at": "",
        "snapshot": SnapshotFacts.of(snapshot, SETTINGS),
        "goal": "pending pods",
        "outcome": "plan",
        "solver": SolverFacts("none", "0", "optimal", [], 0.0, 0, 1, 1.0),
        "steps": steps,
        "admits": [part for part in parts if isinstance(part, Admission)],
        "unadmitted": [],
        "immovable": [],
        "before": NOTHING,
        "after": NOTHING,
        "cost": Cost.of(steps),
        "warnings": [],
        "options": options.flags() if options else [],
    }
    return MovePlan(**content | fields).with_id()


def judged(snapshot: ClusterSnapshot, *parts: Step | Admission, **fields: Any) -> PlanVerdict:
    """The verdict on a plan made for this snapshot."""
    return check_plan(a_plan(snapshot, *parts, **fields), snapshot, SETTINGS)


def codes(verdict: PlanVerdict) -> list[tuple[str, str]]:
    """(step, code) of every violation."""
    assert verdict.valid is (not verdict.violations)
    return [(violation.step, violation.code) for violation in verdict.violations]
