"""A small JSON client of kube-apiserver for tests: any path, keep-alive, many requests at once."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import urllib3

from tests.kwok.controlplane import paths
from tests.kwok.controlplane.waiting import wait_until

Json = dict[str, Any]
Item = TypeVar("Item")
Result = TypeVar("Result")

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_TIMEOUT_SECONDS = 30.0


class ApiError(Exception):
    """The API server said no. `code` is the HTTP status, `reason` the API's word for it (`NotFound`, `Conflict`)."""

    def __init__(self, method: str, path: str, code: int, status: Mapping[str, Any]):
        self.code = code
        self.status = status
        self.reason = str(status.get("reason", ""))
        self.message = str(status.get("message", ""))
        super().__init__(f"{method} {path}: {code} {self.reason}: {self.message}")


class Api:
    """One user's access to one API server.

    Parameters
    ----------
    server
        Base URL.
    token
        Bearer token; an empty one asks as the anonymous user.
    ca_file
        Certificate that the server's own is checked against.
    workers
        Requests in flight at the same time in `create_all` and `each`.
    """

    def __init__(self, server: str, token: str, ca_file: Path, workers: int = 8):
        self.server = server
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._http = urllib3.PoolManager(maxsize=workers + 4, ca_certs=str(ca_file), retries=False)
        self._threads = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="testbench-api")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and threads."""
        self._threads.shutdown()
        self._http.clear()

    def text(self, method: str, path: str, body: object = None, content_type: str = "", **query: str) -> str:
        """Send one request and return the body as text.

        Raises
        ------
        ApiError
            Any answer of 400 or above.
        OSError
            No answer.
        """
        url = f"{self.server}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = self._headers | ({"Content-Type": content_type or "application/json"} if body is not None else {})
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._http.request(method, url, body=data, headers=headers, timeout=_TIMEOUT_SECONDS)
        except urllib3.exceptions.HTTPError as problem:
            raise ConnectionError(f"{method} {url}: {problem}") from problem
        text = answer.data.decode()
        if answer.status >= 400:
            raise ApiError(method, path, answer.status, _as_status(text))
        return text

    def request(self, method: str, path: str, body: object = None, content_type: str = "", **query: str) -> Json:
        """Send one request and return the parsed answer; errors as `text`."""
        answer: Json = json.loads(self.text(method, path, body, content_type, **query))
        return answer

    # One object -------------------------------------------------------------------------------------------------

    def get(self, path: str, **query: str) -> Json:
        """Return one object."""
        return self.request("GET", path, **query)

    def find(self, path: str) -> Json | None:
        """Return one object, or None when there is none."""
        try:
            return self.get(path)
        except ApiError as problem:
            if problem.code == 404:
                return None
            raise

    def create(self, obj: Json, *, dry_run: bool = False, path: str | None = None) -> Json:
        """Create an object where its kind belongs, or below `path`; a dry run stops after admission."""
        return self.request("POST", path or paths.collection_of(obj), obj, **_dry(dry_run))

    def replace(self, obj: Json, *, subresource: str = "") -> Json:
        """Put an object (or its `status`) in the place of the one with its name."""
        return self.request("PUT", paths.path_of(obj) + (f"/{subresource}" if subresource else ""), obj)

    def patch(self, path: str, patch: object, *, kind: str = "merge", dry_run: bool = False, **query: str) -> Json:
        """Patch an object; `kind` is merge, strategic, json or apply."""
        return self.request("PATCH", path, patch, _PATCH_TYPES[kind], **_dry(dry_run), **query)

    def delete(self, path: str, *, grace_seconds: int | None = None, dry_run: bool = False) -> None:
        """Delete an object or a collection, dependents in the background; nothing there is fine."""
        options: Json = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self.request("DELETE", path, options, **_dry(dry_run))
        except ApiError as problem:
            if problem.code != 404:
                raise

    @contextmanager
    def watch(self, path: str, resource_version: str) -> Iterator[urllib3.BaseHTTPResponse]:
        """Watch a collection: a streaming answer, one event of JSON per line; its `shutdown()` ends the reading.

        Raises
        ------
        ApiError
            The watch is refused; code 410 when the version is too old.
        """
        query = urlencode({"watch": "1", "resourceVersion": resource_version})
        answer = self._http.request(
            "GET",
            f"{self.server}{path}?{query}",
            headers=self._headers,
            timeout=urllib3.Timeout(connect=_TIMEOUT_SECONDS, read=None),
            preload_content=False,
        )
        try:
            if answer.status >= 400:
                raise ApiError("WATCH", path, answer.status, _as_status(answer.data.decode()))
            yield answer
        finally:
            answer.close()

    # Many objects -----------------------------------------------------------------------------------------------

    def items(self, path: str, **query: str) -> list[Json]:
        """Return the objects of a collection, in the API's order (namespace, name)."""
        items: list[Json] = self.get(path, **query).get("items") or []
        return items

    def each(self, action: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Do `action` for every item, several at once; answers in the order of the items."""
        return list(self._threads.map(action, items))

    def create_all(self, objects: Iterable[Json]) -> list[Json]:
        """Create many objects at once; answers in the order of the objects."""
        return self.each(self.create, objects)

    # What tests ask for -----------------------------------------------------------------------------------------

    def evict(self, namespace: str, name: str, *, dry_run: bool = False, uid: str | None = None) -> None:
        """Evict a pod through the Eviction API.

        Raises
        ------
        ApiError
            Code 429 when a PodDisruptionBudget does not allow it, 409 when the pod has another uid.
        """
        options: Json = {"preconditions": {"uid": uid}} if uid else {}
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options | ({"dryRun": ["All"]} if dry_run else {}),
        }
        self.request("POST", f"{paths.pod(namespace, name)}/eviction", eviction)

    def events(self, namespace: str, name: str, reason: str = "") -> list[Json]:
        """Return the events about one object, oldest first."""
        selector = f"involvedObject.name={name}" + (f",reason={reason}" if reason else "")
        found = self.items(f"/api/v1/namespaces/{namespace}/events", fieldSelector=selector)
        return sorted(found, key=lambda event: event["metadata"]["creationTimestamp"])

    def service_account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        """Return a token of a service account, as the TokenRequest API mints it."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        return str(self.request("POST", path, asked)["status"]["token"])

    def wait_bound(self, namespace: str, name: str, timeout_seconds: float = 20.0) -> str:
        """Wait until a pod has a node and return the node's name."""

        def bound_to() -> str:
            return str(self.get(paths.pod(namespace, name))["spec"].get("nodeName", ""))

        return wait_until(bound_to, timeout_seconds=timeout_seconds, what=lambda: self._story(namespace, name, "bound"))

    def wait_running(self, namespace: str, name: str, timeout_seconds: float = 20.0) -> Json:
        """Wait until a pod is Running and Ready, and return it."""

        def running() -> Json | None:
            pod = self.get(paths.pod(namespace, name))
            return pod if is_ready(pod) else None

        found = wait_until(
            running, timeout_seconds=timeout_seconds, what=lambda: self._story(namespace, name, "Running and Ready")
        )
        assert found is not None
        return found

    def wait_gone(self, path: str, timeout_seconds: float = 20.0) -> None:
        """Wait until nothing is at `path` any more."""
        wait_until(lambda: self.find(path) is None, timeout_seconds=timeout_seconds, what=f"{path} gone")

    def wait_unschedulable(self, namespace: str, name: str, timeout_seconds: float = 20.0) -> str:
        """Wait until the scheduler has said that a pod fits nowhere, and return its message."""

        def refused() -> str:
            pod = self.get(paths.pod(namespace, name))
            condition = condition_of(pod, "PodScheduled")
            return str(condition.get("message", "")) if condition.get("status") == "False" else ""

        return wait_until(
            refused, timeout_seconds=timeout_seconds, what=lambda: self._story(namespace, name, "refused")
        )

    def _story(self, namespace: str, name: str, wanted: str) -> str:
        """Tell what the API knows about a pod that did not get where it should."""
        pod = self.find(paths.pod(namespace, name))
        if pod is None:
            return f"pod {namespace}/{name} {wanted}: it does not exist"
        told = [f"{event['reason']}: {event['message']}" for event in self.events(namespace, name)]
        where = pod["spec"].get("nodeName", "no node")
        return f"pod {namespace}/{name} {wanted} ({pod['status'].get('phase')} on {where}; events {told})"


def condition_of(obj: Mapping[str, Any], kind: str) -> Json:
    """Return one condition of an object's status, empty when it has none of that type."""
    conditions: list[Json] = obj.get("status", {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), {})


def is_ready(obj: Mapping[str, Any]) -> bool:
    """Whether a pod or node has the Ready condition."""
    return condition_of(obj, "Ready").get("status") == "True"


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _as_status(text: str) -> Json:
    try:
        status = json.loads(text)
    except ValueError:
        status = None
    return status if isinstance(status, dict) else {"message": text}
