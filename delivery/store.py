"""Files by the sha256 of their content: whole and verified, or not there at all.

folder/sha256/ab/<64 hex>   verified, read-only, never changed; hashed again before it is used
folder/tmp/<64 hex>.part    the part received so far; .json: its source; .bad: wrong answers
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Collection, Generator, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from palmkit.delivery import durable
from palmkit.delivery.lock import FileLock, Held
from palmkit.engine.errors import DeliveryError
from palmkit.engine.replacing import move, sync_folder

# Bytes left free for the rest of the device.
RESERVE_BYTES = 16 << 20
READ_BYTES = 1 << 20
# For how long a process trusts the hash of a file that nothing has touched since.
HASHED_FOR_S = 600.0
# How long another process may hold the lock, unless the caller knows better.
LOCK_S = 60.0
# Errors that say nothing about the file.
PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})


def sha256_of(path: Path) -> str:
    """Return the sha256 of a regular file's content, 64 hexadecimal digits. Raises OSError."""
    with durable.open_to_read(path) as file:
        return _sha256(file)


def _sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(READ_BYTES):
        digest.update(block)
    return digest.hexdigest()


class BlobStore:
    """The files of a device; several processes may use one folder at once.

    Reading takes no lock. Fetching, adding and collecting take the store's.
    """

    def __init__(self, folder: Path, quota_bytes: int | None = None) -> None:
        """Use a folder.

        folder: made when first written to. quota_bytes: the most that all files may take.
        """
        self._folder, self._quota_bytes = folder, quota_bytes
        # Files that this process has hashed: their state then, and the time.
        self._whole: dict[Path, tuple[tuple[int, ...], float]] = {}

    def path(self, sha256: str, size_bytes: int | None = None) -> Path | None:
        """Return the file of this content, None if it is missing; a damaged one is removed.

        Raises OSError if that cannot be determined, because the process has no more files to open.
        """
        path = self._place(sha256)
        try:
            found = path.lstat()
        except OSError:
            return None
        if self.is_whole(path, sha256, size_bytes):
            return path
        with contextlib.suppress(OSError):
            # Another process may have fetched it again meanwhile.
            if _looks(path.lstat()) == _looks(found):
                path.unlink()
        return None

    def is_whole(
        self, path: Path, sha256: str, size_bytes: int | None = None, anew: bool = False
    ) -> bool:
        """Return whether a file has this content; False for anything but a regular file.

        It is hashed once in a process, and again if anything touched it or a while went by.
        anew: hash it whatever is known of it. Raises OSError as path does.
        """
        try:
            found = path.lstat()
            if size_bytes not in (None, found.st_size):
                return False
            looks, at = self._whole.get(path, ((), 0.0))
            now = time.monotonic()
            if not anew and looks == _looks(found) and now - at < HASHED_FOR_S:
                return True
            self._whole.pop(path, None)
            if sha256_of(path) != sha256:
                return False
        except OSError as error:
            if error.errno in PASSING:
                raise
            return False
        self._whole[path] = _looks(found), now
        return True

    def _place(self, sha256: str) -> Path:
        return self._folder / "sha256" / sha256[:2] / sha256

    def _temporary(self, sha256: str, kind: str) -> Path:
        return self._folder / "tmp" / f"{sha256}.{kind}"

    @contextlib.contextmanager
    def lock(self, wait_s: float = LOCK_S) -> Generator[None]:
        """Hold the store's lock; wait up to wait_s for another holder, 0 not at all.

        Raises DeliveryError (download_fail) if it is not free in time.
        """
        lock = FileLock(self._folder / "lock")
        try:
            durable.make_folder(self._folder / "tmp", self._folder)
            lock.acquire(wait_s)
        except Held:
            message = f"another process is at work in {self._folder}"
            raise DeliveryError("download_fail", message) from None
        except OSError as error:
            raise durable.explain(error, f"cannot keep files in {self._folder}") from error
        try:
            yield
        finally:
            lock.release()

    def part(self, sha256: str) -> Path:
        """Return the file that collects incoming content; use it under the lock only."""
        return self._temporary(sha256, "part")

    def part_bytes(self, sha256: str) -> int:
        """Return the size of the part; anything but a file of the store alone is discarded."""
        part = self.part(sha256)
        try:
            found = part.lstat()
        except OSError:
            return 0
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            return found.st_size
        self.discard(sha256)
        return 0

    def open_part(self, sha256: str, goes_on: bool = False) -> BinaryIO:
        """Open the part for writing, at its end if goes_on. Raises OSError."""
        part = self.part(sha256)
        return durable.open_to_append(part) if goes_on else durable.create(part)

    def note(self, sha256: str, **values: str) -> None:
        """Store facts about a part, such as the URL it comes from, replacing earlier ones."""
        with durable.create(self._temporary(sha256, "json")) as file:
            file.write(json.dumps(values).encode())

    def notes(self, sha256: str) -> dict[str, str]:
        """Return the facts stored about a part; empty if they were lost."""
        return {
            name: value
            for name, value in _read_json(self._temporary(sha256, "json")).items()
            if isinstance(value, str)
        }

    def discard(self, sha256: str) -> None:
        """Discard the part of a file."""
        _remove(self.part(sha256))
        _remove(self._temporary(sha256, "json"))

    def commit(self, sha256: str) -> Path:
        """Turn the part into the file if its content, read back, is right.

        Raises DeliveryError (hash_mismatch); the part is then gone.
        """
        part, path = self.part(sha256), self._place(sha256)
        try:
            with durable.open_to_append(part) as file:
                durable.sync_file(file.fileno())
                file.seek(0)
                if (got := _sha256(file)) != sha256:
                    self.discard(sha256)
                    raise DeliveryError("hash_mismatch", f"expected sha256 {sha256}, got {got}")
                hashed = os.fstat(file.fileno())
            durable.forbid_writing(part)
            durable.make_folder(path.parent, self._folder)
            if path.is_dir() and not path.is_symlink():
                durable.remove(path)
            move(part, path)
            sync_folder(path.parent)
            sync_folder(path.parent.parent)
            if (found := path.lstat()).st_ino == hashed.st_ino:
                self._whole[path] = _looks(found), time.monotonic()
        except OSError as error:
            raise durable.explain(error, f"cannot keep {path.name}") from error
        self.discard(sha256)
        _remove(self._temporary(sha256, "bad"))
        return path

    def add(self, content: bytes | Path, sha256: str | None = None) -> Path:
        """Store this content, or a copy of this file, and return its path; takes the lock.

        Raises DeliveryError: hash_mismatch if it does not match sha256, disk_full.
        """
        data = content.read_bytes() if isinstance(content, Path) else content
        sha256 = sha256 or hashlib.sha256(data).hexdigest()
        with self.lock():
            if (path := self.path(sha256)) is not None:
                return path
            self.discard(sha256)
            self.reserve(len(data))
            try:
                with self.open_part(sha256) as file:
                    file.write(data)
            except OSError as error:
                self.discard(sha256)
                raise durable.explain(error, f"cannot keep {sha256}") from error
            return self.commit(sha256)

    def strike(self, sha256: str, metadata: str) -> int:
        """Count a server's wrong bytes for this content; return the count under this metadata."""
        count = self.strikes(sha256, metadata) + 1
        with contextlib.suppress(OSError):
            text = json.dumps({"metadata": metadata, "count": count})
            durable.write(self._temporary(sha256, "bad"), text.encode())
        return count

    def strikes(self, sha256: str, metadata: str) -> int:
        """Return that count, since this metadata was published."""
        known = _read_json(self._temporary(sha256, "bad"))
        count = known.get("count", 0)
        return count if known.get("metadata") == metadata and isinstance(count, int) else 0

    def reserve(self, size_bytes: int) -> None:
        """Check that this many more bytes may be written.

        Raises DeliveryError (disk_full) if they would exceed the quota or leave the disk too
        little.
        """
        if self._quota_bytes is not None and self.size_bytes() + size_bytes > self._quota_bytes:
            expected = f"expected at most {self._quota_bytes} bytes of models"
            got = self.size_bytes() + size_bytes
            raise DeliveryError("disk_full", f"quota: {expected}, got {got}")
        existing = next(p for p in (self._folder, *self._folder.parents) if p.exists())
        free = shutil.disk_usage(existing).free
        if free < (needed := size_bytes + RESERVE_BYTES):
            message = f"expected {needed} bytes free in {self._folder}, got {free}"
            raise DeliveryError("disk_full", message)

    def size_bytes(self) -> int:
        """Return the size of all files, including unfinished ones."""
        return sum(_size(path) for path in self._files())

    def _files(self) -> Iterator[Path]:
        for pattern in ("sha256/??/*", "tmp/*"):
            yield from self._folder.glob(pattern)

    def collect(self, keep: Collection[str]) -> int:
        """Remove all files, finished or not, whose sha256 is not in keep; return the bytes freed.

        It does nothing while another process fetches, which may need what comes in.
        """
        freed = 0
        try:
            with self.lock(0):
                for path in self._files():
                    if path.name.partition(".")[0] not in keep:
                        size = _size(path)
                        freed += size if _remove(path) else 0
        except DeliveryError:
            return 0
        return freed


def _looks(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes when a file is touched, by whomever and whatever its times are set to."""
    of_file = found.st_dev, found.st_ino, found.st_size
    return (*of_file, found.st_mtime_ns, found.st_ctime_ns)


def _read_json(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        value: Any = json.loads(durable.read(path))
        return {**value} if isinstance(value, dict) else {}
    return {}


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
