"""The formats of `-o`, and a result in each of them."""

from __future__ import annotations

import io
import re
from enum import StrEnum
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from islander.cluster.names import API_VERSION

# Words that YAML 1.1, which kubectl reads, takes for a truth value or a time of day, and YAML 1.2 for text.
_NOT_TEXT_IN_YAML_1_1 = re.compile(
    r"y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
)


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


def clear_text(text: str) -> str:
    """Return a text that every reader of YAML takes for one: in quotes where some would not."""
    return DoubleQuotedScalarString(text) if _NOT_TEXT_IN_YAML_1_1.fullmatch(text) else text


def yaml_text(document: object) -> str:
    """Return a document as YAML, keys in the document's order; what ruamel has read is written as it was."""
    writer = YAML()
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.width = 4096
    writer.allow_unicode = True
    out = io.StringIO()
    writer.dump(document if isinstance(document, CommentedMap) else _clear(document), out)
    return out.getvalue()


def _clear(value: object) -> object:
    if isinstance(value, dict):
        return {_clear(key): _clear(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clear(part) for part in value]
    return clear_text(value) if isinstance(value, str) else value
