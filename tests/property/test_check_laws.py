"""Laws of `check`: it agrees with plain arithmetic wherever GPUs alone decide, and never lets a held pod move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from islander.cluster import names
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.policy.settings import PolicySettings
from planner.check import check_plan
from planner.options import PlanOptions
from planner.plan import Admission, Step
from planner.problem import problem_of
from tests.builders import a_node, a_pod, a_snapshot
from tests.unit.planner.plans import SETTINGS, a_plan, a_replica, admit, move, workloads_of

NODES = ("n1", "n2", "n3", "n4")
SIZES = st.sampled_from([1, 2, 4])


@dataclass(frozen=True)
class Scene:
    snapshot: ClusterSnapshot
    steps: tuple[Step, ...]
    admits: tuple[Admission, ...]
    capacity: dict[str, int]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """A cluster in which GPUs alone decide, and some plan for it, good or bad."""
    capacity = {name: draw(st.sampled_from([4, 8])) for name in NODES[: draw(st.integers(2, 4))]}
    used: Counter[str] = Counter()
    pods: list[Pod] = []
    for number in range(draw(st.integers(0, 6))):
        node, gpus = draw(st.sampled_from(sorted(capacity))), draw(SIZES)
        if used[node] + gpus <= capacity[node]:
            used[node] += gpus
            pods.append(a_replica(f"r{number}", gpus, node))
    waiting = [a_pod(f"w{number}", gpus=draw(SIZES), priority=1) for number in range(draw(st.integers(1, 3)))]
    movers = draw(st.lists(st.sampled_from(pods), unique_by=lambda pod: pod.name)) if pods else []
    steps = []
    for pod in movers:
        target = draw(st.sampled_from([name for name in sorted(capacity) if name != pod.node]))
        steps.append(move(pod, target, draw(st.integers(1, 3))))
    waves = st.sampled_from([0, *sorted({step.wave for step in steps})])
    admits = [
        admit(pod, draw(st.sampled_from(sorted(capacity))), draw(waves)) for pod in waiting if draw(st.booleans())
    ]
    nodes = [a_node(name, gpus=gpus) for name, gpus in capacity.items()]
    snapshot = a_snapshot(*nodes, *pods, *workloads_of(pods), *waiting)
    return Scene(snapshot, tuple(steps), tuple(admits), capacity)


def overfills(scene: Scene) -> bool:
    """Whether some node holds more than it has at some moment: by counting, with every mover in both places."""
    used: Counter[str] = Counter()
    for pod in scene.snapshot.pods:
        if pod.node:
            used[pod.node] += pod.spec.requests.count(names.NVIDIA_GPU)
    full = False
    for wave in range(4):
        here = [step for step in scene.steps if step.wave == wave]
        for step in here:
            used[step.to_node] += step.gpus
        full = full or any(count > scene.capacity[node] for node, count in used.items())
        for step in here:
            used[step.from_node] -= step.gpus
        for admission in scene.admits:
            if admission.after_wave == wave:
                used[admission.node] += admission.gpus
        full = full or any(count > scene.capacity[node] for node, count in used.items())
    return full


def is_valid(snapshot: ClusterSnapshot, parts: Sequence[Step | Admission]) -> bool:
    return check_plan(a_plan(snapshot, *parts), snapshot, SETTINGS).valid


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_a_plan_holds_exactly_when_no_node_is_overfilled_at_any_moment(scene: Scene) -> None:
    assert is_valid(scene.snapshot, [*scene.steps, *scene.admits]) is not overfills(scene)


@settings(max_examples=100, deadline=None)
@given(scenes(), st.randoms(use_true_random=False))
def test_the_order_of_steps_in_the_file_does_not_matter(scene: Scene, random: Random) -> None:
    parts: list[Step | Admission] = [*scene.steps, *scene.admits]
    expected = is_valid(scene.snapshot, parts)
    random.shuffle(parts)
    assert is_valid(scene.snapshot, parts) is expected


@settings(max_examples=100, deadline=None)
@given(scenes(), st.data())
def test_a_plan_that_moves_a_held_pod_never_holds(scene: Scene, data: st.DataObject) -> None:
    if not scene.steps:
        return
    held = data.draw(st.sampled_from([step.pod for step in scene.steps]))
    ways = {
        "annotation": {"annotations": ((names.MOVABLE, "false"),)},
        "owner": {"owner": None},
        "deletion": {"deleted": "2026-01-01T00:00:00Z"},
    }
    changes = ways[data.draw(st.sampled_from(sorted(ways)))]
    pods = tuple(msgspec.structs.replace(pod, **changes) if pod.key == held else pod for pod in scene.snapshot.pods)
    assert not is_valid(msgspec.structs.replace(scene.snapshot, pods=pods), [*scene.steps, *scene.admits])


@settings(max_examples=100, deadline=None)
@given(scenes())
def test_every_running_gpu_pod_is_either_movable_or_has_a_reason(scene: Scene) -> None:
    problem = problem_of(scene.snapshot, PolicySettings(), PlanOptions())
    running = {pod.key for pod in scene.snapshot.pods if pod.node}
    assert problem.movable.keys() | problem.immovable.keys() == running
    assert not problem.movable.keys() & problem.immovable.keys()
