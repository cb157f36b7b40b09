"""Carries a plan of moves out, as a careful person with `kubectl` would.

Nothing reserves a node for one pod yet, so cordons steer: while a replica moves, its target is the only open node, and
nobody takes the room that it has left.
"""

from collections.abc import Collection

from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Json, is_ready
from tests.kwok.controlplane.waiting import wait_until
from tests.kwok.islander_bench import IslanderBench


class PlanDriver:
    """Carries out the steps of one plan.

    Parameters
    ----------
    plan
        A `MovePlan`, as `islander plan moves -o json` prints it.
    """

    def __init__(self, bench: IslanderBench, plan: Json):
        self._bench = bench
        self._plan = plan
        self._left: dict[str, Json] = {}
        self._known: dict[str, set[str]] = {}

    def run(self) -> dict[str, str]:
        """Move all, wave by wave; return the name of each replacement by the id of its step."""
        replacements = {}
        for step in sorted(self._plan["steps"], key=lambda step: step["wave"]):
            assert all(needed in replacements for needed in step["dependsOn"]), step
            self.wait_allowed(step)
            self.evict(step)
            replacements[step["id"]] = self.land(step)
        open_all(self._bench)
        return replacements

    def wait_allowed(self, step: Json) -> None:
        """Wait until the budget of a step allows its disruption."""
        if not step["pdb"]:
            return
        namespace, _, name = step["pdb"].partition("/")
        path = f"{paths.collection('policy/v1', 'PodDisruptionBudget', namespace)}/{name}"
        needed = step["preconditions"]["disruptionsAllowed"]
        wait_until(
            lambda: self._bench.api.get(path)["status"]["disruptionsAllowed"] >= needed,
            what=lambda: f"{step['pdb']} allows {needed}: {self._bench.api.get(path)['status']}",
        )

    def evict(self, step: Json) -> None:
        """Close all nodes and evict the pod of a step, if it is still the one that was planned for.

        Raises
        ------
        ApiError
            Code 429 when the budget does not allow it, 409 when the pod has another uid.
        """
        namespace, name = _split(step["pod"])
        open_only(self._bench, ())
        pods = self._bench.api.items(paths.pods(namespace))
        self._known[step["id"]] = {pod["metadata"]["uid"] for pod in pods}
        self._left[step["id"]] = next(pod for pod in pods if pod["metadata"]["name"] == name)
        self._bench.api.evict(namespace, name, uid=step["uid"])

    def land(self, step: Json, *, node: str = "") -> str:
        """Open the target (or another node), wait until the replacement is Running and Ready there; return its name."""
        namespace, _ = _split(step["pod"])
        target = node or step["to"]
        open_only(self._bench, [target])
        left = self._left[step["id"]]

        def replacement() -> str:
            pods = self._bench.api.items(paths.pods(namespace))
            if any(pod["metadata"]["uid"] == left["metadata"]["uid"] for pod in pods):
                return ""
            new = [pod for pod in pods if pod["metadata"]["uid"] not in self._known[step["id"]]]
            return next((pod["metadata"]["name"] for pod in new if _same_owner(pod, left) and is_ready(pod)), "")

        def told() -> str:
            pods = self._bench.api.items(paths.pods(namespace))
            found = {pod["metadata"]["name"]: pod["status"] for pod in pods if _same_owner(pod, left)}
            return f"replacement of {step['pod']} Running and Ready on {target}: {found}"

        name = wait_until(replacement, what=told)
        assert self._bench.wait_placed(name) == target
        return name


def open_only(bench: IslanderBench, nodes: Collection[str]) -> None:
    """Cordon all nodes but these, and wait until the extender knows.

    kube-scheduler may hear of a cordon later than of a pod; the extender refuses a cordoned node then.
    """
    for node in bench.api.items(paths.NODES):
        closed = node["metadata"]["name"] not in nodes
        if node["spec"].get("unschedulable", False) != closed:
            bench.api.patch(paths.path_of({"apiVersion": "v1", "kind": "Node", **node}), _cordon(closed))
    wait_until(
        lambda: _open_nodes(bench) == set(nodes), what=lambda: f"only {sorted(nodes)} open: {_open_nodes(bench)}"
    )


def open_all(bench: IslanderBench) -> None:
    """Uncordon all nodes, and wait until the extender knows."""
    open_only(bench, [node["metadata"]["name"] for node in bench.api.items(paths.NODES)])


def _open_nodes(bench: IslanderBench) -> set[str]:
    return {node["name"] for node in bench.extender.get_json("/status")["nodes"] if node["schedulable"]}


def _cordon(closed: bool) -> Json:
    return {"spec": {"unschedulable": True if closed else None}}


def _same_owner(pod: Json, other: Json) -> bool:
    return bool(pod["metadata"].get("ownerReferences") == other["metadata"].get("ownerReferences"))


def _split(key: str) -> tuple[str, str]:
    namespace, _, name = key.partition("/")
    return namespace, name
