"""Clusters that are planned for in benchmarks: as a benchmark names them, always the same for a seed."""

from __future__ import annotations

from random import Random

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import Workload
from tests.builders import a_node, a_pod, a_report, a_snapshot, a_workload, owned_by

KINDS = ["Node", "Pod", "PodDisruptionBudget", "ReplicaSet"]


def story() -> ClusterSnapshot:
    """Eight nodes of 8; free are 2, 2, 1, 1 and nothing; a replica of four waits."""
    layout = ((4, 2), (4, 1, 1), (4, 3), (4, 2, 1), (8,), (8,), (4, 4), (4, 4))
    objects: list[Node | Pod | Workload] = []
    for number, sizes in enumerate(layout):
        objects.append(a_node(f"n{number}"))
        for position, gpus in enumerate(sizes):
            workload = a_workload(f"w{number}-{position}", replicas=2)
            objects += [workload, a_pod(f"{workload.name}-1", gpus=gpus, node=f"n{number}", owner=owned_by(workload))]
    return a_snapshot(*objects, a_pod("waits", gpus=4), kinds=KINDS)


def fleet(nodes: int, waiting: int, seed: int = 1) -> ClusterSnapshot:
    """Equal NVSwitch nodes of 8, nearly full of replicas of 1, 2 and 4; `waiting` replicas of 8 want an island each."""
    random = Random(seed)
    homes: dict[int, list[str]] = {1: [], 2: [], 4: []}
    names = [f"n{number:05}" for number in range(nodes)]
    for name in names:
        left = random.choice([4, 5, 6, 6, 7, 7, 8, 8, 8, 8, 8, 8])
        while left:
            gpus = random.choice([size for size in (1, 1, 1, 2, 2, 4) if size <= left])
            homes[gpus].append(name)
            left -= gpus
    objects: list[Node | Pod | Workload] = [a_node(name) for name in names]
    for gpus, places in homes.items():
        random.shuffle(places)
        while places:
            replicas = [places.pop() for _ in range(min(len(places), random.randint(2, 12)))]
            workload = a_workload(f"w{gpus}-{len(objects)}", replicas=len(replicas) + 1)
            objects.append(workload)
            for number, node in enumerate(replicas):
                owner = owned_by(workload)
                name = f"{workload.name}-{number}"
                tp = gpus if gpus > 1 else None
                objects.append(a_pod(name, gpus=gpus, tp=tp, node=node, owner=owner, cpu=4, memory_gib=32))
    pending = [
        a_pod(f"waits-{number:04}", gpus=8, tp=8, topology="required", cpu=16, memory_gib=256)
        for number in range(waiting)
    ]
    return a_snapshot(*objects, *pending, kinds=KINDS)


def irregular(nodes: int, waiting: int, seed: int = 1) -> ClusterSnapshot:
    """No two nodes alike: zones, generations, scarce CPU, replicas of odd sizes with selectors, three priorities."""
    random = Random(seed)
    objects: list[Node | Pod | Workload] = []
    made = []
    for number in range(nodes):
        labels = {"zone": random.choice("abcd"), "generation": random.choice("123")}
        made.append(a_node(f"n{number:03}", labels=labels, cpu=random.choice([64, 96, 128, 192])))
    for node in made:
        left = random.choice([4, 5, 6, 7, 7, 8])
        while left:
            gpus = random.choice([size for size in (1, 1, 2, 2, 3, 4) if size <= left])
            left -= gpus
            key = random.choice(["zone", "zone", "zone", "generation", "", ""])
            workload = a_workload(f"w{len(objects)}", replicas=2)
            pod = a_pod(
                f"{workload.name}-1",
                gpus=gpus,
                node=node.name,
                owner=owned_by(workload),
                cpu=random.randint(1, 12),
                memory_gib=random.randint(8, 64),
                node_selector={key: node.label(key) or ""} if key else None,
                priority=random.choice([0, 0, 5]),
            )
            objects += [workload, pod]
    pending = [
        a_pod(
            f"waits-{number:03}",
            gpus=random.choice([4, 6, 8, 8]),
            cpu=16,
            priority=random.choice([0, 5, 10]),
            node_selector={"zone": random.choice("abcd")} if random.random() < 0.4 else None,
        )
        for number in range(waiting)
    ]
    return a_snapshot(*made, *objects, *pending, kinds=KINDS)


def bridged(nodes: int, waiting: int, seed: int = 1) -> ClusterSnapshot:
    """Nodes of 8 in bridged pairs, which report who holds what: single GPUs split many pairs; who waits needs a pair.

    One pod in seven has no owner and stays; one in five must stay in its zone.
    """
    random = Random(seed)
    links = [["X" if i == j else "NV12" if i // 2 == j // 2 else "SYS" for j in range(8)] for i in range(8)]
    objects: list[Node | Pod | Workload] = []
    for number in range(nodes):
        name, zone = f"n{number:03}", "ab"[number % 2]
        used: dict[int, str] = {}
        for pair in range(4):
            layout = random.choice([(1,), (1,), (1,), (1,), (2,), (2,), (1, 1), (1, 1), ()])
            gpus = random.sample([2 * pair, 2 * pair + 1], 2)
            for size in layout:
                workload = a_workload(f"w{number}-{gpus[0]}", replicas=2)
                pod = a_pod(
                    f"{workload.name}-1",
                    gpus=size,
                    tp=size if size > 1 else None,
                    topology="required" if size > 1 else None,
                    node=name,
                    owner=owned_by(workload) if random.random() < 6 / 7 else None,
                    node_selector={"zone": zone} if random.random() < 0.2 else None,
                )
                objects += [workload, pod]
                used |= {gpus.pop(0): pod.key for _ in range(size)}
        report = a_report(8, used=used, links=links)
        objects.append(a_node(name, product="NVIDIA-A100-80GB-PCIe", labels={"zone": zone}, report=report))
    pending = [a_pod(f"waits-{number:03}", gpus=2, tp=2, topology="required") for number in range(waiting)]
    return a_snapshot(*objects, *pending, kinds=KINDS)
