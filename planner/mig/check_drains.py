"""Whether the drains of a plan may happen as it says."""

from __future__ import annotations

from collections import Counter, defaultdict

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.need import need_of
from islander.policy.reasons import Code, MoveCode
from islander.policy.settings import PolicySettings
from planner.findings import Findings
from planner.mig.drains import Drainable
from planner.mig.fleet import Fleet
from planner.mig.plan import MigPlan
from planner.world import World


def check_drains(
    plan: MigPlan,
    fleet: Fleet,
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    may_leave: Drainable,
    findings: Findings,
) -> None:
    """Note steps to nodes that refuse the pod or that change, and waves that disturb too much at once."""
    world = World.of(snapshot)
    drained = {drain.pod: drain for drain in plan.drains}
    takes = {node.name for node in fleet.nodes if node.takes_pods}
    workloads: defaultdict[tuple[int, str], int] = defaultdict(int)
    drawn: defaultdict[tuple[int, str], int] = defaultdict(int)
    for step in sorted(plan.steps, key=lambda step: step.wave):
        pod = fleet.pods.get(step.pod)
        if pod is None or step.pod not in drained or pod.uid != step.uid or pod.node != step.from_node:
            findings.add(step.id, MoveCode.STALE_POD, f"{step.pod} does not leave {step.from_node}")
            continue
        if step.to_node in plan.node_labels or step.to_node not in takes:
            findings.add(step.id, MoveCode.PLAN_INCONSISTENT, f"{step.to_node} changes, or takes no pods")
            continue
        if refusal := world.refusal(pod, need_of(pod, settings), step.to_node):
            findings.add(step.id, refusal.code, f"{step.pod} cannot move to {step.to_node}")
            continue
        world = world.arrived(pod, step.to_node)
        if step.wave < 1:
            findings.add(step.id, MoveCode.PLAN_INCONSISTENT, f"step {step.id} is in wave {step.wave}")
        workload, budget = may_leave.judge.workload_of(pod), may_leave.judge.budget_of(pod)
        workloads[step.wave, workload] += 1
        if workloads[step.wave, workload] > 1:
            findings.add(step.id, MoveCode.TWO_OF_ONE_WORKLOAD, f"wave {step.wave} moves two of {workload}")
        if budget is not None:
            key = f"{budget.namespace}/{budget.name}"
            drawn[step.wave, key] += 1
            if drawn[step.wave, key] > budget.disruptions_allowed:
                findings.add(step.id, MoveCode.OVER_BUDGET, f"wave {step.wave} draws too much on {key}")
    moving = Counter(step.pod for step in plan.steps)
    for pod_key, number in moving.items():
        if number > 1:
            findings.add("", MoveCode.PLAN_INCONSISTENT, f"{pod_key} moves {number} times")
    for drain in plan.drains:
        if bool(drain.step) != (drain.pod in moving):
            findings.add(
                "", MoveCode.PLAN_INCONSISTENT, f"the drain of {drain.pod} and its step do not belong together"
            )
        whole = drain.pod in fleet.pods and need_of(fleet.pods[drain.pod], settings).resource in settings.gpu_resources
        if not drain.step and whole and not _on_slices(fleet, drain.node):
            findings.add("", Code.NOT_ENOUGH_FREE_GPUS, f"{drain.pod} leaves its GPU and has no other one")


def _on_slices(fleet: Fleet, node: str) -> bool:
    return any(found.name == node and found.sliced_as for found in fleet.nodes)
