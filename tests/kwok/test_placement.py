"""Where pods go when the real kube-scheduler asks the extender: islands stay whole for those who need them."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from islander.cluster import names
from islander.hardware.islands import is_island
from islander.hardware.links import mask_of
from islander.hardware.presets import PRESETS
from tests.kwok.controlplane.api import Json
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.objects import gpu_node, plain_node
from tests.kwok.islander_bench import IslanderBench, bridged_node, dgx_1v_node, nvswitch_node

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("node", "gpus", "broken", "intact"),
    [
        pytest.param(bridged_node, 2, (0, 2, 4, 6), range(5), id="bridged-pairs"),
        pytest.param(dgx_1v_node, 4, (3, 7), (4, 5, 6), id="dgx-1v"),
    ],
)
def test_replica_goes_to_the_node_with_an_intact_island(
    bench: IslanderBench, node: Callable[[str], Json], gpus: int, broken: Sequence[int], intact: Sequence[int]
) -> None:
    # The wrong node comes first by name and has more free GPUs: only the links speak for the other.
    bench.set_up([node("a-broken"), node("b-intact")], {"a-broken": broken, "b-intact": intact})

    assert bench.place(bench.replica("replica", gpus)) == "b-intact"

    links = bench.kubelet.free_masks()["b-intact"][0].links
    assert is_island(links, mask_of(bench.kubelet.gpus_of_pod(bench.namespace, "replica")))


@pytest.mark.parametrize(
    ("node", "gpus", "broken", "intact"),
    [
        # As many GPUs are free on both; only the links between them differ.
        pytest.param(bridged_node, 2, (0, 2, 4, 6), (0, 1, 2, 3), id="bridged-pairs"),
        pytest.param(dgx_1v_node, 4, (3, 7), (4, 5), id="dgx-1v"),
    ],
)
def test_single_gpu_pod_goes_to_the_node_whose_islands_are_broken(
    bench: IslanderBench, node: Callable[[str], Json], gpus: int, broken: Sequence[int], intact: Sequence[int]
) -> None:
    bench.set_up([node("a-intact"), node("b-broken")], {"a-intact": intact, "b-broken": broken})

    assert bench.place(bench.replica("single")) == "b-broken"
    # The islands are still there for those who need them.
    assert bench.place(bench.replica("replica", gpus)) == "a-intact"


def test_replica_takes_the_half_free_nvswitch_node_and_leaves_the_whole_one(bench: IslanderBench) -> None:
    nodes = [nvswitch_node("a-whole"), nvswitch_node("b-half"), nvswitch_node("c-six")]
    bench.set_up(nodes, {"b-half": range(4), "c-six": range(2)})

    assert bench.place(bench.replica("four", 4)) == "b-half"
    assert bench.place(bench.replica("eight", 8)) == "a-whole"


def test_single_gpu_pods_fill_the_broken_nvswitch_node_first(bench: IslanderBench) -> None:
    nodes = [nvswitch_node("a-whole"), nvswitch_node("b-half"), nvswitch_node("c-broken")]
    bench.set_up(nodes, {"b-half": range(4), "c-broken": range(5)})

    assert [bench.place(bench.replica(f"single-{number}")) for number in range(3)] == ["c-broken"] * 3
    assert bench.place(bench.replica("four", 4)) == "b-half"
    assert bench.place(bench.replica("eight", 8)) == "a-whole"


def test_single_gpu_pods_leave_whole_pairs_for_the_replicas_that_follow(bench: IslanderBench) -> None:
    """G23: four pods of one GPU, then two of two, on nodes with two bridged pairs each."""
    four = {"product": "NVIDIA-A100-PCIE-40GB", "annotations": {names.HARDWARE: "a100-pcie-4"}}
    bench.set_up([gpu_node("node-1", 4, **four), gpu_node("node-2", 4, **four)])

    singles = {bench.place(bench.replica(f"single-{number}")) for number in range(4)}
    assert len(singles) == 1

    for number in range(2):
        assert bench.place(bench.replica(f"pair-{number}", 2)) not in singles
        picked = bench.kubelet.gpus_of_pod(bench.namespace, f"pair-{number}")
        assert is_island(PRESETS["a100-pcie-4"].links, mask_of(picked))


def test_replica_finds_the_bridged_pair_whose_gpus_are_not_neighbours(bench: IslanderBench) -> None:
    """G22: the pairs are (0,2), (1,3), (4,5), (6,7); free are {0,1}, {1,3,4} and {0,2}."""
    crossed = {"product": "NVIDIA-A100-PCIE-40GB", "annotations": {names.HARDWARE: "a100-pcie-8-crossed"}}
    nodes = [gpu_node(name, **crossed) for name in ("a-unlinked", "b-linked", "c-one-more")]
    held = {"a-unlinked": range(2, 8), "b-linked": (1, 3, 4, 5, 6, 7), "c-one-more": (0, 2, 5, 6, 7)}
    bench.set_up(nodes, held)

    placed = {bench.place(bench.replica(f"pair-{number}", 2)): f"pair-{number}" for number in range(3)}

    picked = {node: bench.kubelet.gpus_of_pod(bench.namespace, pod) for node, pod in placed.items()}
    assert picked == {"a-unlinked": (0, 1), "b-linked": (0, 2), "c-one-more": (1, 3)}
    assert placed["a-unlinked"] == "pair-2", "the node without a linked pair comes last"


def test_scheduler_accepts_the_printed_configuration_and_sends_only_gpu_pods(bench: IslanderBench) -> None:
    bench.plane.restart_scheduler(_printed_configuration(bench.extender))
    held = {"b-broken": (0, 2, 4, 6), "c-intact": range(4)}
    bench.set_up([plain_node("a-plain"), bridged_node("b-broken"), bridged_node("c-intact")], held)
    filtered, scored = _calls(bench.extender, "filter"), _calls(bench.extender, "prioritize")

    assert bench.place(bench.replica("replica", 2)) == "c-intact"
    assert _calls(bench.extender, "filter") == filtered + 1
    assert _calls(bench.extender, "prioritize") == scored + 1

    bench.api.create(bench.replica("web", 0))
    bench.api.wait_bound(bench.namespace, "web")
    assert _calls(bench.extender, "filter") == filtered + 1


def test_printed_configuration_that_sees_all_pods_sends_them_all(bench: IslanderBench) -> None:
    bench.plane.restart_scheduler(_printed_configuration(bench.extender, "--see-all-pods"))
    bench.api.create_all([plain_node("a-plain"), nvswitch_node("b-gpus")])
    filtered = _calls(bench.extender, "filter")

    bench.api.create(bench.replica("web", 0))

    bench.api.wait_bound(bench.namespace, "web")
    assert _calls(bench.extender, "filter") == filtered + 1


def _calls(extender: ExtenderProcess, verb: str) -> float:
    return extender.metric("islander_requests_total", verb=verb, code="200")


def _printed_configuration(extender: ExtenderProcess, *flags: str) -> Json:
    command = [sys.executable, "-m", "extender", "--config", str(extender.config_file), "--print-scheduler-config"]
    printed = subprocess.run([*command, *flags], cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    config: Json = YAML(typ="safe", pure=True).load(StringIO(printed))
    return config
