"""What a person types to carry a plan out wave by wave with kubectl alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from islander.cluster.snapshot import ClusterSnapshot
from planner.plan import MovePlan, Step

_SCALABLE = ("Deployment", "ReplicaSet")


@dataclass(frozen=True, slots=True)
class HandWave:
    """The commands of one wave; lines that begin with # are for the person."""

    wave: int
    commands: tuple[str, ...]


def by_hand(plan: MovePlan, cordoned: Collection[str] = ()) -> list[HandWave]:
    """Return the commands of each wave.

    A source is cordoned while its replicas leave, so that they do not come back to it, unless it is a target of the
    same wave or is cordoned already.
    """
    waves = sorted({step.wave for step in plan.steps})
    return [
        HandWave(wave, tuple(_commands([step for step in plan.steps if step.wave == wave], cordoned))) for wave in waves
    ]


def budgets_of(snapshot: ClusterSnapshot) -> dict[str, int]:
    """Return how many disruptions each budget allows now, by `namespace/name`."""
    return {f"{budget.namespace}/{budget.name}": budget.disruptions_allowed for budget in snapshot.budgets}


def moving(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the commands that move the replicas of one wave, and how to see that they have."""
    for step in steps:
        yield from _surge(step) if step.method == "surge" else _eviction(step)
    for namespace in sorted({step.pod.partition("/")[0] for step in steps}):
        yield f"kubectl get pods -n {shlex.quote(namespace)} -o wide --watch"
    targets = sorted({step.to_node for step in steps})
    yield f"# go on when each replacement is Ready where the plan wants it: {', '.join(targets)}"


def eviction(pod: str, uid: str) -> str:
    """Return the command that evicts a pod, `namespace/name`; with its uid no other pod of that name."""
    namespace, _, name = pod.partition("/")
    body: dict[str, object] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
    }
    if uid:
        body["deleteOptions"] = {"preconditions": {"uid": uid}}
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/eviction"
    return f"echo {shlex.quote(json.dumps(body))} | kubectl create --raw {shlex.quote(path)} -f -"


def _commands(steps: list[Step], cordoned: Collection[str]) -> Iterator[str]:
    targets = {step.to_node for step in steps}
    sources = sorted({step.from_node for step in steps} - targets - set(cordoned))
    if sources:
        yield f"kubectl cordon {shlex.join(sources)}"
    yield from moving(steps)
    if sources:
        yield f"kubectl uncordon {shlex.join(sources)}"


def _eviction(step: Step) -> Iterator[str]:
    if not step.uid:
        yield f"# {step.pod} moves on: its replacement may have another name, which you have to look up and put in here"
    yield eviction(step.pod, step.uid)


def _surge(step: Step) -> Iterator[str]:
    namespace, kind, workload = (*step.workload.split("/", 2), "", "")[:3]
    if kind not in _SCALABLE or not workload:
        yield f"# {step.pod} moves by surge: start a second replica, wait until it is Ready, then end this one"
        return
    target, space = shlex.quote(f"{kind.lower()}/{workload}"), shlex.quote(namespace)
    pod = shlex.quote(step.pod.partition("/")[2])
    yield f"kubectl scale -n {space} {target} --replicas=2"
    yield f"# go on when the second replica is Ready on {step.to_node}"
    yield f"kubectl annotate -n {space} pod {pod} controller.kubernetes.io/pod-deletion-cost=-100"
    yield f"kubectl scale -n {space} {target} --replicas=1"
