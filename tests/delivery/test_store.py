"""The store: what it gives is whole and right, whatever happened to the disk."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from palmkit.delivery import store as store_module
from palmkit.delivery.store import BlobStore
from palmkit.engine.errors import DeliveryError

CONTENT = b"a model" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def test_what_is_added_is_there_read_only(store: BlobStore, tmp_path: Path) -> None:
    assert store.path(SHA256) is None
    path = store.add(CONTENT)
    assert store.path(SHA256) == store.path(SHA256, len(CONTENT)) == path
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o222 == 0
    other = tmp_path / "other"
    other.write_bytes(b"other")
    assert store.add(other).read_bytes() == other.read_bytes()
    assert store.add(CONTENT) == path
    assert store.size_bytes() == len(CONTENT) + 5


def test_what_is_not_what_it_should_be_is_not_kept(store: BlobStore) -> None:
    with pytest.raises(DeliveryError, match="expected sha256") as caught:
        store.add(b"other", SHA256)
    assert caught.value.code == "hash_mismatch"
    assert store.path(SHA256) is None and store.size_bytes() == 0


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_file_is_found_and_removed(store: BlobStore, damage: str) -> None:
    path = store.add(CONTENT)
    path.chmod(0o644)
    changed = {"flip": b"b" + CONTENT[1:], "truncate": CONTENT[:-1], "empty": b""}[damage]
    path.write_bytes(changed)
    assert store.path(SHA256) is None
    assert not path.exists()
    assert store.add(CONTENT).read_bytes() == CONTENT


def test_a_truncated_file_whose_time_was_kept_is_found_by_its_size(store: BlobStore) -> None:
    path = store.add(CONTENT)
    time = path.stat().st_mtime
    path.chmod(0o644)
    path.write_bytes(CONTENT[:-1])
    os.utime(path, (time, time))
    assert store.path(SHA256, len(CONTENT)) is None


def test_a_file_that_was_copied_is_hashed_once_and_kept(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.add(CONTENT)
    os.utime(path)
    hashed: list[Path] = []
    original = store_module.sha256_of

    def noting(path: Path) -> str:
        hashed.append(path)
        return original(path)

    monkeypatch.setattr(store_module, "sha256_of", noting)
    assert store.path(SHA256) == store.path(SHA256) == path
    assert hashed == [path]


def test_collect_removes_what_is_not_kept(store: BlobStore) -> None:
    kept, gone = store.add(CONTENT), store.add(b"gone" * 10)
    with store.lock():
        store.part("0" * 64).write_bytes(b"half")
        store.note("0" * 64, url="x")
        store.part("1" * 64).write_bytes(b"half")
        assert store.collect([SHA256]) == 0, "another holds the lock"
    assert store.collect([SHA256, "1" * 64]) == 40 + 4 + len('{"url": "x"}')
    assert kept.exists() and not gone.exists()
    assert store.part("1" * 64).exists() and not store.part("0" * 64).exists()


def test_the_quota_is_kept(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, quota_bytes=len(CONTENT) + 10)
    store.add(CONTENT)
    store.add(b"0123456789")
    with pytest.raises(DeliveryError, match="quota") as caught:
        store.add(b"x")
    assert caught.value.code == "disk_full"


def test_a_disk_without_room_is_seen_before_it_is_full(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=17 << 20)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    store.reserve(1 << 20)
    with pytest.raises(DeliveryError, match="bytes free") as caught:
        store.reserve((1 << 20) + 1)
    assert caught.value.code == "disk_full"


def test_strikes_count_by_metadata(store: BlobStore) -> None:
    store.add(b"makes the folders")
    assert [store.strike(SHA256, "1") for _ in range(3)] == [1, 2, 3]
    assert (store.strikes(SHA256, "1"), store.strikes(SHA256, "2")) == (3, 0)
    assert store.strike(SHA256, "2") == 1
    store.add(CONTENT)
    assert store.strikes(SHA256, "2") == 0, "it came right in the end"


def test_damaged_notes_are_none(store: BlobStore) -> None:
    store.add(b"makes the folders")
    for text in (b"", b"{", b"[1]", b"\xff", b'{"etag": 1}', b"[" * 100000):
        (store.part(SHA256).parent / f"{SHA256}.json").write_bytes(text)
        (store.part(SHA256).parent / f"{SHA256}.bad").write_bytes(text)
        assert store.notes(SHA256) == {} and store.strikes(SHA256, "") == 0


def test_a_store_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DeliveryError, match="cannot keep files"):
        BlobStore(tmp_path / "file").add(CONTENT)
    assert BlobStore(tmp_path / "file").path(SHA256) is None


def test_the_lock_is_one_for_threads_and_processes(store: BlobStore, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from palmkit.delivery.store import BlobStore\n"
        "with BlobStore(Path(sys.argv[1])).lock():\n print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "blobs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(DeliveryError, match="another process"), store.lock(0):
            raise AssertionError
        other.kill()
    with store.lock(5):
        seen: list[str] = []

        def try_it() -> None:
            try:
                with store.lock(0):
                    seen.append("held twice")
            except DeliveryError as error:
                seen.append(error.code)

        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        assert seen == ["download_fail"]
