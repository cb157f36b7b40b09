"""Plan quotas: what each queue shall have, written as files, and judged before anyone sees it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import structs
from ruamel.yaml.comments import CommentedMap

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.making import must_hold, rfc3339, solver_facts
from planner.models.outcome import OnProgress, SolveStatus
from planner.models.quotas import BASELINE
from planner.plan import SnapshotFacts
from planner.plan_words import amount
from planner.quota.check import check_quota
from planner.quota.emit import files_of
from planner.quota.findings import QuotaFinding, findings_of
from planner.quota.options import QuotaOptions
from planner.quota.plan import QuotaPlan
from planner.quota.recommend import membership_of, recommend
from planner.quota.recommendation import Recommendation
from planner.quota.remarks import warnings_of
from planner.quota.rows import rows_of
from planner.quota.sources import Key
from planner.quota.summary import created_of, edited_of, flavors_of, reserve_of, teams_of, totals_of, unmet_of
from planner.quota.target import target_of

# Quotas are agreed on among people, and merged; beyond that the cluster has changed.
VALID_DAYS = 7


def plan_quota(
    snapshot: ClusterSnapshot,
    settings: PolicySettings,
    options: QuotaOptions,
    now: datetime,
    progress: OnProgress | None = None,
    sources: Mapping[Key, CommentedMap] | None = None,
) -> QuotaPlan:
    """Return the quotas for a snapshot.

    Parameters
    ----------
    now
        When the plan is made; the plan carries it and does not depend on it.
    sources
        Objects as YAML files write them, whose comments the files of the plan keep.

    Raises
    ------
    InvariantError
        The plan does not pass `check_quota`.
    """
    started = time.monotonic()
    found = recommend(snapshot, settings, options, progress)
    target = target_of(found, snapshot, settings)
    plan = QuotaPlan(
        id="",
        created_at=rfc3339(now),
        expires_at=rfc3339(now + timedelta(days=VALID_DAYS)),
        snapshot=SnapshotFacts.of(snapshot, settings),
        policy=_policy_text(options),
        survive_nodes=options.spare,
        outcome="plan",
        solver=solver_facts(
            found.solution.status.value, found.solution.phases, time.monotonic() - started, options.limits
        ),
        queues=rows_of(found, target, snapshot, settings),
        created=created_of(target, snapshot),
        edited=edited_of(target, snapshot),
        teams=teams_of(found),
        unmet=[unmet_of(missing, found) for missing in found.missing],
        reserve=reserve_of(found),
        flavors=flavors_of(found, snapshot, settings),
        totals=totals_of(found),
        findings=_findings(found, snapshot, settings, options),
        files=files_of(target, sources or {}),
        warnings=[*snapshot.warnings, *warnings_of(found, target, snapshot)],
    )
    plan = _with_outcome(plan).with_id()
    verdict = check_quota(plan, snapshot, settings, found.fleet.capacities)
    must_hold(verdict)
    return plan


def _with_outcome(plan: QuotaPlan) -> QuotaPlan:
    baselines = next((phase for phase in plan.solver.phases if phase.name == BASELINE), None)
    if baselines is not None and baselines.status != SolveStatus.OPTIMAL:
        outcome = "no-answer-in-time"
    else:
        outcome = "infeasible" if plan.unmet else "plan" if plan.proposes else "nothing-to-do"
    return structs.replace(plan, outcome=outcome)


def _findings(
    found: Recommendation, snapshot: ClusterSnapshot, settings: PolicySettings, options: QuotaOptions
) -> list[QuotaFinding]:
    """Return what is wrong with the objects of today; nothing where there are none."""
    if not (snapshot.cluster_queues or snapshot.resource_flavors):
        return []
    membership = membership_of(snapshot, options.policy)
    # Findings are about the flavors of today; where the plan is about the same ones, what they offer is known.
    same = [flavor.name for flavor in snapshot.resource_flavors] == [flavor.name for flavor in found.flavors.flavors]
    return list(
        findings_of(
            snapshot,
            settings,
            found.demands,
            known_capacities=found.fleet.counted if same else None,
            membership=membership,
            survive_nodes=options.spare,
        )
    )


def _policy_text(options: QuotaOptions) -> str:
    if options.policy is None:
        return "derived from autoscalers, pods and today's quotas"
    return f"{amount(len(options.policy.teams), 'team')} of the policy file"
