"""Headless Chromium over the DevTools protocol, for tests of pages; no package is needed."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--hide-scrollbars", "--remote-debugging-pipe"),
    *("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
)
KEYS = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Enter": 13,
    "Tab": 9,
    "PageUp": 33,
    "PageDown": 34,
    "Escape": 27,
}


class Browser:
    """One page of one browser; what it asks for and what it complains of are kept."""

    def __init__(self, reading: IO[bytes], writing: IO[bytes]) -> None:
        self._reading, self._writing, self._count = reading, writing, 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the page."""
        return self._call(method, self._session, **parameters)

    def _call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._writing.write(json.dumps(message).encode() + b"\0")
        self._writing.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        content = bytearray()
        while (byte := self._reading.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser ended")
            content += byte
        message: dict[str, Any] = json.loads(content)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method", ""), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", str(details)))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.complaints.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def open(
        self, address: str, *, width: int = 1280, height: int = 800, dark: bool = False
    ) -> None:
        """Load a page at a size."""
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def resize(self, width: int, height: int) -> None:
        """Change the size of the page."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", **asked)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = 60) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds} s: {condition}; {self.complaints}")
            time.sleep(0.05)

    def key(self, key: str, *, shift: bool = False) -> None:
        """Press a key."""
        code = KEYS.get(key, ord(key.upper()[0]))
        told = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **told, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **told)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """One event of the mouse: `pressed`, `moved`, `released` or `wheel`."""
        self.call("Input.dispatchMouseEvent", type=f"mouse{kind.title()}", x=x, y=y, **more)

    def centre(self, selector: str) -> tuple[float, float]:
        """The middle of an element on the screen."""
        found = self.run(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        return found[0], found[1]

    def click(self, selector: str) -> None:
        """Click on an element, wherever it is."""
        self.run(
            f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block:'nearest'}})"
        )
        x, y = self.centre(selector)
        for kind in ("pressed", "released"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def screenshot(self, path: Path, kind: str = "png", quality: int = 88) -> None:
        """Write a picture of the page."""
        more = {"quality": quality} if kind == "jpeg" else {}
        data = self.call("Page.captureScreenshot", format=kind, **more)["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser with a profile of its own, and end it."""
    assert CHROMIUM, "skip the test where there is no Chromium"
    (to_them, ours), (theirs, from_them) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = ["bash", "-c", f'exec "$@" 3<&{to_them} 4>&{from_them}', "bash", CHROMIUM]
        words += [*FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(words, pass_fds=(to_them, from_them), stderr=subprocess.DEVNULL)
        os.close(to_them)
        os.close(from_them)
        try:
            with os.fdopen(theirs, "rb") as reading, os.fdopen(ours, "wb") as writing:
                yield Browser(reading, writing)
        finally:
            process.terminate()
            process.wait(20)
