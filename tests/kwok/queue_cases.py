"""Objects of Kueue that break one rule each, and sound ones just inside the rule, with the answer of the real API.

`V..` are the rules of `planner.quota.validation`. A refusal comes from a schema with its CEL rules (422) or from a
webhook (403).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.kwok.controlplane.objects import GPU, Json
from tests.kwok.controlplane.queues import cluster_queue, cohort, group, local_queue, quota, resource_flavor, topology

SCHEMA, WEBHOOK, ACCEPTED = 422, 403, 201

_HOSTNAME = "kubernetes.io/hostname"
_CLIQUE = "nvidia.com/gpu.clique"
_LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@dataclass(frozen=True, slots=True)
class QueueCase:
    """One object and what the API says to it.

    Attributes
    ----------
    code
        HTTP status of creating it.
    text
        Part of the API's message; empty when it is accepted.
    """

    name: str
    rule: str
    obj: Json
    code: int
    text: str = ""


def _queue(*groups: Json, name: str = "serving", **spec: Any) -> Json:
    return cluster_queue(name, *(groups or (group({"h100": [quota(8)]}),)), **spec)


def _gpu(item: Mapping[str, Any]) -> Json:
    return group({"h100": [dict(item)]})


def _numbered(stem: str, count: int) -> list[str]:
    return [f"{stem}-{number:03}" for number in range(count)]


def _many(resources: int, flavors: int, stem: str = "") -> Json:
    """Return a group of that many resources in that many flavors."""
    quotas = [quota(1, resource=f"example.com/{name}") for name in _numbered(f"{stem}r", resources)]
    return group(dict.fromkeys(_numbered(f"{stem}f", flavors), quotas))


def _flavor(**spec: Any) -> Json:
    return resource_flavor("h100", _LABELS, **spec)


def _taint(key: str = "gpu", effect: str = "NoSchedule") -> Json:
    return {"key": key, "value": "true", "effect": effect}


QUEUE_CASES = (
    # Names.
    QueueCase("a queue with a capital letter", "V1", _queue(name="Serving"), SCHEMA, "lowercase RFC 1123 subdomain"),
    QueueCase("a queue with a long name", "V1", _queue(name="q" * 254), SCHEMA, "must be no more than 253"),
    QueueCase("a queue with the longest name", "V1", _queue(name="q" * 253), ACCEPTED),
    QueueCase("a cohort with an underscore", "V1", _queue(cohort="gpu_h100"), SCHEMA, "spec.cohortName"),
    QueueCase("a flavor with an underscore", "V1", _queue(group({"h100_sxm": [quota(8)]})), SCHEMA, "flavors[0].name"),
    QueueCase("a parent with an underscore", "V1", cohort("team", parent="all_gpus"), SCHEMA, "spec.parentName"),
    # Sizes.
    QueueCase("16 groups", "V2", _queue(*(_many(1, 1, stem) for stem in _numbered("g", 16))), ACCEPTED),
    QueueCase("17 groups", "V2", _queue(*(_many(1, 1, stem) for stem in _numbered("g", 17))), SCHEMA, "at most 16"),
    QueueCase("a group without resources", "V2", _queue(group({"h100": []})), SCHEMA, "at least 1 items"),
    QueueCase(
        "a group without flavors", "V2", _queue({"coveredResources": [GPU], "flavors": []}), SCHEMA, "at least 1 items"
    ),
    QueueCase("64 resources in a group", "V2", _queue(_many(64, 1)), ACCEPTED),
    QueueCase("65 resources in a group", "V2", _queue(_many(65, 1)), SCHEMA, "at most 64"),
    QueueCase("64 flavors in a group", "V2", _queue(_many(1, 64)), ACCEPTED),
    QueueCase("65 flavors in a group", "V2", _queue(_many(1, 65)), SCHEMA, "at most 64"),
    QueueCase("256 flavors", "V2", _queue(*(_many(1, 64, stem) for stem in "abcd")), ACCEPTED),
    QueueCase(
        "257 flavors",
        "V2",
        _queue(*(_many(1, 64, stem) for stem in "abcd"), _many(1, 1, "e")),
        WEBHOOK,
        "total number of flavors",
    ),
    QueueCase(
        "257 resources",
        "V2",
        _queue(*(_many(64, 1, stem) for stem in "abcd"), _many(1, 1, "e")),
        WEBHOOK,
        "total number of covered resources",
    ),
    QueueCase("512 pairs in a group", "V2", _queue(_many(8, 64)), ACCEPTED),
    QueueCase("513 pairs in a group", "V2", _queue(_many(9, 57)), WEBHOOK, "flavor-resource combinations"),
    # One place for a resource, one for a flavor.
    QueueCase(
        "a resource in two groups", "V3", _queue(_gpu(quota(8)), group({"a100": [quota(8)]})), WEBHOOK, "Duplicate"
    ),
    QueueCase(
        "a flavor in two groups",
        "V3",
        _queue(_gpu(quota(8)), group({"h100": [quota(8, resource="cpu")]})),
        WEBHOOK,
        "Duplicate",
    ),
    QueueCase(
        "resources in another order",
        "V4",
        _queue(group({"h100": [quota(8), quota(64, resource="cpu")]}, covered=["cpu", GPU])),
        WEBHOOK,
        "must match the name in coveredResources",
    ),
    QueueCase(
        "a flavor without one of the resources",
        "V4",
        _queue(group({"h100": [quota(64, resource="cpu"), quota(8)], "a100": [quota(64, resource="cpu")]})),
        SCHEMA,
        "same number of resources",
    ),
    QueueCase(
        "a resource with two slashes",
        "V5",
        _queue(_gpu(quota(8, resource="nvidia.com/gpu/0"))),
        WEBHOOK,
        "coveredResources",
    ),
    QueueCase("a MIG profile", "V5", _queue(_gpu(quota(7, resource="nvidia.com/mig-1g.10gb.me"))), ACCEPTED),
    QueueCase("pods", "V5", _queue(_gpu(quota(7, resource="pods"))), ACCEPTED),
    # Amounts and limits.
    QueueCase("a negative nominal quota", "V6", _queue(_gpu(quota(-1))), WEBHOOK, "greater than or equal to 0"),
    QueueCase("nominal quota 0", "V6", _queue(_gpu(quota(0))), ACCEPTED),
    QueueCase(
        "a negative borrowing limit",
        "V6",
        _queue(_gpu(quota(8, borrow=-4)), cohort="all"),
        WEBHOOK,
        "greater than or equal",
    ),
    QueueCase(
        "a negative lending limit",
        "V6",
        _queue(_gpu(quota(8, lend=-4)), cohort="all"),
        WEBHOOK,
        "greater than or equal",
    ),
    QueueCase(
        "a borrowing limit without a cohort",
        "V6",
        _queue(_gpu(quota(8, borrow=4))),
        SCHEMA,
        "must be nil when cohort is empty",
    ),
    QueueCase(
        "a lending limit without a cohort",
        "V6",
        _queue(_gpu(quota(8, lend=4))),
        WEBHOOK,
        "must be nil when cohort is empty",
    ),
    QueueCase(
        "a cohort's borrowing limit without a parent",
        "V6",
        cohort("all", _gpu(quota(8, borrow=4))),
        WEBHOOK,
        "must be nil when parent is empty",
    ),
    QueueCase(
        "a cohort's lending limit without a parent",
        "V6",
        cohort("all", _gpu(quota(8, lend=4))),
        WEBHOOK,
        "must be nil when parent is empty",
    ),
    QueueCase("both limits within a cohort", "V6", _queue(_gpu(quota(8, borrow=4, lend=8)), cohort="all"), ACCEPTED),
    QueueCase(
        "a lending limit above nominal",
        "V7",
        _queue(_gpu(quota(8, lend=9)), cohort="all"),
        WEBHOOK,
        "must be less than or equal to the nominalQuota",
    ),
    # Preemption and sharing.
    QueueCase(
        "borrowing by preemption without reclaim",
        "V9",
        _queue(preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}),
        SCHEMA,
        "reclaimWithinCohort=Never",
    ),
    QueueCase(
        "borrowing by preemption with reclaim",
        "V9",
        _queue(preemption={"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}),
        ACCEPTED,
    ),
    QueueCase(
        "a preference between flavors that are not both tried",
        "V10",
        _queue(flavorFungibility={"whenCanBorrow": "MayStopSearch", "preference": "BorrowingOverPreemption"}),
        SCHEMA,
        "preference can only be set",
    ),
    QueueCase(
        "a preference between flavors that are both tried",
        "V10",
        _queue(
            flavorFungibility={
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "TryNextFlavor",
                "preference": "BorrowingOverPreemption",
            }
        ),
        ACCEPTED,
    ),
    QueueCase(
        "a word of v1beta1", "V10", _queue(flavorFungibility={"whenCanBorrow": "Borrow"}), SCHEMA, "Unsupported value"
    ),
    QueueCase("a negative weight", "V11", _queue(fairSharing={"weight": "-1"}), WEBHOOK, "greater than or equal to 0"),
    QueueCase("a vanishing weight", "V11", _queue(fairSharing={"weight": "1n"}), WEBHOOK, "weight must be >"),
    QueueCase("weight 0", "V11", _queue(fairSharing={"weight": "0"}), ACCEPTED),
    QueueCase(
        "a cohort's negative weight",
        "V11",
        cohort("all", fairSharing={"weight": "-1"}),
        WEBHOOK,
        "greater than or equal",
    ),
    # Flavors and topologies.
    QueueCase(
        "a topology without a label", "V12", resource_flavor("h100", topologyName="t"), SCHEMA, "at least one nodeLabel"
    ),
    QueueCase("a topology with a label", "V12", _flavor(topologyName="t"), ACCEPTED),
    QueueCase(
        "nine labels", "V12", resource_flavor("h100", dict.fromkeys(_numbered("l", 9), "x")), SCHEMA, "at most 8"
    ),
    QueueCase("a label with a bad value", "V12", resource_flavor("h100", {"gpu": "a b"}), WEBHOOK, "nodeLabels"),
    QueueCase(
        "an effect that does not exist", "V12", _flavor(nodeTaints=[_taint(effect="Never")]), SCHEMA, "taint effect"
    ),
    QueueCase("a taint twice", "V12", _flavor(nodeTaints=[_taint(), _taint()]), WEBHOOK, "unique by key and effect"),
    QueueCase("a key with two effects", "V12", _flavor(nodeTaints=[_taint(), _taint(effect="NoExecute")]), ACCEPTED),
    QueueCase(
        "Exists with a value",
        "V12",
        _flavor(tolerations=[{"key": "gpu", "operator": "Exists", "value": "true"}]),
        SCHEMA,
        "value must be empty",
    ),
    QueueCase(
        "no key and a value",
        "V12",
        _flavor(tolerations=[{"operator": "Equal", "value": "true"}]),
        SCHEMA,
        "must be Exists",
    ),
    QueueCase(
        "seconds for an effect that does not evict",
        "V12",
        _flavor(tolerations=[{"key": "gpu", "effect": "NoSchedule", "tolerationSeconds": 60}]),
        SCHEMA,
        "must be 'NoExecute'",
    ),
    QueueCase("a toleration for everything", "V12", _flavor(tolerations=[{"operator": "Exists"}]), ACCEPTED),
    QueueCase("a level twice", "V13", topology("t", _CLIQUE, _CLIQUE), SCHEMA, "must be unique"),
    QueueCase("the host above the clique", "V13", topology("t", _HOSTNAME, _CLIQUE), SCHEMA, "lowest level"),
    QueueCase("the clique above the host", "V13", topology("t", _CLIQUE, _HOSTNAME), ACCEPTED),
    QueueCase("no level", "V13", topology("t"), SCHEMA, "at least 1 items"),
    QueueCase("17 levels", "V13", topology("t", *_numbered("level", 17)), SCHEMA, "at most 16"),
    # Queues of namespaces.
    QueueCase(
        "a door to a bad name",
        "V1",
        local_queue("serving", "Serving", namespace="default"),
        SCHEMA,
        "spec.clusterQueue",
    ),
)
