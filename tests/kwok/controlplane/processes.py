"""Starts one local program, waits until it is ready, and makes sure that it does not outlive the tests."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.kwok.controlplane.ports import free_ports

Ports = tuple[int, ...]

_ATTEMPTS = 4
_POLL_SECONDS = 0.05
_CLASH = "address already in use"
_TAIL_LINES = 25

# Runs before the program in its own process: asks the kernel to kill it when the thread that started it is gone.
_LAUNCHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the process that started this one is gone")
os.execvp(sys.argv[2], sys.argv[2:])
"""

# The kernel looks at the thread, not at the process: this one starts every program and lives as long as we do.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbench-starter")


class ProcessError(RuntimeError):
    """A program ended by itself or did not become ready; the message holds the end of its log."""


class LocalProcess:
    """One running program.

    Parameters
    ----------
    name
        Name in messages.
    log
        File that gets stdout and stderr; kept open for appending, so that a restart does not lose the log before it.
    ports
        The loopback ports that its command line names.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, ports: Ports, env: Mapping[str, str] | None = None
    ):
        self.name = name
        self.log = log
        self.ports = ports
        self._log_start = log.stat().st_size if log.exists() else 0
        launched = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command]
        with log.open("ab") as output:
            self._process = _starter.submit(
                subprocess.Popen,
                launched,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=local_environment() | dict(env or {}),
                start_new_session=True,
            ).result()

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the program still runs."""
        return self._process.poll() is None

    def log_text(self) -> str:
        """Return what this run of the program has logged so far."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def wait_until_ready(self, ready: Callable[[], bool], timeout_seconds: float) -> None:
        """Wait for `ready`; an OSError from it counts as not yet.

        Raises
        ------
        ProcessError
            The program ended, or the time is over.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            if not self.alive:
                raise ProcessError(self._report(f"ended with code {self._process.returncode}"))
            try:
                if ready():
                    return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise ProcessError(self._report(f"was not ready after {timeout_seconds:.0f} s"))
            time.sleep(_POLL_SECONDS)

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End the program: SIGTERM, then SIGKILL when it takes too long. A program that has ended is fine."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End the program at once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def _report(self, what: str) -> str:
        tail = "\n".join(self.log_text().splitlines()[-_TAIL_LINES:])
        return f"{self.name} {what}; the end of its log:\n{tail}"


def start_process(
    name: str,
    command: Callable[[Ports], Sequence[str]],
    *,
    log: Path,
    ready: Callable[[Ports], bool],
    port_count: int = 1,
    fixed_ports: Ports | None = None,
    env: Mapping[str, str] | None = None,
    timeout_seconds: float = 60.0,
) -> LocalProcess:
    """Start a program on free ports and wait until it is ready; take other ports when somebody was faster.

    `fixed_ports` asks for these ports and no others, for a restart that others must not notice.

    Raises
    ------
    ProcessError
        It did not become ready.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        ports = fixed_ports or free_ports(port_count)
        process = LocalProcess(name, command(ports), log, ports, env)
        try:
            process.wait_until_ready(partial(ready, ports), timeout_seconds)
        except BaseException:
            clash = not process.alive and _CLASH in process.log_text().lower()
            process.stop()
            if not clash or fixed_ports is not None or attempt == _ATTEMPTS:
                raise
        else:
            return process
    raise AssertionError("unreachable")


def local_environment() -> dict[str, str]:
    """Return this process's environment with proxies switched off for loopback."""
    return dict(os.environ) | {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
