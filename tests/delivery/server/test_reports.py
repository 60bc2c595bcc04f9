import gzip
import json
import socket
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

from palmkit.delivery.server import app, ingest
from palmkit.delivery.server.app import Server, Settings
from palmkit.delivery.server.database import connect, migrate
from tests.delivery.server.conftest import Cluster
from tests.delivery.server.fleet_reports import GZIP, make_report, packed
from tests.delivery.server.running import TOKEN, Running
from tests.delivery.server.test_counting import count

LOADED = {"load_ok": 1}


@pytest.fixture
def client(database: Engine) -> Iterator[Running]:
    with Running(Server(database, Settings(TOKEN))) as client:
        yield client


def test_a_report_is_stored_when_it_is_answered(client: Running, database: Engine) -> None:
    report = make_report(("1.0.0", "stable", LOADED))
    assert client.post("/v1/reports", data=packed(report), headers=GZIP).status_code == 202
    assert count(database)["1.0.0", "stable", "load_ok"] == 1
    # Whoever did not hear the answer sends it again, packed or not.
    assert client.post("/v1/reports", data=report.dump()).status_code == 202
    assert count(database)["1.0.0", "stable", "load_ok"] == 1
    metrics = client.get("/metrics").text
    assert 'palmkit_reports_total{outcome="new"} 1.0' in metrics
    assert 'palmkit_reports_total{outcome="duplicate"} 1.0' in metrics


def test_many_at_once_share_transactions(client: Running, database: Engine) -> None:
    commits: list[int] = []

    def committed(_: Connection) -> None:
        commits.append(1)

    event.listen(database, "commit", committed)
    reports = [make_report(("1.0.0", "stable", LOADED)) for _ in range(200)]
    # Each twice, the second time while the first may still wait.
    bodies = [packed(report) for report in reports for _ in range(2)]

    def send(body: bytes) -> int:
        return client.raw("POST", "/v1/reports", body, GZIP)[0]

    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(send, bodies)) == {202}
    assert count(database)["1.0.0", "stable", "load_ok"] == 200
    assert len(commits) < 300


def damaged() -> dict[str, tuple[bytes, dict[str, str], int]]:
    """Bodies that nobody honest sends, with headers and the answer."""
    good = json.loads(make_report(("1.0.0", "stable", LOADED)).dump())

    def but(**changes: Any) -> bytes:
        return json.dumps(good | changes).encode()

    row = good["rows"][0]
    return {
        "empty": (b"", {}, 400),
        "not JSON": (b"\xff\xfe\x00", {}, 400),
        "half": (but()[:50], {}, 400),
        "a list": (b"[]", {}, 400),
        "deep": (b"[" * 30_000, {}, 400),
        "deep in a field": (b'{"schema":1,"rows":' + b"[" * 30_000, {}, 400),
        "a huge number": (but().replace(b'"n": 1', b'"n": ' + b"9" * 5000), {}, 400),
        "infinity": (but().replace(b'"n": 1', b'"n": 1e999'), {}, 400),
        "not a number": (but().replace(b'"n": 1', b'"n": NaN'), {}, 400),
        "negative": (but(rows=[row | {"n": -5}]), {}, 400),
        "a newer schema": (but(schema=2), {}, 400),
        "no id": (but(report_id=None), {}, 400),
        "an odd id": (but(report_id="'; DROP TABLE reports; --"), {}, 400),
        "a day that is none": (but(day="2026-02-31"), {}, 400),
        "a code that is none": (but(rows=[row | {"code": "device"}]), {}, 400),
        "an arm that is none": (but(rows=[row | {"arm": "other"}]), {}, 400),
        "a zero byte": (but(sdk="1\x00"), {}, 400),
        "a long name": (but(sdk="1" * 1000), {}, 400),
        "not ASCII": (but(os="línux"), {}, 400),
        "half a surrogate": (but().replace(b'"linux"', b'"\\ud800"'), {}, 400),
        "a short histogram": (but(histograms=[good["histograms"][0] | {"counts": [1]}]), {}, 400),
        "many rows": (but(rows=[row] * 5000), {}, 413),
        "too large": (b" " * 70_000, {}, 413),
        "a bomb": (gzip.compress(b" " * 50_000_000), GZIP, 413),
        "a bomb in a bomb": (gzip.compress(gzip.compress(b" " * 50_000_000)), GZIP, 400),
        "not gzip": (but(), GZIP, 400),
        "zlib, not gzip": (zlib.compress(but()), GZIP, 400),
        "half a gzip": (gzip.compress(but())[:-10], GZIP, 400),
        "two gzips": (gzip.compress(but()) * 2, GZIP, 400),
        "another packing": (but(), {"content-encoding": "br"}, 415),
    }


