"""Writing so that power may fail at any moment: a name holds the old or the new content whole."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

from palmkit.engine.errors import DeliveryError
from palmkit.engine.replacing import move, sync_folder


def sync_file(descriptor: int) -> None:
    """Wait until the bytes written to an open file are on the disk itself."""
    if sys.platform == "darwin":
        import fcntl

        # fsync on macOS leaves the bytes in the drive's cache.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


# The files of a store belong to its user alone, so no link is followed: it may lead to a file of
# somebody else. Pipes and devices are not opened, as reading them may never end.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FLAGS = _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_IS_WINDOWS = os.name == "nt"


def make_folder(folder: Path, top: Path) -> None:
    """Make a folder for this user alone, and those above it as far as top.

    Folders above top are made where they are missing, and may be links, as top itself.
    Raises OSError, also where a name belongs to something other than a folder.
    """
    top.parent.mkdir(parents=True, exist_ok=True)
    places = [place for place in (folder, *folder.parents) if place.is_relative_to(top)]
    for place in reversed(places):
        try:
            os.mkdir(place, 0o700)
            # Set explicitly, as the umask may remove bits.
            os.chmod(place, 0o700)
        except FileExistsError:
            found = place.stat() if place == top else place.lstat()
            if not stat.S_ISDIR(found.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(place)) from None
            _mend(place, found)


def mend(folder: Path) -> None:
    """Remove other users' permissions on a folder and all that is in it.

    A file with another name elsewhere stays as it is, as it does not belong to the folder alone.
    """
    with contextlib.suppress(OSError):
        _mend(folder, folder.stat())
    names: dict[tuple[int, int], int] = {}
    files: list[tuple[Path, os.stat_result]] = []
    for place, folders, others in os.walk(folder):
        for name in (*folders, *others):
            with contextlib.suppress(OSError):
                path = Path(place, name)
                found = path.lstat()
                if stat.S_ISDIR(found.st_mode):
                    _mend(path, found)
                else:
                    key = found.st_dev, found.st_ino
                    names[key] = names.get(key, 0) + 1
                    files.append((path, found))
    for path, found in files:
        if names[found.st_dev, found.st_ino] == found.st_nlink:
            _mend(path, found)


def _mend(path: Path, found: os.stat_result) -> None:
    is_ours = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    if not _IS_WINDOWS and is_ours and found.st_mode & 0o077:
        with contextlib.suppress(OSError):
            os.chmod(path, stat.S_IMODE(found.st_mode) & 0o700)


def is_own(found: os.stat_result) -> bool:
    """Return whether it is a regular file that has no other name."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def open_to_read(path: Path) -> BinaryIO:
    """Open a regular file. Raises OSError, also for a link, a pipe or a device."""
    return open(_open(path, os.O_RDONLY), "rb")


def open_to_append(path: Path) -> BinaryIO:
    """Open a regular file of one name, to write at its end and to read. Raises OSError."""
    descriptor = _open(path, os.O_RDWR | os.O_APPEND)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, "another name leads to the same file", str(path))
    return open(descriptor, "ab+")


def create(path: Path) -> BinaryIO:
    """Open a new file of this user alone in place of what has the name. Raises OSError."""
    path.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    descriptor = os.open(path, flags | _FLAGS, 0o600)
    _set_mode(descriptor)
    return open(descriptor, "wb+")


def open_or_create(path: Path) -> int:
    """Return a descriptor of a file of this user alone, to read and write.

    Anything else of that name is replaced. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) and not is_own(found):
            path.unlink()
    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    _set_mode(descriptor)
    return descriptor


def prepare_database(file: Path) -> None:
    """Ensure that the file SQLite opens by this name belongs to this user alone.

    A read-only file stays read-only. Raises OSError.
    """
    for path in (*(file.with_name(file.name + end) for end in ("-journal", "-wal", "-shm")), file):
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) or is_own(found):
                continue
            if path == file and stat.S_ISREG(found.st_mode):
                # Written in place, it would change under its other name, too: that of a copy.
                write(file, read(file))
            else:
                path.unlink()
    try:
        # SQLite gives its journal the same mode.
        os.close(open_or_create(file))
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        open_to_read(file).close()


def read(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises OSError, also for a link, a pipe or a device.
    """
    with open_to_read(path) as file:
        return file.read()


def _open(path: Path, flags: int) -> int:
    if not _NO_LINK and path.is_symlink():
        raise OSError(errno.ELOOP, "a link", str(path))
    descriptor = os.open(path, flags | _FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def _set_mode(descriptor: int) -> None:
    if sys.platform != "win32" and hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, 0o600)


def write(path: Path, content: bytes) -> None:
    """Give a file this content, whole and durably, in place of what it held.

    Raises OSError; the file is then as it was.
    """
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    _set_mode(descriptor)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            sync_file(file.fileno())
        move(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    sync_folder(path.parent)


def forbid_writing(path: Path) -> None:
    """Let nobody write a file; not on Windows, which replaces and removes no such file either."""
    if not _IS_WINDOWS:
        path.chmod(0o400)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, as far as possible.

    A link is removed, not its target; a pipe or a device is not opened, as shutil.rmtree would.
    """
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def sweep(folder: Path, older_than_s: float = 86400.0) -> None:
    """Remove what killed writes left in a folder; a write under way is younger."""
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > older_than_s:
                path.unlink()


def explain(error: OSError, what: str) -> DeliveryError:
    """Return the error to raise for one of the file system: disk_full where space ran out."""
    full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    code = "disk_full" if full else "download_fail"
    return DeliveryError(code, f"{what}: {error.strerror or error}")
