from __future__ import annotations

import json
import logging

from extender.logs import JsonFormatter, TextFormatter


def a_record(**fields: object) -> logging.LogRecord:
    record = logging.makeLogRecord({"name": "extender.web", "levelname": "INFO", "msg": "filter refused nodes"})
    record.created, record.msecs = 0.25, 250.0
    vars(record).update(fields)
    return record


def test_json_lines_carry_the_fields() -> None:
    line = JsonFormatter().format(a_record(pod="a/b", refused={"NODE_TOO_SMALL": 2}))
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "info",
        "logger": "extender.web",
        "message": "filter refused nodes",
        "pod": "a/b",
        "refused": {"NODE_TOO_SMALL": 2},
    }


def test_text_lines_carry_the_fields() -> None:
    line = TextFormatter().format(a_record(pod="a/b", reason='two words and a "quote"', empty=""))
    assert line == (
        '1970-01-01T00:00:00.250Z INFO    filter refused nodes pod=a/b reason="two words and a \\"quote\\"" empty=""'
    )


def test_a_value_cannot_start_a_line_of_its_own() -> None:
    for formatter in (JsonFormatter(), TextFormatter()):
        assert "\n" not in formatter.format(a_record(pod="a\nERROR faked"))


def test_exceptions_are_kept() -> None:
    try:
        raise ZeroDivisionError("why")
    except ZeroDivisionError as e:
        record = a_record(exc_info=(type(e), e, e.__traceback__))
    assert "ZeroDivisionError: why" in json.loads(JsonFormatter().format(record))["exception"]
    assert "ZeroDivisionError: why" in TextFormatter().format(record)
