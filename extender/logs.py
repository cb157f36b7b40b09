"""Log lines: a constant message and fields, as text for people or as JSON for machines."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Literal

# What every record carries; whatever else is on it was given as a field.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, object] = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        line |= {"message": record.getMessage(), **_fields(record)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Time, level, message, then the fields as `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, and the lines of its exception."""
        fields = "".join(f" {name}={_quoted(value)}" for name, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname:<7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up_logging(style: Literal["text", "json"], level: str) -> None:
    """Send the log of the whole program to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def _time(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c.isspace() or c in '"=' for c in text) else text
