"""What is wrong between a pod's parallel sizes and the GPUs it asks for; said, never silently put right."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from islander.cluster import names
from islander.cluster.pod import Container, ContainerKind, Pod
from islander.cluster.vllm import (
    ParallelSizes,
    Reading,
    gpus_of_container,
    parallel_sizes,
    read_container,
    tensor_override,
)

_FLAGS = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
    "data_local": "--data-parallel-size-local",
    "prefill_context": "--prefill-context-parallel-size",
    "nodes": "--nnodes",
}


class Severity(StrEnum):
    """How bad a finding is: the pod will not run, wastes or risks something, or is only worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a pod that its author did not mean.

    Attributes
    ----------
    code
        Stable, upper case; what scripts read.
    field
        Path in the pod.
    cure
        What to do, one sentence.
    """

    code: str
    severity: Severity
    field: str
    message: str
    cure: str


def parallel_findings(pod: Pod, *, attention_heads: int | None = None) -> tuple[Finding, ...]:
    """Return the findings of a pod's containers, in their order.

    Parameters
    ----------
    attention_heads
        Of the model, when the caller knows it; vLLM refuses a tensor parallel size that does not divide it.
    """
    found = _annotation_findings(pod)
    sizes = parallel_sizes(pod)
    override = tensor_override(pod)
    for container in pod.spec.containers:
        reading = read_container(container)
        if container.kind is ContainerKind.INIT or not (reading.is_vllm or reading.stated or override):
            continue
        own = reading.sizes if override is None else sizes
        found += _value_findings(container, reading)
        if attention_heads is not None and attention_heads % own.tensor:
            found.append(_heads_finding(container, own, attention_heads))
        found += _mig_findings(container, own)
        gpus = gpus_of_container(container)
        certain = not reading.unknown and not reading.several and (reading.stated or not reading.from_file)
        if gpus and (certain or override is not None):
            spans = reading.spans_pods or pod.label(names.LWS_NAME) is not None
            found += _count_findings(
                container, own, gpus, spans_pods=spans, tensor_is_stated="tensor" in reading.stated
            )
    return tuple(found)


def _annotation_findings(pod: Pod) -> list[Finding]:
    text = pod.annotation(names.TENSOR_PARALLEL_SIZE)
    if text is None or tensor_override(pod) is not None:
        return []
    return [
        Finding(
            "ANNOTATION_IGNORED",
            Severity.WARNING,
            f"metadata.annotations[{names.TENSOR_PARALLEL_SIZE}]",
            f"{text!r:.60} is not a positive whole number and is ignored",
            "Write the tensor parallel size as a number, such as 4.",
        )
    ]


def _value_findings(container: Container, reading: Reading) -> list[Finding]:
    found = []
    for name, text in reading.unknown:
        flag = _FLAGS[name]
        if text:
            found.append(
                Finding(
                    "SIZE_NOT_A_NUMBER",
                    Severity.ERROR,
                    _field(container),
                    f"{flag} is {text!r:.60}, which is not a positive whole number",
                    f"Give {flag} a number.",
                )
            )
        else:
            found.append(
                Finding(
                    "SIZE_NOT_KNOWN",
                    Severity.INFO,
                    _field(container),
                    f"the value of {flag} is known to the running container only",
                    f"Write the number, or set the annotation {names.TENSOR_PARALLEL_SIZE}.",
                )
            )
    return found


def _heads_finding(container: Container, sizes: ParallelSizes, attention_heads: int) -> Finding:
    return Finding(
        "HEADS_NOT_DIVISIBLE",
        Severity.ERROR,
        _field(container),
        f"{attention_heads} attention heads cannot be split evenly over tensor parallel size {sizes.tensor}",
        "Choose a tensor parallel size that divides the number of attention heads.",
    )


def _mig_findings(container: Container, sizes: ParallelSizes) -> list[Finding]:
    slices = [name for name, _ in container.requests.extended if name.startswith(names.MIG_RESOURCE_PREFIX)]
    if not slices or sizes.tensor * sizes.pipeline == 1:
        return []
    return [
        Finding(
            "PARALLEL_OVER_MIG",
            Severity.ERROR,
            _field(container),
            f"an engine cannot be split over MIG devices ({slices[0]}): they have no way to each other",
            "Ask for whole GPUs, or set the parallel sizes to 1.",
        )
    ]


def _count_findings(
    container: Container, sizes: ParallelSizes, gpus: int, *, spans_pods: bool, tensor_is_stated: bool
) -> list[Finding]:
    needed = sizes.gpus
    words = _in_words(sizes)
    if spans_pods and sizes.tensor > gpus:
        return [
            Finding(
                "TENSOR_PARALLEL_ACROSS_PODS",
                Severity.WARNING,
                _field(container),
                f"tensor parallel size {sizes.tensor} reaches beyond the pod's {_gpus(gpus)}, over the network",
                "Keep tensor parallelism inside one pod, and use pipeline parallelism across pods.",
            )
        ]
    if needed > gpus and not spans_pods:
        return [
            Finding(
                "GPUS_MISSING",
                Severity.ERROR,
                _field(container),
                f"{words} needs {_gpus(needed)}, the container asks for {gpus}: {needed - gpus} missing",
                f"Ask for {_gpus(needed)}, or lower the parallel sizes.",
            )
        ]
    if needed < gpus and sizes.nodes == 1 and not spans_pods:
        if sizes.source != "annotation" and not tensor_is_stated and sizes.world == 1 and sizes.data_local == 1:
            return [
                Finding(
                    "TENSOR_PARALLEL_NOT_SET",
                    Severity.WARNING,
                    _field(container),
                    f"the tensor parallel size is not set and defaults to 1: {gpus - 1} of {_gpus(gpus)} stay idle",
                    f"Set --tensor-parallel-size={gpus}, or ask for 1 GPU.",
                )
            ]
        return [
            Finding(
                "GPUS_IDLE",
                Severity.WARNING,
                _field(container),
                f"{words} needs {_gpus(needed)}, the container asks for {gpus}: {gpus - needed} stay idle",
                f"Ask for {_gpus(needed)}, or raise the parallel sizes.",
            )
        ]
    return []


def _in_words(sizes: ParallelSizes) -> str:
    parts = [("tensor", sizes.tensor), ("pipeline", sizes.pipeline), ("prefill context", sizes.prefill_context)]
    parts.append(("local data", sizes.data_local))
    used = [f"{name} parallel size {size}" for name, size in parts if size != 1 or name == "tensor"]
    return " x ".join(used)


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _field(container: Container) -> str:
    return f"spec.containers[{container.name}]"
