"""Plans for a real cluster: made from what kubectl prints, carried out through the Eviction API, judged again.

The cluster is that of G32: free are 2, 2, 1 and 1 GPUs, and a replica of four waits.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from islander.hardware.islands import is_island
from islander.hardware.links import mask_of
from planner.cli import main
from tests.kwok import kubectl
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import ApiError, Json, is_ready
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.objects import deployment, pod_disruption_budget
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.islander_bench import IslanderBench, bridged_node, nvswitch_node
from tests.kwok.plan_driver import PlanDriver, open_all, open_only

# Takes arguments and the exit code that is right, returns what is printed.
Islander = Callable[..., str]

_ROOT = Path(__file__).parents[2]
_GPUS = {"llama-70b": 4, "mistral-24b": 2, "qwen-7b": 1}
# Eight GPUs each.
_REPLICAS_ON: Mapping[str, Mapping[str, int]] = {
    "gpu-a": {"llama-70b": 1, "mistral-24b": 1},
    "gpu-b": {"llama-70b": 1, "qwen-7b": 2},
    "gpu-c": {"llama-70b": 1, "mistral-24b": 1, "qwen-7b": 1},
    "gpu-d": {"llama-70b": 1, "mistral-24b": 1, "qwen-7b": 1},
}
_BUDGETS = {"mistral-24b": 1}


@pytest.fixture
def islander(capsys: pytest.CaptureFixture[str]) -> Islander:
    """The command line, within this process."""

    def run(*arguments: str, code: int = 0) -> str:
        ended, printed = main(arguments), capsys.readouterr()
        assert ended == code, printed.err
        return printed.out

    return run


def test_pending_replica_runs_after_the_plan_for_the_dump_is_carried_out(
    bench: IslanderBench, islander: Islander, tmp_path: Path
) -> None:
    """G32: one move is enough, the replica of two from gpu-a to gpu-b."""
    _start_cluster(bench)
    before = _uids(bench)
    dump, file = _dump(bench, tmp_path / "dump.json"), tmp_path / "plan.json"

    plan = _json(_command, "plan", "moves", "--snapshot", dump, "--output-file", str(file))

    assert json.loads(file.read_text()) == plan
    assert (plan["outcome"], plan["solver"]["status"], plan["warnings"]) == ("plan", "optimal", [])
    assert [_move(step) for step in plan["steps"]] == [("mistral-24b", "gpu-a", "gpu-b")]
    assert plan["steps"][0]["pdb"] == f"{bench.namespace}/mistral-24b"
    assert _admitted(plan) == [("waits", "gpu-a", 1)]
    assert _json(_command, "check", str(file), "--snapshot", dump)["valid"]

    replacements = PlanDriver(bench, plan).run()

    bench.api.wait_running(bench.namespace, "waits")
    assert bench.wait_placed("waits") == "gpu-a"
    links = bench.kubelet.free_masks()["gpu-a"][0].links
    assert is_island(links, mask_of(bench.kubelet.gpus_of_pod(bench.namespace, "waits")))
    assert bench.node_of()[replacements["s1"]] == "gpu-b"
    # Nobody else was disturbed, and no node was overfilled.
    assert before - _uids(bench) == {plan["steps"][0]["uid"]}
    assert bench.overfilled() == []
    again = _json(islander, "plan", "moves", "--snapshot", _dump(bench, tmp_path / "after.json"))
    assert (again["outcome"], again["steps"]) == ("nothing-to-do", [])


def test_replicas_under_one_budget_move_one_after_the_other(
    bench: IslanderBench, islander: Islander, tmp_path: Path
) -> None:
    """G33: the replicas of two may not be disturbed, so both of one GPU leave gpu-b; their budget allows one at a time.

    In the other order, the second before the first is replaced, the API refuses.
    """
    _start_cluster(bench, budgets={"mistral-24b": 0, "qwen-7b": 1})
    dump, file = _dump(bench, tmp_path / "dump.json"), tmp_path / "plan.json"

    plan = _json(islander, "plan", "moves", "--snapshot", dump, "--output-file", str(file))

    first, second = plan["steps"]
    assert [(step["wave"], *_move(step)[:2]) for step in (first, second)] == [
        (1, "qwen-7b", "gpu-b"),
        (2, "qwen-7b", "gpu-b"),
    ]
    assert first["pdb"] == second["pdb"] == f"{bench.namespace}/qwen-7b"
    assert _admitted(plan) == [("waits", "gpu-b", 2)]
    held = [immovable["pod"] for immovable in plan["immovable"] if immovable["code"] == "PDB_ZERO"]
    assert len(held) == 3
    with pytest.raises(ApiError, match="disruption budget") as refusal:
        bench.api.evict(*held[0].split("/"), dry_run=True)
    assert refusal.value.code == 429

    driver = PlanDriver(bench, plan)
    driver.evict(first)
    with pytest.raises(ApiError, match="disruption budget") as refusal:
        driver.evict(second)
    assert refusal.value.code == 429
    assert is_ready(bench.api.get(paths.pod(*second["pod"].split("/"))))

    driver.land(first)
    driver.wait_allowed(second)
    driver.evict(second)
    driver.land(second)
    open_all(bench)
    bench.api.wait_running(bench.namespace, "waits")
    assert bench.wait_placed("waits") == "gpu-b"
    assert bench.overfilled() == []


def test_plan_does_not_hold_when_the_pod_was_replaced(bench: IslanderBench, islander: Islander, tmp_path: Path) -> None:
    """The pod of a StatefulSet comes back with its name, on its node; only the uid tells that it is another one."""
    # The replica that waits would take the room that the other one leaves for a moment.
    _start_cluster(bench, stateful="mistral-24b", scheduler="nobody")
    dump, file = _dump(bench, tmp_path / "dump.json"), tmp_path / "plan.json"
    (step,) = _json(islander, "plan", "moves", "--snapshot", dump, "--output-file", str(file))["steps"]
    name = step["pod"].partition("/")[2]
    driver = PlanDriver(bench, {"steps": [step]})
    driver.evict(step)
    assert driver.land(step, node=step["from"]) == name
    open_all(bench)
    _wait_settled(bench)

    changed = _dump(bench, tmp_path / "changed.json")

    verdict = _json(islander, "check", str(file), "--snapshot", changed, code=4)
    assert not verdict["valid"]
    assert (verdict["violations"][0]["step"], verdict["violations"][0]["code"]) == (step["id"], "STALE_POD")
    told = islander("check", str(file), "--snapshot", changed, code=4).splitlines()
    assert any(line.split()[:2] == [step["id"], "STALE_POD"] for line in told), told
    with pytest.raises(ApiError) as refusal:
        bench.api.evict(bench.namespace, name, uid=step["uid"])
    assert refusal.value.code == 409
    assert _json(islander, "check", str(file), "--snapshot", dump)["valid"]


def test_live_cluster_and_extender_and_dump_give_the_same_plan(
    bench: IslanderBench, islander: Islander, tmp_path: Path
) -> None:
    _start_cluster(bench)
    dump, file = _dump(bench, tmp_path / "dump.json"), tmp_path / "plan.json"
    live = ["--kubeconfig", str(bench.plane.kubeconfig)]

    of_dump = _json(islander, "plan", "moves", "--snapshot", dump, "--output-file", str(file))
    of_live = _json(islander, "plan", "moves", *live)
    # The extender of the bench has a demand mix of its own; this one observes it, as the command line does.
    with ExtenderProcess(tmp_path, bench.plane.kubeconfig) as extender:
        of_extender = _json(islander, "plan", "moves", "--extender", extender.url)

    assert len(of_dump["steps"]) == 1
    assert _substance(of_live) == _substance(of_dump)
    assert _substance(of_extender) == _substance(of_dump)
    assert _json(islander, "check", str(file), *live)["valid"]


def test_extender_and_command_line_explain_a_pod_alike(
    bench: IslanderBench, islander: Islander, tmp_path: Path
) -> None:
    whole = [nvswitch_node(name) for name in ("a-whole", "b-half", "d-full", "e-full")]
    held = {"b-half": range(4), "c-broken": (0, 2, 4), "d-full": range(8), "e-full": range(8)}
    bench.set_up([*whole, bridged_node("c-broken")], held)
    # Nobody schedules them, so both stay what they are.
    unplaced = {"scheduler_name": "nobody"}
    bench.api.create(bench.replica("four", 4, **unplaced))
    bench.api.create(bench.replica("strict", 2, topology="required", **unplaced))
    bench.api.create(bench.replica("sixteen", 16, **unplaced))
    dump = _dump(bench, tmp_path / "dump.json")

    # The extender of the bench has a demand mix of its own; this one observes it, as the command line does.
    with ExtenderProcess(tmp_path, bench.plane.kubeconfig) as extender:
        wait_until(lambda: extender.log_text().endswith(" ready\n"), what=extender.log_text)
        for name in ("four", "strict", "sixteen"):
            of_extender = extender.get_json(f"/explain/{bench.namespace}/{name}")
            of_dump = _json(islander, "explain", f"{bench.namespace}/{name}", "--snapshot", dump)

            fits = {node["verdict"] for node in of_extender["nodes"]} == {"guaranteed", "impossible"}
            assert fits == (name != "sixteen")
            assert (len({node["score"] for node in of_extender["nodes"]}) > 1) == fits
            # Only the command line looks for moves; the extender has to answer at once.
            assert of_extender.pop("wouldFit") is None
            assert (of_dump.pop("wouldFit") is None) or not fits
            assert of_dump == of_extender


def _start_cluster(
    bench: IslanderBench, *, budgets: Mapping[str, int] = _BUDGETS, stateful: str = "", scheduler: str = ""
) -> None:
    """Start the workloads with their replicas where they are wanted, and one more replica that finds no room.

    Parameters
    ----------
    budgets
        How many replicas of a workload may be unavailable at a time; no budget for the others.
    stateful
        The workload that is a StatefulSet; the others are Deployments.
    scheduler
        Who places the replica that waits; by default the scheduler that finds no room for it.
    """
    api = bench.api
    api.create_all(nvswitch_node(name) for name in _REPLICAS_ON)
    workloads = {name: _workload(bench, name, stateful=name == stateful) for name in _GPUS}
    api.create_all(workloads.values())
    for name, unavailable in budgets.items():
        labels = {"app": name}
        api.create(pod_disruption_budget(name, labels, namespace=bench.namespace, max_unavailable=unavailable))
    replicas = Counter[str]()
    for node, here in _REPLICAS_ON.items():
        open_only(bench, [node])
        replicas.update(here)
        for name in here:
            api.patch(paths.path_of(workloads[name]), {"spec": {"replicas": replicas[name]}})
        _wait_bound(bench, replicas.total())
    open_all(bench)
    for pod in bench.node_of():
        bench.wait_placed(pod)
    assert [len(bench.kubelet.free(node)) for node in _REPLICAS_ON] == [2, 2, 1, 1]
    api.create(bench.replica("waits", 4, scheduler_name=scheduler))
    if not scheduler:
        api.wait_unschedulable(bench.namespace, "waits")
    _wait_settled(bench)


def _workload(bench: IslanderBench, name: str, *, stateful: bool) -> Json:
    """Return a workload without any replica yet."""
    gpus = _GPUS[name]
    args = [f"--tensor-parallel-size={gpus}"] if gpus > 1 else []
    workload = deployment(name, 0, gpus, namespace=bench.namespace, args=args)
    if stateful:
        workload["kind"] = "StatefulSet"
        workload["spec"]["serviceName"] = name
    return workload


def _wait_bound(bench: IslanderBench, pods: int) -> None:
    wait_until(lambda: len(bench.node_of()) == pods, what=lambda: f"{pods} pods bound: {bench.node_of()}")


def _wait_settled(bench: IslanderBench) -> None:
    """Wait until workloads and budgets say what is true of their pods."""

    def unsettled() -> list[str]:
        found = []
        for kind in ("Deployment", "ReplicaSet", "StatefulSet"):
            for workload in bench.api.items(paths.collection("apps/v1", kind, bench.namespace)):
                name, status = workload["metadata"]["name"], workload["status"]
                if status.get("readyReplicas", 0) != workload["spec"]["replicas"]:
                    found.append(f"{kind} {name}: {status}")
        for budget in bench.api.items(paths.collection("policy/v1", "PodDisruptionBudget", bench.namespace)):
            name, status = budget["metadata"]["name"], budget.get("status", {})
            allowed = budget["spec"]["maxUnavailable"]
            if (status.get("currentHealthy"), status.get("disruptionsAllowed")) != (_replicas_of(name), allowed):
                found.append(f"budget {name}: {status}")
        return found

    wait_until(lambda: not unsettled(), what=lambda: f"settled: {unsettled()}")


def _replicas_of(workload: str) -> int:
    return sum(here.get(workload, 0) for here in _REPLICAS_ON.values())


def _uids(bench: IslanderBench) -> set[str]:
    return {pod["metadata"]["uid"] for pod in bench.api.items(paths.pods(bench.namespace))}


def _dump(bench: IslanderBench, file: Path) -> str:
    file.write_text(kubectl.get_all(bench.api))
    return str(file)


def _command(*arguments: str, code: int = 0) -> str:
    """Run the command as a process, as a person would."""
    command = [sys.executable, "-m", "planner", *arguments]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    return ended.stdout


def _json(run: Islander, *arguments: str, code: int = 0) -> Json:
    document: Json = json.loads(run(*arguments, "-o", "json", code=code))
    return document


def _move(step: Json) -> tuple[str, str, str]:
    """Return workload, origin and target of a step."""
    return step["workload"].rpartition("/")[2], step["from"], step["to"]


def _admitted(plan: Json) -> list[tuple[str, str, int]]:
    """Return who starts where, and after which wave."""
    return [
        (admission["pod"].partition("/")[2], admission["node"], admission["afterWave"]) for admission in plan["admits"]
    ]


def _substance(plan: Json) -> Json:
    """Return what a plan proposes and why, without where and when it was made."""
    return {key: plan[key] for key in ("goal", "outcome", "steps", "admits", "unadmitted", "immovable", "cost")} | {
        "before": plan["before"],
        "after": plan["after"],
        "status": plan["solver"]["status"],
    }
