"""The formats of `-o`, and a result in each of them."""

from __future__ import annotations

import io
from enum import StrEnum
from typing import Any

import msgspec
from ruamel.yaml import YAML

from islander.cluster.names import API_VERSION


class Format(StrEnum):
    """A format of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    MARKDOWN = "markdown"


def document_of(result: msgspec.Struct) -> dict[str, Any]:
    """Return a result as the document of its kind: `apiVersion`, `kind`, `warnings`, and its own keys."""
    body: dict[str, Any] = msgspec.to_builtins(result)
    return {"apiVersion": API_VERSION, "kind": type(result).__name__, "warnings": []} | body


def json_text(document: object) -> str:
    """Return a document as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def yaml_text(document: object) -> str:
    """Return a document as YAML, keys in the document's order."""
    writer = YAML()
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.width = 4096
    writer.allow_unicode = True
    out = io.StringIO()
    writer.dump(document, out)
    return out.getvalue()
