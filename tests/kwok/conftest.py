"""Fixtures of the tests that need a real control plane; everything in this folder is marked `kwok`."""

import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.kwok.controlplane import objects
from tests.kwok.controlplane.api import Api
from tests.kwok.controlplane.build import ready_binary
from tests.kwok.controlplane.cluster import ControlPlane
from tests.kwok.controlplane.extender_process import ExtenderProcess
from tests.kwok.controlplane.kueue import LOG as KUEUE_LOG
from tests.kwok.controlplane.kueue import Kueue, remove_queues
from tests.kwok.controlplane.programs import DEFAULT_MINOR, KUEUE, Program, control_plane_programs
from tests.kwok.controlplane.recorder import Recorder
from tests.kwok.controlplane.tidy import remove_everything
from tests.kwok.fake_kubelet import FakeKubelet
from tests.kwok.islander_bench import EXTENDER_SETTINGS, IslanderBench

_HERE = Path(__file__).parent
_VARIABLE = "ISLANDER_KUBE_MINOR"
_LOG_LINES = 20
_numbers = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option; it is known when this folder is named on the command line, the variable always."""
    parser.addoption(
        "--kube-minor", help=f"Kubernetes minor of the control plane (default: {_VARIABLE} or {DEFAULT_MINOR})"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.kwok)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the logs of schedulers and Kueue below a failed test."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for plane in item.funcargs.values():
            if isinstance(plane, ControlPlane):
                report.sections += [
                    (f"log of kube-scheduler {scheduler.name}", _end_of(scheduler.log_text()))
                    for scheduler in plane.schedulers()
                ]
                if (log := plane.folder / KUEUE_LOG).exists():
                    report.sections.append(("log of kueue", _end_of(log.read_text(errors="replace"))))
    return report


def _end_of(log: str) -> str:
    lines = [line for line in log.splitlines() if "Caches populated" not in line]
    return "\n".join(lines[-_LOG_LINES:])


@pytest.fixture(scope="session")
def kube_minor(request: pytest.FixtureRequest) -> str:
    """The Kubernetes minor that is tested, its programs built."""
    minor = request.config.getoption("--kube-minor", default=None) or os.environ.get(_VARIABLE) or DEFAULT_MINOR
    _build(request, *control_plane_programs(minor))
    return str(minor)


def _build(request: pytest.FixtureRequest, *programs: Program) -> None:
    """Build what is missing; that takes minutes, and what it says must reach the person who waits."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for program in programs:
            ready_binary(program)


@pytest.fixture(scope="session")
def shared_control_plane(kube_minor: str) -> Iterator[ControlPlane]:
    """One control plane for the whole run; use `control_plane`, which is clean."""
    with ControlPlane(kube_minor) as control_plane:
        yield control_plane


@pytest.fixture(scope="session")
def shared_rbac_control_plane(kube_minor: str) -> Iterator[ControlPlane]:
    """One control plane under RBAC for the whole run; use `rbac_control_plane`, which is clean."""
    with ControlPlane(kube_minor, rbac=True) as control_plane:
        yield control_plane


