"""Ctrl-C keeps what was found so far, in whatever phase of planning it comes; the second one ends everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from inspect import CO_GENERATOR
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest

from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.settings import PolicySettings
from planner import solution
from planner.check import check_plan
from planner.cli import main
from planner.interruption import Interruption, SearchInterrupted
from planner.models.light_ortools import cp_model
from planner.models.stoppable import until_stopped
from planner.moves import plan_moves
from planner.options import PlanOptions
from planner.plan import MovePlan
from tests.bench.planned_clusters import irregular
from tests.builders import a_node, a_pod, a_snapshot, a_workload, owned_by

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS, OPTIONS = PolicySettings(), PlanOptions()
BROKEN_OFF = "the search was interrupted: this is the best plan found so far"

# What a plan is made of, in the order of its making; in the first ones nothing is found yet.
NOTHING_YET = (
    "planner.moves.problem_of",
    "planner.moves.World.of",
    "planner.moves.mix_of",
    "planner.solution.classes_for",
    "planner.models.solve.build",
    "planner.models.solve.terms_of",
)
PROPOSED = (
    "planner.models.phases.until_stopped",
    "planner.models.solve.named",
    "planner.solution.sequence",
    "planner.solution.carry_out",
)
FOUND = (
    "planner.refusals._WhatHelps.answer",
    "planner.moves.waves_of",
    "planner.moves.depends_on",
    "planner.moves.outlooks",
    "planner.moves.check_plan",
)


def cluster() -> ClusterSnapshot:
    """One that needs all phases: `four` waits for a move, `large` fits nowhere, `small` fits as things are."""
    objects: list[Any] = [a_node(name) for name in ("a", "b", "c")] + [a_node("d", gpus=3)]
    layout = {"a": (4, 2), "b": (4, 2), "c": (5, 3)}
    for node, sizes in layout.items():
        for number, gpus in enumerate(sizes):
            workload = a_workload(f"w{node}{number}", replicas=2)
            objects += [workload, a_pod(f"{node}{number}", gpus=gpus, node=node, owner=owned_by(workload))]
    waiting = [a_pod("four", gpus=4, tp=4), a_pod("large", gpus=8, tp=8), a_pod("small", gpus=1)]
    return a_snapshot(*objects, *waiting, kinds=["PodDisruptionBudget", "ReplicaSet"])


def plan(snapshot: ClusterSnapshot, stop: Interruption, options: PlanOptions = OPTIONS) -> MovePlan:
    made = plan_moves(snapshot, SETTINGS, options, NOW, None, stop)
    assert check_plan(made, snapshot, SETTINGS, options).valid
    return made


def break_in(monkeypatch: pytest.MonkeyPatch, name: str, stop: Interruption, *, before: bool) -> list[str]:
    """Let Ctrl-C come right before or after the first call of a function; the list then holds its name."""
    owner_name, _, attribute = name.rpartition(".")
    module_name, _, class_name = owner_name.rpartition(".")
    owner = getattr(import_module(module_name), class_name) if class_name[0].isupper() or class_name[0] == "_" else None
    owner = owner or import_module(owner_name)
    original = getattr(owner, attribute)
    called: list[str] = []

    def wrapped(*arguments: Any, **named: Any) -> Any:
        first = not called
        called.append(name)
        if first and before:
            stop.ask()
        answer = original(*arguments, **named)
        if first and not before:
            stop.ask()
        return answer

    monkeypatch.setattr(owner, attribute, staticmethod(wrapped) if attribute == "of" else wrapped)
    return called


def test_without_an_interruption_all_is_found() -> None:
    made = plan(cluster(), Interruption())
    assert made.solver.status == "optimal"
    assert {admission.pod for admission in made.admits} == {"default/four", "default/small"}
    assert [(refused.pod, refused.code) for refused in made.unadmitted] == [
        ("default/large", "NO_ROOM_EVEN_IF_REPACKED")
    ]
    assert made.steps
    assert not [warning for warning in made.warnings if "interrupted" in warning]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("name", [*NOTHING_YET, *PROPOSED, *FOUND])
def test_ctrl_c_in_any_phase_leaves_a_plan_that_holds(name, before, monkeypatch) -> None:
    stop = Interruption()
    called = break_in(monkeypatch, name, stop, before=before)
    made = plan(cluster(), stop)
    assert called
    assert stop.asked
    assert "default/small" in {admission.pod for admission in made.admits}, "what fits without moves is there"
    codes = {refused.pod: refused.code for refused in made.unadmitted}
    if name in FOUND:
        assert made.steps
        assert made.solver.status == "optimal"
    else:
        assert BROKEN_OFF in made.warnings
        assert made.solver.status == "feasible"
        assert codes["default/large"] in ("NO_ANSWER_IN_TIME", "NO_ROOM_EVEN_IF_REPACKED")
    if name in NOTHING_YET:
        assert not made.steps
        assert codes["default/four"] == "NO_ANSWER_IN_TIME"


def test_what_the_solver_had_found_is_kept(monkeypatch) -> None:
    stop = Interruption()
    break_in(monkeypatch, "planner.solution.sequence", stop, before=True)
    made = plan(cluster(), stop)
    assert made.steps
    assert "default/four" in {admission.pod for admission in made.admits}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("name", ["planner.search.Search.best", "planner.search.Search._successors"])
def test_ctrl_c_ends_the_exact_search_with_the_best_so_far(name, before, monkeypatch) -> None:
    """Two pods that block each other's way are searched for exactly."""
    stop = Interruption()
    called = break_in(monkeypatch, name, stop, before=before)
    made = plan(cycle(), stop)
    assert called
    assert BROKEN_OFF in made.warnings
    assert made.solver.status == "feasible"


