"""A pod that no node suits waits with the reason in its events, and is tried again as soon as a node changes."""

import json

from islander.cluster import names
from islander.policy.reasons import REASONS, Code
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import condition_of
from tests.kwok.controlplane.objects import gpu_node
from tests.kwok.islander_bench import IslanderBench, bridged_node

# Far below the five minutes after which kube-scheduler looks at a rejected pod without any event.
_SOON_SECONDS = 10.0


def test_required_pod_waits_with_the_reason_until_a_pod_that_breaks_the_island_leaves(bench: IslanderBench) -> None:
    bench.set_up([bridged_node("bridged")], {"bridged": (0, 2, 4, 6)})

    bench.api.create(bench.replica("strict", 2, topology="required"))

    told = bench.wait_event("strict", REASONS[Code.NO_FREE_ISLAND].sentence)
    assert told.startswith("0/1 nodes are available: 1 ")
    pod = bench.api.get(paths.pod(bench.namespace, "strict"))
    assert pod["status"]["phase"] == "Pending"
    assert REASONS[Code.NO_FREE_ISLAND].sentence in condition_of(pod, "PodScheduled")["message"]

    bench.api.delete(paths.pod(bench.namespace, "held-bridged-4"))

    bench.api.wait_bound(bench.namespace, "strict", _SOON_SECONDS)
    assert bench.kubelet.wait_picked(bench.namespace, "strict") == (4, 5)
