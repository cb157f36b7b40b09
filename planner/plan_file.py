"""Plan files: written for a review, read again to be checked, reported and compared."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from islander.cluster.names import API_VERSION
from planner.errors import PlannerError
from planner.mig.plan import MigPlan
from planner.output import document_of, json_text, yaml_text
from planner.plan import MovePlan
from planner.quota.plan import QuotaPlan

_YAML_ENDINGS = (".yaml", ".yml")
_GZIP = b"\x1f\x8b"
# They would change what a terminal or a page shows around them; no name of a cluster has one.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


AnyPlan = MovePlan | MigPlan | QuotaPlan
PLAN_KINDS: Mapping[str, type[AnyPlan]] = {"MovePlan": MovePlan, "MigPlan": MigPlan, "QuotaPlan": QuotaPlan}
"""The kinds of plans that there are files of."""


def read_plan(name: str) -> MovePlan:
    """Return the plan of moves of a file, JSON or YAML, `.gz` or plain; `-` is stdin.

    Raises
    ------
    PlannerError
        The file cannot be read, or is no plan of moves.
    """
    plan = read_any_plan(name)
    if not isinstance(plan, MovePlan):
        raise PlannerError(f"{'stdin' if name == '-' else name}: is a {plan.kind}; a MovePlan is needed here")
    return plan


def read_any_plan(name: str) -> AnyPlan:
    """Return the plan of a file, whatever kind of plan it is.

    Raises
    ------
    PlannerError
        The file cannot be read, or is no plan.
    """
    where = "stdin" if name == "-" else name
    document = _document(_bytes(name, where), where)
    if not isinstance(document, dict) or "kind" not in document:
        raise PlannerError(f"{where}: not a plan; `islander plan moves --output-file FILE` writes one")
    kind = str(document["kind"])
    if kind not in PLAN_KINDS:
        raise PlannerError(f"{where}: {kind[:40]!r} is no kind of plan; there are {', '.join(PLAN_KINDS)}")
    if document.get("apiVersion") != API_VERSION:
        version = str(document.get("apiVersion"))[:40]
        raise PlannerError(f"{where}: apiVersion {version!r} is not {API_VERSION}; plan again with this release")
    if bad := next((text for text in _texts(document) if _INVISIBLE.search(text)), None):
        raise PlannerError(f"{where}: {bad[:60]!a} holds control characters, which no name has; plan again")
    try:
        return msgspec.convert(document, PLAN_KINDS[kind])
    except msgspec.ValidationError as problem:
        raise PlannerError(f"{where}: not a whole {kind}: {problem}; plan again") from problem


def write_plan(plan: AnyPlan, file: Path) -> None:
    """Write a plan: YAML when the name says so, JSON otherwise; `.gz` is compressed.

    Raises
    ------
    PlannerError
        The file cannot be written.
    """
    kind = file.with_suffix("") if file.suffix == ".gz" else file
    text = (yaml_text if kind.suffix in _YAML_ENDINGS else json_text)(document_of(plan))
    write_output(text, file)


def write_output(text: str, file: Path) -> None:
    """Write what `--output-file` asks for; `.gz` is compressed.

    Raises
    ------
    PlannerError
        The file cannot be written.
    """
    data = text.encode()
    try:
        file.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)
    except OSError as problem:
        raise PlannerError(f"--output-file {file}: {problem.strerror}") from problem


def _bytes(name: str, where: str) -> bytes:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except OSError as problem:
        raise PlannerError(f"{where}: {problem.strerror or problem}") from problem
    except (EOFError, zlib.error) as problem:
        raise PlannerError(f"{where}: the compressed file is cut off or broken") from problem


def _document(data: bytes, where: str) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise PlannerError(f"{where}: not a plan: the file is no text") from problem
    try:
        if text.lstrip().startswith(("{", "[")):
            return msgspec.json.decode(text)
        return YAML(typ="safe", pure=True).load(text)
    except msgspec.DecodeError as problem:
        raise PlannerError(f"{where}: broken JSON: {problem}") from problem
    except (ValueError, RecursionError) as problem:
        raise PlannerError(f"{where}: not a plan: {problem}") from problem
    except YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark is not None else ""
        raise PlannerError(f"{where}: neither JSON nor YAML: {getattr(problem, 'problem', problem)}{line}") from problem


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _texts(key)
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
