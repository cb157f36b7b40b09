"""Every rule accepts what Kueue accepts, and names object and field of what it does not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from islander.kube.parse import parse_object
from planner.quota.validation import RULES, manifests_of, violations
from tests.builders import a_snapshot

Json = dict[str, Any]
VERSION = "kueue.x-k8s.io/v1beta2"


def quota(name: str, nominal: str, **limits: str) -> Json:
    return {"name": name, "nominalQuota": nominal, **limits}


def valid() -> dict[str, Json]:
    """A tree that Kueue takes: two queues below one of two cohorts, with a topology."""
    resources = [
        quota("cpu", "96", lendingLimit="32"),
        quota("memory", "960Gi"),
        quota("nvidia.com/gpu", "12", borrowingLimit="0", lendingLimit="4"),
    ]
    shared = [quota("cpu", "0"), quota("memory", "0"), quota("nvidia.com/gpu", "4")]
    covered = ["cpu", "memory", "nvidia.com/gpu"]
    pods = {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}},
        "spec": {"containers": [{"name": "vllm", "resources": {"requests": {"nvidia.com/gpu": "4"}}}]},
    }
    managed = {"namespace": "chat", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    return {
        "topology": {
            "apiVersion": VERSION,
            "kind": "Topology",
            "metadata": {"name": "racks"},
            "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
        },
        "flavor": {
            "apiVersion": VERSION,
            "kind": "ResourceFlavor",
            "metadata": {"name": "h100"},
            "spec": {
                "nodeLabels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
                "nodeTaints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "topologyName": "racks",
            },
        },
        "root": {"apiVersion": VERSION, "kind": "Cohort", "metadata": {"name": "gpu"}},
        "cohort": {
            "apiVersion": VERSION,
            "kind": "Cohort",
            "metadata": {"name": "serving"},
            "spec": {
                "parentName": "gpu",
                "fairSharing": {"weight": "2"},
                "resourceGroups": [
                    {"coveredResources": covered, "flavors": [{"name": "h100", "resources": shared}]},
                ],
            },
        },
        "queue": {
            "apiVersion": VERSION,
            "kind": "ClusterQueue",
            "metadata": {"name": "chat"},
            "spec": {
                "cohortName": "serving",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "chat"}},
                "queueingStrategy": "BestEffortFIFO",
                "stopPolicy": "None",
                "preemption": {
                    "reclaimWithinCohort": "Any",
                    "borrowWithinCohort": {"policy": "Never"},
                    "withinClusterQueue": "Never",
                },
                "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
                "admissionChecksStrategy": {"admissionChecks": [{"name": "dws", "onFlavors": ["h100"]}]},
                "resourceGroups": [
                    {"coveredResources": covered, "flavors": [{"name": "h100", "resources": resources}]},
                ],
            },
        },
        "check": {"apiVersion": VERSION, "kind": "AdmissionCheck", "metadata": {"name": "dws"}},
        "local": {
            "apiVersion": VERSION,
            "kind": "LocalQueue",
            "metadata": {"name": "lq", "namespace": "chat"},
            "spec": {"clusterQueue": "chat"},
        },
        "set": {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "llm", **managed},
            "spec": {"replicas": 2, "template": pods},
        },
        "groups": {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "big-llm", **managed},
            "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pods}},
        },
    }


Change = Callable[[dict[str, Json]], object]


def broken(change: Change, *, with_before: bool = False) -> list[tuple[str, str, str]]:
    tree = valid()
    change(tree)
    context = valid().values() if with_before else ()
    return [(found.rule, found.object, found.field) for found in violations(tree.values(), context)]


def group(tree: dict[str, Json], holder: str = "queue") -> Json:
    found: Json = tree[holder]["spec"]["resourceGroups"][0]
    return found


def flavor(tree: dict[str, Json], holder: str = "queue") -> Json:
    found: Json = group(tree, holder)["flavors"][0]
    return found


def gpu(tree: dict[str, Json], holder: str = "queue") -> Json:
    found: Json = flavor(tree, holder)["resources"][2]
    return found


def spec(tree: dict[str, Json], name: str = "queue") -> Json:
    found: Json = tree[name]["spec"]
    return found


def annotations(tree: dict[str, Json], name: str = "set") -> Json:
    found: Json = spec(tree, name)["template"]["metadata"]["annotations"]
    return found


def test_a_tree_that_kueue_takes_breaks_no_rule() -> None:
    assert violations(valid().values()) == ()
    assert violations(valid().values(), valid().values()) == ()


def test_there_are_nineteen_rules() -> None:
    assert list(RULES) == [f"V{number}" for number in range(1, 20)]


QUEUE, COHORT, FLAVOR = "ClusterQueue/chat", "Cohort/serving", "ResourceFlavor/h100"
TOPOLOGY, LOCAL = "Topology/racks", "LocalQueue/chat/lq"
SET, GROUPS = "StatefulSet/chat/llm", "LeaderWorkerSet/chat/big-llm"
RESOURCES = "spec.resourceGroups[0].flavors[0].resources"
PODS = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-"
LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"

CASES: list[tuple[Change, str, str, str]] = [
    (lambda t: t["root"]["metadata"].update(name="GPU_Pool"), "V1", "Cohort/GPU_Pool", "metadata.name"),
    (lambda t: spec(t).update(cohortName="a b"), "V1", QUEUE, "spec.cohortName"),
    (lambda t: spec(t, "cohort").update(parentName="x" * 254), "V1", COHORT, "spec.parentName"),
    (lambda t: t["topology"]["metadata"].pop("name"), "V1", "Topology/(no name)", "metadata.name"),
    (lambda t: group(t).update(flavors=[]), "V2", QUEUE, "spec.resourceGroups[0].flavors"),
    (lambda t: spec(t).update(resourceGroups=[group(t)] * 17), "V2", QUEUE, "spec.resourceGroups"),
    (lambda t: group(t).update(coveredResources=["r"] * 65), "V2", QUEUE, "spec.resourceGroups[0].coveredResources"),
    (
        lambda t: group(t).update(flavors=[{"name": f"f{i}", "resources": [{}] * 9} for i in range(60)]),
        "V2",
        QUEUE,
        "spec.resourceGroups[0]",
    ),
    (
        lambda t: spec(t).update(
            resourceGroups=[{"coveredResources": [f"r{g}-{i}" for i in range(64)], "flavors": [{}]} for g in range(5)]
        ),
        "V2",
        QUEUE,
        "spec.resourceGroups",
    ),
    (lambda t: group(t)["flavors"].append(flavor(t)), "V3", QUEUE, "spec.resourceGroups[0].flavors[1].name"),
    (
        lambda t: spec(t)["resourceGroups"].append({"coveredResources": ["cpu"], "flavors": [{"name": "x"}]}),
        "V3",
        QUEUE,
        "spec.resourceGroups[1].coveredResources[0]",
    ),
    (lambda t: flavor(t)["resources"].reverse(), "V4", QUEUE, f"{RESOURCES}[0].name"),
    (lambda t: flavor(t)["resources"].pop(), "V4", QUEUE, f"{RESOURCES}[2].name"),
    (lambda t: flavor(t, "cohort")["resources"].append(quota("pods", "1")), "V4", COHORT, f"{RESOURCES}[3].name"),
    (
        lambda t: group(t)["coveredResources"].append("nvidia.com/gpu/x y"),
        "V5",
        QUEUE,
        "spec.resourceGroups[0].coveredResources[3]",
    ),
    (lambda t: gpu(t).update(nominalQuota="-1"), "V6", QUEUE, f"{RESOURCES}[2].nominalQuota"),
    (lambda t: gpu(t).update(nominalQuota="many"), "V6", QUEUE, f"{RESOURCES}[2].nominalQuota"),
    (lambda t: gpu(t).pop("nominalQuota"), "V6", QUEUE, f"{RESOURCES}[2].nominalQuota"),
    (lambda t: gpu(t, "cohort").update(borrowingLimit="-4"), "V6", COHORT, f"{RESOURCES}[2].borrowingLimit"),
    (lambda t: spec(t).pop("cohortName"), "V6", QUEUE, f"{RESOURCES}[2].borrowingLimit"),
    (
        lambda t: (spec(t, "cohort").pop("parentName"), gpu(t, "cohort").update(lendingLimit="1")),
        "V6",
        COHORT,
        f"{RESOURCES}[2].lendingLimit",
    ),
    (lambda t: gpu(t).update(lendingLimit="13"), "V7", QUEUE, f"{RESOURCES}[2].lendingLimit"),
    (lambda t: gpu(t, "cohort").update(lendingLimit="5"), "V7", COHORT, f"{RESOURCES}[2].lendingLimit"),
    (lambda t: spec(t).update(cohortName="elsewhere"), "V8", COHORT, f"{RESOURCES}[2]"),
    (
        lambda t: spec(t).update(
            preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}
        ),
        "V9",
        QUEUE,
        "spec.preemption.borrowWithinCohort.policy",
    ),
    (
        lambda t: spec(t).update(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
        "V9",
        QUEUE,
        "spec.preemption.borrowWithinCohort.policy",
    ),
    (lambda t: spec(t).update(queueingStrategy="Fifo"), "V9", QUEUE, "spec.queueingStrategy"),
    (
        lambda t: spec(t).update(flavorFungibility={"whenCanBorrow": "Borrow"}),
        "V10",
        QUEUE,
        "spec.flavorFungibility.whenCanBorrow",
    ),
    (
        lambda t: spec(t)["flavorFungibility"].update(preference="PreemptionOverBorrowing"),
        "V10",
        QUEUE,
        "spec.flavorFungibility.preference",
    ),
    (
        lambda t: spec(t).update(flavorFungibility={"whenCanBorrow": "TryNextFlavor", "preference": "Whatever"}),
        "V10",
        QUEUE,
        "spec.flavorFungibility.preference",
    ),
    (lambda t: spec(t, "cohort").update(fairSharing={"weight": "-1"}), "V11", COHORT, "spec.fairSharing.weight"),
    (lambda t: spec(t, "cohort").update(fairSharing={"weight": "1n"}), "V11", COHORT, "spec.fairSharing.weight"),
    (lambda t: spec(t, "flavor").pop("nodeLabels"), "V12", FLAVOR, "spec.topologyName"),
    (lambda t: spec(t, "flavor").update(nodeLabels={"a b": ""}), "V12", FLAVOR, "spec.nodeLabels[a b]"),
    (
        lambda t: spec(t, "flavor").update(nodeLabels={f"k{i}": "" for i in range(9)}),
        "V12",
        FLAVOR,
        "spec.nodeLabels",
    ),
    (
        lambda t: spec(t, "flavor")["nodeTaints"].append({"key": "gpu", "effect": "NoSchedule"}),
        "V12",
        FLAVOR,
        "spec.nodeTaints[1]",
    ),
    (lambda t: spec(t, "flavor")["nodeTaints"][0].update(effect="Never"), "V12", FLAVOR, "spec.nodeTaints[0].effect"),
    (lambda t: spec(t, "flavor")["tolerations"][0].update(value="x"), "V12", FLAVOR, "spec.tolerations[0].value"),
    (
        lambda t: spec(t, "flavor").update(tolerations=[{"effect": "NoSchedule"}]),
        "V12",
        FLAVOR,
        "spec.tolerations[0].operator",
    ),
    (
        lambda t: spec(t, "flavor")["tolerations"][0].update(tolerationSeconds=5),
        "V12",
        FLAVOR,
        "spec.tolerations[0].tolerationSeconds",
    ),
    (lambda t: spec(t, "topology").update(levels=[]), "V13", TOPOLOGY, "spec.levels"),
    (lambda t: spec(t, "topology")["levels"].reverse(), "V13", TOPOLOGY, "spec.levels"),
    (lambda t: spec(t, "topology").update(levels=[{"nodeLabel": "rack"}] * 2), "V13", TOPOLOGY, "spec.levels"),
    (
        lambda t: spec(t)["admissionChecksStrategy"]["admissionChecks"][0].update(onFlavors=["b200"]),
        "V14",
        QUEUE,
        "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]",
    ),
    (
        lambda t: spec(t).update(concurrentAdmissionPolicy={}, queueingStrategy="StrictFIFO"),
        "V15",
        QUEUE,
        "spec.concurrentAdmissionPolicy",
    ),
    (lambda t: spec(t).pop("namespaceSelector"), "V16", QUEUE, "spec.namespaceSelector"),
    (
        lambda t: spec(t).update(namespaceSelector={"matchLabels": {"a b": "c"}}),
        "V16",
        QUEUE,
        "spec.namespaceSelector.matchLabels[a b]",
    ),
    *(
        (
            lambda t, expression=expression: spec(t).update(namespaceSelector={"matchExpressions": [expression]}),
            "V16",
            QUEUE,
            f"spec.namespaceSelector.matchExpressions[0].{field}",
        )
        for field, expression in (
            ("key", {"key": "-a", "operator": "Exists"}),
            ("operator", {"key": "a", "operator": "Like", "values": ["b"]}),
            ("values", {"key": "a", "operator": "In"}),
            ("values", {"key": "a", "operator": "Exists", "values": ["b"]}),
            ("values", {"key": "a", "operator": "NotIn", "values": ["b c"]}),
        )
    ),
    (lambda t: spec(t, "local").update(stopPolicy="Stop"), "V9", LOCAL, "spec.stopPolicy"),
    (
        lambda t: spec(t, "flavor").update(tolerations=[{"key": "a/b/c", "operator": "Exists"}]),
        "V12",
        FLAVOR,
        "spec.tolerations[0].key",
    ),
    (
        lambda t: spec(t, "flavor").update(tolerations=[{"key": "a", "operator": "Exists", "value": ""}]),
        "V12",
        FLAVOR,
        "spec.tolerations[0].value",
    ),
    (lambda t: t.pop("flavor"), "V17", QUEUE, "spec.resourceGroups[0].flavors[0].name"),
    (lambda t: t.pop("topology"), "V17", FLAVOR, "spec.topologyName"),
    (lambda t: t.pop("queue"), "V17", LOCAL, "spec.clusterQueue"),
    (lambda t: t.pop("check"), "V17", QUEUE, "spec.admissionChecksStrategy.admissionChecks[0].name"),
    (lambda t: t["root"].update(spec={"parentName": "serving"}), "V17", "Cohort/gpu", "spec.parentName"),
    (
        lambda t: t["groups"]["metadata"].update(name="l" * 40),
        "V18",
        f"LeaderWorkerSet/chat/{'l' * 40}",
        "metadata.name",
    ),
    (
        lambda t: annotations(t).update({"kueue.x-k8s.io/podset-preferred-topology": "rack"}),
        "V19",
        SET,
        f"{PODS}preferred-topology]",
    ),
    (
        lambda t: annotations(t).update({"kueue.x-k8s.io/podset-slice-size": "2"}),
        "V19",
        SET,
        f"{PODS}slice-size]",
    ),
    (
        lambda t: annotations(t).update({"kueue.x-k8s.io/podset-slice-required-topology": "rack"}),
        "V19",
        SET,
        f"{PODS}slice-required-topology]",
    ),
    (
        lambda t: annotations(t).update({"kueue.x-k8s.io/podset-group-name": "7"}),
        "V19",
        SET,
        f"{PODS}group-name]",
    ),
    *(
        (
            lambda t, text=text: annotations(t).update({LAYERS: text}),
            "V19",
            SET,
            f"spec.template.metadata.annotations[{LAYERS}]",
        )
        for text in (
            "{",
            "[]",
            '[{"topology": "a", "size": 4}, {"topology": "b", "size": 3}]',
            '[{"topology": "a", "size": 4}, {"topology": "a", "size": 2}]',
            '[{"topology": "a", "size": 0}]',
        )
    ),
]


@pytest.mark.parametrize(("change", "rule", "called", "path"), CASES)
def test_what_breaks_a_rule_is_named_with_object_and_field(change: Change, rule: str, called: str, path: str) -> None:
    assert (rule, called, path) in broken(change)


def test_every_rule_has_a_case_that_fails() -> None:
    assert {rule for _, rule, _, _ in CASES} == set(RULES)


UPDATES: list[tuple[Change, str, str, str]] = [
    (lambda t: spec(t, "flavor").update(nodeLabels={"pool": "b"}), "V12", FLAVOR, "spec.nodeLabels"),
    (lambda t: spec(t, "flavor").pop("topologyName"), "V12", FLAVOR, "spec.topologyName"),
    (lambda t: spec(t, "topology")["levels"].pop(0), "V13", TOPOLOGY, "spec.levels"),
    (lambda t: spec(t).update(concurrentAdmissionPolicy={}), "V15", QUEUE, "spec.concurrentAdmissionPolicy"),
    (
        lambda t: (
            spec(t, "local").update(clusterQueue="other"),
            t.update(other={**t["queue"], "metadata": {"name": "other"}}),
        ),
        "V17",
        LOCAL,
        "spec.clusterQueue",
    ),
    (lambda t: spec(t, "set").update(replicas=3), "V18", SET, "spec.replicas"),
    (
        lambda t: spec(t, "groups")["leaderWorkerTemplate"].update(size=4),
        "V18",
        GROUPS,
        "spec.leaderWorkerTemplate.size",
    ),
    (
        lambda t: spec(t, "set")["template"]["spec"]["containers"][0]["resources"]["requests"].update(cpu="2"),
        "V18",
        SET,
        "spec.template.spec",
    ),
]


@pytest.mark.parametrize(("change", "rule", "called", "path"), UPDATES)
def test_what_cannot_be_changed_is_compared_with_the_cluster(change: Change, rule: str, called: str, path: str) -> None:
    assert (rule, called, path) in broken(change, with_before=True)
    assert (rule, called, path) not in broken(change)


@pytest.mark.parametrize("replicas", [0, 2])
def test_a_queued_stateful_set_may_go_to_zero(replicas: int) -> None:
    """V18."""
    assert broken(lambda t: spec(t, "set").update(replicas=replicas), with_before=True) == []


def test_a_set_that_no_queue_manages_may_change() -> None:
    """V18."""
    assert (
        broken(lambda t: (t["set"]["metadata"].pop("labels"), spec(t, "set").update(replicas=5)), with_before=True)
        == []
    )


def test_an_empty_selector_and_weight_zero_are_allowed() -> None:
    """V11 and V16."""
    assert broken(lambda t: (spec(t).update(namespaceSelector={}), spec(t).update(fairSharing={"weight": 0}))) == []


def test_words_of_v1beta1_are_allowed_in_v1beta1_only() -> None:
    """V10."""

    def change(tree: dict[str, Json]) -> None:
        spec(tree).update(flavorFungibility={"whenCanBorrow": "Borrow"}, cohort=spec(tree).pop("cohortName"))
        tree["queue"]["apiVersion"] = "kueue.x-k8s.io/v1beta1"

    assert broken(change) == []


def test_layers_that_divide_each_other_are_allowed() -> None:
    """V19."""
    layers = json.dumps([{"topology": "block", "size": 8}, {"topology": "rack", "size": 4}])
    assert broken(lambda t: annotations(t).update({LAYERS: layers})) == []


def test_names_of_kinds_that_nobody_looked_at_may_exist() -> None:
    """V17."""
    documents = [valid()[name] for name in ("queue", "local")]
    looked_at = {"ClusterQueue", "LocalQueue"}
    assert violations(documents, complete=looked_at) == ()
    missing = violations(documents, complete=looked_at | {"ResourceFlavor"})
    assert [(found.rule, found.field) for found in missing] == [("V17", "spec.resourceGroups[0].flavors[0].name")]


def test_shared_quota_may_be_used_from_anywhere_in_the_tree() -> None:
    """V8: a cohort lends upwards, so a queue of a sibling can use what it shares."""

    def change(tree: dict[str, Json]) -> None:
        spec(tree).update(cohortName="batch")
        tree["batch"] = {"apiVersion": VERSION, "kind": "Cohort", "metadata": {"name": "batch"}}
        tree["batch"]["spec"] = {"parentName": "gpu"}

    assert broken(change) == []


def test_the_manifests_of_a_snapshot_are_judged_like_files() -> None:
    tree = valid()
    spec(tree).pop("namespaceSelector")
    used = [tree[name] for name in ("topology", "flavor", "root", "cohort", "queue", "local")]
    snapshot = a_snapshot(*(parse_object(json.dumps(obj).encode()) for obj in used))
    found = violations((*manifests_of(snapshot), tree["check"]))
    assert [(violation.rule, violation.object) for violation in found] == [("V16", QUEUE)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.data())
def test_no_object_however_odd_stops_the_rules(data: st.DataObject) -> None:
    tree = copy.deepcopy(valid())
    for _ in range(data.draw(st.integers(1, 4))):
        here: Any = tree[data.draw(st.sampled_from(sorted(tree)))]
        while isinstance(here, dict | list) and here:
            key = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
            if data.draw(st.booleans()) or not isinstance(here[key], dict | list):
                here[key] = data.draw(JSON)
                break
            here = here[key]
    for found in violations(tree.values(), valid().values()):
        assert found.rule in RULES
        assert found.message