def test_ctrl_c_ends_the_repair_of_a_large_problem(monkeypatch) -> None:
    monkeypatch.setattr(solution, "MAX_PODS", 0)
    stop = Interruption()
    assert plan(cycle(), Interruption()).admits
    called = break_in(monkeypatch, "planner.repair._search_locally", stop, before=True)
    made = plan(cycle(), stop)
    assert called
    assert BROKEN_OFF in made.warnings


def test_ctrl_c_ends_the_search_for_what_would_help(monkeypatch) -> None:
    stop = Interruption()
    tried = break_in(monkeypatch, "planner.refusals.solve", stop, before=True)
    owner = a_workload("alone", replicas=1)
    alone = a_pod("alone", gpus=2, node="a", owner=owned_by(owner))
    snapshot = a_snapshot(
        a_node("a"), owner, alone, a_pod("large", gpus=8), kinds=["PodDisruptionBudget", "ReplicaSet"]
    )
    made = plan(snapshot, stop)
    assert len(tried) == 1
    assert any("what would help" in warning for warning in made.warnings)
    assert "no single change helps" not in made.unadmitted[0].message


class Moments:
    """Counts the calls of Python functions in the planner, and lets Ctrl-C come at one of them."""

    def __init__(self, stop: Interruption, moment: int | None = None) -> None:
        self._stop, self._moment = stop, moment
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # What is raised in a generator that is just closed comes to nobody.
        if event != "call" or code.co_flags & CO_GENERATOR or "/planner/" not in code.co_filename:
            return
        if "interruption" not in code.co_filename:
            self.calls += 1
            if self.calls == self._moment:
                self._stop.ask()

    def __enter__(self) -> Moments:
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def made_with(moments: Moments, stop: Interruption, snapshot: ClusterSnapshot) -> MovePlan:
    with moments:
        return plan_moves(snapshot, SETTINGS, OPTIONS, NOW, None, stop)


