"""The delivery client where names belong to whoever has the file open: Windows."""

import hashlib
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from palmkit import engine
from palmkit.delivery import durable, lock
from palmkit.delivery.running import Processes
from palmkit.delivery.store import BlobStore
from palmkit.engine.replacing import move, replacing
from tests.delivery.worlds import MODEL, World, runs
from tests.platforms.windows import is_open, windows

CONTENT = b"a model" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
# What is left for the folder of an app's data where paths have 260 characters at most.
LONGEST = 260 - len("C:/Users/someone.with.a.long.name/AppData/Local/Company/Application/")


@pytest.fixture
def on_windows() -> Iterator[None]:
    with windows():
        yield


def test_the_stand_in_keeps_names(tmp_path: Path, on_windows: None) -> None:
    part, target = tmp_path / "part", tmp_path / "target"
    part.write_bytes(b"new")
    target.write_bytes(b"old")
    with target.open("rb"), pytest.raises(PermissionError):
        os.replace(part, target)
    target.chmod(0o400)
    with pytest.raises(PermissionError):
        target.unlink()
    target.chmod(0o600)
    os.replace(part, target)
    mapped = np.memmap(target, np.uint8, "r")
    assert is_open(target) and mapped[0] == ord("n")


def test_a_file_that_is_open_for_a_moment_is_waited_for(tmp_path: Path, on_windows: None) -> None:
    part, target = tmp_path / "part", tmp_path / "target"
    part.write_bytes(b"new")
    target.write_bytes(b"old")
    file = target.open("rb")
    threading.Timer(0.05, file.close).start()
    move(part, target)
    assert target.read_bytes() == b"new"


def test_a_file_that_stays_open_stays(tmp_path: Path, on_windows: None) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"old")
    started = time.monotonic()
    with target.open("rb"), pytest.raises(PermissionError) as raised, replacing(target) as part:
        part.write_bytes(b"new")
    assert time.monotonic() - started < 2
    assert raised.value.filename == str(target) and target.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [target]


def test_blobs_come_and_go(tmp_path: Path, on_windows: None) -> None:
    store = BlobStore(tmp_path / "blobs")
    path = store.add(CONTENT)
    assert store.path(SHA256) == path
    path.write_bytes(b"b" + CONTENT[1:])
    assert store.path(SHA256) is None and not path.exists()
    path = store.add(CONTENT)
    with path.open("rb"):
        assert store.collect(()) == 0 and path.exists()
    assert store.collect(()) == len(CONTENT) and not path.exists()


def test_links_are_not_followed_without_a_flag_for_it(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"of somebody else")
    link.symlink_to(real)
    with windows(), pytest.raises(OSError, match="a link"):
        durable.read(link)


def test_a_process_that_another_looks_at_ends(tmp_path: Path, on_windows: None) -> None:
    processes, others = Processes(tmp_path), Processes(tmp_path)
    token = processes.token()
    assert not others.is_dead(token)
    with (tmp_path / f"{token}.lock").open("rb"):
        processes.leave()
        assert others.is_dead(token)
    assert others.is_dead(token) and not [*tmp_path.iterdir()]


def test_a_model_is_updated_while_the_old_one_runs(world: World, on_windows: None) -> None:
    client = world.with_first_release()
    assert runs(client) == "1.0.0"
    release = client.get(MODEL, "local")
    # Its file is mapped for as long as it lives.
    model = engine.load(release.path)
    assert is_open(release.path)
    world.promote("2.0.0")
    assert runs(client, "latest") == "2.0.0"
    client.mark_ok(MODEL)
    client.collect()
    client.close()
    client = world.client()
    assert runs(client) == "2.0.0"
    assert client.collect() >= 0
    assert np.isfinite(model.run({"x": np.ones((1, 16), np.float32)})["y"]).all()
    client.close()


@pytest.fixture
def lock_of_windows(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of locks as Windows imports it, on a stand-in for msvcrt."""
    import fcntl

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert count == 1
        try:
            fcntl.flock(descriptor, mode)
        except BlockingIOError:
            raise PermissionError(13, "permission denied") from None

    stand_in = SimpleNamespace(
        locking=locking, LK_NBLCK=fcntl.LOCK_EX | fcntl.LOCK_NB, LK_UNLCK=fcntl.LOCK_UN
    )
    monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
    monkeypatch.setattr(sys, "platform", "win32")
    spec = importlib.util.spec_from_file_location("lock_of_windows", lock.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.undo()
    return module


def test_locks_without_fcntl(lock_of_windows: ModuleType, tmp_path: Path) -> None:
    one, other = (lock_of_windows.FileLock(tmp_path / "lock") for _ in range(2))
    one.acquire(0)
    with pytest.raises(lock_of_windows.Held):
        other.acquire(0.1)
    one.release()
    other.acquire(0)
    other.release()
    other.release()


def test_paths_in_a_store_are_short(world: World) -> None:
    client = world.with_first_release()
    client.close()
    folder = world.folder / "device"
    paths = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    # A model's name may have 64 characters, and a file's 128.
    longest = max(len(path) + 64 - len(MODEL) if MODEL in path else len(path) for path in paths)
    assert longest < LONGEST
    assert not [path for path in paths if set(path) & set('<>:"|?*\\')]
