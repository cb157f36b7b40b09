"""Plays the same pods, coming and going, under the stock kube-scheduler, its MostAllocated scoring, and Islander.

Everything is real but the hardware. The test of it is short, `make bench` plays longer; docs/benchmarks.md shows both.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from islander.cluster import names
from islander.hardware.islands import is_island
from islander.hardware.links import mask_of
from islander.hardware.presets import PRESETS
from tests.bench.churn import MIXES, Arrival, Tally, stream
from tests.kwok.controlplane import paths
from tests.kwok.controlplane.api import Api
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.objects import GPU, gpu_node, namespace
from tests.kwok.fake_kubelet import FakeKubelet
from tests.kwok.replay import ExtenderView, Replay, soon

NODES = 32
WARM_UP = 100
SWITCHED, BRIDGED = "hgx-h100-8", "a100-pcie-8"

STOCK, MOST_ALLOCATED, ISLANDER = "stock", "MostAllocated", "Islander"
# All weight on the resource that is short.
_SCORING = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]}}
_MOST_ALLOCATED = {
    "profiles": [
        {"schedulerName": "default-scheduler", "pluginConfig": [{"name": "NodeResourcesFit", "args": _SCORING}]}
    ]
}


@dataclass
class Outcome:
    """What came of one policy over all streams; `pairs` counts the TP=2 pods by whether NVLink joins their GPUs."""

    tally: Tally = field(default_factory=Tally)
    pairs: Counter[bool] = field(default_factory=Counter)

    @property
    def linked_share(self) -> float:
        """TP=2 pods on GPUs that NVLink joins, in percent of those that were admitted."""
        return 100.0 * self.pairs[True] / max(1, self.pairs.total())


class Headline:
    """Plays streams under each policy, always beginning with empty nodes. `folder` is where the extender writes."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane = plane
        self._folder = folder

    def on_switched_nodes(self, seeds: Sequence[int], steps: int) -> dict[str, Outcome]:
        """Nodes on which every set of GPUs is an island: what counts is whether large pods still find room.

        The stock scheduler is so far behind that the first stream is enough for it.
        """
        streams = [stream(seed, MIXES["large"], nodes=NODES, steps=steps) for seed in seeds]
        outcomes = {}
        for policy in (STOCK, MOST_ALLOCATED, ISLANDER):
            outcomes[policy] = Outcome()
            with self._nodes(SWITCHED, "NVIDIA-H100-80GB-HBM3"), ExitStack() as running:
                view = self._schedule_by(policy, running)
                for arrivals in streams[:1] if policy == STOCK else streams:

                    def settle(alive: Iterable[str], view: ExtenderView | None = view) -> None:
                        if view is not None:
                            view.wait_for(dict.fromkeys(alive))

                    replay = Replay(self._plane.api, policy.lower(), _tensor_parallel, settle=settle)
                    outcomes[policy].tally.add(replay.run(arrivals, nodes=NODES, warm_up=WARM_UP))
        return outcomes

    def on_bridged_nodes(self, seeds: Sequence[int], steps: int) -> dict[str, Outcome]:
        """Nodes on which only pairs are islands: what counts is whether kubelet hands out a pair."""
        streams = {seed: stream(seed, MIXES["serve"], nodes=NODES, steps=steps) for seed in seeds}
        outcomes = {}
        for policy in (STOCK, MOST_ALLOCATED, ISLANDER):
            outcomes[policy] = Outcome()
            with self._nodes(BRIDGED, "NVIDIA-A100-80GB-PCIe"), ExitStack() as running:
                view = self._schedule_by(policy, running)
                for seed, arrivals in streams.items():
                    self._play_with_kubelets(outcomes[policy], policy.lower(), seed, arrivals, view)
        return outcomes

    def _play_with_kubelets(
        self, outcome: Outcome, space: str, seed: int, arrivals: Sequence[Arrival], view: ExtenderView | None
    ) -> None:
        api, links = self._plane.api, PRESETS[BRIDGED].links
        with FakeKubelet(api, seed=seed) as kubelet:

            def picked(name: str) -> tuple[int, ...]:
                return soon(lambda: kubelet.gpus_of_pod(space, name), f"GPUs of {name}")

            def settle(alive: Iterable[str]) -> None:
                if view is not None:
                    view.wait_for({name: picked(name) for name in alive})

            def look(name: str, gpus: int) -> None:
                if gpus == 2:
                    outcome.pairs[is_island(links, mask_of(picked(name)))] += 1

            replay = Replay(api, space, _pairs, settle=settle, admitted=look)
            outcome.tally.add(replay.run(arrivals, nodes=NODES, warm_up=WARM_UP))
            assert kubelet.refused == []

    @contextmanager
    def _nodes(self, hardware: str, product: str) -> Iterator[None]:
        api, annotations = self._plane.api, {names.HARDWARE: hardware}
        api.create_all(
            gpu_node(f"gpu-{number:02}", product=product, annotations=annotations) for number in range(NODES)
        )
        try:
            yield
        finally:
            self._plane.stop_schedulers()
            api.delete(paths.NODES)

    def _schedule_by(self, policy: str, running: ExitStack) -> ExtenderView | None:
        _have_namespace(self._plane.api, policy.lower())
        if policy != ISLANDER:
            self._plane.restart_scheduler(_MOST_ALLOCATED if policy == MOST_ALLOCATED else {})
            return None
        extender = running.enter_context(ExtenderProcess(self._folder, self._plane.kubeconfig))
        self._plane.restart_scheduler(_printed_config(extender))
        return ExtenderView(extender.url, policy.lower())


def _have_namespace(api: Api, name: str) -> None:
    if api.find(f"{paths.NAMESPACES}/{name}") is None:
        api.create(namespace(name))


def _printed_config(extender: ExtenderProcess) -> dict[str, Any]:
    """Return what the extender prints for kube-scheduler's configuration file."""
    command = [sys.executable, "-m", "extender", "--config", str(extender.config_file), "--print-scheduler-config"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    config: dict[str, Any] = YAML(typ="safe").load(printed.stdout)
    return config


def _tensor_parallel(gpus: int) -> list[str]:
    return [f"--tensor-parallel-size={gpus}"]


def _pairs(gpus: int) -> list[str]:
    """Tensor parallel over a bridge, pipeline parallel between pairs."""
    return [f"--tensor-parallel-size={min(gpus, 2)}", f"--pipeline-parallel-size={max(1, gpus // 2)}"]


def show(title: str, outcomes: dict[str, Outcome]) -> None:
    """Print a table as it stands in docs/benchmarks.md."""
    columns = ["policy", "8-GPU pods admitted", "GPU-weighted admitted", "stuck arrivals"]
    linked = any(outcome.pairs for outcome in outcomes.values())
    print(f"\n\n{title}")
    print("| " + " | ".join(columns + ["TP=2 pods on an NVLinked pair"] * linked) + " |")
    print("|---" * (len(columns) + linked) + "|")
    for policy, outcome in outcomes.items():
        tally, pairs = outcome.tally, outcome.pairs
        cells = [
            policy,
            f"{tally.share(8):.1f} % ({tally.admitted[8]} of {tally.offered[8]})",
            f"{tally.gpu_share:.1f} %",
            str(tally.stuck),
        ]
        cells += [f"{outcome.linked_share:.1f} % ({pairs[True]} of {pairs.total()})"] * linked
        print("| " + " | ".join(cells) + " |", flush=True)