def test_hostile_reports_are_refused_and_the_next_is_taken(
    client: Running, database: Engine
) -> None:
    for name, (body, headers, expected) in damaged().items():
        status, content = client.raw("POST", "/v1/reports", body, headers)
        assert status == expected, (name, content)
        assert isinstance(json.loads(content)["error"], str), name
        assert len(content) < 500, name
    assert count(database) == {}
    body = packed(make_report(("1.0.0", "stable", LOADED)))
    assert client.post("/v1/reports", data=body, headers=GZIP).status_code == 202


def test_a_body_without_a_length_is_cut_off(client: Running) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            yield b" " * 1000

    status, _ = client.raw("POST", "/v1/reports", endless(), {"transfer-encoding": "chunked"})
    assert status == 413


def test_a_body_that_never_comes_is_not_waited_for(
    client: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "BODY_S", 0.3)
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as slow:
        slow.sendall(b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_a_client_that_leaves_is_no_error(
    client: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as gone:
        gone.sendall(b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    assert client.get("/healthz").status_code == 200
    assert not caplog.records


def test_a_full_queue_sends_devices_away(database: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = threading.Event()
    monkeypatch.setattr(ingest, "MOST_WAITING", 3)

    def wait(_: Connection) -> None:
        blocked.wait(60)

    event.listen(database, "begin", wait)
    body = make_report(("1.0.0", "stable", LOADED)).dump()
    with Running(Server(database, Settings(TOKEN, watch_s=1e6))) as client:
        with ThreadPoolExecutor(32) as threads:
            first: list[Future[tuple[int, bytes]]] = []
            try:
                # While nothing is stored only those that are sent away are answered. How many come
                # before depends on how many the first transaction took.
                while len(first) < 32 and not any(each.done() for each in first):
                    first.append(threads.submit(client.raw, "POST", "/v1/reports", body))
                    wait_for(first, timeout=0.2, return_when=FIRST_COMPLETED)
                answer = client.post("/v1/reports", data=body)
            finally:
                blocked.set()
            statuses = [each.result()[0] for each in first]
        assert answer.status_code == 503 and 30 <= int(answer.headers["retry-after"]) <= 180
        assert 202 in statuses and set(statuses) <= {202, 503}
        assert client.post("/v1/reports", data=body).status_code == 202


def test_a_database_that_goes_away_and_comes_back(cluster: Cluster) -> None:
    engine = connect(cluster.new_database())
    migrate(engine)
    body = packed(make_report(("1.0.0", "stable", LOADED)))
    with Running(Server(engine, Settings(TOKEN))) as client:
        assert client.get("/healthz").status_code == 200
        cluster.stop()
        try:
            away = client.post("/v1/reports", data=body, headers=GZIP)
            health = client.get("/healthz")
        finally:
            cluster.start()
        assert away.status_code == 503 and int(away.headers["retry-after"]) >= 30
        assert health.status_code == 503
        assert health.json()["problems"] == ["the database does not answer"]
        assert client.post("/v1/reports", data=body, headers=GZIP).status_code == 202
        assert client.get("/healthz").status_code == 200
    assert count(engine)["1.0.0", "stable", "load_ok"] == 1
    engine.dispose()


def test_several_replicas_on_one_database(url: str) -> None:
    engines = [connect(url) for _ in range(3)]
    migrate(engines[0])
    reports = [make_report(("1.0.0", "stable", {"load_ok": 1, "check_ok": 1})) for _ in range(60)]
    running = [Running(Server(engine, Settings(TOKEN))) for engine in engines]
    with running[0], running[1], running[2]:

        def send(number: int) -> int:
            body = packed(reports[number % len(reports)])
            return running[number % 3 if number < 60 else (number + 1) % 3].raw(
                "POST", "/v1/reports", body, GZIP
            )[0]

        # Every report to two replicas.
        with ThreadPoolExecutor(12) as threads:
            assert set(threads.map(send, range(2 * len(reports)))) == {202}
    found = count(engines[0])
    assert found["1.0.0", "stable", "load_ok"] == found["1.0.0", "stable", "report"] == 60
    with engines[0].connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM reports")).scalar() == 60
    for engine in engines:
        engine.dispose()
