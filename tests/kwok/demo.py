"""The story of `make demo` on a real kube-scheduler: the same nodes and pods, without Islander and with it.

Run as `python -m tests.kwok.demo`.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from planner.console import Terminal
from planner.demo import Scene, bundled
from planner.documents import read_documents
from planner.render.table import Column, Table
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.objects import namespace
from tests.kwok.controlplane.paths import ALL_PODS, NAMESPACES, path_of
from tests.kwok.controlplane.paths import pod as path_of_pod
from tests.kwok.controlplane.programs import DEFAULT_MINOR
from tests.kwok.controlplane.running_command import CommandError
from tests.kwok.controlplane.scheduler import STOCK_CONFIG, extender_entry

Json = dict[str, Any]

_DATA = Path(__file__).parents[2] / "planner" / "data"
# Each replica is tried by itself, as often as this, because the stock scheduler breaks ties by chance.
_TRIES = 3


def main(minor: str = DEFAULT_MINOR) -> int:
    """Tell the story on that Kubernetes minor; builds its control plane when it has not been built yet."""
    terminal = Terminal.of_this_process()
    try:
        with ControlPlane(minor, scheduler=None) as plane, tempfile.TemporaryDirectory() as folder:
            terminal.lines([f"Kubernetes {plane.minor}: etcd, kube-apiserver, kube-scheduler, kwok, on loopback."])
            with ExtenderProcess(Path(folder), plane.kubeconfig) as extender:
                with_islander = {"extenders": [extender_entry(extender.url, preemptVerb="preempt")]}
                _show_the_pending_replica(plane, with_islander, terminal)
                _show_where_replicas_go(plane, with_islander, terminal)
    except CommandError as problem:
        terminal.note(str(problem))
        return 1
    return 0


def _show_the_pending_replica(plane: ControlPlane, with_islander: Json, terminal: Terminal) -> None:
    with _cluster(plane, "four-nodes.yaml") as scene:
        plane.restart_scheduler(with_islander)
        pod, raw = scene.waiting[0]
        plane.api.create(_as_created(raw))
        message = plane.api.wait_unschedulable(pod.namespace, pod.name)
        terminal.lines(
            [
                "",
                "Free 2, 2, 1, 1, and a replica of four. What kube-scheduler says of it:",
                f"  {pod.key}",
                f"  {message}",
            ]
        )


def _show_where_replicas_go(plane: ControlPlane, with_islander: Json, terminal: Terminal) -> None:
    with _cluster(plane, "mixed-fleet.yaml") as scene:
        stock = _placements(plane, STOCK_CONFIG, scene)
        ours = _placements(plane, with_islander, scene)
    rows = tuple(
        (pod.key, str(pod.spec.requests.count("nvidia.com/gpu")), " ".join(stock[pod.key]), " ".join(ours[pod.key]))
        for pod, _ in scene.waiting
    )
    terminal.lines(["", f"The mixed fleet, each replica alone, {_TRIES} times:", ""])
    columns = (Column("REPLICA"), Column("GPUS", right=True), Column("STOCK KUBE-SCHEDULER"), Column("WITH ISLANDER"))
    terminal.table(Table(columns, rows))


def _placements(plane: ControlPlane, config: Json, scene: Scene) -> dict[str, list[str]]:
    """Return the nodes each waiting pod was bound to, by pod."""
    plane.restart_scheduler(config)
    found: dict[str, list[str]] = {pod.key: [] for pod, _ in scene.waiting}
    for pod, raw in scene.waiting * _TRIES:
        plane.api.create(_as_created(raw))
        found[pod.key].append(plane.api.wait_bound(pod.namespace, pod.name))
        path = path_of_pod(pod.namespace, pod.name)
        plane.api.delete(path, grace_seconds=0)
        plane.api.wait_gone(path)
    return found


@contextmanager
def _cluster(plane: ControlPlane, name: str) -> Iterator[Scene]:
    """Create the nodes and running pods of a bundled cluster, and remove them afterwards."""
    objects = [msgspec.json.decode(document.raw) for document in read_documents(str(_DATA / name)) if document.raw]
    nodes = [obj for obj in objects if obj["kind"] == "Node"]
    running = [_as_created(obj) for obj in objects if obj["kind"] == "Pod" and obj["spec"].get("nodeName")]
    spaces = {obj["metadata"]["namespace"] for obj in objects if obj["kind"] == "Pod"}
    known = {obj["metadata"]["name"] for obj in plane.api.items(NAMESPACES)}
    plane.api.create_all([namespace(space) for space in sorted(spaces - known)])
    plane.api.create_all(nodes + running)
    for pod in running:
        plane.api.wait_running(pod["metadata"]["namespace"], pod["metadata"]["name"])
    try:
        yield bundled(name)
    finally:
        plane.stop_schedulers()
        for obj in [*({**pod, "kind": "Pod"} for pod in plane.api.items(ALL_PODS)), *nodes]:
            path = path_of({"apiVersion": "v1", **obj})
            plane.api.delete(path, grace_seconds=0)
            plane.api.wait_gone(path)


def _as_created(pod: Json) -> Json:
    """Return a pod as a person would create it: with an image, and with no owner that does not exist."""
    metadata = {key: value for key, value in pod["metadata"].items() if key != "ownerReferences"}
    containers = [{"image": "vllm/vllm-openai:v0.11.0", **container} for container in pod["spec"]["containers"]]
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "containers": containers}}


if __name__ == "__main__":
    sys.exit(main(os.environ.get("ISLANDER_KUBE_MINOR") or DEFAULT_MINOR))
