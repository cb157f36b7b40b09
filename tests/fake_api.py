"""A loopback server that plays the Kubernetes API: lists in pages, watches, bindings, and everything that goes wrong.

It keeps objects and their history like the real one: `put` and `delete` reach open watches, lists are consistent over
their pages, items of a list do not say their kind. On top of that a test can script the next watch byte by byte
(`script_watch`), answer any request with an error (`answer_next`), let continue tokens run out (`expire_token`), lose
events (`forget`) and drop the history (`compact`).
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "Deployment": "/apis/apps/v1/deployments",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Job": "/apis/batch/v1/jobs",
    "LeaderWorkerSet": "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "ClusterQueue": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    "Cohort": "/apis/kueue.x-k8s.io/v1beta2/cohorts",
    "Topology": "/apis/kueue.x-k8s.io/v1beta2/topologies",
    "LocalQueue": "/apis/kueue.x-k8s.io/v1beta2/localqueues",
    "ResourceFlavor": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    "Workload": "/apis/kueue.x-k8s.io/v1beta2/workloads",
    "ConfigMap": "/api/v1/configmaps",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/horizontalpodautoscalers",
    "ScaledObject": "/apis/keda.sh/v1alpha1/scaledobjects",
    "ResourceQuota": "/api/v1/resourcequotas",
}
KINDS = {path: kind for kind, path in PATHS.items()}


@dataclass(frozen=True)
class Hang:
    """Say nothing more until the client goes or the server closes."""


@dataclass(frozen=True)
class Cut:
    """Drop the connection in the middle of the answer."""


@dataclass(frozen=True)
class Wait:
    """Wait for an event of the test before going on."""

    until: threading.Event


# One step of a scripted watch: a chunk as it is, an event as one line, or what happens to the connection.
Act = bytes | Mapping[str, Any] | Hang | Cut | Wait


@dataclass(frozen=True)
class Request:
    """A request that has arrived."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        return self.params.get("watch") in ("true", "1")


@dataclass
class _Collection:
    """Objects of one kind: encoded without kind and API version, as items of a list are."""

    objects: dict[str, bytes] = field(default_factory=dict)
    history: list[tuple[int, str, bytes]] = field(default_factory=list)
    oldest: int = 0


@dataclass
class _Canned:
    method: str
    path: str
    status: int
    body: bytes
    headers: Mapping[str, str]
    times: int | None


def event(kind: str, obj: Mapping[str, Any], version: int | str | None = None) -> dict[str, Any]:
    """One event of a watch; `version` replaces the object's resource version."""
    if version is not None:
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}
    return {"type": kind, "object": obj}


def bookmark_event(version: int | str, kind: str = "Pod") -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"kind": kind, "metadata": {"resourceVersion": str(version)}}}


