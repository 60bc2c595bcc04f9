"""What lies in the client's folder: rotten, of another name, a pipe, readable by others."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from palmkit import engine
from palmkit.delivery import app, durable, golden
from palmkit.delivery.client import Client
from palmkit.delivery.clock import Clock
from palmkit.delivery.codes import Code
from palmkit.delivery.embedded import Embedded
from palmkit.delivery.policy import Candidate
from palmkit.delivery.reports.spool import Spool
from palmkit.delivery.store import BlobStore
from palmkit.engine.errors import DeliveryError, ModelError
from tests.delivery.devices import MODEL, Devices
from tests.delivery.fault_server import FaultServer, serving
from tests.delivery.network_devices import CONTENT, PATH, SHA256, Device
from tests.delivery.worlds import World, runs

CODES: tuple[Code, ...] = ("load_fail", "nan", "rollback")


def rot(path: Path) -> None:
    """Change a byte, and nothing that the file system says of the file but when that was."""
    found = path.stat()
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    with open(path, "r+b") as file:
        file.write(content)
    path.chmod(stat.S_IMODE(found.st_mode))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    after = path.stat()
    assert (found.st_size, found.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def blobs(folder: Path) -> list[Path]:
    return sorted((folder / "blobs/sha256").glob("*/*"))


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    return Devices(tmp_path)


def with_two(devices: Devices) -> Client:
    """A device whose release 2.0 was followed by 3.0."""
    client = devices.client()
    for factor in (2, 3):
        devices.published.publish(f"{factor}.0", devices.content(factor))
        devices.published.offer(Candidate(f"{factor}.0", 100))
        client.refresh(MODEL)
        client.mark_ok(client.get(MODEL, "local"))
        devices.time.pass_(minutes=1)
    return client


def model_of(devices: Devices, factor: float) -> Path:
    """The blob of a release."""
    sha256 = hashlib.sha256(devices.content(factor)).hexdigest()
    return devices.folder / "device/blobs/sha256" / sha256[:2] / sha256


@pytest.mark.parametrize("is_new_process", [True, False])
def test_what_rots_is_not_given_and_comes_anew(
    devices: Devices, is_new_process: bool, caplog: pytest.LogCaptureFixture
) -> None:
    client = with_two(devices)
    assert client.get(MODEL, "local").version == "3.0"
    rot(model_of(devices, 3))
    client = devices.client() if is_new_process else client
    with caplog.at_level(logging.WARNING):
        assert client.get(MODEL, "local").version == "2.0"
    assert "doubler 3.0: its files here were damaged" in caplog.text
    status = client.status(MODEL)
    assert status["last_error"] == "hash_mismatch: doubler 3.0: its files here were damaged"
    assert client.device.is_due(MODEL)
    client.refresh(MODEL)
    release = client.get(MODEL, "local")
    assert release.version == "3.0" and release.path.read_bytes() == devices.content(3)
    assert status["models"][0]["quarantine"] == []


def test_where_all_is_rotten_and_nobody_answers_the_embedded_model_runs(devices: Devices) -> None:
    with_two(devices)
    devices.published.fault = DeliveryError("check_fail_dns", "no such host")
    for blob in blobs(devices.folder / "device"):
        rot(blob)
    client = devices.client()
    assert client.get(MODEL, "latest").source == "embedded"
    devices.published.fault = None
    client.refresh(MODEL)
    assert client.get(MODEL, "local").version == "3.0"


def test_what_rots_before_it_is_loaded_is_not_loaded(devices: Devices) -> None:
    """The engine looks at the bytes that it maps, not at those that were hashed before."""
    release = with_two(devices).get(MODEL, "local")
    rot(release.path)
    with pytest.raises(ModelError, match="the checksum does not fit"):
        engine.load(release.path)


def test_where_nothing_may_be_written_what_is_here_runs(
    devices: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imitate a read-only file system, as modes do not stop root."""
    with_two(devices).close()
    original = os.open

    def only_read(path: Path, flags: int, *more: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return original(path, flags, *more)

    monkeypatch.setattr(os, "open", only_read)
    client = devices.client()
    assert client.get(MODEL, "local").version == "3.0"
    with pytest.raises(DeliveryError, match="Read-only file system"):
        client.refresh(MODEL)
    assert client.get(MODEL, "local").version == "3.0"
    assert client.status(MODEL)["models"][0]["active"] == "3.0"
    client.close()


@pytest.mark.parametrize("code", CODES)
def test_what_rots_while_it_runs_is_not_the_releases_fault(devices: Devices, code: Code) -> None:
    client = with_two(devices)
    release = client.get(MODEL, "local")
    rot(release.path)
    for _ in range(3):
        client.report_failure(release, code)
    assert client.get(MODEL, "local").version == "2.0"
    assert client.status(MODEL)["models"][0]["quarantine"] == []
    client.refresh(MODEL)
    assert client.get(MODEL, "local").version == "3.0"


def test_a_whole_release_that_fails_is_at_fault(devices: Devices) -> None:
    client = with_two(devices)
    client.report_failure(client.get(MODEL, "local"), "nan")
    assert [each["release"] for each in client.status(MODEL)["models"][0]["quarantine"]] == ["3.0"]


def test_what_rots_before_its_proof_is_not_the_releases_fault(devices: Devices) -> None:
    def prove(question: golden.Question) -> golden.Answer:
        rot(Path(question.model))
        return golden.Answer("load_fail", "it is damaged")

    devices.published.publish("2.0", devices.content(2))
    devices.published.offer(Candidate("2.0", 100))
    with pytest.raises(DeliveryError, match="was damaged on this device"):
        devices.client(prove=prove).refresh(MODEL)
    client = devices.client()
    client.refresh(MODEL)
    assert client.get(MODEL, "local").version == "2.0"


def test_a_copy_that_rots_beside_a_whole_blob_is_made_anew(
    devices: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", no_links)
    path = with_two(devices).get(MODEL, "local").path
    assert path.stat().st_ino != model_of(devices, 3).stat().st_ino
    rot(path)
    release = devices.client().get(MODEL, "local")
    assert release.version == "3.0" and release.path.read_bytes() == devices.content(3)


def test_a_process_without_files_to_open_forgets_no_release(
    devices: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_two(devices).close()
    client = devices.client()
    with monkeypatch.context() as patch:

        def full(path: Path) -> None:
            raise OSError(24, "Too many open files")

        patch.setattr(durable, "open_to_read", full)
        assert client.get(MODEL, "local").source == "embedded"
    assert client.get(MODEL, "local").version == "3.0"


def test_a_rotten_slot_is_a_state_begun_anew(devices: Devices) -> None:
    with_two(devices).close()
    for content in ("{", "[]", '{"model": 1, "channel": "stable"}', '{"starts": "x"}'):
        with sqlite3.connect(devices.folder / "device/state.db") as database:
            database.execute("UPDATE slots SET content = ?", (content,))
        database.close()
        client = devices.client()
        assert client.get(MODEL, "local").version == "3.0"
        client.close()


def test_a_rotten_manifest_or_fact_stops_no_model(devices: Devices) -> None:
    with_two(devices).close()
    with sqlite3.connect(devices.folder / "device/state.db") as database:
        database.execute("UPDATE releases SET manifest = replace(manifest, '3.0', '4.0')")
        database.execute("INSERT OR REPLACE INTO facts VALUES ('not_before', 'x')")
        database.execute("INSERT OR REPLACE INTO facts VALUES ('failed', 'x')")
        database.execute("INSERT OR REPLACE INTO facts VALUES ('asked_not_before', x'00')")
        database.execute("UPDATE policies SET content = x'7b'")
    database.close()
    client = devices.client()
    assert client.get(MODEL, "local").version in ("0", "2.0")
    client.get(MODEL)
    client.refresh(MODEL)
    assert client.get(MODEL, "local").version == "3.0"


def test_a_rotten_mark_of_the_clock_is_none(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    then = datetime(2027, 1, 1, tzinfo=timezone.utc)
    Clock(file).learn(then)
    assert Clock(file).mark == then
    file.write_bytes(file.read_bytes().replace(b"2027", b"2097"))
    assert Clock(file).mark.year == 2000
    file.write_text("2027-01-01T00:00:00+00:00 ")
    assert Clock(file).mark == then, "of an earlier version of PalmKit"


def test_a_rotten_file_of_the_wheel_is_fetched(
    devices: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = devices.client()
    digest = hashlib.sha256(devices.content(2)).hexdigest()
    embedded = client.device.embedded(MODEL)
    assert embedded is not None
    wrong = replace(embedded, sha256=digest)

    def embedded_in_wheel(model: str) -> Embedded:
        return wrong

    monkeypatch.setattr(client.device, "embedded", embedded_in_wheel)
    devices.published.publish("2.0", devices.content(2))
    devices.published.offer(Candidate("2.0", 100))
    client.refresh(MODEL)
    assert client.get(MODEL, "local").version == "2.0"


Plant = Callable[[Path, Path], object]


def link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def hard_link(path: Path, victim: Path) -> None:
    os.link(victim, path)


def pipe(path: Path, victim: Path) -> None:
    os.mkfifo(path)


PLANTS = (link, hard_link, pipe)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(b"of somebody else")
    return path


@pytest.fixture
def server() -> Generator[FaultServer]:
    with serving() as server:
        server.files[PATH] = CONTENT
        yield server


@pytest.mark.parametrize("kind", ["part", "json", "bad"])
@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_is_written_through_what_lies_in_tmp(
    tmp_path: Path, server: FaultServer, victim: Path, plant: Plant, kind: str
) -> None:
    device = Device(tmp_path / "store", server)
    device.have(b"")
    path = device.store.part(SHA256).with_suffix(f".{kind}")
    path.unlink(missing_ok=True)
    plant(path, victim)
    device.fetch()
    assert victim.read_bytes() == b"of somebody else"
    assert stat.S_IMODE(victim.stat().st_mode) != 0o400


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_added_and_decrypted_goes_through_nothing(
    tmp_path: Path, victim: Path, plant: Plant
) -> None:
    store = BlobStore(tmp_path / "blobs")
    store.add(b"makes the folders")
    plant(store.part(SHA256), victim)
    assert store.add(CONTENT).read_bytes() == CONTENT
    assert victim.read_bytes() == b"of somebody else"


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store = BlobStore(tmp_path / "blobs")
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs/tmp").symlink_to(elsewhere)
    with pytest.raises(DeliveryError, match="not a folder"):
        store.add(CONTENT)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("plant", PLANTS)
def test_a_blob_that_is_none_is_fetched_anew(
    tmp_path: Path, server: FaultServer, victim: Path, plant: Plant
) -> None:
    device = Device(tmp_path / "store", server)
    path = device.fetch()
    path.unlink()
    plant(path, victim)
    assert device.fetch().read_bytes() == CONTENT
    assert victim.read_bytes() == b"of somebody else"


# Of the client's folder, all that it reads or writes itself.
NAMES = (
    "state.db",
    "state.db-journal",
    "state.db-wal",
    "clock",
    "update.lock",
    "blobs/lock",
    "tuf/root.json",
    "tuf/timestamp.json",
    "tuf/snapshot.json",
    "tuf/root_history/1.root.json",
    "tuf/root_history/2.root.json",
    "repository.json",
    f"releases/{MODEL}/policy.json",
)


@pytest.mark.parametrize("plant", PLANTS)
def test_no_file_of_the_folder_leads_elsewhere(world: World, victim: Path, plant: Plant) -> None:
    world.with_first_release().close()
    world.promote("2.0.0")
    before = victim.read_bytes(), victim.stat().st_mode
    for name in NAMES:
        path = world.folder / "device" / name
        path.unlink(missing_ok=True)
        plant(path, victim)
    assert app.noted(world.folder / "device") == ((), b"")
    client = world.client()
    client.refresh(MODEL)
    assert runs(client) == "2.0.0"
    client.close()
    assert (victim.read_bytes(), victim.stat().st_mode) == before


def test_a_pipe_among_the_releases_is_not_waited_for(devices: Devices) -> None:
    client = with_two(devices)
    releases = devices.folder / "device/releases"
    pipes = [releases / MODEL / "pipe", releases / "other/pipe"]
    for each in pipes:
        each.parent.mkdir(exist_ok=True)
        os.mkfifo(each)
    collecting = threading.Thread(target=client.collect)
    collecting.start()
    collecting.join(10)
    for each in pipes:
        with suppress(OSError):
            os.close(os.open(each, os.O_WRONLY | os.O_NONBLOCK))
    collecting.join()
    assert not any(each.exists() for each in pipes)
    assert client.get(MODEL, "local").version == "3.0"


def test_a_copy_by_hard_links_stays_as_it_was(devices: Devices) -> None:
    with_two(devices).close()
    source, copy = devices.folder / "device", devices.folder / "copy"
    shutil.copytree(source, copy, copy_function=os.link)
    before = (copy / "state.db").read_bytes()
    client = devices.client()
    client.rollback(MODEL)
    client.close()
    assert (copy / "state.db").read_bytes() == before


@contextmanager
def umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def loose(folder: Path) -> list[str]:
    """What others may do something with, or its user cannot use."""
    found: list[str] = []
    for path in (folder, *folder.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        needed = 0o700 if path.is_dir() else 0o400
        if mode & 0o077 or mode & needed != needed:
            found.append(f"{path.relative_to(folder)}: {mode:o}")
    return found


@pytest.mark.parametrize("mask", [0, 0o022, 0o277])
def test_all_is_its_users_alone(world: World, mask: int) -> None:
    with umask(mask):
        client = world.client("fresh")
        client.refresh(MODEL)
        client.mark_ok(client.get(MODEL, "local"))
        with client.device.state.transaction():
            client.device.state.set_fact("x", 1)
            assert loose(world.folder / "fresh") == []
            assert (world.folder / "fresh/state.db-journal").exists()
        client.close()
    assert loose(world.folder / "fresh") == []


def test_an_older_folder_is_mended_when_it_is_opened(world: World) -> None:
    world.with_first_release().close()
    folder = world.folder / "device"
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    client = world.client()
    assert runs(client) == "1.0.0"
    assert loose(folder) == []


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["spool.db", "spool.db-journal"])
def test_the_reports_file_leads_nowhere_else(
    tmp_path: Path, victim: Path, plant: Plant, name: str
) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    plant(folder / name, victim)
    spool = Spool(folder / "spool.db")
    spool.add({(MODEL, "1.0", "", "stable", "load_ok", ""): 1}, {}, {})
    assert victim.read_bytes() == b"of somebody else"
    assert stat.S_IMODE((folder / "spool.db").stat().st_mode) == 0o600


def test_the_reports_file_is_its_users_alone(tmp_path: Path) -> None:
    with umask(0):
        spool = Spool(tmp_path / "reports/spool.db")
        spool.set_share(MODEL, 1.0)
        assert loose(tmp_path / "reports") == []
    spool.path.chmod(0o644)
    spool.set_share(MODEL, 1.0)
    assert loose(tmp_path / "reports") == []
