"""What kube-scheduler sends to an extender, recorded on one small story; the golden files of tests/golden/requests.

python -m tests.kwok.wire_recording --minor 1.36     # writes the files of that minor anew
"""

import argparse
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import is_ready
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.objects import GPU, gpu_node, gpu_pod, priority_class
from tests.kwok.controlplane.programs import DEFAULT_MINOR, minors
from tests.kwok.controlplane.recorder import Recorder
from tests.kwok.controlplane.scheduler import extender_entry
from tests.kwok.controlplane.waiting import wait_until

GOLDEN = Path(__file__).parents[1] / "golden" / "requests"
VERBS = ("filter", "prioritize", "preempt", "bind")
# Whether the scheduler trusts the extender to know the nodes: then it sends names, else whole nodes.
MODES = {"names": True, "nodes": False}

_NAMESPACE = "default"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS = re.compile(r"10\.\d+\.\d+\.\d+")


def golden_file(minor: str, verb: str, mode: str) -> Path:
    """Return where the request of a verb is kept."""
    return GOLDEN / minor / f"{verb}-{mode}.json"


def record(plane: ControlPlane, folder: Path, mode: str) -> dict[str, Any]:
    """Return the first request of each verb, scrubbed of what differs between two runs.

    Two replicas fill two nodes, then a more important one preempts one of them. Our extender answers, and binds.
    """
    api = plane.api
    api.create_all([gpu_node("gpu-1"), gpu_node("gpu-2")])
    wait_until(lambda: all(is_ready(node) for node in api.items(paths.NODES)))
    api.create(priority_class("important", 1000))
    with (
        ExtenderProcess(folder, plane.kubeconfig, {"bind": True}, name=f"extender-{mode}") as extender,
        Recorder(extender.url) as recorder,
    ):
        entry = extender_entry(
            recorder.url,
            preemptVerb="preempt",
            bindVerb="bind",
            nodeCacheCapable=MODES[mode],
            managedResources=[{"name": GPU}],
        )
        plane.restart_scheduler({"extenders": [entry]})
        for name in ("first", "second"):
            api.create(_replica(name))
            api.wait_running(_NAMESPACE, name)
        api.create(_replica("greater", priority_class="important"))
        api.wait_running(_NAMESPACE, "greater")
    requests = {verb: recorder.about("first", verb)[0].asked for verb in ("filter", "prioritize")}
    requests["preempt"] = recorder.about("greater", "preempt")[0].asked
    requests["bind"] = recorder.exchanges("bind")[0].asked
    return {verb: _scrubbed(body, {}) for verb, body in requests.items()}


def shape_of(value: Any) -> Any:
    """Return keys and types without values; a list has the shapes of its items, each once."""
    if isinstance(value, Mapping):
        return {key: shape_of(item) for key, item in value.items()}
    if isinstance(value, list):
        shapes: list[Any] = []
        for item in map(shape_of, value):
            if item not in shapes:
                shapes.append(item)
        return shapes
    return type(value).__name__


def write(minor: str, mode: str, requests: Mapping[str, Any]) -> None:
    """Write the golden files of one mode."""
    for verb, body in requests.items():
        file = golden_file(minor, verb, mode)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(body, indent=1) + "\n")


def _replica(name: str, **spec: Any) -> dict[str, Any]:
    args = ["--model=some/model", "--tensor-parallel-size=8"]
    return gpu_pod(name, 8, namespace=_NAMESPACE, labels={"app": name}, args=args, **spec)


def _scrubbed(value: Any, uids: dict[str, str], key: str = "") -> Any:
    """Replace what the API server or the run makes up; the same uid always by the same one."""
    if isinstance(value, dict):
        return {k: _scrubbed(v, uids, k) for k, v in value.items() if k != "managedFields"}
    if isinstance(value, list):
        items = [_scrubbed(item, uids) for item in value]
        # The scheduler begins with another node each time.
        return sorted(items, key=_name_of) if key in ("NodeNames", "items") else items
    if not isinstance(value, str):
        return value
    if key == "resourceVersion":
        return "1"
    value = _UUID.sub(lambda found: uids.setdefault(found[0], f"00000000-0000-0000-0000-{len(uids) + 1:012}"), value)
    return _ADDRESS.sub("10.0.0.1", _TIME.sub("2026-01-01T00:00:00Z", value))


def _name_of(item: Any) -> str:
    return item if isinstance(item, str) else str(item["metadata"]["name"])


def main() -> None:
    """Record both modes of the minors that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minor", action="append", choices=minors(), help=f"(default: {DEFAULT_MINOR})")
    for minor in parser.parse_args().minor or [DEFAULT_MINOR]:
        for mode in MODES:
            with ControlPlane(minor) as plane, tempfile.TemporaryDirectory() as folder:
                write(minor, mode, record(plane, Path(folder), mode))


if __name__ == "__main__":
    main()
