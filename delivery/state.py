"""A device's memory of its models: one small SQLite file, changed as a whole or not at all.

A release is named by its digest, the sha256 of its manifest. A slot is a model on a channel.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from palmkit.delivery import durable
from palmkit.delivery.manifest import Manifest
from palmkit.delivery.manifest import parse as parse_manifest
from palmkit.delivery.slot import Slot
from palmkit.engine.errors import DeliveryError
from palmkit.engine.forks import gate, renewed_in_children
from palmkit.engine.replacing import move

BUSY_S = 10.0
# Connections of a forked child's parent: closing one, or letting it be collected, would end the
# parent's transaction.
_abandoned: list[sqlite3.Connection] = []
SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS slots (model TEXT, channel TEXT, content TEXT NOT NULL,
  PRIMARY KEY (model, channel)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS releases (digest TEXT PRIMARY KEY, manifest BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS quarantine (digest TEXT PRIMARY KEY, model TEXT NOT NULL,
  release TEXT NOT NULL, code TEXT NOT NULL, at REAL NOT NULL, retry_epoch INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS policies (model TEXT PRIMARY KEY, epoch INTEGER NOT NULL,
  content BLOB NOT NULL, next_check REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS running (token TEXT, model TEXT, channel TEXT, digest TEXT,
  on_trial INTEGER NOT NULL, PRIMARY KEY (token, model, channel, digest)) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Quarantined:
    """A release that failed here: it is not tried again before the policy's retry_epoch rises."""

    digest: str
    model: str
    release: str
    code: str
    at: float
    retry_epoch: int


