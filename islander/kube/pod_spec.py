"""From `spec` of a pod on the wire to `PodSpec`; equal specs become one object.

A cluster runs ten thousands of pods from some hundred templates. A spec is reduced to the fields that Islander uses,
and a digest of those fields finds the value that an earlier pod of the template was given: that is both the speed and
the small memory of the watch.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from weakref import WeakValueDictionary

import msgspec

from islander.cluster.interning import one_object
from islander.cluster.pod import (
    Container,
    ContainerKind,
    HostPort,
    NodeTerm,
    PodSpec,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Toleration,
)
from islander.cluster.quantity import MalformedQuantity, bytes_of, milli, parse_quantity, whole_number
from islander.cluster.requests import effective_requests
from islander.cluster.resources import Resources
from islander.cluster.secrets import is_secret_name, without_secrets
from islander.cluster.vllm import SIZE_VARIABLES
from islander.kube import api_structs as api


class MalformedField(ValueError):
    """A field of an object is not what the API allows.

    Attributes
    ----------
    field
        Path in the object, such as `spec.containers[vllm].resources`.
    message
        What is wrong with it.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


# Weak, so that the specs of templates that are gone leave the memory with their last pod.
_SPECS: WeakValueDictionary[bytes, PodSpec] = WeakValueDictionary()
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")

_KEPT_ENV = frozenset(SIZE_VARIABLES)
_KEPT_ENV_PATTERN = re.compile(r"LWS_\w+|VLLM_\w*(?:PARALLEL|DP)\w*", re.ASCII)
_VARIABLE = re.compile(r"\$[({]?([A-Za-z_]\w*)", re.ASCII)


def parse_pod_spec(spec: api.PodSpec, pod_name: str, labels: Mapping[str, str | None]) -> PodSpec:
    """Return the spec as a value, without the node it is bound to.

    The wire struct is used up: fields that differ between pods of one template are cleared.

    Raises
    ------
    MalformedField
        A quantity, a selector or a port is not what the API allows.
    """
    containers = [*(spec.init_containers or ()), *(spec.containers or ())]
    for container in containers:
        _forget_unused_words(container)
    claims = _claims(spec.volumes or (), pod_name)
    spec.volumes = None
    spec.node_name = None
    labels_used = {
        key: labels.get(key)
        for constraint in spec.topology_spread_constraints or ()
        for key in constraint.match_label_keys or ()
    }
    key = hashlib.blake2b(_ENCODER.encode((spec, claims, labels_used)), digest_size=16).digest()
    known = _SPECS.get(key)
    return known if known is not None else _SPECS.setdefault(key, _pod_spec(spec, claims, labels))


