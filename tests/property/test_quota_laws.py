"""What holds for every quota plan, on random clusters, trees and policies.

`ISLANDER_QUOTA_CASES=2000` tries more than a usual test run does.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from functools import lru_cache

import pytest
import yaml
from msgspec import structs

from islander.cluster import names
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.quota.check import check_quota
from planner.quota.options import QuotaOptions
from planner.quota.plan import QuotaPlan
from planner.quota.planning import plan_quota
from planner.quota.validation import manifests_of, violations
from tests.random_quotas import RandomQuotas, applied, random_quotas

SETTINGS = PolicySettings()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CASES = int(os.environ.get("ISLANDER_QUOTA_CASES", "500"))
BATCH = 50
EVERY_FIFTH = 5


def planned(case: RandomQuotas, snapshot: ClusterSnapshot | None = None) -> QuotaPlan:
    options = QuotaOptions(case.policy, case.survive)
    return plan_quota(case.snapshot if snapshot is None else snapshot, SETTINGS, options, NOW)


@lru_cache(maxsize=CASES)
def made(seed: int) -> tuple[RandomQuotas, QuotaPlan]:
    case = random_quotas(seed)
    return case, planned(case)


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_files_keep_the_rules_v1_to_v19(first: int) -> None:
    """No rule is broken but where today's objects break it already, and then in the same field."""
    for seed in range(first, first + BATCH):
        case, plan = made(seed)
        before = manifests_of(case.snapshot)
        known = {(v.rule, v.object, v.field) for v in violations(before, (), case.snapshot.kinds)}
        bodies = [body for text in plan.files.values() for body in yaml.load_all(text, Loader=yaml.CSafeLoader)]
        bodies = [body for body in bodies if body["kind"] != "Kustomization"]
        assert all(body["apiVersion"] == "kueue.x-k8s.io/v1beta2" for body in bodies), f"seed {seed}"
        broken = [
            v for v in violations(bodies, before, case.snapshot.kinds) if (v.rule, v.object, v.field) not in known
        ]
        assert broken == [], f"seed {seed}"


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_plans_keep_their_promises(first: int) -> None:
    """I1 to I10, judged on the snapshot alone."""
    for seed in range(first, first + BATCH, EVERY_FIFTH):
        case, plan = made(seed)
        verdict = check_quota(plan, case.snapshot, SETTINGS)
        assert verdict.valid, f"seed {seed}: {verdict.violations[:3]}"
        assert plan.solver.status == "optimal", f"seed {seed}"


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_a_plan_that_is_applied_leaves_nothing_to_plan(first: int) -> None:
    for seed in range(first, first + BATCH, EVERY_FIFTH):
        case, plan = made(seed)
        again = planned(case, applied(plan.files, case.snapshot))
        assert again.changed == [], f"seed {seed}"
        assert again.created == [], f"seed {seed}"


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_unknown_fields_are_never_lost(first: int) -> None:
    for seed in range(first, first + BATCH):
        case, plan = made(seed)
        bodies = list(yaml.load_all(plan.files.get("queues.yaml", ""), Loader=yaml.CSafeLoader))
        queues = [body for body in bodies if body["kind"] == "ClusterQueue"]
        kept = {body["metadata"]["name"]: body["spec"].get("unknownField") for body in queues}
        for queue in case.snapshot.cluster_queues:
            assert kept[queue.name] == {"kept": queue.name}, f"seed {seed}"


def test_more_nodes_never_leave_more_of_the_baselines_without_a_place() -> None:
    for seed in range(40):
        case, plan = made(seed)
        twins = tuple(
            structs.replace(node, name=f"{node.name}-twin", uid=f"{node.uid}-twin") for node in case.snapshot.nodes
        )
        larger = structs.replace(
            case.snapshot, nodes=tuple(sorted((*case.snapshot.nodes, *twins), key=lambda n: n.name))
        )

        def missing(found: QuotaPlan) -> int:
            return sum(unmet.missing * unmet.gpus for unmet in found.unmet)

        assert missing(planned(case, larger)) <= missing(plan), f"seed {seed}"


def test_the_random_cases_are_not_all_easy() -> None:
    cases = [made(seed) for seed in range(100)]
    outcomes = Counter(plan.outcome for _, plan in cases)
    assert outcomes["plan"] >= 20
    assert outcomes["infeasible"] >= 20
    assert any(plan.survive_nodes for _, plan in cases)
    assert any(plan.reserve for _, plan in cases)
    assert any(row.kind == "Cohort" for _, plan in cases for row in plan.queues)
    assert any(row.nominal.new is None for _, plan in cases for row in plan.queues)
    assert any(len(row.witness) > 1 for _, plan in cases for row in plan.queues)
    assert any(flavor.held_outside for _, plan in cases for flavor in plan.flavors)
    assert {row.resource for _, plan in cases for row in plan.queues} >= {"cpu", "memory", "pods", names.NVIDIA_GPU}