@pytest.fixture
def control_plane(shared_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with the stock kube-scheduler, no nodes and no pods."""
    shared_control_plane.only_the_stock_scheduler()
    yield shared_control_plane
    remove_everything(shared_control_plane.api)


@pytest.fixture
def rbac_control_plane(shared_rbac_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The same where RBAC decides."""
    shared_rbac_control_plane.only_the_stock_scheduler()
    yield shared_rbac_control_plane
    remove_everything(shared_rbac_control_plane.api)


@pytest.fixture
def api(control_plane: ControlPlane) -> Api:
    """The administrator's client of `control_plane`."""
    return control_plane.api


@pytest.fixture
def namespace(api: Api, request: pytest.FixtureRequest) -> str:
    """A fresh namespace of `control_plane`, named after the test."""
    return _fresh_namespace(api, request.node.name)


@pytest.fixture
def rbac_namespace(rbac_control_plane: ControlPlane, request: pytest.FixtureRequest) -> str:
    """A fresh namespace of `rbac_control_plane`, named after the test."""
    return _fresh_namespace(rbac_control_plane.api, request.node.name)


def _fresh_namespace(api: Api, test_name: str) -> str:
    stem = re.sub(r"[^a-z0-9]+", "-", test_name.removeprefix("test_").lower())[:40].strip("-")
    name = f"{stem}-{next(_numbers)}"
    api.create(objects.namespace(name))
    return name


@pytest.fixture(scope="session")
def shared_extender(
    shared_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ExtenderProcess]:
    """One extender for the whole run; use `bench`."""
    folder = tmp_path_factory.mktemp("extender")
    with ExtenderProcess(folder, shared_control_plane.kubeconfig, EXTENDER_SETTINGS) as extender:
        yield extender


@pytest.fixture(scope="session")
def shared_recorder(shared_extender: ExtenderProcess) -> Iterator[Recorder]:
    """The recorder in front of that extender; use `bench`."""
    with Recorder(shared_extender.url) as recorder:
        yield recorder


@pytest.fixture
def bench(
    shared_control_plane: ControlPlane,
    shared_extender: ExtenderProcess,
    shared_recorder: Recorder,
    request: pytest.FixtureRequest,
) -> Iterator[IslanderBench]:
    """A control plane with the extender at work, and nodes that hand out and report GPUs."""
    with _working_bench(shared_control_plane, shared_extender, shared_recorder, request) as bench:
        yield bench


@pytest.fixture(scope="session")
def shared_kueue(request: pytest.FixtureRequest) -> Kueue:
    """Kueue, which runs once `shared_queue_plane` is there."""
    _build(request, KUEUE)
    return Kueue()


@pytest.fixture(scope="session")
def shared_queue_plane(kube_minor: str, shared_kueue: Kueue) -> Iterator[ControlPlane]:
    """A control plane of its own with Kueue, whose webhooks would have a say in every other test; use `queue_bench`."""
    with ControlPlane(kube_minor, prepare=shared_kueue.install) as plane, shared_kueue.running(plane):
        yield plane


@pytest.fixture(scope="session")
def shared_queue_extender(
    shared_queue_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ExtenderProcess]:
    """The extender of that control plane; use `queue_bench`."""
    folder = tmp_path_factory.mktemp("queue-extender")
    with ExtenderProcess(folder, shared_queue_plane.kubeconfig, EXTENDER_SETTINGS) as extender:
        yield extender


@pytest.fixture(scope="session")
def shared_queue_recorder(shared_queue_extender: ExtenderProcess) -> Iterator[Recorder]:
    """The recorder in front of that extender; use `queue_bench`."""
    with Recorder(shared_queue_extender.url) as recorder:
        yield recorder


@pytest.fixture
def queue_bench(
    shared_kueue: Kueue,
    shared_queue_plane: ControlPlane,
    shared_queue_extender: ExtenderProcess,
    shared_queue_recorder: Recorder,
    request: pytest.FixtureRequest,
) -> Iterator[IslanderBench]:
    """The same as `bench`, with Kueue at work and no queue yet."""
    shared_kueue.check_alive()
    with _working_bench(shared_queue_plane, shared_queue_extender, shared_queue_recorder, request) as bench:
        yield bench
    remove_queues(shared_queue_plane.api)


@contextmanager
def _working_bench(
    plane: ControlPlane, extender: ExtenderProcess, recorder: Recorder, request: pytest.FixtureRequest
) -> Iterator[IslanderBench]:
    if not extender.process.alive:
        extender.restart()
    recorder.accept()
    try:
        with FakeKubelet(plane.api) as kubelet:
            bench = IslanderBench(plane, extender, recorder, kubelet, _fresh_namespace(plane.api, request.node.name))
            bench.use_extender()
            recorder.clear()
            yield bench
    finally:
        remove_everything(plane.api)
