"""A server that runs in this process, on a real socket."""

import http.client
import threading
import time
from collections.abc import Mapping
from typing import Any

import requests

from palmkit.delivery.server.app import Server
from palmkit.delivery.server.connections import Connections, http_server, listen
from palmkit.delivery.server.limits import Limits

TOKEN = "t" * 20


class Running:
    """A running server: `with Running(server) as client: client.get("/healthz")`."""

    def __init__(self, server: Server, limits: Limits | None = None) -> None:
        self.connections = Connections(limits or Limits.of(), server.metrics.closed_by)
        self._sockets = listen("127.0.0.1", 0, self.connections)
        self._server = http_server(server.app(), self.connections)
        self._thread = threading.Thread(target=self._server.run, args=(self._sockets,))
        self._session = requests.Session()
        self.port = 0

    def __enter__(self) -> "Running":
        self._thread.start()
        until = time.monotonic() + 20
        while not self._server.started:
            assert self._thread.is_alive() and time.monotonic() < until
            time.sleep(0.01)
        self.port = self._sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, method: str, path: str, **options: Any) -> requests.Response:
        return self._session.request(method, self.url + path, timeout=30, **options)

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> requests.Response:
        return self.request("POST", path, **options)

    def raw(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send a request whose path and body are taken as they are."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            chunked = "transfer-encoding" in (headers or {})
            connection.request(method, path, body, dict(headers or {}), encode_chunked=chunked)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def state(self) -> dict[str, Any]:
        answer = self.get("/v1/admin/state", headers=AUTHORIZED)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}
