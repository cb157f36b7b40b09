"""Builders of API objects, as JSON that kube-apiserver accepts."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
IMAGE = "vllm/vllm-openai:v0.11.0"

# Kwok's own annotations; the stages of kwok.yaml read them.
READY_DELAY = "pod-ready.stage.kwok.x-k8s.io/delay"
DELETE_DELAY = "pod-delete.stage.kwok.x-k8s.io/delay"
MANUAL_CONDITIONS = "testbench.islander.dev/conditions"


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Json:
    """Return a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": _metadata(name, labels=labels)}


def gpu_node(
    name: str,
    gpus: int = 8,
    *,
    product: str = "NVIDIA-H100-80GB-HBM3",
    gpu_memory_mib: int = 81559,
    machine: str = "",
    clique: str = "",
    cpu: str = "192",
    memory: str = "2Ti",
    allocatable: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    ready: bool = True,
) -> Json:
    """Return a Node with the labels that GPU feature discovery gives it.

    Parameters
    ----------
    allocatable, capacity
        Added to, or overriding, what the other parameters say; capacity follows allocatable unless it is given.
    labels
        Added; an empty value takes a label away (`{"nvidia.com/gpu.product": ""}`).
    ready
        False keeps the node from ever becoming Ready.
    """
    noted = dict(annotations or {}) | ({} if ready else {MANUAL_CONDITIONS: "manual"})
    conditions = [] if ready else [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
    discovered = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.memory": str(gpu_memory_mib),
        "nvidia.com/gpu.machine": machine,
        "nvidia.com/gpu.clique": clique,
    }
    own = {"cpu": cpu, "memory": memory, "pods": "110", GPU: str(gpus)} | dict(allocatable or {})
    spec: Json = {"taints": [dict(taint) for taint in taints]} if taints else {}
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(
            name,
            labels={key: value for key, value in (discovered | dict(labels or {})).items() if value},
            annotations=noted,
        ),
        "spec": spec,
        "status": {
            "conditions": conditions,
            "allocatable": own,
            "capacity": own | dict(capacity or {}),
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        },
    }


def plain_node(name: str, *, cpu: str = "64", memory: str = "256Gi") -> Json:
    """Return a Node without GPUs and without a word about them."""
    node = gpu_node(name, 0, cpu=cpu, memory=memory)
    node["metadata"]["labels"] = {"kubernetes.io/hostname": name}
    for amounts in (node["status"]["allocatable"], node["status"]["capacity"]):
        del amounts[GPU]
    return node


def gpu_pod(
    name: str,
    gpus: int = 1,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a Pod with one vLLM container that asks for GPUs; `spec` goes to `pod_spec`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, namespace, labels, annotations),
        "spec": pod_spec(gpus, **spec),
    }


def pod_spec(
    gpus: int = 1,
    *,
    args: Sequence[str] = (),
    resource: str = GPU,
    requests: Mapping[str, str] | None = None,
    containers: Sequence[Mapping[str, Any]] | None = None,
    node_name: str = "",
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Mapping[str, str]] = (),
    scheduler_name: str = "",
    priority_class: str = "",
    grace_seconds: int | None = None,
    **spec: Any,
) -> Json:
    """Return the spec of a vLLM pod, for pods and pod templates.

    Parameters
    ----------
    args
        Arguments of vLLM, such as `("--tensor-parallel-size=2",)`.
    resource
        What the GPUs are called; a MIG profile is `nvidia.com/mig-1g.10gb`.
    requests
        More resources, requested and limited.
    containers
        Take the place of the one container.
    node_name
        Binds the pod past the scheduler.
    spec
        More fields, in the API's names (`resourceClaims=[...]`).
    """
    amounts = dict(requests or {}) | ({resource: str(gpus)} if gpus else {})
    vllm = {
        "name": "vllm",
        "image": IMAGE,
        "args": list(args),
        "resources": {"requests": amounts, "limits": amounts},
    }
    fields: Json = {
        "containers": [dict(container) for container in containers or [vllm]],
        "nodeName": node_name,
        "nodeSelector": dict(node_selector or {}),
        "tolerations": [dict(toleration) for toleration in tolerations],
        "schedulerName": scheduler_name,
        "priorityClassName": priority_class,
        "terminationGracePeriodSeconds": grace_seconds,
    }
    return {key: value for key, value in fields.items() if value not in ("", {}, [], None)} | spec


def deployment(
    name: str,
    replicas: int = 1,
    gpus: int = 1,
    *,
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    pod_annotations: Mapping[str, str] | None = None,
    strategy: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """Return a Deployment whose pods carry the label `app: <name>`; `spec` goes to `pod_spec`."""
    labels = {"app": name}
    body: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": dict(pod_annotations or {})},
            "spec": pod_spec(gpus, **spec),
        },
    }
    if strategy:
        body["strategy"] = dict(strategy)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name, namespace, labels, annotations),
        "spec": body,
    }


def pod_disruption_budget(
    name: str,
    match_labels: Mapping[str, str],
    *,
    namespace: str = "default",
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
) -> Json:
    """Return a PodDisruptionBudget; give one of the two limits."""
    spec: Json = {"selector": {"matchLabels": dict(match_labels)}}
    if min_available is not None:
        spec["minAvailable"] = min_available
    if max_unavailable is not None:
        spec["maxUnavailable"] = max_unavailable
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(name, namespace),
        "spec": spec,
    }


def priority_class(name: str, value: int, *, preempts: bool = True) -> Json:
    """Return a PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": _metadata(name),
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority" if preempts else "Never",
    }


def service_account(name: str, *, namespace: str = "default") -> Json:
    """Return a ServiceAccount."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(name, namespace)}


def cluster_role(name: str, rules: Sequence[Mapping[str, Sequence[str]]]) -> Json:
    """Return a ClusterRole; a rule is `{"apiGroups": [...], "resources": [...], "verbs": [...]}`."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": _metadata(name),
        "rules": [{key: list(values) for key, values in rule.items()} for rule in rules],
    }


def cluster_role_binding(name: str, role: str, namespace: str, service_account: str) -> Json:
    """Return a ClusterRoleBinding that gives a ClusterRole to one service account."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": service_account}],
    }


def _metadata(
    name: str,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    fields: Json = {
        "name": name,
        "namespace": namespace,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    return {key: value for key, value in fields.items() if value}
