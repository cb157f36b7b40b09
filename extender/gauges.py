"""The gauges that describe the cluster, computed from the distinct states of its nodes when somebody asks for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.cache import ClusterCache
from extender.source import ClusterSource
from islander.cluster.mig_devices import MigChange
from islander.policy.demand import shapes_by_size
from islander.policy.fit import not_schedulable
from islander.policy.fragmentation import stranded_share
from islander.policy.need import need_of
from islander.policy.occupancy import GpuState
from islander.policy.room import islands_free, replicas_guaranteed
from islander.policy.settings import COMMON_SIZES, DemandMix, PolicySettings

_NO_PRODUCT = "unknown"

# By the values of the labels.
Amounts = dict[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class _Kind:
    """Nodes that are alike: same state, and the same answer to whether they take new pods."""

    state: GpuState
    usable: bool

    @property
    def pool(self) -> str:
        return self.state.product or _NO_PRODUCT


class ClusterGauges(Collector):
    """What Prometheus reads of the cluster; a pool is all nodes with one GPU product.

    Notes
    -----
    A pod is stuck when enough GPUs are free on nodes that take pods, and none of these nodes is good for the pod by
    its GPUs; selectors and taints are left out, they would take a look at every node for every pod.
    """

    def __init__(
        self,
        cache: ClusterCache,
        source: ClusterSource,
        settings: PolicySettings,
        mix: Callable[[], DemandMix],
    ) -> None:
        self._cache = cache
        self._source = source
        self._settings = settings
        self._mix = mix

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry must not compute everything just to learn the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of this moment."""
        yield from self._watches()
        if self._source.missing():
            return
        mix = self._mix()
        kinds = self._kinds()
        yield self._gpus(kinds)
        yield self._placeable(kinds, mix)
        yield self._islands(kinds)
        yield self._fragmentation(kinds, mix)
        yield self._stuck(mix, sum(kind.state.free * count for kind, count in kinds.items() if kind.usable))

    def _watches(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "islander_snapshot_age_seconds",
            "Time since the last news of nodes and pods, of the one that has been silent for longer.",
            self._source.age_seconds(),
        )
        objects = GaugeMetricFamily("islander_objects", "Objects that are known.", labels=["kind"])
        restarts = CounterMetricFamily("islander_watch_restarts", "Lists and watches that failed.", labels=["kind"])
        unparsable = CounterMetricFamily(
            "islander_unparsable_objects", "Versions of objects that could not be read.", labels=["kind"]
        )
        for kind in self._source.kinds():
            objects.add_metric([kind.kind], kind.objects)
            restarts.add_metric([kind.kind], kind.restarts_total)
            unparsable.add_metric([kind.kind], kind.skipped_total)
        yield from (objects, restarts, unparsable)

    def _kinds(self) -> Counter[_Kind]:
        nodes = self._cache.nodes()
        names = list(nodes)
        usable = [not_schedulable(node) is None for node in nodes.values()]
        kinds: Counter[_Kind] = Counter()
        for resource in self._settings.gpu_resources:
            sight = self._cache.sight(resource, names)
            states = sight.resource.states
            for (state_id, is_usable), count in Counter(zip(sight.ids({}).tolist(), usable, strict=True)).items():
                state = states[state_id] if state_id >= 0 else None
                # Under the name of GPUs a node may offer MIG instances: those are not counted as GPUs.
                if state is not None and state.offered and not state.mig:
                    kinds[_Kind(state, is_usable and state.mig_change is MigChange.SETTLED)] += count
        return kinds

    def _gpus(self, kinds: Counter[_Kind]) -> Metric:
        gpus: Amounts = defaultdict(float)
        for kind, count in kinds.items():
            state = kind.state
            gpus[kind.pool, "used"] += count * state.used
            gpus[kind.pool, "free"] += count * state.free
            gpus[kind.pool, "usable_free"] += count * state.free * kind.usable
            gpus[kind.pool, "withdrawn"] += count * state.withdrawn
        return _gauge("islander_gpus", "GPUs by what becomes of them.", ("pool", "state"), gpus)

    def _placeable(self, kinds: Counter[_Kind], mix: DemandMix) -> Metric:
        replicas: Amounts = defaultdict(float)
        for kind, count in kinds.items():
            for key, shape in shapes_by_size(mix).items():
                replicas[kind.pool, key] += count * replicas_guaranteed(kind.state, shape) * kind.usable
        return _gauge(
            "islander_placeable_replicas", "Replicas of one shape that are sure to fit.", ("pool", "shape"), replicas
        )

    def _islands(self, kinds: Counter[_Kind]) -> Metric:
        islands: Amounts = defaultdict(float)
        for kind, count in kinds.items():
            for size in COMMON_SIZES:
                islands[kind.pool, str(size)] += count * islands_free(kind.state, size) * kind.usable
        return _gauge(
            "islander_free_islands", "Free islands of one size, cut at the same time.", ("pool", "size"), islands
        )

    def _fragmentation(self, kinds: Counter[_Kind], mix: DemandMix) -> Metric:
        free: defaultdict[str, int] = defaultdict(int)
        stranded: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        shapes = shapes_by_size(mix)
        for kind, count in kinds.items():
            free[kind.pool] += count * kind.state.free * kind.usable
            for size, shape in shapes.items():
                left = kind.state.free - shape.gpus * replicas_guaranteed(kind.state, shape)
                stranded[kind.pool][size] += count * left * kind.usable
        ratios: Amounts = {(pool,): stranded_share(mix, stranded[pool], gpus) for pool, gpus in free.items()}
        return _gauge(
            "islander_fragmentation_ratio", "Share of the free GPUs that the demand cannot use.", ("pool",), ratios
        )

    def _stuck(self, mix: DemandMix, usable_free: int) -> Metric:
        stuck: Amounts = defaultdict(float)
        nodes = [name for name, node in self._cache.nodes().items() if not_schedulable(node) is None]
        waiting = Counter(need for pod in self._cache.waiting() if (need := need_of(pod, self._settings)).gpus)
        for need, count in waiting.items():
            stuck[(need.shape_name,)] += 0
            if not need.asks_mig and need.gpus > usable_free:
                continue
            sight = self._cache.sight(need.resource, nodes)
            ids = sight.ids({})
            ids = ids[ids >= 0]
            if need.asks_mig and need.gpus > sum(sight.resource.states[i].free for i in ids.tolist()):
                continue
            if not (sight.resource.table(need, mix).judgements(np.unique(ids)).ranks >= 0).any():
                stuck[(need.shape_name,)] += count
        return _gauge(
            "islander_pending_stuck_replicas",
            "Pending pods that no node takes although GPUs are free.",
            ("shape",),
            stuck,
        )


def _gauge(name: str, text: str, labels: tuple[str, ...], values: Amounts) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(list(key), value)
    return family
