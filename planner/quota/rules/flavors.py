"""Rules of names, ResourceFlavors, Topologies, and of what all of them point at.

Source: sigs.k8s.io/kueue v0.17.0, apis/kueue/v1beta2/resourceflavor_types.go and topology_types.go (CEL rules),
pkg/webhooks/resourceflavor_webhook.go; clusterqueue_types.go for the reasons of an inactive queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from islander.cluster.names import HOSTNAME
from planner.quota.rules.objects import (
    KubeObject,
    Objects,
    RuleViolation,
    cohort_of,
    is_label_key,
    is_label_value,
    is_subdomain,
    mapping,
    numbered,
    parent_of,
    text,
)

_KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Topology")
_MOST_OF_A_FLAVOR = 8
_MOST_LEVELS = 16
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def v1_names_are_subdomains(objects: Objects) -> Iterator[RuleViolation]:
    """Names, and the names that objects point at, are subdomains of RFC 1123 of at most 253 characters."""
    for found in objects.of_kind(*_KINDS):
        for path, name in _named_in(found):
            if not is_subdomain(name):
                message = f"{name!r:.80} is no name: lower case letters, digits, - and . only, at most 253"
                yield found.breaks("V1", path, message)


def v12_flavors_are_well_formed(objects: Objects) -> Iterator[RuleViolation]:
    """Labels, taints and tolerations of a flavor are ones of Kubernetes; a topology needs labels and stays."""
    for found in objects.of_kind("ResourceFlavor"):
        yield from _labels(found)
        yield from _taints(found)
        yield from _tolerations(found)
        topology, before = found.spec.get("topologyName"), found.spec_before or {}
        if topology is not None and not mapping(found.spec.get("nodeLabels")):
            yield found.breaks("V12", "spec.topologyName", "needs at least one node label")
        if before.get("topologyName") is not None:
            for key in ("topologyName", "nodeLabels", "tolerations"):
                if (found.spec.get(key) or None) != (before.get(key) or None):
                    yield found.breaks("V12", f"spec.{key}", "cannot be changed once the flavor has a topology")


def v13_topologies_are_well_formed(objects: Objects) -> Iterator[RuleViolation]:
    """Topologies have 1..16 different labels, the hostname only as the last, and never change (before 0.20)."""
    for found in objects.of_kind("Topology"):
        path = "spec.levels"
        levels = [text(level.get("nodeLabel")) for level, _ in numbered(found.spec.get("levels"), path)]
        if not 1 <= len(levels) <= _MOST_LEVELS:
            yield found.breaks("V13", path, f"{len(levels)} levels; 1 to {_MOST_LEVELS} are allowed")
        for label, times in Counter(levels).items():
            if times > 1:
                yield found.breaks("V13", path, f"{label!r:.80} is listed {times} times")
            if not is_label_key(label):
                yield found.breaks("V13", path, f"{label!r:.80} is no label")
        if HOSTNAME in levels[:-1]:
            yield found.breaks("V13", path, f"{HOSTNAME} can only be the last level")
        before = found.spec_before
        if before is not None and before.get("levels") != found.spec.get("levels"):
            yield found.breaks("V13", path, "cannot be changed; make a new topology")


def v17_what_is_named_is_there(objects: Objects) -> Iterator[RuleViolation]:
    """Flavors, topologies, checks and queues that are named exist, no cohort is its own ancestor, no queue moves.

    The API accepts the first two, and the queue stays inactive (FlavorNotFound, TopologyNotFound); a cycle switches
    every queue of it off.
    """
    for found in objects.of_kind(*_KINDS):
        for kind, path, name in _references(found):
            if objects.is_missing(kind, name):
                yield found.breaks("V17", path, f"there is no {kind} {name:.80}")
    for found in objects.of_kind("LocalQueue"):
        before = found.spec_before
        if before is not None and before.get("clusterQueue") != found.spec.get("clusterQueue"):
            yield found.breaks("V17", "spec.clusterQueue", "cannot be changed; make a new LocalQueue")
    parents = {cohort.name: parent_of(cohort.spec) for cohort in objects.all_of_kind("Cohort")}
    for found in objects.of_kind("Cohort"):
        line = [found.name]
        while (parent := parents.get(line[-1], "")) and parent not in line:
            line.append(parent)
        if parent == found.name:
            yield found.breaks("V17", "spec.parentName", f"a circle of cohorts: {' -> '.join([*line, parent])}")


def _references(found: KubeObject) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, path, name) of what an object needs to be there; cohorts need not exist."""
    if found.kind in ("ClusterQueue", "Cohort"):
        for group, path in numbered(found.spec.get("resourceGroups"), "spec.resourceGroups"):
            for flavor, at in numbered(group.get("flavors"), f"{path}.flavors"):
                yield "ResourceFlavor", f"{at}.name", text(flavor.get("name"))
    if found.kind == "ClusterQueue":
        strategy = mapping(found.spec.get("admissionChecksStrategy"))
        path = "spec.admissionChecksStrategy.admissionChecks"
        for rule, at in numbered(strategy.get("admissionChecks"), path):
            yield "AdmissionCheck", f"{at}.name", text(rule.get("name"))
    if found.kind == "LocalQueue":
        yield "ClusterQueue", "spec.clusterQueue", text(found.spec.get("clusterQueue"))
    if found.kind == "ResourceFlavor" and found.spec.get("topologyName") is not None:
        yield "Topology", "spec.topologyName", text(found.spec.get("topologyName"))


