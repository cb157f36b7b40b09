from __future__ import annotations

import json

import pytest

from islander.kube.errors import (
    ApiBusy,
    ApiConflict,
    ApiError,
    ApiForbidden,
    ApiGone,
    ApiNotFound,
    ApiRejected,
    ApiUnauthorized,
    ApiUnreadable,
    error_from_event,
    error_from_response,
)


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (301, ApiRejected, False),
        (400, ApiRejected, False),
        (401, ApiUnauthorized, True),
        (403, ApiForbidden, False),
        (404, ApiNotFound, False),
        (409, ApiConflict, False),
        (410, ApiGone, True),
        (422, ApiRejected, False),
        (429, ApiBusy, True),
        (500, ApiBusy, True),
        (503, ApiBusy, True),
    ],
)
def test_an_error_says_by_its_type_whether_trying_again_helps(
    status: int, kind: type[ApiError], retryable: bool
) -> None:
    error = error_from_response("GET /api/v1/pods", status)
    assert type(error) is kind
    assert error.retryable is retryable
    assert error.status == status


def test_an_error_quotes_the_message_of_the_status() -> None:
    body = json.dumps({"kind": "Status", "message": 'pods is forbidden: User "x"', "code": 403}).encode()
    assert str(error_from_response("GET /api/v1/pods", 403, body)) == (
        'GET /api/v1/pods: 403 pods is forbidden: User "x"'
    )


def test_a_long_answer_is_cut_to_one_line() -> None:
    text = str(error_from_response("GET /x", 502, b"<html>\n" + b"y" * 5000))
    assert "\n" not in text
    assert len(text) < 400


def test_an_answer_that_is_not_text_does_not_hide_the_status() -> None:
    assert str(error_from_response("GET /x", 500, b"\xff\xfe")).startswith("GET /x: 500")


@pytest.mark.parametrize(
    "secret", ["Bearer abc.def-123", "bearer  sha256~XyZ", "Basic dXNlcjpwYXNz", "eyJhbGciOi.eyJzdWIi.c2ln"]
)
def test_credentials_in_an_answer_are_not_repeated(secret: str) -> None:
    text = str(error_from_response("GET /x", 401, json.dumps({"message": f"wrong: {secret}!"}).encode()))
    assert secret.rsplit(maxsplit=1)[-1] not in text
    assert "(credential)" in text


def test_an_error_event_is_read_by_code_and_by_reason() -> None:
    assert type(error_from_event("watch", b'{"code":410}')) is ApiGone
    assert type(error_from_event("watch", b'{"code":200,"reason":"Expired"}')) is ApiGone
    assert type(error_from_event("watch", b'{"code":429}')) is ApiBusy
    assert type(error_from_event("watch", b"{}")) is ApiBusy
    assert type(error_from_event("watch", b'"what"')) is ApiUnreadable
