from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, select

from palmkit.delivery.server.database import add, connect, lock, migrate, writing
from palmkit.delivery.server.tables import dropped, metadata
from palmkit.engine.errors import RepositoryError

DAY = "2026-11-21"


def test_the_migrations_make_the_tables(database: Engine) -> None:
    with database.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, "alembic_version"}


def test_replicas_that_start_at_once_migrate_once(url: str) -> None:
    engines = [connect(url) for _ in range(4)]
    with ThreadPoolExecutor(len(engines)) as threads:
        list(threads.map(migrate, engines))
    assert "counters" in inspect(engines[0]).get_table_names()
    for engine in engines:
        engine.dispose()


def test_counts_add_up_whoever_adds_them(database: Engine) -> None:
    def work(offset: int) -> None:
        for step in range(20):
            # In opposite orders: replicas that locked rows as they came would wait in a ring.
            reasons = ["full", "old", "refused"][:: 1 if (offset + step) % 2 else -1]
            with writing(database) as connection:
                add(connection, dropped, {(DAY, reason): 1 for reason in reasons})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    with database.connect() as connection:
        rows = connection.execute(select(dropped.c.reason, dropped.c.n)).all()
    assert sorted(map(tuple, rows)) == [("full", 80), ("old", 80), ("refused", 80)]


def test_a_lock_has_one_holder(database: Engine) -> None:
    other = connect(database.url.render_as_string(hide_password=False))
    with lock(database, "watch") as held:
        assert held
        with lock(other, "watch", wait=False) as also:
            assert not also
        with lock(other, "resign", wait=False) as also:
            assert also
    with lock(other, "watch", wait=False) as held:
        assert held
    other.dispose()


def test_a_database_of_another_kind_is_refused() -> None:
    with pytest.raises(
        RepositoryError, match="database: expected sqlite or postgresql, got 'mysql'"
    ):
        connect("mysql://host/name")