def _pod_spec(spec: api.PodSpec, claims: tuple[str, ...], labels: Mapping[str, str | None]) -> PodSpec:
    wire_containers = _by_admission(spec)
    containers = tuple(_container(kind, container) for kind, container in wire_containers)
    affinity = spec.affinity or api.Affinity()
    return PodSpec(
        containers=one_object(containers),
        requests=one_object(_pod_requests(spec, containers)),
        node_selector=one_object(text_pairs(spec.node_selector)),
        node_terms=one_object(_node_terms(affinity.node_affinity)),
        pod_affinity=one_object(_pod_terms(affinity.pod_affinity, "spec.affinity.podAffinity")),
        pod_anti_affinity=one_object(_pod_terms(affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity")),
        spread=one_object(_spread(spec.topology_spread_constraints or (), labels)),
        tolerations=one_object(tuple(_toleration(t) for t in spec.tolerations or ())),
        host_ports=one_object(_host_ports(wire_containers, host_network=bool(spec.host_network))),
        claims=claims,
        resource_claims=bool(spec.resource_claims),
        priority=spec.priority or 0,
        priority_class=spec.priority_class_name or "",
        preemption_policy=spec.preemption_policy or "",
        grace_seconds=30 if spec.termination_grace_period_seconds is None else spec.termination_grace_period_seconds,
        scheduler_name=spec.scheduler_name or "default-scheduler",
        gated=bool(spec.scheduling_gates),
    )


def text_pairs(texts: Mapping[str, str | None] | None) -> tuple[tuple[str, str], ...]:
    """Return labels sorted by key; null counts as the empty text, as the API server reads it."""
    return tuple(sorted([(key, value or "") for key, value in texts.items()])) if texts else ()


def parse_selector(selector: api.LabelSelector | None, field: str) -> tuple[Requirement, ...] | None:
    """Return the requirements of a label selector, None when it is not given."""
    if selector is None:
        return None
    equal = tuple(Requirement(key, "In", (value,)) for key, value in text_pairs(selector.match_labels))
    return equal + _requirements(selector.match_expressions, f"{field}.matchExpressions")


def parse_resources(amounts: api.Amounts | None, field: str) -> Resources:
    """Return the CPU, memory and extended resources of a list of amounts; all others are left out.

    Raises
    ------
    MalformedField
        An amount is not a quantity, is negative, or is a fraction of a device.
    """
    cpu_milli = memory_bytes = 0
    extended = []
    for name, text in (amounts or {}).items():
        if text is None:
            continue
        try:
            if name == "cpu":
                cpu_milli = milli(parse_quantity(text))
            elif name == "memory":
                memory_bytes = bytes_of(parse_quantity(text))
            elif "/" in name and (count := whole_number(parse_quantity(text))):
                extended.append((name, count))
        except MalformedQuantity as error:
            message = str(error)
            written = "" if repr(text) in message else f" (written {text!r})"
            raise MalformedField(f"{field}[{name}]", message + written) from None
    return Resources(cpu_milli, memory_bytes, tuple(sorted(extended)))


def _container_field(container: api.PodContainer) -> str:
    return f"spec.containers[{container.name or ''}]"


def _forget_unused_words(container: api.PodContainer) -> None:
    """Clear what a container without devices runs, and of the others all variables that nobody reads."""
    resources = container.resources or api.ResourceRequirements()
    asked = (*(resources.requests or ()), *(resources.limits or ()))
    if not resources.claims and not any("/" in name for name in asked):
        container.image = container.command = container.args = container.env = None
    elif container.env:
        words = " ".join([*(container.command or ()), *(container.args or ())])
        referenced = set(_VARIABLE.findall(words)) if "$" in words else set()
        container.env = [
            variable
            for variable in container.env
            if variable.name
            and variable.value is not None
            and not is_secret_name(variable.name)
            and (
                variable.name in _KEPT_ENV or variable.name in referenced or _KEPT_ENV_PATTERN.fullmatch(variable.name)
            )
        ]


def _by_admission(spec: api.PodSpec) -> list[tuple[ContainerKind, api.PodContainer]]:
    inits = [
        (ContainerKind.SIDECAR if container.restart_policy == "Always" else ContainerKind.INIT, container)
        for container in spec.init_containers or ()
    ]
    return inits + [(ContainerKind.APP, container) for container in spec.containers or ()]


def _container(kind: ContainerKind, wire: api.PodContainer) -> Container:
    return Container(
        name=wire.name or "",
        kind=kind,
        requests=_container_requests(wire),
        argv=without_secrets([*(wire.command or ()), *(wire.args or ())]),
        env=tuple((variable.name or "", variable.value or "") for variable in wire.env or ()),
        image=wire.image or "",
    )


def _container_requests(wire: api.PodContainer) -> Resources:
    """Return the requests; a limit stands for a request that is missing, and must equal it for devices."""
    resources = wire.resources or api.ResourceRequirements()
    field = f"{_container_field(wire)}.resources"
    limits = parse_resources(resources.limits, f"{field}.limits")
    requests = parse_resources(resources.requests, f"{field}.requests")
    requested = {name for name, text in (resources.requests or {}).items() if text is not None}
    limited = {name for name, text in (resources.limits or {}).items() if text is not None}
    for name in sorted(requested & limited):
        if "/" in name and requests.count(name) != limits.count(name):
            raise MalformedField(
                f"{field}.requests[{name}]",
                f"request {requests.count(name)} and limit {limits.count(name)} must be equal",
            )
    return Resources(
        requests.cpu_milli if "cpu" in requested else limits.cpu_milli,
        requests.memory_bytes if "memory" in requested else limits.memory_bytes,
        requests.at_least(limits).extended,
    )


def _pod_requests(spec: api.PodSpec, containers: Sequence[Container]) -> Resources:
    wire = spec.resources or api.ResourceRequirements()
    requests = parse_resources(wire.requests, "spec.resources.requests")
    limits = parse_resources(wire.limits, "spec.resources.limits")
    of_containers = effective_requests(containers)

    def of_pod(name: str, requested: int, limited: int, by_containers: int) -> int | None:
        # The API server copies the pod's limit into its request only when no container asks for the resource.
        if (wire.requests or {}).get(name) is not None:
            return requested
        return limited if (wire.limits or {}).get(name) is not None and not by_containers else None

    return effective_requests(
        containers,
        parse_resources(spec.overhead, "spec.overhead"),
        pod_cpu_milli=of_pod("cpu", requests.cpu_milli, limits.cpu_milli, of_containers.cpu_milli),
        pod_memory_bytes=of_pod("memory", requests.memory_bytes, limits.memory_bytes, of_containers.memory_bytes),
    )


def _requirements(expressions: Iterable[api.Expression] | None, field: str) -> tuple[Requirement, ...]:
    found = []
    for expression in expressions or ():
        if not expression.key or not expression.operator:
            raise MalformedField(field, "an expression has no key or no operator")
        found.append(Requirement(expression.key, expression.operator, tuple(expression.values or ())))
    return tuple(found)


def _node_terms(affinity: api.NodeAffinity | None) -> tuple[NodeTerm, ...] | None:
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return parse_node_terms(required, "spec.affinity.nodeAffinity")


def parse_node_terms(required: api.NodeSelector | None, field: str) -> tuple[NodeTerm, ...] | None:
    """Return the terms of a node selector, of which one must hold; None when it is not given."""
    if required is None:
        return None
    return tuple(
        NodeTerm(_requirements(term.match_expressions, field), _requirements(term.match_fields, field))
        for term in required.node_selector_terms or ()
    )


def _pod_terms(affinity: api.PodAffinity | None, field: str) -> tuple[PodTerm, ...]:
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return tuple(
        PodTerm(
            topology_key=term.topology_key or "",
            selector=parse_selector(term.label_selector, f"{field}.labelSelector"),
            namespaces=tuple(term.namespaces or ()),
            namespace_selector=parse_selector(term.namespace_selector, f"{field}.namespaceSelector"),
        )
        for term in required or ()
    )


def _spread(
    constraints: Iterable[api.TopologySpreadConstraint], labels: Mapping[str, str | None]
) -> tuple[SpreadConstraint, ...]:
    found = []
    for constraint in constraints:
        if constraint.when_unsatisfiable == "ScheduleAnyway":
            continue
        selector = parse_selector(constraint.label_selector, "spec.topologySpreadConstraints.labelSelector")
        # Keys that the pod itself does not carry are ignored, as the scheduler does.
        own = tuple(
            Requirement(key, "In", (labels[key] or "",)) for key in constraint.match_label_keys or () if key in labels
        )
        found.append(
            SpreadConstraint(
                topology_key=constraint.topology_key or "",
                max_skew=1 if constraint.max_skew is None else constraint.max_skew,
                selector=selector if selector is None else selector + own,
                min_domains=1 if constraint.min_domains is None else constraint.min_domains,
            )
        )
    return tuple(found)


def _toleration(wire: api.PodToleration) -> Toleration:
    return Toleration(wire.key or "", wire.operator or "Equal", wire.value or "", wire.effect or "")


def _host_ports(
    containers: Iterable[tuple[ContainerKind, api.PodContainer]], *, host_network: bool
) -> tuple[HostPort, ...]:
    found = set()
    for kind, container in containers:
        for port in container.ports or () if kind is not ContainerKind.INIT else ():
            number = port.host_port or (port.container_port if host_network else None)
            if number:
                found.add((number, port.protocol or "TCP", port.host_ip or HostPort(0).host_ip))
    return tuple(HostPort(*port) for port in sorted(found))


def _claims(volumes: Iterable[api.Volume], pod_name: str) -> tuple[str, ...]:
    found = []
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            found.append(volume.persistent_volume_claim.claim_name or "")
        elif volume.ephemeral is not None:
            # The claim of a generic ephemeral volume is named after its pod and volume.
            found.append(f"{pod_name}-{volume.name or ''}")
    return tuple(sorted(found))
