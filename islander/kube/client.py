"""The way to the Kubernetes API: the official client's configuration, credentials and transport; bytes in, bytes out.

The only module that knows `kubernetes` and `urllib3`; objects are decoded by `parse`, not by the client's models.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import cast
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from islander.kube.errors import (
    ApiConfiguration,
    ApiError,
    ApiStalled,
    ApiUnreachable,
    error_from_response,
    without_secrets,
)
from islander.kube.lines import lines_of

# The functions are not annotated in the official client.
_load_kube_config = cast("Callable[..., None]", load_kube_config)
_load_incluster_config = cast("Callable[..., None]", load_incluster_config)

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 60.0
_READ_BYTES = 1 << 16
_ERROR_BODY_BYTES = 1 << 16
# One connection per watched kind stays open; more than this many at a time would be opened and thrown away.
_POOL_CONNECTIONS = 32


class KubeClient:
    """Requests to one API server, as one user; may be used by several threads."""

    def __init__(
        self, configuration: Configuration, *, impersonate: str | None = None, program: str = "islander-extender"
    ) -> None:
        configuration.connection_pool_maxsize = _POOL_CONNECTIONS
        # A proxy or load balancer may drop a silent connection without a word; the kernel then notices.
        configuration.keep_alive = True
        # The callers retry, with their own backoff; nothing here may repeat a POST.
        configuration.retries = False
        if not configuration.verify_ssl:
            # The kubeconfig asks for it; a warning with every request would say nothing new.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._configuration = configuration
        self._pool = ApiClient(configuration).rest_client.pool_manager
        self._credentials = threading.Lock()
        self._headers = {"Accept": "application/json", "User-Agent": f"{program}/{_version()}"}
        if impersonate is not None:
            self._headers["Impersonate-User"] = impersonate

    def get(
        self, path: str, params: Mapping[str, str] | None = None, *, read_timeout_s: float = READ_TIMEOUT_S
    ) -> bytes:
        """Return the body of a successful answer.

        Raises
        ------
        ApiError
            By status, or `ApiUnreachable` without an answer.
        """
        return self._body("GET", path, params, None, read_timeout_s)

    def post(self, path: str, body: bytes, *, read_timeout_s: float = READ_TIMEOUT_S) -> bytes:
        """Send a JSON body once and return the body of a successful answer; errors as in `get`.

        After `ApiUnreachable` the server may or may not have done what was asked.
        """
        return self._body("POST", path, None, body, read_timeout_s)

    def stream(self, path: str, params: Mapping[str, str] | None = None, *, silence_s: float) -> HttpLines:
        """Return the lines of an answer that goes on; errors of the request itself as in `get`.

        Iterating raises `ApiStalled` after `silence_s` seconds without data, `ApiUnreachable` when the stream is cut.
        """
        return HttpLines(f"GET {path}", self._open("GET", path, params, None, silence_s), silence_s)

    def close(self) -> None:
        """Drop idle connections."""
        self._pool.clear()

    def __enter__(self) -> KubeClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _body(
        self, method: str, path: str, params: Mapping[str, str] | None, body: bytes | None, read_timeout_s: float
    ) -> bytes:
        response = self._open(method, path, params, body, read_timeout_s)
        try:
            return response.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _unreachable(f"{method} {path}", error) from error
        finally:
            response.release_conn()

    def _open(
        self, method: str, path: str, params: Mapping[str, str] | None, body: bytes | None, read_timeout_s: float
    ) -> urllib3.BaseHTTPResponse:
        request = f"{method} {path}"
        headers = self._headers | self._authorization()
        if body is not None:
            headers["Content-Type"] = "application/json"
        query = f"?{urlencode(params)}" if params else ""
        try:
            response = self._pool.request(
                method,
                f"{self._configuration.host.rstrip('/')}{path}{query}",
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=read_timeout_s),
                # A redirect would carry the credentials to another place.
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _unreachable(request, error) from error
        if 200 <= response.status < 300:
            return response
        try:
            said = response.read(_ERROR_BODY_BYTES)
        except (urllib3.exceptions.HTTPError, OSError):
            said = b""
        response.close()
        raise error_from_response(request, response.status, said, retry_after_s=_retry_after_s(response))

    def _authorization(self) -> dict[str, str]:
        """Return the header of this moment: asking for it is what renews a token that has run out."""
        try:
            # Renewal may run a login program; several watches must not start it at once.
            with self._credentials:
                bearer = self._configuration.auth_settings().get("BearerToken")
        except (ConfigException, OSError) as error:
            raise ApiUnreachable(f"cannot renew the credentials: {_harmless(error)}") from error
        return {"Authorization": bearer["value"]} if bearer and bearer["value"] else {}


class HttpLines:
    """The lines of one open answer."""

    def __init__(self, request: str, response: urllib3.BaseHTTPResponse, silence_s: float) -> None:
        self._request = request
        self._response = response
        self._silence_s = silence_s
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from lines_of(self._chunks())
        finally:
            self._response.close()

    def close(self) -> None:
        """End the stream from any thread; the one that reads sees the end."""
        self._closed = True
        try:
            # Closing alone does not wake a thread that waits for data.
            self._response.shutdown()
        except (ValueError, RuntimeError, OSError):
            # The answer has already ended.
            return

    def _chunks(self) -> Iterator[bytes]:
        try:
            while chunk := self._response.read1(_READ_BYTES):
                yield chunk
        except urllib3.exceptions.ReadTimeoutError as error:
            raise ApiStalled(f"{self._request}: silent for {self._silence_s:g} s") from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            # A socket that another thread shuts down ends in one of these, depending on the moment and on TLS.
            if not self._closed:
                raise _unreachable(self._request, error) from error


def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    impersonate: str | None = None,
    program: str = "islander-extender",
) -> KubeClient:
    """Return a client for the cluster that kubectl would talk to.

    Parameters
    ----------
    kubeconfig
        Path, or several joined as in the environment variable KUBECONFIG. Without it and without `context`: the
        kubeconfig of KUBECONFIG or the home folder if there is one, else the service account of the pod.
    impersonate
        Name of the user to act as.

    Raises
    ------
    ApiConfiguration
        No kubeconfig and not in a pod, no such context, a missing or broken file.
    """
    configuration = Configuration()
    usual = os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    try:
        if kubeconfig or context or any(Path(p).expanduser().exists() for p in usual.split(os.pathsep) if p):
            _load_kube_config(
                config_file=kubeconfig or usual,
                context=context,
                client_configuration=configuration,
                # Reading a cluster must not rewrite the user's file.
                persist_config=False,
            )
        else:
            _load_incluster_config(client_configuration=configuration)
        return KubeClient(configuration, impersonate=impersonate, program=program)
    # A broken kubeconfig makes the official client raise whatever its first use of it raises.
    except Exception as error:
        # Not chained: the official client quotes whole entries of the file, credentials and all.
        raise ApiConfiguration(f"no way to the Kubernetes API: {_harmless(error)}") from None


def _harmless(error: Exception) -> str:
    """Return the error's words up to where the official client, or the YAML parser, starts to quote the kubeconfig."""
    if isinstance(error, ConfigException | OSError):
        return without_secrets(str(error).partition("{")[0].strip())
    return f"the kubeconfig is broken ({type(error).__name__})"


def _unreachable(request: str, error: Exception) -> ApiError:
    return ApiUnreachable(f"{request}: {without_secrets(str(error))}")


def _retry_after_s(response: urllib3.BaseHTTPResponse) -> float | None:
    """Return the seconds the server asks to wait; the API server writes whole seconds, never a date."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else None


def _version() -> str:
    try:
        return version("islander")
    except PackageNotFoundError:
        return "unknown"
