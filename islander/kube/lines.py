"""Lines out of chunks: a watch is one JSON object per line, but the network cuts where it likes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line without its end; blank lines are left out, and so is a last line that has no end.

    An event that was cut has not arrived: the next watch brings it again.
    """
    begun: list[bytes] = []
    for chunk in chunks:
        head, *rest = chunk.split(b"\n")
        begun.append(head)
        for part in rest:
            line = b"".join(begun).strip()
            begun = [part]
            if line:
                yield line
