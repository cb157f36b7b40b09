"""What an operator can set about the policy, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from islander.cluster.names import DEFAULT_GPU_RESOURCES


class Topology(StrEnum):
    """How much a pod wants its GPUs joined by NVLink."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """What a replica asks of one node: whole GPUs, and whether they must be one island."""

    gpus: int
    island: bool


@dataclass(frozen=True, slots=True)
class DemandMix:
    """How often each shape is asked for.

    Attributes
    ----------
    weights
        (shape, weight) sorted by shape; weights are positive and need not add up to anything.
    """

    weights: tuple[tuple[Shape, float], ...]

    def __post_init__(self) -> None:
        """Refuse shapes without GPUs and weights that are not positive."""
        for shape, weight in self.weights:
            if shape.gpus < 1 or not weight > 0:
                raise ValueError(f"demand mix: {shape.gpus} GPUs with weight {weight} is not a demand")


# GPUs of the usual replicas: what is told of every cluster, whatever its pods ask for.
COMMON_SIZES = (1, 2, 4, 8)
# With nothing observed every common shape is as likely as another.
DEFAULT_MIX = DemandMix(tuple((Shape(gpus, island=gpus > 1), 1.0) for gpus in COMMON_SIZES))


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Settings of the policy.

    Attributes
    ----------
    gpu_resources
        Resource names that stand for whole GPUs.
    topology_default
        Topology of a pod with tensor parallelism that does not say its own.
    mix
        The demand that scoring keeps room for; None for the mix of the pods that are seen.
    """

    gpu_resources: tuple[str, ...] = DEFAULT_GPU_RESOURCES
    topology_default: Topology = Topology.PREFERRED
    mix: DemandMix | None = None
