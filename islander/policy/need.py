"""What a pod asks of one node, in the terms of the policy."""

from __future__ import annotations

from dataclasses import dataclass

from islander.cluster import names
from islander.cluster.pod import Container, ContainerKind, Pod
from islander.cluster.vllm import parallel_sizes
from islander.policy.selectors import integer
from islander.policy.settings import PolicySettings, Shape, Topology


@dataclass(frozen=True, slots=True)
class ContainerNeed:
    """GPUs of one container.

    Attributes
    ----------
    gpus
        GPUs that the container holds.
    island
        Size of the groups of neighbouring ranks that must be joined pairwise: its tensor parallel size, 1 for none.
    kind
        Whether it runs before the others, beside them, or as the pod's own.
    """

    gpus: int
    island: int = 1
    kind: ContainerKind = ContainerKind.APP


@dataclass(frozen=True, slots=True)
class PodNeed:
    """What a pod asks of one node; equal needs get equal answers.

    Attributes
    ----------
    resource
        The resource name that is counted; empty when the pod asks for no GPU.
    gpus
        The pod's effective request, as kube-scheduler counts it.
    containers
        Those with GPUs, in kubelet's order.
    products
        GPU products that the pod's selectors allow, sorted; None when they do not restrict it.
    memory_mib
        Least memory of each GPU that the pod's affinity asks for; 0 for any.
    source
        Where the tensor parallel size was read: annotation, args, env, or request when nothing says it.
    """

    resource: str = ""
    gpus: int = 0
    containers: tuple[ContainerNeed, ...] = ()
    topology: Topology = Topology.IGNORED
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    products: tuple[str, ...] | None = None
    memory_mib: int = 0
    source: str = "request"

    @property
    def asks_mig(self) -> bool:
        """True when the pod asks for MIG instances by their own name; `gpus` counts them."""
        return self.resource.startswith(names.MIG_RESOURCE_PREFIX)

    @property
    def island(self) -> int:
        """Size of the largest island that the pod needs; 1 when it needs none."""
        return max((c.island for c in self.containers), default=1)

    @property
    def wants_island(self) -> bool:
        """True when links matter to the pod."""
        return self.topology is not Topology.IGNORED and self.island > 1

    @property
    def shape(self) -> Shape:
        """The shape that the demand mix counts the pod as."""
        return Shape(self.gpus, island=self.wants_island and self.island == self.gpus)

    @property
    def shape_name(self) -> str:
        """What the pod asks for in short: `4` for whole GPUs, `3g.40gb` or `2x1g.10gb` for MIG instances."""
        if not self.asks_mig:
            return str(self.gpus)
        profile = self.resource.removeprefix(names.MIG_RESOURCE_PREFIX)
        return profile if self.gpus == 1 else f"{self.gpus}x{profile}"


NO_GPUS = PodNeed()


def need_of(pod: Pod, settings: PolicySettings) -> PodNeed:
    """Return what a pod asks of one node; `NO_GPUS` when it asks for no GPU and no MIG device."""
    resource = _resource_of(pod, settings)
    if not resource:
        return NO_GPUS
    sizes = parallel_sizes(pod)
    explicit = _explicit_topology(pod)
    # Who asks for a topology without naming a parallel size means all GPUs of the container.
    whole = sizes.source == "request" and explicit in (Topology.REQUIRED, Topology.PREFERRED)
    containers = tuple(
        ContainerNeed(
            gpus=container.requests.count(resource),
            island=_island_of(container, resource, None if whole else sizes.tensor_of(container.name)),
            kind=container.kind,
        )
        for container in pod.spec.containers
        if container.requests.count(resource)
    )
    wants_island = any(c.island > 1 for c in containers)
    products, memory_mib = _gpu_kind(pod)
    return PodNeed(
        resource=resource,
        gpus=pod.spec.requests.count(resource),
        containers=containers,
        topology=explicit or (settings.topology_default if wants_island else Topology.IGNORED),
        tensor_parallel=sizes.tensor,
        pipeline_parallel=sizes.pipeline,
        products=products,
        memory_mib=memory_mib,
        source=sizes.source,
    )


def _resource_of(pod: Pod, settings: PolicySettings) -> str:
    requested = [name for name, count in pod.spec.requests.extended if count]
    for resource in settings.gpu_resources:
        if resource in requested:
            return resource
    return next((name for name in requested if name.startswith(names.MIG_RESOURCE_PREFIX)), "")


def _island_of(container: Container, resource: str, tensor_parallel: int | None) -> int:
    """Return the island a container needs; a tensor parallel size beyond its GPUs spans pods, and wants them all."""
    if container.kind is ContainerKind.INIT:
        return 1
    gpus = container.requests.count(resource)
    return gpus if tensor_parallel is None else max(1, min(gpus, tensor_parallel))


def _explicit_topology(pod: Pod) -> Topology | None:
    value = pod.annotation(names.TOPOLOGY)
    return Topology(value) if value is not None and value in Topology._value2member_map_ else None


def topology_warning(pod: Pod) -> str:
    """Return what is wrong with the pod's topology annotation, which then counts as absent; empty when nothing is."""
    value = pod.annotation(names.TOPOLOGY)
    if value is None or _explicit_topology(pod) is not None:
        return ""
    known = ", ".join(topology.value for topology in Topology)
    return f"metadata.annotations[{names.TOPOLOGY}]: {value!r:.60} is not one of {known}, and counts as absent"


def _gpu_kind(pod: Pod) -> tuple[tuple[str, ...] | None, int]:
    """Return the products and the memory (MiB) that the pod's selectors ask for."""
    products: set[str] | None = None
    memory_mib = 0
    for key, value in pod.spec.node_selector:
        if key == names.GPU_PRODUCT:
            products = {value}
    terms = pod.spec.node_terms or ()
    if len(terms) == 1:
        # Several terms are alternatives; what only some of them ask for is no condition of the pod.
        for requirement in terms[0].labels:
            if requirement.key == names.GPU_PRODUCT and requirement.operator == "In":
                products = set(requirement.values) & (products if products is not None else set(requirement.values))
            if requirement.key == names.GPU_MEMORY and requirement.operator == "Gt" and requirement.values:
                above = integer(requirement.values[0])
                memory_mib = max(memory_mib, 0 if above is None else above + 1)
    return (None if products is None else tuple(sorted(products))), memory_mib
