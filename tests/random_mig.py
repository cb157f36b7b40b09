"""Small random clusters with MIG on which every choice of layouts can be tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.workload import Workload
from islander.hardware.mig import Placement, geometry_for
from planner.mig.options import MigOptions, WantedProfile
from tests.builders import H100, a_pod, a_snapshot
from tests.mig_brute_force import Gpu, Small, Waits, Want
from tests.mig_builders import A30, A100, a_mig_node, a_mig_pod, owner_of

PRODUCTS = (H100, A100, A30)
MOST_GPUS = 3


@dataclass(frozen=True)
class RandomMig:
    """A snapshot with the options of a plan, and the same as the brute force takes it."""

    snapshot: ClusterSnapshot
    options: MigOptions
    small: Small


def random_mig(seed: int) -> RandomMig:
    """Up to 3 GPUs on up to 3 nodes, some cut, some used, some joined; up to 3 wants; up to 2 pods wait for GPUs."""
    return _Maker(Random(seed)).case()


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.pods: list[Pod] = []
        self.owners: list[Workload] = []
        self.gpus: list[Gpu] = []
        self.links: dict[str, frozenset[frozenset[int]]] = {}
        self.allow_drain = random.random() < 0.5
        self.products = random.choice([(H100,), (A100,), (A30,), PRODUCTS])

    def case(self) -> RandomMig:
        left = self.random.randint(1, MOST_GPUS)
        nodes = []
        while left:
            gpus = self.random.randint(1, left)
            nodes.append(self.node(f"n{len(nodes)}", gpus))
            left -= gpus
        wants = self.wants()
        waits = self.waits()
        top = max((want.priority for want in wants), default=0)
        gpus = tuple(self.fixed_above(gpu, top) for gpu in self.gpus)
        profiles = tuple(WantedProfile(w.profile, w.count, w.priority) for w in wants)
        return RandomMig(
            a_snapshot(*nodes, *self.pods, *self.owners),
            MigOptions(profiles=profiles, asked=True, allow_drain=self.allow_drain),
            Small(gpus, self.links, wants, waits),
        )

    def node(self, name: str, gpus: int) -> Node:
        product = self.random.choice(self.products)
        cut: dict[int, list[tuple[str, int, str]]] = {}
        used: dict[int, str] = {}
        for index in range(gpus):
            kind = self.random.choice(["idle", "idle", "cut", "cut", "used"])
            if kind == "used":
                pod = a_pod(f"{name}-{index}", node=name)
                self.pods.append(pod)
                used[index] = pod.key
                self.gpus.append(Gpu(name, index, product, (), (), fixed=True, whole_idle=False))
            elif kind == "cut":
                cut[index] = self.cut(name, index, product)
            else:
                self.gpus.append(Gpu(name, index, product, (), (), fixed=False, whole_idle=True))
        joined = self.joined(gpus)
        self.links[name] = joined
        table = [["X" if i == j else "NV4" if {i, j} in joined else "SYS" for j in range(gpus)] for i in range(gpus)]
        return a_mig_node(name, gpus=gpus, cut=_with_none(cut), used=used, product=product, links=table)

    def cut(self, name: str, index: int, product: str) -> list[tuple[str, int, str]]:
        """Cut a GPU at random, and let pods use some of the instances."""
        geometry = geometry_for(product)
        assert geometry is not None
        layout: list[Placement] = []
        plain = [profile for profile in geometry.profiles if "+" not in profile.name]
        for profile in self.random.sample(plain, len(plain)):
            for start in profile.starts:
                placement = Placement(profile.name, start)
                if self.random.random() < 0.4 and geometry.is_legal([*layout, placement]):
                    layout.append(placement)
        layout = layout or [Placement(plain[-1].name, 0)]
        found, released, free, held = [], [], [], False
        busy = self.random.random() < 0.6
        movable = self.random.random() < 0.75
        for profile_name, start in sorted(layout, key=lambda p: p.start):
            if not busy or self.random.random() < 0.5:
                free.append(profile_name)
                found.append((profile_name, start, ""))
                continue
            priority = self.random.choice([0, 0, 5])
            pod = a_mig_pod(f"{name}-{index}-{start}", profile_name, node=name, movable=movable, priority=priority)
            self.pods.append(pod)
            self.owners += [owner_of(pod)] if movable else []
            held = held or not movable
            released.append((profile_name, priority))
            found.append((profile_name, start, pod.key))
        before = tuple(sorted(p.profile for p in layout))
        fixed = bool(released) and (held or not self.allow_drain)
        self.gpus.append(Gpu(name, index, product, before, tuple(free), fixed, False, tuple(released), tuple(layout)))
        return found

    def fixed_above(self, gpu: Gpu, top: int) -> Gpu:
        """A pod with a higher priority than all that is wanted is not disturbed."""
        if any(priority > top for _, priority in gpu.released):
            return Gpu(gpu.node, gpu.index, gpu.product, gpu.before, gpu.free, True, False, gpu.released, gpu.lies)
        return gpu

    def joined(self, gpus: int) -> frozenset[frozenset[int]]:
        pairs = [frozenset((i, j)) for i in range(gpus) for j in range(i)]
        kind = self.random.choice(["none", "all", "one"])
        return frozenset(pairs if kind == "all" else pairs[:1] if kind == "one" else ())

    def wants(self) -> tuple[Want, ...]:
        found = {}
        for _ in range(self.random.randint(1, 3)):
            geometry = geometry_for(self.random.choice([gpu.product for gpu in self.gpus]))
            assert geometry is not None
            profile = self.random.choice([p.name for p in geometry.profiles])
            priority = self.random.choice([0, 0, 5])
            found[profile, priority] = Want(profile, self.random.randint(1, 3), priority)
        return tuple(found.values())

    def waits(self) -> tuple[Waits, ...]:
        found = []
        for number in range(self.random.choice([0, 0, 1, 2])):
            gpus = self.random.choice([1, 2, 2])
            island = gpus == 2 and self.random.random() < 0.7
            priority = self.random.choice([0, 5])
            tp = gpus if island else None
            self.pods.append(a_pod(f"waits-{number}", gpus=gpus, tp=tp, priority=priority))
            found.append(Waits(gpus, island, priority))
        return tuple(found)


def _with_none(cut: Mapping[int, list[tuple[str, int, str]]]) -> dict[int, list[tuple[str, int, str]]]:
    return {index: [(profile, start, pod or "") for profile, start, pod in layout] for index, layout in cut.items()}
