"""One connection of a server: its stage, since when, and which limit it has passed.

uvicorn alone waits for ever for the rest of a request and for an answer to be read.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, Literal, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from palmkit.delivery.server.limits import Limits, origin

Stage = Literal["idle", "head", "body", "answer", "rest"]

# How much of what a client sent is read at once.
READ_BYTES = 1 << 12
# A connection this young does not give way while an older one is idle.
YOUNG_S = 1.0
# A client that reads more slowly, bytes/s, gives way to newcomers when all places are taken.
SLOW_READER = 16 * 1024


class All(Protocol):
    """All connections of a server, as one of them sees it; room: the buffer to read into."""

    limits: Limits
    room: bytearray

    def add(self, connection: Connection) -> None:
        """Record that a connection was opened."""
        ...

    def remove(self, connection: Connection) -> None:
        """Record that a connection was closed."""
        ...


class Connection(H11Protocol, asyncio.BufferedProtocol):
    """One connection, with its stage and since when.

    It reads little at a time: the slowest input to parse, a body in chunks of a byte each, then
    holds up the others for some milliseconds only.
    """

    def __init__(self, watched: All, **given: Any) -> None:
        """Set up a connection.

        watched: all connections of the same server. given: what uvicorn gives a protocol.
        """
        super().__init__(**given)
        self._watched = watched
        self.origin = ""
        self.stage: Stage = "idle"
        self.made = self.since = self._window_began = 0.0
        # Bytes received of a body, or sent of an answer, since the window began.
        self._moved = self._buffered = 0
        self._ends = math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place."""
        super().connection_made(transport)
        self.made = self.since = self._window_began = self.loop.time()
        self.origin = origin(self.client[0]) if self.client else ""
        self._watched.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place."""
        super().connection_lost(exc)
        self._watched.remove(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return where asyncio puts what it reads next."""
        return self._watched.room

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the bytes that were read into the buffer."""
        self.data_received(bytes(self._watched.room[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Handle data of the client."""
        self.look()
        if self.stage == "body":
            self._moved += len(data)
        super().data_received(data)
        self.look()

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request, and end the connection."""
        if self.cycle and not self.cycle.response_complete:
            # It followed a request that is being answered: one of the two answers would fail.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def shutdown(self) -> None:
        """Give requests under way a little time, as the server ends."""
        self._ends = self.loop.time() + self._watched.limits.ending_s
        super().shutdown()

    def pause_writing(self) -> None:
        """Note that the client reads more slowly than the answer is written."""
        self._look_at_buffer()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client has caught up."""
        self._look_at_buffer()
        super().resume_writing()

    def look(self) -> None:
        """Record the current stage."""
        self._look_at_buffer()
        if (stage := self._stage()) != self.stage:
            self.stage, self.since = stage, self.loop.time()
            self._begin_window(self.since)

    def _stage(self) -> Stage:
        theirs, ours = self.conn.their_state, self.conn.our_state
        if theirs is h11.IDLE:
            return "head" if self.conn.trailing_data[0] else "idle"
        if ours in (h11.IDLE, h11.SEND_RESPONSE, h11.SEND_BODY):
            return "body" if theirs is h11.SEND_BODY else "answer"
        # Answered; the rest of the body is ignored.
        return "rest"

    def _look_at_buffer(self) -> None:
        size = self.transport.get_write_buffer_size()
        if self._buffered == 0 < size:
            self._begin_window(self.loop.time())
        self._moved += max(0, self._buffered - size)
        self._buffered = size

    def _begin_window(self, now: float) -> None:
        self._window_began, self._moved = now, 0

    def overdue(self, limits: Limits, now: float) -> str | None:
        """Return which limit it has passed, if any."""
        self.look()
        lasted = now - self.since
        if now > self._ends:
            return "shutdown"
        if self.stage == "head" and lasted > limits.head_s:
            return "head"
        if self.stage == "body" and lasted > limits.body_s:
            return "body"
        if self._buffered == 0 and self.stage != "body":
            return "idle" if self.stage in ("idle", "rest") and lasted > limits.idle_s else None
        if now - self._window_began < limits.stall_s:
            return None
        if self._moved < limits.least_rate * (now - self._window_began):
            return "body" if self.stage == "body" else "reading"
        self._begin_window(now)
        return None

    def worth(self, now: float) -> tuple[int, float]:
        """Return the rank by which connections give way when places are short, the lowest first."""
        self.look()
        if self._buffered:
            lasted = now - self._window_began
            return (1 if lasted > YOUNG_S and self._moved < SLOW_READER * lasted else 3), self.since
        if self.stage == "answer":
            return 4, self.since
        return (2 if now - self.made < YOUNG_S else 0), self.since

    def end(self) -> None:
        """Close it now, whatever is still to be sent."""
        self.transport.abort()
