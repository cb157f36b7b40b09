"""The files of a plan: v1beta2, in an order that can be applied, with comments and unknown fields of today."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from islander.policy.settings import PolicySettings
from planner.load import load_files
from planner.output import yaml_text
from planner.quota.amounts import amount_of, amount_text
from planner.quota.options import QuotaOptions
from planner.quota.plan import QuotaPlan
from planner.quota.planning import plan_quota
from planner.quota.policy_file import parse_policy
from planner.quota.sources import yaml_sources
from tests.builders import a_cluster_queue, a_flavor, a_node, a_snapshot, node_object, quotas

NOW = datetime(2026, 1, 1, tzinfo=UTC)

FLAVOR = """\
# The only pool.
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: h100, uid: abc, resourceVersion: "12"}
spec:
  nodeLabels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}   # by product
"""
QUEUE = """\
# The chat service; call the platform team.
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: chat
  uid: abc
  managedFields: [{manager: kubectl}]
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    team: chat # who
spec:
  cohort: serving # shared
  namespaceSelector: {}
  futureField: {keep: me}
  admissionChecks: [slots]
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: Preempt}
  resourceGroups:
  # GPUs and what comes with them
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: h100
      resources:
      - {name: cpu, nominalQuota: 50}
      - name: memory
        nominalQuota: "500Gi"
      - name: nvidia.com/gpu
        nominalQuota: 10 # agreed in May
        # more below
status: {pendingWorkloads: 1}
"""
LAB = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: lab}
spec:
  cohort: serving
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: h100
      resources:
      - {name: cpu, nominalQuota: 1k}
      - {name: memory, nominalQuota: 9Ti}
      - {name: nvidia.com/gpu, nominalQuota: "10"}
"""
POLICY = """\
teams:
- {name: chat, shape: {gpus: 4}, baselineReplicas: 2, maxReplicas: 2, weight: 2}
- {name: lab, shape: {gpus: 1}}
"""


def nodes() -> str:
    return "---\n".join(yaml.safe_dump(node_object(name)) for name in "ab")


def as_list(*texts: str) -> str:
    """What `kubectl get -o yaml` prints, comments included."""
    lines = ["apiVersion: v1", "items:"]
    for text in texts:
        comments = [line for line in text.splitlines() if line.startswith("#")]
        body = [line for line in text.splitlines() if not line.startswith("#")]
        lines += [*comments, *(f"{'- ' if i == 0 else '  '}{line}" for i, line in enumerate(body))]
    return "\n".join([*lines, "kind: List", ""])


@pytest.fixture
def plan(tmp_path):
    """Plans for nodes and objects that stand in a file as given."""

    def of(text: str, name: str = "cluster.yaml", policy: str = POLICY) -> QuotaPlan:
        file = tmp_path / name
        file.write_text(text)
        snapshot = load_files([str(file)])
        options = QuotaOptions(parse_policy(policy, "p.yaml"))
        return plan_quota(snapshot, PolicySettings(), options, NOW, None, yaml_sources([str(file)]))

    return of


def documents(plan: QuotaPlan, file: str) -> dict[str, Any]:
    return {body["metadata"]["name"]: body for body in yaml.safe_load_all(plan.files[file])}


def several(*texts: str) -> str:
    return "---\n".join(texts)


@pytest.mark.parametrize("written", [several, as_list], ids=["documents", "list"])
def test_comments_and_unknown_fields_stay_and_noise_goes(plan, written):
    found = plan(several(nodes(), written(FLAVOR, QUEUE, LAB)))
    text = found.files["queues.yaml"]
    for comment in (
        "# The chat service; call the platform team.",
        "team: chat # who",
        "cohortName: serving # shared",
        "# GPUs and what comes with them",
        "nominalQuota: 8 # agreed in May",
        "# more below",
    ):
        assert comment in text
    assert "# The only pool." in found.files["flavors.yaml"]
    assert "# by product" in found.files["flavors.yaml"]
    chat = documents(found, "queues.yaml")["chat"]
    assert chat["spec"]["futureField"] == {"keep": "me"}
    assert chat["metadata"] == {"name": "chat", "annotations": {"team": "chat"}}
    assert "status" not in chat


