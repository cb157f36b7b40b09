"""The configuration of the extender: one file, read once at the start, every key checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from islander.cluster.names import DEFAULT_GPU_RESOURCES
from islander.policy.settings import DemandMix, PolicySettings, Shape, Topology

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_RESOURCE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class ConfigError(Exception):
    """The configuration cannot be used; the message is one line that names the file and the key."""


def duration_seconds(value: object) -> float:
    """Return the seconds of a duration as Go writes it (`2s`, `500ms`, `1m30s`); `0` needs no unit.

    Raises
    ------
    ValueError
        The value is not a duration.
    """
    if value == 0 and not isinstance(value, bool):
        return 0.0
    if isinstance(value, str) and value == "0":
        return 0.0
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise ValueError("must be a duration such as 2s or 500ms")
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(value))


Seconds = Annotated[float, BeforeValidator(duration_seconds)]


def _resource_name(value: object) -> object:
    if isinstance(value, str) and not _RESOURCE.fullmatch(value):
        raise ValueError(f"{value!r} is not the name of an extended resource, such as nvidia.com/gpu")
    if isinstance(value, str) and f".{value}".partition("/")[0].endswith(".kubernetes.io"):
        raise ValueError(f"{value!r} is a name of Kubernetes itself, not of an extended resource")
    return value


ResourceName = Annotated[str, BeforeValidator(_resource_name)]


def _empty_is_default(value: object) -> object:
    return {} if value is None else value


class _Section(BaseModel):
    """A part of the file: camelCase keys, none unknown, nothing converted silently."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
    )


class Listen(_Section):
    """Where and how the server listens.

    Attributes
    ----------
    address
        Address that is bound; plain HTTP belongs on a loopback address only.
    port
        0 lets the system choose.
    threads
        Worker threads; kube-scheduler has at most one call of each verb in flight.
    keep_alive
        How long an idle connection stays open. kube-scheduler's client drops its own after 90 s; a server that is
        first loses the race now and then, and a lost POST is not sent again.
    request_timeout
        How long a request may take to arrive, from its first byte to its last.
    max_body_bytes
        Larger bodies are answered 413. The default takes whole `Nodes` of some thousand nodes; names need far less.
    """

    address: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8880, ge=0, le=65535)
    threads: int = Field(default=8, ge=1, le=256)
    keep_alive: Seconds = Field(default=120.0, gt=95.0)
    request_timeout: Seconds = Field(default=10.0, gt=0.0)
    max_body_bytes: int = Field(default=64 * 2**20, ge=1024)


class Tls(_Section):
    """TLS of the server.

    Attributes
    ----------
    cert_file
        Certificate chain, PEM.
    key_file
        Its private key, PEM.
    client_ca_file
        Only clients with a certificate of this authority are served; without it everybody is.
    """

    cert_file: str = Field(min_length=1)
    key_file: str = Field(min_length=1)
    client_ca_file: str | None = Field(default=None, alias="clientCAFile", min_length=1)


class MixEntry(_Section):
    """One entry of the demand mix.

    Attributes
    ----------
    gpus
        GPUs that one replica asks of one node.
    weight
        How often such replicas come, compared with the other entries.
    """

    gpus: int = Field(ge=1, le=64)
    weight: float = Field(gt=0.0, allow_inf_nan=False, strict=False)


class ReservationObject(_Section):
    """The object in the API that carries the reservations of plans in progress.

    Attributes
    ----------
    namespace
        Namespace of the object that holds reservations.
    name
        Name of the object that holds reservations.
    """

    namespace: str = Field(default="islander", min_length=1)
    name: str = Field(default="islander-reservations", min_length=1)


class Log(_Section):
    """What is logged, and how.

    Attributes
    ----------
    format
        Lines for people, or one JSON object per line.
    level
        The least severe level that is written.
    """

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


