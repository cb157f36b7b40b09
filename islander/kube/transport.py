"""What reading and watching need of the API; `client.KubeClient` is the one that goes over the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol


class LineStream(Protocol):
    """Lines of an answer that does not end by itself."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield each complete line without its end."""

    def close(self) -> None:
        """End the stream from any thread; the one that reads sees the end."""


class Transport(Protocol):
    """What reading and watching need of the API."""

    def get(self, path: str, params: Mapping[str, str]) -> bytes:
        """Return the body of the answer."""

    def stream(self, path: str, params: Mapping[str, str], *, silence_s: float) -> LineStream:
        """Return the lines of the answer; iterating raises `ApiStalled` after `silence_s` seconds without data."""
