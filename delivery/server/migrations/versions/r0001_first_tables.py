"""The first tables."""

from __future__ import annotations

from datetime import date
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _counts(table: str, *keys: sa.Column[Any]) -> None:
    names = [key.name for key in keys]
    op.create_table(
        table,
        *keys,
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(*names),
    )


def _name(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(64), nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _time(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Float, nullable=False)


def _day() -> sa.Column[date]:
    return sa.Column("day", sa.Date, nullable=False)


def upgrade() -> None:
    """Make the tables."""
    op.create_table("reports", sa.Column("id", sa.String(32), primary_key=True), _time("received"))
    op.create_index("ix_reports_received", "reports", ["received"])
    op.create_table(
        "platforms",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        *map(_name, ("sdk", "os", "arch", "memory_class", "accelerator")),
    )
    _counts(
        "counters",
        _name("model"),
        _day(),
        *map(_name, ("release", "arm", "code", "previous")),
        _number("platform"),
    )
    _counts("errors", _name("model"), _day(), *map(_name, ("release", "code", "error")))
    _counts(
        "histograms",
        _name("model"),
        _day(),
        *map(_name, ("release", "arm", "name")),
        sa.Column("bucket", sa.Integer, nullable=False),
    )
    _counts("fleet", _day(), _number("platform"), _name("since_last"))
    _counts("dropped", _day(), _name("reason"))
    op.create_table(
        "rollouts",
        *map(_name, ("model", "channel", "release")),
        sa.Column("salt", sa.String(256), nullable=False),
        sa.Column("percent", sa.Float, nullable=False),
        sa.Column("halt", sa.Boolean, nullable=False),
        sa.Column("recall", sa.Boolean, nullable=False),
        _time("began"),
        _time("step_began"),
        sa.Column("base", sa.JSON, nullable=False),
        _number("step_reports"),
        sa.PrimaryKeyConstraint("model", "channel", "release"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        _time("at"),
        *map(_name, ("by", "action", "model", "channel", "release")),
        sa.Column("percent", sa.Float),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("ix_events_model", "events", ["model"])


def downgrade() -> None:
    """Remove the tables with all that they hold."""
    for table in ("events", "rollouts", "dropped", "fleet", "histograms", "errors", "counters"):
        op.drop_table(table)
    op.drop_table("platforms")
    op.drop_table("reports")
