"""Chromium without a window, steered through two pipes by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

WAIT_S = 30.0
# Memory that falls by no more has settled.
SETTLED_BYTES = 2_000_000
# The protocol is spoken on file descriptors 3 and 4.
START = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3]]
for pipe, wanted in zip(pipes, (3, 4)):
    os.dup2(pipe, wanted)
    os.close(pipe)
os.execv(sys.argv[3], sys.argv[3:])
"""
# Of each text how it stands out from what is behind it, its element and its beginning.
CONTRAST = """(() => {
    const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgb = (color) => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = color;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data];
    };
    const light = (color) => {
        const [r, g, b] = color.map((v) => v / 255)
            .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (one) => {
        for (; one; one = one.parentElement) {
            const color = rgb(getComputedStyle(one).backgroundColor);
            if (color[3] === 255) return color;
        }
        return [255, 255, 255];
    };
    const found = [];
    for (const one of document.querySelectorAll('body *')) {
        const texts = [...one.childNodes].filter((n) => n.nodeType === 3 && n.data.trim());
        if (!texts.length || one.disabled || !one.checkVisibility()) continue;
        if (one.closest('noscript, script, title, .unseen, option')) continue;
        const style = getComputedStyle(one);
        const color = one.closest('svg') ? style.fill : style.color;
        const [a, b] = [light(rgb(color)), light(behind(one))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        found.push([ratio, `${one.tagName} ${one.className.baseVal ?? one.className}`,
            texts[0].data.trim().slice(0, 40)]);
    }
    return found.sort((a, b) => a[0] - b[0]);
})()"""
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}


def program() -> str | None:
    """Return the browser's path, None if there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")


class Browser:
    """One browser, with a page at first; problems: its errors, and requests to other hosts."""

    def __init__(self, executable: str, *flags: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="chromium")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", START, str(to_read), str(to_write), executable),
                *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
                *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
                *("--hide-scrollbars", "--disable-dev-shm-usage", *flags),
                *(f"--user-data-dir={self._folder}", "about:blank"),
            ],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._number = 0
        self._session: str | None = None
        self._workers: list[str] = []
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._session = self.new_tab()

    def new_tab(self) -> str:
        """Open a tab, for `in_tab`."""
        target = self.send_to(None, "Target.createTarget", url="about:blank")["targetId"]
        attached = self.send_to(None, "Target.attachToTarget", targetId=target, flatten=True)
        tab = str(attached["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.send_to(tab, f"{domain}.enable")
        return tab

    @contextmanager
    def in_tab(self, tab: str) -> Generator[None]:
        """Steer this tab meanwhile."""
        before, self._session = self._session, tab
        try:
            yield
        finally:
            self._session = before

    def close(self) -> None:
        os.close(self._write)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(10)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _listen(self) -> None:
        with open(self._read, "rb") as stream:
            rest = b""
            while part := stream.read1(1 << 20):
                *messages, rest = (rest + part).split(b"\0")
                for message in messages:
                    self._hear(json.loads(message))

    def _hear(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers.put(message)
            return
        method, values = message["method"], message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("warning", "error"):
            self.problems.append(values["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Target.attachedToTarget" and values["targetInfo"]["type"] == "worker":
            self._workers.append(values["sessionId"])
        elif method == "Target.detachedFromTarget" and values["sessionId"] in self._workers:
            self._workers.remove(values["sessionId"])

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and return its answer."""
        return self.send_to(self._session, method, **params)

    def send_to(self, session: str | None, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to the page or to a worker; None: to the browser."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        ends = time.monotonic() + WAIT_S
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, ends - time.monotonic()))
            except Empty:
                raise TimeoutError(f"{method}: no answer in {WAIT_S:g} s") from None
            if answer["id"] == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression, awaited if it is a promise."""
        answer = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """Wait until an expression is true, and return it."""
        ends = time.monotonic() + WAIT_S
        while not (value := self.run(script)):
            if time.monotonic() > ends:
                raise TimeoutError(f"not true in {WAIT_S:g} s: {script}\n{self.text()[:400]}")
            time.sleep(0.02)
        return value

    def open(self, url: str) -> None:
        """Go to a page, without data of earlier ones."""
        self.send("Page.navigate", url="about:blank")
        self.send("Network.clearBrowserCookies")
        self.problems.clear()
        self.requests.clear()
        self.send("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({url!r})")

    def size(self, width: int, height: int, scale: float = 1) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def scheme(self, name: str) -> None:
        """Emulate the system's colour scheme, light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def text(self, selector: str = "body") -> str:
        """Return the visible text."""
        return str(self.run(f"document.querySelector({selector!r})?.innerText ?? ''"))

    def focused(self) -> str:
        """Return the id of the focused element, its tag if it has none."""
        return str(self.run("document.activeElement.id || document.activeElement.tagName"))

    def press(self, key: str, shift: bool = False) -> None:
        """Press a key as a person would."""
        event: dict[str, Any] = {
            "key": key,
            "code": "Space" if key == " " else key,
            "windowsVirtualKeyCode": KEYS[key],
            "modifiers": 8 if shift else 0,
        }
        text = {"Enter": "\r", " ": " "}.get(key)
        self.send(
            "Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {})
        )
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.send("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click on the centre of an element, which must be on top there."""
        script = f"""(() => {{
            const one = document.querySelector({selector!r});
            one.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = one.getBoundingClientRect();
            const x = box.x + box.width / 2, y = box.y + box.height / 2;
            const there = document.elementFromPoint(x, y);
            return one.contains(there) ? [x, y] : null;
        }})()"""
        x, y = self.wait(script)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def nodes(self) -> list[dict[str, Any]]:
        """Return the accessibility nodes, with role and name."""
        return list(self.send("Accessibility.getFullAXTree")["nodes"])

    def contrasts(self) -> list[tuple[float, str, str]]:
        """Return the contrast of each text, its element and how it begins; the least first."""
        return [(ratio, name, text) for ratio, name, text in self.run(CONTRAST)]

    def memory(self) -> int:
        """Return the bytes that all processes have for themselves and do not give back if asked to.

        Linux alone tells them.
        """
        self.send(
            "Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True
        )
        least, fell = 0, True
        while fell:
            self.send("Memory.simulatePressureNotification", level="critical")
            for session in (self._session, *self._workers):
                self.send_to(session, "HeapProfiler.collectGarbage")
            time.sleep(0.5)
            now = sum(map(_private_bytes, _with_descendants(self._process.pid)))
            fell = not least or now < least - SETTLED_BYTES
            least = min(least or now, now)
        return least

    def picture(self, file: Path, whole: bool = False) -> None:
        """Write a screenshot as PNG."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))


def _with_descendants(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(found for each in children for found in _with_descendants(int(each)))]


def _private_bytes(process: int) -> int:
    rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    kilobytes = [int(row.split()[1]) for row in rows if row.startswith("Private_")]
    return 1024 * sum(kilobytes)
