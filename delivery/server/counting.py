"""Counting of reports in the database: each report counts once, and rows are bounded.

Reports come from anybody. All they can do is add to counts, so the limits are on how much one of
them adds and on how many different rows all of them together can make.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, TypeAlias

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.sql.schema import Table

from palmkit.delivery.reports.schema import Report
from palmkit.delivery.server import tables
from palmkit.delivery.server.database import add, insert

REMEMBERED_S = 48 * 3600.0
OTHER = "other"
# No report has this id, as theirs are hex digits, and no other replica waits for this row.
_PROBE = f"probe {secrets.token_hex(8)}"
# A device keeps a report for seven days at most, and its clock may be a day off.
OLDEST, NEWEST = timedelta(days=8), timedelta(days=1)
# The most that one report adds to one count: loads of a busy day, and its inferences.
MOST_EVENTS, MOST_MEASURES = 1000, 10_000_000

Releases: TypeAlias = Callable[[], Mapping[str, frozenset[str]]]


class Vocabulary:
    """Which names become rows of their own; the others count as "other".

    Releases of the repository always do. Of names that only reports know, such as models that came
    with an app, so many do each day that a real fleet never reaches the limit.
    """

    MOST_MODELS: int = 100
    MOST_RELEASES: int = 100
    MOST_PLATFORMS: int = 5000
    MOST_ERRORS: int = 1000
    MOST_REASONS: int = 30

    def __init__(self, releases: Releases = dict) -> None:
        """Start empty.

        releases: returns the current releases of each model in the repository.
        """
        self._releases = releases
        self._day: date | None = None
        self._seen: dict[str, set[Any]] = {}

    def begin(self, day: date) -> None:
        """Forget what was seen on other days."""
        if day != self._day:
            self._day, self._seen = day, {}

    def release(self, model: str, release: str) -> tuple[str, str]:
        """Return model and release as they are counted."""
        known = self._releases()
        if model not in known and not self._admit("model", model, self.MOST_MODELS):
            return OTHER, OTHER
        if not release or release in known.get(model, ()):
            return model, release
        admitted = self._admit(f"release of {model}", release, self.MOST_RELEASES)
        return model, release if admitted else OTHER

    def platform(self, kind: tuple[str, ...]) -> tuple[str, ...]:
        """Return the kind of device as it is counted."""
        return kind if self._admit("platform", kind, self.MOST_PLATFORMS) else (OTHER,) * len(kind)

    def error(self, error: str) -> str:
        """Return the hash of an error as it is counted."""
        return error if self._admit("error", error, self.MOST_ERRORS) else OTHER

    def reason(self, reason: str) -> str:
        """Return why something was not sent, as it is counted."""
        return reason if self._admit("reason", reason, self.MOST_REASONS) else OTHER

    def _admit(self, kind: str, name: object, most: int) -> bool:
        seen = self._seen.setdefault(kind, set())
        if name in seen:
            return True
        if len(seen) >= most:
            return False
        seen.add(name)
        return True


def store(
    connection: Connection, reports: Sequence[Report], vocabulary: Vocabulary, now: float
) -> int:
    """Add reports to the counts, in the caller's transaction; return how many were new.

    now: seconds since 1970.
    """
    fresh = _fresh(connection, reports, now)
    if not fresh:
        return 0
    today = datetime.fromtimestamp(now, timezone.utc).date()
    vocabulary.begin(today)
    platforms: dict[int, tuple[str, ...]] = {}
    counts: dict[Table, Counter[tuple[Any, ...]]] = {
        table: Counter()
        for table in (
            tables.counters,
            tables.errors,
            tables.histograms,
            tables.fleet,
            tables.dropped,
        )
    }
    for report in fresh:
        kind = vocabulary.platform(
            (report.sdk, report.os, report.arch, report.memory_class, report.accelerator)
        )
        number = platform_id(kind)
        platforms[number] = kind
        _count(counts, report, number, _day(report, today), vocabulary)
    _add_platforms(connection, platforms)
    for table, amounts in counts.items():
        add(connection, table, amounts)
    return len(fresh)


def probe(connection: Connection) -> None:
    """Write as for a report, and undo it; raises what storing one would."""
    table = tables.reports
    connection.execute(insert(connection, table).values(id=_PROBE, received=0.0))
    connection.execute(delete(table).where(table.c.id == _PROBE))


def _fresh(connection: Connection, reports: Iterable[Report], now: float) -> list[Report]:
    """Return the reports that have not come before."""
    by_id = {report.report_id: report for report in reports}
    statement = insert(connection, tables.reports).on_conflict_do_nothing()
    rows = [{"id": each, "received": now} for each in sorted(by_id)]
    added = connection.execute(statement.returning(tables.reports.c.id), rows)
    return [by_id[each] for each in added.scalars()]


def _day(report: Report, today: date) -> str:
    possible = today - OLDEST <= date.fromisoformat(report.day) <= today + NEWEST
    return report.day if possible else today.isoformat()


def platform_id(kind: tuple[str, ...]) -> int:
    """Return the number of a kind of device, the same on every replica."""
    digest = hashlib.sha256("|".join(kind).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _count(
    counts: Mapping[Table, Counter[tuple[Any, ...]]],
    report: Report,
    platform: int,
    day: str,
    vocabulary: Vocabulary,
) -> None:
    counters = counts[tables.counters]
    groups: set[tuple[str, str, str]] = set()
    for row in report.rows:
        model, release = vocabulary.release(row.model, row.release)
        _, previous = vocabulary.release(row.model, row.previous)
        n = min(row.n, MOST_EVENTS)
        counters[model, day, release, row.arm, row.code, previous, platform] += n
        groups.add((model, release, row.arm))
        if row.error:
            error = vocabulary.error(row.error)
            counts[tables.errors][model, day, release, row.code, error] += n
    for model, release, arm in groups:
        counters[model, day, release, arm, "report", "", platform] += 1
        if report.since_last != "0":
            counters[model, day, release, arm, "device", "", platform] += 1
    for histogram in report.histograms:
        model, release = vocabulary.release(histogram.model, histogram.release)
        key = (model, day, release, histogram.arm, histogram.name)
        for bucket, n in enumerate(histogram.counts):
            if n:
                counts[tables.histograms][(*key, bucket)] += min(n, MOST_MEASURES)
    counts[tables.fleet][day, platform, report.since_last] += 1
    for reason, n in report.dropped.items():
        counts[tables.dropped][day, vocabulary.reason(reason)] += min(n, MOST_MEASURES)


def _add_platforms(connection: Connection, platforms: Mapping[int, tuple[str, ...]]) -> None:
    table = tables.platforms
    known = set(connection.execute(select(table.c.id).where(table.c.id.in_(platforms))).scalars())
    names = [column.name for column in table.columns]
    rows = [
        dict(zip(names, (each, *platforms[each]), strict=True))
        for each in sorted(platforms.keys() - known)
    ]
    if rows:
        connection.execute(insert(connection, table).on_conflict_do_nothing(), rows)


def forget(connection: Connection, now: float, kept_days: int) -> None:
    """Remove ids of reports after two days, and counts after kept_days."""
    reports = tables.reports
    connection.execute(delete(reports).where(reports.c.received < now - REMEMBERED_S))
    last = datetime.fromtimestamp(now, timezone.utc).date() - timedelta(days=kept_days)
    for table in (
        tables.counters,
        tables.errors,
        tables.histograms,
        tables.fleet,
        tables.dropped,
    ):
        connection.execute(delete(table).where(table.c.day < last))


def totals(connection: Connection, model: str, since: date) -> dict[tuple[str, str], Counter[str]]:
    """Return counts of each code since a day, by release and arm."""
    table = tables.counters
    keys = (table.c.release, table.c.arm, table.c.code)
    query = select(*keys, func.sum(table.c.n)).group_by(*keys)
    query = query.where(table.c.model == model, table.c.day >= since)
    found: dict[tuple[str, str], Counter[str]] = {}
    for release, arm, code, n in connection.execute(query):
        found.setdefault((release, arm), Counter())[code] += int(n)
    return found
