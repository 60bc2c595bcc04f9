"""A server of reports that answers as it is told."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ReportServer:
    """answers: (status, headers) of the next requests, 204 when there are no more.

    bodies, headers: of the requests that came. hang: set, no request is answered before `release`.
    """

    url: str = ""
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list[Any])
    bodies: list[bytes] = field(default_factory=list[bytes])
    headers: list[dict[str, str]] = field(default_factory=list[Any])
    hang: bool = False
    release: threading.Event = field(default_factory=threading.Event)

    def reports(self) -> list[dict[str, Any]]:
        return [json.loads(gzip.decompress(body)) for body in self.bodies]

    def rows(self) -> list[tuple[str, str, int]]:
        return [(r["model"], r["code"], r["n"]) for one in self.reports() for r in one["rows"]]


@contextmanager
def report_server() -> Generator[ReportServer, None, None]:
    state = ReportServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.bodies.append(body)
            state.headers.append(dict(self.headers))
            if state.hang:
                state.release.wait(30)
            status, headers = state.answers.pop(0) if state.answers else (204, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}/v1/reports"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.release.set()
        server.shutdown()
        server.server_close()
