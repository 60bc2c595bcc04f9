"""The reports that wait to be sent: a small SQLite file that all processes of a device share.

It never grows beyond a megabyte nor keeps anything beyond seven days; what had to be dropped is
counted, and the counts are reported. Every method opens the file anew, so that forks, a removed
file and killed processes do no harm.
"""

from __future__ import annotations

import gzip
import random
import secrets
import sqlite3
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeAlias

from palmkit.delivery import durable
from palmkit.delivery.reports.schema import (
    BUCKETS,
    MOST_COUNT,
    MOST_HISTOGRAMS,
    MOST_ROWS,
    Histogram,
    Report,
    Row,
)
from palmkit.engine.forks import gate, renewed_in_children

CountKey: TypeAlias = tuple[str, str, str, str, str, str]
HistogramKey: TypeAlias = tuple[str, str, str, str]

DAY_S = 86400.0
KEPT_DAYS = 7
# A server forgets after 48 h which reports it has had.
UNSURE_S = 47 * 3600.0
LONGEST_WAIT_S = DAY_S
# For how long one process may be sending before another may.
TURN_S = 120.0
PAGE_BYTES = 4096
# The journal beside the file holds at most the pages that the file had: both together stay below
# a megabyte.
MOST_PAGES = 120
# The most that one row can take: a report of 64 KiB that gzip only halves.
INSERT_PAGES = 10

