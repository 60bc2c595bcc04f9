"""The state of the fleet and the repository for the page, as one JSON object.

Numbers of groups that are too small to hide a single device are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

from sqlalchemy import Connection, Engine, func, select

from palmkit.delivery.manifest import Manifest
from palmkit.delivery.policy import Policy
from palmkit.delivery.repository.rollout import usable
from palmkit.delivery.server import tables
from palmkit.delivery.server.rollouts import Gates, Releases, Rollout, rollouts
from palmkit.delivery.server.rule import Sample

MIN_GROUP = 20
MOST_EVENTS = 50
MOST_ERRORS = 20
BUCKETS = 32


def iso(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")


def state(
    engine: Engine, repository: Releases | None, gates: Gates, now: float, days: int
) -> dict[str, Any]:
    """Return the state over the last `days` days; delivery/SERVER.md describes the fields."""
    today = datetime.fromtimestamp(now, timezone.utc).date()
    since = today - timedelta(days=days - 1)
    with engine.connect() as connection:
        return {
            "schema": 1,
            "now": iso(now),
            "days": days,
            "min_group": MIN_GROUP,
            "server": {"database": engine.dialect.name, "signs": repository is not None},
            "repository": _expires(repository.expires()) if repository else {},
            "fleet": _fleet(connection, since),
            "platforms": _platforms(connection, max(since, today - timedelta(days=6))),
            "dropped": _dropped(connection, since),
            "models": [
                _model(connection, repository, model, gates, now, since)
                for model in repository.models()
            ]
            if repository
            else [],
        }


def _expires(ends: Mapping[str, str]) -> dict[str, str]:
    return {f"{role}_expires": end for role, end in ends.items()}


def _enough(devices: int) -> int | None:
    return devices if devices >= MIN_GROUP else None


def _fleet(connection: Connection, since: date) -> list[dict[str, Any]]:
    table = tables.fleet
    again = table.c.since_last == "0"
    query = select(table.c.day, again, func.sum(table.c.n)).group_by(table.c.day, again)
    days: dict[date, Counter[str]] = {}
    for day, is_again, n in connection.execute(query.where(table.c.day >= since)):
        counts = days.setdefault(day, Counter())
        counts["reports"] += int(n)
        counts["devices"] += 0 if is_again else int(n)
    return [
        {
            "day": day.isoformat(),
            "devices": _enough(counts["devices"]),
            "reports": counts["reports"],
        }
        for day, counts in sorted(days.items())
    ]


def _platforms(connection: Connection, since: date) -> list[dict[str, Any]]:
    table, kinds = tables.fleet, tables.platforms
    query = (
        select(kinds, func.sum(table.c.n).label("n"))
        .join(table, table.c.platform == kinds.c.id)
        .where(table.c.day >= since)
        .group_by(*kinds.columns)
    )
    found: Counter[tuple[str, ...]] = Counter()
    names = [column.name for column in kinds.columns if column.name != "id"]
    for row in connection.execute(query).mappings():
        kind = tuple(row[name] for name in names)
        found[kind if row["n"] >= MIN_GROUP else ("other",) * len(names)] += int(row["n"])
    return [dict(zip(names, kind, strict=True)) | {"reports": n} for kind, n in found.most_common()]


def _dropped(connection: Connection, since: date) -> list[dict[str, Any]]:
    table = tables.dropped
    query = select(table).where(table.c.day >= since).order_by(table.c.day, table.c.reason)
    return [
        {"day": row["day"].isoformat(), "reason": row["reason"], "n": row["n"]}
        for row in connection.execute(query).mappings()
    ]


def _model(
    connection: Connection,
    repository: Releases,
    model: str,
    gates: Gates,
    now: float,
    since: date,
) -> dict[str, Any]:
    policy = repository.policy(model)
    groups, daily = _groups(connection, model, since)
    return {
        "model": model,
        "epoch": policy.epoch,
        "floor": policy.floor,
        "revoked": sorted(policy.revoked),
        "releases": [
            _release(repository.manifest(model, release), policy)
            for release in reversed(repository.releases(model))
        ],
        "channels": {
            channel: [
                vars(candidate) | {"when": list(map(vars, candidate.when))} for candidate in c
            ]
            for channel, c in policy.channels.items()
        },
        "usable": {channel: usable(policy, channel) for channel in policy.channels},
        "rollouts": [
            _rollout(rollout, gates, now) for rollout in rollouts(connection, policy, now)
        ],
        "groups": groups,
        "daily": daily,
        "errors": _errors(connection, model, since),
        "events": _events(connection, model),
    }


def _release(manifest: Manifest, policy: Policy) -> dict[str, Any]:
    return {
        "release": manifest.release,
        "created": manifest.created,
        "size": sum(file.size for file in manifest.files),
        "notes": manifest.notes,
        "metrics": dict(manifest.metrics),
        "revoked": manifest.release in policy.revoked,
    }


def _sample(sample: Sample) -> dict[str, Any]:
    low, high = sample.interval
    return vars(sample) | {"rate": sample.rate, "low": low, "high": high}


def _rollout(rollout: Rollout, gates: Gates, now: float) -> dict[str, Any]:
    verdict, reason = rollout.verdict
    return {
        "release": rollout.candidate.release,
        "channel": rollout.channel,
        "percent": rollout.candidate.percent,
        "began": iso(rollout.began),
        "step_began": iso(rollout.step_began),
        "candidate": _sample(rollout.sample),
        "control": _sample(rollout.control),
        "verdict": verdict,
        "reason": reason,
        "next_percent": rollout.next_percent,
        "gate": gate(rollout, gates, now),
    }


def gate(rollout: Rollout, gates: Gates, now: float) -> dict[str, Any]:
    """Return whether a rollout may go a step further, and what is missing."""
    return {
        "open": rollout.gate_is_open(gates, now),
        "opens": iso(rollout.step_began + gates.wait_s),
        "reports": rollout.step_reports,
        "needs_reports": gates.reports,
    }


def _groups(
    connection: Connection, model: str, since: date
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return counts by release and arm: over all days, and for each day."""
    table = tables.counters
    keys = (table.c.release, table.c.arm, table.c.day, table.c.code)
    query = select(*keys, func.sum(table.c.n)).group_by(*keys)
    query = query.where(table.c.model == model, table.c.day >= since)
    by_day: dict[tuple[str, str, date], Counter[str]] = {}
    for release, arm, day, code, n in connection.execute(query):
        by_day.setdefault((release, arm, day), Counter())[code] += int(n)
    whole: dict[tuple[str, str], Counter[str]] = {}
    daily: list[dict[str, Any]] = []
    for (release, arm, day), codes in sorted(by_day.items()):
        whole.setdefault((release, arm), Counter()).update(codes)
        entry: dict[str, Any] = {"day": day.isoformat(), "release": release, "arm": arm}
        daily.append(entry | _shown(codes, codes["device"]))
    histograms = _histograms(connection, model, since)
    groups: list[dict[str, Any]] = []
    for (release, arm), codes in sorted(whole.items()):
        # Devices of different days cannot be told apart, so those of the busiest day count.
        most = max(c["device"] for (r, a, _), c in by_day.items() if (r, a) == (release, arm))
        entry = {"release": release, "arm": arm} | _shown(codes, most)
        if not entry["hidden"]:
            low, high = Sample.of(codes).interval
            seen = {code: n for code, n in codes.items() if code not in ("report", "device")}
            entry |= {"low": low, "high": high, "codes": seen}
            entry["histograms"] = histograms.get((release, arm), {})
        groups.append(entry)
    return groups, daily


