"""Runs the scheduler extender as a process of its own, as it runs beside a kube-scheduler."""

import json
import sys
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import urllib3

from tests.kwok.controlplane.fetch import fetch
from tests.kwok.controlplane.metrics import metric_sum
from tests.kwok.controlplane.ports import free_ports
from tests.kwok.controlplane.processes import LocalProcess, start_process

Json = dict[str, Any]

_ROOT = Path(__file__).parents[3]
_TIMEOUT_SECONDS = 10.0


class ExtenderProcess:
    """The extender on a port that it keeps over restarts, so that a kube-scheduler finds it again.

    Parameters
    ----------
    folder
        Where its configuration and log go.
    kubeconfig
        Whose rights it has; None leaves it to the configuration (`snapshotFile`).
    settings
        More of its configuration file, merged over what this class says (`{"bind": True}`).
    name
        Tells several extenders' files apart.
    """

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        name: str = "extender",
        ready_timeout_seconds: float = 30.0,
    ):
        self._folder = folder
        self._kubeconfig = kubeconfig
        self._name = name
        self._timeout_seconds = ready_timeout_seconds
        self._settings = deepcopy(dict(settings or {}))
        self._port = free_ports(1)[0]
        self._http = urllib3.PoolManager(maxsize=8, retries=False)
        self._process: LocalProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where it listens; the `urlPrefix` of the scheduler's configuration."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def process(self) -> LocalProcess:
        """The running process."""
        if self._process is None:
            raise ValueError(f"{self._name} is not started")
        return self._process

    @property
    def config_file(self) -> Path:
        """Its configuration file; JSON, which is YAML."""
        return self._folder / f"{self._name}.yaml"

    def start(self, *, wait_until_ready: bool = True) -> None:
        """Write the configuration and start; ready means that every watched kind has been listed once."""
        config: Json = {
            "apiVersion": "islander.dev/v1",
            "kind": "ExtenderConfig",
            "listen": {"address": "127.0.0.1", "port": self._port, "threads": 8},
        }
        if self._kubeconfig is not None:
            config["kubeconfig"] = str(self._kubeconfig)
        for key, value in self._settings.items():
            config[key] = config.get(key, {}) | value if isinstance(value, dict) else value
        self.config_file.write_text(json.dumps(config, indent=2))
        self._process = start_process(
            self._name,
            lambda _: [sys.executable, "-m", "extender", "--config", str(self.config_file)],
            log=self._folder / f"{self._name}.log",
            ready=lambda _: bool(fetch(f"{self.url}/{'readyz' if wait_until_ready else 'healthz'}")),
            fixed_ports=(self._port,),
            env={"PYTHONPATH": str(_ROOT)},
            timeout_seconds=self._timeout_seconds,
        )

    def stop(self) -> None:
        """End it as an operator would, with SIGTERM; ended already is fine."""
        if self._process is not None:
            self._process.stop()
        self._http.clear()

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()

    def restart(self, settings: Mapping[str, Any] | None = None) -> None:
        """Stop it if it runs, and start it on the same port; `settings` take the place of those from before."""
        self.stop()
        if settings is not None:
            self._settings = deepcopy(dict(settings))
        self.start()

    def log_text(self) -> str:
        """Return what it has logged since it was started."""
        return self.process.log_text()

    def get(self, path: str) -> str:
        """Return the body of a page that answers 200; OSError otherwise."""
        return fetch(f"{self.url}{path}")

    def get_json(self, path: str) -> Json:
        """Return a page's JSON."""
        answer: Json = json.loads(self.get(path))
        return answer

    def post(self, path: str, body: object) -> tuple[int, Any]:
        """Return the status and the parsed answer to a POST, whatever the status is; other text stays text."""
        answer = self._http.request(
            "POST",
            f"{self.url}{path}",
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            timeout=_TIMEOUT_SECONDS,
        )
        text = answer.data.decode()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def metric(self, name: str, /, **labels: str) -> float:
        """Return the sum of a metric's samples that carry these labels."""
        return metric_sum(self.get("/metrics"), name, **labels)
