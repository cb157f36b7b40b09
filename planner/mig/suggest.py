"""Workloads that hold a whole GPU per replica and would fit on an instance: suggestions, with the arithmetic."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from islander.cluster import names
from islander.cluster.pod import Container, Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.vllm import gpus_of_container, parallel_sizes, read_container
from islander.hardware.mig import Geometry
from islander.policy.settings import PolicySettings
from planner.mig.demands import smallest_profile
from planner.mig.fleet import Fleet
from planner.mig.memory import UTILIZATION_PERCENT, ModelNeed, gib, need_of_model, usable_mib
from planner.mig.plan import Suggestion
from planner.mig.tolerance import product_of

_DECIMAL_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Serving:
    """What the words of a container say of the model that it serves; empty or None where they do not."""

    model: str = ""
    quantization: str = ""
    kv_cache_dtype: str = ""
    max_model_len: int | None = None
    utilization_percent: int = UTILIZATION_PERCENT


def suggestions(
    snapshot: ClusterSnapshot, fleet: Fleet, settings: PolicySettings, geometries: Mapping[str, Geometry]
) -> list[Suggestion]:
    """Return what workloads with one whole GPU per replica could use instead, by workload.

    Only vLLM with a model of the table and one GPU; whoever cannot be reckoned is left out, not guessed.
    """
    sliced = {node.name for node in fleet.nodes if node.sliced_as}
    groups: defaultdict[tuple[str, Serving], list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if pod.finished or pod.node in sliced or pod.spec.requests.count(names.NVIDIA_GPU) != 1:
            continue
        serving = _serving(pod)
        if serving is not None and serving.model:
            workload = snapshot.owners.workload_of(pod)
            groups[f"{pod.namespace}/{workload}" if workload else pod.key, serving].append(pod)
    products = {node.name: product_of(node.node) for node in fleet.nodes}
    found: list[Suggestion] = []
    for (workload, serving), pods in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1].model)):
        own = {products.get(pod.node, "") for pod in pods if pod.node}
        there = {product: g for product, g in geometries.items() if not own or product in own}
        found += _suggestion(workload, serving, len(pods), there)
    return found


def _suggestion(workload: str, serving: Serving, pods: int, geometries: Mapping[str, Geometry]) -> Iterator[Suggestion]:
    need = need_of_model(
        serving.model,
        max_model_len=serving.max_model_len,
        quantization=serving.quantization,
        kv_cache_dtype=serving.kv_cache_dtype,
    )
    if not isinstance(need, ModelNeed):
        return
    profiles = {}
    told = [need.arithmetic()]
    if serving.max_model_len is None:
        told.append(f"the length is assumed: set --max-model-len {need.tokens} or less")
    for product, geometry in geometries.items():
        scaled = -(-need.total_mib * UTILIZATION_PERCENT // max(1, serving.utilization_percent))
        name = smallest_profile(geometry, scaled)
        profile = geometry.profile(name) if name is not None else None
        if profile is None or profile.size == geometry.slots:
            continue
        profiles[product] = profile.name
        usable = usable_mib(profile.memory_mib, serving.utilization_percent)
        source = ", by estimate" if profile.memory_derived else ""
        left = int((usable - need.total_mib) * 1024 / need.kv_kib) + need.tokens
        told.append(
            f"{profile.name} of {product} has {gib(profile.memory_mib)} GiB{source}, of which vLLM uses "
            f"{serving.utilization_percent} % = {gib(usable)} GiB: KV cache of {left} tokens in all"
        )
    if profiles:
        yield Suggestion(workload, pods, serving.model, profiles, "; ".join(told))


def _serving(pod: Pod) -> Serving | None:
    """Return what the pod's one GPU container serves; None when it is no vLLM of one rank."""
    holders = [c for c in pod.spec.containers if gpus_of_container(c)]
    if len(holders) != 1 or not read_container(holders[0]).is_vllm:
        return None
    sizes = parallel_sizes(pod)
    if sizes.world != 1 or sizes.data_local != 1 or sizes.nodes != 1:
        return None
    return _read(holders[0])


def _read(container: Container) -> Serving:
    words = list(_words(container))
    values: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            following = words[at + 1] if at + 1 < len(words) else ""
            values[flag.replace("_", "-")] = value if equals else following
        elif word == "serve" and at + 1 < len(words) and not words[at + 1].startswith("-"):
            values.setdefault("--model", words[at + 1])
    length = values.get("--max-model-len", "")
    return Serving(
        model=values.get("--model", ""),
        quantization=values.get("--quantization", ""),
        kv_cache_dtype=values.get("--kv-cache-dtype", ""),
        max_model_len=int(length) if length.isascii() and length.isdigit() and len(length) <= _DECIMAL_LENGTH else None,
        utilization_percent=_percent(values.get("--gpu-memory-utilization", "")),
    )


def _words(container: Container) -> Iterator[str]:
    """Yield the words of a container, those of a script too."""
    for word in container.argv:
        if any(space in word for space in " \n\t"):
            try:
                yield from shlex.split(word)
            except ValueError:
                yield from word.split()
        else:
            yield word


def _percent(text: str) -> int:
    try:
        share = float(text)
    except ValueError:
        return UTILIZATION_PERCENT
    return round(share * 100) if 0 < share <= 1 else UTILIZATION_PERCENT
