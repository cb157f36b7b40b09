"""The HTTP application: routes, status codes, and what a request leaves in log and metrics."""

from __future__ import annotations

import gzip
import logging
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from importlib.metadata import version

import msgspec
from flask import Flask, Response, request
from prometheus_client import CONTENT_TYPE_LATEST
from werkzeug.exceptions import HTTPException

from extender import wire
from extender.bind import Bindings
from extender.decide import Decider
from extender.metrics import Metrics
from extender.source import ClusterSource
from islander.cluster.snapshot_json import encode_snapshot
from islander.policy.demand import weights_of
from islander.policy.explain import explain_pod
from islander.policy.settings import DemandMix, PolicySettings
from islander.policy.status import cluster_status

log = logging.getLogger(__name__)

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


@dataclass(slots=True)
class Services:
    """What the routes work with.

    Attributes
    ----------
    mix
        Returns the demand mix of this moment, for explanations and status.
    bindings
        None when the bind verb is off.
    stopping
        Set when the program is about to end: it answers, but is no longer ready.
    """

    decider: Decider
    source: ClusterSource
    metrics: Metrics
    settings: PolicySettings
    mix: Callable[[], DemandMix]
    bindings: Bindings | None = None
    stopping: bool = field(default=False)


def create_app(services: Services, *, max_body_bytes: int) -> Flask:
    """Return the application; its answers are complete in memory, so that they carry a Content-Length."""
    app = Flask("islander-extender", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = max_body_bytes
    _add_verbs(app, services)
    _add_explanations(app, services)
    _add_operations(app, services)
    app.register_error_handler(HTTPException, _http_problem)
    app.register_error_handler(Exception, _our_mistake)
    return app


def _add_verbs(app: Flask, services: Services) -> None:
    def filter_nodes(body: bytes) -> Response:
        args = wire.parse_extender_args(body)
        if isinstance(args, wire.BadRequest):
            return _error(args.message, 400)
        if waiting := _waiting(services):
            # kube-scheduler shows the text of an answer, but not the body of an HTTP error.
            return _error(waiting, 200)
        outcome = services.decider.filter(args)
        if services.bindings is not None:
            services.bindings.remember(args.pod)
        _note_refusals(services, args, outcome)
        return Response(wire.filter_answer(args, outcome), mimetype=_JSON)

    def prioritize(body: bytes) -> Response:
        args = wire.parse_extender_args(body)
        if isinstance(args, wire.BadRequest):
            return _problem(args.message, 400)
        if waiting := _waiting(services):
            return _problem(waiting, 503)
        return Response(wire.priority_answer(args, services.decider.prioritize(args)), mimetype=_JSON)

    def preempt(body: bytes) -> Response:
        args = wire.parse_preemption_args(body)
        if isinstance(args, wire.BadRequest):
            return _problem(args.message, 400)
        if waiting := _waiting(services):
            return _problem(waiting, 503)
        kept = services.decider.preempt(args)
        log.info("preempt", extra={"pod": args.pod.key, "candidates": len(args.candidates), "kept": len(kept)})
        return Response(wire.preemption_answer(kept), mimetype=_JSON)

    def bind(bindings: Bindings, body: bytes) -> Response:
        args = wire.parse_binding_args(body)
        if isinstance(args, wire.BadRequest):
            return _error(args.message, 400)
        if waiting := _waiting(services):
            return _error(waiting, 200)
        problem = bindings.bind(args)
        fields = {"pod": f"{args.namespace}/{args.name}", "node": args.node, "reason": problem}
        log.log(logging.WARNING if problem else logging.INFO, "bind", extra=fields)
        return _error(problem, 200)

    verbs: dict[str, Callable[[bytes], Response]]
    verbs = {"filter": filter_nodes, "prioritize": prioritize, "preempt": preempt}
    if services.bindings is not None:
        verbs["bind"] = partial(bind, services.bindings)
    for verb, answer in verbs.items():
        app.add_url_rule(f"/{verb}", verb, _measured(verb, services.metrics, _with_body(answer)), methods=["POST"])


def _add_explanations(app: Flask, services: Services) -> None:
    def explain_sent(body: bytes) -> Response:
        pod = wire.parse_single_pod(body)
        if isinstance(pod, wire.BadRequest):
            return _problem(pod.message, 400)
        if waiting := _waiting(services):
            return _problem(waiting, 503)
        snapshot = services.source.snapshot()
        return _document(explain_pod(snapshot, pod, _settings_now(services)))

    def explain_known(namespace: str, name: str) -> Response:
        if waiting := _waiting(services):
            return _problem(waiting, 503)
        snapshot = services.source.snapshot()
        pod = next((p for p in snapshot.pods if p.namespace == namespace and p.name == name), None)
        if pod is None:
            return _problem("there is no such pod", 404)
        return _document(explain_pod(snapshot, pod, _settings_now(services)))

    def status() -> Response:
        if waiting := _waiting(services):
            return _problem(waiting, 503)
        return _document(cluster_status(services.source.snapshot(), _settings_now(services)))

    def snapshot() -> Response:
        if waiting := _waiting(services):
            return _problem(waiting, 503)
        configured = services.settings.mix
        taken = services.source.snapshot()
        if configured is not None:
            taken = msgspec.structs.replace(taken, demand_mix=weights_of(configured))
        data = encode_snapshot(taken)
        response = Response(data, mimetype=_JSON)
        response.headers["Vary"] = "Accept-Encoding"
        if request.accept_encodings["gzip"] > 0:
            response.data = gzip.compress(data, compresslevel=1, mtime=0)
            response.headers["Content-Encoding"] = "gzip"
        return response

    metrics = services.metrics
    app.add_url_rule("/explain", "explain", _measured("explain", metrics, _with_body(explain_sent)), methods=["POST"])
    app.add_url_rule(
        "/explain/<namespace>/<name>", "explain_known", _measured("explain", metrics, explain_known), methods=["GET"]
    )
    app.add_url_rule("/status", "status", status, methods=["GET"])
    app.add_url_rule("/snapshot", "snapshot", snapshot, methods=["GET"])


def _add_operations(app: Flask, services: Services) -> None:
    def healthz() -> Response:
        return Response("ok\n", content_type=_TEXT)

    def readyz() -> Response:
        if services.stopping:
            return _problem("stopping", 503)
        waiting = _waiting(services)
        return _problem(waiting, 503) if waiting else Response("ok\n", content_type=_TEXT)

    def expose() -> Response:
        return Response(services.metrics.expose(), content_type=CONTENT_TYPE_LATEST)

    def tell_version() -> Response:
        return _document({"version": version("islander"), "python": platform.python_version()})

    for path, view in (("healthz", healthz), ("readyz", readyz), ("metrics", expose), ("version", tell_version)):
        app.add_url_rule(f"/{path}", path, view, methods=["GET"])


def _with_body(answer: Callable[[bytes], Response]) -> Callable[[], Response]:
    def view() -> Response:
        return answer(request.get_data(cache=False))

    return view


def _measured(verb: str, metrics: Metrics, view: Callable[..., Response]) -> Callable[..., Response]:
    duration = metrics.duration.labels(verb)

    @wraps(view)
    def measured(**arguments: str) -> Response:
        begin = time.perf_counter()
        try:
            response = view(**arguments)
        except HTTPException as e:
            response = _http_problem(e)
        except Exception as e:
            response = _our_mistake(e)
        duration.observe(time.perf_counter() - begin)
        metrics.requests.labels(verb, str(response.status_code)).inc()
        return response

    return measured


def _note_refusals(services: Services, args: wire.ExtenderArgs, outcome: wire.Filtered) -> None:
    if not outcome.refused:
        return
    counts = {code.value: len(names) for code, names in outcome.refused.items()}
    for code, count in counts.items():
        services.metrics.rejections.labels(code).inc(count)
    # A pod that no node takes is worth a line; that some nodes do not fit is everyday.
    level = logging.DEBUG if outcome.kept and any(outcome.kept) else logging.INFO
    if log.isEnabledFor(level):
        log.log(level, "filter refused nodes", extra={"pod": args.pod.key, "refused": counts})


def _waiting(services: Services) -> str:
    missing = services.source.missing()
    return f"not ready: waiting for the first list of {', '.join(missing)}" if missing else ""


def _settings_now(services: Services) -> PolicySettings:
    """Return the settings with the mix of this moment, by which the command line judges the same snapshot too."""
    return replace(services.settings, mix=services.mix())


def _document(document: object) -> Response:
    return Response(msgspec.json.encode(document), mimetype=_JSON)


def _error(message: str, status: int) -> Response:
    return Response(wire.error_answer(message), status=status, mimetype=_JSON)


def _problem(message: str, status: int) -> Response:
    line = " ".join(message.split())
    return Response(f"{line}\n", status=status, content_type=_TEXT)


def _speaks_errors() -> bool:
    return request.path in ("/filter", "/bind")


def _http_problem(problem: HTTPException) -> Response:
    status, message = problem.code or 500, problem.description or problem.name
    response = _error(message, status) if _speaks_errors() else _problem(message, status)
    for name, value in problem.get_headers():
        if name == "Allow":
            response.headers[name] = value
    return response


def _our_mistake(mistake: Exception) -> Response:
    """Answer for a bug of ours: the log gets everything, the client gets no detail."""
    log.error("internal error", exc_info=mistake, extra={"path": request.path})
    return _error("internal error", 500) if _speaks_errors() else _problem("internal error", 500)
