"""Which nodes a flavor names, and which of them quota can stand on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import structs

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import Pod, PodSpec, Toleration
from islander.cluster.queues import ResourceFlavor
from islander.policy.fit import not_schedulable
from islander.policy.selectors import untolerated_taint
from islander.policy.settings import PolicySettings

# What the MIG manager writes when a new layout stands (NVIDIA/mig-parted, deployments/k8s-mig-manager).
_SETTLED = "success"


def nodes_of(flavor: ResourceFlavor, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes that have all labels of the flavor; without labels, every node."""
    wanted = set(flavor.node_labels)
    return tuple(node for node in nodes if wanted.issubset(node.labels))


def why_unusable(node: Node, flavor: ResourceFlavor, queued: Collection[Pod], settings: PolicySettings) -> str:
    """Return why no quota can stand on the node; empty when it can.

    A taint is no reason when the flavor tolerates it or says that its pods must, when it is named like the resource, or
    when a pod of a queue tolerates it.

    Parameters
    ----------
    queued
        GPU pods that queues count, one for each set of tolerations.
    """
    if blocked := not_schedulable(node):
        return blocked.message
    said = tuple(Toleration(t.key, "Equal", t.value, t.effect) for t in flavor.node_taints)
    cleaned = structs.replace(node, taints=tuple(t for t in node.taints if t.key not in settings.gpu_resources))
    bare = Pod("", "", spec=PodSpec(tolerations=(*flavor.tolerations, *said)))
    taint = untolerated_taint(bare, cleaned)
    if taint is not None and all(untolerated_taint(pod, cleaned) is not None for pod in queued):
        return f"the flavor does not tolerate its taint ({taint.key}={taint.value}:{taint.effect})"
    state = node.label(names.MIG_CONFIG_STATE)
    if state not in (None, "", _SETTLED):
        return f"its MIG layout is being changed ({names.MIG_CONFIG_STATE}={state:.20})"
    return ""
