"""The files of a plan: v1beta2 objects for `kubectl apply -k`, made from today's with nothing lost but what changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from copy import deepcopy
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import CommentMark
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, ScalarString
from ruamel.yaml.tokens import CommentToken

from islander.cluster.pod import Requirement
from islander.cluster.queues import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    LocalQueue,
    QueueTopology,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from planner.output import yaml_text
from planner.quota.amounts import amount_of, amount_text
from planner.quota.flavors import API_VERSION
from planner.quota.sources import Key
from planner.quota.target import Target

FLAVORS, TOPOLOGIES, COHORTS, QUEUES = "flavors.yaml", "topologies.yaml", "cohorts.yaml", "queues.yaml"
KUSTOMIZATION = "kustomization.yaml"
# What names something comes after it: flavors name topologies, queues name cohorts and flavors.
ORDER = (TOPOLOGIES, FLAVORS, COHORTS, QUEUES)

# What the API server writes into an object, and what nobody applies again.
_NOISE = (
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_FINALIZER = "kueue.x-k8s.io/resource-in-use"
# sigs.k8s.io/kueue, apis/kueue/v1beta1/clusterqueue_conversion.go: other words for the same.
_OLD_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
_LIMITS = (("borrowingLimit", "borrowing_limit"), ("lendingLimit", "lending_limit"))

Map = MutableMapping[str, Any]


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
        body: Map = deepcopy(source)
    elif manifest:
        body = _commented(json.loads(manifest))
    else:
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        body = _commented({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata})
    body["apiVersion"] = API_VERSION
    body.setdefault("kind", kind)
    _without_noise(body)
    return body


def _commented(value: Any) -> Any:
    """Return plain JSON as ruamel holds it, so that all objects are changed in one way."""
    if isinstance(value, Mapping):
        return CommentedMap((key, _commented(part)) for key, part in value.items())
    if isinstance(value, list | tuple):
        return CommentedSeq(_commented(part) for part in value)
    return value


def _without_noise(body: Map) -> None:
    body.pop("status", None)
    metadata = body.get("metadata")
    if not isinstance(metadata, MutableMapping):
        return
    for key in _NOISE:
        metadata.pop(key, None)
    annotations, finalizers = metadata.get("annotations"), metadata.get("finalizers")
    if isinstance(annotations, MutableMapping):
        annotations.pop(_LAST_APPLIED, None)
    if isinstance(finalizers, MutableSequence) and _FINALIZER in finalizers:
        finalizers.remove(_FINALIZER)
    for key in ("annotations", "finalizers"):
        if key in metadata and not metadata[key]:
            metadata.pop(key)


def _spec(body: Map) -> Map:
    if not isinstance(body.get("spec"), MutableMapping):
        body["spec"] = CommentedMap()
    spec: Map = body["spec"]
    return spec


def _topology(topology: QueueTopology, sources: Mapping[Key, CommentedMap]) -> Map:
    body = _base("Topology", "", topology.name, topology.manifest, sources)
    if "spec" not in body:
        body["spec"] = _commented({"levels": [{"nodeLabel": label} for label in topology.levels]})
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
        body["spec"] = _commented(fields)
    return body


def _cohort(cohort: Cohort, sources: Mapping[Key, CommentedMap]) -> Map:
    body = _base("Cohort", "", cohort.name, cohort.manifest, sources)
    spec = _spec(body)
    _renamed(spec, "parent", "parentName")
    if not spec:
        spec.update(_said(parentName=cohort.parent, fairSharing=_said(weight=cohort.fair_weight)))
    if cohort.resource_groups:
        _put_groups(spec, cohort.resource_groups)
    return body


def _local_queue(local: LocalQueue, sources: Mapping[Key, CommentedMap]) -> Map:
    body = _base("LocalQueue", local.namespace, local.name, local.manifest, sources)
    _spec(body).setdefault("clusterQueue", local.cluster_queue)
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
        spec.update(_commented(_queue_fields(queue)))
    if queue.resource_groups:
        _put_groups(spec, queue.resource_groups)
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
    _renamed(spec, "cohort", "cohortName")
    checks = spec.pop("admissionChecks", None)
    if checks and not spec.get("admissionChecksStrategy"):
        spec["admissionChecksStrategy"] = _commented({"admissionChecks": [{"name": name} for name in checks]})
    fungibility = spec.get("flavorFungibility")
    if isinstance(fungibility, MutableMapping):
        for key, value in list(fungibility.items()):
            if isinstance(value, str) and value in _OLD_FUNGIBILITY:
                fungibility[key] = _OLD_FUNGIBILITY[value]


def _renamed(spec: Map, old: str, new: str) -> None:
    """Give a key another name where it stands, with its comments."""
    if old not in spec:
        return
    if new in spec or not isinstance(spec, CommentedMap):
        spec.pop(old)
        return
    place, value, comments = list(spec).index(old), spec[old], spec.ca.items.get(old)
    spec.pop(old)
    spec.insert(place, new, value)
    if comments is not None:
        spec.ca.items[new] = comments


def _selector(requirements: Sequence[Requirement] | None) -> Map:
    if not requirements:
        return CommentedMap()
    found: Map = _commented(
        {"matchExpressions": [{"key": r.key, "operator": r.operator, "values": list(r.values)} for r in requirements]}
    )
    return found


def _put_first(spec: Map, key: str, value: str) -> None:
    if key in spec or not isinstance(spec, CommentedMap):
        spec[key] = value
    else:
        spec.insert(0, key, value)


def _put_groups(spec: Map, groups: Sequence[ResourceGroup]) -> None:
    """Change the amounts of a spec to those of `groups`, and the flavors; nothing else is touched."""
    if not isinstance(spec.get("resourceGroups"), MutableSequence):
        spec["resourceGroups"] = CommentedSeq()
    bodies: MutableSequence[Map] = spec["resourceGroups"]
    for i, group in enumerate(groups):
        if i == len(bodies):
            bodies.append(_commented({"coveredResources": list(group.covered_resources), "flavors": []}))
        _put_flavors(bodies[i], group.flavors)


def _put_flavors(group: Map, flavors: Sequence[FlavorQuotas]) -> None:
    bodies: MutableSequence[Map] = group["flavors"]
    wanted = [quotas.flavor for quotas in flavors]
    for place in reversed(range(len(bodies))):
        if bodies[place].get("name") not in wanted:
            del bodies[place]
    for place, quotas in enumerate(flavors):
        if place == len(bodies) or bodies[place].get("name") != quotas.flavor:
            bodies.insert(place, _commented({"name": quotas.flavor, "resources": []}))
        resources: MutableSequence[Map] = bodies[place]["resources"]
        by_name = {body.get("name"): body for body in resources}
        for quota in quotas.resources:
            if quota.resource not in by_name:
                by_name[quota.resource] = CommentedMap(name=quota.resource)
                resources.append(by_name[quota.resource])
            _put_quota(by_name[quota.resource], quota)


def _put_quota(body: Map, quota: Quota) -> None:
    _put_amount(body, "nominalQuota", quota.resource, quota.nominal)
    for key, attribute in _LIMITS:
        limit: int | None = getattr(quota, attribute)
        if limit is not None:
            _put_amount(body, key, quota.resource, limit)
        elif key in body:
            body.pop(key)


def _put_amount(body: Map, key: str, resource: str, amount: int) -> None:
    """Write an amount where it differs from what is there, in the manner of what is there."""
    old = body.get(key)
    if old is not None and amount_of(resource, old) == amount:
        return
    text = amount_text(resource, amount)
    if isinstance(old, int) and text.isdecimal():
        body[key] = int(text)
    elif isinstance(old, ScalarString):
        body[key] = type(old)(text)
    elif old is None:
        _append(body, key, _scalar(text))
    else:
        body[key] = _scalar(text)


def _scalar(text: str) -> str:
    """Return a quantity as YAML should write it: in quotes where it would be read as a number."""
    return DoubleQuotedScalarString(text) if text.isdecimal() else text


def _append(body: Map, key: str, value: object) -> None:
    """Put a key at the end of a map, before comment lines that stand below the map."""
    last = list(body)[-1] if body else None
    body[key] = value
    if not isinstance(body, CommentedMap) or last not in body.ca.items:
        return
    token = body.ca.items[last][2]
    if not isinstance(token, CommentToken):
        return
    first, line_end, below = token.value.partition("\n")
    if below.strip():
        token.value = first + line_end
        body.ca.items[key] = [None, None, CommentToken(f"\n{below}", start_mark=CommentMark(0)), None]
        if not first.strip():
            del body.ca.items[last]
