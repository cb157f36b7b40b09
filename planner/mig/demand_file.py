"""The demand file of `plan mig`: YAML, every key checked; a mistake is one line with file, field and cure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from islander.hardware.mig import parse_profile_name
from planner.abbreviated import abbreviated
from planner.errors import PlannerError
from planner.mig.memory import ModelNeed, need_of_model
from planner.mig.options import MOST_INSTANCES, WantedModel, WantedProfile

_MIB_PER_GIB = 1024
_Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


class _Strict(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", strict=True, frozen=True
    )


class _ProfileEntry(_Strict):
    profile: str
    count: int = Field(ge=0, le=MOST_INSTANCES)
    priority: _Priority = 0
    product: str = ""


class _ModelEntry(_Strict):
    name: str = Field(min_length=1)
    memory_gib: float | int | None = Field(default=None, alias="memoryGiB", gt=0, le=100_000)
    max_model_len: int | None = Field(default=None, ge=1, le=100_000_000)
    replicas: int = Field(default=1, ge=0, le=MOST_INSTANCES)
    priority: _Priority = 0
    product: str = ""


class _DemandFile(_Strict):
    demand: list[_ProfileEntry] = []
    models: list[_ModelEntry] = []


def read_demand(file: Path) -> tuple[tuple[WantedProfile, ...], tuple[WantedModel, ...]]:
    """Return the profiles and models that a demand file asks for.

    Raises
    ------
    PlannerError
        The file cannot be read, or an entry is not what it must be.
    """
    name = str(file)
    content = _validated(_document(file, name), name)
    profiles = []
    for number, entry in enumerate(content.demand):
        if parse_profile_name(entry.profile) is None:
            raise PlannerError(
                f"{name}: demand[{number}].profile: {entry.profile!r:.40} is no MIG profile; write one such as 1g.10gb"
            )
        if entry.count:
            profiles.append(WantedProfile(entry.profile, entry.count, entry.priority, entry.product, "demand file"))
    models = [_model(entry, f"{name}: models[{number}]") for number, entry in enumerate(content.models)]
    return tuple(profiles), tuple(model for model in models if model.replicas)


def _model(entry: _ModelEntry, where: str) -> WantedModel:
    if entry.memory_gib is not None:
        memory_mib, why = round(entry.memory_gib * _MIB_PER_GIB), ""
    else:
        need = need_of_model(entry.name, max_model_len=entry.max_model_len)
        if not isinstance(need, ModelNeed):
            raise PlannerError(f"{where}.memoryGiB: missing, and {need}; write the memory of a replica")
        memory_mib, why = need.total_mib, need.arithmetic()
    return WantedModel(
        entry.name, memory_mib, entry.replicas, entry.priority, entry.product, source=f"model {entry.name}", why=why
    )


def _document(file: Path, name: str) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as problem:
        raise PlannerError(f"{name}: {problem.strerror or problem}; --demand takes a YAML file") from problem
    except UnicodeDecodeError as problem:
        raise PlannerError(f"{name}: is no text; --demand takes a YAML file") from problem
    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as problem:
        mark = problem.problem_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise PlannerError(f"{name}: {line}is not YAML: {' '.join(str(problem.problem).split())}") from problem
    except (YAMLError, ValueError, RecursionError) as problem:
        raise PlannerError(f"{name}: is not YAML: {str(problem).partition(chr(10))[0]}") from problem


def _validated(document: Any, name: str) -> _DemandFile:
    if document is None:
        raise PlannerError(f"{name}: is empty; write `demand:` or `models:`")
    if not isinstance(document, dict):
        raise PlannerError(f"{name}: must be a mapping with `demand:` or `models:`")
    # The two keys that every file of this product may carry.
    body = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    try:
        return _DemandFile.model_validate(body)
    except ValidationError as problem:
        raise PlannerError(f"{name}: {_line(problem.errors(include_url=False)[0])}") from problem


def _line(error: ErrorDetails) -> str:
    where = ""
    for part in error["loc"]:
        # An alternative of a union is no part of the file.
        if part in ("float", "int"):
            continue
        where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else str(part)
    match error["type"]:
        case "extra_forbidden":
            section = error["loc"][0] if len(error["loc"]) > 1 else ""
            sections: dict[str, type[BaseModel]] = {"demand": _ProfileEntry, "models": _ModelEntry}
            known = sections.get(str(section), _DemandFile)
            keys = ", ".join(field.alias or key for key, field in known.model_fields.items())
            return f"{where}: is no key of this file; there are {keys}"
        case "missing":
            return f"{where}: is missing"
        case "model_type":
            return f"{where}: must be a mapping, found {abbreviated(error['input'])}"
        case _:
            return f"{where}: {error['msg'].removeprefix('Input ')}, found {abbreviated(error['input'])}"