def test_v1beta1_becomes_v1beta2(plan):
    chat = documents(plan(several(nodes(), FLAVOR, QUEUE, LAB)), "queues.yaml")["chat"]
    assert chat["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert (chat["spec"]["cohortName"], "cohort" in chat["spec"]) == ("serving", False)
    assert chat["spec"]["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}
    assert chat["spec"]["admissionChecksStrategy"] == {"admissionChecks": [{"name": "slots"}]}
    assert "admissionChecks" not in chat["spec"]


def test_only_amounts_that_change_are_written_and_in_the_manner_of_before(plan):
    text = plan(several(nodes(), FLAVOR, QUEUE, LAB)).files["queues.yaml"]
    # 10 -> 8 was a number, 500Gi a text in quotes; 1k, 9Ti and "10" say what they said.
    assert "nominalQuota: 8 # agreed" in text
    # A node of 2113396Mi has 257 whole GiB for each of its 8 GPUs.
    assert 'nominalQuota: "2056Gi"' in text
    assert "{name: cpu, nominalQuota: 1k}" in text
    assert "{name: memory, nominalQuota: 9Ti}" in text
    assert '{name: nvidia.com/gpu, nominalQuota: "8"' in text


def test_a_new_limit_stands_with_its_quota_and_not_below_the_comment_that_follows(plan):
    text = plan(several(nodes(), FLAVOR, QUEUE, LAB)).files["queues.yaml"]
    assert text.index("agreed in May") < text.index("borrowingLimit") < text.index("# more below")


def test_json_is_the_source_where_there_is_no_yaml(plan):
    bodies = [*yaml.safe_load_all(several(nodes(), FLAVOR, QUEUE, LAB))]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    chat = documents(plan(text, "cluster.json"), "queues.yaml")["chat"]
    assert chat["spec"]["futureField"] == {"keep": "me"}
    assert chat["spec"]["resourceGroups"][0]["flavors"][0]["resources"][2]["nominalQuota"] == 8


def test_files_come_in_an_order_that_can_be_applied(plan):
    found = plan(several(nodes(), FLAVOR, QUEUE, LAB))
    kustomization = yaml.safe_load(found.files["kustomization.yaml"])
    assert kustomization["resources"] == ["flavors.yaml", "queues.yaml"]
    assert kustomization["kind"] == "Kustomization"
    assert set(found.files) == {*kustomization["resources"], "kustomization.yaml"}


def test_a_topology_comes_before_the_flavor_that_names_it(plan):
    topology = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
"""
    flavor = FLAVOR + "  topologyName: racks\n"
    found = plan(several(nodes(), topology, flavor, QUEUE, LAB))
    assert yaml.safe_load(found.files["kustomization.yaml"])["resources"][:2] == ["topologies.yaml", "flavors.yaml"]
    assert documents(found, "topologies.yaml")["racks"]["apiVersion"] == "kueue.x-k8s.io/v1beta2"


def test_who_may_use_a_queue_is_always_said(plan):
    """V16: without a selector nobody may; the doors of the queue tell who shall."""
    queue = LAB.replace("  namespaceSelector: {}\n", "")
    door = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: q, namespace: lab}
spec: {clusterQueue: lab}
"""
    found = plan(several(nodes(), FLAVOR, queue, door), policy="teams: []")
    selector = documents(found, "queues.yaml")["lab"]["spec"]["namespaceSelector"]
    assert selector["matchExpressions"][0]["values"] == ["lab"]


def test_snapshots_without_manifests_give_whole_objects_too():
    snapshot = a_snapshot(a_node("a"), a_flavor("f", labels={"pool": "x"}, topology="racks"))
    options = QuotaOptions(parse_policy("teams: [{name: t, namespaces: [t], shape: {gpus: 1}}]", "p.yaml"))
    found = plan_quota(snapshot, PolicySettings(), options, NOW)
    assert documents(found, "flavors.yaml")["f"]["spec"] == {"nodeLabels": {"pool": "x"}, "topologyName": "racks"}


def test_an_alias_in_yaml_does_not_tie_two_quotas_together(plan):
    """Both flavors share one list of quotas; 16 and 4 GPUs are there."""
    product = "nvidia.com/gpu.product"
    nodes_of_two = several(
        *(yaml.safe_dump(node_object(name)) for name in "ab"),
        yaml.safe_dump(node_object("c", gpus=4, product="NVIDIA-A100-SXM4-80GB")),
    )
    flavor = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: %s}\nspec: {nodeLabels: {%s: %s}}\n"
    )
    queue = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: h100
      resources: &all [{name: nvidia.com/gpu, nominalQuota: 8}]
    - name: a100
      resources: *all
