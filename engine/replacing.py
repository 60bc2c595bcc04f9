"""Writing files so that they are replaced whole or not at all."""

import errno
import os
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# Names have 255 bytes at most, and what is added takes some.
_KEPT_CHARACTERS = 32
# Windows replaces no file that somebody has open, as virus scanners have what is new for a while.
_PATIENCE_S = 2.0 if sys.platform == "win32" else 0.0
_TRY_AGAIN_S = 0.02
_SYNCS_FOLDERS = sys.platform != "win32"


def move(part: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Give a file the name of another, which it replaces.

    On Windows it waits up to 2 s for whoever has one of them open. Raises OSError; both files are
    then as they were.
    """
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return os.replace(part, target)
        except PermissionError:
            if time.monotonic() >= until_s:
                raise
        time.sleep(_TRY_AGAIN_S)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Wait until the names made, replaced or removed in a folder are on the disk.

    Windows has no such call.
    """
    if _SYNCS_FOLDERS:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path]:
    """Write a whole file or none: yield a path beside `path` that takes its place at the end.

    The path yielded has the suffix of `path`. On any error the file at `path` stays as it was. A
    link stays, and its target is replaced. Something other than a file, such as /dev/null or a
    pipe, stays as well: what was written is copied to it at the end.
    Raises IsADirectoryError for a folder.
    """
    try:
        mode: int | None = os.stat(path).st_mode
    except OSError:
        # The path does not exist, or its fault shows when it is written.
        mode = None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if mode is not None and not stat.S_ISREG(mode):
        import shutil
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder, f"part{Path(path).suffix}")
            yield part
            with part.open("rb") as written, _opened(path) as to:
                shutil.copyfileobj(written, to)
        return
    if not os.fspath(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "")
    target = Path(os.path.realpath(path))
    stem = target.stem[:_KEPT_CHARACTERS]
    part = target.with_name(f".{stem}.{os.urandom(8).hex()}.part{Path(path).suffix}")
    try:
        yield part
        if mode is not None:
            with suppress(OSError):
                part.chmod(stat.S_IMODE(mode))
        move(part, target)
    except OSError as error:
        # Nothing else knows the temporary name.
        if error.filename == os.fspath(part):
            error.filename, error.filename2 = os.fspath(path), None
        raise
    finally:
        # An error here would hide the original one.
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a device or pipe for writing; a pipe without a reader is an error, not waited for."""
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    if sys.platform != "win32":
        os.set_blocking(descriptor, True)
    return open(descriptor, "wb")
