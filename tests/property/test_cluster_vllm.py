"""Whatever a container is started with, reading it gives sizes and never an error."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from islander.cluster.shell import simple_commands
from islander.cluster.vllm import parallel_sizes
from islander.cluster.vllm_findings import parallel_findings
from tests.builders import a_container, a_pod

PIECES = (
    *("vllm", "serve", "sh", "bash", "-c", "-lc", "-o", "-tp", "-tp=4", "--tensor-parallel-size", "-pp", "-dp", "-n"),
    *("2", "0", "$N", "${N", "${N:-", "$(", "`", "'", '"', "\\", "#", "&&", ";", "|", "\n", ">", "2>&1", "(", ")"),
    *("$(N)", "$$", "$@", "$1", "-m", "vllm.entrypoints", "--", "=", "-", "exec", "env", "N=3", "ray", "start", "\0"),
)
scripts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=12).map(" ".join)
words = st.one_of(st.sampled_from(PIECES), st.text(max_size=8), scripts)


@given(st.lists(words, max_size=10), st.dictionaries(st.sampled_from(["N", "TENSOR_PARALLEL_SIZE"]), words))
def test_any_words_give_sizes_and_findings(argv: list[str], env: dict[str, str]) -> None:
    pod = a_pod(containers=[a_container(gpus=4, argv=argv, env=env)])
    sizes = parallel_sizes(pod)
    assert min(sizes.tensor, sizes.pipeline, sizes.data, sizes.nodes, sizes.prefill_context) >= 1
    assert sizes.data_local >= 0
    for finding in parallel_findings(pod, attention_heads=40):
        assert "\n" not in finding.message


@given(scripts)
def test_any_script_gives_commands_without_empty_ones(script: str) -> None:
    assert all(command for command in simple_commands(script, {"N": " 1 2 "}, ("a", "b")))


plain_words = st.text(
    alphabet=st.characters(categories=("L", "N"), include_characters="-_=./:"), min_size=1, max_size=8
)


@given(st.lists(plain_words, min_size=1, max_size=6))
def test_quoted_words_come_back_as_they_were(argv: list[str]) -> None:
    script = "run " + " ".join(f"'{word}'" for word in argv)
    assert simple_commands(script, {}) == (("run", *argv),)
