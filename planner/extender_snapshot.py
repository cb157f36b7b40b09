"""The snapshot that a running extender decides on."""

from __future__ import annotations

import gzip
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from islander.cluster.snapshot import ClusterSnapshot
from islander.cluster.snapshot_json import decode_snapshot
from planner.errors import PlannerError

_TIMEOUT_S = 30.0


def snapshot_of_extender(url: str, ca_file: Path | None = None) -> ClusterSnapshot:
    """Return the snapshot that a running extender decides on.

    Raises
    ------
    PlannerError
        It cannot be reached, or answers something else than a snapshot.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PlannerError(f"--extender {url}: not a URL such as https://islander-extender.islander.svc:8880")
    address = f"{url.rstrip('/')}/snapshot"
    try:
        context = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
    except (OSError, ssl.SSLError) as problem:
        raise PlannerError(f"--extender-ca {ca_file}: cannot be used: {problem}") from problem
    # Only http and https get here, so no file or other scheme can be opened.
    request = urllib.request.Request(address, headers={"Accept-Encoding": "gzip"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context) as answer:  # noqa: S310
            body = answer.read()
            if answer.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
    except urllib.error.HTTPError as problem:
        with problem:
            raise PlannerError(f"{address}: answered {problem.code} {problem.reason}; is it an extender?") from problem
    except (OSError, EOFError) as problem:
        reason = getattr(problem, "reason", problem)
        raise PlannerError(f"{address}: {reason}; is the extender running there?") from problem
    try:
        return decode_snapshot(body)
    except ValueError as problem:
        raise PlannerError(f"{address}: {problem}; is this an extender?") from problem
