"""Replicas that do not exist yet, as pods: what `--goal` makes room for."""

from __future__ import annotations

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import Container, Pod, PodSpec, Toleration
from islander.cluster.resources import Resources
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.movability import is_system
from planner.options import Goal

NAMESPACE = "goal"


def goal_replicas(goal: Goal, snapshot: ClusterSnapshot, settings: PolicySettings) -> tuple[list[Pod], list[str]]:
    """Return `goal/1`, `goal/2`, ... and what is uncertain about them.

    They want an island as much as any replica with tensor parallelism that does not say its own: by default they prefer
    one. What a plan makes room for is then exactly what the extender lets in when the replica comes; were it stricter,
    clusters without such islands would be told that there is no room where their replicas run every day.

    They have the highest priority of all pods with GPUs that are no part of the system, so that equal ones may move.
    Taints named like the resource are tolerated, as the API server makes it so for every pod that asks for it.
    """
    resource = _resource(goal, snapshot, settings)
    product_label = names.AMD_PRODUCT if resource == names.AMD_GPU else names.GPU_PRODUCT
    requests = Resources(extended=((resource, goal.tensor_parallel),))
    spec = PodSpec(
        containers=(Container("replica", requests=requests),),
        requests=requests,
        node_selector=((product_label, goal.product),) if goal.product else (),
        tolerations=(Toleration(key=resource, operator="Exists"),),
        priority=_highest_priority(snapshot, settings),
    )
    annotations = ((names.TENSOR_PARALLEL_SIZE, str(goal.tensor_parallel)),)
    pods = [Pod(NAMESPACE, str(number + 1), spec=spec, annotations=annotations) for number in range(goal.count)]
    warnings = ["replicas of the goal are counted with their GPUs alone, without CPU and memory"]
    if goal.product and not any(node.label(product_label) == goal.product for node in snapshot.nodes):
        warnings.append(f"no node has GPUs of product {goal.product!r:.80}")
    return pods, warnings


def in_order(key: str) -> tuple[str, int]:
    """Return what keys of pods are sorted by: `goal/2` comes before `goal/10`, all others as texts do."""
    namespace, _, name = key.partition("/")
    if namespace == NAMESPACE and name.isascii() and name.isdigit():
        return f"{namespace}/", int(name)
    return key, 0


def _resource(goal: Goal, snapshot: ClusterSnapshot, settings: PolicySettings) -> str:
    """Return the resource that stands for GPUs: the first of the settings that a node, of the product, offers."""
    fitting = [node for node in snapshot.nodes if not goal.product or goal.product in _products(node)]
    return next(
        (name for name in settings.gpu_resources if any(node.capacity.count(name) for node in fitting)),
        settings.gpu_resources[0],
    )


def _products(node: Node) -> tuple[str | None, ...]:
    return node.label(names.GPU_PRODUCT), node.label(names.AMD_PRODUCT)


def _highest_priority(snapshot: ClusterSnapshot, settings: PolicySettings) -> int:
    return max(
        (
            pod.spec.priority
            for pod in snapshot.pods
            if not pod.finished
            and not is_system(pod)
            and any(pod.spec.requests.count(name) for name in settings.gpu_resources)
        ),
        default=0,
    )
