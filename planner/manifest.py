"""A pod that a manifest describes but nobody has applied yet: a Pod, or the pod template of a workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from islander.cluster.pod import Pod
from islander.kube.parse import MalformedObject, parse_pod
from planner.documents import Document, read_documents
from planner.errors import PlannerError


def pod_of_manifest(file: str, namespace: str) -> Pod:
    """Return the pod of a manifest (YAML or JSON, `-` is stdin); `namespace` is for objects that name none.

    Raises
    ------
    PlannerError
        The file cannot be read, or does not describe exactly one pod.
    """
    pods = [pod for document in read_documents(file) for pod in _pods_in(document, namespace)]
    if len(pods) != 1:
        described = ", ".join(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods) or "none"
        raise PlannerError(f"{file}: must describe one pod (a Pod, or a workload with a pod template), has {described}")
    try:
        return parse_pod(msgspec.json.encode(pods[0]))
    except MalformedObject as problem:
        raise PlannerError(f"{file}: {problem}") from problem


def _pods_in(document: Document, namespace: str) -> Iterator[dict[str, Any]]:
    manifest = msgspec.json.decode(document.raw) if document.raw is not None else None
    if not isinstance(manifest, Mapping):
        return
    metadata = _mapping(manifest, "metadata")
    own = {
        "name": metadata.get("name") or metadata.get("generateName") or "pod",
        "namespace": metadata.get("namespace") or namespace,
    }
    if (manifest.get("kind") or document.kind) == "Pod":
        yield {**manifest, "metadata": {**metadata, **own}}
    elif template := _template(_mapping(manifest, "spec")):
        labels = _mapping(template, "metadata")
        yield {"apiVersion": "v1", "kind": "Pod", "spec": template.get("spec"), "metadata": {**labels, **own}}


def _template(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pod template of a Deployment, StatefulSet, Job, CronJob or LeaderWorkerSet (its workers')."""
    job = _mapping(_mapping(spec, "jobTemplate"), "spec")
    group = _mapping(_mapping(spec, "leaderWorkerTemplate"), "workerTemplate")
    return _mapping(spec, "template") or _mapping(job, "template") or group


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}