def error_event(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return {"type": "ERROR", "object": _status(code, reason, message)}


def line(obj: Mapping[str, Any]) -> bytes:
    return json.dumps(obj).encode() + b"\n"


class FakeApi:
    """The server; use it in a `with` block, or call `close`."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.bindings: list[tuple[str, str]] = []
        self.accepts: Callable[[Request], bool] = lambda _request: True
        self.closing = threading.Event()
        self._condition = threading.Condition()
        self._collections = {path: _Collection() for path in PATHS.values()}
        self._version = 1000
        self._lists: dict[str, tuple[int, list[bytes]]] = {}
        self._expiring: deque[int] = deque()
        self._canned: list[_Canned] = []
        self._scripts: dict[str, deque[tuple[Act, ...]]] = {}
        self._bookmarks: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self._watching: dict[str, int] = {}
        self._server = _Server(self, tls)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeApi:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End every answer and wait for every thread; raise when the server itself has made a mistake."""
        self.closing.set()
        with self._condition:
            self._condition.notify_all()
        self._server.shutdown()
        self._server.drop_connections()
        self._server.server_close()
        self._thread.join()
        if self._server.mistakes:
            raise self._server.mistakes[0]

    # What the cluster does.

    @property
    def version(self) -> int:
        """The newest resource version."""
        return self._version

    def put(self, *objects: Mapping[str, Any], silent: bool = False) -> int:
        """Create or replace objects and return the newest resource version; `silent` keeps it from the watches."""
        with self._condition:
            for obj in objects:
                collection = self._collections[PATHS[obj["kind"]]]
                key = _key(obj["metadata"])
                self._version += 1
                item = _item(obj, self._version)
                if not silent:
                    verb = "MODIFIED" if key in collection.objects else "ADDED"
                    collection.history.append((self._version, verb, item))
                collection.objects[key] = item
            self._condition.notify_all()
            return self._version

    def delete(self, kind: str, key: str, *, silent: bool = False) -> int:
        """Remove an object and return the resource version of that; `silent` keeps it from the watches."""
        with self._condition:
            collection = self._collections[PATHS[kind]]
            last = json.loads(collection.objects.pop(key))
            self._version += 1
            if not silent:
                collection.history.append((self._version, "DELETED", _item(last, self._version)))
            self._condition.notify_all()
            return self._version

    def seed(self, kind: str, items: Iterable[tuple[str, bytes]]) -> None:
        """Take in (key, encoded item) as they are, for large clusters."""
        with self._condition:
            self._collections[PATHS[kind]].objects.update(items)

    def bookmark(self, kind: str) -> int:
        """Send a bookmark of the newest resource version to open watches and return that version."""
        with self._condition:
            self._bookmarks[PATHS[kind]] = self._version
            self._condition.notify_all()
            return self._version

    def compact(self, kind: str) -> None:
        """Forget the history: a watch from an earlier version is answered with 410."""
        with self._condition:
            collection = self._collections[PATHS[kind]]
            collection.history.clear()
            collection.oldest = self._version

    def end_watches(self, kind: str) -> None:
        """End the live watches that are open now, in good order."""
        with self._condition:
            self._ended[PATHS[kind]] = self._ended.get(PATHS[kind], 0) + 1
            self._condition.notify_all()

    # What goes wrong.

    def script_watch(self, kind: str, *acts: Act) -> None:
        """Play these acts in the next watch of the kind and end it in good order; several scripts wait in line."""
        with self._condition:
            self._scripts.setdefault(PATHS[kind], deque()).append(acts)

    def answer_next(
        self,
        method: str,
        path: str,
        status: int,
        body: Mapping[str, Any] | bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        times: int | None = 1,
    ) -> None:
        """Answer the next requests of that method and path so; `times` None is for ever."""
        if body is None:
            body = _status(status, "", "as the test wishes")
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        with self._condition:
            self._canned.append(_Canned(method, path, status, encoded, headers or {}, times))

    def stop_answering(self, path: str) -> None:
        """Take back what `answer_next` has set for that path."""
        with self._condition:
            self._canned = [c for c in self._canned if c.path != path]

    def expire_token(self, number: int, *, times: int = 1) -> None:
        """Let the `number`-th continue token of the next `times` lists be too old when it comes back."""
        with self._condition:
            self._expiring.extend([number] * times)

    # What a test waits for.

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
        """Wait until `condition` holds; it is looked at after every request and change."""
        with self._condition:
            if not self._condition.wait_for(condition, timeout_s):
                raise AssertionError(f"did not happen within {timeout_s:g} s; requests: {self.summary()}")

    def wait_for_watch(self, kind: str, *, count: int = 1) -> None:
        """Wait until `count` live watches of the kind are open."""
        self.wait_for(lambda: self._watching.get(PATHS[kind], 0) >= count)

    def seen(self, kind: str, *, watch: bool) -> list[Request]:
        """Requests for a kind so far, lists or watches."""
        return [r for r in self.requests if r.path == PATHS[kind] and r.is_watch == watch]

    def summary(self) -> list[str]:
        return [f"{r.method} {r.path}{' (watch)' if r.is_watch else ''}" for r in self.requests]

    # How a request is answered; called by the handler's threads.

    def take(self, request: Request) -> _Canned | None:
        with self._condition:
            self.requests.append(request)
            self._condition.notify_all()
            for canned in self._canned:
                if canned.method == request.method and canned.path == request.path:
                    if canned.times is not None:
                        canned.times -= 1
                        if canned.times == 0:
                            self._canned.remove(canned)
                    return canned
        return None

    def script_for(self, path: str) -> tuple[Act, ...] | None:
        with self._condition:
            scripts = self._scripts.get(path)
            return scripts.popleft() if scripts else None

    def list_page(self, request: Request) -> tuple[int, bytes]:
        kind = KINDS[request.path]
        limit = int(request.params.get("limit", "0"))
        token = request.params.get("continue", "")
        with self._condition:
            if token:
                list_id, start_text, number = token.split("-")
                if self._expiring and self._expiring[0] == int(number):
                    self._expiring.popleft()
                    return 410, json.dumps(
                        _status(410, "Expired", "The provided continue parameter is too old")
                    ).encode()
                start = int(start_text)
            else:
                list_id, start, number = str(len(self._lists)), 0, "0"
                self._lists[list_id] = (self._version, list(self._collections[request.path].objects.values()))
            version, items = self._lists[list_id]
        end = start + limit if limit else len(items)
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if end < len(items):
            metadata["continue"] = f"{list_id}-{end}-{int(number) + 1}"
            metadata["remainingItemCount"] = len(items) - end
        head = json.dumps({"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata}).encode()
        return 200, head[:-1] + b',"items":[' + b",".join(items[start:end]) + b"]}"

    def live_events(self, path: str, since: int) -> Iterable[bytes]:
        """Yield the lines of a watch from `since` on, until the test ends it."""
        kind = KINDS[path]
        collection = self._collections[path]
        with self._condition:
            if since < collection.oldest:
                yield line(error_event(410, "Expired", f"too old resource version: {since} ({collection.oldest})"))
                return
            bookmarked = self._bookmarks.get(path, 0)
            ended = self._ended.get(path, 0)
            self._watching[path] = self._watching.get(path, 0) + 1
            self._condition.notify_all()
        try:
            while not self.closing.is_set():
                with self._condition:
                    if self._ended.get(path, 0) != ended:
                        return
                    new = [entry for entry in collection.history if entry[0] > since]
                    bookmark = self._bookmarks.get(path, 0)
                    if not new and bookmark == bookmarked:
                        self._condition.wait(0.5)
                        continue
                for version, verb, item in new:
                    since = version
                    yield (
                        b'{"type":"'
                        + verb.encode()
                        + b'","object":{"kind":"'
                        + kind.encode()
                        + b'",'
                        + item[1:]
                        + b"}\n"
                    )
                if bookmark != bookmarked:
                    bookmarked = bookmark
                    yield line(bookmark_event(bookmark, kind))
        finally:
            with self._condition:
                self._watching[path] -= 1

    def bind(self, request: Request) -> tuple[int, bytes]:
        """Bind a pod as the API server does: once."""
        _, _, _, _, namespace, _, name, _ = request.path.split("/")
        key, node = f"{namespace}/{name}", json.loads(request.body)["target"]["name"]
        with self._condition:
            found = self._collections[PATHS["Pod"]].objects.get(key)
        if found is None:
            return 404, json.dumps(_status(404, "NotFound", f'pods "{name}" not found')).encode()
        pod = json.loads(found)
        if pod["spec"].get("nodeName"):
            message = f'Operation cannot be fulfilled on pods/binding "{name}": pod is already assigned to node'
            return 409, json.dumps(_status(409, "Conflict", message)).encode()
        pod["spec"]["nodeName"] = node
        self.bindings.append((key, node))
        self.put({"apiVersion": "v1", "kind": "Pod", **pod})
        return 201, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64

    def __init__(self, api: FakeApi, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api
        self.connections: set[socket.socket] = set()
        self.mistakes: list[BaseException] = []
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    def drop_connections(self) -> None:
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the play; anything else is a mistake of this server."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.mistakes.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Stay silent."""

    def do_GET(self) -> None:
        api = self.server.api
        request = self._request()
        if self._refused(request):
            return
        if request.path not in KINDS:
            self._answer(404, json.dumps(_status(404, "NotFound", "the server could not find it")).encode())
        elif not request.is_watch:
            self._answer(*api.list_page(request))
        else:
            script = api.script_for(request.path)
            self._open_chunked()
            if script is not None:
                self._play(script)
                return
            for data in api.live_events(request.path, int(request.params.get("resourceVersion") or 0)):
                self._chunk(data)
            self._end_chunked()

    def do_POST(self) -> None:
        request = self._request()
        if self._refused(request):
            return
        if request.path.endswith("/binding"):
            self._answer(*self.server.api.bind(request))
        else:
            self._answer(404, json.dumps(_status(404, "NotFound", "the server could not find it")).encode())

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)

    def _refused(self, request: Request) -> bool:
        canned = self.server.api.take(request)
        if canned is not None:
            self._answer(canned.status, canned.body, canned.headers)
            return True
        if not self.server.api.accepts(request):
            self._answer(401, json.dumps(_status(401, "Unauthorized", "Unauthorized")).encode())
            return True
        return False

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _open_chunked(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _end_chunked(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def _play(self, script: tuple[Act, ...]) -> None:
        for act in script:
            if isinstance(act, Hang):
                self.server.api.closing.wait()
                self.close_connection = True
                return
            if isinstance(act, Cut):
                self.wfile.write(b"1000\r\nonly the beginning of a chunk")
                self.close_connection = True
                return
            if isinstance(act, Wait):
                while not act.until.wait(0.05) and not self.server.api.closing.is_set():
                    pass
            elif isinstance(act, bytes):
                self._chunk(act)
            else:
                self._chunk(line(act))
        self._end_chunked()


def _key(metadata: Mapping[str, Any]) -> str:
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]


def _item(obj: Mapping[str, Any], version: int) -> bytes:
    rest = {k: v for k, v in obj.items() if k not in ("kind", "apiVersion", "metadata")}
    return json.dumps({"metadata": {**obj["metadata"], "resourceVersion": str(version)}, **rest}).encode()


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return {**status, "reason": reason, "message": message}
