"""A loopback proxy between kube-scheduler and an extender: records what passes, and misbehaves when told to."""

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import urllib3

from tests.kwok.controlplane.ports import free_ports

# Takes the verb and the request's body, returns status and body.
Answer = Callable[[str, bytes], tuple[int, bytes]]

_UPSTREAM_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request of the scheduler and what it got; bodies as they went over the wire."""

    verb: str
    request: bytes
    status: int
    response: bytes

    @property
    def asked(self) -> Any:
        """The request's JSON."""
        return json.loads(self.request)

    @property
    def answered(self) -> Any:
        """The response's JSON."""
        return json.loads(self.response)


class Recorder:
    """The proxy; listens as long as its `with` block, except while `refuse` is on.

    Parameters
    ----------
    upstream
        Base URL of the extender; may be empty when `answer` does all the talking.

    Attributes
    ----------
    delay_seconds
        Waited before every answer.
    status
        When set, every answer has this status and an empty body, and the extender is not asked.
    answer
        When set, makes the answers instead of the extender.
    """

    def __init__(self, upstream: str = "", answer: Answer | None = None):
        self.delay_seconds = 0.0
        self.status: int | None = None
        self.answer = answer
        self._upstream = upstream.rstrip("/")
        self._http = urllib3.PoolManager(maxsize=16, retries=False)
        self._exchanges: list[Exchange] = []
        self._lock = threading.Lock()
        self._port = free_ports(1)[0]
        self._server: _Server | None = None
        self._connections_opened = 0

    def __enter__(self) -> Self:
        self.accept()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        self._http.clear()

    @property
    def url(self) -> str:
        """Where it listens; the `urlPrefix` of the scheduler's configuration."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def connections_opened(self) -> int:
        """How many connections were made to it; stays low as long as keep-alive works."""
        return self._connections_opened

    def exchanges(self, verb: str = "") -> list[Exchange]:
        """Return what has passed so far, oldest first; of one verb, or of all."""
        with self._lock:
            return [exchange for exchange in self._exchanges if verb in ("", exchange.verb)]

    def about(self, pod_name: str, verb: str = "") -> list[Exchange]:
        """Return the filter, prioritize and preempt exchanges about one pod."""
        return [
            exchange
            for exchange in self.exchanges(verb)
            if (exchange.asked.get("Pod") or {}).get("metadata", {}).get("name") == pod_name
        ]

    def clear(self) -> None:
        """Forget what has passed."""
        with self._lock:
            self._exchanges.clear()

    def refuse(self) -> None:
        """Stop listening and drop every connection, as an extender that is down."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def accept(self) -> None:
        """Listen (again), on the same port."""
        if self._server is None:
            self._server = _Server(self._port, self)

    def handle(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """Answer one request and remember it."""
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
        if self.status is not None:
            status, answer = self.status, b""
        elif self.answer is not None:
            status, answer = self.answer(verb, body)
        else:
            status, answer = self._ask_upstream(verb, body)
        with self._lock:
            self._exchanges.append(Exchange(verb, body, status, answer))
        return status, answer

    def connection_opened(self) -> None:
        """Count one connection."""
        with self._lock:
            self._connections_opened += 1

    def _ask_upstream(self, verb: str, body: bytes) -> tuple[int, bytes]:
        try:
            answer = self._http.request(
                "POST",
                f"{self._upstream}/{verb}",
                body=body,
                headers={"Content-Type": "application/json"},
                timeout=_UPSTREAM_TIMEOUT_SECONDS,
            )
        except urllib3.exceptions.HTTPError as problem:
            return 502, str(problem).encode()
        return answer.status, answer.data


class _Server(ThreadingHTTPServer):
    """Serves one recorder; knows its open connections, so that `close` can cut them."""

    daemon_threads = True

    def __init__(self, port: int, recorder: Recorder):
        self.recorder = recorder
        self.connections: set[socket.socket] = set()
        self._connections_lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.recorder.connection_opened()
        with self._connections_lock:
            self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._connections_lock:
            self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is what the tests provoke; nothing to print."""

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        with self._connections_lock:
            open_connections = list(self.connections)
        for connection in open_connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Reads one request at a time off a connection that stays open."""

    protocol_version = "HTTP/1.1"
    # One packet per answer; else the client's delayed acknowledgement holds the body back for 40 ms.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, answer = self.server.recorder.handle(self.path.strip("/"), body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing about requests that were answered."""
