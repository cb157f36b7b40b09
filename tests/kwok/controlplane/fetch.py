"""Fetches one page from a program on loopback."""

from pathlib import Path

import urllib3

_TIMEOUT_SECONDS = 10.0


def fetch(url: str, *, ca_file: Path | None = None, token: str = "") -> str:
    """Return the body of a GET that is answered with 200.

    Raises
    ------
    OSError
        No answer (yet), or another status.
    """
    if ca_file is not None and not ca_file.exists():
        raise FileNotFoundError(f"{ca_file} is not written yet")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib3.PoolManager(ca_certs=ca_file and str(ca_file), retries=False) as http:
        try:
            answer = http.request("GET", url, headers=headers, timeout=_TIMEOUT_SECONDS)
        except urllib3.exceptions.HTTPError as problem:
            raise ConnectionError(f"{url}: {problem}") from problem
        if answer.status != 200:
            raise ConnectionError(f"{url}: {answer.status} {answer.data.decode(errors='replace')[:200]}")
        return answer.data.decode()
