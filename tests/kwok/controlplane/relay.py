"""Passes TCP connections on, byte by byte, and counts them."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.kwok.controlplane.ports import free_ports


class Relay:
    """Stands before a server on loopback while its `with` block lasts.

    Parameters
    ----------
    url
        Of the server.

    Attributes
    ----------
    url
        Where it listens.
    connections
        How many were made so far.
    """

    def __init__(self, url: str):
        port = free_ports(1)[0]
        self.url = f"{urlsplit(url).scheme}://127.0.0.1:{port}"
        self.connections = 0
        self._upstream = ("127.0.0.1", urlsplit(url).port)
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self._upstream)
            self._open += [client, server]
            for source, target in ((client, server), (server, client)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
