"""A pod that no node suits waits with the reason in its events, and is tried again as soon as a node changes."""

from islander.cluster import names
from islander.policy.reasons import REASONS, Code
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import condition_of
from tests.kwok.controlplane.objects import gpu_node
from tests.kwok.controlplane.waiting import wait_until
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


def test_required_pod_waits_until_the_node_reports_its_gpus(bench: IslanderBench) -> None:
    bench.api.create(bridged_node("bridged"))
    # No report: which four GPUs these pods hold is not known.
    bench.kubelet.silence("bridged")
    bench.api.create_all(bench.holder("bridged", (gpu,)) for gpu in range(4))
    _wait_counted(bench, 4)

    bench.api.create(bench.replica("strict", 2, topology="required"))
    bench.wait_event("strict", REASONS[Code.ISLAND_NOT_GUARANTEED].sentence)

    bench.kubelet.report("bridged")

    bench.api.wait_bound(bench.namespace, "strict", _SOON_SECONDS)
    assert bench.kubelet.wait_picked(bench.namespace, "strict") in ((4, 5), (6, 7))


def test_required_pod_waits_until_an_annotation_tells_the_hardware(bench: IslanderBench) -> None:
    """A bridged product proves nothing about its bridges until the operator names the hardware."""
    node = bridged_node("bridged")
    del node["metadata"]["annotations"]
    bench.set_up([node])

    bench.api.create(bench.replica("strict", 2, topology="required"))
    bench.wait_event("strict", REASONS[Code.ISLAND_NOT_GUARANTEED].sentence)

    bench.api.patch(paths.node("bridged"), {"metadata": {"annotations": {names.HARDWARE: "a100-pcie-8"}}})

    bench.api.wait_bound(bench.namespace, "strict", _SOON_SECONDS)


def test_required_pod_waits_until_a_label_tells_the_product(bench: IslanderBench) -> None:
    bench.set_up([gpu_node("unlabelled", labels={names.GPU_PRODUCT: ""})])

    bench.api.create(bench.replica("strict", 4, topology="required"))
    bench.wait_event("strict", REASONS[Code.ISLAND_NOT_GUARANTEED].sentence)

    labels = {names.GPU_PRODUCT: "NVIDIA-H100-80GB-HBM3"}
    bench.api.patch(paths.node("unlabelled"), {"metadata": {"labels": labels}})

    bench.api.wait_bound(bench.namespace, "strict", _SOON_SECONDS)


def test_refused_pod_is_placed_soon_after_each_change_that_lets_it(bench: IslanderBench) -> None:
    """The scheduler's watch may be ahead of the extender's: the pod must not be left behind."""
    bench.set_up([bridged_node("bridged")], {"bridged": (0, 2, 4)})

    for number in range(8):
        breaker = bench.holder("bridged", (6,))
        bench.api.create(breaker)
        bench.kubelet.wait_picked(bench.namespace, breaker["metadata"]["name"])
        bench.wait_seen()
        strict = bench.replica(f"strict-{number}", 2, topology="required")
        bench.api.create(strict)
        bench.wait_event(strict["metadata"]["name"], REASONS[Code.NO_FREE_ISLAND].sentence)

        bench.api.delete(paths.path_of(breaker))

        bench.api.wait_bound(bench.namespace, strict["metadata"]["name"], _SOON_SECONDS)
        bench.api.delete(paths.path_of(strict))
        bench.api.wait_gone(paths.path_of(strict))


def _wait_counted(bench: IslanderBench, used: int) -> None:
    """Wait until the extender counts so many GPUs as used."""
    wait_until(lambda: bench.extender.get_json("/status")["totals"]["used"] == used)
