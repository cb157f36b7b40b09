"""`plan mig` for a real cluster: its files are taken, and when the nodes are cut as it says, all that waited runs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from islander.cluster import names
from islander.hardware.mig import resource_name
from planner.cli import main
from tests.kwok import kubectl
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Json
from tests.kwok.controlplane.objects import GPU, gpu_node, gpu_pod
from tests.kwok.islander_bench import IslanderBench

_PRODUCT = "NVIDIA-H100-80GB-HBM3"
_LABELS = {names.MIG_CAPABLE: "true", names.MIG_STRATEGY: "mixed", names.MIG_CONFIG_STATE: "success"}
_GPUS = 8
# Instances of a GPU: profile, start, and the pod that has it.
Cut = Sequence[tuple[str, int, str | None]]


def test_all_that_waited_runs_after_the_nodes_are_cut_as_the_plan_says(
    bench: IslanderBench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """13 pods want `1g.10gb`, one is free; a replica of four waits too, and its island on mig-1 is not touched.

    On mig-2 six of eight GPUs are in use, so the other two are cut: nothing of four could have them.
    """
    api, pods, folder = bench.api, bench.namespace, tmp_path / "mig"
    # Nothing is placed while the nodes are cut.
    bench.plane.stop_scheduler()
    cut = {0: (("3g.40gb", 0, f"{pods}/large"), ("1g.10gb", 4, f"{pods}/small"), ("1g.10gb", 5, None))}
    used = {"mig-1": {6: f"{pods}/pair", 7: f"{pods}/pair"}, "mig-2": dict.fromkeys(range(6), f"{pods}/six")}
    for node, whole in used.items():
        api.create(_node(node, cut if node == "mig-1" else {}, whole))
        bench.kubelet.silence(node)
    running = [
        gpu_pod("large", namespace=pods, resource=resource_name("3g.40gb"), node_name="mig-1"),
        gpu_pod("small", namespace=pods, resource=resource_name("1g.10gb"), node_name="mig-1"),
        bench.replica("pair", 2, node_name="mig-1"),
        bench.replica("six", 6, node_name="mig-2"),
    ]
    small = [gpu_pod(f"waits-{number}", namespace=pods, resource=resource_name("1g.10gb")) for number in range(13)]
    api.create_all([*running, *small, bench.replica("island", 4)])
    for pod in running:
        api.wait_running(pods, pod["metadata"]["name"])
    uids = {pod["metadata"]["uid"] for pod in api.items(paths.pods(pods))}
    dump, file = tmp_path / "dump.json", tmp_path / "plan.json"
    dump.write_text(kubectl.get_all(api))

    arguments = ["--snapshot", str(dump), "--output-dir", str(folder), "--output-file", str(file)]
    assert main(["plan", "mig", *arguments, "--detailed-exitcode", "-o", "json"]) == 2
    plan = json.loads(capsys.readouterr().out)

    assert (plan["outcome"], plan["solver"]["status"], plan["unmet"]) == ("plan", "optimal", [])
    assert {(gpu["node"], gpu["index"]) for gpu in plan["gpus"] if gpu["created"]} == {("mig-2", 6), ("mig-2", 7)}
    assert [gpu["drains"] for gpu in plan["gpus"] if gpu["drains"]] == []
    assert [(waiting["pod"], waiting["node"]) for waiting in plan["waiting"]] == [(f"{pods}/island", "mig-1")]
    assert main(["check", str(file), "--snapshot", str(dump)]) == 0

    _carry_out(bench, folder, plan)

    bench.use_extender()
    placed = bench.wait_all_bound([*small, bench.replica("island", 4)])
    assert placed.pop("island") == "mig-1"
    assert Counter(placed.values()) == {"mig-1": 1, "mig-2": 12}
    assert {pod["metadata"]["uid"] for pod in api.items(paths.pods(pods))} == uids


def _carry_out(bench: IslanderBench, folder: Path, plan: Json) -> None:
    """Set the labels, then cut the GPUs as mig-parted's file says for them, as the MIG manager would."""
    configs = yaml.safe_load((folder / "mig-parted.yaml").read_text())["mig-configs"]
    for node in yaml.safe_load_all((folder / "node-labels.yaml").read_text()):
        path = paths.path_of(node)
        bench.api.patch(path, node, kind="apply", dry_run=True, fieldManager="kubectl", fieldValidation="Strict")
        labels = bench.api.patch(path, node, kind="apply", fieldManager="kubectl")["metadata"]["labels"]
        name = node["metadata"]["name"]
        assert labels[names.MIG_CONFIG] == plan["nodeLabels"][name]
        cut = _cut(configs[labels[names.MIG_CONFIG]])
        after = {gpu["index"]: gpu["after"] for gpu in plan["gpus"] if gpu["node"] == name}
        assert {index: Counter(one["profile"] for one in layout) for index, layout in after.items()} == cut
        counts = sum((Counter({resource_name(p): n for p, n in gpu.items()}) for gpu in cut.values()), Counter[str]())
        counts[GPU] = sum(not gpu for gpu in cut.values())
        amounts = {resource: str(count) for resource, count in counts.items()}
        bench.api.patch(f"{path}/status", {"status": {"allocatable": amounts, "capacity": amounts}})
        report = json.loads(bench.api.get(path)["metadata"]["annotations"][names.GPUS])
        for gpu in report["gpus"]:
            gpu["mig"] = after[gpu["index"]]
        bench.api.patch(path, {"metadata": {"annotations": {names.GPUS: json.dumps(report)}}})


def _cut(config: Sequence[Json]) -> dict[int, Counter[str]]:
    """Return the instances of each GPU, none where MIG is off; an index in two entries would be cut twice."""
    found: dict[int, Counter[str]] = {}
    for entry in config:
        devices = range(_GPUS) if entry["devices"] == "all" else entry["devices"]
        assert not found.keys() & set(devices)
        found |= {index: Counter(entry.get("mig-devices", {}) if entry["mig-enabled"] else {}) for index in devices}
    assert found.keys() == set(range(_GPUS))
    return found


def _node(name: str, cut: Mapping[int, Cut], used: Mapping[int, str]) -> Json:
    """Return a node some of whose GPUs are cut, as device plugin and agent show it."""
    counts = Counter(resource_name(profile) for layout in cut.values() for profile, _, _ in layout)
    report = {
        "v": 1,
        "gpus": [
            {
                "index": gpu,
                "uuid": f"GPU-{name}-{gpu}",
                "healthy": True,
                "pod": used.get(gpu),
                "mig": [{"profile": profile, "start": start, "pod": pod} for profile, start, pod in cut.get(gpu, ())],
            }
            for gpu in range(_GPUS)
        ],
    }
    return gpu_node(
        name,
        _GPUS - len(cut),
        allocatable={resource: str(count) for resource, count in counts.items()},
        labels=_LABELS | {"nvidia.com/gpu.count": str(_GPUS)},
        annotations={names.GPUS: json.dumps(report)},
    )
