"""Which nodes with links are alike: equal pods hold GPUs that can stand for each other."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.policy.need import PodNeed
from planner.models.symmetry import Mark, Symmetries, symmetries_of
from planner.world import World

FREE, OUT_OF_ORDER, FIXED, FIRST_TYPE = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Held:
    """Who holds which GPUs of a node.

    Attributes
    ----------
    like
        What the node has in common with all nodes that are alike.
    pods
        Keys of its movable pods, in an order in which pods at the same position are alike, too.
    """

    like: Hashable
    pods: tuple[str, ...]


def out_of_order(node: Node, gpus: int) -> int:
    """Return a bit mask of the GPUs that the node's report does not offer as whole ones; 0 without a report."""
    if node.gpu_report is None or not node.gpu_report.gpus:
        return 0
    offered = {gpu.index for gpu in node.gpu_report.gpus if gpu.healthy and not gpu.mig}
    return sum(1 << gpu for gpu in range(gpus) if gpu not in offered)


def symmetries_at(node: Node, world: World, resources: Sequence[str], needs: Iterable[PodNeed]) -> Symmetries:
    """Return the symmetries of a node, as far as they mean nothing to pods with these needs."""
    state = world.state(node.name, resources[0])
    # Ranks follow the numbers of GPUs: they count where a container wants several islands side by side.
    several = any(need.wants_island and any(1 < c.island < c.gpus for c in need.containers) for need in needs)
    return symmetries_of(
        state.hardware,
        state.topology_manager_policy,
        out_of_order(node, state.hardware.gpus),
        numbered=several or len(resources) > 1,
    )


def held(
    node: Node, pods: Iterable[Pod], resources: Sequence[str], symmetries: Symmetries, type_of: Mapping[str, int]
) -> Held:
    """Return who holds which GPUs of a node, as far as its report tells; the others in the order of their start.

    Parameters
    ----------
    type_of
        Index of the type, by key of the pods that may move.
    """
    holders = {pod.key: pod for pod in pods if any(map(pod.spec.requests.count, resources))}
    movable = [key for key in holders if key in type_of]
    numbers = {key: number for number, key in enumerate(movable)}
    gpus = symmetries.permutations.shape[1]
    marks: list[Mark] = [(FREE, -FREE - 1)] * gpus
    seen: set[str] = set()
    reported = node.gpu_report.gpus if node.gpu_report is not None else ()
    out = out_of_order(node, gpus)
    keys = [""] * gpus
    for gpu in reported:
        if gpu.index < gpus and gpu.pod in holders and not out >> gpu.index & 1:
            seen.add(gpu.pod)
            keys[gpu.index] = gpu.pod
            moves = gpu.pod in numbers
            marks[gpu.index] = (FIRST_TYPE + type_of[gpu.pod], numbers[gpu.pod]) if moves else (FIXED, -FIXED - 1)
    for gpu_index in range(gpus):
        if out >> gpu_index & 1:
            marks[gpu_index] = (OUT_OF_ORDER, -OUT_OF_ORDER - 1)
    like, order = symmetries.marks_like(marks)
    ordered = list(dict.fromkeys(keys[gpu] for gpu in order if keys[gpu] in numbers))
    unseen = sorted(
        (pod for key, pod in holders.items() if key not in seen), key=lambda p: (p.started or p.created, p.key)
    )
    if not reported:
        # Nobody knows who has which, so that their order says nothing either.
        unseen = sorted((pod for pod in unseen if pod.key in numbers), key=lambda pod: (type_of[pod.key], pod.key))
    others = tuple((type_of.get(pod.key, -1), () if pod.key in numbers else pod.spec.containers) for pod in unseen)
    ordered += [pod.key for pod in unseen if pod.key in numbers]
    return Held((like, others), tuple(ordered))
