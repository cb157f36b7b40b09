"""The files of a plan: v1beta2 objects for `kubectl apply -k`, made from today's with nothing lost but what changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, Sequence
from copy import deepcopy
from typing import Any

from ruamel.yaml.comments import CommentedMap

from islander.cluster.pod import Requirement
from islander.cluster.queues import ClusterQueue, Cohort, LocalQueue, QueueTopology, ResourceFlavor
from islander.kube.manifest import drop_server_fields
from planner.output import clear_text, yaml_text
from planner.quota.flavors import API_VERSION
from planner.quota.sources import Key
from planner.quota.target import Target
from planner.quota.yaml_edits import Map, commented, put_groups, renamed, unshared

FLAVORS, TOPOLOGIES, COHORTS, QUEUES = "flavors.yaml", "topologies.yaml", "cohorts.yaml", "queues.yaml"
KUSTOMIZATION = "kustomization.yaml"
# What names something comes after it: flavors name topologies, queues name cohorts and flavors.
ORDER = (TOPOLOGIES, FLAVORS, COHORTS, QUEUES)
# sigs.k8s.io/kueue, apis/kueue/v1beta1/clusterqueue_conversion.go: other words for the same.
_OLD_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def files_of(target: Target, sources: Mapping[Key, CommentedMap]) -> dict[str, str]:
    """Return the text of each file by its name; a file without objects is left out.

    Parameters
    ----------
    sources
        Objects as YAML files write them; others are made from what the snapshot keeps of them.
    """
    objects: dict[str, list[Map]] = {
        TOPOLOGIES: [_topology(topology, sources) for topology in target.topologies],
        FLAVORS: [_flavor(flavor, sources) for flavor in target.flavors],
        COHORTS: [_cohort(cohort, sources) for cohort in target.cohorts],
        QUEUES: [_queue(queue, sources) for queue in target.queues]
        + [_local_queue(local, sources) for local in target.local_queues],
    }
    files = {name: "---\n".join(yaml_text(body) for body in objects[name]) for name in ORDER if objects[name]}
    if not files:
        return {}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
    }
    return {**files, KUSTOMIZATION: yaml_text(kustomization)}


def _base(kind: str, namespace: str, name: str, manifest: str, sources: Mapping[Key, CommentedMap]) -> Map:
    """Return an object to change: as its file writes it, as the snapshot keeps it, or new."""
    source = sources.get((kind, namespace, name))
    if source is not None:
        body: Map = unshared(deepcopy(source))
    elif manifest:
        body = commented(json.loads(manifest))
    else:
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        body = commented({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata})
    body["apiVersion"] = API_VERSION
    body.setdefault("kind", kind)
    drop_server_fields(body)
    return body


def _spec(body: Map) -> Map:
    if not isinstance(body.get("spec"), MutableMapping):
        body["spec"] = CommentedMap()
    spec: Map = body["spec"]
    return spec


def _topology(topology: QueueTopology, sources: Mapping[Key, CommentedMap]) -> Map:
    body = _base("Topology", "", topology.name, topology.manifest, sources)
    if "spec" not in body:
        body["spec"] = commented({"levels": [{"nodeLabel": label} for label in topology.levels]})
    return body


def _flavor(flavor: ResourceFlavor, sources: Mapping[Key, CommentedMap]) -> Map:
    body = _base("ResourceFlavor", "", flavor.name, flavor.manifest, sources)
    if "spec" not in body:
        fields = _said(
            nodeLabels=dict(flavor.node_labels),
            nodeTaints=[_said(key=t.key, value=t.value, effect=t.effect) for t in flavor.node_taints],
            tolerations=[
                _said(key=t.key, operator=t.operator, value=t.value, effect=t.effect) for t in flavor.tolerations
            ],
            topologyName=flavor.topology,
        )
        body["spec"] = commented(fields)
    return body


def _cohort(cohort: Cohort, sources: Mapping[Key, CommentedMap]) -> Map:
    body = _base("Cohort", "", cohort.name, cohort.manifest, sources)
    spec = _spec(body)
    renamed(spec, "parent", "parentName")
    if not spec:
        spec.update(commented(_said(parentName=cohort.parent, fairSharing=_said(weight=cohort.fair_weight))))
    if cohort.resource_groups:
        put_groups(spec, cohort.resource_groups)
    return body


def _local_queue(local: LocalQueue, sources: Mapping[Key, CommentedMap]) -> Map:
    body = _base("LocalQueue", local.namespace, local.name, local.manifest, sources)
    _spec(body).setdefault("clusterQueue", clear_text(local.cluster_queue))
    return body


def _queue(queue: ClusterQueue, sources: Mapping[Key, CommentedMap]) -> Map:
    known = ("ClusterQueue", "", queue.name) in sources or bool(queue.manifest)
    body = _base("ClusterQueue", "", queue.name, queue.manifest, sources)
    spec = _spec(body)
    _to_v1beta2(spec)
    if queue.cohort and spec.get("cohortName") != queue.cohort:
        _put_first(spec, "cohortName", queue.cohort)
    if spec.get("namespaceSelector") is None:
        spec["namespaceSelector"] = _selector(queue.namespace_selector)
    if not known:
        spec.update(commented(_queue_fields(queue)))
    if queue.resource_groups:
        put_groups(spec, queue.resource_groups)
    return body


def _queue_fields(queue: ClusterQueue) -> dict[str, Any]:
    """Return what a queue says beside its quotas, where no object says it."""
    borrow = queue.preemption.borrow_within_cohort
    checks = [
        {"name": name, "onFlavors": list(flavors)} if flavors else {"name": name}
        for name, flavors in queue.admission_checks
    ]
    return _said(
        queueingStrategy=queue.queueing_strategy,
        preemption=_said(
            reclaimWithinCohort=queue.preemption.reclaim_within_cohort,
            borrowWithinCohort=_said(policy=borrow),
            withinClusterQueue=queue.preemption.within_cluster_queue,
        ),
        flavorFungibility=_said(
            whenCanBorrow=queue.fungibility.when_can_borrow,
            whenCanPreempt=queue.fungibility.when_can_preempt,
            preference=queue.fungibility.preference,
        ),
        fairSharing=_said(weight=queue.fair_weight),
        admissionChecksStrategy=_said(admissionChecks=checks),
        stopPolicy=queue.stop_policy,
    )


def _said(**fields: Any) -> dict[str, Any]:
    """Return the fields that say something."""
    return {key: value for key, value in fields.items() if value}


def _to_v1beta2(spec: Map) -> None:
    """Change what v1beta1 says in other words (apis/kueue/v1beta1/clusterqueue_conversion.go of Kueue)."""
    renamed(spec, "cohort", "cohortName")
    checks = spec.pop("admissionChecks", None)
    if checks and not spec.get("admissionChecksStrategy"):
        spec["admissionChecksStrategy"] = commented({"admissionChecks": [{"name": name} for name in checks]})
    fungibility = spec.get("flavorFungibility")
    if isinstance(fungibility, MutableMapping):
        for key, value in list(fungibility.items()):
            if isinstance(value, str) and value in _OLD_FUNGIBILITY:
                fungibility[key] = _OLD_FUNGIBILITY[value]


def _selector(requirements: Sequence[Requirement] | None) -> Map:
    if not requirements:
        return CommentedMap()
    found: Map = commented(
        {"matchExpressions": [{"key": r.key, "operator": r.operator, "values": list(r.values)} for r in requirements]}
    )
    return found


def _put_first(spec: Map, key: str, value: str) -> None:
    if key in spec or not isinstance(spec, CommentedMap):
        spec[key] = clear_text(value)
    else:
        spec.insert(0, key, clear_text(value))
