"""The HTTP server below the application: cheroot, one process with threads, tightened where one client could hurt all.

Notes
-----
Measured on loopback with a Flask application that echoes 5,000 names (p50): cheroot 1.6 ms, gunicorn gthread 1.3 ms,
waitress 1.2 ms; with 1,000 names all three take 0.7 ms. waitress has no TLS; gunicorn forks a worker from a master
and has no limit on bodies nor a timeout for a client that falls silent. cheroot runs in this process, beside the
watches whose state it serves, keeps HTTP/1.1 connections open, and answers with Content-Length.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cheroot.server import HTTPConnection, HTTPRequest
from cheroot.ssl import Adapter
from cheroot.wsgi import Server

from extender.config import ConfigError, Listen, Tls

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

log = logging.getLogger(__name__)

_HEADER_BYTES = 64 * 1024
_BUFFER_BYTES = 16 * 1024
_CONNECTIONS = 1024
_LINGER_S = 2.0
_STOP_S = 5


class _Request(HTTPRequest):
    """A request whose body has a known, permitted length, and is there in full before the application sees it."""

    def parse_request(self) -> None:
        untyped: Any = super()
        untyped.parse_request()
        if not self.ready:
            self.conn.drain()

    def read_request_headers(self) -> bool:
        untyped: Any = super()
        if not untyped.read_request_headers():
            return False
        length: bytes = self.inheaders.get(b"Content-Length", b"0")
        if not length.isdigit():
            # int() takes signs and underscores; a negative length would wait for the end of the connection.
            return self._refuse("400 Bad Request", "Malformed Content-Length header.")
        if self.chunked_read:
            return self._refuse("411 Length Required", "Send the body with a Content-Length.")
        if int(length) > self.server.max_body_bytes:
            return self._refuse("413 Request Entity Too Large", "The body is larger than listen.maxBodyBytes allows.")
        return True

    def respond(self) -> None:
        length = int(self.inheaders.get(b"Content-Length", 0))
        body = self.conn.rfile.read(length) if length else b""
        if len(body) < length:
            self.close_connection = True
            self._refuse("400 Bad Request", "The body is shorter than its Content-Length.")
            return
        self.rfile = BytesIO(body)
        self.server.gateway(self).respond()
        if self.chunked_write:
            self.conn.wfile.write(b"0\r\n\r\n")

    def _refuse(self, status: str, message: str) -> bool:
        self.simple_response(status, message)
        return False


class _Timely(socket.SocketIO):
    """Reads from a socket until a moment; a client that sends byte by byte gains nothing."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, "r")
        self._timed = sock
        self.deadline_s = 0.0
        self.paused = False

    def readinto(self, buffer: Any) -> int | None:
        if self.paused:
            return None
        left = self.deadline_s - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._timed.settimeout(left)
        return super().readinto(buffer)


class _Reader(BufferedReader):
    """What cheroot reads from, in place of its own slower one."""

    bytes_read = 0

    def __init__(self, sock: socket.socket) -> None:
        self.timely = _Timely(sock)
        super().__init__(self.timely, _BUFFER_BYTES)

    def has_data(self) -> bool:
        """Return whether something has arrived that was not read yet, without waiting for more."""
        self.timely.paused = True
        try:
            return bool(self.peek())
        finally:
            self.timely.paused = False


class _Writer:
    """What cheroot writes to, in place of its own slower one."""

    bytes_written = 0

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        self._sock = sock
        self._timeout_s = timeout_s

    def write(self, data: bytes) -> int:
        """Send everything; a client that does not read is given up after a while."""
        self._sock.settimeout(self._timeout_s)
        self._sock.sendall(data)
        return len(data)


