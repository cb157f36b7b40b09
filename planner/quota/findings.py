"""What is wrong with the quotas of a cluster today."""

from __future__ import annotations

from planner.quota.finding_codes import FINDINGS, FindingCode, QuotaFinding, Severity

__all__ = ["FINDINGS", "FindingCode", "QuotaFinding", "Severity"]
