"""Parallel sizes are read wherever people write them, and mismatches are said (G29, G30)."""

from __future__ import annotations

import pytest

from islander.cluster import names
from islander.cluster.pod import Container, ContainerKind, Pod
from islander.cluster.vllm import ParallelSizes, parallel_sizes, read_container
from islander.cluster.vllm_findings import Finding, Severity, parallel_findings
from tests.builders import a_container, a_pod


def running(*argv: str, gpus: int = 8, env: dict[str, str] | None = None, image: str = "") -> Pod:
    return a_pod(containers=[a_container(gpus=gpus, argv=argv, env=env, image=image)])


def sizes(*argv: str, gpus: int = 8, env: dict[str, str] | None = None) -> ParallelSizes:
    return parallel_sizes(running(*argv, gpus=gpus, env=env))


def findings(*argv: str, gpus: int, heads: int | None = None) -> list[tuple[str, Severity]]:
    return [(f.code, f.severity) for f in parallel_findings(running(*argv, gpus=gpus), attention_heads=heads)]


def only(pod: Pod) -> Finding:
    (finding,) = parallel_findings(pod)
    return finding


SERVE = ("vllm", "serve", "some/model")


@pytest.mark.parametrize(
    "argv",
    [
        (*SERVE, "--tensor-parallel-size", "4"),
        (*SERVE, "--tensor-parallel-size=4"),
        (*SERVE, "--tensor_parallel_size=4"),
        (*SERVE, "--tensor_parallel_size", "4"),
        (*SERVE, "-tp", "4"),
        (*SERVE, "-tp=4"),
        (*SERVE, "-tp", "2", "-tp", "4"),
        ("/opt/venv/bin/vllm", "serve", "m", "-tp", "4"),
        ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m", "-tp", "4"),
        ("python3", "-u", "-m", "huggingfaceserver", "--tensor-parallel-size=4"),
        ("python", "/app/vllm/entrypoints/openai/api_server.py", "-tp", "4"),
        ("--model", "m", "--tensor-parallel-size", "4"),
        ("--model=m", "-tp=4"),
        ("some/model", "-tp", "4"),
        ("/entrypoint.sh", "--tensor-parallel-size", "4"),
        ("env", "A=b", "exec", "vllm", "serve", "m", "-tp", "4"),
        ("tini", "-g", "--", "vllm", "serve", "m", "-tp", "4"),
        ("sh", "-c", "vllm serve m --tensor-parallel-size 4"),
        ("/bin/bash", "-lc", "exec vllm serve m -tp 4"),
        ("bash", "-euo", "pipefail", "-c", "cd /models && vllm serve m -tp 4"),
        ("bash", "--login", "-c", "sleep 1; A=b vllm serve m \\\n  --port 80 \\\n  -tp 4"),
        ("sh", "-c", "TP=4\nvllm serve m -tp $TP"),
        ("sh", "-c", "vllm serve m -tp ${TP:-4}"),
        ("sh", "-c", 'exec "$@"', "--", "vllm", "serve", "m", "-tp", "4"),
        ("sh", "-c", "bash -c 'vllm serve m -tp 4'"),
        ("sh", "-c", "if [ -f x ]; then vllm serve m -tp 4; fi"),
        ("sh", "-c", "# --tensor-parallel-size=2\nvllm serve m -tp 4 # -tp 8"),
        ("sh", "-c", "echo vllm serve -tp 8; vllm serve m -tp 4 > log 2>&1"),
        ("sh", "-c", "vllm serve m '--tensor-parallel-size' \"4\""),
        ("sh", "-c", "uv run vllm serve m -tp 4 & wait"),
    ],
)
def test_the_tensor_parallel_size_is_read_from_every_way_to_start_vllm(argv: tuple[str, ...]) -> None:
    assert (sizes(*argv).tensor, sizes(*argv).source) == (4, "args")


@pytest.mark.parametrize(
    "argv",
    [
        (),
        SERVE,
        ("sh", "-c", "# vllm serve m --tensor-parallel-size=4\nsleep 1"),
        ("sh", "-c", "echo --tensor-parallel-size=4"),
        ("echo", "vllm", "serve", "-tp", "4"),
        ("sh", "-c", "mkdir -pp 4 && train"),
        ("sh", "-c", "cmd -tp 4"),
        ("sh",),
        ("sh", "-c"),
        ("sh", "-c", ""),
    ],
)
def test_what_only_looks_like_a_size_is_not_one(argv: tuple[str, ...]) -> None:
    assert sizes(*argv) == ParallelSizes()


