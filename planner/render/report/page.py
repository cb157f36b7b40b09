"""The page of a plan, whatever kind of plan it is."""

from __future__ import annotations

from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.mig.plan import MigPlan
from planner.plan_file import AnyPlan
from planner.quota.plan import QuotaPlan
from planner.render.report.mig_page import mig_html
from planner.render.report.moves_page import moves_html
from planner.render.report.quota_page import quota_html


def report_html(plan: AnyPlan, snapshot: ClusterSnapshot | None, settings: PolicySettings) -> str:
    """Return the page.

    Parameters
    ----------
    snapshot
        The cluster to draw the nodes from and to judge the plan by; None leaves both out, and the page says so.

    Raises
    ------
    PlannerError
        The options of the plan cannot be understood.
    """
    if isinstance(plan, MigPlan):
        return mig_html(plan, snapshot, settings)
    if isinstance(plan, QuotaPlan):
        return quota_html(plan, snapshot, settings)
    return moves_html(plan, snapshot, settings)
