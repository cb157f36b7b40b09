"""One kube-scheduler process: its configuration, log and metrics."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kwok.controlplane.fetch import fetch
from tests.kwok.controlplane.metrics import metric_sum
from tests.kwok.controlplane.processes import LocalProcess, Ports, start_process

Config = dict[str, Any]

STOCK_CONFIG: Config = {}


def extender_entry(url: str, **fields: Any) -> Config:
    """Return an `extenders:` item with filter and prioritize, names only.

    `fields` add to it or override (`preemptVerb="preempt"`); a field that is None is left out.
    """
    entry = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 15,
        "httpTimeout": "5s",
        "nodeCacheCapable": True,
    }
    return {key: value for key, value in (entry | fields).items() if value is not None}


def complete_config(config: Mapping[str, Any], kubeconfig: Path) -> Config:
    """Fill in what every configuration of the bench needs; what `config` says itself stays.

    A shorter backoff than Kubernetes' 10 s is the only difference that a pod could notice.
    """
    full = deepcopy(dict(config))
    full.setdefault("apiVersion", "kubescheduler.config.k8s.io/v1")
    full.setdefault("kind", "KubeSchedulerConfiguration")
    full.setdefault("percentageOfNodesToScore", 100)
    full.setdefault("podMaxBackoffSeconds", 2)
    full["leaderElection"] = {"leaderElect": False}
    connection = {"qps": 5000, "burst": 10000} | full.get("clientConnection", {})
    full["clientConnection"] = connection | {"kubeconfig": str(kubeconfig)}
    return full


@dataclass(frozen=True, slots=True)
class SchedulerFiles:
    """What a scheduler is started from; logs and configurations go to `folder`."""

    binary: Path
    kubeconfig: Path
    certificate: Path
    key: Path
    folder: Path
    extra_args: tuple[str, ...] = ()


class Scheduler:
    """A running kube-scheduler.

    Parameters
    ----------
    name
        Name of its log and configuration file; pods choose by `profiles[].schedulerName`, not by this.
    config
        KubeSchedulerConfiguration, may be partial.
    """

    def __init__(self, name: str, config: Mapping[str, Any], files: SchedulerFiles):
        self.name = name
        self.config = deepcopy(dict(config))
        self._ca_file = files.certificate
        config_file = files.folder / f"scheduler-{name}.json"
        config_file.write_text(json.dumps(complete_config(config, files.kubeconfig), indent=2))

        def command(ports: Ports) -> Sequence[str]:
            return [
                str(files.binary),
                f"--config={config_file}",
                "--bind-address=127.0.0.1",
                f"--secure-port={ports[0]}",
                f"--tls-cert-file={files.certificate}",
                f"--tls-private-key-file={files.key}",
                "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
                "--v=2",
                *files.extra_args,
            ]

        log = files.folder / f"scheduler-{name}.log"
        self.process: LocalProcess = start_process(
            f"kube-scheduler {name}", command, log=log, ready=lambda ports: self._get(ports, "/readyz") == "ok"
        )

    def log_text(self) -> str:
        """Return what it has logged since it was started."""
        return self.process.log_text()

    def metrics_text(self) -> str:
        """Return its /metrics."""
        return self._get(self.process.ports, "/metrics")

    def metric(self, name: str, /, **labels: str) -> float:
        """Return the sum of a metric's samples that carry these labels."""
        return metric_sum(self.metrics_text(), name, **labels)

    def stop(self) -> None:
        """End it and wait until it is gone."""
        self.process.stop()

    def _get(self, ports: Ports, path: str) -> str:
        return fetch(f"https://127.0.0.1:{ports[0]}{path}", ca_file=self._ca_file)