class State:
    """The state file; threads and several processes may use it at the same time.

    Methods raise DeliveryError: disk_full if nothing can be written, state_rebuilt if the file was
    damaged; a new one then is in its place, and the call may be repeated.
    """

    def __init__(self, file: Path, rebuild: Callable[[State], None]) -> None:
        """Use a file.

        file: made on first use. rebuild: fills a new file from what else remains.
        """
        self._file = file
        self._rebuild = rebuild
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._depth = 0
        self._is_lost = False
        renewed_in_children(self, State.after_fork)

    def exists(self) -> bool:
        """Return whether anything was ever stored."""
        return self._file.exists()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with gate, self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def after_fork(self) -> None:
        """Leave the parent's connection alone in a forked child, neither used nor closed."""
        if self._connection is not None:
            _abandoned.append(self._connection)
        # SQLite's records of locks are copied, and no child, nor a child of it, can release
        # the locks. The fork has waited for other threads, but not for ever.
        is_free = self._depth == 0 and self._lock.acquire(blocking=False)
        self._is_lost = self._is_lost or not is_free
        self._connection, self._depth, self._lock = None, 0, threading.RLock()

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Make everything inside happen durably, or none of it; may be nested."""
        with gate, self._lock, self._errors():
            connection = self._open()
            if self._depth == 0:
                connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
                if self._depth == 1:
                    connection.execute("COMMIT")
            except BaseException:
                # A damaged file is already closed and renamed.
                if (
                    self._depth == 1
                    and self._connection is connection
                    and connection.in_transaction
                ):
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def fact(self, name: str, default: Any = None) -> Any:
        """Return a value stored by name."""
        row = self._one("SELECT value FROM facts WHERE name = ?", name)
        return default if row is None else row[0]

    def set_fact(self, name: str, value: float | str | bytes | None) -> None:
        """Store a value by name; None removes it."""
        if value is None:
            self._do("DELETE FROM facts WHERE name = ?", name)
        else:
            self._do("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, value)

    def seed(self) -> bytes:
        """Return this device's 128 random bits, made once; they never leave it."""
        if (seed := self.fact("seed")) is None:
            with self.transaction():
                if (seed := self.fact("seed")) is None:
                    self.set_fact("seed", seed := secrets.token_bytes(16))
        return bytes(seed)

    def slot(self, model: str, channel: str) -> Slot:
        """Return the slot, empty if it is new."""
        row = self._one("SELECT content FROM slots WHERE model = ? AND channel = ?", model, channel)
        with self._errors():
            return Slot(model, channel) if row is None else read_slot(row[0])

    def slots(self, model: str | None = None) -> list[Slot]:
        """Return all slots, or those of one model."""
        rows = self._all("SELECT content FROM slots WHERE ? IN (model, '') ORDER BY 1", model or "")
        with self._errors():
            return [read_slot(row[0]) for row in rows]

    def save(self, slot: Slot) -> None:
        """Store a slot."""
        content = json.dumps(asdict(slot))
        self._do("INSERT OR REPLACE INTO slots VALUES (?, ?, ?)", slot.model, slot.channel, content)

    def manifest(self, digest: str) -> Manifest | None:
        """Return the manifest of a release that is known here."""
        row = self._one("SELECT manifest FROM releases WHERE digest = ?", digest)
        if row is None or not isinstance(row[0], bytes) or sha256(row[0]).hexdigest() != digest:
            return None
        return parse_manifest(row[0])

    def remember(self, digest: str, manifest: bytes) -> None:
        """Store a manifest that was verified."""
        self._do("INSERT OR REPLACE INTO releases VALUES (?, ?)", digest, manifest)

    def releases(self) -> list[str]:
        """Return the digests of all known releases."""
        return [row[0] for row in self._all("SELECT digest FROM releases")]

    def forget(self, digest: str) -> None:
        """Drop a manifest."""
        self._do("DELETE FROM releases WHERE digest = ?", digest)

    def put_in_quarantine(self, entry: Quarantined) -> None:
        """Record that a release failed."""
        values = [getattr(entry, field.name) for field in fields(entry)]
        self._do("INSERT OR REPLACE INTO quarantine VALUES (?, ?, ?, ?, ?, ?)", *values)

    def release_from_quarantine(self, digest: str) -> None:
        """Allow a release to be tried again."""
        self._do("DELETE FROM quarantine WHERE digest = ?", digest)

    def quarantine(self, model: str | None = None) -> list[Quarantined]:
        """Return all failed releases, the latest last."""
        rows = self._all("SELECT * FROM quarantine WHERE ? IN (model, '') ORDER BY at", model or "")
        return [Quarantined(*row) for row in rows]

    def policy(self, model: str) -> tuple[int, bytes, float] | None:
        """Return epoch, document and next check of the last policy that was verified."""
        sql = "SELECT epoch, content, next_check FROM policies WHERE model = ?"
        found: tuple[int, bytes, float] | None = self._one(sql, model)
        return found

    def save_policy(self, model: str, epoch: int, content: bytes, next_check: float) -> None:
        """Store the policy of a model."""
        self._do(
            "INSERT OR REPLACE INTO policies VALUES (?, ?, ?, ?)", model, epoch, content, next_check
        )

    def forget_epochs(self) -> None:
        """Accept the next policy of each model, whatever its epoch."""
        self._do("UPDATE policies SET epoch = 0")

    def enter(self, token: str, model: str, channel: str, digest: str, on_trial: bool) -> None:
        """Record that a process, named by its token, runs a release from now on."""
        self._do(
            "INSERT OR REPLACE INTO running VALUES (?, ?, ?, ?, ?)",
            *(token, model, channel, digest, int(on_trial)),
        )

    def leave(self, token: str) -> None:
        """Record that a process ended, or is known to have ended."""
        self._do("DELETE FROM running WHERE token = ?", token)

    def running(self) -> list[tuple[str, str, str, str, bool]]:
        """Return token, model, channel, digest and whether on trial, of each recorded process."""
        return [(*row[:4], bool(row[4])) for row in self._all("SELECT * FROM running")]

    def trial_is_over(self, model: str, channel: str, digest: str) -> None:
        """Stop counting deaths of processes that run the release."""
        self._do(
            "UPDATE running SET on_trial = 0 WHERE model = ? AND channel = ? AND digest = ?",
            *(model, channel, digest),
        )

    def _one(self, sql: str, *values: object) -> Any:
        with gate, self._lock, self._errors():
            return self._open().execute(sql, values).fetchone()

    def _all(self, sql: str, *values: object) -> list[Any]:
        with gate, self._lock, self._errors():
            return self._open().execute(sql, values).fetchall()

    def _do(self, sql: str, *values: object) -> None:
        with self.transaction():
            self._open().execute(sql, values)

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise DeliveryError("disk_full", f"{self._file}: cannot be used: {error}") from None
        except sqlite3.DatabaseError as error:
            self._set_aside()
            message = f"{self._file}: was damaged, begun anew: {error}"
            raise DeliveryError("state_rebuilt", message) from None

    def number(self, name: str) -> float:
        """Return a fact that is a number; 0 if it is missing or illegible."""
        value = self.fact(name)
        return float(value) if isinstance(value, int | float) else 0.0

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        if self._is_lost:
            raise sqlite3.OperationalError("this process was forked while a thread was at it")
        self._depth = 0
        try:
            self._connect()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            self._set_aside()
            self._connect()
        assert self._connection is not None
        return self._connection

    def _connect(self) -> None:
        try:
            durable.make_folder(self._file.parent, self._file.parent)
            durable.mend(self._file.parent)
            durable.prepare_database(self._file)
        except OSError as error:
            raise DeliveryError("disk_full", f"{self._file.parent}: {error.strerror}") from None
        # The lock ensures that no two threads use it at a time.
        connection = sqlite3.connect(
            self._file, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        self._connection = connection
        try:
            # Not WAL: reading it needs space on the disk, and the running release must be readable
            # without.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA synchronous = FULL")
            found = connection.execute("PRAGMA quick_check").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                with self.transaction():
                    self._fill(connection)
        except BaseException:
            self._connection = None
            connection.close()
            raise

    def _fill(self, connection: sqlite3.Connection) -> None:
        """Make the tables, in the transaction, unless another process was faster."""
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            for statement in SCHEMA.split(";")[:-1]:
                connection.execute(statement)
            self._rebuild(self)
            connection.execute("PRAGMA user_version = 1")

    def _set_aside(self) -> None:
        """Rename the damaged file, for whoever wants to inspect it."""
        self.close()
        for suffix in ("-journal", ""):
            part = self._file.with_name(self._file.name + suffix)
            if os.path.lexists(part):
                move(part, self._file.with_name(f"{self._file.name}{suffix}.damaged"))


def read_slot(content: str) -> Slot:
    """Parse a slot.

    Raises sqlite3.DatabaseError for content nobody here wrote, as SQLite does not notice corrupt
    text.
    """
    try:
        values = json.loads(content)
        known = {field.name for field in fields(Slot)}
        slot = Slot(**{name: value for name, value in values.items() if name in known})
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise sqlite3.DatabaseError(f"slots: {error}") from None
    texts = slot.model, slot.channel, slot.stage, slot.arm
    digests = slot.active, slot.previous, slot.candidate, slot.pinned
    numbers = slot.starts, slot.strikes, slot.failures, slot.since, slot.held_until
    if not (
        all(type(each) is str for each in texts)
        and all(each is None or type(each) is str for each in digests)
        and all(type(each) in (int, float) for each in numbers)
    ):
        raise sqlite3.DatabaseError(f"slots: expected one, got {content[:80]!r}")
    return slot
