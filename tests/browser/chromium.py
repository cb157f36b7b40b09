"""A headless Chromium, driven through its own debugging pipe: no driver program, no extra package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SECONDS = 60.0


def find_chromium() -> str | None:
    """The browser's program, CHROMIUM=... first; None when there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One page of a running browser.

    Attributes
    ----------
    requests
        Addresses that the page asked for, in order, the page itself included.
    complaints
        Console messages, log entries of level error or warning, and exceptions.
    """

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._number = 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Ask the browser for something and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(self, url: str) -> None:
        """Load a page and wait until it and all that it asks for is there."""
        self._events.clear()
        assert "errorText" not in self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._next()

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def set_view(
        self, width: int, height: int, *, dark: bool = False, media: str = "screen", phone: bool = False
    ) -> None:
        """Set the size of the view in CSS pixels, the colour scheme, and screen or print."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def screenshot(self, file: Path) -> None:
        """Write the whole page as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(picture["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def _next(self) -> dict[str, Any]:
        ends = time.monotonic() + _SECONDS
        while b"\0" not in self._buffer:
            assert time.monotonic() < ends, "the browser does not answer"
            data = os.read(self._from, 1 << 16)
            assert data, "the browser has ended"
            self._buffer += data
        raw, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(raw)
        if "method" in message:
            self._events.append(message)
            self._note(message["method"], message["params"])
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.consoleAPICalled":
                self.complaints.append(f"console.{params['type']}")
            case "Runtime.exceptionThrown":
                self.complaints.append(params["exceptionDetails"]["text"])
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(params["entry"]["text"])


@contextmanager
def running(program: str, profile: Path) -> Iterator[Browser]:
    """Start a browser that cannot reach any network, and end it afterwards."""
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    arguments = [
        *("--headless=new", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-dev-shm-usage"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
        # Whatever asks for a name or an address gets none.
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
        # Root and many containers cannot have the sandbox; the page is our own and holds no script.
        "--no-sandbox",
    ]
    # The browser reads commands from descriptor 3 and writes answers to 4.
    shell = 'exec "$@" 3<&"$IN" 4>&"$OUT"'
    process = subprocess.Popen(
        ["bash", "-c", shell, "chromium", program, *arguments],
        env=os.environ | {"IN": str(commands_out), "OUT": str(answers_in), "DBUS_SESSION_BUS_ADDRESS": "disabled:"},
        pass_fds=(commands_out, answers_in),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(commands_out)
    os.close(answers_in)
    try:
        yield Browser(commands_in, answers_out)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(commands_in)
        os.close(answers_out)
