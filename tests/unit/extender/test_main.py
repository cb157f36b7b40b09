"""The program as a process: how it starts, serves a cluster, and stops."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from extender.__main__ import main
from islander.cluster.snapshot_json import encode_snapshot
from tests.builders import a_node, a_pod, a_snapshot, node_object, pod_object
from tests.fake_api import FakeApi
from tests.unit.extender.harness import asking

TIMEOUT_S = 20.0


class Running:
    def __init__(self, folder: Path, *flags: str) -> None:
        self._log = folder / "log"
        command = [sys.executable, "-m", "extender", "--port", "0", *flags]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, env={**os.environ, "HOME": str(folder)})
        self.port = int(self.wait_for_log(r"listening.*port=(\d+)").group(1))

    def wait_for_log(self, pattern: str) -> re.Match[str]:
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            if found := re.search(pattern, self._log.read_text()):
                return found
            assert self.process.poll() is None, self._log.read_text()
            time.sleep(0.02)
        raise AssertionError(f"{pattern!r} is not in the log:\n{self._log.read_text()}")

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            conn.request(method, path, None if body is None else json.dumps(body))
            answer = conn.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" else text
        finally:
            conn.close()

    def wait_until(self, path: str, status: int) -> None:
        end = time.monotonic() + TIMEOUT_S
        while self.ask("GET", path)[0] != status:
            assert time.monotonic() < end, self._log.read_text()
            time.sleep(0.02)

    def kept(self, pod: dict[str, Any], *nodes: str) -> list[str]:
        status, answer = self.ask("POST", "/filter", {"Pod": pod, "NodeNames": list(nodes)})
        assert status == 200
        kept: list[str] = answer["NodeNames"]
        return kept

    def wait_until_kept(self, pod: dict[str, Any], nodes: list[str], expected: list[str]) -> None:
        end = time.monotonic() + TIMEOUT_S
        while (kept := self.kept(pod, *nodes)) != expected:
            assert time.monotonic() < end, kept
            time.sleep(0.02)


@contextmanager
def running(folder: Path, *flags: str) -> Iterator[Running]:
    extender = Running(folder, *flags)
    try:
        yield extender
    finally:
        if extender.process.poll() is None:
            extender.process.kill()
        extender.process.wait()


def kubeconfig_for(api: FakeApi, folder: Path) -> str:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path.write_text(json.dumps(document))
    return str(path)


def test_a_snapshot_file_is_served_until_a_signal_says_to_stop(tmp_path: Path) -> None:
    snapshot = a_snapshot(a_node("n1"), a_pod("holder", gpus=8, node="n1"), a_node("n2"))
    (tmp_path / "s.json").write_bytes(encode_snapshot(snapshot))
    with running(tmp_path, "--snapshot-file", str(tmp_path / "s.json")) as extender:
        assert extender.ask("GET", "/readyz") == (200, "ok\n")
        assert extender.kept(asking(gpus=1), "n1", "n2") == ["n2"]
        assert extender.ask("POST", "/bind", {})[0] == 404
        extender.process.send_signal(signal.SIGTERM)
        extender.wait_for_log("stopping")
        assert extender.ask("GET", "/readyz")[0] == 503
        assert extender.kept(asking(gpus=1), "n1", "n2") == ["n2"], "still answers while clients move on"
        assert extender.process.wait(TIMEOUT_S) == 0


def test_a_cluster_is_followed_and_answers_go_on_while_the_api_is_down(tmp_path: Path) -> None:
    """G19: no call of the API inside filter and prioritize. G06: a pod that goes gives back its GPUs."""
    api = FakeApi()
    try:
        api.put(node_object("n1"), node_object("n2"), pod_object("holder", gpus=8, node="n1"))
        with running(tmp_path, "--kubeconfig", kubeconfig_for(api, tmp_path)) as extender:
            extender.wait_until("/readyz", 200)
            both = ["n1", "n2"]
            assert extender.kept(asking(gpus=8), *both) == ["n2"]
            api.put(pod_object("next", gpus=8, node="n2"))
            extender.wait_until_kept(asking(gpus=8), both, [])
            api.delete("Pod", "default/holder")
            extender.wait_until_kept(asking(gpus=8), both, ["n1"])
            api.close()
            assert extender.kept(asking(gpus=8), *both) == ["n1"]
            assert extender.ask("POST", "/prioritize", {"Pod": asking(gpus=8), "NodeNames": both})[0] == 200
            assert extender.ask("GET", "/readyz")[0] == 200
            metrics = extender.ask("GET", "/metrics")[1]
            assert 'islander_objects{kind="Node"} 2.0' in metrics
            assert 'islander_watch_restarts_total{kind="Pod"}' in metrics
            assert 'islander_unparsable_objects_total{kind="Pod"} 0.0' in metrics
            extender.process.send_signal(signal.SIGTERM)
            assert extender.process.wait(TIMEOUT_S) == 0
    finally:
        if not api.closing.is_set():
            api.close()


def test_before_the_first_lists_nothing_is_decided(tmp_path: Path) -> None:
    """G13: after a cold start with the API refusing pods."""
    with FakeApi() as api:
        api.put(node_object("n1"))
        api.answer_next("GET", "/api/v1/pods", 403, times=None)
        with running(tmp_path, "--kubeconfig", kubeconfig_for(api, tmp_path)) as extender:
            extender.wait_for_log(r"watch failed kind=Pod")
            status, text = extender.ask("GET", "/readyz")
            assert (status, "Pod" in text) == (503, True)
            status, answer = extender.ask("POST", "/filter", {"Pod": asking(), "NodeNames": ["n1"]})
            assert (status, "not ready" in answer["Error"], "NodeNames" in answer) == (200, True, False)
            api.put(pod_object("holder", gpus=8, node="n1"))
            api.stop_answering("/api/v1/pods")
            extender.wait_until("/readyz", 200)
            assert extender.kept(asking(), "n1") == []


def test_pods_are_bound_when_that_is_on(tmp_path: Path) -> None:
    with FakeApi() as api:
        api.put(node_object("n1"), pod_object("a", gpus=8))
        (tmp_path / "c.yaml").write_text("bind: true")
        flags = ("--config", str(tmp_path / "c.yaml"), "--kubeconfig", kubeconfig_for(api, tmp_path))
        with running(tmp_path, *flags) as extender:
            extender.wait_until("/readyz", 200)
            body = {"PodName": "a", "PodNamespace": "default", "PodUID": "uid-default-a", "Node": "n1"}
            assert extender.ask("POST", "/bind", body) == (200, {"Error": ""})
            assert extender.kept(asking("b", gpus=1), "n1") == []
            (sent,) = [json.loads(r.body) for r in api.requests if r.path.endswith("/pods/a/binding")]
            assert (sent["metadata"]["uid"], sent["target"]["name"]) == ("uid-default-a", "n1")


@pytest.mark.parametrize(
    ("flags", "config", "message"),
    [
        (["--config", "{folder}/absent.yaml"], "", "absent.yaml: cannot be read"),
        (["--config", "{folder}/c.yaml"], "listen: {prot: 1}", "c.yaml: listen.prot: unknown key"),
        (["--config", "{folder}/c.yaml"], "softHold: soon", "c.yaml: softHold:"),
        (["--snapshot-file", "{folder}/absent.json"], "", "snapshotFile: "),
        (["--port", "70000"], "", "command line: listen.port"),
        (["--snapshot-file", "a", "--kubeconfig", "b"], "", "snapshotFile and kubeconfig"),
        (["--kubeconfig", "{folder}/absent"], "", "absent"),
        (
            ["--config", "{folder}/c.yaml", "--snapshot-file", "{folder}/s.json"],
            "listen: {address: 192.0.2.1}",
            "listen",
        ),
    ],
)
def test_a_start_that_cannot_be_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], config: str, message: str
) -> None:
    (tmp_path / "c.yaml").write_text(config)
    (tmp_path / "s.json").write_bytes(encode_snapshot(a_snapshot(a_node("n1"))))
    assert main([flag.format(folder=tmp_path) for flag in flags]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.startswith("islander-extender: ")
    assert printed.err.count("\n") == 1


def test_the_scheduler_configuration_is_printed_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--print-scheduler-config", "--see-all-pods", "--port", "9999"]) == 0
    printed = capsys.readouterr().out
    assert "urlPrefix: http://127.0.0.1:9999" in printed
    assert "managedResources" not in printed


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert re.fullmatch(r"islander-extender \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)
