"""The program `islander-extender`: reads its configuration, joins the parts, serves until it is told to stop."""

from __future__ import annotations

import argparse
import gc
import logging
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import cast

from prometheus_client import disable_created_metrics

from extender.bind import ApiBinder, Bindings
from extender.cache import ClusterCache
from extender.config import ConfigError, ExtenderConfig, load_config, parse_config
from extender.decide import Decider
from extender.demand import ObservedDemand
from extender.gauges import ClusterGauges
from extender.holds import SoftHolds
from extender.logs import set_up_logging
from extender.metrics import Metrics
from extender.news import News
from extender.predictions import PredictionCheck
from extender.scheduler_config import scheduler_config
from extender.server import ExtenderServer
from extender.source import ClusterSource, FileCluster, LiveCluster, read_snapshot
from extender.web import Services, create_app
from islander.kube.client import connect
from islander.kube.errors import ApiError
from islander.kube.store import ClusterStore
from islander.policy.settings import DemandMix

log = logging.getLogger(__name__)

# A series with the time of creation beside every counter would double them; nobody reads it. Not annotated upstream.
_without_created_series = cast("Callable[[], None]", disable_created_metrics)

# Clients learn from an answer that they should connect anew, to a replica that stays; this is the time they get.
_FAREWELL_S = 1.0
_RENEWAL_S = 10.0
_TURN_S = 0.001


@dataclass(frozen=True, slots=True)
class Program:
    """The parts that have a beginning and an end; `store` is None when a file is served."""

    server: ExtenderServer
    services: Services
    cache: ClusterCache
    demand: ObservedDemand
    store: ClusterStore | None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    options = _parser().parse_args(argv)
    try:
        config = _config(options)
        if options.print_scheduler_config:
            sys.stdout.write(scheduler_config(config, see_all_pods=options.see_all_pods))
            return 0
        program = assemble(config)
        try:
            program.server.prepare()
        except OSError as e:
            where = f"{config.listen.address}:{config.listen.port}"
            raise ConfigError(f"listen: cannot listen on {where}: {e.strerror or e}") from e
    except (ConfigError, ApiError) as e:
        sys.stderr.write(f"islander-extender: {e}\n")
        return 1
    set_up_logging(config.log.format, config.log.level)
    _without_created_series()
    run(program)
    return 0


def assemble(config: ExtenderConfig) -> Program:
    """Join the parts; nothing runs yet, but a snapshot file has been read.

    Raises
    ------
    ConfigError
        A file that the configuration names is missing or broken.
    ApiError
        There is no way to the API.
    """
    settings = config.policy_settings()
    holds = SoftHolds(config.soft_hold)
    demand = ObservedDemand(settings)
    source: ClusterSource
    store, bindings, news = None, None, None
    if config.snapshot_file is not None:
        snapshot = read_snapshot(Path(config.snapshot_file))
        cache = ClusterCache(settings.gpu_resources, holds.settle, has_devices=snapshot.has_devices)
        cache.load(snapshot)
        for pod in snapshot.pods:
            demand.on_change("Pod", pod.key, None, pod)
        source = FileCluster(snapshot)
    else:
        if config.kubeconfig is not None and not Path(config.kubeconfig).is_file():
            raise ConfigError(f"kubeconfig: no such file: {config.kubeconfig}")
        client = connect(kubeconfig=config.kubeconfig)
        cache = ClusterCache(settings.gpu_resources, holds.settle)
        store = ClusterStore(client, monotonic=time.monotonic, jitter=random.Random())  # noqa: S311 - spreads retries
        store.add_listener(cache.on_change)
        store.add_listener(demand.on_change)
        news = News(time.monotonic)
        store.add_listener(news.on_change)
        source = LiveCluster(store, time.monotonic, _rfc3339)
        if config.bind:
            bindings = Bindings(cache, ApiBinder(client), settings, demand.mix, time.monotonic)
    metrics = Metrics(ClusterGauges(cache, source, settings, demand.mix), lambda: holds.count(time.monotonic()))
    if store is not None:
        store.add_listener(PredictionCheck(cache, settings, metrics.predicted).on_change)
    services = Services(
        decider=Decider(cache, holds, settings, demand.mix, time.monotonic, news),
        source=source,
        metrics=metrics,
        settings=settings,
        mix=demand.mix_seen,
        bindings=bindings,
    )
    app = create_app(services, max_body_bytes=config.listen.max_body_bytes)
    return Program(ExtenderServer(app, config.listen, config.tls), services, cache, demand, store)


