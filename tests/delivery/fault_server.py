"""A local HTTP server that is well-behaved (Range, If-Range, ETag) until it is told not to be."""

import hashlib
import re
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Fault:
    """What goes wrong with a path, and how often.

    truncated, reset: the body ends after `at` bytes, the connection with it. flipped: one bit of
    the body. other: another body of the same length. endless: the body goes on. drip,
    drip_headers: a byte each `every_s`. hang: no answer. refuse: the connection is closed at once.
    status: this status with these headers. range_ignored: always 200. wrong_range: 206 of another
    place. redirects: to itself. changed: new content, new ETag. etagless: no ETag.
    """

    kind: str
    times: int = -1
    at: int = 0
    every_s: float = 0.05
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes = b""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class FaultServer:
    """Serves `files` (path -> content); `faults` (path, or * for all) say what goes wrong."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, Fault] = {}
        self.requests: list[Request] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        server = self

        class Handler(_Handler):
            owner = server

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def fault(self, path: str) -> Fault | None:
        with self._lock:
            found = self.faults.get(path) or self.faults.get("*")
            if found is None or found.times == 0:
                return None
            found.times -= 1
            return found

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what most of these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: FaultServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        owner = self.owner
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        owner.requests.append(Request(self.command, self.path, dict(self.headers), body))
        fault = owner.fault(self.path) or Fault("none")
        content = owner.files.get(self.path)
        if fault.kind == "hang":
            owner.stopping.wait(60)
            self.close_connection = True
        elif fault.kind == "refuse":
            self.close_connection = True
        elif fault.kind == "drip_headers":
            self._drip(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10000, fault.every_s)
        elif fault.kind == "status":
            self._answer(fault.status, b"no", fault.headers)
        elif fault.kind == "redirects":
            self._answer(302, b"x" * 10, {"Location": self.path})
        elif content is None:
            self._answer(404, b"not found", {})
        else:
            self._serve(fault.content if fault.kind == "changed" else content, fault)

    def _serve(self, content: bytes, fault: Fault) -> None:
        etag = '"' + hashlib.sha256(content).hexdigest()[:16] + '"'
        headers = {} if fault.kind == "etagless" else {"ETag": etag}
        start, status = 0, 200
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        is_same = self.headers.get("If-Range", etag) == etag
        if asked and is_same and fault.kind != "range_ignored":
            start, status = int(asked[1]), 206
            if start >= len(content):
                self._answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                return
            start += 7 if fault.kind == "wrong_range" else 0
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        body = content[start:]
        if fault.kind == "flipped" and body:
            middle = len(body) // 2
            body = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
        elif fault.kind == "other":
            body = bytes(len(body))
        if fault.kind in ("truncated", "reset"):
            self._begin(status, len(body), headers)
            self.wfile.write(body[: fault.at])
            self.close_connection = True
        elif fault.kind == "endless":
            self._begin(status, 1 << 40, headers)
            self.wfile.write(body)
            while not self.owner.stopping.is_set():
                self.wfile.write(bytes(1 << 16))
        elif fault.kind == "drip":
            self._begin(status, len(body), headers)
            self.wfile.write(body[: fault.at])
            self._drip(body[fault.at :], fault.every_s)
        else:
            self._answer(status, body, headers)

    def _drip(self, content: bytes, every_s: float) -> None:
        self.close_connection = True
        for byte in content:
            if self.owner.stopping.is_set():
                return
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(every_s)

    def _begin(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self._begin(status, len(body), headers)
        self.wfile.write(body)


@contextmanager
def serving() -> Generator[FaultServer]:
    server = FaultServer()
    try:
        yield server
    finally:
        server.stop()
