"""Which pods may move: owners, wishes, budgets, groups, priorities, volumes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import ContainerKind, Owner, Pod
from islander.policy.reasons import MoveCode
from islander.policy.settings import PolicySettings
from planner.options import Goal, PlanOptions
from planner.plan import Step
from planner.problem import Method, Problem, problem_of
from tests.builders import (
    a_budget,
    a_claim,
    a_container,
    a_node,
    a_pod,
    a_snapshot,
    a_volume,
    a_workload,
    owned_by,
)

SETTINGS = PolicySettings()
WAITING = a_pod("waiting", gpus=8, priority=100)
CHAT = a_workload("chat", replicas=2)
LABEL = {"app": "chat"}


def pose(*objects: Any, options: PlanOptions | None = None) -> Problem:
    if not any(isinstance(thing, Node) for thing in objects):
        objects = (a_node("n1"), a_node("n2"), *objects)
    return problem_of(a_snapshot(WAITING, *objects), SETTINGS, options or PlanOptions())


def replica(name: str = "p1", **fields: Any) -> Pod:
    return a_pod(name, node="n1", **{"gpus": 2, "owner": owned_by(CHAT), "labels": LABEL} | fields)


def code_of(pod: Pod, *objects: Any, options: PlanOptions | None = None) -> MoveCode | None:
    """Why the pod stays; None when it may move."""
    problem = pose(CHAT, pod, *objects, options=options)
    assert (pod.key in problem.movable) != (pod.key in problem.immovable)
    return problem.immovable.get(pod.key)


def test_a_replica_of_a_deployment_with_two_ready_ones_may_move() -> None:
    deployment = a_workload("chat", kind="Deployment", replicas=2)
    replica_set = a_workload("chat-6d9c", replicas=2, owner=owned_by(deployment))
    problem = pose(deployment, replica_set, replica(owner=owned_by(replica_set), grace_seconds=90))
    moved = problem.movable["default/p1"]
    assert moved.workload == "default/Deployment/chat"
    assert (moved.method, moved.budget, moved.group, moved.grace_seconds) == (Method.EVICT, None, None, 90)
    assert moved.need.gpus == 2


@pytest.mark.parametrize(
    ("kind", "api_version"),
    [("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1"), ("ReplicaSet", "")],
)
def test_controllers_that_start_a_pod_anywhere_let_it_move(kind: str, api_version: str) -> None:
    owner = Owner(kind, "chat", "u", api_version)
    assert code_of(replica(owner=owner), replica("p2", owner=owner)) is None


def test_s5_g36_pods_that_belong_to_their_node_or_to_nobody_stay() -> None:
    daemons = a_workload("burn-in", kind="DaemonSet")
    assert code_of(replica(owner=owned_by(daemons)), daemons) is MoveCode.DAEMONSET
    assert code_of(replica(annotations={names.MIRROR_POD: "x"})) is MoveCode.STATIC_POD
    assert code_of(replica(owner=Owner("Node", "n1", "u", "v1"))) is MoveCode.STATIC_POD
    assert code_of(replica(owner=None)) is MoveCode.BARE_POD


def test_g36_of_all_pods_on_a_node_only_the_free_replica_moves_and_all_holders_count() -> None:
    daemons = a_workload("burn-in", kind="DaemonSet")
    pods = [
        replica("daemon", gpus=1, owner=owned_by(daemons)),
        replica("mirror", gpus=1, annotations={names.MIRROR_POD: "x"}),
        replica("bare", gpus=1, owner=None),
        replica("calm", gpus=1, annotations={names.KARPENTER_DO_NOT_DISRUPT: "true"}),
        replica("d1", node_selector={names.HOSTNAME: "n1"}),
        replica("d2"),
        replica("exporter", gpus=0, owner=owned_by(daemons)),
    ]
    problem = pose(CHAT, daemons, *pods)
    assert dict(problem.immovable) == {
        "default/daemon": MoveCode.DAEMONSET,
        "default/mirror": MoveCode.STATIC_POD,
        "default/bare": MoveCode.BARE_POD,
        "default/calm": MoveCode.DO_NOT_DISRUPT,
    }
    # d1 may move, but its selector leaves it no other node; that is for whoever looks for a place.
    assert set(problem.movable) == {"default/d1", "default/d2"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (names.KARPENTER_DO_NOT_DISRUPT, "true"),
        (names.KARPENTER_DO_NOT_DISRUPT, "30m"),
        (names.SAFE_TO_EVICT, "false"),
        (names.PREFER_NO_EVICTION, ""),
        (names.PREFER_NO_EVICTION, "true"),
        (names.REQUEST_EVICT_ONLY, "true"),
        (names.EVICTION_IN_PROGRESS, "true"),
        (names.KOORDINATOR_EVICTION_COST, "2147483647"),
        (names.MOVABLE, "false"),
    ],
)
def test_an_annotation_that_asks_for_peace_is_honoured_and_kept_when_parsed(key: str, value: str) -> None:
    assert code_of(replica(annotations={key: value})) is MoveCode.DO_NOT_DISRUPT
    assert key in names.KEPT_POD_ANNOTATIONS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (names.KARPENTER_DO_NOT_DISRUPT, "false"),
        (names.SAFE_TO_EVICT, "true"),
        (names.KOORDINATOR_EVICTION_COST, "100"),
        (names.MOVABLE, "true"),
        (names.MOVABLE, "perhaps"),
    ],
)
def test_an_annotation_that_does_not_ask_for_peace_changes_nothing(key: str, value: str) -> None:
    assert code_of(replica(annotations={key: value})) is None


@pytest.mark.parametrize("key", [names.KARPENTER_DO_NOT_DISRUPT, names.SCALE_DOWN_DISABLED])
def test_a_node_that_asks_for_peace_speaks_for_its_pods_unless_a_pod_says_it_may_move(key: str) -> None:
    node = msgspec.structs.replace(a_node("n1"), annotations=((key, "true"),))
    assert key in names.KEPT_NODE_ANNOTATIONS
    assert code_of(replica(), node) is MoveCode.DO_NOT_DISRUPT
    assert code_of(replica(annotations={names.MOVABLE: "true"}), node) is None


def test_a_word_of_ours_that_is_not_understood_is_a_warning() -> None:
    problem = pose(CHAT, replica(annotations={names.MOVABLE: "perhaps", names.RELOAD_SECONDS: "soon"}))
    assert sum("is not understood" in warning for warning in problem.warnings) == 2


def test_reload_time_is_what_the_pod_says() -> None:
    problem = pose(CHAT, replica(annotations={names.RELOAD_SECONDS: "75"}), replica("p2"))
    assert problem.movable["default/p1"].reload_seconds == 75
    assert problem.movable["default/p2"].reload_seconds > 0


def test_pods_of_the_system_and_pods_that_are_protected_stay() -> None:
    assert code_of(replica(namespace="kube-system")) is MoveCode.PROTECTED
    assert code_of(replica(priority=2_000_000_000)) is MoveCode.PROTECTED
    assert code_of(replica(priority_class="system-node-critical")) is MoveCode.PROTECTED
    assert code_of(replica(), options=PlanOptions(protect="app in (chat,code)")) is MoveCode.PROTECTED
    assert code_of(replica(), options=PlanOptions(protect="app=code")) is None


def test_a_pod_that_ends_already_stays() -> None:
    assert code_of(replica(deleted="2026-01-01T00:00:00Z")) is MoveCode.TERMINATING


@pytest.mark.parametrize("api_version", ["ray.io/v1", "batch.volcano.sh/v1alpha1"])
def test_an_owner_that_nobody_knows_moves_only_when_somebody_allows_it(api_version: str) -> None:
    owner = Owner("Job", "crew", "u", api_version)
    pods = replica(owner=owner), replica("p2", owner=owner)
    assert code_of(*pods) is MoveCode.UNKNOWN_OWNER
    assert code_of(*pods, options=PlanOptions(allow_unknown_owners=True)) is None
    assert code_of(replica(owner=owner, annotations={names.MOVABLE: "true"}), pods[1]) is None


def test_a_job_moves_only_by_its_own_word() -> None:
    job = a_workload("train", kind="Job")
    pod = replica(owner=owned_by(job))
    assert code_of(pod, job) is MoveCode.UNKNOWN_OWNER
    assert code_of(pod, job, options=PlanOptions(allow_unknown_owners=True)) is MoveCode.UNKNOWN_OWNER
    assert code_of(replica(owner=owned_by(job), annotations={names.MOVABLE: "true"}), job) is None


def test_a_bare_pod_stays_whatever_it_says() -> None:
    pod = replica(owner=None, annotations={names.MOVABLE: "true"})
    assert code_of(pod, options=PlanOptions(allow_unknown_owners=True)) is MoveCode.BARE_POD


def test_g37_a_pod_moves_for_equal_priority_and_never_for_lower() -> None:
    assert code_of(replica(priority=100)) is None
    assert code_of(replica(priority=101)) is MoveCode.PRIORITY_HIGHER


def test_g37_what_the_highest_pending_pod_may_disturb_counts() -> None:
    assert code_of(replica(priority=101), a_pod("urgent", priority=500)) is None
    assert code_of(replica(priority=101), options=PlanOptions(pods=("default/waiting",))) is MoveCode.PRIORITY_HIGHER


def test_a_goal_has_the_highest_priority_that_is_no_part_of_the_system() -> None:
    options = PlanOptions(goal=Goal(4))
    assert code_of(replica(priority=5000), options=options) is None
    assert code_of(replica(priority=5000), replica("p2", priority=2_000_000_000), options=options) is None


def test_the_only_replica_stays_unless_a_second_copy_may_start_first() -> None:
    lonely = a_workload("chat", replicas=1)
    pod = replica(owner=owned_by(lonely))
    assert pose(lonely, pod).immovable[pod.key] is MoveCode.SINGLE_REPLICA
    allowed = pose(lonely, pod, options=PlanOptions(allow_single_replica=True))
    assert allowed.movable[pod.key].method is Method.SURGE


def test_the_only_replica_that_is_ready_counts_as_the_only_one() -> None:
    half = a_workload("chat", replicas=2, ready_replicas=1)
    problem = pose(half, replica(owner=owned_by(half)), replica("p2", owner=owned_by(half), ready=False))
    assert problem.immovable["default/p1"] is MoveCode.SINGLE_REPLICA
    assert "default/p2" in problem.movable


def test_without_owners_in_the_snapshot_replicas_are_told_by_their_pods() -> None:
    owner = Owner("ReplicaSet", "chat-6d9c", "u", "apps/v1")
    labels = {"pod-template-hash": "6d9c"}
    alone = pose(replica(owner=owner, labels=labels))
    assert alone.immovable["default/p1"] is MoveCode.SINGLE_REPLICA
    assert any("no owners" in warning for warning in alone.warnings)
    both = pose(replica(owner=owner, labels=labels), replica("p2", owner=owner, labels=labels))
    assert both.movable["default/p1"].workload == "default/Deployment/chat"


def test_a_stateful_set_cannot_start_a_second_copy_of_its_only_replica() -> None:
    lonely = a_workload("chat", kind="StatefulSet", replicas=1)
    problem = pose(lonely, replica(owner=owned_by(lonely)), options=PlanOptions(allow_single_replica=True))
    assert problem.immovable["default/p1"] is MoveCode.NO_SURGE_ROOM


def test_a_second_copy_cannot_start_while_the_volume_is_attached_elsewhere() -> None:
    lonely = a_workload("chat", replicas=1)
    pod = replica(owner=owned_by(lonely), claims=("data",))
    options = PlanOptions(allow_single_replica=True)
    volume = a_volume("pv1")
    assert pose(lonely, pod, a_claim(volume="pv1"), volume, options=options).immovable[pod.key] is (
        MoveCode.NO_SURGE_ROOM
    )
    shared = a_claim(volume="pv1", mode="ReadWriteMany")
    assert pod.key in pose(lonely, pod, shared, volume, options=options).movable


def test_s2_g33_a_budget_that_allows_nothing_holds_its_pods() -> None:
    assert code_of(replica(), a_budget(labels=LABEL, allowed=0)) is MoveCode.PDB_ZERO
    assert code_of(replica(), a_budget(labels={"app": "code"}, allowed=0)) is None
    assert code_of(replica(), a_budget(labels=LABEL, namespace="other", allowed=0)) is None


def test_g33_a_budget_with_headroom_is_named_with_what_it_allows() -> None:
    problem = pose(CHAT, replica(), a_budget(labels=LABEL, allowed=1))
    assert problem.movable["default/p1"].budget == "default/b1"
    assert problem.budgets == {"default/b1": 1}


def test_a_pod_under_two_budgets_stays() -> None:
    assert code_of(replica(), a_budget(labels=LABEL), a_budget("b2")) is MoveCode.PDB_SEVERAL


def test_a_pod_that_is_not_ready_needs_no_budget_when_the_budget_says_so() -> None:
    broken = replica(ready=False)
    budget = a_budget(labels=LABEL, allowed=0, unhealthy_pod_eviction_policy="AlwaysAllow")
    assert code_of(broken, budget) is None
    assert code_of(replica(), budget) is MoveCode.PDB_ZERO
    healthy = a_budget(labels=LABEL, allowed=0, current_healthy=2, desired_healthy=2)
    assert code_of(broken, healthy) is None
    assert code_of(broken, a_budget(labels=LABEL, allowed=0, current_healthy=1, desired_healthy=2)) is (
        MoveCode.PDB_ZERO
    )


@pytest.mark.parametrize(
    ("labels", "annotations", "code"),
    [
        ({names.KUEUE_QUEUE: "q"}, {}, MoveCode.KUEUE_NO_QUOTA),
        ({names.KUEUE_MANAGED: "true"}, {}, MoveCode.KUEUE_NO_QUOTA),
        ({names.KUEUE_QUEUE: "q"}, {names.MOVABLE: "true"}, None),
        ({names.KUEUE_TAS: "true"}, {names.MOVABLE: "true"}, MoveCode.KUEUE_PINNED),
        ({names.KUEUE_QUEUE: "q"}, {"kueue.x-k8s.io/podset-required-topology": "rack"}, MoveCode.KUEUE_PINNED),
        ({}, {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}, MoveCode.KUEUE_PINNED),
    ],
)
def test_what_kueue_manages_moves_only_where_it_keeps_its_quota(
    labels: dict[str, str], annotations: dict[str, str], code: MoveCode | None
) -> None:
    assert code_of(replica(labels=labels, annotations=annotations)) is code
    assert annotations.keys() <= names.KEPT_POD_ANNOTATIONS


def test_a_pod_with_resource_claims_moves_only_by_its_own_word() -> None:
    assert code_of(replica(resource_claims=True)) is MoveCode.RESOURCE_CLAIM
    assert code_of(replica(resource_claims=True, annotations={names.MOVABLE: "true"})) is None


class TestGroups:
    SET = a_workload("big", kind="LeaderWorkerSet", replicas=2, group_size=2)

    def member(self, name: str, index: int = 0, **fields: Any) -> Pod:
        labels = {names.LWS_NAME: "big", names.LWS_GROUP_INDEX: str(index)}
        owner = Owner("StatefulSet", "big", "u", "apps/v1")
        return a_pod(name, **{"gpus": 8, "node": "n1", "owner": owner, "labels": labels} | fields)

    def test_g31_a_whole_group_may_move_and_is_one_replica(self) -> None:
        problem = pose(self.SET, self.member("big-0"), self.member("big-0-1", node="n2"))
        assert problem.groups == {"default/big/0": ("default/big-0", "default/big-0-1")}
        assert {pod.workload for pod in problem.movable.values()} == {"default/LeaderWorkerSet/big"}
        assert {pod.unit for pod in problem.movable.values()} == {"default/big/0"}

    @pytest.mark.parametrize(
        "other",
        [
            {"annotations": {names.MOVABLE: "false"}},
            {"gpus": 0, "annotations": {names.SAFE_TO_EVICT: "false"}},
            {"node": "", "phase": "Pending"},
            {"node": "somewhere-else"},
        ],
        ids=["says no", "no GPUs, says no", "still waits", "on a node that nobody knows"],
    )
    def test_s4_g31_a_group_of_which_one_pod_is_held_is_held_whole(self, other: dict[str, Any]) -> None:
        problem = pose(self.SET, self.member("big-0"), self.member("big-0-1", **other))
        assert problem.immovable["default/big-0"] is MoveCode.GROUP_MUST_MOVE_WHOLE
        assert problem.groups == {}

    def test_g31_a_group_that_is_not_complete_is_held(self) -> None:
        problem = pose(self.SET, self.member("big-0"))
        assert problem.immovable["default/big-0"] is MoveCode.GROUP_MUST_MOVE_WHOLE

    def test_one_group_that_is_held_does_not_hold_another(self) -> None:
        first = self.member("big-0"), self.member("big-0-1", annotations={names.MOVABLE: "false"})
        second = self.member("big-1", 1), self.member("big-1-1", 1)
        assert set(pose(self.SET, *first, *second).groups) == {"default/big/1"}

    def test_the_pods_of_the_only_group_are_no_replicas_of_each_other(self) -> None:
        problem = pose(self.member("big-0"), self.member("big-0-1"))
        assert set(problem.immovable.values()) == {MoveCode.SINGLE_REPLICA}

    @pytest.mark.parametrize("where", ["label", "annotation"])
    def test_a_gang_of_another_scheduler_moves_whole_or_not(self, where: str) -> None:
        told: dict[str, Any] = (
            {"labels": {names.POD_GROUP: "gang"}}
            if where == "label"
            else {"annotations": {names.VOLCANO_POD_GROUP: "gang"}}
        )
        stays = {**told, "annotations": {**told.get("annotations", {}), names.MOVABLE: "false"}}
        assert code_of(replica(**told), replica("p2", **stays)) is MoveCode.GROUP_MUST_MOVE_WHOLE
        assert pose(CHAT, replica(**told), replica("p2", **told)).groups == {
            "default/gang": ("default/p1", "default/p2")
        }

    def test_replicas_of_a_stateful_set_are_no_gang_though_kueue_groups_them(self) -> None:
        owner = Owner("StatefulSet", "chat", "u", "apps/v1")
        labels = {names.KUEUE_QUEUE: "q", names.KUEUE_POD_GROUP: "chat"}
        fields: dict[str, Any] = {"owner": owner, "labels": labels}
        may = replica("p1", annotations={names.MOVABLE: "true"}, **fields)
        assert code_of(may, replica("p2", **fields)) is None


class TestVolumes:
    NODES = tuple(a_node(name, labels={names.ZONE: zone}) for name, zone in [("n1", "z1"), ("n2", "z2"), ("n3", "z1")])

    def problem(self, *objects: Any) -> Problem:
        return pose(CHAT, *self.NODES, replica(claims=("data",)), *objects)

    def test_g35_a_volume_of_a_zone_is_a_requirement_of_the_pod(self) -> None:
        problem = self.problem(a_claim(volume="pv1"), a_volume("pv1", zone="z1"))
        terms = problem.movable["default/p1"].pod.spec.node_terms
        assert terms is not None
        assert [(r.key, r.values) for term in terms for r in term.labels] == [(names.ZONE, ("z1",))]

    @pytest.mark.parametrize(
        "volume",
        [a_volume("pv1", local=True, hostname="n1"), a_volume("pv1", hostname="n1"), a_volume("pv1", local=True)],
        ids=["local with terms", "terms of one node", "host path"],
    )
    def test_g35_a_disk_of_the_node_holds_the_pod(self, volume: Any) -> None:
        problem = self.problem(a_claim(volume="pv1"), volume)
        assert problem.immovable == {"default/p1": MoveCode.VOLUME_PINNED}

    def test_g35_a_claim_that_waits_for_its_first_pod_holds_nothing(self) -> None:
        problem = self.problem(a_claim(), a_volume("pv1", zone="z1"))
        assert problem.movable["default/p1"].pod.spec.node_terms is None

    def test_a_volume_that_every_node_reaches_holds_nothing(self) -> None:
        problem = self.problem(a_claim(volume="pv1", mode="ReadWriteMany"), a_volume("pv1"))
        assert problem.movable["default/p1"].pod.spec.node_terms is None

    def test_a_claim_of_which_nothing_is_known_holds_the_pod_and_is_a_warning(self) -> None:
        problem = self.problem()
        assert problem.immovable == {"default/p1": MoveCode.VOLUME_PINNED}
        assert any("persistentvolumeclaims" in warning for warning in problem.warnings)

    def test_a_volume_of_which_nothing_is_known_holds_the_pod(self) -> None:
        assert self.problem(a_claim(volume="pv1")).immovable == {"default/p1": MoveCode.VOLUME_PINNED}

    def test_a_disk_that_two_pods_share_on_one_node_holds_both(self) -> None:
        problem = self.problem(a_claim(volume="pv1"), a_volume("pv1", zone="z1"), replica("p2", claims=("data",)))
        assert set(problem.immovable.values()) == {MoveCode.VOLUME_PINNED}

    def test_the_volume_of_a_pod_that_ends_with_it_holds_nothing(self) -> None:
        claim = msgspec.structs.replace(a_claim(volume="pv1"), ephemeral=True)
        assert self.problem(claim, a_volume("pv1", zone="z1")).movable["default/p1"].pod.spec.node_terms is None

    def test_an_unknown_volume_that_ends_with_its_pod_holds_nothing(self) -> None:
        claim = msgspec.structs.replace(a_claim(volume="pv1"), ephemeral=True)
        assert "default/p1" in self.problem(claim).movable

    def test_the_terms_of_the_pod_and_of_two_volumes_must_all_hold(self) -> None:
        claims = a_claim("data", volume="pv1"), a_claim("more", volume="pv2")
        volumes = a_volume("pv1", zone="z1"), a_volume("pv2", disks="yes")
        pod = replica(claims=("data", "more"))
        nodes = [a_node(f"m{i}", labels={names.ZONE: "z1", "disks": "yes"}) for i in range(2)]
        problem = pose(CHAT, *self.NODES, *nodes, pod, *claims, *volumes)
        terms = problem.movable["default/p1"].pod.spec.node_terms
        assert terms is not None
        assert len(terms) == 1
        assert {r.key for r in terms[0].labels} == {names.ZONE, "disks"}


def test_a_pod_without_gpus_is_neither_movable_nor_listed() -> None:
    problem = pose(CHAT, replica("cpu", gpus=0))
    assert not problem.movable
    assert not problem.immovable


def test_a_finished_pod_is_neither_movable_nor_listed() -> None:
    problem = pose(CHAT, replica(phase="Succeeded"))
    assert not problem.movable
    assert not problem.immovable


def test_a_pod_with_gpus_in_a_sidecar_may_move_like_any_other() -> None:
    sidecar = a_container("proxy", gpus=1, kind=ContainerKind.SIDECAR)
    assert code_of(replica(containers=(sidecar, a_container(gpus=1)))) is None


def test_a_step_has_the_words_of_the_methods() -> None:
    assert Step("s", 1, [], "a/b", "u", "w", 1, "x", "y").method == Method.EVICT.value
