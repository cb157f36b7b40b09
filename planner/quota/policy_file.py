"""The policy of `plan quota`: which teams there are, what each must always have, and how they share the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from planner.errors import PlannerError

# What the API server takes for the name of a ClusterQueue, Cohort or ResourceFlavor (RFC 1123 subdomain).
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME, _LONGEST_LABEL = 253, 63
# More GPUs than any pod can get from one node, and more replicas than any cluster runs: a slip of the keyboard.
_MOST_GPUS, _MOST_REPLICAS = 1024, 1_000_000


def _subdomain(value: object) -> object:
    if isinstance(value, str) and (len(value) > _LONGEST_NAME or not _SUBDOMAIN.fullmatch(value)):
        raise ValueError(f"{value[:60]!r} is not a name such as chat or team-a.chat")
    return value


def _namespace(value: object) -> object:
    if isinstance(value, str) and (len(value) > _LONGEST_LABEL or not _LABEL.fullmatch(value)):
        raise ValueError(f"{value[:60]!r} is not the name of a namespace")
    return value


def _gpus(value: object) -> object:
    """Return the number that a key writes; JSON has no other keys than texts."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10 else value


Name = Annotated[str, BeforeValidator(_subdomain)]
Namespace = Annotated[str, BeforeValidator(_namespace)]
Replicas = Annotated[int, Field(ge=0, le=_MOST_REPLICAS)]


class _Section(BaseModel):
    """A part of the file: camelCase keys, none unknown, nothing converted silently."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, hide_input_in_errors=True
    )


class TeamShape(_Section):
    """What one replica of a team asks of one node.

    Attributes
    ----------
    gpus
        Whole GPUs of one pod.
    island
        Whether they must be joined pairwise by NVLink. Absent: where some node of the team has such islands.
    product
        GPU product as the node label `nvidia.com/gpu.product` spells it. Absent: any.
    """

    gpus: int = Field(ge=1, le=_MOST_GPUS)
    island: bool | None = None
    product: str | None = Field(default=None, min_length=1, max_length=_LONGEST_LABEL)


class TeamPolicy(_Section):
    """One team.

    Attributes
    ----------
    name
        Name of the team, also of its ClusterQueue when `clusterQueue` is absent.
    namespaces
        Namespaces that the team's pods live in.
    cluster_queue
        ClusterQueue that the team's quota is in; teams may share one.
    cohort
        Cohort of that ClusterQueue. Absent: the one it has; a new queue gets the cohort of its GPU product.
    shape
        Absent: read from the team's pods.
    baseline_replicas
        Replicas that always fit into the team's own nominal quota. Absent: read from autoscalers and running pods.
    max_replicas
        Replicas that the team ever runs. Absent: no limit.
    weight
        Share of what is left after the baselines, against the other teams' weights.
    may_borrow
        Whether the team may use what others leave unused.
    """

    name: Name
    namespaces: list[Namespace] = []
    cluster_queue: Name | None = None
    cohort: Name | None = None
    shape: TeamShape | None = None
    baseline_replicas: Replicas | None = None
    max_replicas: Replicas | None = None
    weight: float = Field(default=1.0, ge=0.001, le=1000.0)
    may_borrow: bool = True

    @property
    def queue(self) -> str:
        """Name of the team's ClusterQueue."""
        return self.cluster_queue or self.name

    @model_validator(mode="after")
    def _ordered(self) -> TeamPolicy:
        if self.max_replicas is not None and self.max_replicas < (self.baseline_replicas or 0):
            raise ValueError(f"maxReplicas {self.max_replicas} is below baselineReplicas {self.baseline_replicas}")
        return self


class QuotaPolicy(_Section):
    """A policy file.

    Attributes
    ----------
    teams
        The teams; what no team owns stays as it is.
    survive_nodes
        How many nodes of each flavor may fail before a guaranteed replica does. `--survive-nodes` wins.
    reserve
        Replicas by the GPUs of their shape that no quota hands out.
    """

    api_version: Literal["islander.dev/v1"] = "islander.dev/v1"
    kind: Literal["QuotaPolicy"] = "QuotaPolicy"
    teams: list[TeamPolicy] = Field(default=[], max_length=1000)
    survive_nodes: int = Field(default=0, ge=0, le=100_000)
    reserve: dict[Annotated[int, BeforeValidator(_gpus), Field(ge=1, le=_MOST_GPUS)], Replicas] = {}

    @model_validator(mode="after")
    def _consistent(self) -> QuotaPolicy:
        if twice := _repeated(team.name for team in self.teams):
            raise ValueError(f"two teams are called {twice}")
        reads = [team for team in self.teams if team.shape is None or team.baseline_replicas is None]
        if twice := _repeated(name for team in reads for name in sorted(set(team.namespaces))):
            raise ValueError(f"namespace {twice} belongs to two teams; give both a shape and baselineReplicas")
        cohorts: dict[str, str] = {}
        for team in self.teams:
            if team.cohort is not None and cohorts.setdefault(team.queue, team.cohort) != team.cohort:
                raise ValueError(f"clusterQueue {team.queue} has two cohorts, {cohorts[team.queue]} and {team.cohort}")
        return self


def parse_policy(text: str, source: str) -> QuotaPolicy:
    """Return the policy written in `text` (YAML; JSON is YAML).

    Raises
    ------
    PlannerError
        The text is not YAML, a key is unknown, or a value is bad; the message names `source` and the field.
    """
    try:
        document = YAML(typ="safe", pure=True).load(StringIO(text))
    except MarkedYAMLError as e:
        line = f" line {e.problem_mark.line + 1}:" if e.problem_mark else ""
        raise PlannerError(f"{source}:{line} not valid YAML: {e.problem or e.context}") from e
    except (YAMLError, ValueError, RecursionError) as e:
        first = (str(e).splitlines() or [type(e).__name__])[0]
        raise PlannerError(f"{source}: not valid YAML: {first}") from e
    if not isinstance(document, dict):
        raise PlannerError(f"{source}: must be a mapping of keys such as `teams: [...]`")
    try:
        return QuotaPolicy.model_validate(document)
    except ValidationError as e:
        raise PlannerError(f"{source}: {_complaint(e.errors(include_url=False))}") from e


def read_policy(file: Path) -> QuotaPolicy:
    """Return the policy of a file.

    Raises
    ------
    PlannerError
        It cannot be read or used.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "not UTF-8"
        raise PlannerError(f"--policy {file}: cannot be read: {reason}") from e
    return parse_policy(text, str(file))


def _repeated(values: Iterable[str]) -> str | None:
    return next((value for value, count in Counter(values).items() if count > 1), None)


def _complaint(errors: list[ErrorDetails]) -> str:
    error = errors[0]
    path = ""
    for part in error["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":
            path += f".{part}" if path else part
    match error["type"]:
        case "extra_forbidden":
            message = "unknown key"
        case "missing":
            message = "is missing"
        case "value_error":
            message = str(error["ctx"]["error"])
        case "model_type":
            message = "should be a mapping of keys"
        case _:
            message = error["msg"][0].lower() + error["msg"][1:]
    return f"{path}: {message}" if path else message