_TABLES = f"""
PRAGMA page_size = {PAGE_BYTES};
PRAGMA auto_vacuum = NONE;
CREATE TABLE IF NOT EXISTS counts (
    day TEXT, model TEXT, release TEXT, previous TEXT, arm TEXT, code TEXT, error TEXT, n INTEGER,
    PRIMARY KEY (day, model, release, previous, arm, code, error)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS histograms (
    day TEXT, model TEXT, release TEXT, arm TEXT, name TEXT, bucket INTEGER, n INTEGER,
    PRIMARY KEY (day, model, release, arm, name, bucket)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outbox (
    id TEXT PRIMARY KEY, made REAL, tried REAL, n INTEGER, body BLOB);
CREATE TABLE IF NOT EXISTS dropped (reason TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""
_ADD_COUNT = """INSERT INTO counts VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET n = n + excluded.n"""
_ADD_BUCKET = """INSERT INTO histograms VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET n = n + excluded.n"""
_ADD_DROPPED = "INSERT INTO dropped VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n"


@dataclass(frozen=True)
class Sealed:
    """A report that will not change any more.

    body: the gzip bytes that are sent.
    """

    report_id: str
    body: bytes


class Spool:
    """The file; methods raise sqlite3.Error or OSError if it can be neither used nor remade."""

    def __init__(self, path: Path, wait_s: float = 10.0) -> None:
        """Use a file.

        wait_s: for how long a method waits while another process writes.
        """
        self.path = path
        self.wait_s = wait_s
        self._lock = threading.Lock()
        self.is_lost = False
        renewed_in_children(self, Spool._renew)

    def _renew(self) -> None:
        """Give the file up in a forked child if a thread of the parent was using it.

        The child has copies of SQLite's records of what is locked, and cannot release those locks.
        The fork has waited for other threads, but not for ever.
        """
        self.is_lost = self.is_lost or self._lock.locked()
        self._lock = threading.Lock()

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection, None, None]:
        """Open a transaction on the file; a file that is no database any more is discarded."""
        with gate, self._lock:
            if self.is_lost:
                raise sqlite3.OperationalError("this process was forked while a thread was at it")
            with self._transaction() as connection:
                yield connection

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection, None, None]:
        try:
            connection = self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self._begin_anew()
            connection = self._connect()
        with closing(connection):
            try:
                with connection:
                    yield connection
            except sqlite3.DatabaseError as error:
                if type(error) is sqlite3.DatabaseError:
                    connection.close()
                    self._begin_anew()
                raise

    def _begin_anew(self) -> None:
        """Discard the damaged file, and say so in the next report."""
        self.erase()
        with closing(self._connect()) as connection, connection:
            connection.execute(_ADD_DROPPED, ("damaged", 1))

    def _connect(self) -> sqlite3.Connection:
        if not self.path.parent.is_dir():
            durable.make_folder(self.path.parent, self.path.parent)
        durable.prepare_database(self.path)
        connection = sqlite3.connect(self.path, timeout=self.wait_s, isolation_level=None)
        try:
            # Losing a page costs less than the time to sync it.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_mode = TRUNCATE")
            if not connection.execute("PRAGMA user_version").fetchone()[0]:
                connection.executescript(_TABLES + "PRAGMA user_version = 1;")
            connection.execute(f"PRAGMA max_page_count = {MOST_PAGES}")
            connection.execute("BEGIN IMMEDIATE")
        except BaseException:
            connection.close()
            raise
        return connection

    def erase(self) -> None:
        """Discard everything that waits."""
        for end in ("", "-journal"):
            Path(f"{self.path}{end}").unlink(missing_ok=True)

    def add(
        self,
        counts: Mapping[CountKey, int],
        histograms: Mapping[HistogramKey, Sequence[int]],
        dropped: Mapping[str, int],
    ) -> None:
        """Add to today's counts."""
        day = today()
        with self._open() as connection:
            _drop_old(connection, day)
            rows: list[tuple[str, tuple[object, ...]]] = [
                (_ADD_COUNT, (day, *key, n)) for key, n in counts.items()
            ]
            rows += [
                (_ADD_BUCKET, (day, *key, i, n))
                for key, buckets in histograms.items()
                for i, n in enumerate(buckets)
                if n
            ]
            rows += [(_ADD_DROPPED, item) for item in dropped.items()]
            for statement, values in rows:
                _insert(connection, day, statement, values)

    def seal(self, facts: Report, share: Mapping[str, float]) -> None:
        """Turn all counts so far into reports that wait to be sent.

        facts: a report whose sdk, os, arch, memory_class and accelerator are this device's. share:
        for each model, the share of the devices, 0..1, that may report.
        """
        with self._open() as connection:
            day = today()
            _drop_old(connection, day)
            drawn = random.random()
            for model, part in share.items():
                if drawn >= part:
                    _forget(connection, "sampling", "model = ?", model)
            last = _get(connection, "last_day", "")
            dropped = dict(connection.execute("SELECT reason, n FROM dropped"))
            made = time.time()
            for report in _reports(connection, facts):
                since = "0"
                if report.day > last:
                    since, last = _since(last, report.day), report.day
                whole = replace(
                    report,
                    report_id=secrets.token_hex(16),
                    since_last=since,
                    dropped={reason: min(n, MOST_COUNT) for reason, n in dropped.items()},
                )
                dropped = {}
                n = sum(row.n for row in whole.rows) + sum(sum(h.counts) for h in whole.histograms)
                n += sum(whole.dropped.values())
                body = gzip.compress(whole.dump(), mtime=0)
                # Rows are deleted first, so that their pages can be reused.
                _delete_reported(connection, whole)
                values = (whole.report_id, made, None, n, body)
                _insert(connection, day, "INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", values)
            if not dropped:
                connection.execute("DELETE FROM dropped")
            _set(connection, "last_day", last)

    def waiting(self) -> list[Sealed]:
        """Return the reports that wait to be sent, oldest first."""
        with self._open() as connection:
            rows = connection.execute("SELECT id, body FROM outbox ORDER BY made, rowid")
            return [Sealed(*row) for row in rows]

    def take_turn(self, anyhow: bool = False) -> bool:
        """Return whether it is time to send and no other process is sending.

        anyhow: whether to send before it is due, though never before the server allows.
        """
        now = time.time()
        with self._open() as connection:
            held = (_get(connection, "turn", 0.0), TURN_S)
            forbidden = (_get(connection, "not_before", 0.0), LONGEST_WAIT_S)
            early = (_get(connection, "next_send", 0.0), 2 * LONGEST_WAIT_S)
            # A time further ahead than is ever set came from a wrong clock.
            if any(
                now < until <= now + most
                for until, most in (held, forbidden, *(() if anyhow else (early,)))
            ):
                return False
            _set(connection, "turn", now + TURN_S)
            return True

    def end_turn(self, next_send_s: float, failures: int, not_before_s: float = 0.0) -> None:
        """Set when to send next, in seconds from now, and the number of failures in a row."""
        now = time.time()
        with self._open() as connection:
            _set(connection, "turn", 0.0)
            _set(connection, "next_send", now + next_send_s)
            _set(connection, "not_before", now + not_before_s)
            _set(connection, "failures", failures)

    def failures(self) -> int:
        """Return how many times in a row sending failed."""
        with self._open() as connection:
            return int(_get(connection, "failures", 0))

    def first_send(self, within_s: float) -> None:
        """On a new device, wait for a random time before the first report."""
        with self._open() as connection:
            if not _get(connection, "next_send", 0.0):
                _set(connection, "next_send", time.time() + random.uniform(0, within_s))

    def trying(self, report_id: str) -> None:
        """Note that a report is being sent now."""
        with self._open() as connection:
            connection.execute(
                "UPDATE outbox SET tried = ? WHERE id = ? AND tried IS NULL",
                (time.time(), report_id),
            )
            _set(connection, "turn", time.time() + TURN_S)

    def not_taken(self, report_id: str) -> None:
        """Note that the server surely did not take the report, so that it may be sent again."""
        with self._open() as connection:
            connection.execute("UPDATE outbox SET tried = NULL WHERE id = ?", (report_id,))

    def remove(self, report_id: str, dropped: str | None = None) -> None:
        """Remove a report.

        dropped: the reason if it was not delivered.
        """
        with self._open() as connection:
            _drop_report(connection, report_id, dropped)

    def shares(self) -> dict[str, float]:
        """Return for each model the share of the devices that may report."""
        with self._open() as connection:
            rows = connection.execute("SELECT name, value FROM state WHERE name LIKE 'share %'")
            return {name.removeprefix("share "): float(value) for name, value in rows}

    def set_share(self, model: str, share: float) -> None:
        """Store the share of the devices, 0..1, that may report on a model."""
        with self._open() as connection:
            _set(connection, f"share {model}", share)