class _Connection(HTTPConnection):
    """A connection whose requests arrive within the request timeout, or are given up."""

    RequestHandlerClass = _Request

    def __init__(self, server: Any, sock: socket.socket, _makefile: object = None) -> None:
        self._timeout_s: float = server.request_timeout_s
        self._shake_hands = isinstance(sock, ssl.SSLSocket)
        super().__init__(server, sock, self._make_file)

    def communicate(self) -> bool:
        if self._shake_hands:
            # Here, not on accept: there a client that stops half-way would hold up every other one.
            try:
                self.socket.settimeout(self._timeout_s)
                self.socket.do_handshake()
            except OSError as e:
                log.info("TLS handshake failed", extra={"client": self.remote_addr, "reason": str(e)})
                return False
            self._shake_hands = False
            if not self.socket.pending():
                return True
        self.rfile.timely.deadline_s = time.monotonic() + self._timeout_s
        untyped: Any = super()
        return bool(untyped.communicate())

    def _make_file(self, sock: socket.socket, mode: str, _bufsize: int) -> _Reader | _Writer:
        return _Reader(sock) if "r" in mode else _Writer(sock, self._timeout_s)

    def drain(self) -> None:
        """Read on for a moment after a refusal: closing with unread data would take the answer from the client."""
        end = time.monotonic() + _LINGER_S
        try:
            if not isinstance(self.socket, ssl.SSLSocket):
                self.socket.shutdown(socket.SHUT_WR)
            self.socket.settimeout(_LINGER_S / 10)
            while time.monotonic() < end and self.socket.recv(1 << 16):
                pass
        except OSError:
            return


class _TlsAdapter(Adapter):
    """TLS by the standard library, with the handshake left to the worker thread."""

    def __init__(self, tls: Tls) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        files = {"certFile": tls.cert_file, "keyFile": tls.key_file, "clientCAFile": tls.client_ca_file}
        for key, path in files.items():
            if path is not None and not Path(path).is_file():
                raise ConfigError(f"tls.{key}: no such file: {path}")
        try:
            self.context.load_cert_chain(tls.cert_file, tls.key_file)
        except OSError as e:
            raise ConfigError(f"tls.certFile, tls.keyFile: not a certificate with its key: {e}") from e
        if tls.client_ca_file is not None:
            try:
                self.context.load_verify_locations(tls.client_ca_file)
            except OSError as e:
                raise ConfigError(f"tls.clientCAFile: not a certificate: {e}") from e
            self.context.verify_mode = ssl.CERT_REQUIRED

    def bind(self, sock: socket.socket) -> socket.socket:
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def get_environ(self) -> dict[str, str]:
        return {}

    def makefile(self, sock: Any, mode: str = "r", bufsize: int = -1) -> Any:
        raise NotImplementedError("connections make their own files")


class ExtenderServer(Server):
    """Serves one WSGI application; `prepare`, then `serve` until `stop` is called from another thread.

    Raises
    ------
    ConfigError
        A TLS file is missing or broken.
    OSError
        From `prepare`: the address cannot be listened on.
    """

    ConnectionClass = _Connection
    _connections: Any

    def __init__(self, app: WSGIApplication, listen: Listen, tls: Tls | None = None) -> None:
        super().__init__(
            (listen.address, listen.port),
            app,
            numthreads=listen.threads,
            server_name="islander-extender",
            request_queue_size=128,
            timeout=int(listen.keep_alive),
            shutdown_timeout=_STOP_S,
        )
        self.request_timeout_s = listen.request_timeout
        self.max_body_bytes = listen.max_body_bytes
        self.max_request_header_size = _HEADER_BYTES
        self.keep_alive_conn_limit = _CONNECTIONS
        self.ssl_adapter = _TlsAdapter(tls) if tls else None

    @property
    def port(self) -> int:
        """The port that is listened on; after `prepare` it is known even when the system chose it."""
        return int(self.bind_addr[1])

    @staticmethod
    def bind_socket(socket_: socket.socket, bind_addr: tuple[str, int]) -> socket.socket:
        """Bind, and leave nothing open when that fails."""
        try:
            socket_.bind(bind_addr)
        except OSError:
            socket_.close()
            raise
        return socket_

    def process_conn(self, conn: Any) -> None:
        """Hand a connection with something to read to a worker; one that has just been made waits for its bytes."""
        if conn.last_used is None:
            self._connections.put(conn)
        else:
            super().process_conn(conn)

    def stop_keeping_connections(self) -> None:
        """From now on close each connection after its answer, so that clients move on before the server stops."""
        self.keep_alive_conn_limit = 0

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Pass cheroot's messages to the log."""
        log.log(level, "HTTP server", extra={"reason": str(msg)}, exc_info=traceback)
