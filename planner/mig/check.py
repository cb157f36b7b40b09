"""Whether a plan of MIG layouts holds: judged on a snapshot without a solver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from islander.cluster.snapshot import ClusterSnapshot
from islander.hardware.mig import Placement
from islander.policy.reasons import Code, MoveCode
from islander.policy.settings import PolicySettings
from planner.findings import Findings
from planner.mig.check_demand import check_demand, check_waiting
from planner.mig.check_drains import check_drains
from planner.mig.check_files import check_files
from planner.mig.demand import too_new
from planner.mig.drains import Drainable, drainable
from planner.mig.fleet import SINGLE, Fleet, FleetNode
from planner.mig.gpus import FleetGpu, Use
from planner.mig.layouts import needs_reset
from planner.mig.options import MigOptions
from planner.mig.plan import GpuLayout, MigPlan
from planner.mig.pod_demand import RUNNING
from planner.plan import PlanVerdict, SnapshotFacts


def check_mig_plan(
    plan: MigPlan, snapshot: ClusterSnapshot, settings: PolicySettings, options: MigOptions | None = None
) -> PlanVerdict:
    """Return whether a plan may be carried out on a snapshot, and everything that speaks against it.

    Parameters
    ----------
    options
        What to allow; by default what the plan says it was made with.

    Raises
    ------
    PlannerError
        The options of the plan cannot be understood.
    """
    allowed = MigOptions.from_flags(plan.options) if options is None else options
    fleet = Fleet.of(snapshot, allowed)
    nodes = {node.name: node for node in fleet.nodes}
    reach = max((line.priority for line in plan.demand if line.source != RUNNING), default=None)
    may_leave = drainable(snapshot, fleet, settings, reach, allowed=allowed.allow_drain)
    findings = Findings()
    for gpu in plan.gpus:
        _check_gpu(gpu, nodes, may_leave, findings)
    _check_nodes(plan, nodes, findings)
    _check_figures(plan, nodes, findings)
    if not findings.found:
        # What follows takes for granted that the GPUs are there and can be cut as the plan says.
        check_files(plan, nodes, findings)
        check_demand(plan, fleet, snapshot, findings)
        check_waiting(plan, fleet, snapshot, settings, findings)
        check_drains(plan, fleet, snapshot, settings, may_leave, findings)
    warnings = list(fleet.warnings)
    if plan.snapshot.hash != SnapshotFacts.of(snapshot, settings).hash:
        warnings.insert(0, "the plan was made for another snapshot; it is judged GPU by GPU against this one")
    return PlanVerdict(valid=not findings.found, violations=findings.found, warnings=warnings)


def changes(gpu: GpuLayout) -> bool:
    """Return whether a GPU gets another layout."""
    return bool(gpu.created) or len(gpu.keeps) != len(gpu.before)


def _check_gpu(told: GpuLayout, nodes: Mapping[str, FleetNode], may_leave: Drainable, findings: Findings) -> None:
    where = f"{told.node}/{told.index}"
    node = nodes.get(told.node)
    gpu = next((gpu for gpu in node.gpus if gpu.index == told.index), None) if node is not None else None
    if node is None or gpu is None:
        findings.add(where, Code.UNKNOWN_NODE if node is None else MoveCode.STALE_GPU, f"GPU {where} is not there")
        return
    before = [(instance.profile, instance.start) for instance in told.before]
    if told.product != gpu.product or before != [tuple(placement) for placement in gpu.layout]:
        findings.add(where, MoveCode.STALE_GPU, f"GPU {where} is cut differently, or of another product")
        return
    after = sorted((instance.profile, instance.start) for instance in told.after)
    kept = [(instance.profile, instance.start) for instance in told.keeps]
    if after != sorted([*kept, *((i.profile, i.start) for i in told.created)]) or not set(kept) <= set(before):
        findings.add(where, MoveCode.PLAN_INCONSISTENT, f"GPU {where} has not what it keeps and what is created")
        return
    if not changes(told):
        if told.drains:
            findings.add(where, MoveCode.PLAN_INCONSISTENT, f"GPU {where} does not change, so nobody has to leave it")
        return
    placements = [Placement(profile, start) for profile, start in after]
    if gpu.geometry is None:
        findings.add(where, MoveCode.NO_MIG_TABLE, f"GPU {where} cannot be judged")
    elif not gpu.geometry.is_legal(placements):
        findings.add(where, MoveCode.LAYOUT_NOT_LEGAL, f"GPU {where} as {', '.join(f'{p}@{s}' for p, s in after)}")
    elif told.reset != needs_reset(gpu.geometry, told.before, told.after):
        findings.add(where, MoveCode.PLAN_INCONSISTENT, f"GPU {where}: whether it needs a reset is told wrongly")
    new = [i.profile for i in told.created if too_new(told.product, i.profile, node)]
    if new:
        findings.add(where, MoveCode.DRIVER_TOO_OLD, f"GPU {where} as {', '.join(sorted(set(new)))}")
    if told.keeps:
        message = f"GPU {where} keeps {len(told.keeps)} instances, but mig-parted replaces the whole layout"
        findings.add(where, MoveCode.PLAN_INCONSISTENT, message)
    if node.closed is not None:
        findings.add(where, node.closed.code, f"node {told.node} must not be changed: {node.closed.message}")
    _check_users(told, gpu, where, may_leave, findings)


def _check_users(told: GpuLayout, gpu: FleetGpu, where: str, may_leave: Drainable, findings: Findings) -> None:
    if gpu.use in (Use.UNSURE, Use.SICK):
        what = "is not healthy" if gpu.use is Use.SICK else "may be in use"
        findings.add(where, MoveCode.GPUS_NOT_KNOWN, f"GPU {where} {what}")
    for pod in gpu.pods:
        if pod not in may_leave.leaving:
            findings.add(where, may_leave.held.get(pod, MoveCode.NEEDS_DRAIN), f"{pod} runs on GPU {where}")
        elif pod not in told.drains:
            findings.add(where, MoveCode.PLAN_INCONSISTENT, f"{pod} runs on GPU {where} and is not drained")
    for pod in told.drains:
        if pod not in gpu.pods:
            findings.add(where, MoveCode.STALE_POD, f"{pod} does not run on GPU {where}")


def _check_nodes(plan: MigPlan, nodes: Mapping[str, FleetNode], findings: Findings) -> None:
    """Note nodes of which a GPU is missing or told twice, that have no label, or that `single` forbids."""
    told = Counter((gpu.node, gpu.index) for gpu in plan.gpus)
    for (name, index), number in told.items():
        if number > 1:
            findings.add(f"{name}/{index}", MoveCode.PLAN_INCONSISTENT, f"GPU {name}/{index} is told {number} times")
    for name in sorted({gpu.node for gpu in plan.gpus if changes(gpu)} ^ plan.node_labels.keys()):
        findings.add("", MoveCode.PLAN_INCONSISTENT, f"node {name} changes without a label, or has one without change")
    for name in plan.node_labels:
        node = nodes.get(name)
        if node is None:
            findings.add("", Code.UNKNOWN_NODE, f"node {name} has a label")
            continue
        missing = {gpu.index for gpu in node.gpus} - {index for there, index in told if there == name}
        if missing:
            findings.add("", MoveCode.PLAN_INCONSISTENT, f"GPUs {sorted(missing)} of node {name} are not told")
        layouts = {tuple(sorted(i.profile for i in gpu.after)) for gpu in plan.gpus if gpu.node == name}
        kinds = {profile for layout in layouts for profile in layout}
        if node.strategy == SINGLE and (len(layouts) > 1 or len(kinds) > 1):
            message = f"node {name} has strategy single, and its GPUs would not be cut alike"
            findings.add("", MoveCode.LAYOUT_NOT_LEGAL, message)


def _check_figures(plan: MigPlan, nodes: Mapping[str, FleetNode], findings: Findings) -> None:
    changed = [gpu for gpu in plan.gpus if changes(gpu)]
    drained = {pod for gpu in changed for pod in gpu.drains}
    running = sum(
        bool(instance.pod)
        for told in changed
        if told.node in nodes
        for gpu in nodes[told.node].gpus
        if gpu.index == told.index
        for instance in gpu.instances
    )
    figures = (len(changed), len({gpu.node for gpu in changed}), running, len(drained))
    cost = plan.cost
    if figures != (cost.gpus_changed, cost.nodes_changed, cost.instances_destroyed, cost.pods_drained):
        findings.add("", MoveCode.PLAN_INCONSISTENT, "the sums of the plan are not those of its GPUs")
    if drained != {drain.pod for drain in plan.drains}:
        findings.add("", MoveCode.PLAN_INCONSISTENT, "the drains of the plan are not those of its GPUs")
    if changed and plan.outcome != "plan":
        findings.add("", MoveCode.PLAN_INCONSISTENT, f"GPUs change, and the outcome is {plan.outcome!r:.30}")