def _named_in(found: KubeObject) -> Iterator[tuple[str, str]]:
    """Yield (path, name) of the object's own name and of every name in it."""
    yield "metadata.name", found.name
    for _, path, name in _references(found):
        yield path, name
    if found.kind == "ClusterQueue" and (cohort := cohort_of(found.spec)):
        yield "spec.cohortName", cohort
    if found.kind == "Cohort" and (parent := parent_of(found.spec)):
        yield "spec.parentName", parent


def _labels(found: KubeObject) -> Iterator[RuleViolation]:
    labels = mapping(found.spec.get("nodeLabels"))
    if len(labels) > _MOST_OF_A_FLAVOR:
        yield found.breaks("V12", "spec.nodeLabels", f"{len(labels)} labels; at most {_MOST_OF_A_FLAVOR} are allowed")
    for key, value in labels.items():
        if not is_label_key(text(key)) or not is_label_value(value if isinstance(value, str) else "?"):
            yield found.breaks("V12", f"spec.nodeLabels[{key!s:.80}]", f"{value!r:.80}: this is no label")


def _taints(found: KubeObject) -> Iterator[RuleViolation]:
    taints = list(numbered(found.spec.get("nodeTaints"), "spec.nodeTaints"))
    if len(taints) > _MOST_OF_A_FLAVOR:
        yield found.breaks("V12", "spec.nodeTaints", f"{len(taints)} taints; at most {_MOST_OF_A_FLAVOR} are allowed")
    seen = set()
    for taint, path in taints:
        key, effect = text(taint.get("key")), text(taint.get("effect"))
        if not is_label_key(key) or not is_label_value(text(taint.get("value"))):
            yield found.breaks("V12", path, f"{key!r:.80}: key or value is none of a taint")
        if effect not in _EFFECTS:
            yield found.breaks("V12", f"{path}.effect", f"{effect!r:.40} is not one of {', '.join(_EFFECTS)}")
        if (key, effect) in seen:
            yield found.breaks("V12", path, f"{key}:{effect} is listed before")
        seen.add((key, effect))


def _tolerations(found: KubeObject) -> Iterator[RuleViolation]:
    tolerations = list(numbered(found.spec.get("tolerations"), "spec.tolerations"))
    if len(tolerations) > _MOST_OF_A_FLAVOR:
        message = f"{len(tolerations)} tolerations; at most {_MOST_OF_A_FLAVOR} are allowed"
        yield found.breaks("V12", "spec.tolerations", message)
    for toleration, path in tolerations:
        operator = toleration.get("operator") or "Equal"
        effect = toleration.get("effect")
        if (key := text(toleration.get("key"))) and not is_label_key(key):
            yield found.breaks("V12", f"{path}.key", f"{key!r:.80} is no label")
        if operator not in ("Equal", "Exists"):
            yield found.breaks("V12", f"{path}.operator", f"{str(operator)!r:.40} is not one of Equal, Exists")
        if not toleration.get("key") and operator != "Exists":
            yield found.breaks("V12", f"{path}.operator", "must be Exists without a key")
        if operator == "Exists" and toleration.get("value") is not None:
            yield found.breaks("V12", f"{path}.value", "must be left out with Exists")
        if effect and effect not in _EFFECTS:
            yield found.breaks("V12", f"{path}.effect", f"{str(effect)!r:.40} is not one of {', '.join(_EFFECTS)}")
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield found.breaks("V12", f"{path}.tolerationSeconds", "needs effect: NoExecute")
