"""Loopback ports for the bench's processes."""

import random
import socket

# Below the range from which Linux takes ports of outgoing connections, so a port stays free while its owner restarts.
_FIRST, _LAST = 20000, 32000


def free_ports(count: int) -> tuple[int, ...]:
    """Return ports that nobody listens on right now; somebody may take one before it is used, so be ready to retry."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return tuple(found)
