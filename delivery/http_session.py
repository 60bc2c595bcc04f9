"""A `requests` session without cookies in which headers that drip in for ever have a deadline."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Generator
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.response import HTTPResponse


class HeadersTimeout(OSError):
    """The headers of an answer did not come whole in time."""


@contextlib.contextmanager
def _deadline(connection: HTTPConnection, seconds: float) -> Generator[None]:
    """Shut the connection's socket after a while: a timeout of reads only bounds each gap."""
    late = threading.Event()
    line = connection.sock

    def shut() -> None:
        late.set()
        if line is not None:
            with contextlib.suppress(OSError):
                # That of a TLS socket would end the session beneath the thread that reads.
                socket.socket.shutdown(line, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, shut)
    timer.daemon = True
    timer.start()
    message = f"no whole headers after {seconds:g} s"
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise HeadersTimeout(message) from error
        raise
    finally:
        timer.cancel()
    # http.client takes the end of what it can read for the end of the headers.
    if late.is_set():
        raise HeadersTimeout(message)


def _pool_classes(headers_timeout_s: float) -> dict[str, type[HTTPConnectionPool]]:
    class TimedHTTPConnection(HTTPConnection):
        def getresponse(self) -> HTTPResponse:  # type: ignore[override]
            with _deadline(self, headers_timeout_s):
                return super().getresponse()

    class TimedHTTPSConnection(HTTPSConnection):
        def getresponse(self) -> HTTPResponse:  # type: ignore[override]
            with _deadline(self, headers_timeout_s):
                return super().getresponse()

    class Pool(HTTPConnectionPool):
        ConnectionCls: Any = TimedHTTPConnection

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls: Any = TimedHTTPSConnection

    return {"http": Pool, "https": SecurePool}


class _Adapter(HTTPAdapter):
    def __init__(self, headers_timeout_s: float) -> None:
        self._pools = _pool_classes(headers_timeout_s)
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = self._pools
        return manager


def make_session(headers_timeout_s: float) -> requests.Session:
    """A session as above; it retries nothing by itself."""
    session = requests.Session()
    session.headers["User-Agent"] = "palmkit"
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(headers_timeout_s))
    return session
