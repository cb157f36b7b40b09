"""What a person types to carry out a plan of MIG layouts with kubectl alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from islander.cluster import names
from planner.mig.emit import KUSTOMIZATION_FILE, POLICY_FILE
from planner.mig.plan import MigPlan
from planner.render.report.by_hand import eviction, moving
from planner.render.report.files import writing

FOLDER = "layouts"
_STATE = names.MIG_CONFIG_STATE
_LONGEST_WAIT = "30m"


@dataclass(frozen=True, slots=True)
class Part:
    """Commands that belong together; lines that begin with # are for the person."""

    title: str
    commands: tuple[str, ...]


def mig_by_hand(plan: MigPlan, uids: Mapping[str, str]) -> tuple[Part, ...]:
    """Return the commands in their order; nothing when no node changes.

    Parameters
    ----------
    uids
        By pod, `namespace/name`, as far as a snapshot tells.
    """
    if not plan.node_labels:
        return ()
    nodes = shlex.join(sorted(plan.node_labels))
    parts = [
        Part("Look, and write the files", tuple(_looking(plan, nodes))),
        Part("Keep new pods away", (f"kubectl cordon {nodes}",)),
    ]
    for wave in sorted({step.wave for step in plan.steps}):
        steps = [step for step in plan.steps if step.wave == wave]
        parts.append(Part(f"Drain, wave {wave}", tuple(moving(steps))))
    if homeless := [drain.pod for drain in plan.drains if not drain.step]:
        parts.append(Part("Drain those that have to wait for the new instances", tuple(_waiting(homeless, uids))))
    parts.append(Part("Cut", tuple(_cutting(plan, nodes))))
    parts.append(Part("Wait until it is done, then open the nodes again", tuple(_opening(nodes))))
    return tuple(parts)


def _looking(plan: MigPlan, nodes: str) -> Iterator[str]:
    yield "islander check PLAN"
    yield f"kubectl get node {nodes} -L {names.MIG_CONFIG},{_STATE}"
    yield from writing(plan.files, FOLDER)


def _waiting(pods: list[str], uids: Mapping[str, str]) -> Iterator[str]:
    yield "# no other place is free for them: each replacement is Pending until the nodes are open again"
    for pod in pods:
        yield eviction(pod, uids.get(pod, ""))


def _cutting(plan: MigPlan, nodes: str) -> Iterator[str]:
    yield "# no pod that was to leave may be there any more"
    yield (
        f"kubectl get pods -A -o wide --field-selector spec.nodeName={nodes}"
        if len(plan.node_labels) == 1
        else ("kubectl get pods -A -o wide --sort-by .spec.nodeName")
    )
    # A success of the change before would be taken for one of this change.
    yield f"kubectl label node {nodes} {_STATE}-"
    if POLICY_FILE in plan.files:
        yield "# once: tells the GPU operator which ConfigMap is its MIG manager's; without the operator this differs"
        yield f"kubectl patch clusterpolicy cluster-policy --type merge --patch-file {FOLDER}/{POLICY_FILE}"
    if KUSTOMIZATION_FILE in plan.files:
        yield f"kubectl diff -k {FOLDER}"
        yield f"kubectl apply -k {FOLDER}"
    yield "# the labels are in there and start the change; these lines say the same once more"
    for config in sorted(set(plan.node_labels.values())):
        alike = shlex.join(sorted(node for node, value in plan.node_labels.items() if value == config))
        yield f"kubectl label node {alike} {shlex.quote(f'{names.MIG_CONFIG}={config}')} --overwrite"


def _opening(nodes: str) -> Iterator[str]:
    path = "{.metadata.labels." + _STATE.replace(".", r"\.") + "}"
    yield f"kubectl wait node {nodes} --for=jsonpath={shlex.quote(path)}=success --timeout={_LONGEST_WAIT}"
    yield f"# {_STATE}=failed instead: look at the MIG manager's log and leave the node cordoned"
    yield f"kubectl uncordon {nodes}"
