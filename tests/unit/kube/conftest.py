"""A fake API server and a client for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from islander.kube.client import KubeClient, connect
from tests.fake_api import FakeApi


@pytest.fixture(autouse=True)
def no_foreign_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep proxies and clusters of whoever runs the tests out of them."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as server:
        yield server


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[..., str]:
    """Write a kubeconfig for a server and return its path; `user` and `cluster` are merged into its entries."""

    def write(server: str, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> str:
        file = tmp_path / "kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "one",
        }
        file.write_text(json.dumps(content))
        return str(file)

    return write


@pytest.fixture
def client(api: FakeApi, kubeconfig: Callable[..., str]) -> Iterator[KubeClient]:
    with connect(kubeconfig=kubeconfig(api.url)) as connected:
        yield connected
