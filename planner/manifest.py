"""A pod that a manifest describes but nobody has applied yet: a Pod, or the pod template of a workload."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from islander.cluster.pod import Pod
from islander.kube.parse import MalformedObject, parse_pod
from planner.errors import PlannerError


def pod_of_manifest(file: str, namespace: str) -> Pod:
    """Return the pod of a manifest (YAML or JSON, `-` is stdin); `namespace` is for objects that name none.

    Raises
    ------
    PlannerError
        The file cannot be read, or does not describe exactly one pod.
    """
    pods = [pod for document in _documents(file) for pod in _pods_in(document, namespace)]
    if len(pods) != 1:
        described = ", ".join(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods) or "none"
        raise PlannerError(f"{file}: must describe one pod (a Pod, or a workload with a pod template), has {described}")
    try:
        return parse_pod(msgspec.json.encode(pods[0]))
    except MalformedObject as problem:
        raise PlannerError(f"{file}: {problem}") from problem


def _documents(file: str) -> list[Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as problem:
        raise PlannerError(f"{file}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise PlannerError(f"{file}: not UTF-8") from problem
    try:
        return list(YAML(typ="safe", pure=True).load_all(text))
    except MarkedYAMLError as problem:
        line = f" line {problem.problem_mark.line + 1}:" if problem.problem_mark else ""
        raise PlannerError(f"{file}:{line} not valid YAML: {problem.problem or problem.context}") from problem
    except YAMLError as problem:
        raise PlannerError(f"{file}: not valid YAML: {problem}") from problem


def _pods_in(document: object, namespace: str) -> Iterator[dict[str, Any]]:
    if not isinstance(document, Mapping):
        return
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        for item in items:
            yield from _pods_in(item, namespace)
        return
    metadata = _mapping(document, "metadata")
    spec = _mapping(document, "spec")
    name = {"name": metadata.get("name") or metadata.get("generateName") or "pod"}
    where = {"namespace": metadata.get("namespace") or namespace}
    if document.get("kind") == "Pod":
        yield {**document, "metadata": {**metadata, **name, **where}}
        return
    template = _template(spec)
    if template:
        labels = _mapping(template, "metadata")
        yield {"apiVersion": "v1", "kind": "Pod", "spec": template.get("spec"), "metadata": {**labels, **name, **where}}


def _template(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pod template of a Deployment, StatefulSet, Job, CronJob or LeaderWorkerSet (its workers')."""
    job = _mapping(_mapping(spec, "jobTemplate"), "spec")
    group = _mapping(_mapping(spec, "leaderWorkerTemplate"), "workerTemplate")
    return _mapping(spec, "template") or _mapping(job, "template") or group


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}
