"""A `requests` session without cookies, whose requests end when their time is over.

A timeout of reads bounds the gap between two bytes only, so that a server which sends one now and
then holds the line for ever: in a handshake, in headers, in the length of a chunk. Here a thread
beside each request shuts the connection.
"""

from __future__ import annotations

import contextlib
import math
import queue
import socket
import threading
import time
from collections.abc import Generator
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util.connection import allowed_gai_family

from palmkit.delivery import deadline

# How often the end of the process is checked for.
LOOK_EVERY_S = 0.2
_here = threading.local()


class TooLate(OSError):
    """A request did not end in time."""


class Watch:
    """The time that one request may take, within what is left by palmkit.delivery.deadline.

    with Watch(5, 10) as watch:
        with watch.asking():
            response = session.get(url, stream=True)
        with watch.waiting(10):
            response.raw.read1()
    """

    def __init__(self, connect_s: float, headers_s: float) -> None:
        """Set the limits.

        connect_s: for the name, the connection and TLS. headers_s: from there to the answer.
        """
        self._connect_s, self._headers_s = connect_s, headers_s
        self._changed = threading.Condition()
        self._ends = self._wakes = math.inf
        self._since = 0.0
        self._line: socket.socket | None = None
        self._is_over = self.is_late = False
        self._stop = deadline.stop_event()

    def __enter__(self) -> Watch:
        """Begin to watch; raise TooLate if the process is ending and can start nothing."""
        thread = threading.Thread(target=self._look, name="palmkit delivery watch", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise TooLate(str(error)) from None
        return self

    def __exit__(self, *_: object) -> None:
        """End the watch."""
        with self._changed:
            self._is_over, self._line = True, None
            self._changed.notify()

    @contextlib.contextmanager
    def asking(self) -> Generator[None]:
        """Limit the time until the answer's headers are complete. Raises TooLate."""
        before, _here.watch = getattr(_here, "watch", None), self
        try:
            with self.waiting(self._connect_s):
                yield
        finally:
            _here.watch = before

    @contextlib.contextmanager
    def waiting(self, seconds: float) -> Generator[None]:
        """Limit the time of a wait to so many seconds. Raises TooLate."""
        if deadline.left_s() <= 0:
            raise TooLate("no time is left")
        self._since = time.monotonic()
        self._allow(seconds)
        try:
            yield
        except Exception as error:
            if self.is_late:
                raise TooLate("took too long") from error
            raise
        finally:
            self._allow(math.inf)
        # A connection that was shut looks like the end of its data.
        if self.is_late:
            raise TooLate("took too long")

    def _allow(self, seconds: float) -> None:
        """Allow so many seconds from now on, whatever it was before."""
        now = time.monotonic()
        deadline.spend(now - self._since)
        with self._changed:
            self._since = now
            self._ends = now + (seconds if math.isinf(seconds) else min(seconds, deadline.left_s()))
            if self._ends < self._wakes:
                self._changed.notify()

    def left_s(self) -> float:
        """Return how many seconds the request may still take."""
        return max(0.0, self._ends - time.monotonic())

    def connects(self) -> None:
        """Note that a new connection is being made."""
        self._allow(self._connect_s)

    def asks(self, line: socket.socket | None) -> None:
        """Note the connection that the request uses."""
        self.shuts(line)
        self._allow(self._headers_s)

    def shuts(self, line: socket.socket | None) -> None:
        """Set the connection to shut."""
        with self._changed:
            self._line = line
            if self.is_late:
                self._shut()

    def _look(self) -> None:
        with self._changed:
            while not self._is_over:
                left_s = self._ends - time.monotonic()
                is_waiting = not math.isinf(left_s)
                if left_s <= 0 or (is_waiting and self._stop is not None and self._stop.is_set()):
                    self.is_late = True
                    self._shut()
                    return
                # If nothing waits now, the next wait raises the error.
                if is_waiting and self._stop is not None:
                    left_s = min(left_s, LOOK_EVERY_S)
                self._wakes = time.monotonic() + left_s
                self._changed.wait(left_s if is_waiting else None)
                self._wakes = math.inf

    def _shut(self) -> None:
        if self._line is not None:
            with contextlib.suppress(OSError):
                # shutdown() of a TLS socket would end the session beneath the thread that reads.
                socket.socket.shutdown(self._line, socket.SHUT_RDWR)


def _resolve(host: str, port: int, seconds: float) -> list[str]:
    """Return the addresses of a name.

    Raises socket.gaierror, TimeoutError.
    """
    answers: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            family = allowed_gai_family()
            answers.put(socket.getaddrinfo(host.strip("[]"), port, family, socket.SOCK_STREAM))
        except Exception as error:
            answers.put(error)

    # The system's own lookup has no limit; a thread that waits for it is abandoned.
    threading.Thread(target=ask, name="palmkit delivery name", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no address of {host} after {seconds:g} s") from None
    if isinstance(answer, Exception):
        raise answer
    return [str(entry[4][0]) for entry in answer]


class _Watched(HTTPConnection):
    """A connection that the watch of the thread's request can shut."""

    _handshake: socket.socket | None = None

    def connect(self) -> None:
        watch: Watch | None = getattr(_here, "watch", None)
        if watch is None:
            return super().connect()
        watch.connects()
        try:
            super().connect()
        finally:
            watch.shuts(None)
            if self._handshake is not None:
                self._handshake.close()
                self._handshake = None
        watch.asks(_plain(self.sock))

    def _new_conn(self) -> socket.socket:
        watch: Watch | None = getattr(_here, "watch", None)
        if watch is None:
            return super()._new_conn()
        name, timeout = self._dns_host, self.timeout
        try:
            line = self._first_of(_resolve(name, self.port, watch.left_s()), watch)
        except socket.gaierror as error:
            raise NameResolutionError(name, self, error) from error
        except TimeoutError as error:
            raise ConnectTimeoutError(self, str(error)) from error
        finally:
            self._dns_host, self.timeout = name, timeout
        # TLS takes the socket over; this is the same connection under another number.
        self._handshake = line.dup()
        watch.shuts(self._handshake)
        return line

    def _first_of(self, addresses: list[str], watch: Watch) -> socket.socket:
        """Connect to the first address that answers."""
        for place, self._dns_host in enumerate(addresses):
            # Each address has its share: a name may have many that do not answer.
            self.timeout = max(watch.left_s() / (len(addresses) - place), 0.01)
            try:
                return super()._new_conn()
            except (ConnectTimeoutError, NewConnectionError):
                if place == len(addresses) - 1:
                    raise
        raise socket.gaierror("the name has no address")

    def _tunnel(self) -> None:
        super()._tunnel()
        watch: Watch | None = getattr(_here, "watch", None)
        if watch is not None and watch.is_late:
            # The end of the data was taken for the end of the proxy's headers.
            raise TooLate("no whole answer of the proxy")

    def putrequest(self, *args: Any, **options: Any) -> None:
        watch: Watch | None = getattr(_here, "watch", None)
        if watch is not None and self.sock is not None:
            watch.asks(_plain(self.sock))
        super().putrequest(*args, **options)


def _plain(line: Any) -> socket.socket | None:
    """Return the socket itself, also under TLS to a server inside TLS to a proxy."""
    while line is not None and not isinstance(line, socket.socket):
        line = getattr(line, "socket", None)
    return line


class _WatchedTLS(_Watched, HTTPSConnection):
    """A watched connection with TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls: Any = _Watched


class _PoolTLS(HTTPSConnectionPool):
    ConnectionCls: Any = _WatchedTLS


_POOLS: dict[str, type[HTTPConnectionPool]] = {"http": _Pool, "https": _PoolTLS}


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager


def make_session() -> requests.Session:
    """Return such a session; it retries nothing by itself."""
    session = requests.Session()
    session.headers["User-Agent"] = "palmkit"
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
    return session
