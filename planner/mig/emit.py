"""The files of a plan: mig-parted's configurations, node labels, and what brings them into a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from islander.cluster import names
from islander.cluster.mig_devices import MigChange, mig_change
from planner.mig.fleet import Fleet, FleetNode
from planner.mig.gpus import distrust
from planner.mig.layouts import Counts
from planner.mig.parted import Entry, NodeConfig, config_name, is_config_name, node_config, parted_text
from planner.output import yaml_text

PARTED_FILE = "mig-parted.yaml"
LABELS_FILE = "node-labels.yaml"
POLICY_FILE = "clusterpolicy-patch.yaml"
KUSTOMIZATION_FILE = "kustomization.yaml"
CONFIG_MAP = "islander-mig-parted"
OPERATOR_NAMESPACE = "gpu-operator"
# The GPU operator's label of nodes for which nobody has asked for anything.
ALL_DISABLED = "all-disabled"


def configs_of(nodes: Mapping[str, FleetNode], layouts: Mapping[tuple[str, int], Counts]) -> dict[str, NodeConfig]:
    """Return the configuration of each node that changes; GPUs that do not change are in it as they are."""
    return {name: _config_of(nodes[name], layouts) for name in sorted({node for node, _ in layouts})}


def _config_of(node: FleetNode, layouts: Mapping[tuple[str, int], Counts]) -> NodeConfig:
    numbers = device_numbers(node)
    return node_config(
        [(gpu.index, layouts.get((node.name, gpu.index), gpu.counts), numbers[gpu.index]) for gpu in node.gpus]
    )


def device_numbers(node: FleetNode) -> dict[int, tuple[str, ...]]:
    """Return the numbers that the product of each GPU may have, by index; none of products that are not known."""
    return {gpu.index: gpu.geometry.device_ids if gpu.geometry is not None else () for gpu in node.gpus}


def labels_of(configs: Mapping[str, NodeConfig]) -> dict[str, str]:
    """Return the value of `nvidia.com/mig.config` by node."""
    return {node: config_name(config) for node, config in configs.items()}


def kept_configs(fleet: Fleet, labels: Mapping[str, str]) -> dict[str, NodeConfig]:
    """Return the configurations by name that nodes which do not change are labelled with, as these nodes are cut.

    The file replaces the one in use, so what they are labelled with must be in it. Names whose nodes are cut
    differently, or of which nobody knows how, are left out; only `all-disabled` tells by itself what it is.
    """
    found: dict[str, NodeConfig | None] = {}
    for node in fleet.nodes:
        name = node.node.label(names.MIG_CONFIG)
        if not name or node.name in labels or name in labels.values() or not is_config_name(name):
            continue
        config = config_now(node)
        if config is None and name == ALL_DISABLED:
            config = (Entry((), enabled=False),)
        found[name] = config if found.setdefault(name, config) == config else None
    return {name: config for name, config in found.items() if config}


def config_now(node: FleetNode) -> NodeConfig | None:
    """Return how a node is cut, None when nobody knows; GPUs that are all cut alike have no indexes, however many."""
    if node.node.gpu_report is None or mig_change(node.node) is not MigChange.SETTLED or distrust(node.node, node.gpus):
        return None
    config = _config_of(node, {})
    return config if len(config) != 1 else (replace(config[0], devices=()),)


def files_of(configs: Mapping[str, NodeConfig], kept: Mapping[str, NodeConfig]) -> dict[str, str]:
    """Return text by file name; nothing when no node changes."""
    if not configs:
        return {}
    return {PARTED_FILE: parted_text(configs, kept), **fixed_files(labels_of(configs))}


def fixed_files(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the files beside mig-parted's: no more than the labels of the nodes decides what is in them."""
    nodes = "---\n".join(_labelled(node, value) for node, value in labels.items())
    policy = {"spec": {"migManager": {"config": {"name": CONFIG_MAP}}}}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "generatorOptions": {"disableNameSuffixHash": True},
        "configMapGenerator": [
            {"name": CONFIG_MAP, "namespace": OPERATOR_NAMESPACE, "files": [f"config.yaml={PARTED_FILE}"]}
        ],
        "resources": [LABELS_FILE],
    }
    return {
        LABELS_FILE: f"# The label starts the change: drain first what the plan drains.\n{nodes}",
        POLICY_FILE: (
            "# Names the ConfigMap to the GPU operator, once, before the labels are set:\n"
            f"# kubectl patch clusterpolicy cluster-policy --type merge --patch-file {POLICY_FILE}\n{yaml_text(policy)}"
        ),
        KUSTOMIZATION_FILE: yaml_text(kustomization),
    }


def _labelled(node: str, value: str) -> str:
    """Return a node with its one label; quotes keep a name such as `10` a text."""
    head = f"apiVersion: v1\nkind: Node\nmetadata:\n  name: {json.dumps(node)}\n"
    return f"{head}  labels:\n    {names.MIG_CONFIG}: {value}\n"
