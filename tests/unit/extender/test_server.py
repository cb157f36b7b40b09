from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from extender.config import ConfigError, ExtenderConfig, parse_config
from extender.server import ExtenderServer
from tests.builders import a_node
from tests.unit.extender.harness import InMemoryExtender, asking
from tests.unit.kube.certificates import Certificates, make_certificates

HOST = "127.0.0.1"
CONFIG = "listen: {port: 0, threads: 2, requestTimeout: 300ms, maxBodyBytes: 100000}"


@contextmanager
def serving(config: ExtenderConfig | None = None) -> Iterator[ExtenderServer]:
    config = config or parse_config(CONFIG, "c.yaml")
    server = ExtenderServer(InMemoryExtender(a_node("n1")).app, config.listen, config.tls)
    server.prepare()
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[ExtenderServer]:
    with serving() as running:
        yield running


def talk(server: ExtenderServer, data: bytes, *, half_close: bool = False) -> bytes:
    """Send bytes and return everything that comes back until the server closes."""
    with socket.create_connection((HOST, server.port), timeout=10) as sock:
        sock.sendall(data)
        if half_close:
            sock.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := sock.recv(65536):
            received += chunk
        return received


def connection(server: ExtenderServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(HOST, server.port, timeout=10)


def healthy(server: ExtenderServer) -> bool:
    conn = connection(server)
    try:
        conn.request("GET", "/healthz")
        return conn.getresponse().status == 200
    finally:
        conn.close()


def test_a_connection_is_kept_for_many_requests_with_known_length(server: ExtenderServer) -> None:
    conn = connection(server)
    conn.connect()
    port = conn.sock.getsockname()[1]
    for _ in range(5):
        conn.request("POST", "/filter", b'{"Pod": {"metadata": {"name": "a"}}, "NodeNames": ["n1"]}')
        answer = conn.getresponse()
        body = answer.read()
        assert (answer.status, answer.version, int(answer.headers["Content-Length"])) == (200, 11, len(body))
        assert "Transfer-Encoding" not in answer.headers
        assert answer.headers.get("Connection") != "close"
        assert conn.sock.getsockname()[1] == port
    conn.close()


def test_idle_connections_outlive_those_of_kube_scheduler(server: ExtenderServer) -> None:
    assert server.timeout > 95
    assert ExtenderServer(lambda _e, _s: [], ExtenderConfig().listen).timeout > 95


def test_many_idle_connections_keep_no_worker_busy(server: ExtenderServer) -> None:
    """Connections that say nothing, more of them than workers, even than cheroot keeps by default."""
    idle = [socket.create_connection((HOST, server.port)) for _ in range(40)]
    try:
        assert healthy(server)
        for sock in idle:
            sock.setblocking(False)
            # Neither answered nor closed: no worker has waited for its first byte.
            with pytest.raises(BlockingIOError):
                sock.recv(1)
    finally:
        for sock in idle:
            sock.close()


def test_a_client_that_falls_silent_is_answered_and_let_go(server: ExtenderServer) -> None:
    with socket.create_connection((HOST, server.port), timeout=10) as sock:
        sock.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        received = b""
        while chunk := sock.recv(4096):
            received += chunk
    assert received.split(b" ", 2)[1] in (b"400", b"408")
    assert talk(server, b"POST /fil").split(b" ", 2)[1] == b"408"
    assert healthy(server)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"garbage\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", b"400"),
        (b"GET / HTTP/1.1\nHost: x\n\n", b"400"),
        (b"get /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", b"400"),
        (b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nabcde", b"400"),
        (b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1_0\r\n\r\nabcdefghij", b"400"),
        (b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n", b"400"),
        (b"POST /filter HTTP/1.1\r\nHost: x\r\nbroken header\r\n\r\n", b"400"),
        (b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"411"),
        (b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{", b"413"),
        (b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n{", b"400"),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", b"413"),
        (b"GET /%ff%00%zz?%ff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"404"),
        (b"DELETE /filter HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"405"),
    ],
)
def test_garbage_is_answered_with_a_client_error(server: ExtenderServer, request_bytes: bytes, status: bytes) -> None:
    answer = talk(server, request_bytes, half_close=True)
    assert answer.startswith((b"HTTP/1.1 " + status, b"HTTP/1.0 " + status))
    assert b"Traceback" not in answer
    assert healthy(server)


def test_a_body_beyond_the_limit_is_refused_even_to_a_client_that_sends_all_of_it(server: ExtenderServer) -> None:
    conn = connection(server)
    conn.request("POST", "/filter", b"x" * 5_000_000)
    answer = conn.getresponse()
    assert answer.status == 413
    answer.read()
    conn.close()


def test_connections_are_closed_after_their_answer_once_the_end_is_near() -> None:
    with serving() as server:
        conn = connection(server)
        conn.request("GET", "/healthz")
        conn.getresponse().read()
        server.stop_keeping_connections()
        conn.request("GET", "/healthz")
        answer = conn.getresponse()
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        answer.read()
        conn.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


def tls_config(certificates: Certificates, *, ask_client: bool = False) -> ExtenderConfig:
    authority = f", clientCAFile: {certificates.authority}" if ask_client else ""
    files = f"certFile: {certificates.server_certificate}, keyFile: {certificates.server_key}{authority}"
    return parse_config(f"{CONFIG}\ntls: {{{files}}}", "c.yaml")


def test_tls_is_spoken_and_connections_are_kept(certificates: Certificates) -> None:
    with serving(tls_config(certificates)) as server:
        context = ssl.create_default_context(cafile=str(certificates.authority))
        conn = http.client.HTTPSConnection(HOST, server.port, timeout=10, context=context)
        for _ in range(3):
            conn.request("POST", "/filter", json.dumps({"Pod": asking(), "NodeNames": ["n1"] * 2000}))
            answer = conn.getresponse()
            assert (answer.status, len(json.loads(answer.read())["NodeNames"])) == (200, 2000)
        conn.close()


def test_clients_without_the_right_certificate_get_nothing(certificates: Certificates) -> None:
    with serving(tls_config(certificates, ask_client=True)) as server:
        context = ssl.create_default_context(cafile=str(certificates.authority))
        with pytest.raises(OSError):  # noqa: PT011 - the version of TLS decides which one
            https_status(server, context)
        context.load_cert_chain(certificates.client_certificate, certificates.client_key)
        assert https_status(server, context) == 200


def test_a_client_that_stops_in_the_handshake_holds_up_nobody(certificates: Certificates) -> None:
    with serving(tls_config(certificates)) as server:
        stalled = [socket.create_connection((HOST, server.port)) for _ in range(8)]
        stalled[0].sendall(b"\x16\x03\x01\x02\x00")
        context = ssl.create_default_context(cafile=str(certificates.authority))
        assert https_status(server, context) == 200
        for sock in stalled:
            sock.close()


def test_plain_http_to_a_tls_port_is_dropped(certificates: Certificates) -> None:
    with serving(tls_config(certificates)) as server:
        assert b"200" not in talk(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert https_status(server, ssl.create_default_context(cafile=str(certificates.authority))) == 200


def https_status(server: ExtenderServer, context: ssl.SSLContext) -> int:
    conn = http.client.HTTPSConnection(HOST, server.port, timeout=10, context=context)
    try:
        conn.request("GET", "/healthz")
        return conn.getresponse().status
    finally:
        conn.close()


def test_a_missing_tls_file_is_named(tmp_path: Path) -> None:
    config = parse_config(f"tls: {{certFile: {tmp_path}/absent.crt, keyFile: {tmp_path}/absent.key}}", "c.yaml")
    with pytest.raises(ConfigError, match=r"tls\.certFile: no such file"):
        ExtenderServer(lambda _e, _s: [], config.listen, config.tls)
    for name in ("absent.crt", "absent.key"):
        (tmp_path / name).write_text("not a certificate")
    with pytest.raises(ConfigError, match=r"tls\.certFile, tls\.keyFile"):
        ExtenderServer(lambda _e, _s: [], config.listen, config.tls)