def test_all_directions_of_parallelism_are_read() -> None:
    found = sizes(*SERVE, "-tp", "2", "-pp", "3", "-dp", "4", "-dpl", "2", "--nnodes", "2", "-pcp", "1")
    assert (found.tensor, found.pipeline, found.data, found.data_local, found.nodes) == (2, 3, 4, 2, 2)
    assert (found.world, found.gpus) == (6, 6)


def test_one_of_several_data_parallel_ranks_runs_one_engine() -> None:
    found = sizes(*SERVE, "-tp", "2", "-dp", "4", "--data-parallel-rank", "1")
    assert (found.data, found.data_local, found.gpus) == (4, 1, 2)


def test_variables_of_the_server_count_when_no_flag_says_it() -> None:
    env = {"TENSOR_PARALLEL_SIZE": "4", "PIPELINE_PARALLEL_SIZE": "2"}
    found = sizes("python3", "-m", "huggingfaceserver", env=env)
    assert (found.tensor, found.pipeline, found.source) == (4, 2, "env")
    assert sizes(*SERVE, "-tp", "8", env=env).tensor == 8


def test_references_to_variables_are_replaced_as_kubelet_does() -> None:
    assert sizes(*SERVE, "-tp", "$(SIZE)", env={"SIZE": "4"}).tensor == 4
    assert sizes("sh", "-c", "vllm serve m -tp $(SIZE)", env={"SIZE": "4"}).tensor == 4
    assert sizes("sh", "-c", "vllm serve m -tp $SIZE", env={"SIZE": "4"}).tensor == 4


@pytest.mark.parametrize("argv", [(*SERVE, "-tp", "$(SIZE)"), ("sh", "-c", "vllm serve m -pp 2 -tp $(nvidia-smi -L)")])
def test_a_size_that_only_the_running_container_knows_is_taken_as_all_its_gpus(argv: tuple[str, ...]) -> None:
    found = sizes(*argv, gpus=8)
    assert found.tensor * found.pipeline == 8
    assert [(f.code, f.severity) for f in parallel_findings(running(*argv))] == [("SIZE_NOT_KNOWN", Severity.INFO)]


def test_the_size_of_a_group_is_read_from_its_controller() -> None:
    found = sizes(*SERVE, "-tp", "8", "-pp", "2", env={"LWS_GROUP_SIZE": "2"})
    assert (found.nodes, found.gpus) == (2, 8)


def test_the_annotation_overrides_the_container() -> None:
    pod = a_pod(gpus=8, tp=4, annotations={names.TENSOR_PARALLEL_SIZE: "2"})
    found = parallel_sizes(pod)
    assert (found.tensor, found.source, found.tensor_of("vllm")) == (2, "annotation", 2)


@pytest.mark.parametrize("text", ["", "0", "-1", "four", "4.0", "99999999999"])
def test_an_annotation_that_is_no_size_is_a_warning_and_counts_as_absent(text: str) -> None:
    pod = a_pod(gpus=4, tp=4, annotations={names.TENSOR_PARALLEL_SIZE: text})
    assert parallel_sizes(pod).source == "args"
    assert (only(pod).code, only(pod).severity) == ("ANNOTATION_IGNORED", Severity.WARNING)


def test_every_container_has_its_own_size() -> None:
    """G03."""
    pod = a_pod(containers=[a_container("a", gpus=2, tp=2), a_container("b", gpus=1)])
    found = parallel_sizes(pod)
    assert (found.tensor, found.tensor_of("a"), found.tensor_of("b")) == (2, 2, 1)


def test_init_containers_say_nothing_of_the_engine() -> None:
    init = a_container("warm-up", gpus=8, tp=8, kind=ContainerKind.INIT)
    assert parallel_sizes(a_pod(containers=[init, a_container(gpus=2, tp=2)])).tensor == 2


