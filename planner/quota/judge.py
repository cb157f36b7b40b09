"""What a quota plan is judged by: the objects in its files, and the rooms of the cluster as the policy sees them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from islander.cluster.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from islander.cluster.snapshot import ClusterSnapshot
from islander.kube.parse import MalformedObject, parse_object
from islander.policy.settings import PolicySettings, Shape
from planner.quota.capacity import FlavorCapacity, capacities
from planner.quota.membership import Membership
from planner.quota.plan import QueueRow, QuotaPlan, TeamRow
from planner.quota.rooms import Kind, Remains, Room

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KUSTOMIZATION = "kustomization.yaml"


@dataclass(frozen=True, slots=True)
class Documents:
    """The objects in the files of a plan."""

    bodies: tuple[dict[str, Any], ...]
    queues: Mapping[str, ClusterQueue]
    cohorts: Mapping[str, Cohort]
    flavors: Mapping[str, ResourceFlavor]
    doors: tuple[LocalQueue, ...]
    broken: tuple[str, ...]


def _documents(plan: QuotaPlan) -> Documents:
    bodies: list[dict[str, Any]] = []
    broken: list[str] = []
    for name, text in plan.files.items():
        if name == _KUSTOMIZATION:
            continue
        try:
            bodies += [body for body in yaml.load_all(text, Loader=_Loader) if body is not None]
        except yaml.YAMLError as problem:
            broken.append(f"{name}: {problem}")
    values = []
    for body in bodies:
        try:
            values.append(parse_object(msgspec.json.encode(body)))
        except (MalformedObject, TypeError) as problem:
            broken.append(str(problem))
    return Documents(
        bodies=tuple(bodies),
        queues={value.name: value for value in values if isinstance(value, ClusterQueue)},
        cohorts={value.name: value for value in values if isinstance(value, Cohort)},
        flavors={value.name: value for value in values if isinstance(value, ResourceFlavor)},
        doors=tuple(value for value in values if isinstance(value, LocalQueue)),
        broken=tuple(broken),
    )


@dataclass(slots=True)
class Judge:
    """The plan, the cluster, and what both say about each other."""

    plan: QuotaPlan
    snapshot: ClusterSnapshot
    settings: PolicySettings
    known: Sequence[FlavorCapacity] | None
    documents: Documents = field(init=False)
    offers: dict[str, FlavorCapacity] = field(init=False)
    kinds: tuple[Kind, ...] = field(init=False)
    rooms: dict[str, Room] = field(init=False)

    def __post_init__(self) -> None:
        self.documents = _documents(self.plan)
        doors = self.documents.doors
        future = {} if self.snapshot.cluster_queues else {door.namespace: door.cluster_queue for door in doors}
        named = {(door.namespace, door.name): door.cluster_queue for door in doors}
        membership = Membership.of(self.snapshot, future, named)
        resources = {row.name: row.resource for row in self.plan.flavors}
        there = {flavor.name: flavor for flavor in self.snapshot.resource_flavors} | dict(self.documents.flavors)
        flavors = [there[name] for name in resources if name in there]
        counted = self.known
        if counted is None:
            counted = capacities(self.snapshot, self.settings, 0, (), flavors, membership)
        self.offers = {found.flavor: found for found in counted if found.resource == resources.get(found.flavor)}
        self.kinds = _kinds(self.plan)
        held = {pod for found in self.offers.values() for pod, _ in found.held_outside}
        nodes = {node.name: node for node in self.snapshot.nodes}
        self.rooms = {}
        for found in self.offers.values():
            for place in found.nodes:
                pods = self.snapshot.pods_by_node.get(place.name, ())
                outside = [p for p in pods if p.key in held or not p.spec.requests.count(found.resource)]
                self.rooms[place.name] = Remains.of(nodes[place.name], outside, found.resource).room(self.kinds)

    @property
    def gpu_rows(self) -> Iterator[QueueRow]:
        """The rows of GPUs that stay or come."""
        return (row for row in self.plan.queues if row.island and row.nominal.new is not None)

    @property
    def teams_of(self) -> Mapping[str, list[TeamRow]]:
        """The teams by queue."""
        found: defaultdict[str, list[TeamRow]] = defaultdict(list)
        for team in self.plan.teams:
            found[team.queue].append(team)
        return found


def _kinds(plan: QuotaPlan) -> tuple[Kind, ...]:
    cpu: defaultdict[Shape, int] = defaultdict(int)
    memory: defaultdict[Shape, int] = defaultdict(int)
    for team in plan.teams:
        shape = Shape(team.gpus, team.island)
        cpu[shape] = max(cpu[shape], team.cpu_milli)
        memory[shape] = max(memory[shape], team.memory_bytes)
    witness = [pods for row in plan.queues for pods in row.witness]
    for pods in (*witness, *(pods for reserve in plan.reserve for pods in reserve.witness)):
        cpu[Shape(pods.gpus, pods.island)] += 0
    cpu[Shape(1, island=False)] += 0
    return tuple(Kind(shape, cpu[shape], memory[shape]) for shape in sorted(cpu))
