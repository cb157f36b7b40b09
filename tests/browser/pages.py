"""What tests of pages ask of a browser."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.chromium import Browser, find_chromium, running

ARTIFACTS = Path(__file__).parents[2] / "artifacts"


@contextmanager
def a_browser(profile: Path) -> Iterator[Browser]:
    """A running browser; without one the test is skipped, or fails where CI=true."""
    program = find_chromium()
    if program is None:
        reason = "no Chromium: apt-get install chromium, or name one with CHROMIUM=..."
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must not skip this: {reason}")
        pytest.skip(reason)
    with running(program, profile) as found:
        yield found


def texts(browser: Browser, selector: str) -> list[str]:
    """The visible text of each element."""
    found: list[str] = browser.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText.trim())"
    )
    return found


def number_of(browser: Browser, selector: str) -> int:
    """How many elements there are."""
    found: int = browser.run(f"document.querySelectorAll({json.dumps(selector)}).length")
    return found


def contrast(one: str, other: str) -> float:
    """Contrast of two colours as the browser names them (WCAG 2.1)."""

    def light(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
