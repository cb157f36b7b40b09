"""Random clusters with random Kueue trees and policies, as the API and people write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

import yaml
from msgspec import structs

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from islander.cluster.snapshot import ClusterSnapshot
from islander.kube.parse import parse_object
from planner.quota.policy_file import QuotaPolicy, parse_policy
from tests.builders import H100, a_node, a_pod, a_report, a_snapshot

A100 = "NVIDIA-A100-80GB-PCIe"
L40S = "NVIDIA-L40S"
PAIRS_OF_FOUR = (
    ("X", "NV12", "SYS", "SYS"),
    ("NV12", "X", "SYS", "SYS"),
    ("SYS", "SYS", "X", "NV12"),
    ("SYS", "SYS", "NV12", "X"),
)
KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "Node", "Pod", "ResourceFlavor", "Topology")
TEAMS = ("chat", "lab", "search", "train", "vision")


@dataclass(frozen=True)
class RandomQuotas:
    """A cluster, and a policy for it; None where the plan is to be read from the cluster alone."""

    snapshot: ClusterSnapshot
    policy: QuotaPolicy | None
    survive: int


def random_quotas(seed: int) -> RandomQuotas:
    """Up to 8 nodes of three products, up to 5 teams; every third cluster has no Kueue objects yet."""
    random = Random(seed)
    nodes = _nodes(random)
    fresh = seed % 3 == 0
    tree = [] if fresh else _tree(random, sorted({node.label(names.GPU_PRODUCT) or "" for node in nodes}))
    pods = _pods(random, nodes, managed=not fresh)
    snapshot = a_snapshot(*nodes, *pods, *(parsed(body) for body in tree), kinds=KINDS)
    policy = None if not fresh and random.random() < 0.3 else _policy(random)
    return RandomQuotas(snapshot, policy, random.choice([0, 0, 1, 2]))


def parsed(body: dict[str, Any]) -> ClusterQueue | Cohort | LocalQueue | ResourceFlavor:
    """An object of Kueue as a snapshot holds it."""
    value = parse_object(json.dumps(body).encode())
    assert isinstance(value, ClusterQueue | Cohort | LocalQueue | ResourceFlavor)
    return value


def _nodes(random: Random) -> list[Node]:
    nodes = []
    for number in range(random.randint(1, 8)):
        product = random.choice([H100, H100, A100, L40S])
        gpus = 8 if product == H100 else 4
        report = a_report(4, links=PAIRS_OF_FOUR, numa=(0, 0, 1, 1)) if product == A100 else None
        node = a_node(
            f"n{number}",
            product=product,
            gpus=gpus,
            allocatable=random.choice([gpus, gpus, gpus, gpus - 1]) if report is None else gpus,
            report=report,
            cpu=random.choice([192, 192, 16]),
            memory_gib=random.choice([2048, 2048, 100]),
            max_pods=random.choice([110, 110, 6]),
            unschedulable=random.random() < 0.1,
        )
        nodes.append(structs.replace(node, labels=tuple(sorted((*node.labels, ("pool", random.choice("ab")))))))
    return nodes


def _pods(random: Random, nodes: list[Node], *, managed: bool) -> list[Pod]:
    free = {node.name: node.allocatable.count(names.NVIDIA_GPU) for node in nodes}
    pods = []
    for number in range(random.randint(0, 10)):
        node, gpus = random.choice(nodes).name, random.choice([1, 1, 2, 4])
        if free[node] < gpus:
            continue
        free[node] -= gpus
        team = random.choice([*TEAMS, "other"])
        queued = managed and team != "other" and random.random() < 0.6
        pods.append(
            a_pod(
                f"p{number}",
                namespace=team,
                gpus=gpus,
                tp=gpus if random.random() < 0.5 else None,
                node=node,
                cpu=random.choice([1, 4]),
                labels={names.KUEUE_QUEUE: team} if queued else {},
            )
        )
    return pods


def _tree(random: Random, products: list[str]) -> list[dict[str, Any]]:
    version = random.choice(["kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"])
    old = version.endswith("v1beta1")
    flavors = [_flavor(version, f"f{i}", {names.GPU_PRODUCT: product}) for i, product in enumerate(products)]
    if random.random() < 0.2:
        flavors = [_flavor(version, "default", {})]
    elif random.random() < 0.2:
        flavors.append(_flavor(version, "pool-a", {"pool": "a"}))
    called = [flavor["metadata"]["name"] for flavor in flavors]
    cohort = random.choice(["", "gpu", "gpu"])
    covered = random.choice(
        [[names.NVIDIA_GPU], ["cpu", "memory", names.NVIDIA_GPU], [names.NVIDIA_GPU, "pods", "cpu"]]
    )
    body: list[dict[str, Any]] = [*flavors]
    for team in random.sample(TEAMS, random.randint(1, 4)):
        own = random.sample(called, random.randint(1, len(called)))
        spec: dict[str, Any] = {
            "namespaceSelector": random.choice([{}, {"matchLabels": {"kubernetes.io/metadata.name": team}}]),
            "resourceGroups": [
                {
                    "coveredResources": covered,
                    "flavors": [
                        {"name": name, "resources": [_quota(random, r, in_cohort=bool(cohort)) for r in covered]}
                        for name in own
                    ],
                }
            ],
            "unknownField": {"kept": team},
        }
        if cohort:
            spec["cohort" if old else "cohortName"] = cohort
        if old:
            spec["flavorFungibility"] = {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}
        held = [
            {"name": name, "resources": [{"name": names.NVIDIA_GPU, "total": random.randint(0, 6)}]} for name in own
        ]
        status = {"flavorsReservation": held, "flavorsUsage": held}
        body.append(
            {
                "apiVersion": version,
                "kind": "ClusterQueue",
                "metadata": {"name": team, "uid": f"uid-{team}", "resourceVersion": "7"},
                "spec": spec,
                "status": status,
            }
        )
        door = {"name": team, "namespace": team}
        body.append({"apiVersion": version, "kind": "LocalQueue", "metadata": door, "spec": {"clusterQueue": team}})
    if cohort and random.random() < 0.4:
        pool = [{"name": called[0], "resources": [{"name": names.NVIDIA_GPU, "nominalQuota": random.randint(0, 6)}]}]
        groups = [{"coveredResources": [names.NVIDIA_GPU], "flavors": pool}]
        meta = {"name": cohort}
        body.append({"apiVersion": version, "kind": "Cohort", "metadata": meta, "spec": {"resourceGroups": groups}})
    return body


def _flavor(version: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": labels}}


def _quota(random: Random, resource: str, *, in_cohort: bool) -> dict[str, Any]:
    if resource == names.NVIDIA_GPU:
        nominal = random.randint(0, 24)
        quota: dict[str, Any] = {"name": resource, "nominalQuota": nominal}
        if in_cohort and random.random() < 0.4:
            quota["borrowingLimit"] = random.randint(0, 9)
        if in_cohort and random.random() < 0.4:
            quota["lendingLimit"] = random.randint(0, nominal)
        return quota
    amount = {"cpu": random.choice([0, 8, "500m", 400]), "memory": random.choice(["64Gi", "1Ti"]), "pods": 20}[resource]
    return {"name": resource, "nominalQuota": amount}


def _policy(random: Random) -> QuotaPolicy:
    teams = []
    for name in random.sample(TEAMS, random.randint(1, 5)):
        team: dict[str, Any] = {"name": name, "namespaces": [name]}
        if random.random() < 0.85:
            shape: dict[str, Any] = {"gpus": random.choice([1, 1, 2, 4, 8, 3])}
            if random.random() < 0.5:
                shape["island"] = random.random() < 0.7
            if random.random() < 0.3:
                shape["product"] = random.choice([H100, A100, L40S, "NVIDIA-H200"])
            team["shape"] = shape
        baseline = random.choice([0, 0, 1, 2, 3])
        if random.random() < 0.8:
            team["baselineReplicas"] = baseline
        if random.random() < 0.5:
            team["maxReplicas"] = baseline + random.randint(0, 4)
        team["weight"] = random.choice([1, 1, 2, 0.5])
        team["mayBorrow"] = random.random() < 0.8
        if random.random() < 0.2:
            team["clusterQueue"] = random.choice(["shared", name])
        teams.append(team)
    document: dict[str, Any] = {"teams": teams}
    if random.random() < 0.3:
        document["reserve"] = {random.choice([1, 2, 4, 8]): random.randint(0, 2)}
    return parse_policy(json.dumps(document), "policy.yaml")


def applied(files: dict[str, str], snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster once the files of a plan are applied; where queues are new, pods were started again through them."""
    bodies = [body for name, text in files.items() if name != "kustomization.yaml" for body in yaml.safe_load_all(text)]
    values = [parsed(body) for body in bodies]
    held = {queue.name: queue for queue in snapshot.cluster_queues}

    def of(kind: type[Any]) -> list[Any]:
        return [value for value in values if isinstance(value, kind)]

    queues = [
        structs.replace(queue, reservation=held[queue.name].reservation, usage=held[queue.name].usage)
        if queue.name in held
        else queue
        for queue in of(ClusterQueue)
    ]
    doors = {door.namespace: door.name for door in of(LocalQueue)}
    pods = [
        structs.replace(pod, labels=((names.KUEUE_QUEUE, doors[pod.namespace]),)) if pod.namespace in doors else pod
        for pod in snapshot.pods
    ]
    return structs.replace(
        snapshot,
        pods=snapshot.pods if held else tuple(pods),
        cluster_queues=tuple(sorted(queues, key=lambda queue: queue.name)),
        cohorts=tuple(sorted(of(Cohort), key=lambda cohort: cohort.name)),
        local_queues=tuple(sorted(of(LocalQueue), key=lambda door: (door.namespace, door.name))),
        resource_flavors=tuple(sorted(of(ResourceFlavor), key=lambda flavor: flavor.name)),
    )
