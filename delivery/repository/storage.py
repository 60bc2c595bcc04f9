"""Where the static part of a repository lies: a folder, or a bucket (s3.py).

A name is created once, with all of its bytes, and never changed; only timestamp.json is replaced.
That is what makes a publish atomic for those who read at the same time.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from palmkit.delivery.durable import sync_file
from palmkit.engine.errors import RepositoryError
from palmkit.engine.reading import check_readable
from palmkit.engine.replacing import move, sync_folder

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One file of the static part."""

    name: str
    size: int
    modified_s: float


class Conflict(RepositoryError):
    """Raised when somebody else wrote at the same time: read again, and repeat the work."""


class Missing(RepositoryError):
    """Raised when there is no such model, release or channel."""


class Storage(Protocol):
    """Files by name (`metadata/3.snapshot.json`); RepositoryError where they cannot be reached."""

    def read(self, name: str) -> bytes | None:
        """Return the whole file, None if there is no such file."""
        ...

    def create(self, name: str, content: bytes) -> None:
        """Write a new file durably; raise Conflict if it exists."""
        ...

    def add(self, name: str, source: Path | bytes) -> None:
        """Store a checked copy of a file, or bytes, under a name that begins with its SHA-256.

        Raises RepositoryError if the digest is another one.
        """
        ...

    def replace(self, name: str, content: bytes) -> None:
        """Overwrite the file as last read, durably; raise Conflict if it has changed."""
        ...

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield all files below a prefix that ends with /."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        ...


def sha256_of(source: Path | bytes) -> str:
    """Return the SHA-256 of a file, or of bytes, in hexadecimal."""
    digest = sha256()
    for chunk in chunks(source):
        digest.update(chunk)
    return digest.hexdigest()


def chunks(source: Path | bytes) -> Iterator[bytes]:
    """Yield a file's bytes, a megabyte at a time."""
    if isinstance(source, bytes):
        yield source
        return
    check_readable(source)
    with source.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def digest_in(name: str) -> str:
    """Return the SHA-256 that a target's name begins with."""
    return name.rpartition("/")[2].partition(".")[0]


class Folder:
    """A folder of this machine. The writer holds the repository's lock."""

    def __init__(self, path: Path) -> None:
        """Use `path`, which need not exist yet."""
        self.path = path

    def __str__(self) -> str:
        """Return the folder's path."""
        return str(self.path)

    def read(self, name: str) -> bytes | None:
        """Return the whole file, None if there is no such file."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> None:
        """Write a new file."""
        if (self.path / name).exists():
            raise Conflict(f"written by somebody else at the same time: {name}")
        write_durably(self.path / name, [content])

    def add(self, name: str, source: Path | bytes) -> None:
        """Copy a file, unless it exists whole."""
        target = self.path / name
        if target.is_file() and sha256_of(target) == digest_in(name):
            return
        write_durably(target, chunks(source))
        if sha256_of(target) != digest_in(name):
            target.unlink()
            raise RepositoryError(f"changed while it was copied: {name}")

    def replace(self, name: str, content: bytes) -> None:
        """Overwrite an existing file."""
        write_durably(self.path / name, [content])

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield all files below a prefix, without half-written ones."""
        for folder, _, names in os.walk(self.path / prefix):
            for name in names:
                if not name.startswith("."):
                    path = Path(folder, name)
                    facts = path.stat()
                    relative = path.relative_to(self.path).as_posix()
                    yield Entry(relative, facts.st_size, facts.st_mtime)

    def delete(self, name: str) -> None:
        """Delete a file."""
        (self.path / name).unlink(missing_ok=True)


def write_durably(target: Path, content: Iterable[bytes], mode: int = 0o644) -> None:
    """Write a file that survives a power cut, or none: synced, renamed, its folder synced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name[:64]}.{secrets.token_hex(8)}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.writelines(content)
            file.flush()
            sync_file(file.fileno())
        move(part, target)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(target.parent)
