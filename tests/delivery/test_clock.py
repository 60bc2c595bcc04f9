"""Expiry by a clock that may be wrong: behind, ahead, or lied to."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from palmkit.delivery.clock import BUILT, Clock
from palmkit.delivery.trust import SIGNED_AT, Remote
from tests.delivery.fault_server import FaultServer, serving
from tests.delivery.network_devices import Time, refused, remote_of
from tests.delivery.tuf_repository import TufRepository


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving() as server:
        yield server


@pytest.fixture
def repository(server: FaultServer) -> TufRepository:
    return TufRepository(server.files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tuf"


@pytest.fixture
def remote(folder: Path, repository: TufRepository, server: FaultServer) -> Remote:
    return remote_of(folder, repository, server)


def test_a_clock_that_is_ahead_makes_stale_and_harms_nothing(
    folder: Path, repository: TufRepository, server: FaultServer
) -> None:
    time = Time()
    remote = remote_of(folder, repository, server, wall=time)
    remote.refresh()
    time.days = 400
    assert refused(remote) == "expired"
    time.days = 0
    remote.refresh()


def test_a_clock_that_was_set_back_does_not_revive_what_is_expired(
    folder: Path, repository: TufRepository, server: FaultServer
) -> None:
    time = Time()
    remote = remote_of(folder, repository, server, wall=time)
    signed = datetime.now(timezone.utc).replace(microsecond=0)
    timestamp = repository.roles["timestamp"]
    timestamp.unrecognized_fields[SIGNED_AT] = signed.isoformat().replace("+00:00", "Z")
    repository.bump()
    remote.refresh()
    time.days = -3650
    remote = remote_of(folder, repository, server, wall=time)
    remote.refresh()
    for role in ("timestamp", "snapshot"):
        repository.roles[role].expires = signed - timedelta(days=100)
    repository.bump()
    assert refused(remote) == "expired"
    assert refused(remote_of(folder, repository, server, wall=time)) == "expired"


def test_the_build_date_bounds_a_clock_that_was_never_set(
    folder: Path, repository: TufRepository, server: FaultServer
) -> None:
    time = Time()
    time.days = -20000
    for role in ("timestamp", "snapshot"):
        repository.roles[role].expires = datetime.now(timezone.utc) - timedelta(days=2)
    repository.bump()
    now = datetime.now(timezone.utc)
    assert refused(remote_of(folder, repository, server, wall=time, not_before=now)) == "expired"
    remote_of(folder, repository, server, wall=time).refresh()


def test_a_stolen_key_cannot_freeze_a_device_beyond_its_replacement(
    folder: Path, repository: TufRepository, server: FaultServer, remote: Remote
) -> None:
    timestamp = repository.roles["timestamp"]
    expires = timestamp.expires
    timestamp.unrecognized_fields[SIGNED_AT] = "2090-01-01T00:00:00Z"
    timestamp.expires = datetime(2091, 1, 1, tzinfo=timezone.utc)
    repository.bump()
    remote.refresh()
    assert refused(remote) == "expired"
    del timestamp.unrecognized_fields[SIGNED_AT]
    timestamp.expires = expires
    repository.rotate("timestamp")
    repository.bump()
    remote.refresh()


def test_a_time_that_is_no_time_is_not_learned(
    remote: Remote, repository: TufRepository, folder: Path
) -> None:
    for value in ("soon", 7, None, "2026-99-99", "9" * 5000):
        repository.roles["timestamp"].unrecognized_fields[SIGNED_AT] = value
        repository.bump()
        remote.refresh()
    assert not (folder / "clock").exists()


def test_the_clock_keeps_its_mark_and_survives_its_loss(tmp_path: Path) -> None:
    file, time = tmp_path / "clock", Time()
    day = timedelta(days=1)
    clock = Clock(file, wall=time)
    clock.learn(time() + 2 * day)
    assert clock.is_behind and clock.now() == clock.mark
    clock.learn(time())
    assert Clock(file, wall=time).mark == clock.mark > time() + day
    time.days = 1.5
    assert not clock.is_behind and clock.now() > clock.mark - day
    for text in (b"", b"never", b"\xff", b"2026-01-01T00:00:00"):
        file.write_bytes(text)
        assert not Clock(file, wall=time).is_behind


def test_a_device_without_a_mark_knows_when_it_was_built(tmp_path: Path) -> None:
    early = datetime(2026, 1, 1, tzinfo=timezone.utc)
    clock = Clock(tmp_path / "clock", BUILT, lambda: early)
    assert clock.now() == BUILT and clock.is_behind
    assert datetime.now(timezone.utc) > BUILT