def test_too_few_gpus_are_an_error() -> None:
    """G29 a."""
    pod = running(*SERVE, "--tensor-parallel-size=4", gpus=1)
    assert (only(pod).code, only(pod).severity) == ("GPUS_MISSING", Severity.ERROR)
    assert "3 missing" in only(pod).message
    assert only(pod).field == "spec.containers[vllm]"


def test_idle_gpus_are_a_warning() -> None:
    """G29 b."""
    pod = running(*SERVE, "-tp", "2", gpus=4)
    assert (only(pod).code, only(pod).severity) == ("GPUS_IDLE", Severity.WARNING)
    assert "2 stay idle" in only(pod).message


def test_a_script_that_uses_all_gpus_is_fine() -> None:
    """G29 c."""
    assert findings("sh", "-c", "vllm serve m --tensor-parallel-size 8", gpus=8) == []


def test_a_size_that_is_not_set_is_a_warning() -> None:
    """G29 d."""
    expected = [("TENSOR_PARALLEL_NOT_SET", Severity.WARNING)]
    assert findings(*SERVE, gpus=2) == expected
    assert findings("--model", "m", "--max-model-len", "8192", gpus=2) == expected
    image = running(gpus=2, image="registry.example/vllm/vllm-openai:v1")
    assert [(f.code, f.severity) for f in parallel_findings(image)] == expected
    assert findings("python", "train.py", gpus=2) == []


def test_heads_must_be_divisible_by_the_tensor_parallel_size() -> None:
    """G29 e."""
    assert findings(*SERVE, "-tp", "6", gpus=6, heads=40) == [("HEADS_NOT_DIVISIBLE", Severity.ERROR)]
    assert findings(*SERVE, "-tp", "5", gpus=5, heads=40) == []


@pytest.mark.parametrize("other", ["-pp", "-dp"])
def test_pipeline_and_data_parallel_sizes_multiply(other: str) -> None:
    """G29 f and g."""
    assert findings(*SERVE, "-tp", "2", other, "2", gpus=4) == []


def test_a_comment_in_a_script_is_no_flag() -> None:
    """G29 h."""
    script = "#!/bin/sh\n# vllm serve m --tensor-parallel-size=4\nvllm serve m --port 8000\n"
    assert findings("sh", "-c", script, gpus=1) == []


def test_a_group_of_pods_shares_one_engine_without_a_mismatch() -> None:
    """G30, the parsing part: TP over pods is a warning, PP over pods is fine."""
    across = running(*SERVE, "-tp", "2", gpus=1, env={"LWS_GROUP_SIZE": "2"})
    assert (only(across).code, only(across).severity) == ("TENSOR_PARALLEL_ACROSS_PODS", Severity.WARNING)
    assert findings(*SERVE, "-pp", "2", "--nnodes", "2", gpus=1) == []
    ray = "ray start --head && vllm serve m -tp 8 -pp 2"
    assert findings("sh", "-c", ray, gpus=8) == []


@pytest.mark.parametrize("value", ["0", "x", "-2", "1.5", ""])
def test_a_size_that_is_no_number_is_an_error(value: str) -> None:
    codes = findings(*SERVE, f"--pipeline-parallel-size={value}", gpus=1)
    assert codes == ([("SIZE_NOT_A_NUMBER", Severity.ERROR)] if value else [("SIZE_NOT_KNOWN", Severity.INFO)])


def test_an_engine_is_not_split_over_mig_devices() -> None:
    pod = a_pod(containers=[a_container(gpus=2, tp=2, gpu_resource="nvidia.com/mig-1g.10gb")])
    assert (only(pod).code, only(pod).severity) == ("PARALLEL_OVER_MIG", Severity.ERROR)


def test_several_engines_in_one_container_are_not_judged() -> None:
    script = "vllm serve a -tp 1 --port 1 & vllm serve b -tp 1 --port 2 & wait"
    assert findings("sh", "-c", script, gpus=2) == []
    assert read_container(Container("c", argv=("sh", "-c", script))).several


def test_sizes_that_may_stand_in_a_file_are_not_judged() -> None:
    assert findings(*SERVE, "--config", "/etc/vllm.yaml", gpus=2) == []


def test_a_finding_against_the_annotation_is_said() -> None:
    pod = a_pod(gpus=4, annotations={names.TENSOR_PARALLEL_SIZE: "2"})
    assert only(pod).code == "GPUS_IDLE"
