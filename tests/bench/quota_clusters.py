"""Large clusters with queues: what `plan quota` is measured on."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from islander.cluster import names
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.kube.parse import parse_object
from tests.builders import a_node, a_pod, a_snapshot

PRODUCTS = (
    ("NVIDIA-H100-80GB-HBM3", 8),
    ("NVIDIA-H200", 8),
    ("NVIDIA-A100-SXM4-80GB", 8),
    ("NVIDIA-A100-SXM4-40GB", 8),
    ("NVIDIA-L40S", 4),
    ("NVIDIA-B200", 8),
)
KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "Node", "Pod", "ResourceFlavor", "Topology")
VERSION = "kueue.x-k8s.io/v1beta2"


def large_tree(nodes: int = 5000, queues: int = 40, seed: int = 1) -> tuple[ClusterSnapshot, dict[str, Any]]:
    """A snapshot of six flavors with running pods, some outside Kueue, and a policy for all its queues."""
    random = Random(seed)
    machines, pods = [], []
    for number in range(nodes):
        product, gpus = PRODUCTS[number % len(PRODUCTS)]
        node = a_node(f"n{number:05}", product=product, gpus=gpus, unschedulable=random.random() < 0.01)
        machines.append(node)
        pods += _pods(random, node.name, gpus, queues)
    flavors = [
        {
            "apiVersion": VERSION,
            "kind": "ResourceFlavor",
            "metadata": {"name": product.removeprefix("NVIDIA-").lower()},
            "spec": {"nodeLabels": {names.GPU_PRODUCT: product}},
        }
        for product, _ in PRODUCTS
    ]
    bodies: list[dict[str, Any]] = [*flavors]
    teams = []
    for number in range(queues):
        name = f"team-{number:02}"
        own = random.sample(flavors, random.choice([1, 2, 3, 6]))
        bodies.append(_queue(random, name, [flavor["metadata"]["name"] for flavor in own]))
        door = {"name": name, "namespace": name}
        bodies.append({"apiVersion": VERSION, "kind": "LocalQueue", "metadata": door, "spec": {"clusterQueue": name}})
        baseline = random.randint(0, 40)
        teams.append(
            {
                "name": name,
                "namespaces": [name],
                "shape": {"gpus": random.choice([1, 2, 4, 8])},
                "baselineReplicas": baseline,
                "weight": random.choice([1, 2, 3]),
            }
        )
        if random.random() < 0.5:
            teams[-1]["maxReplicas"] = baseline + random.randint(0, 400)
    values = [parse_object(json.dumps(body).encode()) for body in bodies]
    return a_snapshot(*machines, *pods, *values, kinds=KINDS), {"teams": teams}


def _pods(random: Random, node: str, gpus: int, queues: int) -> list[Pod]:
    pods, free = [], gpus
    for number in range(random.randint(0, 3)):
        size = random.choice([1, 2, 4])
        if size > free:
            break
        free -= size
        team = f"team-{random.randrange(queues):02}"
        labels = {} if random.random() < 0.1 else {names.KUEUE_QUEUE: team}
        pods.append(a_pod(f"{node}-{number}", namespace=team, gpus=size, tp=size, node=node, labels=labels))
    return pods


def _queue(random: Random, name: str, flavors: list[str]) -> dict[str, Any]:
    covered = ["cpu", "memory", names.NVIDIA_GPU]
    return {
        "apiVersion": VERSION,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "cohortName": "gpu",
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": covered,
                    "flavors": [
                        {
                            "name": flavor,
                            "resources": [
                                {"name": "cpu", "nominalQuota": "1000"},
                                {"name": "memory", "nominalQuota": "10Ti"},
                                {"name": names.NVIDIA_GPU, "nominalQuota": random.randint(0, 500)},
                            ],
                        }
                        for flavor in flavors
                    ],
                }
            ],
        },
    }
