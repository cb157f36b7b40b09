"""A whole control plane on loopback: etcd, kube-apiserver, kwok, kube-controller-manager and kube-schedulers."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kwok.controlplane.api import Api
from tests.kwok.controlplane.build import ready_binary
from tests.kwok.controlplane.components import start_apiserver, start_controller_manager, start_etcd, start_kwok
from tests.kwok.controlplane.credentials import make_credentials, write_kubeconfig
from tests.kwok.controlplane.datafolder import data_folder
from tests.kwok.controlplane.processes import LocalProcess
from tests.kwok.controlplane.programs import DEFAULT_MINOR, control_plane_programs
from tests.kwok.controlplane.scheduler import STOCK_CONFIG, Scheduler, SchedulerFiles

_DEFAULT_SCHEDULER = "default"


class ControlPlane:
    """A control plane that lives as long as its `with` block.

    Parameters
    ----------
    minor
        Kubernetes minor, one of `programs.minors()`.
    rbac
        Whether RBAC decides; otherwise everybody may do everything.
    feature_gates
        Passed to kube-apiserver, kube-controller-manager and every kube-scheduler.
    runtime_config
        API versions to switch on or off, such as `{"resource.k8s.io/v1beta1": "true"}`.
    apiserver_args, controller_manager_args, scheduler_args
        More flags, as they are.
    controllers
        Controllers on top of the usual ones.
    scheduler
        Configuration of the first kube-scheduler; None starts without one.
    prepare
        Called when the API answers and nothing else runs yet, such as to define kinds.

    Attributes
    ----------
    api
        The administrator's client.
    server, ca_file, kubeconfig
        Where the API is, what its certificate is checked against, and the administrator's kubeconfig.
    folder
        Where the programs write and log; gone with the control plane.
    start_seconds
        How long the start took, builds left out.
    """

    def __init__(
        self,
        minor: str = DEFAULT_MINOR,
        *,
        rbac: bool = False,
        feature_gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, str] | None = None,
        apiserver_args: Sequence[str] = (),
        controller_manager_args: Sequence[str] = (),
        scheduler_args: Sequence[str] = (),
        controllers: Sequence[str] = (),
        scheduler: Mapping[str, Any] | None = STOCK_CONFIG,
        prepare: Callable[[Api], None] | None = None,
    ):
        self.minor = minor
        self.rbac = rbac
        gates = _flag("feature-gates", {name: str(on).lower() for name, on in (feature_gates or {}).items()})
        self._apiserver_args = (*gates, *_flag("runtime-config", runtime_config or {}), *apiserver_args)
        self._controller_manager_args = (*gates, *controller_manager_args)
        self._scheduler_args = (*gates, *scheduler_args)
        self._controllers = tuple(controllers)
        self._first_scheduler = scheduler
        self._prepare = prepare
        self._schedulers: dict[str, Scheduler] = {}
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        binaries = {program.name: ready_binary(program) for program in control_plane_programs(self.minor)}
        started = time.monotonic()
        try:
            self._start(binaries)
        except BaseException:
            self._cleanup.close()
            raise
        self.start_seconds = time.monotonic() - started
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def _start(self, binaries: Mapping[str, Path]) -> None:
        folder = self.folder = self._cleanup.enter_context(data_folder())
        credentials = make_credentials(folder)
        etcd = self._stopped_at_the_end(start_etcd(binaries["etcd"], folder))
        apiserver = self._stopped_at_the_end(
            start_apiserver(
                binaries["kube-apiserver"], folder, etcd, credentials, rbac=self.rbac, extra_args=self._apiserver_args
            )
        )
        self.server = f"https://127.0.0.1:{apiserver.ports[0]}"
        self.ca_file = folder / "apiserver.crt"
        self.kubeconfig = self.write_kubeconfig(credentials.admin_token, "admin")
        self.api = self._cleanup.enter_context(self.api_as(credentials.admin_token))
        if self._prepare is not None:
            self._prepare(self.api)
        self._scheduler_files = SchedulerFiles(
            binaries["kube-scheduler"],
            self.kubeconfig,
            self.ca_file,
            folder / "apiserver.key",
            folder,
            self._scheduler_args,
        )
        self._cleanup.callback(self.stop_schedulers)
        starts: list[Callable[[], object]] = [
            lambda: self._stopped_at_the_end(start_kwok(binaries["kwok"], folder, self.kubeconfig)),
            lambda: self._stopped_at_the_end(
                start_controller_manager(
                    binaries["kube-controller-manager"],
                    folder,
                    self.kubeconfig,
                    credentials,
                    controllers=self._controllers,
                    extra_args=self._controller_manager_args,
                )
            ),
        ]
        if (config := self._first_scheduler) is not None:
            starts.append(lambda: self.start_scheduler(config))
        with ThreadPoolExecutor() as threads:
            for started in [threads.submit(start) for start in starts]:
                started.result()

    def _stopped_at_the_end(self, process: LocalProcess) -> LocalProcess:
        self._cleanup.callback(process.stop)
        return process

    # Schedulers -------------------------------------------------------------------------------------------------

    def start_scheduler(self, config: Mapping[str, Any] = STOCK_CONFIG, name: str = _DEFAULT_SCHEDULER) -> Scheduler:
        """Start one more kube-scheduler; a second one needs its own `profiles[].schedulerName`."""
        if name in self._schedulers:
            raise ValueError(f"a scheduler called {name} runs already")
        scheduler = self._schedulers[name] = Scheduler(name, config, self._scheduler_files)
        return scheduler

    def restart_scheduler(self, config: Mapping[str, Any] = STOCK_CONFIG, name: str = _DEFAULT_SCHEDULER) -> Scheduler:
        """Stop the scheduler of that name if there is one, and start it with `config`."""
        self.stop_scheduler(name)
        return self.start_scheduler(config, name)

    def stop_scheduler(self, name: str = _DEFAULT_SCHEDULER) -> None:
        """Stop one scheduler; none of that name is fine."""
        scheduler = self._schedulers.pop(name, None)
        if scheduler is not None:
            scheduler.stop()

    def stop_schedulers(self) -> None:
        """Stop all of them."""
        for name in list(self._schedulers):
            self.stop_scheduler(name)

    def scheduler(self, name: str = _DEFAULT_SCHEDULER) -> Scheduler:
        """Return a running scheduler."""
        return self._schedulers[name]

    def schedulers(self) -> tuple[Scheduler, ...]:
        """Return the schedulers that were started and not stopped."""
        return tuple(self._schedulers.values())

    def only_the_stock_scheduler(self) -> Scheduler:
        """Leave exactly the default scheduler, with no configuration of its own; restarts it only when needed."""
        for name in [name for name in self._schedulers if name != _DEFAULT_SCHEDULER]:
            self.stop_scheduler(name)
        running = self._schedulers.get(_DEFAULT_SCHEDULER)
        if running is None or running.config != STOCK_CONFIG or not running.process.alive:
            return self.restart_scheduler()
        return running

    # Users ------------------------------------------------------------------------------------------------------

    def api_as(self, token: str) -> Api:
        """Return a client that asks with `token`; close it, or use it as a context manager."""
        return Api(self.server, token, self.ca_file)

    def write_kubeconfig(self, token: str, name: str) -> Path:
        """Write a kubeconfig file for `token` and return its path."""
        return write_kubeconfig(self.folder / f"kubeconfig-{name}", self.server, self.ca_file, token)

    def kubeconfig_of(self, namespace: str, service_account: str) -> Path:
        """Write a kubeconfig for a service account that exists and return its path."""
        token = self.api.service_account_token(namespace, service_account)
        return self.write_kubeconfig(token, f"{namespace}-{service_account}")


def _flag(name: str, values: Mapping[str, str]) -> tuple[str, ...]:
    return (f"--{name}=" + ",".join(f"{key}={value}" for key, value in values.items()),) if values else ()
