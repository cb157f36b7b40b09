"""Whether kubelet picked what was predicted, wherever nodes report which GPUs a pod has got."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from extender.cache import ClusterCache
from islander.cluster.node import GpuReport, Node
from islander.policy.assess import assess
from islander.policy.need import need_of
from islander.policy.occupancy import Source, gpu_state
from islander.policy.settings import DEFAULT_MIX, PolicySettings


class PredictionCheck:
    """Compares each pick that a node newly reports with what its report before allowed.

    Parameters
    ----------
    count
        Called with True for a pick that was among the predicted ones, else with False.

    Notes
    -----
    Only a report that adds one pod and loses none is judged: of two new pods the order is not known, and of GPUs that
    came back in the same report not whether they were free in time.
    """

    def __init__(self, cache: ClusterCache, settings: PolicySettings, count: Callable[[bool], None]) -> None:
        self._cache = cache
        self._settings = settings
        self._count = count

    def on_change(self, kind: str, key: str, old: object, new: object) -> None:
        """Take in one change of an object; only reporting nodes matter."""
        if not (kind == "Node" and isinstance(old, Node) and isinstance(new, Node)):
            return
        if old.gpu_report is None or new.gpu_report is None or old.gpu_report == new.gpu_report:
            return
        before, after = _gpus_by_pod(old.gpu_report), _gpus_by_pod(new.gpu_report)
        if len(after.keys() - before.keys()) == 1 and before.keys() <= after.keys():
            (added,) = after.keys() - before.keys()
            self._judge(old, before, added, after[added])

    def _judge(self, node: Node, before: Mapping[str, tuple[int, ...]], added: str, picked: tuple[int, ...]) -> None:
        pod = self._cache.pod(added)
        need = need_of(pod, self._settings) if pod is not None else None
        if need is None or need.gpus != len(picked):
            return
        there = [other for other in self._cache.pods_on(node.name) if other.key in before]
        state = gpu_state(node, there, need.resource)
        if state.source is not Source.AGENT:
            return
        predicted = assess(state, need, DEFAULT_MIX)
        if predicted.complete:
            self._count(picked in predicted.picks)


def _gpus_by_pod(report: GpuReport) -> dict[str, tuple[int, ...]]:
    gpus: defaultdict[str, list[int]] = defaultdict(list)
    for gpu in report.gpus:
        if gpu.pod is not None:
            gpus[gpu.pod].append(gpu.index)
    return {pod: tuple(sorted(indexes)) for pod, indexes in gpus.items()}
