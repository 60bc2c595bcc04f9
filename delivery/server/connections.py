"""Limits on a server's sockets, which anybody may open: how many, how long, how slow.

asyncio logs without end when no more files can be opened. Here, when all places are taken, the
connection that makes the least use of its place gives way.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import logging
import math
import socket
from collections.abc import Callable, Iterable
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette

from palmkit.delivery.server.connection import READ_BYTES, Connection
from palmkit.delivery.server.limits import FEWEST, Limits
from palmkit.engine.errors import RepositoryError

# How many connections are accepted before the existing ones are served again.
TAKEN_AT_ONCE = 16
PAUSE_S = 0.5
# For this long after files ran out, fewer connections are allowed than were open then.
CAREFUL_S = 300.0
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger(__name__)


class Connections:
    """All connections of one server."""

    def __init__(self, limits: Limits, closed: Callable[[str], None]) -> None:
        """Start without connections.

        closed: called for each connection that was ended, with the limit it passed.
        """
        self.limits = limits
        # One buffer for all: it is emptied before another connection reads.
        self.room = bytearray(READ_BYTES)
        self._closed = closed
        self._all: set[Connection] = set()
        self._of: dict[str, set[Connection]] = {}
        self._sweep_s = min(1.0, limits.idle_s / 4, limits.head_s / 4, limits.stall_s / 4)
        self._sweeping = False
        self._most, self._careful_until = limits.connections, -math.inf

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def protocol(self, **given: Any) -> Connection:
        """Return a protocol for a new connection, for uvicorn."""
        return Connection(self, **given)

    def add(self, connection: Connection) -> None:
        """Record a new connection; another may have to give way to it."""
        self._all.add(connection)
        same = self._of.setdefault(connection.origin, set())
        same.add(connection)
        if len(same) > self.limits.per_address and connection.origin not in self.limits.proxies:
            self._make_room(same - {connection}, 1, "address")
        elif len(self._all) > (most := self.most):
            # Several at once: in a flood, checking all others for every newcomer would take too
            # long.
            self._make_room(self._all - {connection}, 1 + most // 32, "all")
        if not self._sweeping:
            self._sweeping = True
            connection.loop.call_later(self._sweep_s, self._sweep, connection.loop)

    def remove(self, connection: Connection) -> None:
        """Record that a connection was closed."""
        self._all.discard(connection)
        same = self._of.get(connection.origin, set())
        same.discard(connection)
        if not same:
            self._of.pop(connection.origin, None)

    @property
    def most(self) -> int:
        """Return how many there may be now."""
        if asyncio.get_running_loop().time() > self._careful_until:
            self._most = self.limits.connections
        return self._most

    def exhausted(self) -> None:
        """Allow fewer connections from now on, as no file is left for another one."""
        self._careful_until = asyncio.get_running_loop().time() + CAREFUL_S
        self._most = min(self._most, max(FEWEST, len(self._all) // 2))
        self._make_room(self._all, max(1, len(self._all) - self._most), "all")

    def _make_room(self, among: Iterable[Any], count: int, limit: str) -> None:
        now = asyncio.get_running_loop().time()
        found: list[tuple[tuple[int, float], int, Connection]] = heapq.nsmallest(
            count, ((each.worth(now), id(each), each) for each in among)
        )
        for (rank, _), _, connection in found:
            # A connection that is worth more than the first waits until it is the first.
            if rank > found[0][0][0]:
                break
            self._end(connection, limit)
        _log.warning("too many connections: closed those that did least (%s)", limit)

    def _end(self, connection: Connection, limit: str) -> None:
        # Removed at once, so that it does not give way twice.
        self.remove(connection)
        connection.end()
        self._closed(limit)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self._all):
            if limit := connection.overdue(self.limits, now):
                self._end(connection, limit)
        self._sweeping = bool(self._all)
        if self._sweeping:
            loop.call_later(self._sweep_s, self._sweep, loop)


class Listener(socket.socket):
    """A listening socket that takes a few connections at a time, and pauses when files run out."""

    connections: Connections
    _taken = 0
    _paused_until = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection; raise BlockingIOError if others need attention first."""
        loop = asyncio.get_running_loop()
        at_once = max(1, min(TAKEN_AT_ONCE, self.connections.most // 4))
        if self._taken >= at_once or loop.time() < self._paused_until:
            raise BlockingIOError
        try:
            accepted = super().accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self.connections.exhausted()
                # asyncio does not listen for a second then; but some versions of it first ask
                # 2,048 times, each with a line in the log, unless told that nobody is there.
                self._paused_until = loop.time() + PAUSE_S
                loop.set_exception_handler(_say_exhausted)
            raise
        if self._taken == 0:
            loop.call_soon(self._begin_anew)
        self._taken += 1
        return accepted

    def _begin_anew(self) -> None:
        self._taken = 0


def _say_exhausted(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in EXHAUSTED:
        _log.error("no connections are taken for a second: %s", error)
    else:
        loop.default_exception_handler(context)


def listen(host: str, port: int, connections: Connections) -> list[socket.socket]:
    """Return sockets bound to all addresses of a host. Raises RepositoryError if that fails."""
    bound: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listener = Listener(family, kind, protocol)
            listener.connections = connections
            bound.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen()
    except (OSError, UnicodeError) as error:
        for each in bound:
            each.close()
        why = error.strerror if isinstance(error, OSError) else "not a name of a host"
        raise RepositoryError(f"cannot listen on {host} port {port}: {str(why).lower()}") from None
    return bound


def http_server(app: Starlette, connections: Connections) -> uvicorn.Server:
    """Return uvicorn with these connections, to run with the sockets that `listen` returns."""
    # No access log, as addresses would be personal data. No headers of proxies, as nothing depends
    # on the client's address. No web sockets, as there are none.
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=cast("type[asyncio.Protocol]", connections.protocol),
        ws="none",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_config=None,
        log_level="warning",
        timeout_keep_alive=math.ceil(connections.limits.idle_s),
        # Connections have ended by then, so nobody needs the rest of the work.
        timeout_graceful_shutdown=math.ceil(connections.limits.ending_s + 2),
    )
    return uvicorn.Server(config)
