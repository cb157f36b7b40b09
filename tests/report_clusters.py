"""The clusters that the pages of plans are tested with: small, with something of everything that a page shows."""

from __future__ import annotations

from islander.cluster import names
from islander.cluster.queues import LocalQueue
from islander.cluster.snapshot import ClusterSnapshot
from tests.builders import (
    H100,
    a_budget,
    a_cluster_queue,
    a_flavor,
    a_node,
    a_pod,
    a_snapshot,
    a_workload,
    owned_by,
    quotas,
)
from tests.mig_builders import A100, a_mig_node, a_mig_pod

PRODUCT = names.GPU_PRODUCT


def mig_cluster() -> ClusterSnapshot:
    """`one` is cut in part, `two` is in use but for one GPU that a movable pod has, `pool-*` are idle."""
    notebook = a_workload("nb", namespace="labs", replicas=2)
    return a_snapshot(
        a_mig_node("one", gpus=2, cut={0: [("3g.40gb", 0, "search/embed"), ("1g.10gb", 4)]}, used={1: "chat/llama"}),
        a_mig_node("two", gpus=2, used={0: "labs/nb-1", 1: "chat/coder"}),
        a_mig_node("pool-1", gpus=2),
        a_mig_node("pool-2", gpus=2),
        a_mig_node("closed", gpus=2, unschedulable=True),
        a_node("small", gpus=1, product="Tesla-T4"),
        notebook,
        a_budget("nb", namespace="labs", labels={"app": "nb"}),
        a_mig_pod("embed", "3g.40gb", node="one", namespace="search"),
        a_pod("llama", gpus=1, node="one", namespace="chat"),
        a_pod("coder", gpus=1, node="two", namespace="chat"),
        a_pod("nb-1", gpus=1, node="two", namespace="labs", owner=owned_by(notebook), labels={"app": "nb"}),
    )


def quota_cluster() -> ClusterSnapshot:
    """Five usable nodes of eight and one of four in two flavors; a cordoned node; three GPUs held outside Kueue."""
    return a_snapshot(
        *[a_node(f"h{number}") for number in range(5)],
        a_node("cordoned", unschedulable=True),
        a_node("small", product=A100, gpus=4),
        a_flavor("h100", labels={PRODUCT: H100}),
        a_flavor("a100", labels={PRODUCT: A100}),
        a_cluster_queue("chat", quotas("h100", 30), cohort="gpu"),
        a_cluster_queue("search", quotas("h100", 21), quotas("a100", 8), cohort="gpu"),
        LocalQueue("chat", "chat", cluster_queue="chat"),
        LocalQueue("search", "search", cluster_queue="search"),
        a_pod("db-0", gpus=3, node="h0", namespace="data"),
        a_pod("too-big", gpus=16, namespace="chat", labels={names.KUEUE_QUEUE: "chat"}),
    )
