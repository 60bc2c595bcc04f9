"""Files by the sha256 of their content: whole and verified, or not there at all.

folder/sha256/ab/<64 hex>   verified, read-only, never changed
folder/tmp/<64 hex>.part    what has come so far of one; .json: where from; .bad: how often it lied
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Generator, Iterator
from pathlib import Path
from typing import Any

from palmkit.delivery import durable
from palmkit.engine.errors import DeliveryError

# Left to the rest of the device.
RESERVE_BYTES = 16 << 20
READ_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content, 64 hexadecimal digits. Raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


class BlobStore:
    """The files a device keeps; several processes may use one folder at once.

    Reading takes no lock. Fetching, adding and collecting take the store's.
    """

    def __init__(self, folder: Path, quota_bytes: int | None = None) -> None:
        """folder: made when first written to. quota_bytes: most that all files may take."""
        self._folder, self._quota_bytes = folder, quota_bytes

    def path(self, sha256: str, size_bytes: int | None = None) -> Path | None:
        """The file of this content, None if it is not here.

        It is hashed again where its time or size says that something touched it, and removed if
        its content changed.
        """
        path = self._place(sha256)
        try:
            status = path.stat()
        except OSError:
            return None
        is_as_left = status.st_mtime == _mark(sha256)
        if is_as_left and size_bytes in (None, status.st_size):
            return path
        try:
            if sha256_of(path) == sha256:
                with contextlib.suppress(OSError):
                    os.utime(path, (_mark(sha256), _mark(sha256)))
                return path
            _remove(path)
        except OSError:
            pass
        return None

    def _place(self, sha256: str) -> Path:
        return self._folder / "sha256" / sha256[:2] / sha256

    def _temporary(self, sha256: str, kind: str) -> Path:
        return self._folder / "tmp" / f"{sha256}.{kind}"

    @contextlib.contextmanager
    def lock(self, wait_s: float = -1.0) -> Generator[None]:
        """Hold the store's lock, for which others wait; wait_s: 0 not at all, -1 for ever.

        Raises DeliveryError (download_fail) if it is not free in time.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self._folder / "lock", timeout=wait_s)
        try:
            (self._folder / "tmp").mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            message = f"another process is at work in {self._folder}"
            raise DeliveryError("download_fail", message) from None
        except OSError as error:
            raise durable.explain(error, f"cannot keep files in {self._folder}") from error
        try:
            yield
        finally:
            lock.release()

    def part(self, sha256: str) -> Path:
        """Where the content that comes is gathered; only under the lock."""
        return self._temporary(sha256, "part")

    def note(self, sha256: str, **values: str) -> None:
        """Keep facts about a part, such as the URL it comes from, in place of those before."""
        self._temporary(sha256, "json").write_text(json.dumps(values))

    def notes(self, sha256: str) -> dict[str, str]:
        """The facts kept about a part; none where they were lost."""
        return {
            name: value
            for name, value in _read_json(self._temporary(sha256, "json")).items()
            if isinstance(value, str)
        }

    def discard(self, sha256: str) -> None:
        """Forget what has come of a file."""
        _remove(self.part(sha256))
        _remove(self._temporary(sha256, "json"))

    def commit(self, sha256: str, mode: int = 0o444) -> Path:
        """Make the part the file if its content, read back from disk, is right.

        mode: who may read it.
        Raises DeliveryError (hash_mismatch); the part is then gone.
        """
        part, path = self.part(sha256), self._place(sha256)
        try:
            with open(part, "rb+") as file:
                durable.sync_file(file.fileno())
            if (got := sha256_of(part)) != sha256:
                self.discard(sha256)
                raise DeliveryError("hash_mismatch", f"expected sha256 {sha256}, got {got}")
            os.utime(part, (_mark(sha256), _mark(sha256)))
            part.chmod(mode)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(part, path)
            durable.sync_folder(path.parent)
            durable.sync_folder(path.parent.parent)
        except OSError as error:
            raise durable.explain(error, f"cannot keep {path.name}") from error
        self.discard(sha256)
        _remove(self._temporary(sha256, "bad"))
        return path

    def add(self, content: bytes | Path, sha256: str | None = None) -> Path:
        """Keep this content, or a copy of this file, and give its place; takes the lock.

        Raises DeliveryError: hash_mismatch if it is not what sha256 says, disk_full.
        """
        if sha256 is None:
            if isinstance(content, Path):
                sha256 = sha256_of(content)
            else:
                sha256 = hashlib.sha256(content).hexdigest()
        with self.lock():
            if (path := self.path(sha256)) is not None:
                return path
            self.discard(sha256)
            self.reserve(content.stat().st_size if isinstance(content, Path) else len(content))
            try:
                if isinstance(content, Path):
                    shutil.copyfile(content, self.part(sha256))
                else:
                    self.part(sha256).write_bytes(content)
            except OSError as error:
                self.discard(sha256)
                raise durable.explain(error, f"cannot keep {sha256}") from error
            return self.commit(sha256)

    def strike(self, sha256: str, metadata: str) -> int:
        """Note that a server gave other bytes for this content: how often under this metadata."""
        count = self.strikes(sha256, metadata) + 1
        with contextlib.suppress(OSError):
            text = json.dumps({"metadata": metadata, "count": count})
            durable.write(self._temporary(sha256, "bad"), text.encode())
        return count

    def strikes(self, sha256: str, metadata: str) -> int:
        """How often that was, since this metadata was published."""
        known = _read_json(self._temporary(sha256, "bad"))
        count = known.get("count", 0)
        return count if known.get("metadata") == metadata and isinstance(count, int) else 0

    def reserve(self, size_bytes: int) -> None:
        """See that this much more may be written.

        Raises DeliveryError (disk_full) if it would pass the quota or leave the disk too little.
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
        """What all files take, unfinished ones too."""
        return sum(_size(path) for path in self._files())

    def _files(self) -> Iterator[Path]:
        for pattern in ("sha256/??/*", "tmp/*"):
            yield from self._folder.glob(pattern)

    def collect(self, keep: Collection[str]) -> int:
        """Remove every file, finished or not, whose sha256 is not among those; bytes freed.

        Does nothing while another process fetches: what comes in may be what it will want.
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


def _mark(sha256: str) -> float:
    """The time of change that the store gives a file: any other says that it was touched.

    Even whole seconds from 2001 to 2010, which every file system can keep.
    """
    return float(1_000_000_000 + int(sha256[:7], 16) // 2 * 2)


def _read_json(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        value: Any = json.loads(path.read_bytes())
        return {**value} if isinstance(value, dict) else {}
    return {}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
