"""Small random clusters on which every sequence of moves can be tried."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from msgspec import structs

from islander.cluster import names
from islander.cluster.node import GpuReport, Node
from islander.cluster.pod import Pod, Requirement
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import DisruptionBudget, Workload
from tests.brute_force import Instance
from tests.builders import a_node, a_pod, a_report, a_snapshot, a_workload, owned_by

PCIE = "NVIDIA-A100-80GB-PCIe"
PAIRS_OF_FOUR = (
    ("X", "NV12", "SYS", "SYS"),
    ("NV12", "X", "SYS", "SYS"),
    ("SYS", "SYS", "X", "NV12"),
    ("SYS", "SYS", "NV12", "X"),
)


@dataclass(frozen=True)
class RandomCase:
    """A snapshot, and the same as the brute force takes it."""

    snapshot: ClusterSnapshot
    instance: Instance


def random_case(seed: int, *, bridged: bool = False) -> RandomCase:
    """Up to 5 nodes of 4 GPUs (some of bridged pairs, with reports), up to 8 pods, one or two of them pending.

    `bridged`: nearly all nodes have bridged pairs, most pods hold one GPU or prefer a pair, and who waits wants one.
    """
    random = Random(seed)
    nodes = _nodes(random, bridged=bridged)
    free = {node.name: list(range(4)) for node in nodes}
    random_priorities = [0, 0, 10, 20] if random.random() < 0.5 else [0]
    workloads: list[Workload] = []
    budgets: list[DisruptionBudget] = []
    running: list[Pod] = []
    movable: set[str] = set()
    groups: list[frozenset[str]] = []
    waiting = random.choice([1, 1, 2])
    for number in range(random.randint(min(2 * len(nodes), 8 - waiting), 8 - waiting)):
        gpus = random.choice([1, 1, 1, 2, 2] if bridged else [1, 1, 2, 2, 3])
        homes = [name for name, left in sorted(free.items()) if len(left) >= gpus]
        if not homes:
            continue
        home = random.choice(homes)
        for gpu in random.sample(free[home], gpus):
            free[home].remove(gpu)
        priority = random.choice(random_priorities)
        pod, allowed, own = _running(random, number, gpus, home, priority, prefers=0.5 if bridged else 0.0)
        running.append(pod)
        workloads += [thing for thing in own if isinstance(thing, Workload)]
        budgets += [thing for thing in own if isinstance(thing, DisruptionBudget)]
        if allowed:
            movable.add(pod.key)
    if len(running) >= 2 and random.random() < 0.3:
        running, workloads, group = _grouped(running, workloads, movable)
        groups.append(group)
    # Wanted is mostly what is free in all but not on one node, so that something has to move.
    room = sum(len(left) for left in free.values())
    widest = max(len(left) for left in free.values())
    sizes = [size for size in (2, 3, 4) if widest < size <= room] or [1, 2, 3, 4]
    if bridged:
        sizes = [1, 2, 2, 2]
    pending = [
        _pending(
            random, number, random.choice(sizes), random.choice(random_priorities), required=0.9 if bridged else 0.4
        )
        for number in range(waiting)
    ]
    highest = max(pod.spec.priority for pod in pending)
    movable = {pod.key for pod in running if pod.key in movable and pod.spec.priority <= highest}
    groups = [group for group in groups if group <= movable]
    movable -= {pod.key for pod in running if pod.label(names.LWS_NAME)} - frozenset().union(*groups)
    nodes = [_reported(node, running, free) if node.gpu_report is not None else node for node in nodes]
    snapshot = a_snapshot(*nodes, *running, *pending, *workloads, *budgets, kinds=["PodDisruptionBudget", "ReplicaSet"])
    instance = Instance(
        nodes=snapshot.nodes,
        running=[pod for pod in snapshot.pods if pod.node],
        movable=frozenset(movable),
        groups=groups,
        pending=[pod for pod in snapshot.pods if not pod.node],
    )
    return RandomCase(snapshot, instance)


def _nodes(random: Random, *, bridged: bool) -> list[Node]:
    nodes = []
    for number in range(random.choice([2, 3, 3, 3, 4, 4, 5])):
        name, pool = f"n{number}", {"pool": random.choice(["x", "x", "y"])}
        if (random.random() < 0.9) if bridged else (number < 2 and random.random() < 0.5):
            report = a_report(4, links=PAIRS_OF_FOUR)
            nodes.append(a_node(name, gpus=4, product=PCIE, labels=pool, report=report))
        else:
            nodes.append(a_node(name, gpus=4, labels=pool))
    return nodes


def _running(
    random: Random, number: int, gpus: int, home: str, priority: int, *, prefers: float
) -> tuple[Pod, bool, list[Workload | DisruptionBudget]]:
    name = f"r{number}"
    workload = a_workload(name, replicas=2)
    draw = random.random()
    required = gpus == 2 and random.random() < 0.4
    preferred = prefers and gpus == 2 and not required and random.random() < prefers
    selector = {"pool": "x"} if random.random() < 0.1 else None
    pod = a_pod(
        name,
        gpus=gpus,
        tp=gpus if required or preferred else None,
        topology="required" if required else None,
        node=home,
        priority=priority,
        labels={"app": name},
        node_selector=selector,
        owner=None if draw < 0.08 else owned_by(workload),
    )
    things: list[Workload | DisruptionBudget] = [workload]
    if draw > 0.7:
        allowed = 0 if draw > 0.93 else 1
        selects = (Requirement("app", "In", (name,)),)
        things.append(DisruptionBudget("default", name, selector=selects, disruptions_allowed=allowed))
    return pod, 0.08 <= draw <= 0.93, things


def _grouped(
    running: list[Pod], workloads: list[Workload], movable: set[str]
) -> tuple[list[Pod], list[Workload], frozenset[str]]:
    """Make the first two pods one replica of a LeaderWorkerSet of two replicas."""
    workload = a_workload("lws", kind="LeaderWorkerSet", replicas=2, group_size=2)
    labels = {names.LWS_NAME: "lws", names.LWS_GROUP_INDEX: "0"}
    first, second = running[:2]
    if first.spec.priority != second.spec.priority:
        return running, workloads, frozenset({"nobody"})
    members = [_of_group(pod, workload, labels) for pod in (first, second)]
    movable |= {pod.key for pod in members}
    return [*members, *running[2:]], [*workloads, workload], frozenset(pod.key for pod in members)


def _of_group(pod: Pod, workload: Workload, labels: dict[str, str]) -> Pod:
    return structs.replace(pod, owner=owned_by(workload), labels=tuple(sorted(labels.items())))


def _pending(random: Random, number: int, gpus: int, priority: int, *, required: float) -> Pod:
    gpus = gpus if random.random() < 0.9 else random.choice([1, 2])
    wants_island = gpus in (2, 4) and random.random() < required
    return a_pod(
        f"w{number}",
        gpus=gpus,
        tp=gpus if wants_island else None,
        topology="required" if wants_island else None,
        priority=priority,
        node_selector={"pool": "y"} if random.random() < 0.1 else None,
    )


def _reported(node: Node, running: list[Pod], free: dict[str, list[int]]) -> Node:
    """Return the node with a report that tells which pod holds which GPU."""
    taken = [gpu for gpu in range(4) if gpu not in free[node.name]]
    used: dict[int, str] = {}
    for pod in running:
        if pod.node == node.name:
            for _ in range(sum(c.requests.count(names.NVIDIA_GPU) for c in pod.spec.containers)):
                used[taken.pop(0)] = pod.key
    report: GpuReport = a_report(4, links=PAIRS_OF_FOUR, used=used)
    return structs.replace(node, gpu_report=report)
