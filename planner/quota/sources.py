"""Kueue's objects as the YAML files of `--snapshot` write them, with their comments and order."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from planner.errors import PlannerError

# What an object of Kueue says of itself; other parts of a file are not read again.
_GROUP = "kueue.x-k8s.io/v1"
_GZIP = b"\x1f\x8b"
_SEPARATOR = re.compile(r"^---(?:[ \t].*)?\n", re.MULTILINE)
_ITEMS = re.compile(r"^items:[ \t]*(?:#.*)?\n", re.MULTILINE)
_FIRST_ITEM = re.compile(r"^([ \t]*)- ", re.MULTILINE)

Key = tuple[str, str, str]


def yaml_sources(files: Sequence[str]) -> dict[Key, CommentedMap]:
    """Return the objects of Kueue in YAML files by (kind, namespace, name); of two with one key the later counts.

    JSON, stdin (which cannot be read twice) and what cannot be read as YAML give none.

    Raises
    ------
    PlannerError
        A file cannot be read.
    """
    found: dict[Key, CommentedMap] = {}
    for file in files:
        if file == "-":
            continue
        text = _text(file)
        if _GROUP not in text or text.lstrip().startswith(("{", "[")):
            continue
        for chunk in _chunks(text):
            document = _document(chunk)
            metadata = document.get("metadata") if document is not None else None
            if document is not None and isinstance(metadata, CommentedMap):
                kind, name = document.get("kind"), metadata.get("name")
                if isinstance(kind, str) and isinstance(name, str):
                    found[kind, str(metadata.get("namespace") or ""), name] = document
    return found


def _text(file: str) -> str:
    try:
        data = Path(file).read_bytes()
        return (gzip.decompress(data) if data.startswith(_GZIP) else data).decode("utf-8-sig")
    except (OSError, EOFError) as problem:
        raise PlannerError(f"{file}: cannot be read again: {problem}") from problem
    except UnicodeDecodeError:
        return ""


def _chunks(text: str) -> Iterator[str]:
    """Yield the text of every single object that may be one of Kueue's."""
    for part in _SEPARATOR.split(text):
        if _GROUP not in part:
            continue
        head = _ITEMS.search(part)
        if head is None:
            yield part
        else:
            yield from (item for item in _items(part[head.end() :]) if _GROUP in item)


def _items(text: str) -> Iterator[str]:
    """Yield the items of a list, each moved to the left margin, with the comment lines above it."""
    first = _FIRST_ITEM.search(text)
    if first is None:
        return
    indent = first[1]
    above: list[str] = []
    item: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        starts = line.startswith(f"{indent}- ")
        if starts or not (line.startswith(f"{indent} ") or not bare or bare.startswith("#")):
            if item:
                yield _joined(above, item)
            above, item = _comments_at_end(item) if item else above, []
            if not starts:
                return
            item = [line[len(indent) + 2 :]]
        elif item:
            item.append(line[len(indent) + 2 :] if line.startswith(f"{indent}  ") else bare)
        else:
            above.append(bare)
    if item:
        yield _joined(above, item)


def _comments_at_end(item: list[str]) -> list[str]:
    """Take the comment lines at the margin from the end of an item: they are about the next one."""
    taken: list[str] = []
    while item and item[-1].startswith("#"):
        taken.insert(0, item.pop())
    return taken


def _joined(above: list[str], item: list[str]) -> str:
    return "\n".join([*above, *item]) + "\n"


def _document(text: str) -> CommentedMap | None:
    reader = YAML()
    reader.preserve_quotes = True
    reader.width = 4096
    try:
        document = reader.load(text)
    except (YAMLError, ValueError):
        return None
    return document if isinstance(document, CommentedMap) else None
