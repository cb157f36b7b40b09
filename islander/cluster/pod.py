"""A pod: what it asks for, where it runs, who owns it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from islander.cluster.resources import Resources


class ContainerKind(StrEnum):
    """How a container's requests count: before the others, beside them for ever, or as the pod's own."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


class Container(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A container, in the order in which kubelet admits it (init containers and sidecars first).

    Attributes
    ----------
    argv
        `command` followed by `args`, secrets masked; empty for containers without GPUs.
    env
        (name, value) of the few variables that carry parallel sizes.
    image
        Empty for containers without GPUs.
    """

    name: str
    kind: ContainerKind = ContainerKind.APP
    requests: Resources = Resources()
    argv: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    image: str = ""


class Toleration(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A toleration as the API writes it; an empty key with `Exists` tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Requirement(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A label requirement: key, operator (In, NotIn, Exists, DoesNotExist, Gt, Lt), values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeTerm(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node selector term: all expressions on labels and all on fields (`metadata.name`) must hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PodTerm(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A required pod (anti-)affinity term.

    Attributes
    ----------
    selector
        Requirements on pod labels; None selects nothing, empty selects every pod.
    namespaces
        Namespaces the selector looks at; empty with no namespace selector means the pod's own.
    namespace_selector
        Requirements on namespace labels; None means not given.
    topology_key
        Node label whose equal values make one domain.
    """

    topology_key: str
    selector: tuple[Requirement, ...] | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: tuple[Requirement, ...] | None = None


class SpreadConstraint(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A topology spread constraint with `whenUnsatisfiable: DoNotSchedule`."""

    topology_key: str
    max_skew: int
    selector: tuple[Requirement, ...] | None = None
    min_domains: int = 1


class HostPort(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A port of the node that a pod occupies."""

    port: int
    protocol: str = "TCP"
    host_ip: str = "0.0.0.0"  # noqa: S104 - the API's word for "every address", not an address we listen on


class PodSpec(Struct, frozen=True, weakref=True, rename="camel", omit_defaults=True):
    """What pods of one template share; equal specs are one object in memory.

    Attributes
    ----------
    containers
        In kubelet's order: init containers and sidecars as listed, then the others.
    requests
        Effective request of the pod: max(apps + sidecars, each init container + the sidecars before it), plus overhead.
    node_terms
        Required node affinity: one of the terms must hold; None when there is no affinity.
    claims
        Names of the persistent volume claims.
    resource_claims
        True when the pod has `spec.resourceClaims` (dynamic resource allocation).
    """

    containers: tuple[Container, ...] = ()
    requests: Resources = Resources()
    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    claims: tuple[str, ...] = ()
    resource_claims: bool = False
    priority: int = 0
    priority_class: str = ""
    preemption_policy: str = ""
    grace_seconds: int = 30
    scheduler_name: str = "default-scheduler"
    gated: bool = False


class Owner(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The controlling owner of an object."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""


class Pod(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod.

    Attributes
    ----------
    node
        Node that the pod is bound to; empty while pending.
    nominated_node
        Node that preemption or an expectation of the scheduler names; only a hint while pending.
    created, started, deleted
        RFC 3339 times as the API gives them; empty when absent. `deleted` is the deletion timestamp.
    annotations
        Only those of `names.KEPT_POD_ANNOTATIONS`.
    """

    namespace: str
    name: str
    uid: str = ""
    spec: PodSpec = PodSpec()
    node: str = ""
    nominated_node: str = ""
    phase: str = "Pending"
    ready: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    owner: Owner | None = None
    created: str = ""
    started: str = ""
    deleted: str = ""
    unschedulable_message: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """True when the pod has run to its end, well or badly: it holds nothing, and never will again."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def holds_devices(self) -> bool:
        """True while the pod's requests count on its node: bound and not finished."""
        return bool(self.node) and not self.finished

    def label(self, key: str) -> str | None:
        """Return a label's value, None when absent."""
        return next((v for k, v in self.labels if k == key), None)

    def annotation(self, key: str) -> str | None:
        """Return a kept annotation's value, None when absent."""
        return next((v for k, v in self.annotations if k == key), None)
