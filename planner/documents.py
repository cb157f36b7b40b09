"""The Kubernetes documents of a file: JSON or YAML, one or many, lists or single objects, packed or plain."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from planner.errors import PlannerError

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_TRAILING = re.compile(r"trailing characters \(byte ([0-9]+)\)")
_SEPARATOR = re.compile(rb"\s*(?:---[^\S\n]*(?:\n|\Z))?\s*")
# What `kubectl get ... -o yaml` prints: a list whose items begin in the first column.
_YAML_LIST = re.compile(r"\A(?:---\n)?apiVersion: v1\nitems:\n(?=- )")
_YAML_ITEM = re.compile(r"^(?=- )", re.MULTILINE)
_YAML_END_OF_ITEMS = re.compile(r"^(?=[^\s#-])", re.MULTILINE)
_JSON = re.compile(rb"\s*[{\[]")
_NOT_SPACE = re.compile(rb"\S")
_DEEPEST_LIST = 4
_PIECE_BYTES = 1 << 20


class MalformedInput(PlannerError):
    """A file holds nothing that can be used; the message is one line that names the file."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file.

    Attributes
    ----------
    group, kind
        What its list says of it, for the items of a typed list (PodList), which do not say it themselves.
    raw
        The object as JSON; None for an empty list, which only says that a kind was looked at.
    """

    group: str
    kind: str
    raw: bytes | msgspec.Raw | None


class _List(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


# Reads YAML as the API does, for which a time is a text.
_PlainLoader: Any = type(
    "_PlainLoader",
    (getattr(yaml, "CSafeLoader", yaml.SafeLoader),),
    {
        "yaml_implicit_resolvers": {
            first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }
    },
)


def read_documents(path: str) -> Iterator[Document]:
    """Yield the objects of a file, `-` for stdin; lists are taken apart without building what they hold.

    Raises
    ------
    MalformedInput
        The file cannot be read, is neither JSON nor YAML, or is cut off.
    """
    data = _text_bytes(path, _bytes_of(path))
    if _JSON.match(data):
        yield from _json_documents(path, data)
    else:
        yield from _yaml_documents(path, data)


def _bytes_of(path: str) -> bytes | bytearray:
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise MalformedInput(f"{_called(path)}: {error.strerror}") from None
    if not data.startswith(_GZIP):
        return data
    text = bytearray()
    try:
        # gzip.decompress holds all of it twice.
        with gzip.open(BytesIO(data)) as file:
            while piece := file.read(_PIECE_BYTES):
                text += piece
        return text
    except (OSError, EOFError, zlib.error) as error:
        raise MalformedInput(f"{_called(path)}: the gzip data is broken or cut off: {error}") from None


def _text_bytes(path: str, data: bytes | bytearray) -> bytes | bytearray:
    """Return the file as UTF-8; PowerShell's `>` writes UTF-16."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            data = data.decode(encoding, errors="replace").lstrip("\ufeff").encode()
            break
    if not _NOT_SPACE.search(data):
        raise MalformedInput(f"{_called(path)}: is empty; expected what `kubectl get nodes,pods -A -o json` prints")
    if b"\0" in data or not _is_utf8(data):
        raise MalformedInput(f"{_called(path)}: is a binary file; expected JSON or YAML, plain or as .gz")
    return data


def _is_utf8(data: bytes | bytearray) -> bool:
    """Return whether a file is UTF-8; piece by piece, so that a large one is not in memory for a second time."""
    decoder = getincrementaldecoder("utf-8")()
    view = memoryview(data)
    try:
        for start in range(0, len(data), _PIECE_BYTES):
            decoder.decode(view[start : start + _PIECE_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


def _json_documents(path: str, data: bytes | bytearray) -> Iterator[Document]:
    view = memoryview(data)
    start = 0
    while start < len(data):
        end = len(data)
        try:
            try:
                found = list(_unpacked(view[start:]))
            except msgspec.DecodeError as error:
                trailing = _TRAILING.search(str(error))
                if trailing is None:
                    raise
                # The decoder counts from 1.
                end = start + int(trailing[1]) - 1
                found = list(_unpacked(view[start:end]))
        except msgspec.DecodeError as error:
            raise _broken_json(path, error) from None
        except RecursionError:
            raise MalformedInput(f"{_called(path)}: the JSON is nested too deeply") from None
        yield from found
        separator = _SEPARATOR.match(data, end)
        start = separator.end() if separator else end
        if start < len(data) and data[start : start + 1] not in (b"{", b"["):
            yield from _yaml_documents(path, data[start:])
            return


def _broken_json(path: str, error: msgspec.DecodeError) -> MalformedInput:
    if "truncated" in str(error):
        return MalformedInput(f"{_called(path)}: is cut off, the JSON ends too early; take it again")
    return MalformedInput(f"{_called(path)}: is neither JSON nor YAML: {error}")


def _unpacked(raw: bytes | memoryview | msgspec.Raw, depth: int = 0) -> Iterator[Document]:
    """Yield an object itself, or the items of a list; raise DecodeError for what is no JSON."""
    try:
        found = msgspec.json.decode(raw, type=_List | list[msgspec.Raw])
    except msgspec.ValidationError:
        yield Document("", "", bytes(raw))
        return
    if isinstance(found, list):
        found = _List(items=found)
    kind = found.kind or "List"
    if found.items is msgspec.UNSET or not kind.endswith("List") or depth == _DEEPEST_LIST:
        yield Document("", "", raw if isinstance(raw, msgspec.Raw) else bytes(raw))
        return
    kind = kind.removesuffix("List")
    group = _group(found.api_version or "")
    if not found.items:
        yield Document(group, kind, None)
    for item in found.items or ():
        for document in _unpacked(item, depth + 1):
            yield document if document.kind else Document(group, kind, document.raw)


def _group(api_version: str) -> str:
    group, slash, _ = api_version.partition("/")
    return group if slash else ""


def _yaml_documents(path: str, data: bytes | bytearray) -> Iterator[Document]:
    text = data.decode()
    try:
        for value in _yaml_values(text):
            if value is None:
                continue
            try:
                yield from _unpacked(msgspec.json.encode(value))
            except (TypeError, ValueError, RecursionError, OverflowError) as error:
                raise MalformedInput(f"{_called(path)}: an object cannot be written as JSON: {error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}: " if mark else ""
        problem = " ".join(f"{error.context or ''} {error.problem or ''}".split())
        raise MalformedInput(f"{_called(path)}: {where}is neither JSON nor YAML: {problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first_line = str(error).partition("\n")[0]
        raise MalformedInput(f"{_called(path)}: is neither JSON nor YAML: {first_line}") from None


def _yaml_values(text: str) -> Iterator[Any]:
    """Yield the documents of a stream; a list as kubectl prints it is read item by item, which saves much memory."""
    head = _YAML_LIST.match(text)
    tail = _YAML_END_OF_ITEMS.search(text, head.end()) if head else None
    if head is None or tail is None:
        yield from _loaded(text)
        return
    rest = _loaded(text[tail.start() :])
    kind = next(rest, None)
    for chunk in _YAML_ITEM.split(text[head.end() : tail.start()]):
        for items in _loaded(chunk):
            yield {**(kind if isinstance(kind, dict) else {}), "apiVersion": "v1", "items": items}
    yield from rest


def _loaded(text: str) -> Iterator[Any]:
    loader = _PlainLoader(text)
    try:
        while loader.check_data():
            yield loader.get_data()
    finally:
        loader.dispose()


def _called(path: str) -> str:
    return "stdin" if path == "-" else path
