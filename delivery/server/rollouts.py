"""Rollouts of releases: since when, at what percent, and how they do.

The policy in the repository is authoritative, whoever changed it. Stored here is only when a change
was first seen and what had been counted by then.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, delete, select
from sqlalchemy import insert as insert_plain

from palmkit.delivery.manifest import Manifest
from palmkit.delivery.policy import Candidate, Policy
from palmkit.delivery.server import tables
from palmkit.delivery.server.counting import totals
from palmkit.delivery.server.database import insert, lock, writing
from palmkit.delivery.server.rule import Sample, Verdict, is_burst, judge
from palmkit.engine.errors import PalmError

STEPS = (1.0, 5.0, 20.0, 50.0, 100.0)
# Older counts of a rollout say nothing about today.
WINDOW = timedelta(days=28)
BURST_WINDOW = timedelta(days=7)
BURST = "signatures fail far more often than in the last days"
BASE_CODES = ("load_ok", "load_fail", "golden_fail", "crash_trial", "nan", "rollback", "report")

CHANGES = ("salt", "percent", "halt", "recall")

_log = logging.getLogger(__name__)


class Releases(Protocol):
    """What the server needs of the repository; delivery.repository.Repository is one."""

    def models(self) -> Sequence[str]: ...  # noqa: D102
    def releases(self, model: str) -> Sequence[str]: ...  # noqa: D102
    def manifest(self, model: str, release: str) -> Manifest: ...  # noqa: D102
    def policy(self, model: str) -> Policy: ...  # noqa: D102
    def promote(  # noqa: D102
        self, model: str, release: str, channel: str = "stable", percent: float = 100
    ) -> object: ...
    def halt(self, model: str, release: str, channel: str | None = None) -> object: ...  # noqa: D102
    def recall(self, model: str, release: str, channel: str | None = None) -> object: ...  # noqa: D102
    def rollback(self, model: str, channel: str = "stable") -> object: ...  # noqa: D102
    def resign(self) -> Sequence[str]: ...  # noqa: D102
    def expires(self) -> Mapping[str, str]: ...  # noqa: D102


@dataclass(frozen=True)
class Gates:
    """When a rollout may go a step further: this long after the last, with so many reports."""

    wait_s: float = 6 * 3600.0
    reports: int = 100


@dataclass(frozen=True)
class Event:
    """An action; by: "rule", "person" or "repository" (seen in the policy)."""

    by: str
    action: str
    model: str
    channel: str
    release: str = ""
    percent: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Rollout:
    """A release on a channel, and its counts; times in seconds since 1970."""

    model: str
    channel: str
    candidate: Candidate
    began: float
    step_began: float
    step_reports: int
    sample: Sample
    control: Sample

    @property
    def verdict(self) -> tuple[Verdict, str]:
        """The halt rule's verdict."""
        return judge(self.sample, self.control)

    @property
    def next_percent(self) -> float | None:
        """The step after the current one."""
        return next((step for step in STEPS if step > self.candidate.percent), None)

    def gate_is_open(self, gates: Gates, now: float) -> bool:
        """Return whether it has been at its percent long enough, on enough devices."""
        return now >= self.step_began + gates.wait_s and self.step_reports >= gates.reports


def record(connection: Connection, event: Event, now: float) -> None:
    """Store an action."""
    connection.execute(insert_plain(tables.events), [{"at": now, **vars(event)}])


def observe(connection: Connection, policy: Policy, now: float, done: Event | None = None) -> None:
    """Record the changes in a policy since the last look.

    done: our action that made the change; otherwise an event is recorded for each.
    """
    table = tables.rollouts
    rows = connection.execute(select(table).where(table.c.model == policy.model)).mappings()
    before = {(row["channel"], row["release"]): dict(row) for row in rows}
    seen = [done] if done else []
    for channel, candidate in _candidates(policy):
        row = before.pop((channel, candidate.release), None)
        if row and all(row[name] == getattr(candidate, name) for name in CHANGES):
            continue
        if not done:
            seen.append(_difference(policy.model, channel, candidate))
        _note(connection, policy.model, channel, candidate, row, now)
    for channel, release in before:
        connection.execute(
            delete(table).where(
                table.c.model == policy.model,
                table.c.channel == channel,
                table.c.release == release,
            )
        )
        if not done:
            seen.append(Event("repository", "withdraw", policy.model, channel, release))
    for event in seen:
        record(connection, event, now)


def _candidates(policy: Policy) -> list[tuple[str, Candidate]]:
    """Return each release once a channel; the first entry of a release counts."""
    found: dict[tuple[str, str], Candidate] = {}
    for channel, candidates in policy.channels.items():
        for candidate in candidates:
            found.setdefault((channel, candidate.release), candidate)
    return [(channel, candidate) for (channel, _), candidate in found.items()]


def _difference(model: str, channel: str, candidate: Candidate) -> Event:
    action = "recall" if candidate.recall else "halt" if candidate.halt else "promote"
    percent = candidate.percent if action == "promote" else None
    return Event("repository", action, model, channel, candidate.release, percent)


