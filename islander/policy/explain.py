"""Why a pod fits here and not there, node by node: the same answer for the extender and the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from islander.cluster import names
from islander.cluster.node import Node
from islander.cluster.pod import Pod
from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.vllm_findings import Severity, parallel_findings
from islander.policy.assess import Assessment, ScoreParts, Verdict, assess
from islander.policy.demand import mix_of
from islander.policy.fit import Unfit, unfit
from islander.policy.need import PodNeed, need_of, topology_warning
from islander.policy.neighbours import Neighbourhood
from islander.policy.occupancy import gpu_state
from islander.policy.reasons import REASONS, Code
from islander.policy.score import spread
from islander.policy.settings import DemandMix, PolicySettings

# A warning names so many nodes.
_MOST_NAMED = 3


class Need(Struct, frozen=True, rename="camel"):
    """What the pod asks of one node: `gpus` counts devices of `resource`, which for MIG are instances."""

    gpus: int
    resource: str
    per_container: list[int]
    topology: str
    tensor_parallel: int
    pipeline_parallel: int
    product: list[str] | None
    source: str


class PossiblePicks(Struct, frozen=True, rename="camel"):
    """The sets of GPU indexes that kubelet may hand out; `complete` false when cut, or when nothing is known."""

    possible: list[list[int]]
    complete: bool
    worst_link: str
    best_link: str


class Parts(Struct, frozen=True, rename="camel"):
    """The parts of a score in order of importance, as `islander.policy.assess.ScoreParts` defines them."""

    link: int
    numa_nodes: float
    island_likelihood: float
    room_kept: float
    packing: int
    tightness: int
    right_size: int


class NodeExplanation(Struct, frozen=True, rename="camel"):
    """One node's answer; `code` and `message` say why the verdict is not `guaranteed`, empty when it is."""

    name: str
    verdict: str
    accepted: bool
    code: str
    message: str
    score: int
    parts: Parts | None
    picks: PossiblePicks
    free: int
    free_indexes_source: str


class PodExplanation(Struct, frozen=True, rename="camel"):
    """Why (not) here, node by node; `summary` counts the refusing nodes by code."""

    pod: str
    need: Need
    nodes: list[NodeExplanation]
    summary: dict[str, int]
    would_fit: str | None
    warnings: list[str]
    api_version: str = names.API_VERSION
    kind: str = "PodExplanation"


@dataclass(frozen=True, slots=True)
class Judged:
    """One node's judgement: by kube-scheduler's own rules (`unfit`), then by its GPUs, which may be MIG instances."""

    node: Node
    assessment: Assessment
    unfit: Unfit | None
    free: int
    sliced: bool = False

    @property
    def accepted(self) -> bool:
        """True when the pod may run there."""
        return self.unfit is None and self.assessment.accepted

    @property
    def code(self) -> Code | None:
        """Why not, or why not for sure."""
        return self.unfit.code if self.unfit else self.assessment.code


def judge_nodes(
    snapshot: ClusterSnapshot, pod: Pod, need: PodNeed, around: Neighbourhood, mix: DemandMix
) -> list[Judged]:
    """Judge every node of the snapshot for a pod, in the order of the snapshot; the pod itself is left out of them."""
    judged = []
    for node in snapshot.nodes:
        there = tuple(other for other in snapshot.pods_by_node.get(node.name, ()) if other.key != pod.key)
        state = gpu_state(node, there, need.resource, dra=snapshot.has_devices(node.name, need.resource))
        assessment = assess(state, need, mix) if need.gpus else NO_GPU_NEEDED
        judged.append(Judged(node, assessment, unfit(pod, node, around, there), state.free, bool(state.mig)))
    return judged


NO_GPU_NEEDED = Assessment(Verdict.GUARANTEED, None, accepted=True, complete=True)


def explain_pod(snapshot: ClusterSnapshot, pod: Pod, settings: PolicySettings | None = None) -> PodExplanation:
    """Return the explanation of a pod against a snapshot, whether or not the pod is in it."""
    settings = settings or PolicySettings()
    need = need_of(pod, settings)
    judged = judge_nodes(snapshot, pod, need, Neighbourhood.of(snapshot), mix_of(snapshot, settings))
    scores = spread([j.assessment.parts if j.accepted and need.gpus else None for j in judged])
    return PodExplanation(
        pod=pod.key,
        need=Need(
            gpus=need.gpus,
            resource=need.resource,
            per_container=[c.gpus for c in need.containers],
            topology=need.topology.value,
            tensor_parallel=need.tensor_parallel,
            pipeline_parallel=need.pipeline_parallel,
            product=None if need.products is None else list(need.products),
            source=need.source,
        ),
        nodes=[_node_explanation(j, score) for j, score in zip(judged, scores, strict=True)],
        summary=dict(sorted(Counter(j.code.value for j in judged if not j.accepted and j.code).items())),
        would_fit=None,
        warnings=[
            *snapshot.warnings,
            *(f"pod {pod.key}: {warning}" for warning in _pod_warnings(pod, need)),
            *_split_warnings(need, judged),
        ],
    )


def _pod_warnings(pod: Pod, need: PodNeed) -> list[str]:
    """Return what was not understood of the pod's own words, and what its engine will stumble over."""
    if not need.gpus:
        return []
    found = [warning] if (warning := topology_warning(pod)) else []
    findings = (finding for finding in parallel_findings(pod) if finding.severity is not Severity.INFO)
    return found + [f"{finding.field}: {finding.message}. {finding.cure}" for finding in findings]


def _split_warnings(need: PodNeed, judged: Sequence[Judged]) -> list[str]:
    """Return a warning for the nodes that would split the pod's engine over MIG instances under the name of GPUs."""
    if need.asks_mig or need.island == 1:
        return []
    split = [j.node.name for j in judged if j.accepted and j.sliced]
    shown = ", ".join(split[:_MOST_NAMED]) + (f" and {len(split) - _MOST_NAMED} more" if split[_MOST_NAMED:] else "")
    return [f"devices of {shown} are MIG instances: {REASONS[Code.MIG_NO_PEER].cause}"] if split else []


def _node_explanation(judged: Judged, score: int) -> NodeExplanation:
    assessment = judged.assessment
    sentence = REASONS[assessment.code].sentence if assessment.code else ""
    return NodeExplanation(
        name=judged.node.name,
        verdict=(Verdict.IMPOSSIBLE if judged.unfit else assessment.verdict).value,
        accepted=judged.accepted,
        code=judged.code.value if judged.code else "",
        message=judged.unfit.message if judged.unfit else sentence,
        score=score,
        parts=_parts(assessment.parts) if judged.accepted and assessment.parts else None,
        picks=PossiblePicks(
            possible=[list(pick) for pick in assessment.picks],
            complete=assessment.complete,
            worst_link=assessment.worst_link,
            best_link=assessment.best_link,
        ),
        free=judged.free,
        free_indexes_source=assessment.source.value,
    )


def _parts(parts: ScoreParts) -> Parts:
    return Parts(*parts)
