"""Whether the files of a plan would be accepted, and say what the plan says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from islander.cluster import names
from islander.policy.reasons import MoveCode
from planner.mig.emit import LABELS_FILE, PARTED_FILE
from planner.mig.findings import Findings
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
        said = indexes_of(configs[config], [gpu.index for gpu in nodes[name].gpus])
        for index, mentions in sorted(said.items()):
            counts = layouts[name].get(index)
            if len(mentions) != 1:
                findings.add("", MoveCode.FILE_NOT_VALID, f"{config} names GPU {index} of {name} {len(mentions)} times")
            elif counts is None or mentions[0] != (bool(counts), counts):
                findings.add("", MoveCode.FILE_NOT_VALID, f"{config} cuts GPU {name}/{index} differently from the plan")
    if _labels_in(plan.files.get(LABELS_FILE, "")) != plan.node_labels:
        findings.add("", MoveCode.FILE_NOT_VALID, f"{LABELS_FILE} does not set the labels of the plan")


def _labels_in(text: str) -> dict[str, str] | None:
    """Return the labels that the file sets, by node; None when it is no list of nodes."""
    found = {}
    try:
        for document in YAML(typ="safe", pure=True).load_all(text):
            metadata = document["metadata"]
            found[str(metadata["name"])] = str(metadata["labels"][names.MIG_CONFIG])
    except (YAMLError, ValueError, KeyError, TypeError):
        return None
    return found
