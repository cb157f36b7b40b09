"""What tests on a control plane with Kueue share: queues for a namespace, and waiting for what Kueue says."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Api, ApiError, Json, condition_of
from tests.kwok.controlplane.queues import (
    API,
    QUEUE_NAME,
    cluster_queue,
    group,
    local_queue,
    quota,
    resource_flavor,
)
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.islander_bench import IslanderBench
from tests.kwok.queue_cases import ACCEPTED

ADMISSION_GATE = "kueue.x-k8s.io/admission"
# Per GPU; what kube-scheduler itself looks at when it spreads.
_CPU, _MEMORY_GIB = 8, 64


class Answer(NamedTuple):
    """What the API says to an object: the HTTP status, and why."""

    code: int
    message: str


def try_out(api: Api, obj: Json) -> Answer:
    """Create an object as a dry run, with the server's strictest look at fields, and return what it says."""
    try:
        api.request("POST", paths.collection_of(obj), obj, dryRun="All", fieldValidation="Strict")
    except ApiError as refusal:
        return Answer(refusal.code, refusal.message)
    return Answer(ACCEPTED, "")


def set_up_queue(bench: IslanderBench, gpus: int) -> None:
    """Let the test's namespace use that many GPUs, and as much CPU and memory as goes with them."""
    amounts = (quota(gpus * _CPU, resource="cpu"), quota(f"{gpus * _MEMORY_GIB}Gi", resource="memory"), quota(gpus))
    bench.api.create(resource_flavor("h100", {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}))
    bench.api.create(cluster_queue("serving", group({"h100": amounts})))
    bench.api.create(local_queue("serving", "serving", namespace=bench.namespace))
    wait_active(bench, ["serving"])


def queued(bench: IslanderBench, name: str, gpus: int) -> Json:
    """Return a replica that waits for the quota of `set_up_queue`."""
    requests = {"cpu": str(gpus * _CPU), "memory": f"{gpus * _MEMORY_GIB}Gi"}
    return bench.replica(name, gpus, labels={QUEUE_NAME: "serving"}, requests=requests)


def wait_active(bench: IslanderBench, queues: Sequence[str]) -> None:
    """Wait until Kueue admits through these ClusterQueues."""

    def inactive() -> dict[str, Json]:
        found = bench.api.items(paths.collection(API, "ClusterQueue"))
        active = {queue["metadata"]["name"]: condition_of(queue, "Active") for queue in found}
        return {name: active[name] for name in queues if active[name].get("status") != "True"}

    wait_until(lambda: not inactive(), what=lambda: f"queues are active; {inactive()}")


def wait_inactive(bench: IslanderBench, queue: str) -> str:
    """Wait until a ClusterQueue says why it admits nobody, and return the reason."""

    def reason() -> str:
        (found,) = (q for q in bench.api.items(paths.collection(API, "ClusterQueue")) if q["metadata"]["name"] == queue)
        condition = condition_of(found, "Active")
        return str(condition["reason"]) if condition.get("status") == "False" else ""

    return wait_until(reason, what=f"{queue} inactive")


def wait_admitted(bench: IslanderBench, pod: str) -> None:
    """Wait until a pod has its quota."""
    wait_until(
        lambda: workload_condition(bench, pod, "Admitted").get("status") == "True",
        what=lambda: f"{pod} admitted: {workload_condition(bench, pod, 'QuotaReserved')}",
    )


def wait_refused(bench: IslanderBench, pod: str) -> Json:
    """Wait until Kueue has said that there is no quota for a pod, and return the condition."""

    def refused() -> Json:
        condition = workload_condition(bench, pod, "QuotaReserved")
        return condition if condition.get("status") == "False" else {}

    return wait_until(refused, what=lambda: f"{pod} has no quota: {workload_condition(bench, pod, 'QuotaReserved')}")


def workload_condition(bench: IslanderBench, pod: str, kind: str) -> Json:
    """Return a condition of the Workload that Kueue has made for a pod; empty while there is none."""
    for workload in bench.api.items(paths.collection(API, "Workload", bench.namespace)):
        if any(owner["name"] == pod for owner in workload["metadata"].get("ownerReferences", [])):
            return condition_of(workload, kind)
    return {}


def gates(bench: IslanderBench, pod: str) -> list[str]:
    spec = bench.api.get(paths.pod(bench.namespace, pod))["spec"]
    return [gate["name"] for gate in spec.get("schedulingGates", [])]
