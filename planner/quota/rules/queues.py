"""Rules of ClusterQueues and Cohorts.

Source: sigs.k8s.io/kueue v0.17.0, apis/kueue/v1beta2 (schema and CEL rules), pkg/webhooks/clusterqueue_webhook.go,
cohort_webhook.go, common.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import zip_longest

from planner.quota.rules.objects import (
    Json,
    KubeObject,
    Objects,
    RuleViolation,
    cohort_of,
    flavor_names,
    is_label_key,
    is_label_value,
    items,
    mapping,
    numbered,
    parent_of,
    quantity,
    quotas,
    text,
)

_MOST_GROUPS = 16
_MOST_OF_A_GROUP = 64
_MOST_OF_ALL_GROUPS = 256
_MOST_PAIRS = 512
_MOST_CONCURRENT_FLAVORS = 16
_LEAST_WEIGHT = Fraction(1, 10**9)
_LIMITS = ("borrowingLimit", "lendingLimit")
_GROUPS = "spec.resourceGroups"
# Enumerations of the schema; the empty text stands for the default.
_WORDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("queueingStrategy",): ("StrictFIFO", "BestEffortFIFO"),
    ("stopPolicy",): ("None", "Hold", "HoldAndDrain"),
    ("preemption", "reclaimWithinCohort"): ("Never", "LowerPriority", "Any"),
    ("preemption", "withinClusterQueue"): ("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
    ("preemption", "borrowWithinCohort", "policy"): ("Never", "LowerPriority"),
}
# Whether values belong to it.
_OPERATORS = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
_FUNGIBILITY_WORDS = ("MayStopSearch", "TryNextFlavor")
_PREFERENCES = ("BorrowingOverPreemption", "PreemptionOverBorrowing")


def _holders(objects: Objects) -> Iterator[KubeObject]:
    return objects.of_kind("ClusterQueue", "Cohort")


def v2_groups_are_not_too_large(objects: Objects) -> Iterator[RuleViolation]:
    """At most 16 groups of 1..64 resources and 1..64 flavors; 256 flavors, 256 resources, 512 pairs in a group."""
    for found in _holders(objects):
        groups = list(numbered(found.spec.get("resourceGroups"), _GROUPS))
        if len(groups) > _MOST_GROUPS:
            yield found.breaks("V2", _GROUPS, f"{len(groups)} groups; at most {_MOST_GROUPS} are allowed")
        totals: Counter[str] = Counter()
        for group, path in groups:
            for key in ("coveredResources", "flavors"):
                number = len(items(group.get(key)))
                totals[key] += number
                if not 1 <= number <= _MOST_OF_A_GROUP:
                    yield found.breaks("V2", f"{path}.{key}", f"{number} entries; 1 to {_MOST_OF_A_GROUP} are allowed")
            pairs = sum(len(items(mapping(f).get("resources"))) for f in items(group.get("flavors")))
            if pairs > _MOST_PAIRS:
                yield found.breaks("V2", path, f"{pairs} pairs of flavor and resource; at most {_MOST_PAIRS}")
        for key, number in totals.items():
            if number > _MOST_OF_ALL_GROUPS and found.kind == "ClusterQueue":
                yield found.breaks("V2", _GROUPS, f"{number} {key} in all groups; at most {_MOST_OF_ALL_GROUPS}")


def v3_a_resource_or_flavor_is_in_one_group(objects: Objects) -> Iterator[RuleViolation]:
    """No resource is covered twice, and no flavor listed twice, in one group or in two."""
    for found in _holders(objects):
        seen: dict[tuple[str, str], str] = {}
        for group, path in numbered(found.spec.get("resourceGroups"), _GROUPS):
            entries = [
                ("resource", text(name), f"{path}.coveredResources[{index}]")
                for index, name in enumerate(items(group.get("coveredResources")))
            ]
            entries += [
                ("flavor", text(flavor.get("name")), f"{at}.name")
                for flavor, at in numbered(group.get("flavors"), f"{path}.flavors")
            ]
            for what, name, at in entries:
                if (what, name) in seen:
                    yield found.breaks("V3", at, f"{what} {name} is listed before, in {seen[what, name]}")
                seen.setdefault((what, name), at)


def v4_flavors_list_the_covered_resources_in_order(objects: Objects) -> Iterator[RuleViolation]:
    """Every flavor lists every covered resource, in the same order."""
    for found in _holders(objects):
        for group, path in numbered(found.spec.get("resourceGroups"), _GROUPS):
            covered = [text(name) for name in items(group.get("coveredResources"))]
            for flavor, at in numbered(group.get("flavors"), f"{path}.flavors"):
                own = [text(mapping(resource).get("name")) for resource in items(flavor.get("resources"))]
                for index, (wanted, given) in enumerate(zip_longest(covered, own)):
                    if wanted != given:
                        message = f"{given or 'nothing'} stands where coveredResources has {wanted or 'nothing'}"
                        yield found.breaks("V4", f"{at}.resources[{index}].name", message)
                        break


def v5_resources_are_label_keys(objects: Objects) -> Iterator[RuleViolation]:
    """Names of resources are label keys, such as `cpu`, `pods` or `nvidia.com/gpu`."""
    for found in _holders(objects):
        for group, path in numbered(found.spec.get("resourceGroups"), _GROUPS):
            for index, name in enumerate(items(group.get("coveredResources"))):
                if not is_label_key(text(name)):
                    at = f"{path}.coveredResources[{index}]"
                    yield found.breaks("V5", at, f"{str(name)!r:.80} is no name of a resource")


def v6_amounts_are_not_negative(objects: Objects) -> Iterator[RuleViolation]:
    """Nominal quota is there, no amount is negative, and limits stand only where somebody can lend."""
    for found in _holders(objects):
        queue = found.kind == "ClusterQueue"
        lonely = not (cohort_of(found.spec) if queue else parent_of(found.spec))
        for quota in quotas(found.spec):
            if quota.body.get("nominalQuota") is None:
                yield found.breaks("V6", f"{quota.path}.nominalQuota", "is missing")
            for key in ("nominalQuota", *_LIMITS):
                value = quota.body.get(key)
                if value is None:
                    continue
                amount = quantity(value)
                if amount is None or amount < 0:
                    wrong = "is not a quantity" if amount is None else "is negative"
                    yield found.breaks("V6", f"{quota.path}.{key}", f"{value!s:.40} {wrong}")
                if key in _LIMITS and lonely:
                    needed = "cohortName" if queue else "parentName"
                    yield found.breaks("V6", f"{quota.path}.{key}", f"a limit needs {needed}")


def v7_no_more_is_lent_than_there_is(objects: Objects) -> Iterator[RuleViolation]:
    """Lending limits are at most the nominal quota; of a Cohort the webhook does not ask it, and we do."""
    for found in _holders(objects):
        for quota in quotas(found.spec):
            lent, nominal = quota.amount("lendingLimit"), quota.amount("nominalQuota")
            if lent is not None and nominal is not None and lent > nominal:
                message = f"{quota.body['lendingLimit']} is more than the nominal quota {quota.body['nominalQuota']}"
                yield found.breaks("V7", f"{quota.path}.lendingLimit", message)


def v8_what_is_lent_can_be_borrowed(objects: Objects) -> Iterator[RuleViolation]:
    """Queues borrow only what they list, if with quota 0: shared quota that no queue lists is dead.

    Source: site/content/en/docs/concepts/cohort.md of kubernetes-sigs/kueue.
    """
    parents = {cohort.name: parent_of(cohort.spec) for cohort in objects.all_of_kind("Cohort")}
    listed: dict[str, set[tuple[str, str]]] = {}
    for queue in objects.all_of_kind("ClusterQueue"):
        cohort, above = cohort_of(queue.spec), set[str]()
        while cohort and cohort not in above:
            above.add(cohort)
            listed.setdefault(cohort, set()).update((quota.flavor, quota.resource) for quota in quotas(queue.spec))
            cohort = parents.get(cohort, "")
    if objects.complete is not None and "ClusterQueue" not in objects.complete:
        return
    for found in objects.of_kind("Cohort"):
        for quota in quotas(found.spec):
            # Quota of a child is lent upwards too, so the whole tree counts.
            root, seen = found.name, set[str]()
            while parents.get(root) and root not in seen:
                seen.add(root)
                root = parents[root]
            pairs = listed.get(root, set()) | listed.get(found.name, set())
            if quota.amount("nominalQuota") and (quota.flavor, quota.resource) not in pairs:
                message = f"no queue of the cohort lists {quota.resource} of {quota.flavor}, so nobody can use it"
                yield found.breaks("V8", quota.path, message)


def v9_who_never_reclaims_cannot_borrow_by_force(objects: Objects) -> Iterator[RuleViolation]:
    """`reclaimWithinCohort: Never`, the default, excludes a policy of `borrowWithinCohort`; words are those allowed."""
    for found in objects.of_kind("LocalQueue"):
        yield from _words(found, (("stopPolicy",),))
    for found in objects.of_kind("ClusterQueue"):
        yield from _words(found, _WORDS)
        preemption = mapping(found.spec.get("preemption"))
        policy = mapping(preemption.get("borrowWithinCohort")).get("policy") or "Never"
        if (preemption.get("reclaimWithinCohort") or "Never") == "Never" and policy != "Never":
            message = f"reclaimWithinCohort is Never, so borrowWithinCohort cannot be {policy!s:.40}"
            yield found.breaks("V9", "spec.preemption.borrowWithinCohort.policy", message)


def _words(found: KubeObject, fields: Iterable[tuple[str, ...]]) -> Iterator[RuleViolation]:
    for keys in fields:
        value: object = found.spec
        for key in keys:
            value = mapping(value).get(key)
        if value is not None and value not in _WORDS[keys]:
            message = f"{str(value)!r:.40} is not one of {', '.join(_WORDS[keys])}"
            yield found.breaks("V9", ".".join(("spec", *keys)), message)


def v10_fungibility_is_of_this_version(objects: Objects) -> Iterator[RuleViolation]:
    """Preferences need TryNextFlavor in both; `Borrow` and `Preempt` ended with v1beta1."""
    for found in objects.of_kind("ClusterQueue"):
        fungibility = mapping(found.spec.get("flavorFungibility"))
        path = "spec.flavorFungibility"
        old = text(found.body.get("apiVersion")).endswith("/v1beta1")
        for key, defaulted in (("whenCanBorrow", "MayStopSearch"), ("whenCanPreempt", "TryNextFlavor")):
            value = fungibility.get(key) or defaulted
            if value not in _FUNGIBILITY_WORDS and not (old and value in ("Borrow", "Preempt")):
                message = f"{str(value)!r:.40} is not one of {', '.join(_FUNGIBILITY_WORDS)}"
                yield found.breaks("V10", f"{path}.{key}", message)
            elif fungibility.get("preference") is not None and value != "TryNextFlavor":
                yield found.breaks("V10", f"{path}.preference", f"needs {key}: TryNextFlavor")
        if fungibility.get("preference") not in (None, *_PREFERENCES):
            message = f"{str(fungibility['preference'])!r:.40} is not one of {', '.join(_PREFERENCES)}"
            yield found.breaks("V10", f"{path}.preference", message)


def v11_weights_do_not_collapse(objects: Objects) -> Iterator[RuleViolation]:
    """Weights of fair sharing are 0 (always last) or above 1n."""
    for found in objects.of_kind("ClusterQueue", "Cohort", "LocalQueue"):
        value = mapping(found.spec.get("fairSharing")).get("weight")
        if value is None:
            continue
        weight = quantity(value)
        if weight is None or weight < 0 or 0 < weight <= _LEAST_WEIGHT:
            yield found.breaks("V11", "spec.fairSharing.weight", f"{value!s:.40} is neither 0 nor above 1n")


def v14_checks_name_flavors_of_the_queue(objects: Objects) -> Iterator[RuleViolation]:
    """`onFlavors` of an admission check names flavors that the queue lists."""
    for found in objects.of_kind("ClusterQueue"):
        own = flavor_names(found.spec)
        strategy = mapping(found.spec.get("admissionChecksStrategy"))
        path = "spec.admissionChecksStrategy.admissionChecks"
        for rule, at in numbered(strategy.get("admissionChecks"), path):
            for index, flavor in enumerate(items(rule.get("onFlavors"))):
                if flavor not in own:
                    yield found.breaks("V14", f"{at}.onFlavors[{index}]", f"the queue has no flavor {flavor!s:.80}")


def v15_concurrent_admission_is_simple(objects: Objects) -> Iterator[RuleViolation]:
    """Concurrent admission never changes, and wants BestEffortFIFO and one group of at most 16 flavors."""
    for found in objects.of_kind("ClusterQueue"):
        path = "spec.concurrentAdmissionPolicy"
        policy = found.spec.get("concurrentAdmissionPolicy")
        before = found.spec_before
        if before is not None and before.get("concurrentAdmissionPolicy") != policy:
            yield found.breaks("V15", path, "cannot be changed; make a new queue")
        if policy is None:
            continue
        if (found.spec.get("queueingStrategy") or "BestEffortFIFO") != "BestEffortFIFO":
            yield found.breaks("V15", path, "needs queueingStrategy: BestEffortFIFO")
        groups = items(found.spec.get("resourceGroups"))
        if len(groups) != 1:
            yield found.breaks("V15", path, f"needs one resource group, not {len(groups)}")
        if len(flavor_names(found.spec)) > _MOST_CONCURRENT_FLAVORS:
            yield found.breaks("V15", path, f"allows at most {_MOST_CONCURRENT_FLAVORS} flavors")


def v16_namespaces_are_said(objects: Objects) -> Iterator[RuleViolation]:
    """Without namespaceSelector nobody may use the queue, `{}` lets everybody in; else it is a selector of labels."""
    path = "spec.namespaceSelector"
    for found in objects.of_kind("ClusterQueue"):
        selector = found.spec.get("namespaceSelector")
        if selector is None:
            yield found.breaks("V16", path, "is missing, so no namespace may use the queue")
        for key, value in mapping(mapping(selector).get("matchLabels")).items():
            if not is_label_key(text(key)) or not is_label_value(value if isinstance(value, str) else "?"):
                yield found.breaks("V16", f"{path}.matchLabels[{key!s:.80}]", f"{value!r:.80}: this is no label")
        for expression, at in numbered(mapping(selector).get("matchExpressions"), f"{path}.matchExpressions"):
            yield from _expression(found, expression, at)


def _expression(found: KubeObject, expression: Json, path: str) -> Iterator[RuleViolation]:
    key, operator, values = (
        text(expression.get("key")),
        text(expression.get("operator")),
        items(expression.get("values")),
    )
    if not is_label_key(key):
        yield found.breaks("V16", f"{path}.key", f"{key!r:.80} is no label")
    if operator not in _OPERATORS:
        yield found.breaks("V16", f"{path}.operator", f"{operator!s:.40} is not one of {', '.join(_OPERATORS)}")
    elif _OPERATORS[operator] != bool(values):
        message = f"{operator} {'needs values' if _OPERATORS[operator] else 'takes no values'}"
        yield found.breaks("V16", f"{path}.values", message)
    for value in values:
        if not is_label_value(value if isinstance(value, str) else "?"):
            yield found.breaks("V16", f"{path}.values", f"{value!r:.80} is no value of a label")