def today() -> str:
    """Return the day in UTC."""
    return datetime.now(timezone.utc).date().isoformat()


def _get(connection: sqlite3.Connection, name: str, default: Any) -> Any:
    row = connection.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
    return default if row is None else row[0]


def _set(connection: sqlite3.Connection, name: str, value: object) -> None:
    connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))


def _since(last: str, day: str) -> str:
    if not last:
        return "first"
    days = (date.fromisoformat(day) - date.fromisoformat(last)).days
    return "1" if days == 1 else "2-6" if days < 7 else "7-27" if days < 28 else "28+"


def _insert(
    connection: sqlite3.Connection, day: str, statement: str, values: tuple[object, ...]
) -> None:
    """Insert a row; in a full file the oldest is dropped, or else the row itself."""
    # SQLite undoes the whole transaction when a file is full, so room is made before.
    while _pages_left(connection) < INSERT_PAGES:
        if not _drop_oldest(connection, day):
            n = values[3] if "outbox" in statement else values[-1]
            connection.execute(_ADD_DROPPED, ("space", n))
            return
    connection.execute(statement, values)


def _pages_left(connection: sqlite3.Connection) -> int:
    used: int = connection.execute("PRAGMA page_count").fetchone()[0]
    free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    return MOST_PAGES - used + free


