"""The server's tables: counts of devices' reports, rollouts under watch, and actions.

Nothing here is about one device. The same tables lie in SQLite and in PostgreSQL; migrations/ makes
them, and a test compares the two descriptions.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()


def _name(name: str) -> Column[str]:
    return Column(name, String(64), primary_key=True)


def _time(name: str, index: bool = False) -> Column[float]:
    """Return a column of seconds since 1970, UTC."""
    return Column(name, Float, nullable=False, index=index)


def _count() -> Column[int]:
    return Column("n", BigInteger, nullable=False)


# Ids of the reports of the last two days, so that one sent again is not counted again.
reports = Table(
    "reports",
    metadata,
    Column("id", String(32), primary_key=True),
    _time("received", index=True),
)

# Kinds of devices. The id is derived from the kind, so that replicas need not ask for it.
platforms = Table(
    "platforms",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("sdk", String(64), nullable=False),
    Column("os", String(64), nullable=False),
    Column("arch", String(64), nullable=False),
    Column("memory_class", String(64), nullable=False),
    Column("accelerator", String(64), nullable=False),
)

# code: one of codes.CODES; "report" counts reports with this release and arm, "device" those among
# them that are the first of a device that day.
counters = Table(
    "counters",
    metadata,
    _name("model"),
    Column("day", Date, primary_key=True),
    _name("release"),
    _name("arm"),
    _name("code"),
    _name("previous"),
    Column("platform", BigInteger, primary_key=True, autoincrement=False),
    _count(),
)

# Places in our own code where something failed, as hashes.
errors = Table(
    "errors",
    metadata,
    _name("model"),
    Column("day", Date, primary_key=True),
    _name("release"),
    _name("code"),
    _name("error"),
    _count(),
)

histograms = Table(
    "histograms",
    metadata,
    _name("model"),
    Column("day", Date, primary_key=True),
    _name("release"),
    _name("arm"),
    _name("name"),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    _count(),
)

# Reports by kind of device and by the time since its last one.
fleet = Table(
    "fleet",
    metadata,
    Column("day", Date, primary_key=True),
    Column("platform", BigInteger, primary_key=True, autoincrement=False),
    _name("since_last"),
    _count(),
)

# Counts that devices report as not sent.
dropped = Table(
    "dropped",
    metadata,
    Column("day", Date, primary_key=True),
    _name("reason"),
    _count(),
)

# A release that a channel offers, as the halt rule follows it. base: counts of candidate and
# control when it began; step_reports: reports of candidates when the present percent began.
rollouts = Table(
    "rollouts",
    metadata,
    _name("model"),
    _name("channel"),
    _name("release"),
    Column("salt", String(256), nullable=False),
    Column("percent", Float, nullable=False),
    Column("halt", Boolean, nullable=False),
    Column("recall", Boolean, nullable=False),
    _time("began"),
    _time("step_began"),
    Column("base", JSON, nullable=False),
    Column("step_reports", BigInteger, nullable=False),
)

# Who changed what; by: "rule", "person" (on the page) or "repository" (seen in the policy).
events = Table(
    "events",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    _time("at"),
    Column("by", String(64), nullable=False),
    Column("action", String(64), nullable=False),
    Column("model", String(64), nullable=False, index=True),
    Column("channel", String(64), nullable=False),
    Column("release", String(64), nullable=False),
    Column("percent", Float),
    Column("reason", Text, nullable=False),
)
