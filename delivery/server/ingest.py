"""Taking reports while others wait: reports that arrive during one commit share the next.

One thread writes. A report is answered when its transaction is durable, and many share one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import threading
import time
import zlib
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from palmkit.delivery.reports.schema import Report
from palmkit.delivery.server.counting import Vocabulary, probe, store
from palmkit.delivery.server.database import reason, writing

MOST_WAITING = 4000
MOST_TOGETHER = 500
# For how long the last transaction's outcome is trusted, and how long a test may take.
BELIEVED_S, PROBE_S = 5.0, 2.0

_log = logging.getLogger(__name__)


class Busy(Exception):
    """Raised when too many reports wait, or the database does not answer: send again later."""


class Measures(Protocol):
    """Receives measurements of the ingest."""

    def stored(self, reports: int, new: int, seconds: float) -> None:
        """Record a finished transaction."""
        ...


@dataclass
class _Waiting:
    # None: tests whether a report could be stored.
    report: Report | None
    done: asyncio.Future[None]

    def answer(self, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class Ingest:
    """Stores reports in a database, from a thread of its own."""

    def __init__(self, engine: Engine, vocabulary: Vocabulary, measures: Measures) -> None:
        """Prepare to store.

        measures: receives each transaction.
        """
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine, self._vocabulary, self._measures = engine, vocabulary, measures
        self._queue: queue.Queue[_Waiting | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="ingest", daemon=True)
        # When the last transaction ended, and its error.
        self._last: tuple[float, str | None] = (-math.inf, None)
        self._probe: tuple[float, asyncio.Future[None]] | None = None

    def start(self) -> None:
        """Start storing, for callers in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Store what waits, then end."""
        self._queue.put(None)
        self._thread.join()

    @property
    def waiting(self) -> int:
        """Return about how many reports wait."""
        return self._queue.qsize()

    async def problem(self) -> str | None:
        """Return why reports cannot be stored; None if they can.

        The outcome of the last ones tells; if there were none for a while, a test is written, once
        for all who ask. It takes PROBE_S seconds at most.
        """
        if not self._thread.is_alive():
            return "nobody stores reports"
        ended, problem = self._last
        if time.monotonic() - ended < BELIEVED_S and self._probe is None:
            return problem
        if self._probe is None:
            done = asyncio.get_running_loop().create_future()
            try:
                self._queue.put_nowait(_Waiting(None, done))
            except queue.Full:
                return "too many reports wait"
            done.add_done_callback(self._forget_probe)
            self._probe = (time.monotonic(), done)
        asked, done = self._probe
        await asyncio.wait([done], timeout=max(0.0, asked + PROBE_S - time.monotonic()))
        if not done.done():
            waited = time.monotonic() - asked
            return f"reports cannot be stored: the database is busy for {waited:.0f} s"
        return str(error) if (error := done.exception()) else None

    def _forget_probe(self, done: asyncio.Future[None]) -> None:
        self._probe = None
        if not done.cancelled():
            # Retrieved, so that asyncio does not complain when nobody waits any more.
            done.exception()

    async def take(self, report: Report) -> None:
        """Return when the report is durably stored, now or before.

        Raises Busy when it must be sent again later.
        """
        waiting = _Waiting(report, asyncio.get_running_loop().create_future())
        try:
            self._queue.put_nowait(waiting)
        except queue.Full:
            raise Busy("too many reports wait") from None
        await waiting.done

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, last = [first], False
            while len(batch) < MOST_TOGETHER:
                try:
                    each = self._queue.get_nowait()
                except queue.Empty:
                    break
                if each is None:
                    last = True
                    break
                batch.append(each)
            self._store(batch)
            if last:
                return

    def _store(self, batch: list[_Waiting]) -> None:
        began, new, error = time.monotonic(), 0, None
        reports = [each.report for each in batch if each.report]
        asked = len(reports) < len(batch)
        try:
            with writing(self._engine) as connection:
                new = store(connection, reports, self._vocabulary, time.time()) if reports else 0
                if asked:
                    probe(connection)
            if reports:
                self._measures.stored(len(reports), new, time.monotonic() - began)
        except SQLAlchemyError as failure:
            error = Busy(reason(failure))
            _log.error("%s", error)
        except Exception as failure:
            _log.exception("reports not stored")
            error = Busy(f"reports cannot be stored: {type(failure).__name__}")
        # Reports that were all seen before write nothing, and so prove nothing.
        if error or new or asked:
            self._last = (time.monotonic(), str(error) if error else None)
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(_answer, batch, error)
        except RuntimeError:
            # The loop was closed while they waited: nobody is there to be told.
            return


def _answer(batch: list[_Waiting], error: Exception | None) -> None:
    for each in batch:
        each.answer(error)


class TooLarge(Exception):
    """Raised when a body is larger than allowed."""


def unpack(body: bytes, most_bytes: int) -> bytes:
    """Decompress gzip to at most most_bytes.

    Raises ValueError if it is not gzip or does not end, TooLarge if it is larger.
    """
    inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        content = inflate.decompress(body, most_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"not gzip: {error}") from None
    if len(content) > most_bytes:
        raise TooLarge(f"expected at most {most_bytes} bytes unpacked")
    if not inflate.eof or inflate.unused_data:
        raise ValueError("not one whole gzip stream")
    return content
