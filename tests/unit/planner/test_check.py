"""Plans that hold and plans that do not: room at every moment, budgets, groups, priorities, stale plans."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from islander.cluster import names
from islander.cluster.pod import HostPort, Owner, Pod, PodTerm, Requirement, SpreadConstraint
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.reasons import Code, MoveCode
from planner.check import check_plan
from planner.errors import PlannerError
from planner.options import Goal, PlanOptions
from planner.plan import Admission, Cost, Step
from tests.builders import (
    a_budget,
    a_claim,
    a_node,
    a_pod,
    a_snapshot,
    a_volume,
    a_workload,
    owned_by,
)
from tests.unit.planner.plans import SETTINGS, a_plan, a_replica, admit, codes, judged, move, workloads_of

# G32: A: 4+2 used, B: 4+1+1, C: 4+3, D: 4+2+1.
A4, A2 = a_replica("a4", 4, "a"), a_replica("a2", 2, "a")
B4, B1, B1X = a_replica("b4", 4, "b"), a_replica("b1", 1, "b"), a_replica("b1x", 1, "b")
C4, C3 = a_replica("c4", 4, "c"), a_replica("c3", 3, "c")
D4, D2, D1 = a_replica("d4", 4, "d"), a_replica("d2", 2, "d"), a_replica("d1", 1, "d")
RUNNING = (A4, A2, B4, B1, B1X, C4, C3, D4, D2, D1)
NODES = tuple(a_node(name) for name in "abcd")


def waits(gpus: int, name: str = "p", **fields: Any) -> Pod:
    return a_pod(name, **{"gpus": gpus, "priority": 100} | fields)


def four_nodes(*objects: Any, without: tuple[str, ...] = ()) -> ClusterSnapshot:
    """The cluster of G32; objects replace those of their name."""
    replaced = {(type(thing), thing.name) for thing in objects} | {(Pod, name) for name in without}
    usual = [*NODES, *RUNNING, *workloads_of(RUNNING)]
    return a_snapshot(*(thing for thing in usual if (type(thing), thing.name) not in replaced), *objects)


def changed(pod: Pod, **fields: Any) -> Pod:
    return msgspec.structs.replace(pod, **fields)


def respecified(pod: Pod, **fields: Any) -> Pod:
    return changed(pod, spec=msgspec.structs.replace(pod.spec, **fields))


def refusals(found: list[tuple[str, str]]) -> set[str]:
    return {code for _, code in found}


class TestRoom:
    def test_g32_the_best_plan_for_four_gpus_holds(self) -> None:
        pending = waits(4)
        verdict = judged(four_nodes(pending), move(A2, "b"), admit(pending, "a"))
        assert verdict.violations == []
        assert verdict.valid

    def test_g32_what_was_admitted_needs_its_room(self) -> None:
        pending = waits(5)
        assert codes(judged(four_nodes(pending), move(A2, "b"), admit(pending, "a"))) == [
            ("", Code.NOT_ENOUGH_FREE_GPUS)
        ]

    def test_g32_a_pod_is_not_admitted_before_its_room_is_free(self) -> None:
        pending = waits(4)
        verdict = judged(four_nodes(pending), move(A2, "b"), admit(pending, "a", after=0))
        assert codes(verdict) == [("", Code.NOT_ENOUGH_FREE_GPUS)]

    def test_g32_six_gpus_need_two_waves_and_every_step_fits_at_its_time(self) -> None:
        pending = waits(6)
        snapshot = four_nodes(pending)
        first = move(B1, "c"), move(B1X, "d")
        assert codes(judged(snapshot, *first, move(A4, "b", 2), admit(pending, "a", 2))) == []
        assert codes(judged(snapshot, *first, move(A4, "b"), admit(pending, "a"))) == [
            ("a4-1", Code.NOT_ENOUGH_FREE_GPUS)
        ]

    def test_a_source_is_held_while_its_pod_moves(self) -> None:
        full = a_replica("x", 8, "n1"), a_replica("y", 4, "n2"), a_replica("z", 4, "n2")
        pending = waits(4)
        snapshot = a_snapshot(*map(a_node, ("n1", "n2", "n3")), *full, *workloads_of(full), pending)
        verdict = judged(snapshot, move(full[1], "n3"), move(full[0], "n2"))
        assert codes(verdict) == [("x-1", Code.NOT_ENOUGH_FREE_GPUS)]

    def test_s3_two_pods_cannot_change_places(self) -> None:
        one, two = a_replica("x", 4, "n1"), a_replica("y", 4, "n2")
        rest = a_replica("u", 4, "n1"), a_replica("v", 4, "n2")
        pods = (one, two, *rest)
        snapshot = a_snapshot(a_node("n1"), a_node("n2"), *pods, *workloads_of(pods), waits(1))
        found = codes(judged(snapshot, move(one, "n2"), move(two, "n1")))
        assert refusals(found) == {Code.NOT_ENOUGH_FREE_GPUS}
        assert len(found) == 2

    def test_two_pods_change_places_through_a_buffer(self) -> None:
        one, two = a_replica("x", 4, "n1"), a_replica("y", 4, "n2")
        rest = a_replica("u", 4, "n1"), a_replica("v", 4, "n2")
        pods = (one, two, *rest)
        snapshot = a_snapshot(*map(a_node, ("n1", "n2", "n3")), *pods, *workloads_of(pods), waits(1))
        way_back = move(one, "n2", 3, from_node="n3", uid="")
        assert codes(judged(snapshot, move(one, "n3"), move(two, "n1", 2), way_back)) == []
        assert codes(judged(snapshot, move(one, "n3"), move(two, "n1", 2), move(one, "n2", 3))) == [
            ("x-3", MoveCode.PLAN_INCONSISTENT)
        ]

    def test_all_arrivals_of_a_wave_share_the_room(self) -> None:
        movers = a_replica("x", 2, "n1"), a_replica("y", 2, "n1")
        there = a_replica("z", 5, "n2")
        pods = (*movers, there)
        snapshot = a_snapshot(a_node("n1"), a_node("n2"), *pods, *workloads_of(pods), waits(8))
        assert codes(judged(snapshot, move(movers[0], "n2"))) == []
        found = codes(judged(snapshot, move(movers[0], "n2"), move(movers[1], "n2")))
        assert refusals(found) == {Code.NOT_ENOUGH_FREE_GPUS}

    def test_arrivals_must_fit_whatever_order_they_come_in(self) -> None:
        # An empty node of two bridged pairs: two single GPUs that come first may break both of them.
        small = a_replica("s", 1, "n1"), a_replica("t", 1, "n1")
        pair = a_replica("pair", 2, "n1", tp=2, topology="required")
        bridged = a_node("n2", gpus=4, hardware="h100-pcie-4", product=None)
        pods = (*small, pair)
        snapshot = a_snapshot(a_node("n1"), bridged, *pods, *workloads_of(pods), waits(8))
        together = move(pair, "n2"), *(move(pod, "n2") for pod in small)
        assert ("pair-1", Code.ISLAND_NOT_GUARANTEED) in codes(judged(snapshot, *together))
        in_turn = move(pair, "n2"), *(move(pod, "n2", 2) for pod in small)
        assert codes(judged(snapshot, *in_turn)) == []

    def test_cpu_and_memory_count_like_gpus(self) -> None:
        pod = a_replica("x", 2, "n1", cpu=100)
        snapshot = a_snapshot(a_node("n1"), a_node("n2", cpu=64), pod, *workloads_of([pod]), waits(8))
        assert codes(judged(snapshot, move(pod, "n2"))) == [("x-1", Code.NOT_ENOUGH_CPU)]

    def test_g38_a_pod_of_one_product_does_not_go_to_another(self) -> None:
        pod = respecified(A2, node_selector=((names.GPU_PRODUCT, "NVIDIA-H100-80GB-HBM3"),))
        snapshot = four_nodes(pod, a_node("b", product="NVIDIA-L40S"), waits(4))
        assert codes(judged(snapshot, move(pod, "b"))) == [("a2-1", Code.WRONG_PRODUCT)]


class TestDisruption:
    CHAT = a_workload("chat", replicas=3)

    def chat(self, name: str, node: str, **fields: Any) -> Pod:
        return a_pod(name, gpus=2, node=node, owner=owned_by(self.CHAT), labels={"app": "chat"}, **fields)

    def test_g33_two_replicas_of_a_workload_move_in_separate_waves(self) -> None:
        one, two = self.chat("x", "n1"), self.chat("y", "n2")
        snapshot = a_snapshot(*map(a_node, ("n1", "n2", "n3")), self.CHAT, one, two, a_budget(), waits(8))
        assert codes(judged(snapshot, move(one, "n3"), move(two, "n3", 2))) == []
        found = codes(judged(snapshot, move(one, "n3"), move(two, "n3")))
        assert refusals(found) == {MoveCode.TWO_OF_ONE_WORKLOAD, MoveCode.OVER_BUDGET}

    def test_g33_a_budget_over_two_workloads_is_drawn_on_by_both(self) -> None:
        code = a_workload("code", replicas=2)
        one = self.chat("x", "n1")
        two = a_pod("y", gpus=2, node="n2", owner=owned_by(code), labels={"app": "code"})
        nodes = [a_node(name) for name in ("n1", "n2", "n3")]
        tight = a_snapshot(*nodes, self.CHAT, code, one, two, a_budget(allowed=1), waits(8))
        assert codes(judged(tight, move(one, "n3"), move(two, "n3"))) == [("y-1", MoveCode.OVER_BUDGET)]
        wide = a_snapshot(*nodes, self.CHAT, code, one, two, a_budget(allowed=2), waits(8))
        assert codes(judged(wide, move(one, "n3"), move(two, "n3"))) == []

    def test_s2_s6_a_budget_that_was_tightened_meanwhile_stops_the_plan(self) -> None:
        one = self.chat("x", "n1")
        rest = (a_node("n1"), a_node("n2"), self.CHAT, one, waits(8))
        plan = a_plan(a_snapshot(*rest, a_budget(allowed=1)), move(one, "n2"))
        verdict = check_plan(plan, a_snapshot(*rest, a_budget(allowed=0)), SETTINGS)
        assert codes(verdict) == [("x-1", MoveCode.PDB_ZERO)]
        assert "another snapshot" in verdict.warnings[0]

    @pytest.mark.parametrize(
        ("pod", "code"),
        [
            (a_replica("x", 1, "n1", owner=Owner("DaemonSet", "d", "u", "apps/v1")), MoveCode.DAEMONSET),
            (a_replica("x", 1, "n1", annotations={names.MIRROR_POD: "y"}), MoveCode.STATIC_POD),
            (a_replica("x", 1, "n1", owner=None), MoveCode.BARE_POD),
            (a_replica("x", 1, "n1", annotations={names.KARPENTER_DO_NOT_DISRUPT: "true"}), MoveCode.DO_NOT_DISRUPT),
            (a_replica("x", 1, "n1", deleted="2026-01-01T00:00:00Z"), MoveCode.TERMINATING),
            (a_replica("x", 1, "n1", priority=101), MoveCode.PRIORITY_HIGHER),
            (a_replica("x", 1, "n1", claims=("data",)), MoveCode.VOLUME_PINNED),
            (a_replica("x", 1, "n1", owner=Owner("RayCluster", "r", "u", "ray.io/v1")), MoveCode.UNKNOWN_OWNER),
            (a_replica("x", 1, "n1", namespace="kube-system"), MoveCode.PROTECTED),
        ],
        ids=lambda value: value.value if isinstance(value, MoveCode) else "",
    )
    def test_s5_g36_a_pod_that_must_not_move_does_not(self, pod: Pod, code: MoveCode) -> None:
        snapshot = a_snapshot(a_node("n1"), a_node("n2"), pod, *workloads_of([pod]), waits(8))
        assert ("x-1", code) in codes(judged(snapshot, move(pod, "n2")))

    def test_the_only_replica_moves_by_surge_and_only_when_allowed(self) -> None:
        lonely = a_workload("solo", replicas=1)
        pod = a_pod("x", gpus=1, node="n1", owner=owned_by(lonely))
        snapshot = a_snapshot(a_node("n1"), a_node("n2"), lonely, pod, waits(8))
        allowed = PlanOptions(allow_single_replica=True)
        assert codes(judged(snapshot, move(pod, "n2"))) == [("x-1", MoveCode.SINGLE_REPLICA)]
        assert codes(judged(snapshot, move(pod, "n2"), options=allowed)) == [("x-1", MoveCode.SINGLE_REPLICA)]
        assert codes(judged(snapshot, move(pod, "n2", method="surge"), options=allowed)) == []

    def test_what_the_one_who_checks_allows_counts_more_than_what_the_plan_says(self) -> None:
        lonely = a_workload("solo", replicas=1)
        pod = a_pod("x", gpus=1, node="n1", owner=owned_by(lonely))
        snapshot = a_snapshot(a_node("n1"), a_node("n2"), lonely, pod, waits(8))
        plan = a_plan(snapshot, move(pod, "n2", method="surge"), options=PlanOptions(allow_single_replica=True))
        assert codes(check_plan(plan, snapshot, SETTINGS, PlanOptions())) == [("x-1", MoveCode.SINGLE_REPLICA)]

    def test_limits_of_moves_are_kept(self) -> None:
        one, two = self.chat("x", "n1"), self.chat("y", "n2")
        snapshot = a_snapshot(*map(a_node, ("n1", "n2", "n3")), self.CHAT, one, two, waits(8))
        steps = move(one, "n3"), move(two, "n3", 2)
        for options, right in (
            (PlanOptions(max_moves=2, max_moves_per_workload=2), True),
            (PlanOptions(max_moves=1), False),
            (PlanOptions(max_moves_per_workload=1), False),
        ):
            expected = [] if right else [("", MoveCode.OVER_MOVE_LIMIT)]
            assert codes(judged(snapshot, *steps, options=options)) == expected


class TestGroups:
    """S4, G31: a LeaderWorkerSet of two groups of two pods with 8 GPUs."""

    SET = a_workload("big", kind="LeaderWorkerSet", replicas=2, group_size=2)
    OWNER = Owner("StatefulSet", "big", "u", "apps/v1")

    def member(self, name: str, node: str, group: int = 0, **fields: Any) -> Pod:
        labels = {names.LWS_NAME: "big", names.LWS_GROUP_INDEX: str(group)}
        return a_pod(name, **{"gpus": 8, "node": node, "owner": self.OWNER, "labels": labels} | fields)

    def cluster(self, *pods: Pod, nodes: int = 6) -> ClusterSnapshot:
        return a_snapshot(*(a_node(f"n{i}") for i in range(nodes)), self.SET, *pods, waits(8, "p"))

    def test_s4_a_group_moves_whole_in_one_wave(self) -> None:
        one, two = self.member("big-0", "n0"), self.member("big-0-1", "n1")
        assert codes(judged(self.cluster(one, two), move(one, "n2"), move(two, "n3"))) == []

    def test_s4_a_part_of_a_group_does_not_move(self) -> None:
        one, two = self.member("big-0", "n0"), self.member("big-0-1", "n1")
        snapshot = self.cluster(one, two)
        assert codes(judged(snapshot, move(one, "n2"))) == [("big-0-1", MoveCode.GROUP_MUST_MOVE_WHOLE)]
        in_turn = codes(judged(snapshot, move(one, "n2"), move(two, "n3", 2)))
        assert refusals(in_turn) == {MoveCode.GROUP_MUST_MOVE_WHOLE}

    def test_a_member_may_start_again_where_it_is_when_its_group_moves(self) -> None:
        one, two = self.member("big-0", "n0"), self.member("big-0-1", "n1")
        snapshot = self.cluster(one, two, nodes=3)
        assert codes(judged(snapshot, move(one, "n2"), move(two, "n1"))) == []
        alone = a_replica("x", 1, "n0")
        found = judged(a_snapshot(a_node("n0"), alone, *workloads_of([alone]), waits(8)), move(alone, "n0"))
        assert codes(found) == [("x-1", MoveCode.PLAN_INCONSISTENT)]

    def test_a_group_draws_one_disruption_and_two_groups_are_two_replicas(self) -> None:
        first = self.member("big-0", "n0"), self.member("big-0-1", "n1")
        second = self.member("big-1", "n2", 1), self.member("big-1-1", "n3", 1)
        nodes = [a_node(f"n{i}") for i in range(8)]
        snapshot = a_snapshot(*nodes, self.SET, *first, *second, a_budget(allowed=1), waits(8))
        steps = [move(pod, f"n{4 + i}") for i, pod in enumerate((*first, *second))]
        assert codes(judged(snapshot, *steps[:2])) == []
        assert refusals(codes(judged(snapshot, *steps))) == {MoveCode.TWO_OF_ONE_WORKLOAD, MoveCode.OVER_BUDGET}

    def test_g31_a_group_that_waits_is_admitted_whole_or_not(self) -> None:
        leader = self.member("big-1", "", 1, phase="Pending")
        worker = self.member("big-1-1", "", 1, phase="Pending")
        snapshot = self.cluster(leader, worker, nodes=2)
        assert codes(judged(snapshot, admit(leader, "n0", 0))) == [("", MoveCode.GROUP_MUST_MOVE_WHOLE)]
        assert codes(judged(snapshot, admit(leader, "n0", 0), admit(worker, "n1", 0))) == []

    def test_g30_a_group_over_two_nodes_does_not_fit_when_one_of_them_is_full(self) -> None:
        leader = self.member("big-1", "", 1, phase="Pending")
        worker = self.member("big-1-1", "", 1, phase="Pending")
        full = a_replica("x", 1, "n1")
        snapshot = self.cluster(leader, worker, full, nodes=2)
        found = codes(judged(snapshot, admit(leader, "n0", 0), admit(worker, "n1", 0)))
        assert found == [("", Code.NOT_ENOUGH_FREE_GPUS)]


class TestRulesBetweenPods:
    """G34: X has no rule of its own; B holds one that excludes it, C its host port, D is in the fuller zone."""

    X = a_replica(
        "x",
        2,
        "a",
        labels={"app": "x"},
        host_ports=(HostPort(8000),),
        spread=(SpreadConstraint(names.ZONE, 1, (Requirement("app", "In", ("x",)),)),),
    )
    EXCLUDES = PodTerm(names.HOSTNAME, (Requirement("app", "In", ("x",)),))
    Y = a_replica("y", 1, "b", pod_anti_affinity=(EXCLUDES,))
    Z = a_replica("z", 1, "c", host_ports=(HostPort(8000),))
    # Zone 2 has two of the app already, zone 1 only X itself.
    SIBLINGS = tuple(a_replica(f"s{i}", 1, "d", labels={"app": "x"}) for i in range(2))

    def cluster(self, *more: Any) -> ClusterSnapshot:
        zones = {"a": "1", "b": "1", "c": "1", "d": "2", "e": "1"}
        nodes = [a_node(name, labels={names.ZONE: zone}) for name, zone in zones.items()]
        pods = (self.X, self.Y, self.Z, *self.SIBLINGS)
        return a_snapshot(*nodes, *pods, *workloads_of(pods), waits(8), *more)

    @pytest.mark.parametrize(
        ("target", "code"),
        [
            ("b", Code.POD_AFFINITY_MISMATCH),
            ("c", Code.HOST_PORT_TAKEN),
            ("d", Code.TOPOLOGY_SPREAD),
            ("e", None),
        ],
    )
    def test_g34_only_a_node_that_breaks_no_rule_takes_the_pod(self, target: str, code: Code | None) -> None:
        expected = [] if code is None else [("x-1", code)]
        assert codes(judged(self.cluster(), move(self.X, target))) == expected

    def test_a_rule_holds_against_a_pod_that_comes_in_the_same_wave(self) -> None:
        snapshot = self.cluster()
        assert refusals(codes(judged(snapshot, move(self.X, "e"), move(self.Y, "e")))) == {Code.POD_AFFINITY_MISMATCH}
        assert codes(judged(snapshot, move(self.Y, "c"))) == []

    def test_a_rule_holds_against_a_pod_that_came_in_an_earlier_wave(self) -> None:
        found = codes(judged(self.cluster(), move(self.Y, "e"), move(self.X, "e", 2)))
        assert found == [("x-2", Code.POD_AFFINITY_MISMATCH)]

    def test_a_pod_that_excluded_others_does_so_no_more_once_it_has_left(self) -> None:
        assert codes(judged(self.cluster(), move(self.Y, "c"), move(self.X, "b", 2))) == []

    SPREAD = (SpreadConstraint(names.ZONE, 1, (Requirement("app", "In", ("q",)),)),)

    def spread(self, *pods: Pod) -> ClusterSnapshot:
        """Nodes a, b and e in zone 1, d in zone 2, f in none."""
        zones = {
            "a": {names.ZONE: "1"},
            "b": {names.ZONE: "1"},
            "e": {names.ZONE: "1"},
            "d": {names.ZONE: "2"},
            "f": {},
        }
        nodes = [a_node(name, labels=labels) for name, labels in zones.items()]
        return a_snapshot(*nodes, *pods, *workloads_of(pods), waits(8))

    def test_a_spread_is_judged_as_if_others_of_the_wave_had_left_already(self) -> None:
        one = a_replica("q1", 1, "a", labels={"app": "q"}, spread=self.SPREAD)
        two = a_replica("q2", 1, "d", labels={"app": "q"})
        three = a_replica("q3", 1, "b", labels={"app": "q"})
        snapshot = self.spread(one, two, three)
        assert codes(judged(snapshot, move(one, "e"))) == []
        # Once the other has left zone 2, this one would be the second in zone 1 against none.
        assert codes(judged(snapshot, move(one, "e"), move(two, "f"))) == [("q1-1", Code.TOPOLOGY_SPREAD)]
        assert codes(judged(snapshot, move(one, "e"), move(two, "f", 2))) == []

    def test_a_spread_is_judged_as_if_others_of_the_wave_were_in_both_places(self) -> None:
        one = a_replica("q1", 1, "a", labels={"app": "q"}, spread=self.SPREAD)
        two = a_replica("q2", 1, "d", labels={"app": "q"})
        three = a_replica("q3", 1, "b", labels={"app": "q"})
        snapshot = self.spread(one, two, three)
        assert codes(judged(snapshot, move(one, "e"), move(three, "a"))) == [("q1-1", Code.TOPOLOGY_SPREAD)]
        assert codes(judged(snapshot, move(one, "e"), move(three, "a", 2))) == []


class TestVolumes:
    """G35 on the cluster of G32: A and C in zone z1, B and D in z2."""

    NODES = tuple(a_node(name, labels={names.ZONE: zone}) for name, zone in zip("abcd", ("z1", "z2") * 2, strict=True))
    BOUND = respecified(A2, claims=("data",))

    def cluster(self, *objects: Any) -> ClusterSnapshot:
        return four_nodes(*self.NODES, self.BOUND, waits(4), *objects)

    def test_g35_a_volume_of_zone_one_does_not_follow_to_zone_two(self) -> None:
        snapshot = self.cluster(a_claim(volume="pv1"), a_volume("pv1", zone="z1"))
        assert codes(judged(snapshot, move(self.BOUND, "b"))) == [("a2-1", Code.SELECTOR_MISMATCH)]
        pending = waits(4)
        assert codes(judged(snapshot, move(B1, "c"), move(B1X, "d"), admit(pending, "b"))) == []

    def test_g35_a_local_disk_does_not_move_at_all(self) -> None:
        snapshot = self.cluster(a_claim(volume="pv1"), a_volume("pv1", local=True, hostname="a"))
        assert codes(judged(snapshot, move(self.BOUND, "b"))) == [("a2-1", MoveCode.VOLUME_PINNED)]

    def test_g35_a_claim_that_is_not_bound_moves_freely(self) -> None:
        assert codes(judged(self.cluster(a_claim()), move(self.BOUND, "b"), admit(waits(4), "a"))) == []

    def test_a_pending_pod_is_admitted_only_where_its_volume_is(self) -> None:
        pending = waits(4, claims=("weights",))
        claim = a_claim("weights", volume="pv1")
        volume = a_volume("pv1", zone="z2")
        snapshot = four_nodes(*self.NODES, pending, claim, volume)
        assert codes(judged(snapshot, move(A2, "b"), admit(pending, "a"))) == [("", Code.SELECTOR_MISMATCH)]
        assert codes(judged(snapshot, move(B1, "c"), move(B1X, "d"), admit(pending, "b"))) == []

    def test_a_spread_counts_the_domains_that_the_volume_forbids(self) -> None:
        # Zone 1 holds two of the app and zone 2 none: one more in zone 1 would be too many, wherever the volume is.
        rule = (SpreadConstraint(names.ZONE, 1, (Requirement("app", "In", ("s",)),)),)
        pod = a_replica("s1", 1, "a", labels={"app": "s"}, spread=rule, claims=("data",))
        other = a_replica("s2", 1, "c", labels={"app": "s"})
        pods = (pod, other)
        snapshot = a_snapshot(
            *self.NODES, *pods, *workloads_of(pods), waits(8), a_claim(volume="pv1"), a_volume("pv1", zone="z1")
        )
        assert codes(judged(snapshot, move(pod, "c"))) == [("s1-1", Code.TOPOLOGY_SPREAD)]


class TestPriorities:
    """G37, and plans that serve several priorities at once."""

    def test_g37_a_pod_of_higher_priority_is_never_moved_for_a_lower_one(self) -> None:
        high = a_replica("high", 4, "n1", priority=1000)
        low = a_replica("l1", 2, "n2", priority=10), a_replica("l2", 2, "n2", priority=10)
        stays = a_replica("s", 4, "n2", owner=None)
        also = a_replica("t", 4, "n1", owner=None)
        pods = (high, *low)
        pending = waits(4)
        nodes = a_node("n1"), a_node("n2"), a_node("n3", gpus=4)
        snapshot = a_snapshot(*nodes, *pods, *workloads_of(pods), stays, also, pending)
        found = codes(judged(snapshot, move(high, "n3"), admit(pending, "n1")))
        assert found == [("high-1", MoveCode.PRIORITY_HIGHER)]
        assert codes(judged(snapshot, *(move(pod, "n3") for pod in low), admit(pending, "n2"))) == []

    def two_tiers(self, *waiting: Pod) -> tuple[ClusterSnapshot, Pod]:
        """On each of two nodes a pod of priority 50 stands in the way of whoever needs a whole node."""
        first, second = a_replica("m1", 4, "n1", priority=50), a_replica("m2", 4, "n2", priority=50)
        nodes = a_node("n1"), a_node("n2"), a_node("n3", gpus=4)
        return a_snapshot(*nodes, first, second, *workloads_of((first, second)), *waiting), first

    def test_a_pod_between_two_priorities_moves_for_the_higher_one(self) -> None:
        urgent, patient = waits(8, "urgent"), waits(4, "patient", priority=10)
        snapshot, first = self.two_tiers(urgent, patient)
        steps = move(first, "n3"), admit(urgent, "n1"), admit(patient, "n2", 0)
        assert codes(judged(snapshot, *steps)) == []

    def test_a_pod_between_two_priorities_does_not_move_for_the_lower_one(self) -> None:
        urgent, patient = waits(4, "urgent"), waits(8, "patient", priority=10)
        snapshot, first = self.two_tiers(urgent, patient)
        steps = move(first, "n3"), admit(urgent, "n2", 0), admit(patient, "n1")
        assert codes(judged(snapshot, *steps)) == [("m1-1", MoveCode.PRIORITY_HIGHER)]

    def test_a_move_that_only_makes_room_for_a_move_is_needed_too(self) -> None:
        # q leaves n2 so that m can come in, so that the urgent pod fits on n1.
        mover, makes_room = a_replica("m", 6, "n1", priority=50), a_replica("q", 4, "n2", priority=60)
        pods = (mover, makes_room)
        urgent, patient = waits(8, "urgent"), waits(2, "patient", priority=10)
        nodes = a_node("n1"), a_node("n2"), a_node("n3", gpus=4)
        snapshot = a_snapshot(*nodes, *pods, *workloads_of(pods), urgent, patient)
        steps = move(makes_room, "n3"), move(mover, "n2", 2), admit(urgent, "n1", 2), admit(patient, "n2", 2)
        assert codes(judged(snapshot, *steps)) == []

    def test_a_pod_moves_for_one_of_equal_priority_though_a_lower_one_is_served_too(self) -> None:
        equal, patient = waits(8, "equal", priority=50), waits(4, "patient", priority=10)
        snapshot, first = self.two_tiers(equal, patient)
        assert codes(judged(snapshot, move(first, "n3"), admit(equal, "n1"), admit(patient, "n2", 0))) == []

    def test_all_of_a_group_are_needed_when_one_of_them_is(self) -> None:
        crew = a_workload("big", kind="LeaderWorkerSet", replicas=2, group_size=2)
        fields: dict[str, Any] = {
            "gpus": 8,
            "priority": 50,
            "owner": Owner("StatefulSet", "big", "u", "apps/v1"),
            "labels": {names.LWS_NAME: "big", names.LWS_GROUP_INDEX: "0"},
        }
        one, two = a_pod("big-0", node="n1", **fields), a_pod("big-0-1", node="n2", **fields)
        urgent, patient = waits(8, "urgent", node_selector={names.HOSTNAME: "n1"}), waits(8, "patient", priority=10)
        snapshot = a_snapshot(*map(a_node, ("n1", "n2", "n3", "n4")), crew, one, two, urgent, patient)
        steps = move(one, "n3"), move(two, "n4"), admit(urgent, "n1"), admit(patient, "n2")
        assert codes(judged(snapshot, *steps)) == []

    def test_freeing_nodes_may_move_anybody_who_may_move(self) -> None:
        high = a_replica("high", 2, "n1", priority=1000)
        snapshot = a_snapshot(a_node("n1"), a_node("n2"), high, *workloads_of([high]), waits(16))
        assert codes(judged(snapshot, move(high, "n2"), options=PlanOptions(empty_nodes=1))) == []
        assert codes(judged(snapshot, move(high, "n2"))) == [("high-1", MoveCode.PRIORITY_HIGHER)]


class TestStalePlans:
    """S6: what changed between the plan and now."""

    def verdict(self, now: ClusterSnapshot) -> Any:
        pending = waits(4)
        plan = a_plan(four_nodes(pending), move(A2, "b"), admit(pending, "a"))
        return check_plan(plan, now, SETTINGS)

    def test_an_unchanged_cluster_gives_no_warning_about_its_age(self) -> None:
        verdict = self.verdict(four_nodes(waits(4)))
        assert verdict.valid
        assert not any("another snapshot" in warning for warning in verdict.warnings)

    def test_a_change_that_matters_to_no_step_is_a_warning(self) -> None:
        verdict = self.verdict(four_nodes(waits(4), a_node("extra")))
        assert verdict.valid
        assert any("another snapshot" in warning for warning in verdict.warnings)

    def test_the_time_of_the_snapshot_is_no_change(self) -> None:
        later = msgspec.structs.replace(four_nodes(waits(4)), taken_at="2026-02-02T00:00:00Z")
        assert not any("another snapshot" in warning for warning in self.verdict(later).warnings)

    @pytest.mark.parametrize(
        ("now", "code"),
        [
            (four_nodes(waits(4), changed(A2, uid="uid-of-another")), MoveCode.STALE_POD),
            (four_nodes(waits(4), changed(A2, node="c")), MoveCode.STALE_POD),
            (four_nodes(waits(4), changed(A2, phase="Succeeded")), MoveCode.STALE_POD),
            (four_nodes(waits(4), a_node("b", unschedulable=True)), Code.NODE_CORDONED),
            (four_nodes(waits(4), a_node("b", ready=False)), Code.NODE_NOT_READY),
            (four_nodes(waits(4), a_node("b", allocatable=7)), Code.NOT_ENOUGH_FREE_GPUS),
            (four_nodes(waits(4), changed(A2, deleted="2026-01-01T00:00:00Z")), MoveCode.TERMINATING),
        ],
        ids=["another uid", "another node", "finished", "cordoned", "not ready", "a GPU less", "ending"],
    )
    def test_s6_a_step_that_does_not_hold_any_more_is_named(self, now: ClusterSnapshot, code: Any) -> None:
        verdict = self.verdict(now)
        assert ("a2-1", code) in codes(verdict)
        assert any("another snapshot" in warning for warning in verdict.warnings)

    def test_a_first_step_without_a_uid_proves_nothing(self) -> None:
        snapshot = four_nodes(waits(4))
        assert codes(judged(snapshot, move(A2, "b", uid=""))) == [("a2-1", MoveCode.STALE_POD)]

    def test_a_pod_that_is_gone_is_named(self) -> None:
        assert ("a2-1", MoveCode.STALE_POD) in codes(self.verdict(four_nodes(waits(4), without=("a2",))))

    def test_a_node_that_is_gone_is_named(self) -> None:
        now = a_snapshot(*(node for node in NODES if node.name != "b"), A4, A2, *workloads_of((A4, A2)), waits(4))
        assert ("a2-1", Code.UNKNOWN_NODE) in codes(self.verdict(now))

    def test_a_pod_that_waits_no_more_is_named(self) -> None:
        now = four_nodes(waits(4, node="c", phase="Running"), without=("c4",))
        assert codes(self.verdict(now)) == [("", MoveCode.STALE_POD)]

    def test_a_pod_that_was_asked_for_and_waits_no_more_is_no_error(self) -> None:
        pending = waits(4)
        options = PlanOptions(pods=(pending.key,))
        plan = a_plan(four_nodes(pending), move(A2, "b"), admit(pending, "a"), options=options)
        assert ("", MoveCode.STALE_POD) in codes(check_plan(plan, four_nodes(), SETTINGS))


class TestConsistency:
    PENDING = waits(4)

    def found(self, *parts: Step | Admission, **fields: Any) -> list[tuple[str, str]]:
        return codes(judged(four_nodes(self.PENDING), *parts, **fields))

    @pytest.mark.parametrize(
        "step",
        [
            move(A2, "b", gpus=1),
            move(A2, "b", 0),
            move(A2, "b", depends_on=["other"]),
            move(A2, "b", depends_on=["a2-1"]),
            move(A2, "b", method="teleport"),
            move(A2, "a"),
        ],
        ids=["gpus", "wave", "depends on nothing", "depends on itself", "method", "same node"],
    )
    def test_a_step_that_contradicts_itself_is_named(self, step: Step) -> None:
        assert (step.id, MoveCode.PLAN_INCONSISTENT) in self.found(step)

    def test_a_pod_does_not_move_twice_in_a_wave(self) -> None:
        twice = move(A2, "b"), msgspec.structs.replace(move(A2, "d", from_node="b"), id="again")
        assert ("again", MoveCode.PLAN_INCONSISTENT) in self.found(*twice)

    def test_a_step_has_an_id_of_its_own(self) -> None:
        same = move(B1, "c"), msgspec.structs.replace(move(B1X, "d"), id="b1-1")
        assert ("b1-1", MoveCode.PLAN_INCONSISTENT) in self.found(*same)

    @pytest.mark.parametrize(
        "cost", [Cost(2, 1, 10.0), Cost(1, 0, 10.0), Cost(1, 1, 12.0)], ids=["steps", "interruptions", "minutes"]
    )
    def test_the_cost_must_be_that_of_the_steps(self, cost: Cost) -> None:
        step = move(A2, "b", reload_seconds=300)
        assert self.found(step) == []
        assert self.found(step, cost=cost) == [("", MoveCode.PLAN_INCONSISTENT)]

    def test_a_plan_with_steps_cannot_say_that_there_is_nothing_to_do(self) -> None:
        assert self.found(move(A2, "b"), outcome="nothing-to-do") == [("", MoveCode.PLAN_INCONSISTENT)]

    @pytest.mark.parametrize(
        ("admission", "code"),
        [
            (admit(PENDING, "a", after=2), MoveCode.PLAN_INCONSISTENT),
            (msgspec.structs.replace(admit(PENDING, "a"), gpus=3), MoveCode.PLAN_INCONSISTENT),
            (admit(PENDING, "nowhere"), Code.UNKNOWN_NODE),
            (Admission("default/nobody", "a", 4, 1), MoveCode.STALE_POD),
        ],
        ids=["after a wave that is not there", "gpus", "unknown node", "unknown pod"],
    )
    def test_an_admission_that_cannot_be_is_named(self, admission: Admission, code: Any) -> None:
        assert self.found(move(A2, "b"), admission) == [("", code)]

    def test_a_pod_is_admitted_once(self) -> None:
        twice = self.found(move(A2, "b"), admit(self.PENDING, "a"), admit(self.PENDING, "a"))
        assert twice == [("", MoveCode.PLAN_INCONSISTENT)]

    def test_a_pod_without_gpus_is_nothing_to_move(self) -> None:
        pod = a_replica("cpu", 0, "a")
        found = codes(judged(four_nodes(pod, self.PENDING), move(pod, "b")))
        assert found == [("cpu-1", MoveCode.PLAN_INCONSISTENT)]

    def test_options_that_nobody_knows_are_an_error(self) -> None:
        snapshot = four_nodes(self.PENDING)
        plan = msgspec.structs.replace(a_plan(snapshot), options=["--teleport"])
        with pytest.raises(PlannerError, match="--teleport"):
            check_plan(plan, snapshot, SETTINGS)

    def test_an_empty_plan_holds(self) -> None:
        assert self.found(outcome="nothing-to-do") == []


class TestGoals:
    def test_room_for_replicas_that_do_not_exist_yet_is_checked_like_any_other(self) -> None:
        options = PlanOptions(goal=Goal(4, 2))
        snapshot = four_nodes()
        both = Admission("goal/1", "a", 4, 1), Admission("goal/2", "b", 4, 1)
        assert codes(judged(snapshot, move(A2, "b"), both[0], options=options)) == []
        found = codes(judged(snapshot, move(A2, "b"), *both, options=options))
        assert found == [("", Code.NOT_ENOUGH_FREE_GPUS)]

    def test_a_replica_beyond_the_goal_is_not_known(self) -> None:
        options = PlanOptions(goal=Goal(4, 1))
        found = codes(judged(four_nodes(), move(A2, "b"), Admission("goal/2", "a", 4, 1), options=options))
        assert found == [("", MoveCode.STALE_POD)]


def test_a_violation_is_one_sentence_that_names_pod_and_node() -> None:
    pending = waits(5)
    verdict = judged(four_nodes(pending), move(A2, "b"), admit(pending, "a"))
    assert verdict.violations[0].message == ("default/p cannot start on a: not enough free GPUs on one node")
