import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from palmkit.delivery.policy import Candidate
from palmkit.delivery.repository import Repository
from palmkit.delivery.server import tables
from palmkit.delivery.server.counting import Vocabulary, store
from palmkit.delivery.server.database import connect, lock, writing
from palmkit.delivery.server.rollouts import Event, Gates, Rollout, rollouts, watch
from palmkit.delivery.server.rule import Sample
from palmkit.engine.errors import RepositoryError
from tests.delivery.releases import make_repository
from tests.delivery.server.fleet_reports import make_report
from tests.delivery.server.test_counting import NOW

HOUR_S = 3600.0
DAY = "2026-11-22"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Release 1.0.0 everywhere, 1.1.0 for 1 %."""
    repository = make_repository(tmp_path, "doubler", "1.0.0", "1.1.0")
    repository.promote("doubler", "1.0.0")
    repository.promote("doubler", "1.1.0", percent=1)
    return repository


def tell(
    database: Engine,
    release: str,
    arm: str,
    codes: Mapping[str, int],
    devices: int = 1,
    day: str = DAY,
) -> None:
    """Reports of so many devices, with these counts in all."""
    shares: list[dict[str, int]] = [
        {code: n // devices + (i < n % devices) for code, n in codes.items()}
        for i in range(devices)
    ]
    reports = [
        make_report((release, arm, {code: n for code, n in share.items() if n}), day=day)
        for share in shares
    ]
    with writing(database) as connection:
        store(connection, reports, Vocabulary(), NOW)


def newest(repository: Repository) -> Candidate:
    return repository.policy("doubler").channels["stable"][0]


def now_seen(database: Engine, repository: Repository, now: float = NOW) -> Rollout:
    with database.connect() as connection:
        found = rollouts(connection, repository.policy("doubler"), now)
    return next(each for each in found if each.candidate.release == "1.1.0")


def events(database: Engine) -> list[tuple[Any, ...]]:
    table = tables.events
    with database.connect() as connection:
        columns = (table.c.by, table.c.action, table.c.release, table.c.percent)
        return [tuple(row) for row in connection.execute(select(*columns).order_by(table.c.id))]


def test_a_bad_release_is_recalled_and_said_why(database: Engine, repository: Repository) -> None:
    assert watch(database, repository, NOW) == []
    tell(database, "1.0.0", "control", {"load_ok": 200}, 20)
    tell(database, "1.1.0", "candidate", {"crash_trial": 190, "load_ok": 10, "rollback": 95}, 20)
    (done,) = watch(database, repository, NOW + 60)
    assert (done.by, done.action, done.release) == ("rule", "recall", "1.1.0")
    assert newest(repository).halt and newest(repository).recall
    assert "fails in 95.00% of 200 loads" in done.reason
    # It is done once, and the release below it is left alone.
    assert watch(database, repository, NOW + 120) == []
    assert not repository.policy("doubler").channels["stable"][1].halt
    assert events(database) == [
        ("repository", "promote", "1.1.0", 1),
        ("repository", "promote", "1.0.0", 100),
        ("rule", "recall", "1.1.0", None),
    ]


def test_a_worse_release_is_halted_and_a_good_one_is_not(
    database: Engine, repository: Repository
) -> None:
    watch(database, repository, NOW)
    tell(database, "1.0.0", "control", {"load_ok": 1990, "load_fail": 10}, 30)
    tell(database, "1.1.0", "candidate", {"load_ok": 1985, "load_fail": 15}, 30)
    assert watch(database, repository, NOW) == []
    assert now_seen(database, repository).verdict[0] == "good"
    tell(database, "1.1.0", "candidate", {"load_fail": 60}, 30)
    assert [each.action for each in watch(database, repository, NOW)] == ["halt"]
    assert newest(repository).halt and not newest(repository).recall


def test_what_was_counted_before_it_began_does_not_count(
    database: Engine, repository: Repository
) -> None:
    # Devices of an earlier control arm, on the same day.
    tell(database, "1.0.0", "control", {"load_ok": 100, "load_fail": 400}, 20)
    watch(database, repository, NOW)
    assert now_seen(database, repository).control == Sample()
    tell(database, "1.0.0", "control", {"load_ok": 300}, 20)
    seen = now_seen(database, repository)
    assert (seen.control, seen.sample) == (Sample(300, 0, 0), Sample())


def test_going_on_after_a_halt_starts_anew(database: Engine, repository: Repository) -> None:
    watch(database, repository, NOW)
    tell(database, "1.0.0", "control", {"load_ok": 500}, 20)
    tell(database, "1.1.0", "candidate", {"load_fail": 100}, 20)
    assert [each.action for each in watch(database, repository, NOW)] == ["recall"]
    # A person looked at it and says that it was something else.
    repository.promote("doubler", "1.1.0", percent=1)
    assert watch(database, repository, NOW + HOUR_S) == []
    seen = now_seen(database, repository)
    assert seen.began == NOW + HOUR_S and seen.sample == Sample()
    tell(database, "1.0.0", "control", {"load_ok": 100}, 20)
    tell(database, "1.1.0", "candidate", {"load_fail": 100}, 20)
    assert [each.action for each in watch(database, repository, NOW + HOUR_S)] == ["recall"]


def test_the_gate_of_a_step(database: Engine, repository: Repository) -> None:
    gates = Gates(6 * HOUR_S, reports=10)
    watch(database, repository, NOW)
    tell(database, "1.1.0", "candidate", {"load_ok": 9}, 9)
    seen = now_seen(database, repository)
    assert (seen.step_reports, seen.next_percent) == (9, 5)
    assert not seen.gate_is_open(gates, NOW + 7 * HOUR_S)
    tell(database, "1.1.0", "candidate", {"load_ok": 1}, 1)
    seen = now_seen(database, repository)
    assert not seen.gate_is_open(gates, NOW + 5.9 * HOUR_S)
    assert seen.gate_is_open(gates, NOW + 6 * HOUR_S)
    repository.promote("doubler", "1.1.0", percent=5)
    watch(database, repository, NOW + 7 * HOUR_S)
    seen = now_seen(database, repository)
    assert (seen.began, seen.step_began) == (NOW, NOW + 7 * HOUR_S)
    assert (seen.step_reports, seen.sample.loads, seen.next_percent) == (0, 10, 20)


def test_a_burst_of_bad_signatures_halts_once_a_day(
    database: Engine, repository: Repository
) -> None:
    watch(database, repository, NOW)
    tell(database, "1.0.0", "stable", {"check_ok": 900}, 10, day="2026-11-20")
    tell(database, "1.0.0", "stable", {"check_ok": 200, "sig_fail": 300}, 10)
    done = watch(database, repository, NOW)
    assert {(each.action, each.release) for each in done} == {("halt", "1.0.0"), ("halt", "1.1.0")}
    assert {each.reason for each in done} == {
        "signatures fail far more often than in the last days"
    }
    repository.promote("doubler", "1.1.0", percent=1)
    assert watch(database, repository, NOW + 60) == []


def test_two_replicas_do_not_act_at_once(database: Engine, repository: Repository) -> None:
    other = connect(database.url.render_as_string(hide_password=False))
    watch(database, repository, NOW)
    tell(database, "1.0.0", "control", {"load_ok": 500}, 20)
    tell(database, "1.1.0", "candidate", {"load_fail": 100}, 20)
    with lock(other, "watch"):
        assert watch(database, repository, NOW) == []
    assert len(watch(other, repository, NOW)) == 1
    assert watch(database, repository, NOW) == []
    assert repository.policy("doubler").epoch == 4
    other.dispose()


def test_one_model_that_fails_does_not_hide_the_others(
    database: Engine,
    repository: Repository,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repository, "models", lambda: ("absent", "doubler"))
    with caplog.at_level(logging.CRITICAL):
        watch(database, repository, NOW)
    assert now_seen(database, repository).began == NOW
    with pytest.raises(RepositoryError):
        repository.policy("absent")


def test_a_release_that_is_taken_off_a_channel_is_forgotten(
    database: Engine, repository: Repository
) -> None:
    watch(database, repository, NOW)
    with writing(database) as connection:
        from dataclasses import replace

        from palmkit.delivery.server.rollouts import observe

        policy = repository.policy("doubler")
        observe(connection, replace(policy, channels={"stable": ()}), NOW)
        observe(connection, policy, NOW + 60, Event("person", "promote", "doubler", "stable"))
    assert [each[:3] for each in events(database)][2:] == [
        ("repository", "withdraw", "1.0.0"),
        ("repository", "withdraw", "1.1.0"),
        ("person", "promote", ""),
    ]
    assert now_seen(database, repository).began == NOW + 60
