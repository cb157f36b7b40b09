"""Runs one long command and shows that it is alive."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kwok.controlplane.cache import say

_PROGRESS_SECONDS = 15.0
_TAIL_LINES = 30


class CommandError(RuntimeError):
    """A command of the build ended with an error; the message holds the end of its output."""


def run_and_report(what: str, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path) -> float:
    """Run `command` with its output in `log`, report every 15 s, return the seconds it took.

    Raises
    ------
    CommandError
        The command ended with another code than 0.
    """
    say(f"{what} ...")
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(list(command), cwd=cwd, env=dict(env), stdout=output, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    code = process.wait(timeout=_PROGRESS_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    say(f"{what} ... {time.monotonic() - started:.0f} s")
        except BaseException:
            process.kill()
            process.wait()
            raise
    seconds = time.monotonic() - started
    if code != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
        raise CommandError(f"{what} failed with code {code} after {seconds:.0f} s; the end of {log}:\n{tail}")
    say(f"{what}: done in {seconds:.0f} s")
    return seconds
