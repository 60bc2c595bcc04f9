"""The server's database: SQLite in a file, or PostgreSQL by its URL."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import filelock
from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    NullPool,
    bindparam,
    create_engine,
    event,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.sql.schema import Table

from palmkit.engine.errors import RepositoryError

BUSY_S = 30.0


def connect(url: str) -> Engine:
    """Return the database of a URL: sqlite:///FILE or postgresql://USER@HOST/NAME.

    Raises RepositoryError for an invalid URL, or one of another kind.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The URL may hold a password, so it is not repeated.
        message = "database: expected an SQLAlchemy URL like postgresql://user@host/name"
        raise RepositoryError(message) from None
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "postgresql+psycopg"):
        message = f"database: expected sqlite or postgresql, got {parsed.drivername!r}"
        raise RepositoryError(message)
    if parsed.drivername == "postgresql+psycopg":
        try:
            return create_engine(parsed, pool_pre_ping=True, pool_size=5, pool_recycle=1800)
        except ImportError:
            message = 'database: needs psycopg: pip install "palmkit[postgres]"'
            raise RepositoryError(message) from None
    if parsed.database in (None, "", ":memory:"):
        # Each connection would have a database of its own.
        raise RepositoryError("database: expected a file, as in sqlite:////srv/models/server.db")
    Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(parsed, connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    # The driver does not begin transactions before reads.
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = FULL")


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that first reads would fail, not wait, if another wrote before its first write.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Generator[Connection]:
    """Open a transaction that writes: committed at the end, undone by an exception."""
    with engine.execution_options(writes=True).begin() as connection:
        yield connection


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT with the ON CONFLICT of this database."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


def add(connection: Connection, table: Table, counts: Mapping[tuple[Any, ...], int]) -> None:
    """Add counts to the rows of a table.

    counts: by the values of the columns up to n, in their order; a day as ISO 8601.
    """
    if not counts:
        return
    # Always in one order, so that replicas adding to the same rows cannot deadlock.
    rows = [(*key, counts[key]) for key in sorted(counts)]
    statement = _adding(table, connection.dialect.name)
    if isinstance(statement, str):
        connection.exec_driver_sql(statement, rows)
    else:
        columns = zip(table.columns.keys(), zip(*rows, strict=True), strict=True)
        connection.execute(statement, {name: list(values) for name, values in columns})


@lru_cache
def _adding(table: Table, dialect: str) -> str | Executable:
    """Return the statement that adds: one row of parameters at a time, or arrays of all at once.

    PostgreSQL would answer row by row, and for SQLite the time goes into SQLAlchemy's work for each
    row.
    """
    keys = [column.name for column in table.primary_key.columns]
    if dialect == "sqlite":
        adding = sqlite.insert(table)
        adding = adding.on_conflict_do_update(keys, set_={"n": table.c.n + adding.excluded.n})
        return str(adding.compile(dialect=sqlite.dialect()))
    values = [
        func.unnest(bindparam(column.name, type_=postgresql.ARRAY(column.type)))
        for column in table.columns
    ]
    inserting = postgresql.insert(table).from_select(table.columns.keys(), select(*values))
    return inserting.on_conflict_do_update(
        index_elements=keys, set_={"n": table.c.n + inserting.excluded.n}
    )


def migrate(engine: Engine) -> None:
    """Bring the tables to this version's schema; safe if several replicas start at once.

    Raises RepositoryError if it is no database, does not answer or is of a newer version.
    """
    from alembic.util import CommandError

    where = engine.url.database if engine.dialect.name == "sqlite" else "no connection"
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        if where == "no connection":
            where = engine.url.database
        _migrate(engine)
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise RepositoryError(f"database: {where}: {cause}") from error
    except CommandError as error:
        message = f"database: {where}: not of this version or an older one: {error}"
        raise RepositoryError(message) from error


def _migrate(engine: Engine) -> None:
    from alembic import command
    from alembic.config import Config

    with (
        lock(engine, "migrate"),
        as_file(files("palmkit.delivery.server") / "migrations") as folder,
    ):
        if engine.dialect.name == "sqlite":
            _write_ahead(engine)
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        with writing(engine) as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def _write_ahead(engine: Engine) -> None:
    # The journal mode is stored in the file. Of two that change it at once one fails without
    # waiting, so only the holder of the migration's lock does.
    with engine.connect() as connection:
        connection.connection.cursor().execute("PRAGMA journal_mode = WAL")


def reason(error: SQLAlchemyError) -> str:
    """Return a database error without hosts, users or values, as anybody may read it."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        # Fixed texts of SQLite, such as "database or disk is full".
        return f"reports cannot be stored: {cause}"
    state = getattr(cause, "sqlstate", None)
    if state is None or state[:2] in ("08", "57"):
        return "the database does not answer"
    told = {"53100": "its disk is full", "25006": "it is read-only"}.get(state, f"SQLSTATE {state}")
    return f"reports cannot be stored in the database: {told}"


@contextmanager
def lock(engine: Engine, name: str, wait: bool = True) -> Generator[bool]:
    """Hold a lock of this name that all replicas share; yield whether it is held.

    It ends with the process that holds it: in PostgreSQL an advisory lock of a connection, for
    SQLite a locked file beside the database.
    """
    if engine.dialect.name == "sqlite":
        file = filelock.FileLock(f"{engine.url.database}.{name}.lock")
        try:
            file.acquire(timeout=-1 if wait else 0)
        except filelock.Timeout:
            yield False
            return
        try:
            yield True
        finally:
            file.release()
        return
    number = int.from_bytes(hashlib.sha256(f"palmkit {name}".encode()).digest()[:8], "big") >> 1
    # Not from the pool: waiters could take all connections, and its holder get none.
    outside = create_engine(engine.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with outside.connect() as connection:
        call = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
        held = connection.execute(text(f"SELECT {call}({number})")).scalar()
        if held is False:
            yield False
            return
        try:
            yield True
        finally:
            connection.execute(text(f"SELECT pg_advisory_unlock({number})"))
