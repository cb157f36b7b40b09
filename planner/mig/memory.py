"""What memory one vLLM engine on one device needs: weights, KV cache, and what the process itself takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Share of a device's memory that vLLM uses when nothing says otherwise (vllm, --gpu-memory-utilization; older releases
# 0.90), in percent.
UTILIZATION_PERCENT = 92
# Activations, CUDA graphs, context and NCCL: 1 to 4 GB are seen, NVIDIA's sizing tool reserves 3.5 GB and 0.35 GB.
OVERHEAD_MIB = 4096
# Length of a sequence when neither the pod nor the file says it; vLLM itself would take the model's longest.
DEFAULT_TOKENS = 8192

_KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the table.

    Attributes
    ----------
    params_millions
        Parameters, all experts counted.
    bytes_per_1000_params
        Of the weights as they are published: 2000 for bf16, 531 for MXFP4.
    kv_kib
        KV cache of one token in KiB, bf16, whole model.
    """

    params_millions: int
    kv_kib: float
    bytes_per_1000_params: int = 2000

    def weights_mib(self, bytes_per_1000_params: int | None = None) -> int:
        """Return the memory of the weights, rounded up."""
        each = self.bytes_per_1000_params if bytes_per_1000_params is None else bytes_per_1000_params
        return -(-self.params_millions * 1000 * each // 2**20)


# Parameters and KV cache by the models' own config files as NVIDIA/aiconfigurator carries them
# (aiconfigurator_core/model_configs); those of Qwen3.5 and gemma-4 nominal, by name. Only models that one GPU can hold.
# Sliding windows add a constant that the overhead covers. Compiled 2026-12-01.
MODELS: Mapping[str, Model] = {
    "llama-3.1-8b": Model(8030, 128),
    "qwen3-0.6b": Model(600, 112),
    "qwen3-1.7b": Model(1720, 112),
    "qwen3-8b": Model(8190, 144),
    "qwen3-32b": Model(32760, 256),
    "qwen3-30b-a3b": Model(30530, 96),
    "qwen3.5-27b": Model(27000, 64),
    "qwen3.5-35b-a3b": Model(35000, 20),
    "mixtral-8x7b": Model(46700, 128),
    "gpt-oss-20b": Model(20900, 24, bytes_per_1000_params=658),
    "gpt-oss-120b": Model(116800, 36, bytes_per_1000_params=558),
    "gemma-4-26b-a4b": Model(26000, 20),
}

# Bytes per 1000 parameters; four bit formats with their scales.
_BY_WORD: tuple[tuple[re.Pattern[str], int, str], ...] = (
    (re.compile(r"awq|gptq|int4|w4a16|4bit|bnb"), 560, "4 bit"),
    (re.compile(r"nvfp4|mxfp4|fp4"), 560, "fp4"),
    (re.compile(r"fp8|int8|w8a8|w8a16|8bit"), 1000, "8 bit"),
)


@dataclass(frozen=True, slots=True)
class ModelNeed:
    """The memory of one replica on one device, with its parts, MiB."""

    model: str
    weights_mib: int
    kv_mib: int
    tokens: int
    kv_kib: float
    format: str
    overhead_mib: int = OVERHEAD_MIB

    @property
    def total_mib(self) -> int:
        """Weights, KV cache of one sequence, and overhead."""
        return self.weights_mib + self.kv_mib + self.overhead_mib

    def arithmetic(self) -> str:
        """Return the sum in words."""
        return (
            f"{self.model}: weights {gib(self.weights_mib)} GiB ({self.format}) + KV cache of one sequence of "
            f"{self.tokens} tokens at {self.kv_kib:g} KiB = {gib(self.kv_mib)} GiB + {gib(self.overhead_mib)} GiB for "
            f"the process = {gib(self.total_mib)} GiB"
        )


def need_of_model(
    name: str,
    *,
    max_model_len: int | None = None,
    quantization: str = "",
    kv_cache_dtype: str = "",
) -> ModelNeed | str:
    """Return what a replica of a model needs; a sentence's end that says why when the model is not in the table."""
    found = _entry(name)
    if found is None:
        return f"{name!r:.60} is not in the table of models"
    key, model = found
    each, told = _format(f"{name} {quantization}".lower(), model)
    tokens = DEFAULT_TOKENS if max_model_len is None else max_model_len
    kv_kib = model.kv_kib / 2 if kv_cache_dtype.startswith("fp8") else model.kv_kib
    return ModelNeed(key, model.weights_mib(each), -(-int(tokens * kv_kib) // _KIB_PER_MIB), tokens, kv_kib, told)


def usable_mib(memory_mib: int, utilization_percent: int = UTILIZATION_PERCENT) -> int:
    """Return what vLLM uses of a device's memory."""
    return memory_mib * utilization_percent // 100


def gib(mib: int) -> str:
    """Return MiB in GiB with one decimal."""
    return f"{mib / 1024:.1f}"


def _entry(name: str) -> tuple[str, Model] | None:
    """Find the model that a name of the hub means, such as `meta-llama/Llama-3.1-8B-Instruct`."""
    plain = name.lower().rstrip("/").rpartition("/")[2].removeprefix("meta-")
    # The longest first: qwen3-30b-a3b is no qwen3-30b.
    for key in sorted(MODELS, key=len, reverse=True):
        if plain == key or plain.startswith((f"{key}-", f"{key}_", f"{key}.", f"{key}@")):
            return key, MODELS[key]
    return None


def _format(words: str, model: Model) -> tuple[int, str]:
    for pattern, each, told in _BY_WORD:
        # A model that is published in four bits stays what it is.
        if pattern.search(words) and each < model.bytes_per_1000_params:
            return each, told
    return model.bytes_per_1000_params, "bf16" if model.bytes_per_1000_params == 2000 else "as published"
