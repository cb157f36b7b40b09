"""What a model needs on one device, against the published figures."""

import pytest

from planner.mig.memory import MODELS, ModelNeed, need_of_model


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("llama-3.1-8b", 15.0),
        ("qwen3-8b", 15.3),
        ("qwen3-0.6b", 1.1),
        ("qwen3-1.7b", 3.2),
        ("qwen3-32b", 61.0),
        ("qwen3-30b-a3b", 56.9),
        ("mixtral-8x7b", 87.0),
        ("gpt-oss-20b", 12.8),
        ("gpt-oss-120b", 60.7),
    ],
)
def test_weights_are_those_of_the_table(name, gib):
    assert MODELS[name].weights_mib() / 1024 == pytest.approx(gib, abs=0.06)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("/models/Qwen3-30B-A3B-FP8/", "qwen3-30b-a3b"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
    ],
)
def test_a_model_is_known_by_the_names_it_goes_by(name, key):
    need = need_of_model(name)
    assert isinstance(need, ModelNeed)
    assert need.model == key


@pytest.mark.parametrize("name", ["qwen3-80b", "qwen3-8bx", "llama-3.1-80b", "my-llama-3.1-8b", ""])
def test_a_name_that_only_looks_alike_is_not_taken_for_it(name):
    assert "is not in the table" in str(need_of_model(name))


def test_the_sum_is_weights_cache_and_overhead():
    need = need_of_model("llama-3.1-8b", max_model_len=8192)
    assert isinstance(need, ModelNeed)
    # 128 KiB x 8192 tokens = 1 GiB.
    assert (need.kv_mib, need.overhead_mib) == (1024, 4096)
    assert need.total_mib == need.weights_mib + 1024 + 4096
    assert "8192 tokens at 128 KiB = 1.0 GiB" in need.arithmetic()


def test_formats_and_cache_types_make_it_smaller():
    plain, awq, fp8 = (
        need_of_model("Qwen/Qwen3-8B", quantization=q, kv_cache_dtype=kv)
        for q, kv in (("", ""), ("awq", ""), ("fp8", "fp8_e4m3"))
    )
    assert isinstance(plain, ModelNeed)
    assert isinstance(awq, ModelNeed)
    assert isinstance(fp8, ModelNeed)
    assert awq.weights_mib < plain.weights_mib / 3
    assert fp8.weights_mib == pytest.approx(plain.weights_mib / 2, abs=1)
    assert fp8.kv_mib == plain.kv_mib / 2


def test_a_model_that_is_published_in_four_bits_stays_what_it_is():
    need = need_of_model("openai/gpt-oss-20b", quantization="mxfp4")
    assert isinstance(need, ModelNeed)
    assert need.format in ("as published", "fp4")
    assert need.weights_mib <= MODELS["gpt-oss-20b"].weights_mib()
