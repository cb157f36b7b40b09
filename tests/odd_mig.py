"""Random clusters as no test would think of: products side by side, old labels, reports that are wrong or missing."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from msgspec import structs

from islander.cluster import names
from islander.cluster.node import MigDevice, Node, Taint
from islander.cluster.pod import Pod, Toleration
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import Workload
from islander.hardware.mig import Geometry, Placement, geometry_for
from planner.mig.options import MigOptions, wanted_profile
from planner.options import SolveLimits
from tests.builders import H100, a_pod, a_snapshot, a_workload, owned_by
from tests.mig_builders import A30, A100, Cut, a_mig_node, a_mig_pod

PRODUCTS = (H100, A100, A30, "NVIDIA-L40S", "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "NVIDIA-A100-SXM4-40GB")
PRIORITIES = (0, 5, 10)


@dataclass(frozen=True)
class OddMig:
    snapshot: ClusterSnapshot
    options: MigOptions


def odd_mig(seed: int) -> OddMig:
    """A small cluster and what is asked of it; equal seeds give equal ones."""
    random = Random(seed)
    products = random.sample(PRODUCTS, random.randint(1, 2))
    objects: list[Node | Pod | Workload] = []
    for number in range(random.randint(1, 4)):
        objects += _node(random, f"n{number}", random.choice(products))
    profiles = [p.name for product in products for p in getattr(geometry_for(product), "profiles", ())] or ["1g.10gb"]
    objects += _waiting(random, products, profiles)
    asked = tuple(wanted_profile(f"{random.choice(profiles)}={random.randint(1, 12)}") for _ in range(_few(random, 3)))
    options = MigOptions(
        profiles=asked,
        asked=bool(asked),
        allow_drain=random.random() < 0.5,
        strategy=random.choice(["", "", "", "mixed", "single"]),
        limits=SolveLimits(4, 1, 0),
    )
    return OddMig(a_snapshot(*objects), options)


def _few(random: Random, most: int) -> int:
    return random.randint(0, most)


def _waiting(random: Random, products: list[str], profiles: list[str]) -> list[Pod]:
    found = []
    for number in range(_few(random, 4)):
        wish: dict[str, Any] = {"tolerations": [Toleration("odd", "Exists")]} if random.random() < 0.2 else {}
        if random.random() < 0.2:
            wish["node_selector"] = {"pool": random.choice("ab")}
        count = random.choice([1, 1, 1, 2, 9])
        priority = random.choice(PRIORITIES)
        found.append(a_mig_pod(f"slice-{number}", random.choice(profiles), count=count, priority=priority, **wish))
    for number in range(_few(random, 3)):
        gpus = random.choice([1, 2, 4, 8])
        found.append(a_pod(f"whole-{number}", gpus=gpus, tp=gpus if random.random() < 0.7 else None))
    if random.random() < 0.2:
        label = f"{random.choice(products)}-MIG-{random.choice(profiles).replace('+', '.')}"
        found.append(a_pod("single", node_selector={names.GPU_PRODUCT: label}))
    return found


def _node(random: Random, name: str, product: str) -> list[Node | Pod | Workload]:
    gpus = random.choice([1, 2, 4, 8])
    geometry = geometry_for(product)
    cut: dict[int, Cut] = {}
    used: dict[int, str] = {}
    pods: list[Pod] = []
    for index in range(gpus):
        chance = random.random()
        if chance < 0.25 and geometry is not None:
            cut[index] = _cut(random, geometry, f"{name}-{index}", name, pods)
        elif chance < 0.45:
            pod = _owned(random, a_pod(f"{name}-{index}", node=name, priority=random.choice(PRIORITIES)))
            pods.append(pod)
            # A pod that came after the report was written is not in it.
            used |= {index: pod.key} if random.random() < 0.9 else {}
    node = a_mig_node(
        name,
        gpus=gpus,
        cut={index: layout for index, layout in cut.items() if layout},
        used=used,
        product=product,
        strategy=random.choice(["mixed", "mixed", "mixed", "single", ""]),
        labels=_labels(random),
        sick=[random.randrange(gpus)] if random.random() < 0.1 else [],
        taints=[Taint("odd", "x", "NoSchedule")] if random.random() < 0.15 else [],
        unschedulable=random.random() < 0.1,
    )
    return [_as_reported(random, node), *pods, *(a_workload(pod.name, replicas=2) for pod in pods)]


def _cut(random: Random, geometry: Geometry, prefix: str, node: str, pods: list[Pod]) -> Cut:
    layout: list[tuple[str, int, str]] = []
    for profile in random.sample(geometry.profiles, 3):
        for start in profile.starts:
            placed = [Placement(name, at) for name, at, _ in layout]
            if random.random() < 0.5 or not geometry.is_legal([*placed, Placement(profile.name, start)]):
                continue
            user = ""
            if random.random() < 0.5:
                pod = a_mig_pod(f"{prefix}-{len(layout)}", profile.name, node=node, priority=random.choice(PRIORITIES))
                pods.append(_owned(random, pod))
                user = pod.key
            layout.append((profile.name, start, user))
    return layout


def _owned(random: Random, pod: Pod) -> Pod:
    owner = owned_by(a_workload(pod.name, replicas=2)) if random.random() < 0.8 else None
    return structs.replace(pod, owner=owner)


def _labels(random: Random) -> dict[str, str]:
    odd = {
        names.MIG_CONFIG: ["all-disabled", "all-1g.10gb", "islander-all-7x1g.10gb"],
        names.MIG_CONFIG_STATE: ["success", "failed", "pending"],
        names.DRIVER_MAJOR[0]: ["450", "470", "525", "580"],
        "pool": ["a", "b"],
    }
    return {key: random.choice(values) for key, values in odd.items() if random.random() < 0.2}


def _as_reported(random: Random, node: Node) -> Node:
    """Leave the report out, or make it wrong."""
    assert node.gpu_report is not None
    gpus = list(node.gpu_report.gpus)
    at = random.randrange(len(gpus))
    match random.randint(0, 12):
        case 0 | 1:
            return structs.replace(node, gpu_report=None)
        case 2:
            gpus.pop(at)
        case 3:
            gpus[at] = structs.replace(gpus[at], mig=(MigDevice("1c.3g.40gb"),))
        case 4 | 5:
            gpus[at] = structs.replace(gpus[at], product=random.choice(PRODUCTS))
        case 6:
            fewer = tuple((name, max(0, count - 1)) for name, count in node.allocatable.extended)
            return structs.replace(node, allocatable=structs.replace(node.allocatable, extended=fewer))
    return structs.replace(node, gpu_report=structs.replace(node.gpu_report, gpus=tuple(gpus)))
