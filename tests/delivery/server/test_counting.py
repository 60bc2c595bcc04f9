from dataclasses import replace
from datetime import date

import pytest
from sqlalchemy import Engine, func, select

from palmkit.delivery.reports.schema import Report, Row
from palmkit.delivery.server import tables
from palmkit.delivery.server.counting import Vocabulary, forget, platform_id, store, totals
from palmkit.delivery.server.database import writing
from tests.delivery.server.fleet_reports import make_report

DAY_S = 86400.0
NOW = 1_795_305_600.0  # 2026-11-22
TODAY = date(2026, 11, 22)


def put(
    database: Engine, *reports: Report, now: float = NOW, words: Vocabulary | None = None
) -> int:
    with writing(database) as connection:
        return store(connection, reports, words or Vocabulary(), now)


def count(database: Engine) -> dict[tuple[str, str, str], int]:
    with database.connect() as connection:
        found = totals(connection, "doubler", date(2000, 1, 1))
    return {(*group, code): n for group, codes in found.items() for code, n in codes.items()}


def rows(database: Engine, name: str) -> int:
    with database.connect() as connection:
        query = select(func.count()).select_from(tables.metadata.tables[name])
        return connection.execute(query).scalar_one()


def test_reports_add_up_and_each_counts_once(database: Engine) -> None:
    one = make_report(("1.0.0", "stable", {"load_ok": 2, "check_ok": 1}), day="2026-11-22")
    two = make_report(("1.0.0", "stable", {"load_ok": 3}), day="2026-11-21", since_last="0")
    assert put(database, one, two, one) == 2
    assert put(database, one, two) == 0
    assert put(database, two, now=NOW + DAY_S) == 0
    stable = ("1.0.0", "stable")
    assert count(database) == {
        (*stable, "load_ok"): 5,
        (*stable, "check_ok"): 1,
        (*stable, "report"): 2,
        (*stable, "device"): 1,
    }
    with database.connect() as connection:
        fleet = connection.execute(select(tables.fleet).order_by(tables.fleet.c.day)).all()
        platform = connection.execute(select(tables.platforms)).one()
        buckets = connection.execute(select(tables.histograms.c.bucket, tables.histograms.c.n))
        assert sum(n for bucket, n in buckets if bucket == 12) == 1800
    assert [(row.day, row.since_last, row.n) for row in fleet] == [
        (date(2026, 11, 21), "0", 1),
        (TODAY, "1", 1),
    ]
    kind = ("0.1.0", "linux", "x86_64", "4-8", "none")
    assert tuple(platform) == (platform_id(kind), *kind)


def test_ids_are_forgotten_after_two_days_and_counts_later(database: Engine) -> None:
    report = make_report(("1.0.0", "stable", {"load_ok": 1}), day="2026-11-22")
    put(database, report)
    with writing(database) as connection:
        forget(connection, NOW + 1.9 * DAY_S, 30)
    assert put(database, report, now=NOW + 1.9 * DAY_S) == 0
    with writing(database) as connection:
        forget(connection, NOW + 2.1 * DAY_S, 30)
    assert rows(database, "reports") == 0 and rows(database, "counters") == 3
    with writing(database) as connection:
        forget(connection, NOW + 31 * DAY_S, 30)
    assert (
        rows(database, "counters") == rows(database, "histograms") == rows(database, "fleet") == 0
    )


@pytest.mark.parametrize(
    "claimed, counted",
    [
        ("2026-11-22", "2026-11-22"),
        ("2026-11-14", "2026-11-14"),
        ("2026-11-23", "2026-11-23"),
        ("2026-11-13", "2026-11-22"),
        ("2099-01-01", "2026-11-22"),
        ("2000-01-01", "2026-11-22"),
    ],
)
def test_a_day_that_cannot_be_is_today(database: Engine, claimed: str, counted: str) -> None:
    put(database, make_report(("1.0.0", "stable", {"load_ok": 1}), day=claimed))
    with database.connect() as connection:
        days = connection.execute(select(tables.counters.c.day).distinct()).scalars().all()
    assert days == [date.fromisoformat(counted)]


def test_one_report_cannot_count_for_many(database: Engine) -> None:
    put(database, make_report(("1.0.0", "candidate", {"crash_trial": 1_000_000_000})))
    assert count(database)["1.0.0", "candidate", "crash_trial"] == 1000


def test_invented_names_make_few_rows(database: Engine) -> None:
    words = Vocabulary(lambda: {"doubler": frozenset({"1.0.0", "1.1.0"})})
    invented = [
        replace(
            make_report((f"0.{i}", "stable", {"load_ok": 1})),
            sdk=f"9.{i}",
            dropped={f"reason{i}": 1},
            rows=tuple(
                Row(f"model_{j}", f"0.{i}.{j}", "", "stable", "nan", 1, f"{i * 500 + j:016x}")
                for j in range(100)
            )
            + (Row("doubler", f"0.{i}", "", "stable", "load_ok", 1),),
        )
        for i in range(300)
    ]
    words.MOST_PLATFORMS = 50
    assert put(database, *invented, words=words) == 300
    assert rows(database, "platforms") == 51
    assert rows(database, "dropped") == Vocabulary.MOST_REASONS + 1
    assert rows(database, "errors") < 100 * (Vocabulary.MOST_ERRORS + 1)
    # A release of the repository is counted by name, whoever came before.
    put(database, make_report(("1.1.0", "candidate", {"load_ok": 1})), words=words)
    found = count(database)
    assert found["1.1.0", "candidate", "load_ok"] == 1
    assert found["other", "stable", "load_ok"] == 300 - Vocabulary.MOST_RELEASES
    assert len({release for release, _, _ in found}) == Vocabulary.MOST_RELEASES + 2


def test_vocabulary_starts_anew_each_day() -> None:
    words = Vocabulary()
    words.MOST_PLATFORMS = 1
    words.begin(TODAY)
    assert words.platform(("a",)) == ("a",) and words.platform(("b",)) == ("other",)
    words.begin(TODAY)
    assert words.platform(("b",)) == ("other",)
    words.begin(date(2026, 11, 23))
    assert words.platform(("b",)) == ("b",)
