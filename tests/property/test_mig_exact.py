"""MIG plans of small random clusters against the brute force, and what holds for every plan.

`ISLANDER_MIG_CASES=5000` tries more clusters than a usual test run does.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from islander.hardware.mig import geometry_for
from islander.policy.settings import PolicySettings
from planner.mig.parted import indexes_of, read_parted
from planner.mig.plan import MigPlan
from planner.mig.planning import plan_mig
from tests.mig_brute_force import best
from tests.mig_builders import carried_out
from tests.random_mig import RandomMig, random_mig

SETTINGS = PolicySettings()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CASES = int(os.environ.get("ISLANDER_MIG_CASES", "500"))
BATCH = 50


def planned(case: RandomMig) -> MigPlan:
    return plan_mig(case.snapshot, SETTINGS, case.options, NOW)


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_a_mig_plan_is_as_good_as_the_best_of_all_choices(first: int) -> None:
    """Every objective in its order: not one case differs, and each one is proved."""
    for seed in range(first, first + BATCH):
        case = random_mig(seed)
        made = planned(case)
        assert tuple(phase.value for phase in made.solver.phases) == best(case.small), f"seed {seed}"
        assert made.solver.status == "optimal", f"seed {seed}"


def running_instances(case: RandomMig) -> set[tuple[str, int, str, int, str]]:
    return {
        (node.name, gpu.index, device.profile, device.start, device.pod)
        for node in case.snapshot.nodes
        if node.gpu_report
        for gpu in node.gpu_report.gpus
        for device in gpu.mig
        if device.pod
    }


def test_the_random_mig_cases_are_not_all_easy() -> None:
    """Many need GPUs to be cut, some need drains, leave demand unmet, break an island, or have pods that wait."""
    plans = [(case, planned(case)) for case in map(random_mig, range(60))]
    assert sum(made.outcome == "plan" for _, made in plans) >= 20
    assert sum(bool(made.drains) for _, made in plans) >= 3
    assert sum(bool(made.unmet) for _, made in plans) >= 10
    assert sum(bool(made.waiting) for _, made in plans) >= 5
    assert {phase.name for _, made in plans for phase in made.solver.phases if phase.value} >= {
        "instances at priority 5",
        "GPUs in islands broken",
        "running instances destroyed",
    }
    assert {unmet.code for _, made in plans for unmet in made.unmet} >= {
        "NO_GPU_TO_CUT",
        "ISLAND_NEEDED",
        "NEEDS_DRAIN",
    }


@pytest.mark.parametrize("first", range(0, 100, BATCH))
def test_no_plan_destroys_what_runs_unless_drains_are_allowed(first: int) -> None:
    for seed in range(first, first + BATCH):
        case = random_mig(seed)
        kept = replace(case, options=replace(case.options, allow_drain=False))
        made = planned(kept)
        assert made.drains == []
        assert made.cost.instances_destroyed == 0
        told = {(g.node, g.index) for g in made.gpus}
        after = {(g.node, g.index, i.profile, i.start, i.pod) for g in made.gpus for i in g.keeps if i.pod}
        running = {instance for instance in running_instances(kept) if (instance[0], instance[1]) in told}
        assert after == running, f"seed {seed}"


@pytest.mark.parametrize("first", range(0, 100, BATCH))
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(first: int) -> None:
    for seed in range(first, first + BATCH):
        case = random_mig(seed)
        made = planned(case)
        again = planned(replace(case, snapshot=carried_out(case.snapshot, made)))
        assert again.cost.gpus_changed == 0, f"seed {seed}"
        assert sum(line.met for line in again.demand) == sum(line.met for line in made.demand), f"seed {seed}"


@pytest.mark.parametrize("first", range(0, 100, BATCH))
def test_every_file_passes_and_names_every_gpu_once(first: int) -> None:
    for seed in range(first, first + BATCH):
        made = planned(random_mig(seed))
        if not made.files:
            assert made.node_labels == {}
            continue
        configs, errors = read_parted(made.files["mig-parted.yaml"])
        assert errors == []
        assert set(made.node_labels.values()) == set(configs)
        for node, config in made.node_labels.items():
            gpus = [gpu for gpu in made.gpus if gpu.node == node]
            geometries = {gpu.index: geometry_for(gpu.product) for gpu in gpus}
            numbers = {index: known.device_ids if known else () for index, known in geometries.items()}
            said = indexes_of(configs[config], numbers)
            assert said.keys() == numbers.keys()
            assert all(len(mentions) == 1 for mentions in said.values())


def test_the_same_cluster_and_demand_give_the_same_plan() -> None:
    for seed in range(10):
        first, second = planned(random_mig(seed)), planned(random_mig(seed))
        assert first.id == second.id
        assert first.files == second.files
