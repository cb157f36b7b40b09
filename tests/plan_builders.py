"""Builders of plans: a test names what matters to it, the rest is a small plan that holds.

`move_story` is the cluster of the usual plan: `a` and `b` with two free GPUs each, a replica of four waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.plan import (
    Admission,
    Cost,
    Immovable,
    MovePlan,
    Outlook,
    Phase,
    SnapshotFacts,
    SolverFacts,
    Step,
    Unadmitted,
)
from tests.builders import a_budget, a_node, a_pod, a_snapshot, a_workload, owned_by

_CHAT = a_workload("llama", namespace="chat", replicas=2)
_SEARCH = a_workload("embed", namespace="search", replicas=2)


def move_story() -> ClusterSnapshot:
    """Two nodes with two free GPUs each; one replica of two moves, then the pending replica of four fits."""
    return a_snapshot(
        a_node("a"),
        a_node("b"),
        _CHAT,
        _SEARCH,
        a_budget("embed", namespace="search", labels={"app": "embed"}),
        a_pod("llama-1", gpus=4, node="a", namespace="chat", owner=owned_by(_CHAT), labels={"app": "llama"}),
        a_pod("embed-1", gpus=2, node="a", namespace="search", owner=owned_by(_SEARCH), labels={"app": "embed"}),
        a_pod("alone", gpus=4, node="b", namespace="labs"),
        a_pod("embed-2", gpus=2, node="b", namespace="search", owner=owned_by(_SEARCH), labels={"app": "embed"}),
        a_pod("llama-2", gpus=4, tp=4, namespace="chat", owner=owned_by(_CHAT), labels={"app": "llama"}),
    )


def a_step(number: int = 1, **fields: Any) -> Step:
    """A step of the usual plan: `search/embed-1` from a to b."""
    usual: dict[str, Any] = {
        "id": f"s{number}",
        "wave": number,
        "depends_on": [],
        "pod": "search/embed-1",
        "uid": "uid-search-embed-1",
        "workload": "search/ReplicaSet/embed",
        "gpus": 2,
        "from_node": "a",
        "to_node": "b",
        "pdb": "search/embed",
        "drain_seconds": 30,
        "reload_seconds": 300,
        "preconditions": {"uid": "uid-search-embed-1", "node": "a", "freeGpus": 2, "disruptionsAllowed": 1},
        "risks": ["requests longer than 30 s may be cut off"],
    }
    return Step(**(usual | fields))


def an_admission(pod: str = "chat/llama-2", node: str = "a", gpus: int = 4, after_wave: int = 1) -> Admission:
    return Admission(pod, node, gpus, after_wave)


def an_outlook(**fields: Any) -> Outlook:
    usual: dict[str, Any] = {
        "placeable": {"1": 4, "2": 2, "4": 0, "8": 0},
        "largest_free_island": 2,
        "fragmentation": 0.5,
        "empty_nodes": 0,
    }
    return Outlook(**(usual | fields))


def a_plan(
    *,
    steps: Sequence[Step] | None = None,
    admits: Sequence[Admission] | None = None,
    unadmitted: Sequence[Unadmitted] = (),
    immovable: Sequence[Immovable] = (Immovable("labs/alone", "BARE_POD"),),
    outcome: str = "plan",
    status: str = "optimal",
    phases: Sequence[Phase] = (Phase("replicas moved", 1.0, 1.0, "optimal", 0.01),),
    snapshot: ClusterSnapshot | None = None,
    **fields: Any,
) -> MovePlan:
    """A plan for `move_story`, with the id of its content."""
    told = [a_step()] if steps is None else list(steps)
    usual: dict[str, Any] = {
        "id": "",
        "created_at": "2026-01-01T00:00:00Z",
        "expires_at": "2026-01-01T00:15:00Z",
        "snapshot": SnapshotFacts.of(snapshot or move_story(), PolicySettings()),
        "goal": "admit all pending GPU pods",
        "outcome": outcome,
        "solver": SolverFacts("OR-Tools CP-SAT", "9", status, list(phases), 0.1, 0, 1, 10.0),
        "steps": told,
        "admits": [an_admission()] if admits is None else list(admits),
        "unadmitted": list(unadmitted),
        "immovable": list(immovable),
        "before": an_outlook(),
        "after": an_outlook(placeable={"1": 0, "2": 0, "4": 0, "8": 0}, largest_free_island=0, fragmentation=0.0),
        "cost": Cost.of(told),
        "warnings": [],
    }
    return MovePlan(**(usual | fields)).with_id()
