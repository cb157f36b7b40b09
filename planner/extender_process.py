"""A real extender on a loopback port that serves a snapshot file, for the time of a `with` block."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from islander.cluster.names import API_VERSION
from planner.errors import PlannerError

_HOST = "127.0.0.1"
_START_TIMEOUT_S = 30.0
_POLL_S = 0.05


class ExtenderProcess:
    """`islander-extender` in snapshot mode; asked over HTTP exactly as kube-scheduler asks it.

    Parameters
    ----------
    snapshot
        Content of the snapshot file that it serves.
    """

    def __init__(self, snapshot: bytes) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="islander-")
        folder = Path(self._folder.name)
        (folder / "snapshot.json").write_bytes(snapshot)
        self.port = _free_port()
        config = {
            "apiVersion": API_VERSION,
            "kind": "ExtenderConfig",
            "listen": {"address": _HOST, "port": self.port},
            "snapshotFile": str(folder / "snapshot.json"),
            # Each pod is asked about for itself, not one after the other as if the first were on its way.
            "softHold": "0s",
        }
        (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        self._log = folder / "extender.log"
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "extender", "--config", str(folder / "config.yaml")]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)  # noqa: S603 - our own

    def wait_until_ready(self) -> None:
        """Return when it answers; raise PlannerError with its last words when it ends or takes too long."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if self.get("/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(_POLL_S)
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise PlannerError(f"the extender did not start: {said[-1] if said else 'it said nothing'}")

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a GET."""
        return self._request("GET", path, None)

    def post(self, verb: str, body: object) -> Any:
        """Return the decoded answer to a verb; raise PlannerError when it is not 200."""
        status, text = self._request("POST", f"/{verb}", json.dumps(body))
        if status != 200:
            raise PlannerError(f"the extender answered {status} to {verb}: {text.strip()}")
        return json.loads(text)

    def stop(self) -> None:
        """End the process and remove its files."""
        self._process.terminate()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        """Return it at once; it may still be starting."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    def _request(self, method: str, path: str, body: str | None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(_HOST, self.port, timeout=_START_TIMEOUT_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8")
        finally:
            connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