def _shown(codes: Mapping[str, int], devices: int) -> dict[str, Any]:
    if devices < MIN_GROUP:
        return {"hidden": True}
    sample = Sample.of(codes)
    return {
        "hidden": False,
        "devices": devices,
        "loads": sample.loads,
        "failures": sample.failures,
        "rate": sample.rate,
    }


def _histograms(
    connection: Connection, model: str, since: date
) -> dict[tuple[str, str], dict[str, list[int]]]:
    table = tables.histograms
    keys = (table.c.release, table.c.arm, table.c.name, table.c.bucket)
    query = select(*keys, func.sum(table.c.n)).group_by(*keys)
    query = query.where(table.c.model == model, table.c.day >= since)
    found: dict[tuple[str, str], dict[str, list[int]]] = {}
    for release, arm, name, bucket, n in connection.execute(query):
        counts = found.setdefault((release, arm), {}).setdefault(name, [0] * BUCKETS)
        counts[bucket] += int(n)
    return found


def _errors(connection: Connection, model: str, since: date) -> list[dict[str, Any]]:
    table = tables.errors
    keys = (table.c.release, table.c.code, table.c.error)
    total = func.sum(table.c.n)
    query = select(*keys, total).group_by(*keys).order_by(total.desc()).limit(MOST_ERRORS)
    query = query.where(table.c.model == model, table.c.day >= since).having(total >= MIN_GROUP)
    names = ("release", "code", "error", "n")
    rows = ((release, code, error, int(n)) for release, code, error, n in connection.execute(query))
    return [dict(zip(names, row, strict=True)) for row in rows]


def _events(connection: Connection, model: str) -> list[dict[str, Any]]:
    table = tables.events
    query = select(table).where(table.c.model == model)
    query = query.order_by(table.c.at.desc(), table.c.id.desc()).limit(MOST_EVENTS)
    names = ("by", "action", "channel", "release", "percent", "reason")
    return [
        {"at": iso(row["at"])} | {name: row[name] for name in names}
        for row in connection.execute(query).mappings()
    ]
