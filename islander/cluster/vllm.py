"""How a pod splits its model over GPUs: parallel sizes from the words and variables of its containers.

vLLM's flags are read wherever people put them: in `args` for the image's entrypoint, behind `vllm serve` or
`python -m vllm.entrypoints...`, inside of `sh -c "..."`. A text that is not understood gives no sizes, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from islander.cluster import names
from islander.cluster.pod import Container, ContainerKind, Pod
from islander.cluster.shell import UNKNOWN, is_assignment, simple_commands

# vllm/engine/arg_utils.py; `-n` is `--nnodes`.
SIZE_FLAGS: Mapping[str, str] = {
    "--tensor-parallel-size": "tensor",
    "--pipeline-parallel-size": "pipeline",
    "--data-parallel-size": "data",
    "--data-parallel-size-local": "data_local",
    "--prefill-context-parallel-size": "prefill_context",
    "--nnodes": "nodes",
}
_SHORT_SIZE_FLAGS: Mapping[str, str] = {
    "-tp": "tensor",
    "-pp": "pipeline",
    "-dp": "data",
    "-dpl": "data_local",
    "-pcp": "prefill_context",
    "-n": "nodes",
}
# KServe's huggingfaceserver reads the first two; the group size is set by the LeaderWorkerSet controller.
SIZE_VARIABLES: Mapping[str, str] = {
    "TENSOR_PARALLEL_SIZE": "tensor",
    "PIPELINE_PARALLEL_SIZE": "pipeline",
    "DATA_PARALLEL_SIZE": "data",
    "LWS_GROUP_SIZE": "nodes",
}
_RANK_FLAGS = frozenset({"--data-parallel-rank", "-dpn"})
_SPANNING_FLAGS = frozenset({"--headless", "--node-rank", "-r"})
_FLAGS_OF_VLLM = frozenset({"--served-model-name", "--max-model-len", "--gpu-memory-utilization", "--max-num-seqs"})

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_WRAPPERS = frozenset({"exec", "nohup", "env", "time", "command", "sudo", "tini", "dumb-init", "catatonit", "setsid"})
_KEYWORDS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{"})
_NO_LAUNCHERS = frozenset({"echo", "printf", ":", "true", "false", "test", "[", "[[", "cat", "grep", "ls", "cd", "pip"})
_DEEPEST_SCRIPT = 4

_VARIABLE_OF_API = re.compile(r"\$\$|\$\(([A-Za-z_][-\w.]*)\)", re.ASCII)
_SIZE = re.compile(r"[0-9]{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ParallelSizes:
    """How an engine is split over GPUs.

    Attributes
    ----------
    tensor, pipeline, prefill_context
        Ranks of one engine in each direction; their product is the world size.
    data, data_local
        Engines in all, and engines of this pod.
    nodes
        Pods that one engine is spread over.
    source
        Where the tensor parallel size was read: annotation, args, env, or request when nothing says it.
    by_container
        (container, tensor parallel size) of the containers that differ from `tensor`.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    data_local: int = 1
    prefill_context: int = 1
    nodes: int = 1
    source: str = "request"
    by_container: tuple[tuple[str, int], ...] = ()

    @property
    def world(self) -> int:
        """GPUs of one engine, over all its pods."""
        return self.tensor * self.pipeline * self.prefill_context

    @property
    def gpus(self) -> int:
        """GPUs that the engines of this pod use here."""
        return -(-self.world * self.data_local // self.nodes)

    def tensor_of(self, container: str) -> int:
        """Return the tensor parallel size of one container."""
        return next((size for name, size in self.by_container if name == container), self.tensor)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the words and variables of one container say.

    Attributes
    ----------
    stated
        Names of the sizes that are written, whether or not their value can be known.
    unknown
        (name, text) of the sizes whose value is no positive number, or only known to the running shell; the text is
        empty for the latter.
    is_vllm
        True when the container certainly runs vLLM.
    spans_pods
        True when the container is one of several that make up an engine, or may be.
    several
        True when more than one command starts vLLM.
    from_file
        True when flags may also stand in a configuration file.
    """

    sizes: ParallelSizes = ParallelSizes()
    stated: frozenset[str] = frozenset()
    unknown: tuple[tuple[str, str], ...] = ()
    is_vllm: bool = False
    spans_pods: bool = False
    several: bool = False
    from_file: bool = False


def parallel_sizes(pod: Pod) -> ParallelSizes:
    """Return the parallel sizes of a pod: those of its first GPU container that states them, apps first.

    The annotation `islander.dev/tensor-parallel-size` overrides the tensor parallel size of all containers.
    """
    containers = [c for c in pod.spec.containers if gpus_of_container(c) or c.argv or c.env]
    containers.sort(key=lambda c: c.kind is not ContainerKind.APP)
    readings = [(c, read_container(c)) for c in containers if c.kind is not ContainerKind.INIT]
    stating = [reading.sizes for _, reading in readings if reading.stated]
    sizes = stating[0] if stating else ParallelSizes()
    override = tensor_override(pod)
    if override is not None:
        return replace(sizes, tensor=override, source="annotation")
    others = tuple((c.name, r.sizes.tensor) for c, r in readings if r.sizes.tensor != sizes.tensor)
    return replace(sizes, by_container=others) if others else sizes


def tensor_override(pod: Pod) -> int | None:
    """Return the tensor parallel size of the pod's annotation, None when there is none that can be used."""
    text = (pod.annotation(names.TENSOR_PARALLEL_SIZE) or "").strip()
    return int(text) if _SIZE.fullmatch(text) and int(text) else None


def gpus_of_container(container: Container) -> int:
    """Return the whole GPUs that a container asks for, whatever the vendor's resource is called."""
    return max(
        (
            count
            for name, count in container.requests.extended
            if name in names.DEFAULT_GPU_RESOURCES or ("gpu" in name and not name.startswith(names.MIG_RESOURCE_PREFIX))
        ),
        default=0,
    )


@lru_cache(maxsize=4096)
def read_container(container: Container) -> Reading:
    """Return what a container says of its parallel sizes; flags count before variables, the last flag before others."""
    variables = dict(container.env)
    argv = [_expanded(word, variables) for word in container.argv]
    commands = list(_commands(argv, variables))
    started = [flags for flags in map(_flags_of_vllm, commands) if flags is not None]
    is_vllm = bool(started) or "vllm" in _base(container.image).lower() or _are_flags_of_vllm(argv)
    if not started:
        started = [words for words in commands if _mentions_sizes(words, plain=words == tuple(argv))]
    words = max(started, key=lambda words: _sizes(_flag_values(words)[0], {}, 1)[0].world, default=())
    texts, switches = _flag_values(words)
    sizes, stated, unknown = _sizes(texts, variables, gpus_of_container(container))
    return Reading(
        sizes,
        stated,
        unknown,
        is_vllm=is_vllm,
        spans_pods=sizes.nodes > 1 or bool(switches & _SPANNING_FLAGS) or any(map(_joins_cluster, commands)),
        several=len(started) > 1,
        from_file="--config" in switches,
    )


def _expanded(word: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` as kubelet does: an unknown name stays as it stands, `$$` is an escaped `$`."""
    return _VARIABLE_OF_API.sub(lambda m: "$" if m[1] is None else variables.get(m[1], m[0]), word)


def _commands(words: Sequence[str], variables: Mapping[str, str], depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield the commands that a command runs: itself, or those of the script that it hands to a shell."""
    words = _unwrapped(words)
    script = _script(words) if depth < _DEEPEST_SCRIPT else None
    if script is None:
        if words:
            yield tuple(words)
        return
    text, arguments = script
    for command in simple_commands(text, variables, arguments):
        yield from _commands(command, variables, depth + 1)


def _unwrapped(words: Sequence[str]) -> Sequence[str]:
    """Drop what stands before the program: keywords, assignments, wrappers and their options."""
    at = 0
    while at < len(words):
        if _base(words[at]) in _WRAPPERS:
            at += 1
            while at < len(words) and words[at].startswith("-"):
                at += 1
        elif words[at] in _KEYWORDS or is_assignment(words[at]):
            at += 1
        else:
            break
    return words[at:]


def _script(words: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """Return text and arguments of the script in `sh -c TEXT NAME ARGUMENT...`, None for any other command."""
    if not words or _base(words[0]) not in _SHELLS:
        return None
    at, has_script = 1, False
    while at < len(words) and words[at][:1] in ("-", "+"):
        letters = "" if words[at].startswith("--") else words[at][1:]
        has_script = has_script or "c" in letters
        # `-o pipefail` has a value of its own.
        at += 2 if "o" in letters else 1
    return (words[at], words[at + 2 :]) if has_script and at < len(words) else None


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _flags_of_vllm(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the words that follow the start of vLLM in a command, None when it starts something else."""
    if _base(words[0]) in _NO_LAUNCHERS:
        return None
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if _base(word) == "vllm" and following in ("serve", "run-batch"):
            return tuple(words[at + 2 :])
        if word == "-m" and following.split(".")[0] in ("vllm", "huggingfaceserver"):
            return tuple(words[at + 2 :])
        if word.endswith("/api_server.py") or (word.endswith(".py") and "vllm" in word):
            return tuple(words[at + 1 :])
    return None


def _mentions_sizes(words: Sequence[str], *, plain: bool) -> bool:
    """Return whether a command of another program carries vLLM's sizes; short flags count in plain `args` only."""
    if _base(words[0]) in _NO_LAUNCHERS:
        return False
    heads = {_head(word) for word in words}
    return not heads.isdisjoint(SIZE_FLAGS) or (plain and "-tp" in heads)


def _are_flags_of_vllm(words: Sequence[str]) -> bool:
    """Return whether the words are arguments of an image's entrypoint that only vLLM would understand."""
    return bool(words) and words[0].startswith("-") and not _FLAGS_OF_VLLM.isdisjoint(map(_head, words))


def _joins_cluster(words: Sequence[str]) -> bool:
    """Return whether a command makes the pod one of several that run one engine."""
    if len(words) > 1 and _base(words[0]) == "ray" and words[1] == "start":
        return True
    return any("multi-node-serving" in word or "ray_cluster_size" in word for word in words)


def _head(word: str) -> str:
    """Return the flag of `--flag_name=value` in its usual spelling."""
    return word.partition("=")[0].replace("_", "-")


def _flag_values(words: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
    """Return the texts given to the size flags, by the size's name, and all flags that are there."""
    texts: dict[str, str] = {}
    seen = set()
    for at, word in enumerate(words):
        if not word.startswith("-"):
            continue
        flag = _head(word)
        seen.add(flag)
        name = SIZE_FLAGS.get(flag) or _SHORT_SIZE_FLAGS.get(flag)
        if name is not None:
            _, equals, value = word.partition("=")
            texts[name] = value if equals else (words[at + 1] if at + 1 < len(words) else "")
        elif flag in _RANK_FLAGS:
            texts.setdefault("data_local", "1")
    return texts, frozenset(seen)


def _sizes(
    flags: Mapping[str, str], variables: Mapping[str, str], gpus: int
) -> tuple[ParallelSizes, frozenset[str], tuple[tuple[str, str], ...]]:
    """Return the sizes, the names of those that are written, and (name, text) of those that are no number."""
    texts = {size: variables[name] for name, size in SIZE_VARIABLES.items() if name in variables}
    texts.update(flags)
    values: dict[str, int] = {}
    unknown = []
    for name, text in texts.items():
        text = text.strip()
        # An API server without engines of its own says 0 local ones.
        least = 0 if name == "data_local" else 1
        if _SIZE.fullmatch(text) and int(text) >= least:
            values[name] = int(text)
        else:
            unknown.append((name, "" if UNKNOWN in text or "$" in text else text))
    if "tensor" in texts and "tensor" not in values:
        # Whoever sets the size through a variable means to use the GPUs that the container asks for.
        others = values.get("pipeline", 1) * values.get("data_local", values.get("data", 1))
        values["tensor"] = max(1, gpus // max(1, others))
    values.setdefault("data_local", values.get("data", 1))
    source = "args" if "tensor" in flags else "env" if "tensor" in texts else "request"
    stated = frozenset(texts) - {"nodes"}
    if source == "request" and stated:
        source = "args" if any(name in flags for name in stated) else "env"
    sizes = ParallelSizes(
        tensor=values.get("tensor", 1),
        pipeline=values.get("pipeline", 1),
        data=values.get("data", 1),
        data_local=values["data_local"],
        prefill_context=values.get("prefill_context", 1),
        nodes=values.get("nodes", 1),
        source=source,
    )
    return sizes, stated, tuple(sorted(unknown))