def _note(
    connection: Connection,
    model: str,
    channel: str,
    candidate: Candidate,
    row: Mapping[str, Any] | None,
    now: float,
) -> None:
    stops = candidate.halt or candidate.recall
    goes_on = row is not None and (row["halt"] or row["recall"]) and not stops
    new = row is None or goes_on or row["salt"] != candidate.salt
    values: dict[str, Any] = {name: getattr(candidate, name) for name in CHANGES}
    values |= {"model": model, "channel": channel, "release": candidate.release}
    began = now if new else float(row["began"]) if row else now
    counts = _counts(connection, model, candidate.release, _day(began))
    values |= {"began": began, "step_began": now, "step_reports": counts["candidate"]["report"]}
    if row and not new:
        values["base"] = row["base"]
        if row["percent"] == candidate.percent:
            values |= {"step_began": row["step_began"], "step_reports": row["step_reports"]}
    else:
        values["base"] = {
            arm: {code: codes[code] for code in BASE_CODES} for arm, codes in counts.items()
        }
    table = tables.rollouts
    keys = [column.name for column in table.primary_key.columns]
    statement = insert(connection, table).values(values)
    others = {name: value for name, value in values.items() if name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=others))


def _counts(
    connection: Connection, model: str, release: str, since: date
) -> dict[str, Counter[str]]:
    """Return counts by code for a release's devices and for their control group."""
    found: dict[str, Counter[str]] = {"candidate": Counter(), "control": Counter()}
    for (of, arm), codes in totals(connection, model, since).items():
        if arm == "control" or (arm, of) == ("candidate", release):
            found[arm] += codes
    return found


def _day(now: float) -> date:
    return datetime.fromtimestamp(now, timezone.utc).date()


def rollouts(connection: Connection, policy: Policy, now: float) -> list[Rollout]:
    """Return the releases that a policy offers, with the counts since each began."""
    table = tables.rollouts
    rows = connection.execute(select(table).where(table.c.model == policy.model)).mappings()
    known = {(row["channel"], row["release"]): row for row in rows}
    found: list[Rollout] = []
    for channel, candidate in _candidates(policy):
        if not (row := known.get((channel, candidate.release))):
            continue
        since = max(_day(row["began"]), _day(now) - WINDOW)
        counts = _counts(connection, policy.model, candidate.release, since)
        reports = counts["candidate"]["report"] - row["step_reports"]
        if since == _day(row["began"]):
            for arm, codes in row["base"].items():
                counts[arm].subtract(codes)
        found.append(
            Rollout(
                policy.model,
                channel,
                candidate,
                row["began"],
                row["step_began"],
                max(0, reports),
                Sample.of(counts["candidate"]),
                Sample.of(counts["control"]),
            )
        )
    return found


def watch(engine: Engine, repository: Releases, now: float) -> list[Event]:
    """Check every rollout and stop the bad ones; return the actions taken.

    One replica does it at a time; the others find it done.
    """
    done: list[Event] = []
    with lock(engine, "watch", wait=False) as held:
        if not held:
            return done
        for model in repository.models():
            try:
                done += _watch_model(engine, repository, model, now)
            except PalmError as error:
                # The others are checked all the same.
                _log.error("not watched: %s: %s", model, error)
    return done


def _watch_model(engine: Engine, repository: Releases, model: str, now: float) -> list[Event]:
    policy = repository.policy(model)
    with writing(engine) as connection:
        observe(connection, policy, now)
        found = rollouts(connection, policy, now)
        burst = _has_burst(connection, model, now)
    done: list[Event] = []
    for rollout in found:
        candidate = rollout.candidate
        verdict, reason = rollout.verdict
        if burst and verdict != "recall":
            verdict, reason = "halt", BURST
        event = Event("rule", verdict, model, rollout.channel, candidate.release, None, reason)
        if verdict == "recall" and not candidate.recall:
            repository.recall(model, candidate.release, rollout.channel)
        elif verdict == "halt" and not (candidate.halt or candidate.recall):
            repository.halt(model, candidate.release, rollout.channel)
        else:
            continue
        _log.warning("%s %s of %s: %s", verdict, candidate.release, model, reason)
        with writing(engine) as connection:
            observe(connection, repository.policy(model), now, done=event)
        done.append(event)
    return done


def _has_burst(connection: Connection, model: str, now: float) -> bool:
    """Return whether signatures fail in a burst that was not reported today."""
    today = _day(now)
    events = tables.events
    midnight = datetime.combine(today, time(), timezone.utc).timestamp()
    told = select(events.c.id).where(
        events.c.model == model, events.c.reason == BURST, events.c.at >= midnight
    )
    if connection.execute(told.limit(1)).first():
        return False
    since = today - BURST_WINDOW
    now_codes = _sum(totals(connection, model, today))
    before = _sum(totals(connection, model, since)) - now_codes
    return is_burst(now_codes, before)


def _sum(found: Mapping[Any, Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for codes in found.values():
        total += codes
    return total
