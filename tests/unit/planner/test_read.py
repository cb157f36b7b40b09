import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from islander.cluster.snapshot_json import encode_snapshot
from planner.cli import main
from planner.errors import PlannerError
from planner.extender_process import ExtenderProcess
from planner.extender_snapshot import snapshot_of_extender
from planner.read import read_cluster
from planner.source import Source
from tests.builders import a_node, a_pod, a_snapshot, node_object, pod_object
from tests.fake_api import FakeApi
from tests.unit.kube.certificates import make_certificates

SNAPSHOT = a_snapshot(a_node("n1"), a_pod("p", node="n1", gpus=3))


@pytest.fixture(scope="module")
def extender() -> Iterator[str]:
    """The base URL of a real extender that serves SNAPSHOT."""
    with ExtenderProcess(encode_snapshot(SNAPSHOT)) as process:
        process.wait_until_ready()
        yield f"http://127.0.0.1:{process.port}"


class _Page(BaseHTTPRequestHandler):
    status, body = 200, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def serve(request):
    """Serve one body on loopback and return the base URL; with certificates it speaks TLS."""

    def start(body: bytes, status: int = 200, certificates=None) -> str:
        server = HTTPServer(("127.0.0.1", 0), type("Page", (_Page,), {"status": status, "body": body}))
        if certificates is not None:
            server.socket = certificates.server_context().wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def stop() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        request.addfinalizer(stop)
        return f"{'http' if certificates is None else 'https'}://127.0.0.1:{server.server_port}"

    return start


def test_the_running_extender_gives_the_snapshot_that_it_decides_on(extender):
    assert read_cluster(Source(extender=f"{extender}/")) == SNAPSHOT


def test_a_file_and_an_extender_are_one_too_many() -> None:
    with pytest.raises(PlannerError, match="two clusters"):
        read_cluster(Source(files=("cluster.json",), extender="http://127.0.0.1:1"))


def test_a_verb_reads_the_extender(extender, capsys):
    assert main(["status", "--extender", extender, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["used"] == 3


def test_an_extender_behind_tls_is_verified_with_its_authority(serve, tmp_path):
    certificates = make_certificates(tmp_path)
    url = serve(encode_snapshot(SNAPSHOT), certificates=certificates)
    assert snapshot_of_extender(url, certificates.authority) == SNAPSHOT
    with pytest.raises(PlannerError, match="CERTIFICATE_VERIFY_FAILED"):
        snapshot_of_extender(url)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"not found", 404, "answered 404"),
        (b"{}", 200, "not a ClusterSnapshot|ClusterSnapshot"),
        (b"<html>", 200, "is this an extender"),
    ],
)
def test_what_is_no_extender_is_one_clear_line(serve, body, status, message):
    with pytest.raises(PlannerError, match=message) as caught:
        snapshot_of_extender(serve(body, status))
    assert "\n" not in str(caught.value)


def test_an_authority_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(PlannerError, match=r"--extender-ca .*ca\.crt"):
        snapshot_of_extender("https://127.0.0.1:9", tmp_path / "ca.crt")


def test_the_source_says_where_it_reads():
    assert Source(files=("a.json", "-")).describe() == "a.json, stdin"
    assert Source(extender="http://x").describe() == "http://x"
    assert Source(context="prod").describe() == "context prod"
    assert Source().describe() == "the current kubeconfig context"


@pytest.fixture
def live(tmp_path, monkeypatch):
    """A fake API server with one node and one pod, and the kubeconfig that leads to it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with FakeApi() as api:
        api.put(node_object("n1"), pod_object("p", gpus=3, node="n1"))
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": api.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        yield api, str(tmp_path / "kubeconfig")


def test_the_api_of_a_kubeconfig_is_read_as_the_user_who_was_named(live, capsys):
    api, kubeconfig = live
    arguments = ["status", "--kubeconfig", kubeconfig, "--context", "one", "--as", "auditor", "-o", "json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["used"] == 3
    assert {request.method for request in api.requests} == {"GET"}, "read only"
    assert {request.headers["impersonate-user"] for request in api.requests} == {"auditor"}


def test_an_api_that_refuses_is_one_clear_line(live, capsys):
    api, kubeconfig = live
    api.answer_next("GET", "/api/v1/nodes", 403, b'{"kind": "Status", "message": "nodes is forbidden"}')
    assert main(["status", "--kubeconfig", kubeconfig, "--context", "one"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "nodes" in error
    assert "--snapshot" in error
