"""Reason codes: why a pod does not fit, why a pod does not move. Each code has one sentence, and is stable."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """A placement reason; the value is the code that scripts read."""

    NOT_ENOUGH_FREE_GPUS = "NOT_ENOUGH_FREE_GPUS"
    NODE_TOO_SMALL = "NODE_TOO_SMALL"
    NO_FREE_ISLAND = "NO_FREE_ISLAND"
    ISLAND_NOT_GUARANTEED = "ISLAND_NOT_GUARANTEED"
    NO_SUCH_ISLAND = "NO_SUCH_ISLAND"
    WRONG_PRODUCT = "WRONG_PRODUCT"
    GPU_MEMORY_TOO_SMALL = "GPU_MEMORY_TOO_SMALL"
    NUMA_SPLIT = "NUMA_SPLIT"
    SHARED_GPUS = "SHARED_GPUS"
    MIG_NOT_PLACEABLE = "MIG_NOT_PLACEABLE"
    CLIQUE_TOO_SMALL = "CLIQUE_TOO_SMALL"
    RESERVED = "RESERVED"
    UNKNOWN_NODE = "UNKNOWN_NODE"
    NODE_NOT_READY = "NODE_NOT_READY"
    NODE_CORDONED = "NODE_CORDONED"
    TAINT_NOT_TOLERATED = "TAINT_NOT_TOLERATED"
    SELECTOR_MISMATCH = "SELECTOR_MISMATCH"
    NOT_ENOUGH_CPU = "NOT_ENOUGH_CPU"
    NOT_ENOUGH_MEMORY = "NOT_ENOUGH_MEMORY"
    NOT_ENOUGH_PODS = "NOT_ENOUGH_PODS"
    HOST_PORT_TAKEN = "HOST_PORT_TAKEN"
    POD_AFFINITY_MISMATCH = "POD_AFFINITY_MISMATCH"
    TOPOLOGY_SPREAD = "TOPOLOGY_SPREAD"
    INVALID_REQUEST = "INVALID_REQUEST"


@dataclass(frozen=True, slots=True)
class ReasonText:
    """What the docs say of a code.

    Attributes
    ----------
    sentence
        The sentence in the scheduler's event; the same for every node, so that events stay groupable.
    cause
        What brings it about.
    cure
        What the operator can do.
    curable_by_preemption
        True when kube-scheduler's own preemption can cure it; such a node goes into `FailedNodes`.
    """

    sentence: str
    cause: str
    cure: str
    curable_by_preemption: bool = False


REASONS: dict[Code, ReasonText] = {
    Code.NOT_ENOUGH_FREE_GPUS: ReasonText(
        "not enough free GPUs on one node",
        "Pods hold so many of the node's GPUs that fewer are free than the pod asks for.",
        "Wait, move a pod away (`islander explain` names the node closest to fitting), or add a node.",
        curable_by_preemption=True,
    ),
    Code.NODE_TOO_SMALL: ReasonText(
        "node has fewer GPUs than one pod asks for",
        "The pod asks for more GPUs than the node offers even when it is empty.",
        "Use a larger node, or a smaller tensor parallel size with pipeline parallelism across pods.",
    ),
    Code.NO_FREE_ISLAND: ReasonText(
        "free GPUs are not joined by NVLink",
        "Enough GPUs are free, but no set of them is joined pairwise by NVLink: other pods have broken the islands.",
        "Move a pod that breaks the island, or annotate the pod `islander.dev/topology: preferred`.",
    ),
    Code.ISLAND_NOT_GUARANTEED: ReasonText(
        "kubelet may pick GPUs that are not joined by NVLink",
        "A free island exists, but the device plugin may hand out other GPUs, or nothing tells which GPUs are free.",
        "Free the whole node, let the node report its GPUs (`islander.dev/gpus`), or use `preferred`.",
    ),
    Code.NO_SUCH_ISLAND: ReasonText(
        "node has no NVLink island of this size",
        "The hardware of the node joins fewer GPUs by NVLink than the pod needs, or its links are not known.",
        "Use another node type, or set `islander.dev/hardware` when the labels do not tell the hardware.",
    ),
    Code.WRONG_PRODUCT: ReasonText(
        "node has another GPU product than the pod asks for",
        "The pod's node selector or affinity names a GPU product that the node does not have.",
        "Correct the selector, or add nodes of that product.",
    ),
    Code.GPU_MEMORY_TOO_SMALL: ReasonText(
        "GPU memory is smaller than the pod asks for",
        "The pod's affinity asks for more memory per GPU (`nvidia.com/gpu.memory`) than the node's GPUs have.",
        "Use nodes with larger GPUs, or more GPUs per replica.",
    ),
    Code.NUMA_SPLIT: ReasonText(
        "kubelet would refuse GPUs from several NUMA nodes",
        "The node's Topology Manager policy admits only GPUs of one NUMA node, and too few are free there.",
        "Free GPUs on one NUMA node, or relax the node's Topology Manager policy.",
    ),
    Code.SHARED_GPUS: ReasonText(
        "node shares its GPUs, so two of them may be one",
        "The node offers time slices or MPS replicas under the name of whole GPUs; two replicas may be the same GPU.",
        "Use a node with whole GPUs, or annotate the pod `islander.dev/topology: ignored` to accept replicas.",
    ),
    Code.MIG_NOT_PLACEABLE: ReasonText(
        "MIG device cannot be placed on this node",
        "The node has no free MIG device of the profile, or offers MIG slices where whole GPUs are asked for.",
        "Ask for a profile that the node offers, or change the node's MIG layout.",
    ),
    Code.CLIQUE_TOO_SMALL: ReasonText(
        "NVLink clique is too small for the whole group",
        "The nodes that share a rack-wide NVLink domain have too few free GPUs for all pods of the group.",
        "Free GPUs inside one clique, or allow the group to spread.",
    ),
    Code.RESERVED: ReasonText(
        "room is reserved by a plan in progress",
        "A plan freed these GPUs for another pod and holds them until it is placed or the plan expires.",
        "Wait for the plan to end, or cancel it.",
    ),
    Code.UNKNOWN_NODE: ReasonText(
        "node is not known",
        "The node is not in the watched state: just created, just deleted, or a template of an autoscaler.",
        "Usually cures itself within seconds; otherwise check the extender's access to nodes.",
    ),
    Code.NODE_NOT_READY: ReasonText(
        "node is not ready",
        "The node's Ready condition is not True.",
        "Repair the node.",
    ),
    Code.NODE_CORDONED: ReasonText(
        "node is cordoned",
        "The node is marked unschedulable.",
        "Uncordon the node when its maintenance is over.",
    ),
    Code.TAINT_NOT_TOLERATED: ReasonText(
        "node has a taint that the pod does not tolerate",
        "A NoSchedule or NoExecute taint of the node has no matching toleration.",
        "Add the toleration, or remove the taint.",
    ),
    Code.SELECTOR_MISMATCH: ReasonText(
        "node does not match the pod's node selector or affinity",
        "A label that the pod requires is missing from the node or has another value.",
        "Correct the selector, or label the node.",
    ),
    Code.NOT_ENOUGH_CPU: ReasonText(
        "not enough CPU on the node",
        "The CPU requests of the node's pods leave less than the pod asks for.",
        "Lower the pod's CPU request, or move a pod away.",
        curable_by_preemption=True,
    ),
    Code.NOT_ENOUGH_MEMORY: ReasonText(
        "not enough memory on the node",
        "The memory requests of the node's pods leave less than the pod asks for.",
        "Lower the pod's memory request, or move a pod away.",
        curable_by_preemption=True,
    ),
    Code.NOT_ENOUGH_PODS: ReasonText(
        "node runs as many pods as it may",
        "The node's pod limit is reached.",
        "Move a pod away, or raise the kubelet's pod limit.",
        curable_by_preemption=True,
    ),
    Code.HOST_PORT_TAKEN: ReasonText(
        "host port of the pod is in use on the node",
        "A pod on the node occupies a host port that the pod asks for.",
        "Use another port, or no host network.",
        curable_by_preemption=True,
    ),
    Code.POD_AFFINITY_MISMATCH: ReasonText(
        "required affinity between pods forbids the node",
        "The pod's required affinity or anti-affinity fails there, or a pod there excludes it.",
        "Loosen the rule to a preference, or move the other pod.",
    ),
    Code.TOPOLOGY_SPREAD: ReasonText(
        "topology spread of the pod would be broken",
        "The pod on this node would make the difference between domains larger than `maxSkew` allows.",
        "Raise `maxSkew`, use `ScheduleAnyway`, or make room in the emptier domain.",
    ),
    Code.INVALID_REQUEST: ReasonText(
        "pod's GPU request is not valid",
        "A GPU quantity is not a whole number, is negative, or its request differs from its limit.",
        "Correct the resources of the container that the explanation names.",
    ),
}
