"""Whether the files of a plan would be accepted, and say what the plan says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from islander.cluster import names
from islander.policy.reasons import MoveCode
from planner.findings import Findings
from planner.mig.emit import PARTED_FILE, config_now, device_numbers, fixed_files
from planner.mig.fleet import FleetNode
from planner.mig.layouts import Counts, counts_of
from planner.mig.parted import indexes_of, read_parted
from planner.mig.plan import MigPlan


def check_files(plan: MigPlan, nodes: Mapping[str, FleetNode], findings: Findings) -> None:
    """Note what mig-parted would refuse, labels that name nothing, and GPUs that the file cuts differently (G40)."""
    if not plan.node_labels:
        if plan.files:
            findings.add("", MoveCode.FILE_NOT_VALID, "there are files, and no node changes")
        return
    configs, errors = read_parted(plan.files.get(PARTED_FILE, ""))
    for error in errors:
        findings.add("", MoveCode.FILE_NOT_VALID, f"{PARTED_FILE}: {error}")
    if errors:
        return
    layouts: defaultdict[str, dict[int, Counts]] = defaultdict(dict)
    for gpu in plan.gpus:
        layouts[gpu.node][gpu.index] = counts_of(Counter(instance.profile for instance in gpu.after))
    for name, config in plan.node_labels.items():
        if config not in configs:
            findings.add("", MoveCode.FILE_NOT_VALID, f"node {name}: no configuration is called {config!r:.70}")
            continue
        said = indexes_of(configs[config], device_numbers(nodes[name]))
        for index, mentions in sorted(said.items()):
            counts = layouts[name].get(index)
            if len(mentions) != 1:
                findings.add("", MoveCode.FILE_NOT_VALID, f"{config} names GPU {index} of {name} {len(mentions)} times")
            elif counts is None or mentions[0] != (bool(counts), counts):
                findings.add("", MoveCode.FILE_NOT_VALID, f"{config} cuts GPU {name}/{index} differently from the plan")
    _check_others(plan, nodes, configs, findings)
    fixed = fixed_files(plan.node_labels)
    for name in sorted((fixed.keys() | plan.files.keys()) - {PARTED_FILE}):
        if plan.files.get(name) != fixed.get(name):
            message = f"{name!r:.70} is not what the labels of the plan ask for"
            findings.add("", MoveCode.FILE_NOT_VALID, message)


def _check_others(
    plan: MigPlan, nodes: Mapping[str, FleetNode], configs: Mapping[str, Any], findings: Findings
) -> None:
    """Note configurations that would change nodes which stay as they are: the manager applies them when it starts."""
    for node in nodes.values():
        name = node.node.label(names.MIG_CONFIG) or ""
        if node.name in plan.node_labels or name in plan.node_labels.values() or name not in configs:
            continue
        said = indexes_of(configs[name], device_numbers(node))
        told = {gpu.index: [(bool(gpu.counts), gpu.counts)] for gpu in node.gpus}
        if config_now(node) is not None and said != told:
            message = f"{PARTED_FILE}: {name} would cut node {node.name} anew, which the plan leaves as it is"
            findings.add("", MoveCode.FILE_NOT_VALID, message)
