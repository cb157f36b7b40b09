"""Odd clusters end no plan, and no plan touches what somebody uses, is closed, or is not known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from islander.policy.settings import PolicySettings
from planner.mig.parted import read_parted
from planner.mig.planning import plan_mig
from tests.odd_mig import odd_mig

SETTINGS = PolicySettings()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BATCH = 50


@pytest.mark.parametrize("first", range(0, 300, BATCH))
def test_a_plan_of_an_odd_cluster_touches_nothing_that_is_used_closed_or_unknown(first: int) -> None:
    for seed in range(first, first + BATCH):
        case = odd_mig(seed)
        plan = plan_mig(case.snapshot, SETTINGS, case.options, NOW)
        nodes = {node.name: node for node in case.snapshot.nodes}
        running = {pod.key: pod for pod in case.snapshot.pods if pod.node}
        drained = {drain.pod for drain in plan.drains}
        assert case.options.allow_drain or not drained, seed
        configs, errors = read_parted(plan.files["mig-parted.yaml"]) if plan.files else ({}, [])
        assert errors == [], seed
        for name, config in plan.node_labels.items():
            node = nodes[name]
            assert not node.unschedulable, seed
            told = [
                index
                for entry in configs[config]
                for index in _indexes(entry, [gpu.index for gpu in plan.gpus if gpu.node == name])
            ]
            reported = [gpu.index for gpu in node.gpu_report.gpus] if node.gpu_report else told
            assert sorted(told) == reported, seed
            if node.gpu_report is None:
                assert not [pod for pod in running.values() if pod.node == name], seed
        for gpu in plan.gpus:
            report = nodes[gpu.node].gpu_report
            if gpu.created and report is not None:
                (own,) = (one for one in report.gpus if one.index == gpu.index)
                users = {own.pod, *(device.pod for device in own.mig)} & running.keys()
                assert own.healthy, seed
                assert users <= drained, seed
        again = plan_mig(structs.replace(case.snapshot), SETTINGS, case.options, NOW)
        assert again.id == plan.id, seed


def _indexes(entry: dict[str, Any], all_of_them: list[int]) -> list[int]:
    return all_of_them if entry["devices"] == "all" else list(entry["devices"])
