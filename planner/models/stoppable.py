"""Solve so that Ctrl-C ends it with the best solution so far, and can be told from the end of the time."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait

from planner.interruption import SOLVER_THREAD
from planner.models.light_ortools import cp_model

# A search that is just beginning cannot be stopped yet; it is asked again after so long.
ASK_AGAIN_SECONDS = 0.05


def until_stopped(
    solver: cp_model.CpSolver, model: cp_model.CpModel, callback: cp_model.CpSolverSolutionCallback | None = None
) -> tuple[cp_model.CpSolverStatus, bool]:
    """Solve, and return the status and whether somebody broke in.

    The solver works in a thread of its own, so that this one can be interrupted while it waits. Its own handler of the
    signal stays out: it would take Ctrl-C away from this process and end as if the time were over.
    """
    solver.parameters.catch_sigint_signal = False
    answer: Future[cp_model.CpSolverStatus] = Future()

    def solve() -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            answer.set_result(solver.solve(model, callback))
        except BaseException as problem:
            answer.set_exception(problem)

    try:
        threading.Thread(target=solve, name=SOLVER_THREAD, daemon=True).start()
        return answer.result(), False
    except KeyboardInterrupt:
        if answer.cancel():
            return cp_model.UNKNOWN, True
        solver.stop_search()
        while not wait([answer], ASK_AGAIN_SECONDS).done:
            solver.stop_search()
        return answer.result(), True
