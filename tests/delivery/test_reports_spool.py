"""What waits to be sent: bounded, shared by processes, sent at the server's pace, never twice."""

import gzip
import json
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from palmkit.delivery.reports import schema, spool
from palmkit.delivery.reports.schema import Report
from palmkit.delivery.reports.sender import BACKOFF_S, Sender
from palmkit.delivery.reports.spool import CountKey, Spool
from palmkit.engine.errors import DeliveryError
from tests.delivery.report_server import ReportServer, report_server

DEVICE = Report("", "", "0.1.0", "linux", "x86_64", "8-16", "avx2", "")
KEY: CountKey = ("face_detector", "1.1.0", "", "candidate", "load_ok", "")


class Time:
    """A clock that tests set; only the spool's and the sender's."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)

    def time(self) -> float:
        return self.now.timestamp()

    def sleep(self, seconds: float) -> None:
        self.pass_by(seconds=seconds)

    def pass_by(self, **much: float) -> None:
        self.now += timedelta(**much)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr("palmkit.delivery.reports.spool.time", clock)
    monkeypatch.setattr("palmkit.delivery.reports.sender.time", clock)
    monkeypatch.setattr(spool, "today", lambda: clock.now.date().isoformat())
    return clock


@pytest.fixture
def server() -> Iterator[ReportServer]:
    with report_server() as state:
        yield state


def waiting(box: Spool) -> list[dict[str, Any]]:
    return [json.loads(gzip.decompress(sealed.body)) for sealed in box.waiting()]


def count(box: Spool, code: str = "load_ok", n: int = 1) -> None:
    box.add({(*KEY[:4], code, ""): n}, {}, {})


def test_retry_after_stops_everything_until_it_is_over(
    tmp_path: Path, server: ReportServer, clock: Time
) -> None:
    sender = Sender(Spool(tmp_path / "spool.db"), server.url, DEVICE, 3600)
    count(sender.spool)
    server.answers = [(429, {"Retry-After": "600"}), (503, {"Retry-After": when(clock, 2000)})]
    assert not sender.send_all(anyhow=True)
    clock.pass_by(seconds=599)
    assert not sender.send_all(anyhow=True)
    other = Sender(Spool(tmp_path / "spool.db"), server.url, DEVICE, 3600)
    assert not other.send_all(anyhow=True), "another process waits too"
    assert len(server.bodies) == 1
    clock.pass_by(seconds=1 + 601 / 10)
    assert not sender.send_all(anyhow=False)
    assert len(server.bodies) == 2
    clock.now = datetime.fromisoformat("2026-11-21T12:33:19+00:00")
    assert not sender.send_all(anyhow=True)
    clock.pass_by(seconds=1 + 200)
    assert sender.send_all(anyhow=False)
    assert len(server.bodies) == 3
    assert len(set(server.bodies)) == 1, "the same bytes, so that the server can tell"
    assert waiting(sender.spool) == []


def when(clock: Time, seconds: float) -> str:
    return format_datetime(clock.now + timedelta(seconds=seconds))


def test_no_server_can_silence_a_device_for_more_than_a_day(
    tmp_path: Path, server: ReportServer, clock: Time
) -> None:
    sender = Sender(Spool(tmp_path / "spool.db"), server.url, DEVICE, 3600)
    count(sender.spool)
    server.answers = [(503, {"Retry-After": "99999999999999999999"})]
    assert not sender.send_all(anyhow=True)
    clock.pass_by(days=1, seconds=1)
    assert sender.send_all(anyhow=False)


def test_failures_wait_longer_and_longer(
    tmp_path: Path, server: ReportServer, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    most: list[float] = []

    def uniform(least: float, greatest: float) -> float:
        most.append(greatest)
        return greatest

    sender = Sender(Spool(tmp_path / "spool.db"), server.url, DEVICE, 3600)
    count(sender.spool)
    server.answers = [(500, {})] * 3 + [(404, {}), (302, {"Location": "http://127.0.0.1:9/"})]
    monkeypatch.setattr(random, "uniform", uniform)
    for failures in range(5):
        most.clear()
        assert not sender.send_all(anyhow=False)
        assert most[-1] == BACKOFF_S * 2**failures
        assert sender.spool.failures() == failures + 1
        clock.pass_by(seconds=most[-1] + 1)
    assert sender.send_all(anyhow=False)
    assert sender.spool.failures() == 0
    assert len(server.bodies) == 6


def test_a_report_that_the_server_refuses_is_dropped_and_said_so(
    tmp_path: Path, server: ReportServer, clock: Time
) -> None:
    sender = Sender(Spool(tmp_path / "spool.db"), server.url, DEVICE, 3600)
    count(sender.spool, n=7)
    server.answers = [(400, {})]
    assert sender.send_all(anyhow=True)
    count(sender.spool)
    assert sender.send_all(anyhow=True)
    assert [report["dropped"] for report in server.reports()] == [{}, {"rejected": 7}]


def test_a_report_that_may_have_arrived_is_not_sent_once_the_server_forgot_it(
    tmp_path: Path, server: ReportServer, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palmkit.delivery.reports.sender.READ_S", 0.2)
    sender = Sender(Spool(tmp_path / "spool.db"), server.url, DEVICE, 3600)
    count(sender.spool, n=3)
    server.hang = True
    assert not sender.send_all(anyhow=True)
    clock.pass_by(hours=24)
    assert not sender.send_all(anyhow=True)
    assert len(set(server.bodies)) == 1
    assert len(server.bodies) == 2
    server.hang = False
    clock.pass_by(hours=23, minutes=1)
    count(sender.spool)
    assert sender.send_all(anyhow=True)
    assert server.reports()[-1]["dropped"] == {"unsure": 3}
    assert len(server.bodies) == 3


def test_a_report_that_never_left_is_kept_for_seven_days(
    tmp_path: Path, server: ReportServer, clock: Time
) -> None:
    box = Spool(tmp_path / "spool.db")
    count(box, n=5)
    closed = Sender(box, "http://127.0.0.1:9/", DEVICE, 3600)
    for _ in range(6):
        assert not closed.send_all(anyhow=True)
        assert len(waiting(box)) == 1
        clock.pass_by(days=1, seconds=1)
    clock.pass_by(days=1)
    count(box)
    assert Sender(box, server.url, DEVICE, 3600).send_all(anyhow=True)
    [report] = server.reports()
    assert report["dropped"] == {"age": 5}


def test_counts_that_nobody_sealed_grow_old_too(tmp_path: Path, clock: Time) -> None:
    box = Spool(tmp_path / "spool.db")
    count(box, n=5)
    clock.pass_by(days=8)
    count(box)
    box.seal(DEVICE, {})
    [report] = waiting(box)
    assert report["dropped"] == {"age": 5}


def test_a_device_is_counted_once_a_day_and_needs_no_name(tmp_path: Path, clock: Time) -> None:
    box = Spool(tmp_path / "spool.db")
    ids: set[str] = set()
    seen: list[tuple[str, str]] = []
    for days in (0, 0, 1, 1, 3, 6, 7, 27, 28):
        clock.pass_by(days=days)
        count(box)
        box.seal(DEVICE, {})
        report = waiting(box)[-1]
        seen.append((report["day"], report["since_last"]))
        ids.add(report["report_id"])
        box.remove(report["report_id"])
    expected = ["first", "0", "1", "1", "2-6", "2-6", "7-27", "7-27", "28+"]
    assert [since for _, since in seen] == expected
    assert len(ids) == len(seen)


def test_each_day_is_a_report_of_its_own(tmp_path: Path, clock: Time) -> None:
    box = Spool(tmp_path / "spool.db")
    for _ in range(3):
        count(box)
        clock.pass_by(days=1)
    box.seal(DEVICE, {})
    days = [(report["day"], report["since_last"]) for report in waiting(box)]
    assert days == [("2026-11-21", "first"), ("2026-11-22", "1"), ("2026-11-23", "1")]


def test_a_clock_that_was_ahead_does_not_silence_the_device(
    tmp_path: Path, server: ReportServer, clock: Time
) -> None:
    sender = Sender(Spool(tmp_path / "spool.db"), server.url, DEVICE, 3600)
    clock.pass_by(days=3650)
    count(sender.spool)
    assert sender.send_all(anyhow=False)
    clock.pass_by(days=-3650)
    count(sender.spool)
    assert sender.send_all(anyhow=False)
    assert [report["day"] for report in server.reports()] == ["2036-11-18", "2026-11-21"]


def test_one_process_sends_at_a_time_and_one_that_died_does_not_block(
    tmp_path: Path, server: ReportServer, clock: Time
) -> None:
    sender = Sender(Spool(tmp_path / "spool.db"), server.url, DEVICE, 3600)
    count(sender.spool)
    assert sender.spool.take_turn(anyhow=True)
    assert not sender.send_all(anyhow=True)
    clock.pass_by(seconds=spool.TURN_S)
    assert sender.send_all(anyhow=True)
    assert len(server.bodies) == 1


def test_it_sends_when_it_is_time_and_not_before(
    tmp_path: Path, server: ReportServer, clock: Time
) -> None:
    sender = Sender(Spool(tmp_path / "spool.db"), server.url, DEVICE, 1000)
    sender.spool.first_send(60)
    first: list[bool] = []
    for _ in range(60):
        count(sender.spool)
        first.append(sender.send_all(anyhow=False))
        clock.pass_by(seconds=50)
    times = [place for place, sent in enumerate(first) if sent]
    gaps = [after - before for before, after in pairwise(times)]
    assert first.index(True) <= 2
    assert gaps
    assert all(15 <= gap <= 26 for gap in gaps), "every 1000 s, give or take a quarter"


def test_threads_lose_nothing(tmp_path: Path) -> None:
    def work() -> None:
        box = Spool(tmp_path / "spool.db", wait_s=60)
        for number in range(25):
            count(box)
            if number % 5 == 0:
                box.seal(DEVICE, {})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    box = Spool(tmp_path / "spool.db")
    box.seal(DEVICE, {})
    assert sum(row["n"] for report in waiting(box) for row in report["rows"]) == 100


def test_the_file_stays_below_a_megabyte_and_says_what_went(tmp_path: Path, clock: Time) -> None:
    box = Spool(tmp_path / "spool.db")
    largest = counted = 0
    draw = random.Random(1)
    for number in range(60):
        keys: dict[CountKey, int] = {
            (
                "m" * 40 + str(number),
                f"1.{i}.0",
                "",
                "stable",
                "load_fail",
                f"{draw.getrandbits(64):016x}",
            ): 1
            for i in range(400)
        }
        noise = {
            ("m", f"1.{number}.{i}", "stable", "infer_ms"): [draw.randrange(99) for _ in range(32)]
            for i in range(20)
        }
        box.add(keys, noise, {})
        counted += len(keys) + sum(map(sum, noise.values()))
        if number % 3 == 0:
            box.seal(DEVICE, {})
        largest = max(largest, sum(file.stat().st_size for file in tmp_path.iterdir()))
        clock.pass_by(hours=2)
    box.seal(DEVICE, {})
    assert 400_000 < largest <= 2 * spool.MOST_PAGES * spool.PAGE_BYTES < 1_000_000
    reports = waiting(box)
    kept = sum(row["n"] for report in reports for row in report["rows"])
    kept += sum(sum(h["counts"]) for report in reports for h in report["histograms"])
    with sqlite3.connect(box.path) as connection:
        left = dict(connection.execute("SELECT reason, n FROM dropped"))
    said = sum(n for report in reports for n in report["dropped"].values()) + sum(left.values())
    assert 0 < kept < counted
    assert said == counted - kept
    days = [report["day"] for report in reports]
    assert days == sorted(days)
    assert days[-1] == (clock.now - timedelta(hours=2)).date().isoformat(), "the newest are kept"
    assert all(len(gzip.decompress(s.body)) <= schema.MOST_BYTES for s in box.waiting())


@pytest.mark.parametrize(
    "damage", [b"no database at all" * 300, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    box = Spool(tmp_path / "spool.db")
    box.path.write_bytes(damage)
    count(box, n=2)
    box.seal(DEVICE, {})
    [report] = waiting(box)
    assert [row["n"] for row in report["rows"]] == [2]
    assert report["dropped"] == {"damaged": 1}


def test_damage_inside_is_found_when_it_is_met(tmp_path: Path) -> None:
    box = Spool(tmp_path / "spool.db")
    for number in range(200):
        box.add({(f"m{number}" * 9, "1.0.0", "", "stable", "load_ok", ""): 1}, {}, {})
    content = bytearray(box.path.read_bytes())
    content[4096:] = bytes(random.Random(2).randbytes(len(content) - 4096))
    box.path.write_bytes(bytes(content))
    with pytest.raises(sqlite3.DatabaseError):
        box.seal(DEVICE, {})
    count(box, n=2)
    box.seal(DEVICE, {})
    assert [row["n"] for report in waiting(box) for row in report["rows"]] == [2]


def test_a_policy_lets_a_share_of_the_devices_report(tmp_path: Path, clock: Time) -> None:
    box = Spool(tmp_path / "spool.db")
    box.set_share("face_detector", 0.25)
    box.set_share("face_mesh", 0)
    reported = dropped = 0
    for _ in range(400):
        count(box)
        box.add(
            {("face_mesh", *KEY[1:]): 1}, {("face_mesh", "1", "stable", "infer_ms"): [1] * 32}, {}
        )
        box.seal(DEVICE, box.shares())
        for report in waiting(box):
            assert {row["model"] for row in report["rows"]} == {"face_detector"}
            assert report["histograms"] == []
            reported += sum(row["n"] for row in report["rows"])
            dropped += report["dropped"].get("sampling", 0)
            box.remove(report["report_id"])
    assert 60 <= reported <= 140
    assert 0 < dropped <= 400 * 34 - reported
    box.set_share("face_detector", 0)
    count(box)
    box.seal(DEVICE, box.shares())
    assert waiting(box) == []


REPORT = replace(DEVICE, report_id="0" * 32, day="2026-11-21", since_last="1")


def document(**changes: Any) -> bytes:
    return json.dumps({**json.loads(REPORT.dump()), **changes}).encode()


ROW = {
    "model": "face",
    "release": "1.0.0",
    "previous": "",
    "arm": "stable",
    "code": "load_ok",
    "n": 1,
}
HISTOGRAM = {
    "model": "face",
    "release": "1.0.0",
    "arm": "stable",
    "name": "infer_ms",
    "counts": [0] * 32,
}


def test_what_is_written_is_read_back() -> None:
    content = document(rows=[ROW, {**ROW, "error": "0" * 16}], histograms=[HISTOGRAM])
    assert json.loads(schema.parse(content).dump()) == json.loads(content)
    assert schema.parse(document(later="a field of a later SDK")) == REPORT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", 2),
        ("report_id", "x" * 32),
        ("day", "2026-02-30"),
        ("day", "yesterday"),
        ("sdk", ""),
        ("os", "<script>alert(1)</script>"),
        ("memory_class", "3.7"),
        ("since_last", "5"),
        ("rows", None),
        ("rows", [ROW] * (schema.MOST_ROWS + 1)),
        ("rows", [{**ROW, "n": 0}]),
        ("rows", [{**ROW, "n": True}]),
        ("rows", [{**ROW, "n": 10**12}]),
        ("rows", [{**ROW, "code": "load_okay"}]),
        ("rows", [{**ROW, "arm": "root"}]),
        ("rows", [{**ROW, "model": "Face"}]),
        ("rows", [{**ROW, "previous": None}]),
        ("rows", [{**ROW, "error": "/home/me/face.palm"}]),
        ("histograms", [{**HISTOGRAM, "counts": [0] * 31}]),
        ("histograms", [{**HISTOGRAM, "counts": [-1] + [0] * 31}]),
        ("histograms", [{**HISTOGRAM, "counts": [True] + [0] * 31}]),
        ("histograms", [{**HISTOGRAM, "name": "age"}]),
        ("dropped", {"why not": 1}),
        ("dropped", {str(i): 1 for i in range(17)}),
        ("dropped", {"space": -1}),
    ],
)
def test_a_report_that_breaks_the_schema_is_refused(field: str, value: object) -> None:
    with pytest.raises(DeliveryError) as refused:
        schema.parse(document(**{field: value}))
    assert refused.value.code == "report_invalid"


def test_a_report_too_large_or_no_json_is_refused() -> None:
    for content in (document(later="x" * schema.MOST_BYTES), b"{", b"[]", b"\xff", b"[" * 60000):
        with pytest.raises(DeliveryError):
            schema.parse(content)


def test_buckets_begin_where_they_say() -> None:
    edges = schema.bucket_edges()
    assert len(edges) == schema.BUCKETS - 1
    for number, edge in enumerate(edges, 1):
        assert schema.bucket(edge) == number == schema.bucket(edge * 1.99)
        assert schema.bucket(edge * 0.99) == number - 1
    assert [schema.bucket(value) for value in (0, 1e-300, 1e300)] == [0, 0, 31]
    assert schema.bucket(1.0) == 10


def test_opentelemetry_gets_the_same_counts_and_buckets() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics", reason="needs palmkit[otel] and its SDK")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    from palmkit.delivery.reports.otel import OpenTelemetryExporter

    reader = export.InMemoryMetricReader()
    exporter = OpenTelemetryExporter(sdk.MeterProvider([reader]))
    buckets = [n % 5 for n in range(32)]
    group = ("face_detector", "1.1.0", "candidate")
    for _ in range(2):
        exporter.export({KEY: 3}, {(*group, "infer_ms"): buckets})
    [scope] = reader.get_metrics_data().resource_metrics[0].scope_metrics
    metrics = {metric.name: metric.data.data_points for metric in scope.metrics}
    [events], [spread] = metrics["palmkit.events"], metrics["palmkit.infer_ms"]
    assert events.value == 6
    assert events.attributes["palmkit.code"] == "load_ok"
    assert list(spread.bucket_counts) == [2 * n for n in buckets]
    assert list(spread.explicit_bounds) == schema.bucket_edges()


def test_time_is_the_real_one_where_no_test_sets_it() -> None:
    assert spool.today() == time.strftime("%Y-%m-%d", time.gmtime())
