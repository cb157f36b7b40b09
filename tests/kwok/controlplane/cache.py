"""Where built programs live between runs: outside the checkout, shared by all checkouts of one user."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Return the test bench's folder below the user's cache folder; it exists afterwards."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(base).expanduser() / "islander" / "testbench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def say(message: str) -> None:
    """Tell the person who waits, on stderr, so that stdout stays usable by scripts."""
    print(f"testbench: {message}", file=sys.stderr, flush=True)


@contextmanager
def held_lock(path: Path, waiting_for: str) -> Iterator[None]:
    """Hold `path` as a lock against other processes; say what is waited for when somebody else has it."""
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another run is at it, waiting for {waiting_for}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