"""
    h100 = flavor % ("h100", product, "NVIDIA-H100-80GB-HBM3")
    a100 = flavor % ("a100", product, "NVIDIA-A100-SXM4-80GB")
    found = plan(several(nodes_of_two, h100, a100, queue), policy="teams: []")
    flavors = documents(found, "queues.yaml")["team"]["spec"]["resourceGroups"][0]["flavors"]
    assert [flavor["resources"][0]["nominalQuota"] for flavor in flavors] == [16, 4]


def test_words_that_older_yaml_takes_for_truth_values_stay_words():
    labels = {"pool": "on", "y": "no"}
    team = "teams: [{name: 'no', namespaces: ['off'], shape: {gpus: 4}, baselineReplicas: 1, cohort: 'yes'}]"
    other = a_cluster_queue("chat", quotas("odd", 8))
    snapshot = a_snapshot(a_node("a", labels=labels), a_flavor("odd", labels=labels), other)
    found = plan_quota(snapshot, PolicySettings(), QuotaOptions(parse_policy(team, "p.yaml")), NOW)
    queue, door = [body for body in yaml.safe_load_all(found.files["queues.yaml"]) if body["metadata"]["name"] == "no"]
    assert queue["spec"]["cohortName"] == "yes"
    assert (door["metadata"]["namespace"], door["spec"]["clusterQueue"]) == ("off", "no")
    assert documents(found, "flavors.yaml")["odd"]["spec"]["nodeLabels"] == labels
    assert yaml.safe_load(yaml_text({"a": ["no", "12:30"]})) == {"a": ["no", "12:30"]}


@pytest.mark.parametrize("groups", ["[{}]", "[{coveredResources: null, flavors: null}]", "[{flavors: [{name: h100}]}]"])
def test_an_object_with_half_of_its_fields_is_no_end_of_a_plan(plan, groups):
    bare = QUEUE[: QUEUE.index("  resourceGroups:")] + f"  resourceGroups: {groups}\n"
    found = plan(several(nodes(), FLAVOR, bare, LAB), policy="teams: []")
    assert [row.name for row in found.queues if row.island] == ["lab"]


def test_a_resource_that_is_listed_twice_is_written_once(plan):
    twice = LAB.replace('nominalQuota: "10"}', 'nominalQuota: "10"}\n      - {name: nvidia.com/gpu, nominalQuota: "5"}')
    found = plan(several(nodes(), FLAVOR, twice), policy="teams: []")
    (flavor,) = documents(found, "queues.yaml")["lab"]["spec"]["resourceGroups"][0]["flavors"]
    assert [r["nominalQuota"] for r in flavor["resources"] if r["name"] == "nvidia.com/gpu"] == ["16"]


def test_a_queue_of_today_moves_to_a_cohort_with_any_name(plan):
    moved = "teams: [{name: chat, shape: {gpus: 4}, cohort: 'on'}]"
    found = plan(several(nodes(), FLAVOR, QUEUE, LAB), policy=moved)
    assert documents(found, "queues.yaml")["chat"]["spec"]["cohortName"] == "on"


def test_sources_of_a_file_that_is_no_yaml_are_none(tmp_path: Path):
    (tmp_path / "a.json").write_text('{"apiVersion": "kueue.x-k8s.io/v1beta2"}')
    (tmp_path / "b.yaml").write_text("kueue.x-k8s.io/v1: [")
    assert yaml_sources(["-", str(tmp_path / "a.json"), str(tmp_path / "b.yaml")]) == {}


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 24_000, "24"),
        ("cpu", 1500, "1500m"),
        ("memory", 2**40, "1Ti"),
        ("memory", 3 * 2**30, "3Gi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("nvidia.com/gpu", 12, "12"),
    ],
)
def test_amounts_are_written_as_people_write_them_and_read_back(resource, amount, text):
    assert amount_text(resource, amount) == text
    assert amount_of(resource, text) == amount


def test_what_is_no_quantity_is_no_amount():
    assert amount_of("cpu", None) is None
    assert amount_of("cpu", "much") is None
    assert amount_of("nvidia.com/gpu", "1.5") is None