def test_ctrl_c_at_any_call_leaves_a_plan_that_holds() -> None:
    snapshot = cluster()
    whole = Moments(Interruption())
    made_with(whole, Interruption(), snapshot)
    assert whole.calls > 1_000
    moved = 0
    for moment in range(1, whole.calls, whole.calls // 60):
        stop = Interruption()
        made = made_with(Moments(stop, moment), stop, snapshot)
        assert stop.asked, moment
        assert check_plan(made, snapshot, SETTINGS, OPTIONS).valid, moment
        assert "default/small" in {admission.pod for admission in made.admits}, moment
        moved += bool(made.steps)
    assert 0 < moved < 60


def test_the_second_ctrl_c_ends_at_once(monkeypatch) -> None:
    stop = Interruption()
    break_in(monkeypatch, "planner.solution.classes_for", stop, before=True)
    break_in(monkeypatch, "planner.moves.waves_of", stop, before=True)
    with pytest.raises(KeyboardInterrupt) as caught:
        plan(cluster(), stop)
    assert not isinstance(caught.value, SearchInterrupted)


def cycle() -> ClusterSnapshot:
    """`x` and `y` would have to trade nodes, so that one GPU comes free where `p` wants it; `c` is a buffer."""
    owners = [a_workload("wx", replicas=2), a_workload("wy", replicas=2)]
    nodes = [a_node("a", gpus=4, labels={"for": "p"}), a_node("b", gpus=4), a_node("c", gpus=3)]
    pods = [
        a_pod("x", gpus=4, node="a", owner=owned_by(owners[0])),
        a_pod("y", gpus=3, node="b", owner=owned_by(owners[1])),
        a_pod("p", gpus=1, node_selector={"for": "p"}),
    ]
    return a_snapshot(*owners, *nodes, *pods, kinds=["PodDisruptionBudget", "ReplicaSet"])


def with_pythons_handler(program: Callable[[], None]) -> None:
    """Run with Python's own handler, whatever this process was started with."""
    known = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        program()
    finally:
        signal.signal(signal.SIGINT, known)


def test_a_signal_breaks_into_a_search_and_is_kept_elsewhere() -> None:
    def program() -> None:
        stop = Interruption()
        with stop.by_ctrl_c():
            signal.raise_signal(signal.SIGINT)
            assert stop.asked
            with pytest.raises(SearchInterrupted), stop.searching():
                pytest.fail("a request that came before ends the search before it begins")
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        another = Interruption()
        with another.by_ctrl_c(), pytest.raises(SearchInterrupted), another.searching():
            signal.raise_signal(signal.SIGINT)

    with_pythons_handler(program)


def test_a_process_that_ignores_the_signal_goes_on_ignoring_it() -> None:
    known = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stop = Interruption()
        with stop.by_ctrl_c():
            signal.raise_signal(signal.SIGINT)
        assert not stop.asked
    finally:
        signal.signal(signal.SIGINT, known)


class _BreaksIn(cp_model.CpSolverSolutionCallback):
    """Sends the signal to the main thread at the first solution."""

    def __init__(self) -> None:
        super().__init__()
        self.solutions = 0

    def on_solution_callback(self) -> None:
        self.solutions += 1
        if self.solutions == 1:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_the_solver_stops_at_ctrl_c_with_what_it_has() -> None:
    """Two hundred things and forty scales: to find what they hold is easy, to prove that it is the best is not."""
    random = Random(1)
    model = cp_model.CpModel()
    taken = [model.new_bool_var(f"thing {number}") for number in range(200)]
    for _ in range(40):
        model.add(cp_model.LinearExpr.weighted_sum(taken, [random.randint(1, 99) for _ in taken]) <= 3_000)
    model.maximize(cp_model.LinearExpr.weighted_sum(taken, [random.randint(1, 99) for _ in taken]))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = 60

    def program() -> None:
        stop = Interruption()
        with stop.by_ctrl_c(), stop.searching():
            status, interrupted = until_stopped(solver, model, _BreaksIn())
        assert (status, interrupted) == (cp_model.FEASIBLE, True)
        assert solver.objective_value > 0

    with_pythons_handler(program)


def test_a_solver_that_has_not_begun_does_not_begin(monkeypatch) -> None:
    begun: list[object] = []

    class Watched(cp_model.CpSolver):
        def solve(self, *arguments: Any) -> Any:
            begun.append(arguments)
            return super().solve(*arguments)

    class Late(threading.Thread):
        def start(self) -> None:
            threads.append(self)
            raise SearchInterrupted

    threads: list[threading.Thread] = []
    with monkeypatch.context() as patch:
        patch.setattr("planner.models.stoppable.threading.Thread", Late)
        assert until_stopped(Watched(), cp_model.CpModel()) == (cp_model.UNKNOWN, True)
    super(Late, threads[0]).start()
    threads[0].join()
    assert begun == []


def test_what_goes_wrong_in_the_solver_is_told() -> None:
    class Broken(cp_model.CpSolver):
        def solve(self, *_: object) -> Any:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        until_stopped(Broken(), cp_model.CpModel())


def test_an_interrupted_command_writes_its_plan_and_ends_with_130(capsys, tmp_path, monkeypatch) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(cluster()))

    def program() -> None:
        original = solution.sequence

        def interrupted(*arguments: Any) -> Any:
            signal.raise_signal(signal.SIGINT)
            return original(*arguments)

        monkeypatch.setattr(solution, "sequence", interrupted)
        written = tmp_path / "plan.json"
        code = main(["plan", "moves", "--snapshot", str(path), "-o", "json", "--output-file", str(written)])
        out, err = capsys.readouterr()
        made = json.loads(out)
        assert code == 130
        assert BROKEN_OFF in made["warnings"]
        assert f"warning: {BROKEN_OFF}" in err
        assert made["steps"]
        assert json.loads(written.read_text()) == made

    with_pythons_handler(program)


def test_a_second_ctrl_c_writes_nothing(capsys, tmp_path, monkeypatch) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(cluster()))

    def program() -> None:
        def interrupted(*_: Any) -> Any:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr("planner.moves.waves_of", interrupted)
        code = main(["plan", "moves", "--snapshot", str(path), "-o", "json"])
        assert (code, *capsys.readouterr()) == (130, "", "interrupted before any plan was written\n")

    with_pythons_handler(program)


IMPATIENT = """
import signal, sys, threading
from planner.cli import main
from planner.models.light_ortools import cp_model

solve = cp_model.CpSolver.solve

def begin(solver, *arguments):
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    return solve(solver, *arguments)

cp_model.CpSolver.solve = begin
cp_model.CpSolver.stop_search = lambda _: signal.raise_signal(signal.SIGINT)
sys.exit(main(sys.argv[1:]))
"""


def test_a_second_ctrl_c_does_not_wait_for_the_solver(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(irregular(60, 30)))
    words = ["plan", "moves", "--snapshot", str(path), "-o", "json", "--time-limit", "300s"]
    done = subprocess.run([sys.executable, "-c", IMPATIENT, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == "interrupted before any plan was written"


def test_a_process_that_gets_the_signal_in_a_long_search_writes_its_plan(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(irregular(60, 30)))
    command = [sys.executable, "-m", "planner", "plan", "moves", "--snapshot", str(path), "-o", "json"]
    command += ["--time-limit", "300s"]
    environment = os.environ | {"NO_COLOR": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("searching for "), line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    made = json.loads(out)
    assert process.returncode == 130, err
    assert f"warning: {BROKEN_OFF}" in err
    assert made["outcome"] == "plan"
    assert BROKEN_OFF in made["warnings"]
    assert "Traceback" not in err