def run(program: Program) -> None:
    """Serve until a signal says to stop; then finish what has begun. The server is prepared."""
    server, store = program.server, program.store
    # A request that wakes up beside a busy watch waits so long for its turn; the default would be 5 ms.
    sys.setswitchinterval(_TURN_S)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if store is not None:
        store.start()
    threading.Thread(target=_keep_ahead, args=(program, stop), name="keep-ahead", daemon=True).start()
    serving = threading.Thread(target=server.serve, name="serve")
    serving.start()
    host, port = server.bind_addr
    log.info("listening", extra={"address": host, "port": port, "tls": server.ssl_adapter is not None})
    stop.wait()
    # A second signal ends the program at once.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    log.info("stopping")
    program.services.stopping = True
    server.stop_keeping_connections()
    time.sleep(_FAREWELL_S)
    server.stop()
    serving.join()
    if store is not None:
        store.stop()
    log.info("stopped")


def _keep_ahead(program: Program, stop: threading.Event) -> None:
    """Do ahead of requests what they would have to wait for: all states, the usual judgements, the mix of demand."""
    if program.store is not None:
        while not program.store.wait_ready(timeout_s=1.0):
            if stop.is_set():
                return
        program.cache.catch_up()
    program.demand.renew(program.cache.prepare)
    # What is there now stays; without this each full collection would walk through the whole cluster for tenths of a
    # second, and a request in that moment would wait.
    gc.collect()
    gc.freeze()
    log.info("ready")
    while not stop.wait(_RENEWAL_S):
        if program.demand.renew(program.cache.prepare):
            log.info("demand mix renewed", extra={"mix": _mix_text(program.demand.mix())})


def _mix_text(mix: DemandMix) -> str:
    return " ".join(f"{shape.gpus}{'i' if shape.island else ''}:{weight:g}" for shape, weight in mix.weights)


def _config(options: argparse.Namespace) -> ExtenderConfig:
    overrides: dict[tuple[str, ...], object] = {
        ("snapshotFile",): options.snapshot_file,
        ("kubeconfig",): options.kubeconfig,
        ("listen", "address"): options.address,
        ("listen", "port"): options.port,
        ("log", "level"): options.log_level,
    }
    given = {key: value for key, value in overrides.items() if value is not None}
    return load_config(Path(options.config), given) if options.config else parse_config("", "command line", given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="islander-extender",
        description="Scheduler extender that keeps NVLink islands whole. Flags outweigh the configuration file.",
    )
    parser.add_argument("--config", metavar="FILE", help="configuration (YAML, kind: ExtenderConfig)")
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="way to the cluster; default: as kubectl, or the pod's own"
    )
    parser.add_argument("--snapshot-file", metavar="FILE", help="serve a snapshot instead of a cluster")
    parser.add_argument("--address", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default 8880; 0 for any)")
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"], help="(default info)")
    parser.add_argument(
        "--print-scheduler-config", action="store_true", help="print the extenders entry for kube-scheduler, and end"
    )
    parser.add_argument(
        "--see-all-pods", action="store_true", help="with it: have every pod sent, as pods with only claims need"
    )
    parser.add_argument("--version", action="version", version=f"islander-extender {version('islander')}")
    return parser


def _rfc3339() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    sys.exit(main())
