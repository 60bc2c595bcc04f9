"""/healthz: whether reports can be stored, not only whether the process lives."""

import os
import resource
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from sqlalchemy import Connection, Engine, event, text

from palmkit.delivery.server import ingest
from palmkit.delivery.server.app import Server, Settings
from tests.delivery.releases import make_repository
from tests.delivery.server.fleet_reports import GZIP, make_report, packed
from tests.delivery.server.running import TOKEN, Running
from tests.delivery.server.test_serve import serving


@pytest.fixture
def client(database: Engine) -> Iterator[Running]:
    with Running(Server(database, Settings(TOKEN, watch_s=1e6))) as client:
        yield client


def problems(client: Running) -> list[str]:
    answer = client.get("/healthz")
    found: list[str] = answer.json()["problems"]
    assert answer.status_code == (503 if found else 200)
    assert answer.headers["cache-control"] == "no-store"
    return found


def test_a_database_that_may_only_be_read(
    client: Running, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "BELIEVED_S", 0.0)
    assert problems(client) == []
    sqlite = database.dialect.name == "sqlite"
    only_read = "PRAGMA query_only = {}" if sqlite else "SET default_transaction_read_only = {}"
    state = "on"

    def set_up(connection: Any, *_: object) -> None:
        connection.cursor().execute(only_read.format(state))
        if not sqlite:
            connection.commit()

    event.listen(database, "checkout", set_up)
    [problem] = problems(client)
    assert problem == (
        "reports cannot be stored: attempt to write a readonly database"
        if sqlite
        else "reports cannot be stored in the database: it is read-only"
    )
    body = packed(make_report(("1.0.0", "stable", {"load_ok": 1})))
    assert client.post("/v1/reports", data=body, headers=GZIP).status_code == 503
    state = "off"
    assert problems(client) == []


def test_a_database_that_somebody_locks(
    client: Running, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database.dialect.name != "sqlite":
        pytest.skip("PostgreSQL locks rows, not all of it")
    monkeypatch.setattr(ingest, "PROBE_S", 0.3)
    other = sqlite3.connect(str(database.url.database), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        [problem] = problems(client)
        assert problem.startswith("reports cannot be stored: the database is busy for ")
    other.execute("ROLLBACK")
    other.close()
    until = time.monotonic() + 20
    while problems(client):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    if not hasattr(resource, "prlimit"):
        pytest.skip("needs Linux")
    with serving(tmp_path / "server", "--reports-only") as (url, process):
        assert requests.get(f"{url}/healthz", timeout=10).json()["problems"] == []
        before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, before[1]))
        body = packed(make_report(("1.0.0", "stable", {"load_ok": 1})))
        answer = requests.post(f"{url}/v1/reports", data=body, headers=GZIP, timeout=10)
        assert answer.status_code == 503
        health = requests.get(f"{url}/healthz", timeout=10)
        assert health.status_code == 503
        [problem] = health.json()["problems"]
        assert problem.startswith("reports cannot be stored: ")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
        answer = requests.post(f"{url}/v1/reports", data=body, headers=GZIP, timeout=10)
        assert answer.status_code == 202
        assert requests.get(f"{url}/healthz", timeout=10).json()["problems"] == []


def test_a_database_that_was_taken_away(client: Running, database: Engine) -> None:
    if database.dialect.name != "sqlite":
        pytest.skip("its files are another's")
    assert problems(client) == []
    os.unlink(str(database.url.database))
    assert problems(client) == ["server.db is gone: what is stored now is lost"]


def test_asking_costs_little(client: Running, database: Engine) -> None:
    written: list[int] = []

    def note(_: Connection) -> None:
        written.append(1)

    event.listen(database, "commit", note)
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(client.raw, "GET", "/healthz") for _ in range(100)]
        assert {each.result()[0] for each in asked} == {200}
    assert len(written) <= 5
    with database.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM reports")).scalar() == 0


def test_what_was_sent_before_proves_nothing(
    client: Running, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = packed(make_report(("1.0.0", "stable", {"load_ok": 1})))
    assert client.post("/v1/reports", data=body, headers=GZIP).status_code == 202

    def fail(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(ingest, "probe", fail)
    monkeypatch.setattr(ingest, "BELIEVED_S", 0.2)
    time.sleep(0.3)
    assert client.post("/v1/reports", data=body, headers=GZIP).status_code == 202
    assert problems(client) == ["reports cannot be stored: OSError"]


def test_a_timestamp_that_cannot_be_read(database: Engine, tmp_path: Path) -> None:
    public = make_repository(tmp_path).public
    with Running(Server(database, Settings(TOKEN), public=public)) as client:
        assert problems(client) == []
        for content in (b"junk", b"[]", b'{"signed": {"expires": "soon"}}'):
            (public / "metadata" / "timestamp.json").write_bytes(content)
            assert problems(client) == ["timestamp.json cannot be read"]