class ExtenderConfig(_Section):
    """The configuration file.

    Attributes
    ----------
    kubeconfig
        None: in a pod its service account, else the usual kubeconfig.
    snapshot_file
        Serve this file instead of a cluster.
    topology_default
        Topology of a pod with tensor parallelism that does not say its own.
    demand_mix
        The demand that scoring keeps room for; `observed` learns it from the pods of the cluster.
    soft_hold
        How long the top-scored node is thought to get the pod, unless the watch tells earlier; 0 for never.
    resource_names
        Resources that stand for whole GPUs.
    bind
        Offer the bind verb. kube-scheduler binds by itself, faster, and with dynamic resources more safely.
    """

    api_version: Literal["islander.dev/v1"] = "islander.dev/v1"
    kind: Literal["ExtenderConfig"] = "ExtenderConfig"
    listen: Annotated[Listen, BeforeValidator(_empty_is_default)] = Listen()
    tls: Tls | None = None
    kubeconfig: str | None = Field(default=None, min_length=1)
    snapshot_file: str | None = Field(default=None, min_length=1)
    topology_default: Literal["required", "preferred", "ignored"] = "preferred"
    demand_mix: Literal["observed"] | list[MixEntry] = "observed"
    soft_hold: Seconds = Field(default=2.0, ge=0.0, le=60.0)
    resource_names: list[ResourceName] = Field(default=list(DEFAULT_GPU_RESOURCES), min_length=1)
    reservations: Annotated[ReservationObject, BeforeValidator(_empty_is_default)] = ReservationObject()
    bind: bool = False
    log: Annotated[Log, BeforeValidator(_empty_is_default)] = Log()

    @model_validator(mode="after")
    def _one_source(self) -> ExtenderConfig:
        if self.snapshot_file and self.kubeconfig:
            raise ValueError("snapshotFile and kubeconfig exclude each other")
        if self.snapshot_file and self.bind:
            raise ValueError("bind needs a cluster, not a snapshotFile")
        if isinstance(self.demand_mix, list) and not self.demand_mix:
            raise ValueError("demandMix needs an entry, or the word observed")
        # kube-scheduler does not start with a list of managed resources that names one twice.
        if twice := next((name for name in self.resource_names if self.resource_names.count(name) > 1), None):
            raise ValueError(f"resourceNames: {twice} is listed twice")
        return self

    def policy_settings(self) -> PolicySettings:
        """Return what the policy needs; no mix when it is to be observed."""
        mix = None
        if isinstance(self.demand_mix, list):
            weights: dict[Shape, float] = {}
            for entry in self.demand_mix:
                shape = Shape(entry.gpus, island=entry.gpus > 1)
                weights[shape] = weights.get(shape, 0.0) + entry.weight
            mix = DemandMix(tuple(sorted(weights.items())))
        return PolicySettings(tuple(self.resource_names), Topology(self.topology_default), mix)


def parse_config(text: str, source: str, overrides: Mapping[tuple[str, ...], object] | None = None) -> ExtenderConfig:
    """Return the configuration written in `text` (YAML; JSON is YAML).

    Parameters
    ----------
    source
        Name of the file, for messages.
    overrides
        Values of the command line by path of keys; they replace what the file says.

    Raises
    ------
    ConfigError
        The text is not YAML, a key is unknown, or a value is bad.
    """
    try:
        document = YAML(typ="safe", pure=True).load(StringIO(text))
    except MarkedYAMLError as e:
        line = f" line {e.problem_mark.line + 1}:" if e.problem_mark else ""
        raise ConfigError(f"{source}:{line} not valid YAML: {e.problem or e.context}") from e
    except (YAMLError, ValueError, RecursionError) as e:
        raise ConfigError(f"{source}: not valid YAML: {_first_line(e)}") from e
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise ConfigError(f"{source}: must be a mapping of keys such as `kind: ExtenderConfig`")
    for path, value in (overrides or {}).items():
        section = document
        for key in path[:-1]:
            if section.get(key) is None:
                section[key] = {}
            section = section[key]
            if not isinstance(section, dict):
                break  # the check below names it
        else:
            section[path[-1]] = value
    try:
        return ExtenderConfig.model_validate(document)
    except ValidationError as e:
        raise ConfigError(f"{source}: {_complaint(e.errors(include_url=False))}") from e


def load_config(path: Path, overrides: Mapping[tuple[str, ...], object] | None = None) -> ExtenderConfig:
    """Return the configuration of a file; `ConfigError` when it cannot be read or used."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "not UTF-8"
        raise ConfigError(f"{path}: cannot be read: {reason}") from e
    return parse_config(text, str(path), overrides)


def _complaint(errors: list[ErrorDetails]) -> str:
    # Of a union every member complains; the one that got furthest into the value is the one that was meant.
    error = max(errors, key=lambda e: len(e["loc"]) if e["loc"][:1] == errors[0]["loc"][:1] else 0)
    path = ""
    for part in error["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.startswith(("literal[", "list[")):  # pydantic's names for the members of a union
            path += f".{part}" if path else part
    match error["type"]:
        case "extra_forbidden":
            message = "unknown key"
        case "missing":
            message = "is missing"
        case "invalid_key":
            message = "a key is not a word"
        case "value_error":
            message = str(error["ctx"]["error"])
        case "model_type":
            message = "should be a mapping of keys"
        case _:
            message = error["msg"][0].lower() + error["msg"][1:]
    return f"{path}: {message}" if path else message


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
