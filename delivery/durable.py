"""Writing so that power may fail at any moment: what a name holds is old or new, never half."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
import time
from pathlib import Path

from palmkit.engine.errors import DeliveryError


def sync_file(descriptor: int) -> None:
    """Wait until the bytes written to an open file are on the disk itself."""
    if sys.platform == "darwin":
        import fcntl

        # fsync on macOS leaves the bytes in the drive's cache.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names made, replaced or removed in a folder are on the disk."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(path: Path, content: bytes) -> None:
    """Give a file this content, whole and durably, in place of what it held.

    Raises OSError; the file is then as it was.
    """
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            sync_file(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    sync_folder(path.parent)


def sweep(folder: Path, older_than_s: float = 86400.0) -> None:
    """Remove what writes that were killed left in a folder; a write under way is younger."""
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > older_than_s:
                path.unlink()


def explain(error: OSError, what: str) -> DeliveryError:
    """The error to raise for one of the file system: disk_full where room is what is missing."""
    full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    code = "disk_full" if full else "download_fail"
    return DeliveryError(code, f"{what}: {error.strerror or error}")
