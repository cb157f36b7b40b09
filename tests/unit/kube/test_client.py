from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from kubernetes.client import Configuration
from kubernetes.config.incluster_config import InClusterConfigLoader

from islander.kube.client import KubeClient, connect
from islander.kube.errors import (
    ApiBusy,
    ApiConfiguration,
    ApiConflict,
    ApiForbidden,
    ApiRejected,
    ApiStalled,
    ApiUnauthorized,
    ApiUnreachable,
)
from tests.builders import pod_object
from tests.fake_api import Cut, FakeApi, Hang, bookmark_event
from tests.unit.kube.certificates import make_certificates

Kubeconfig = Callable[..., str]
PODS = "/api/v1/pods"
BINDING = "/api/v1/namespaces/default/pods/p1/binding"


def test_get_returns_the_bytes_of_the_answer(api: FakeApi, client: KubeClient) -> None:
    api.put(pod_object("p1"))
    page = json.loads(client.get(PODS, {"limit": "500"}))
    assert page["kind"] == "PodList"
    assert [item["metadata"]["name"] for item in page["items"]] == ["p1"]
    assert api.requests[0].params == {"limit": "500"}


def test_a_request_says_who_asks(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    with connect(kubeconfig=kubeconfig(api.url), impersonate="alice", program="islander") as client:
        client.get(PODS)
    headers = api.requests[0].headers
    assert headers["user-agent"].startswith("islander/")
    assert headers["impersonate-user"] == "alice"
    assert headers["accept"] == "application/json"


def test_nobody_is_impersonated_unless_asked(api: FakeApi, client: KubeClient) -> None:
    client.get(PODS)
    assert "impersonate-user" not in api.requests[0].headers
    assert api.requests[0].headers["user-agent"].startswith("islander-extender/")


def test_a_token_of_the_kubeconfig_is_sent(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    with connect(kubeconfig=kubeconfig(api.url, user={"token": "t0ken"})) as client:
        client.get(PODS)
    assert api.requests[0].headers["authorization"] == "Bearer t0ken"


def test_a_name_and_password_of_the_kubeconfig_are_sent(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    with connect(kubeconfig=kubeconfig(api.url, user={"username": "u", "password": "p"})) as client:
        client.get(PODS)
    assert api.requests[0].headers["authorization"] == "Basic " + base64.b64encode(b"u:p").decode()


def test_a_token_that_is_rotated_is_used_from_the_next_request_on(api: FakeApi, tmp_path: Path) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    authority.write_text("not looked at over plain HTTP")
    host, port = api.url.removeprefix("http://").split(":")
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    loader = InClusterConfigLoader(str(token), str(authority), environ=environment)
    # The pod's account is only read over TLS; here the same hook works over plain HTTP.
    loader._token_refresh_period = timedelta(0)
    configuration = Configuration()
    loader.load_and_set(configuration)
    loader.host = configuration.host = api.url
    with KubeClient(configuration) as client:
        client.get(PODS)
        token.write_text("second")
        client.get(PODS)
        stream = client.stream(PODS, {"watch": "true", "resourceVersion": "1"}, silence_s=30)
        stream.close()
        assert list(stream) == []
        token.write_text("")
        with pytest.raises(ApiUnreachable, match="cannot renew the credentials"):
            client.get(PODS)
    assert [r.headers["authorization"] for r in api.requests] == ["bearer first", "bearer second", "bearer second"]


def test_a_binding_is_posted_once_as_it_is(api: FakeApi, client: KubeClient) -> None:
    api.put(pod_object("p1"))
    body = json.dumps({"target": {"name": "n1"}}).encode()
    assert json.loads(client.post(BINDING, body))["status"] == "Success"
    assert api.bindings == [("default/p1", "n1")]
    assert api.requests[0].headers["content-type"] == "application/json"
    with pytest.raises(ApiConflict, match="already assigned"):
        client.post(BINDING, body)
    assert api.bindings == [("default/p1", "n1")]


@pytest.mark.parametrize(
    ("status", "kind"), [(500, ApiBusy), (409, ApiConflict), (403, ApiForbidden), (401, ApiUnauthorized)]
)
def test_a_failed_post_is_not_repeated(api: FakeApi, client: KubeClient, status: int, kind: type[Exception]) -> None:
    api.answer_next("POST", BINDING, status)
    with pytest.raises(kind, match=f"POST {BINDING}: {status} as the test wishes"):
        client.post(BINDING, b"{}")
    assert len(api.requests) == 1


def test_the_server_may_say_how_long_to_wait(api: FakeApi, client: KubeClient) -> None:
    api.answer_next("GET", PODS, 429, headers={"Retry-After": "7"})
    with pytest.raises(ApiBusy) as caught:
        client.get(PODS)
    assert caught.value.retry_after_s == 7


def test_a_redirect_is_not_followed_with_our_credentials(api: FakeApi, client: KubeClient) -> None:
    api.answer_next("GET", PODS, 302, headers={"Location": f"{api.url}/api/v1/nodes"})
    with pytest.raises(ApiRejected):
        client.get(PODS)
    assert len(api.requests) == 1


def test_a_server_that_is_not_there_is_unreachable(kubeconfig: Kubeconfig) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        path = kubeconfig(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with connect(kubeconfig=path) as client, pytest.raises(ApiUnreachable) as caught:
            client.get(PODS)
    assert caught.value.retryable
    assert caught.value.__cause__ is not None


def test_an_answer_that_does_not_come_in_time_is_unreachable(kubeconfig: Kubeconfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        path = kubeconfig(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with connect(kubeconfig=path) as client, pytest.raises(ApiUnreachable):
            client.get(PODS, read_timeout_s=0.05)


def test_an_answer_that_is_cut_is_unreachable(kubeconfig: Kubeconfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        path = kubeconfig(f"http://127.0.0.1:{server.getsockname()[1]}")

        def answer_half() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"items":[')

        thread = threading.Thread(target=answer_half)
        thread.start()
        with connect(kubeconfig=path) as client, pytest.raises(ApiUnreachable):
            client.get(PODS)
        thread.join()


def watch(client: KubeClient, *, silence_s: float = 30) -> list[bytes]:
    return list(client.stream(PODS, {"watch": "true", "resourceVersion": "1000"}, silence_s=silence_s))


def test_a_stream_gives_lines_however_they_are_cut(api: FakeApi, client: KubeClient) -> None:
    api.script_watch("Pod", b'{"a"', b':1}\n{"b":', b"2}\n", b'{"cut":')
    assert watch(client) == [b'{"a":1}', b'{"b":2}']


def test_a_line_arrives_before_the_stream_goes_on(api: FakeApi, client: KubeClient) -> None:
    api.script_watch("Pod", bookmark_event(7), Hang())
    stream = client.stream(PODS, {"watch": "true"}, silence_s=30)
    assert json.loads(next(iter(stream)))["type"] == "BOOKMARK"
    stream.close()
    assert list(stream) == []


def test_a_stream_that_says_nothing_for_too_long_has_stalled(api: FakeApi, client: KubeClient) -> None:
    api.script_watch("Pod", bookmark_event(7), Hang())
    with pytest.raises(ApiStalled, match=r"silent for 0\.5 s"):
        watch(client, silence_s=0.5)


def test_a_stream_that_is_cut_is_unreachable_and_not_stalled(api: FakeApi, client: KubeClient) -> None:
    api.script_watch("Pod", bookmark_event(7), Cut())
    with pytest.raises(ApiUnreachable) as caught:
        watch(client)
    assert not isinstance(caught.value, ApiStalled)


def test_a_stream_is_closed_from_another_thread_while_it_waits(api: FakeApi, client: KubeClient) -> None:
    stream = client.stream(PODS, {"watch": "true", "resourceVersion": "1000"}, silence_s=60)
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.extend(stream))
    thread.start()
    api.wait_for_watch("Pod")
    stream.close()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert got == []


def test_a_certificate_authority_of_the_kubeconfig_is_trusted_and_no_other(
    tmp_path: Path, kubeconfig: Kubeconfig
) -> None:
    certificates = make_certificates(tmp_path)
    with FakeApi(tls=certificates.server_context()) as api:
        data = base64.b64encode(certificates.authority.read_bytes()).decode()
        for trust in ({"certificate-authority": str(certificates.authority)}, {"certificate-authority-data": data}):
            with connect(kubeconfig=kubeconfig(api.url, cluster=trust)) as client:
                client.get(PODS)
        with connect(kubeconfig=kubeconfig(api.url)) as client, pytest.raises(ApiUnreachable, match="certificate"):
            client.get(PODS)


def test_an_insecure_cluster_is_asked_without_a_warning(tmp_path: Path, kubeconfig: Kubeconfig) -> None:
    certificates = make_certificates(tmp_path)
    with FakeApi(tls=certificates.server_context()) as api:
        insecure = {"insecure-skip-tls-verify": True}
        with connect(kubeconfig=kubeconfig(api.url, cluster=insecure)) as client:
            client.get(PODS)


def test_a_client_certificate_is_shown(tmp_path: Path, kubeconfig: Kubeconfig) -> None:
    certificates = make_certificates(tmp_path)
    trust = {"certificate-authority": str(certificates.authority)}
    user = {
        "client-certificate": str(certificates.client_certificate),
        "client-key": str(certificates.client_key),
    }
    with FakeApi(tls=certificates.server_context(ask_client=True)) as api:
        with connect(kubeconfig=kubeconfig(api.url, cluster=trust, user=user)) as client:
            client.get(PODS)
        with connect(kubeconfig=kubeconfig(api.url, cluster=trust)) as client, pytest.raises(ApiUnreachable):
            client.get(PODS)


def test_a_stream_over_tls_is_closed_while_it_waits(tmp_path: Path, kubeconfig: Kubeconfig) -> None:
    certificates = make_certificates(tmp_path)
    trust = {"certificate-authority": str(certificates.authority)}
    with (
        FakeApi(tls=certificates.server_context()) as api,
        connect(kubeconfig=kubeconfig(api.url, cluster=trust)) as client,
    ):
        stream = client.stream(PODS, {"watch": "true", "resourceVersion": "1000"}, silence_s=60)
        thread = threading.Thread(target=lambda: list(stream))
        thread.start()
        api.wait_for_watch("Pod")
        stream.close()
        thread.join(timeout=10)
        assert not thread.is_alive()


def test_a_context_is_chosen_by_name(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    with connect(kubeconfig=kubeconfig(api.url), context="one") as client:
        client.get(PODS)
    with pytest.raises(ApiConfiguration, match="two"):
        connect(kubeconfig=kubeconfig(api.url), context="two")


def test_the_kubeconfig_of_the_environment_is_used_like_kubectl_does(
    api: FakeApi, kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}:{kubeconfig(api.url)}")
    with connect() as client:
        client.get(PODS)
    assert len(api.requests) == 1


def test_without_kubeconfig_outside_a_pod_there_is_no_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ApiConfiguration, match="no way to the Kubernetes API"):
        connect()


def test_a_missing_kubeconfig_is_named_as_a_problem_of_configuration(tmp_path: Path) -> None:
    with pytest.raises(ApiConfiguration):
        connect(kubeconfig=str(tmp_path / "absent"))


@pytest.mark.parametrize("content", ["", "[]", "{", "a: [b", "clusters: 1\ncontexts: 2\ncurrent-context: one", "\x00"])
def test_a_broken_kubeconfig_is_a_problem_of_configuration(tmp_path: Path, content: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    with pytest.raises(ApiConfiguration):
        connect(kubeconfig=str(file))


def test_a_broken_kubeconfig_does_not_spill_its_credentials(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    path = Path(kubeconfig(api.url, user={"auth-provider": {"name": "gcp"}, "token": "s3cret"}))
    path.write_text(path.read_text().replace('"name": "u", "user"', '"name": "u", "usr"'))
    with pytest.raises(ApiConfiguration) as caught:
        connect(kubeconfig=str(path))
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
