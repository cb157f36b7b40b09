"""What requests and watches count, in a registry of its own; `gauges` adds what describes the cluster."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector

VERBS = ("filter", "prioritize", "preempt", "bind", "explain")

# From half a millisecond, because that is where answers lie; up to kube-scheduler's default timeout of 5 s.
_BUCKETS_S = (0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """Counters and histograms that requests and watches update.

    Parameters
    ----------
    cluster
        Collector of the gauges that describe the cluster; read when somebody asks for the metrics.
    holds
        Returns the number of soft holds.
    """

    def __init__(self, cluster: Collector | None = None, holds: Callable[[], float] = lambda: 0.0) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "islander_requests", "Requests by verb and HTTP status.", ("verb", "code"), registry=registry
        )
        self.duration = Histogram(
            "islander_request_duration_seconds",
            "Time from the parsed request line to the answer.",
            ("verb",),
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.rejections = Counter(
            "islander_rejections", "Nodes that filter refused, by reason code.", ("code",), registry=registry
        )
        self.predictions = Counter(
            "islander_prediction",
            "Picks of kubelet that a node reported, by whether they were among the predicted ones.",
            ("outcome",),
            registry=registry,
        )
        soft_holds = Gauge("islander_soft_holds", "Pods that are thought to be on their way.", registry=registry)
        soft_holds.set_function(holds)
        self.reservations = Gauge(
            "islander_reservations", "Reservations of plans in progress, by state.", ("state",), registry=registry
        )
        for verb in VERBS:
            self.duration.labels(verb)
        for state in ("held", "expired"):
            self.reservations.labels(state)
        for outcome in ("hit", "miss"):
            self.predictions.labels(outcome)
        if cluster is not None:
            registry.register(cluster)

    def predicted(self, hit: bool) -> None:
        """Count a pick of kubelet."""
        self.predictions.labels("hit" if hit else "miss").inc()

    def expose(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)
