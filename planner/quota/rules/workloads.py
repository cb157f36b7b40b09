"""Rules of what is queued: StatefulSets and LeaderWorkerSets under Kueue, and the topology that pods ask for.

Source: sigs.k8s.io/kueue v0.17.0, pkg/controller/jobs/statefulset and leaderworkerset (webhooks),
pkg/controller/jobframework/tas_validation.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from islander.cluster.names import KUEUE_QUEUE
from planner.quota.rules.objects import Json, KubeObject, Objects, RuleViolation, is_label_key, items, mapping, text

# A group's Workload is named after the set; longer names do not fit into it by default.
_LONGEST_GROUP_NAME = 39
_MOST_LAYERS = 3
_PREFIX = "kueue.x-k8s.io/podset-"
_ONE_OF = tuple(f"{_PREFIX}{kind}-topology" for kind in ("required", "preferred", "unconstrained"))
_SLICE_TOPOLOGY = f"{_PREFIX}slice-required-topology"
_SLICE_SIZE = f"{_PREFIX}slice-size"
_LAYERS = f"{_PREFIX}slice-required-topology-constraints"
_GROUP = f"{_PREFIX}group-name"
_BOOLEANS = ("1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False")
# What of a pod's spec quota was reserved for.
_SHAPE = ("nodeSelector", "tolerations", "runtimeClassName", "priority", "topologySpreadConstraints", "overhead",
          "resourceClaims")  # fmt: skip


def v18_managed_sets_keep_their_shape(objects: Objects) -> Iterator[RuleViolation]:
    """Under Kueue a StatefulSet goes from and to 0 replicas only, and pods of a set keep what they ask for."""
    for found in objects.of_kind("StatefulSet", "LeaderWorkerSet"):
        if not mapping(found.metadata.get("labels")).get(KUEUE_QUEUE):
            continue
        if found.kind == "LeaderWorkerSet" and len(found.name) > _LONGEST_GROUP_NAME:
            message = f"{len(found.name)} characters; at most {_LONGEST_GROUP_NAME} fit into the name of a Workload"
            yield found.breaks("V18", "metadata.name", message)
        before = found.spec_before
        if before is None:
            continue
        if found.kind == "StatefulSet":
            old, new = (1 if spec.get("replicas") is None else spec["replicas"] for spec in (before, found.spec))
            if old != new and old != 0 and new != 0:
                message = f"{old} to {new}: the replicas of a queued StatefulSet go to or from 0 only"
                yield found.breaks("V18", "spec.replicas", message)
        else:
            sizes = [mapping(spec.get("leaderWorkerTemplate")).get("size", 1) for spec in (before, found.spec)]
            if sizes[0] != sizes[1]:
                message = f"{sizes[0]} to {sizes[1]}: the size of queued groups cannot be changed"
                yield found.breaks("V18", "spec.leaderWorkerTemplate.size", message)
        templates_before = dict(_templates(KubeObject({"kind": found.kind, "spec": before})))
        for path, template in _templates(found):
            if path in templates_before and _shape(template) != _shape(templates_before[path]):
                yield found.breaks("V18", f"{path}.spec", "what pods ask for cannot be changed while they are queued")


def v19_topology_annotations_agree(objects: Objects) -> Iterator[RuleViolation]:
    """Annotations that ask for a topology do not contradict each other, and name labels and sizes."""
    for found in objects.judged:
        for path, template in _templates(found):
            annotations = mapping(mapping(template.get("metadata")).get("annotations"))
            for key, message in _contradictions(annotations):
                yield found.breaks("V19", f"{path}.metadata.annotations[{key}]".lstrip("."), message)


def _contradictions(annotations: Json) -> Iterator[tuple[str, str]]:
    """Yield (annotation, what is wrong with it)."""
    given = [key for key in _ONE_OF if key in annotations]
    if len(given) > 1:
        yield given[1], f"stands beside {given[0]}; only one of them is allowed"
    for key in (*_ONE_OF[:2], _SLICE_TOPOLOGY):
        if key in annotations and not is_label_key(text(annotations[key])):
            yield key, f"{annotations[key]!r:.80} is no label"
    if annotations.get(_ONE_OF[2], "true") not in _BOOLEANS:
        yield _ONE_OF[2], f"{annotations[_ONE_OF[2]]!r:.40} is neither true nor false"
    if _SLICE_TOPOLOGY in annotations and _SLICE_SIZE not in annotations:
        yield _SLICE_TOPOLOGY, f"needs {_SLICE_SIZE}"
    if _SLICE_SIZE in annotations:
        size = text(annotations[_SLICE_SIZE])
        if not (size.isascii() and size.isdigit() and int(size) >= 1):
            yield _SLICE_SIZE, f"{size!r:.40} is not a size of at least 1"
        if _SLICE_TOPOLOGY not in annotations:
            yield _SLICE_SIZE, f"needs {_SLICE_TOPOLOGY}"
    if _GROUP in annotations:
        yield from _wrong_group(annotations)
    if _LAYERS in annotations:
        yield from _wrong_layers(annotations)


def _wrong_group(annotations: Json) -> Iterator[tuple[str, str]]:
    if text(annotations[_GROUP]).isdigit():
        yield _GROUP, "must not be a number"
    for key in (_SLICE_TOPOLOGY, _SLICE_SIZE, _LAYERS):
        if key in annotations:
            yield _GROUP, f"excludes {key}"
    if not any(key in annotations for key in _ONE_OF[:2]):
        yield _GROUP, f"needs {_ONE_OF[0]} or {_ONE_OF[1]}"


def _wrong_layers(annotations: Json) -> Iterator[tuple[str, str]]:
    for key in (_SLICE_TOPOLOGY, _SLICE_SIZE):
        if key in annotations:
            yield _LAYERS, f"excludes {key}"
    try:
        found: Any = json.loads(text(annotations[_LAYERS]))
    except (ValueError, RecursionError):
        yield _LAYERS, "is not JSON"
        return
    layers = [mapping(layer) for layer in items(found)]
    if not 1 <= len(layers) <= _MOST_LAYERS:
        yield _LAYERS, f"has {len(layers)} layers; 1 to {_MOST_LAYERS} are allowed"
    sizes = [layer["size"] if type(layer.get("size")) is int else 0 for layer in layers]
    labels = [text(layer.get("topology")) for layer in layers]
    if min(sizes, default=1) < 1:
        yield _LAYERS, "a size is not a number of at least 1"
    elif any(outer % inner for outer, inner in pairwise(sizes)):
        yield _LAYERS, f"sizes {', '.join(map(str, sizes))}: each must divide the one before"
    if len(set(labels)) < len(labels) or not all(map(is_label_key, labels)):
        yield _LAYERS, "its topologies are not different labels"


def _templates(found: KubeObject) -> Iterator[tuple[str, Json]]:
    """Yield (path, pod template) of an object; the path of a Pod is empty."""
    if found.kind == "Pod":
        yield "", found.body
    paths: Mapping[str, Sequence[tuple[str, ...]]] = {
        "LeaderWorkerSet": (("leaderWorkerTemplate", "leaderTemplate"), ("leaderWorkerTemplate", "workerTemplate")),
    }
    for keys in paths.get(found.kind, (("template",),)):
        template: object = found.spec
        for key in keys:
            template = mapping(template).get(key)
        if isinstance(template, Mapping):
            yield ".".join(("spec", *keys)), template


def _shape(template: Json) -> Any:
    """Return what of a pod template quota was reserved for."""
    spec = mapping(template.get("spec"))
    containers = [
        [mapping(mapping(container).get("resources")).get("requests") for container in items(spec.get(key))]
        for key in ("initContainers", "containers")
    ]
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return [containers, required, *(spec.get(key) for key in _SHAPE)]
