"""An extender in memory: the real application over the real policy, with a clock and a binder that the test holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from werkzeug.test import TestResponse

from extender.bind import Bindings
from extender.cache import ClusterCache
from extender.decide import Decider
from extender.demand import ObservedDemand
from extender.gauges import ClusterGauges
from extender.holds import SoftHolds
from extender.metrics import Metrics
from extender.web import Services, create_app
from extender.wire import BindingArgs
from islander.cluster import names
from islander.cluster.devices import ResourceSlice
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.kube.store import KindStatus
from islander.policy.settings import DEFAULT_MIX, PolicySettings
from tests.builders import a_snapshot, pod_object

MAX_BODY_BYTES = 1 << 20


@dataclass
class Clock:
    """A steady clock that stands still until a test moves it."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class FakeBinder:
    """A binder that remembers what it was asked, and refuses pods by name."""

    refuse: dict[str, str] = field(default_factory=dict)
    asked: list[BindingArgs] = field(default_factory=list)

    def bind(self, args: BindingArgs) -> str:
        self.asked.append(args)
        return self.refuse.get(args.name, "")


@dataclass
class FakeSource:
    """A cluster source whose readiness the test sets."""

    content: ClusterSnapshot
    waits_for: Sequence[str] = ()

    def missing(self) -> Sequence[str]:
        return self.waits_for

    def snapshot(self) -> ClusterSnapshot:
        return self.content

    def age_seconds(self) -> float:
        return 1.5

    def kinds(self) -> Sequence[KindStatus]:
        return ()


class InMemoryExtender:
    """The application, and what a test may look at or change behind its back."""

    def __init__(
        self,
        *objects: Node | Pod | ResourceSlice,
        settings: PolicySettings | None = None,
        soft_hold_s: float = 2.0,
        binder: FakeBinder | None = None,
        waits_for: Sequence[str] = (),
        cache: ClusterCache | None = None,
    ) -> None:
        self.clock = Clock()
        self.source = FakeSource(a_snapshot(*objects), waits_for)
        self.settings = settings or PolicySettings(mix=DEFAULT_MIX)
        self.holds = SoftHolds(soft_hold_s)
        self.cache = cache or ClusterCache(self.settings.gpu_resources, self.holds.settle)
        self.cache.load(self.source.content)
        mix = ObservedDemand(self.settings).mix
        self.metrics = Metrics(
            ClusterGauges(self.cache, self.source, self.settings, mix), lambda: self.holds.count(self.clock.now_s)
        )
        self.services = Services(
            decider=Decider(self.cache, self.holds, self.settings, mix, self.clock),
            source=self.source,
            metrics=self.metrics,
            settings=self.settings,
            mix=ObservedDemand(self.settings).mix_seen,
            bindings=Bindings(self.cache, binder, self.settings, mix, self.clock) if binder else None,
        )
        self.app = create_app(self.services, max_body_bytes=MAX_BODY_BYTES)

    def see(self, obj: Node | Pod, before: Node | Pod | None = None) -> None:
        """Let the watch show an object."""
        key = obj.name if isinstance(obj, Node) else obj.key
        self.cache.on_change(type(obj).__name__, key, before, obj)

    def lose(self, obj: Node | Pod) -> None:
        """Let the watch show that an object is gone."""
        key = obj.name if isinstance(obj, Node) else obj.key
        self.cache.on_change(type(obj).__name__, key, obj, None)

    def post(self, verb: str, body: Any) -> TestResponse:
        """Send a body: bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.app.test_client().post(f"/{verb}", data=data, content_type="application/json")

    def filter(self, pod: dict[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
        """Return the answer of filter for node names."""
        return self._answer("filter", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})

    def prioritize(self, pod: dict[str, Any], nodes: Sequence[str]) -> dict[str, int]:
        """Return the score of each node."""
        answer = self._answer("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})
        assert [entry["Host"] for entry in answer] == list(nodes)
        return {entry["Host"]: entry["Score"] for entry in answer}

    def preempt(self, pod: dict[str, Any], victims: dict[str, Sequence[str]]) -> dict[str, list[str]]:
        """Return the UIDs of the victims of each node that is left, in the form of names only."""
        sent = {node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for node, uids in victims.items()}
        answer = self._answer("preempt", {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": sent})
        kept: dict[str, Any] = answer["NodeNameToMetaVictims"]
        return {node: [pod["UID"] for pod in victims["Pods"]] for node, victims in kept.items()}

    def bind(self, pod: dict[str, Any], node: str) -> str:
        """Return the error of bind; empty for success."""
        metadata = pod["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
        }
        error: str = self._answer("bind", body)["Error"]
        return error

    def _answer(self, verb: str, body: Any) -> Any:
        response = self.post(verb, body)
        assert response.status_code == 200, response.text
        assert response.content_length == len(response.data)
        return response.get_json()


def asking(
    name: str = "asking",
    gpus: int | str | None = 1,
    *,
    tp: int | None = None,
    topology: str | None = None,
    priority: int = 0,
    **fields: Any,
) -> dict[str, Any]:
    """A pending pod as kube-scheduler sends it; `tp` makes it a vLLM server of that tensor parallel size."""
    pod = pod_object(name, gpus=gpus, annotations={names.TOPOLOGY: topology} if topology else {}, **fields)
    pod["spec"]["priority"] = priority
    if tp is not None:
        pod["spec"]["containers"][0]["args"] = ["vllm", "serve", "some/model", "--tensor-parallel-size", str(tp)]
    return pod
