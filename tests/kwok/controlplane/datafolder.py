"""The folder one control plane writes to: on tmpfs where there is one, gone when the control plane is."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "islander-testbench-"
_TMPFS = Path("/dev/shm")


@contextmanager
def data_folder() -> Iterator[Path]:
    """Make the folder and remove it at the end, together with those that killed runs have left behind."""
    parent = _TMPFS if os.access(_TMPFS, os.W_OK) else Path(tempfile.gettempdir())
    _remove_leftovers(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        with (folder / "in-use.new").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Under its final name the file is locked from the start: nobody can take the folder for a leftover.
            Path(lock.name).rename(folder / "in-use")
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(parent: Path) -> None:
    """Remove the folders whose lock nobody holds: the kernel gives locks back when a process dies, however it dies."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            with (folder / "in-use").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
