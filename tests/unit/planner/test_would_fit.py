"""What would make a pod fit that fits nowhere, told by `explain`."""

import json
import signal
import subprocess
import sys

import pytest

from islander.cluster import names
from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.explain import explain_pod
from islander.policy.settings import PolicySettings
from planner import explain_verb
from planner.cli import main
from planner.interruption import Interruption
from planner.output import document_of
from planner.would_fit import would_fit
from tests.builders import a_node, a_pod, a_snapshot, a_workload, owned_by
from tests.plan_builders import move_story

ONE_MOVE = "1 move (search/embed-1 from a to b) makes room on a"


def fits(snapshot, pod):
    return would_fit(snapshot, pod, PolicySettings(), Interruption())


def waiting(snapshot, key):
    return next(pod for pod in snapshot.pods if pod.key == key)


def crowded(small, *others):
    """Two nodes of 8 with pods of 1 and 2 that may move; `p` waits."""
    objects = [a_node("a"), a_node("b")]
    for node in "ab":
        for number in range(small):
            workload = a_workload(f"{node}{number}", replicas=2)
            objects += [workload, a_pod(workload.name, gpus=1, node=node, owner=owned_by(workload))]
    return a_snapshot(*objects, *others, kinds=["PodDisruptionBudget", "ReplicaSet"])


def explained(capsys, tmp_path, snapshot, *words):
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(snapshot))
    code = main(["explain", *words, "--snapshot", str(path)])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_moves_that_make_room_are_named():
    snapshot = move_story()
    assert fits(snapshot, waiting(snapshot, "chat/llama-2")) == ONE_MOVE


@pytest.mark.parametrize(("gpus", "moves"), [(6, 2), (7, 3)])
def test_up_to_three_moves_are_named(gpus, moves):
    snapshot = crowded(4, a_pod("p", gpus=gpus))
    found = fits(snapshot, waiting(snapshot, "default/p"))
    assert found.startswith(f"{moves} moves (default/")
    assert found.count(" from ") == moves
    assert found.endswith((") make room on a", ") make room on b"))


def test_of_more_moves_the_first_are_named():
    snapshot = crowded(4, a_pod("p", gpus=8))
    found = fits(snapshot, waiting(snapshot, "default/p"))
    assert found.startswith("4 moves (")
    assert found.count(" from ") == 3
    assert " and 1 more) make room on " in found


def test_where_no_move_helps_the_smallest_change_is_told():
    snapshot = crowded(5, a_pod("p", gpus=8))
    found = fits(snapshot, waiting(snapshot, "default/p"))
    assert found == "it would fit with one more node of NVIDIA-H100-80GB-HBM3"


def test_a_pod_that_no_node_could_ever_take_gets_no_promise():
    snapshot = crowded(1, a_pod("p", gpus=9))
    assert fits(snapshot, waiting(snapshot, "default/p")) is None


def test_another_node_does_not_help_a_pod_that_names_its_node():
    pinned = a_pod("p", gpus=8, node_selector={names.HOSTNAME: "a"})
    snapshot = crowded(5, pinned, a_pod("fixed", gpus=1, node="a"))
    assert fits(snapshot, pinned) is None


def test_other_pods_that_wait_do_not_count():
    snapshot = crowded(4, a_pod("p", gpus=8), a_pod("before", gpus=4, priority=10))
    assert fits(snapshot, waiting(snapshot, "default/p")).startswith("4 moves (")


def test_a_pod_that_is_not_in_the_cluster_is_planned_for_too():
    assert fits(move_story(), a_pod("new", gpus=4, tp=4)) == ONE_MOVE


def test_a_manifest_takes_the_place_of_the_pod_of_its_name():
    snapshot = crowded(4, a_pod("p", gpus=16))
    assert fits(snapshot, a_pod("p", gpus=8)).startswith("4 moves (")


def test_a_pod_that_runs_needs_no_plan():
    snapshot = move_story()
    assert fits(snapshot, waiting(snapshot, "search/embed-1")) is None


def test_explain_says_it_as_json_and_else_says_what_the_policy_says(capsys, tmp_path):
    snapshot = move_story()
    code, out, _ = explained(capsys, tmp_path, snapshot, "chat/llama-2", "-o", "json")
    found = json.loads(out)
    assert (code, found.pop("wouldFit")) == (0, ONE_MOVE)
    of_policy = document_of(explain_pod(snapshot, waiting(snapshot, "chat/llama-2")))
    assert of_policy.pop("wouldFit") is None
    assert found == of_policy


def test_explain_says_it_in_a_sentence(capsys, tmp_path):
    _, out, _ = explained(capsys, tmp_path, move_story(), "chat/llama-2")
    assert out.splitlines()[-1] == f"{ONE_MOVE}."


@pytest.mark.parametrize("pod", [a_pod("p", gpus=2), a_pod("p", gpus=0)])
def test_a_pod_that_fits_is_explained_without_the_solver(pod, tmp_path):
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(crowded(4, pod)))
    program = "import sys; from planner.cli import main; main(sys.argv[1:]); sys.exit('ortools' in sys.modules)"
    words = ["explain", "default/p", "--snapshot", str(path), "-o", "json"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["wouldFit"] is None


def test_in_a_large_cluster_only_the_plan_is_pointed_to(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(explain_verb, "MOST_NODES", 1)
    code, out, err = explained(capsys, tmp_path, move_story(), "chat/llama-2", "-o", "json")
    assert (code, json.loads(out)["wouldFit"]) == (0, None)
    assert "not looked for among 2 nodes; `plan moves --pod` does" in err


def test_ctrl_c_leaves_the_explanation(capsys, tmp_path, monkeypatch):
    def interrupted(*_):
        signal.raise_signal(signal.SIGINT)

    known = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr("planner.would_fit.would_fit", interrupted)
        code, out, _ = explained(capsys, tmp_path, move_story(), "chat/llama-2", "-o", "json")
    finally:
        signal.signal(signal.SIGINT, known)
    assert code == 130
    assert json.loads(out)["summary"] == {"NOT_ENOUGH_FREE_GPUS": 2}