def _drop_oldest(connection: sqlite3.Connection, day: str) -> bool:
    row = connection.execute("SELECT id FROM outbox ORDER BY made, rowid LIMIT 1").fetchone()
    if row is not None:
        _drop_report(connection, row[0], "space")
        return True
    row = connection.execute(
        "SELECT min(day) FROM (SELECT day FROM counts UNION SELECT day FROM histograms)"
    ).fetchone()
    if row[0] is None or row[0] >= day:
        return False
    _forget(connection, "space", "day = ?", row[0])
    return True


def _drop_old(connection: sqlite3.Connection, day: str) -> None:
    now = time.time()
    oldest = (date.fromisoformat(day) - timedelta(days=KEPT_DAYS)).isoformat()
    _forget(connection, "age", "day < ?", oldest)
    old = ("age", "made < ?", now - KEPT_DAYS * DAY_S)
    unsure = ("unsure", "tried < ?", now - UNSURE_S)
    for reason, where, limit in (old, unsure):
        for row in connection.execute(f"SELECT id FROM outbox WHERE {where}", (limit,)).fetchall():
            _drop_report(connection, row[0], reason)


def _drop_report(connection: sqlite3.Connection, report_id: str, reason: str | None) -> None:
    row = connection.execute("SELECT n FROM outbox WHERE id = ?", (report_id,)).fetchone()
    connection.execute("DELETE FROM outbox WHERE id = ?", (report_id,))
    if row is not None and reason is not None:
        connection.execute(_ADD_DROPPED, (reason, row[0]))


def _forget(connection: sqlite3.Connection, reason: str, where: str, value: str) -> None:
    for table in ("counts", "histograms"):
        n = connection.execute(f"SELECT sum(n) FROM {table} WHERE {where}", (value,)).fetchone()[0]
        if n:
            connection.execute(f"DELETE FROM {table} WHERE {where}", (value,))
            connection.execute(_ADD_DROPPED, (reason, n))


def _reports(connection: sqlite3.Connection, facts: Report) -> Iterator[Report]:
    """Yield the counts, day by day and split so that each report is small enough."""
    rows: dict[str, list[Row]] = {}
    for day, model, release, previous, arm, code, error, n in connection.execute(
        "SELECT * FROM counts ORDER BY day"
    ):
        row = Row(model, release, previous, arm, code, min(n, MOST_COUNT), error)
        rows.setdefault(day, []).append(row)
    buckets: dict[tuple[str, ...], list[int]] = {}
    for *key, i, n in connection.execute("SELECT * FROM histograms ORDER BY day"):
        buckets.setdefault(tuple(key), [0] * BUCKETS)[i] = min(n, MOST_COUNT)
    histograms: dict[str, list[Histogram]] = {}
    for (day, model, release, arm, name), counts in buckets.items():
        histogram = Histogram(model, release, arm, name, tuple(counts))
        histograms.setdefault(day, []).append(histogram)
    for day in sorted({*rows, *histograms}):
        left, spread = rows.get(day, []), histograms.get(day, [])
        while left or spread:
            yield replace(
                facts,
                day=day,
                rows=tuple(left[:MOST_ROWS]),
                histograms=tuple(spread[:MOST_HISTOGRAMS]),
            )
            left, spread = left[MOST_ROWS:], spread[MOST_HISTOGRAMS:]


def _delete_reported(connection: sqlite3.Connection, report: Report) -> None:
    connection.executemany(
        "DELETE FROM counts WHERE day = ? AND model = ? AND release = ? AND previous = ?"
        " AND arm = ? AND code = ? AND error = ?",
        [(report.day, r.model, r.release, r.previous, r.arm, r.code, r.error) for r in report.rows],
    )
    connection.executemany(
        "DELETE FROM histograms WHERE day = ? AND model = ? AND release = ? AND arm = ?"
        " AND name = ?",
        [(report.day, h.model, h.release, h.arm, h.name) for h in report.histograms],
    )
