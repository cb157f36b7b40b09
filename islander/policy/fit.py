"""Whether a node accepts a pod at all: everything that kube-scheduler's own filters judge.

The extender leaves these to kube-scheduler, which has judged them before it asks. The planner and `explain` read all
nodes themselves, and judge them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.resources import Resources
from islander.policy.neighbours import Neighbourhood, affinity_fails, host_port_taken, spread_fails
from islander.policy.reasons import REASONS, Code
from islander.policy.selectors import unmatched_key, untolerated_taint

KIND_OF_LABEL = {
    names.GPU_PRODUCT: Code.WRONG_PRODUCT,
    names.AMD_PRODUCT: Code.WRONG_PRODUCT,
    names.GPU_MEMORY: Code.GPU_MEMORY_TOO_SMALL,
}


@dataclass(frozen=True, slots=True)
class Unfit:
    """A no, with its code; `detail` names what the code's sentence leaves out (a label, a taint), or is empty."""

    code: Code
    detail: str = ""

    @property
    def message(self) -> str:
        """The code's sentence, with the detail in brackets."""
        sentence = REASONS[self.code].sentence
        return f"{sentence} ({self.detail})" if self.detail else sentence


def not_schedulable(node: Node) -> Unfit | None:
    """Return why the node takes no new pods of any kind; None when it does."""
    if not node.ready:
        return Unfit(Code.NODE_NOT_READY, node.not_ready_reason)
    if node.unschedulable:
        return Unfit(Code.NODE_CORDONED)
    return None


def unfit(pod: Pod, node: Node, around: Neighbourhood, pods_there: Sequence[Pod] | None = None) -> Unfit | None:
    """Return why the pod cannot run on the node for a reason other than its GPUs; None when there is none.

    Parameters
    ----------
    pods_there
        Pods on the node, the pod itself left out; by default those of `around`.
    """
    there = around.pods.get(node.name, ()) if pods_there is None else pods_there
    if blocked := not_schedulable(node):
        return blocked
    if (taint := untolerated_taint(pod, node)) is not None:
        return Unfit(Code.TAINT_NOT_TOLERATED, f"{taint.key}={taint.value}:{taint.effect}")
    if (key := unmatched_key(pod, node)) is not None:
        return Unfit(KIND_OF_LABEL.get(key, Code.SELECTOR_MISMATCH), key)
    if short := _short_of(pod, node, [other for other in there if other.key != pod.key]):
        return Unfit(short)
    if host_port_taken(pod, there):
        return Unfit(Code.HOST_PORT_TAKEN)
    if affinity_fails(pod, node, around):
        return Unfit(Code.POD_AFFINITY_MISMATCH)
    if spread_fails(pod, node, around):
        return Unfit(Code.TOPOLOGY_SPREAD)
    return None


def _short_of(pod: Pod, node: Node, there: Sequence[Pod]) -> Code | None:
    used = Resources()
    for other in there:
        used = used.plus(other.spec.requests)
    if len(there) >= node.max_pods:
        return Code.NOT_ENOUGH_PODS
    if pod.spec.requests.cpu_milli > max(0, node.allocatable.cpu_milli - used.cpu_milli):
        return Code.NOT_ENOUGH_CPU
    if pod.spec.requests.memory_bytes > max(0, node.allocatable.memory_bytes - used.memory_bytes):
        return Code.NOT_ENOUGH_MEMORY
    return None
