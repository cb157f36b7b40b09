"""What can go wrong with the Kubernetes API, by what the caller can do about it."""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

# An API server's message can quote a whole object; a log line needs its beginning.
_MESSAGE_LIMIT = 300
_SECRETS = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+|\beyJ[\w-]+\.[\w-]+\.[\w-]*")


class ApiError(Exception):
    """The API did not do what was asked; `retryable` says whether the same request may succeed later.

    Attributes
    ----------
    status
        HTTP status, None when there was no answer.
    retry_after_s
        Seconds the server asks to wait, None when it does not say.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class ApiUnreachable(ApiError):
    """No answer: refused, cut, not resolved, not in time, or no trust in the certificate."""

    retryable = True


class ApiStalled(ApiUnreachable):
    """A stream said nothing for longer than agreed, not even a bookmark."""


class ApiBusy(ApiError):
    """The server cannot do it now (429, 5xx)."""

    retryable = True


class ApiGone(ApiError):
    """The resource version or continue token is too old (410): list again from the start."""

    retryable = True


class ApiUnreadable(ApiError):
    """The answer is not what the API promises: cut JSON, another kind of object, a proxy's page."""

    retryable = True


class ApiUnauthorized(ApiError):
    """The server does not know who asks (401); a token may be renewed meanwhile, so the watch keeps trying."""

    retryable = True


class ApiForbidden(ApiError):
    """The account may not do this (403)."""


class ApiNotFound(ApiError):
    """There is no such object, or the server does not serve this kind (404)."""


class ApiConflict(ApiError):
    """The object has moved on, or the pod is bound already (409)."""


class ApiRejected(ApiError):
    """The server does not accept the request (any other 3xx or 4xx)."""


class ApiConfiguration(ApiError):
    """There is no usable way to the API: no kubeconfig, no such context, a missing file."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: ApiUnauthorized,
    403: ApiForbidden,
    404: ApiNotFound,
    409: ApiConflict,
    410: ApiGone,
    429: ApiBusy,
}


class _Status(msgspec.Struct, frozen=True):
    """The fields of `meta/v1 Status` that say what is wrong."""

    message: str = ""
    reason: str = ""
    code: int = 0


def error_from_response(
    request: str, status: int, body: bytes = b"", *, retry_after_s: float | None = None
) -> ApiError:
    """Return the error that an answer stands for.

    Parameters
    ----------
    request
        Method and path without its query, such as `GET /api/v1/pods`.
    body
        As received; only the message of a `Status` or the first line of anything else is kept, shortened.
    """
    kind = _BY_STATUS.get(status, ApiBusy if status >= 500 else ApiRejected)
    return kind(f"{request}: {status} {_said(body)}".rstrip(), status=status, retry_after_s=retry_after_s)


def error_from_event(request: str, status_object: bytes | msgspec.Raw) -> ApiError:
    """Return the error that an ERROR event of a watch stands for; `status_object` is its `Status`."""
    try:
        status = msgspec.json.decode(status_object, type=_Status)
    except (msgspec.DecodeError, RecursionError) as error:
        unreadable = ApiUnreadable(f"{request}: an ERROR event without a readable status")
        unreadable.__cause__ = error
        return unreadable
    code = 410 if status.reason in ("Expired", "Gone") else status.code
    return error_from_response(request, code or 500, bytes(status_object))


def without_secrets(text: str) -> str:
    """Return `text` on one line, without credentials, cut to what a log line bears."""
    line = _SECRETS.sub("(credential)", " ".join(text.split()))
    return line if len(line) <= _MESSAGE_LIMIT else line[: _MESSAGE_LIMIT - 3] + "..."


def _said(body: bytes) -> str:
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, RecursionError):
        return without_secrets(body[:_MESSAGE_LIMIT].decode(errors="replace"))
    return without_secrets(status.message or status.reason)
